//! Start and end of a coordinator: state, ledger, journal, scheduler, listeners, event loop, in this order.

use crate::commit::{CommitThread, Definition, History, Parts as CommitParts};
use crate::desk::catalog::Catalog;
use crate::desk::{Desk, Facts};
use crate::driver::watch::Watch;
use crate::driver::{Driver, Parts as DriverParts};
use crate::http;
use crate::journal::Journal;
use crate::scheduler::Scheduler;
use crate::scheduler::fact::Fact;
use crate::state::{Layout, State, io, write_private};
use crate::stores::LedgerBlobs;
use crate::transport::admit::{EnrolledNode, OpenInvite, Register, Standing};
use crate::transport::{Listener, ListenerOptions, ServerIdentity, Stores};
use fleet_config::domain::{LeafIndex, NodeId};
use fleet_config::identity::SecretKey;
use fleet_config::refusal::Refusal;
use ledger::blob::BlobStore;
use ledger::entry::predicate::Genesis;
use ledger::entry::{FORMAT, Signers, Subject, check, seal};
use ledger::index::Index;
use ledger::log::{LogReader, LogSigner, LogWriter};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Requests, ledger events and transport events that wait for the loop: a few turns of it.
const QUEUE: usize = 4_096;

/// What a coordinator is started with.
#[derive(Debug, Clone)]
pub struct Options {
    pub state: PathBuf,
    /// Where nodes connect over QUIC; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Addresses written into invites beside the one listened on.
    pub advertise: Vec<String>,
}

/// Runs a coordinator until it is asked to stop.
pub async fn run(options: Options) -> Result<(), Refusal> {
    let state = State::open(&options.state)?;
    let layout = state.layout();
    let operator = state.key("operator")?;
    let opened = open_ledger(&layout, &state, &operator)?;
    let (journal, facts, report) =
        Journal::open(layout.folder()).map_err(|error| stop("journal", &layout, &error))?;
    if let Some(torn) = &report.torn {
        tracing::warn!(
            ?torn,
            "the journal ended in an unfinished write; it was cut off and kept beside the file"
        );
    }
    let register = register(&facts, &opened.history.signers);
    let scheduler = Scheduler::replay(facts).map_err(|error| stop("journal", &layout, &error))?;
    let names = opened.history.signers.nodes().map(|(id, node)| (*id, node.name.clone())).collect();
    let events = opened.history.events.clone();
    let catalog = Arc::new(catalog(&opened.history));
    let (ledger_sender, ledger) = mpsc::channel(QUEUE);
    let (requests_sender, requests) = mpsc::channel(QUEUE);
    let (transport_sender, transport) = mpsc::channel(QUEUE);
    let Opened { log, blobs, index, history, origin, vkey, promises } = opened;
    let parts = CommitParts {
        log,
        blobs: Arc::clone(&blobs),
        index,
        history,
        origin: origin.clone(),
        operator,
        promises,
        events: ledger_sender,
    };
    let (thread, commit) = CommitThread::start(parts).map_err(|error| stop("ledger", &layout, &error))?;
    let watch = Arc::new(Watch::default());
    let (listener, facts) = listen(&options, &layout, &blobs, transport_sender, &origin, &vkey)?;
    let desk = Arc::new(Desk {
        catalog: Arc::clone(&catalog),
        blobs: Arc::clone(&blobs),
        commit: commit.clone(),
        requests: requests_sender,
        watch: Arc::clone(&watch),
        operator: state.key("operator")?,
        facts,
    });
    let driver = DriverParts {
        scheduler,
        journal,
        commit: commit.clone(),
        blobs,
        watch,
        register,
        names,
        origin,
        vkey,
        documents: catalog,
        requests,
        ledger,
        transport,
    };
    let running = Running { layout, listener, commit, thread };
    running.until_stopped(desk, driver, events).await
}

/// What must be ended in order.
struct Running {
    layout: Layout,
    listener: Listener,
    commit: crate::commit::CommitHandle,
    thread: CommitThread,
}

impl Running {
    async fn until_stopped(
        self,
        desk: Arc<Desk>,
        driver: DriverParts,
        history: Vec<crate::scheduler::input::LedgerEvent>,
    ) -> Result<(), Refusal> {
        let cancel = CancellationToken::new();
        let served = tokio::spawn(serve(Arc::clone(&desk), self.layout.socket(), cancel.clone()));
        announce(&self.layout, &desk)?;
        tokio::spawn(stop_on_signal(desk));
        let ended = tokio::spawn(Driver::run(driver, history)).await;
        cancel.cancel();
        let layout = self.layout.clone();
        self.finish(served).await;
        match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(stop("coordinator", &layout, &error)),
            Err(error) => Err(stop("coordinator", &layout, &error)),
        }
    }

    /// Ends listeners and writer in the order that loses nothing: no new work, then the last integration.
    async fn finish(self, served: tokio::task::JoinHandle<Result<(), Refusal>>) {
        self.listener.shutdown().await;
        // Streams of watchers would keep the server for ever; its work is done.
        served.abort();
        if self.commit.stop().await.is_ok() {
            self.thread.join();
        }
        let _gone = std::fs::remove_file(self.layout.running());
        let _gone_too = std::fs::remove_file(self.layout.socket());
    }
}

/// The ledger with its history.
struct Opened {
    log: LogWriter,
    blobs: Arc<BlobStore>,
    index: Index,
    history: History,
    origin: String,
    vkey: String,
    promises: LogSigner,
}

fn open_ledger(layout: &Layout, state: &State, operator: &SecretKey) -> Result<Opened, Refusal> {
    let folder = layout.ledger();
    let key_id = operator.public().key_id().to_string();
    let origin = format!("muster.invalid/{}", &key_id[..16]);
    let signer = || {
        let seed = state.key("log")?.seed();
        LogSigner::new(&origin, ed25519_dalek::SigningKey::from_bytes(&seed))
            .map_err(|error| stop("ledger", layout, &error))
    };
    let vkey = signer()?.verifier().to_string();
    let exists = folder.join("checkpoint").exists() || folder.join(".state/version").exists();
    let mut log = if exists {
        let (log, report) =
            LogWriter::open(&folder, signer()?).map_err(|error| stop("ledger", layout, &error))?;
        if let Some(torn) = report.torn {
            tracing::warn!(
                ?torn,
                "the ledger's WAL ended in an unfinished write; nothing acknowledged was in it"
            );
        }
        log
    } else {
        LogWriter::create(&folder, signer()?).map_err(|error| stop("ledger", layout, &error))?
    };
    let blobs = Arc::new(BlobStore::open(&folder));
    blobs.clear_temporaries().map_err(|error| stop("ledger", layout, &error))?;
    if log.size() == 0 {
        let genesis = Genesis {
            format: FORMAT,
            origin: origin.clone(),
            operator_key: operator.public().to_hex(),
            created_on: crate::clock::wall_rfc3339(),
        };
        let sealed = seal(genesis, Subject::of_key("operator-key", &operator.public()), operator)
            .map_err(|error| stop("ledger", layout, &error))?;
        log.append_batch(&[sealed.bytes]).map_err(|error| stop("ledger", layout, &error))?;
    }
    log.integrate().map_err(|error| stop("ledger", layout, &error))?;
    let history = read_history(&folder, &vkey, &blobs).map_err(|error| stop("ledger", layout, &error))?;
    for finding in &history.findings {
        tracing::error!(finding, "the ledger's history is damaged; run `muster ledger verify`");
    }
    write_private(&layout.keys().join("log.vkey"), vkey.as_bytes())
        .map_err(|error| io(&layout.keys().display().to_string(), &error))?;
    let reader = reader(&folder, &vkey).map_err(|error| stop("ledger", layout, &error))?;
    let (index, opened) =
        Index::open(&folder.join("index"), &reader).map_err(|error| stop("index", layout, &error))?;
    tracing::info!(?opened, "index");
    let promises = signer()?;
    Ok(Opened { log, blobs, index, history, origin, vkey, promises })
}

fn reader(folder: &Path, vkey: &str) -> anyhow::Result<LogReader> {
    Ok(LogReader::open(folder, &vkey.parse()?)?)
}

fn read_history(folder: &Path, vkey: &str, blobs: &BlobStore) -> anyhow::Result<History> {
    let reader = reader(folder, vkey)?;
    let mut history = History::default();
    for (index, entry) in (0..).zip(reader.entries(0..reader.size())) {
        let checked =
            check(&entry?.1, &history.signers).map_err(|error| anyhow::anyhow!("leaf {index}: {error}"))?;
        history.fold(LeafIndex(index), &checked, blobs);
    }
    Ok(history)
}

fn catalog(history: &History) -> Catalog {
    let catalog = Catalog::default();
    for definition in &history.definitions {
        match definition {
            Definition::Task(id, task, index) => catalog.add_task(*id, (**task).clone(), *index),
            Definition::Policy(id, policy, index) => catalog.add_policy(*id, (**policy).clone(), *index),
        }
    }
    catalog
}

/// What admission knows, from the journal's invites and the ledger's enrolments.
fn register(facts: &[(u64, Fact)], signers: &Signers) -> Register {
    let mut register = Register::default();
    for (_, fact) in facts {
        match fact {
            Fact::InviteCreated(invite) => {
                let open = OpenInvite {
                    id: invite.id.0.clone(),
                    expires_unix_ms: invite.expires_unix_ms,
                    uses: invite.uses,
                    used_by: BTreeSet::new(),
                };
                register.invites.insert(invite.secret_hash, open);
            }
            Fact::InviteConsumed { invite, key } => {
                for open in register.invites.values_mut().filter(|open| open.id == invite.0) {
                    open.used_by.insert(*key);
                }
            }
            Fact::SubmissionAccepted(_)
            | Fact::LeaseGranted(_)
            | Fact::Cancelled(_)
            | Fact::NodeDrained { .. }
            | Fact::NodeUndrained { .. } => {}
        }
    }
    let enrolled = signers.nodes().map(|(node, known)| {
        (*node, EnrolledNode { node: *node, tls_key: known.tls_key, standing: Standing::Trusted })
    });
    register.nodes = enrolled.collect::<BTreeMap<NodeId, EnrolledNode>>();
    register
}

fn listen(
    options: &Options,
    layout: &Layout,
    blobs: &Arc<BlobStore>,
    events: mpsc::Sender<crate::transport::TransportEvent>,
    origin: &str,
    vkey: &str,
) -> Result<(Listener, Facts), Refusal> {
    let identity = ServerIdentity::open(&layout.keys())?;
    let tls_key = identity.fingerprint();
    let stores = Stores {
        source: Arc::new(LedgerBlobs(Arc::clone(blobs))),
        sink: Arc::new(LedgerBlobs(Arc::clone(blobs))),
    };
    let listener = Listener::start(&ListenerOptions { address: options.listen, identity }, stores, events)
        .map_err(|error| {
            Refusal::new(
                "coordinator/listen",
                options.listen.to_string(),
                error.to_string(),
                "choose another address with --listen, or stop what uses this one",
            )
        })?;
    let mut addresses = options.advertise.clone();
    addresses.push(listener.local_address().to_string());
    let facts = Facts {
        origin: origin.to_owned(),
        vkey: vkey.to_owned(),
        addresses,
        tls_key,
        sealed: layout.sealed(),
    };
    Ok((listener, facts))
}

async fn serve(desk: Arc<Desk>, socket: PathBuf, cancel: CancellationToken) -> Result<(), Refusal> {
    let served = http::serve(Arc::clone(&desk), &socket, cancel).await;
    if let Err(refusal) = &served {
        tracing::error!(%refusal, "the HTTP API ended");
        desk.stop();
    }
    served
}

/// Writes what other programs may want to know about the running coordinator.
fn announce(layout: &Layout, desk: &Desk) -> Result<(), Refusal> {
    let text = serde_json::json!({
        "process": std::process::id(),
        "listening": desk.facts.addresses,
        "origin": desk.facts.origin,
        "vkey": desk.facts.vkey,
    });
    write_private(&layout.running(), text.to_string().as_bytes())
        .map_err(|error| io(&layout.running().display().to_string(), &error))?;
    tracing::info!(listening = ?desk.facts.addresses, origin = desk.facts.origin, "coordinator is ready");
    Ok(())
}

async fn stop_on_signal(desk: Arc<Desk>) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return tracing::warn!("signals cannot be watched; stop with `muster down`");
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    desk.stop();
}

/// A refusal to start or to go on.
fn stop(room: &'static str, layout: &Layout, error: &dyn std::fmt::Display) -> Refusal {
    let code = match room {
        "journal" => "state/journal",
        "ledger" => "state/ledger",
        "index" => "state/index",
        _ => "coordinator/ended",
    };
    Refusal::new(
        code,
        layout.folder().display().to_string(),
        error.to_string(),
        "nothing was changed; read the message, run `muster ledger verify`, or restore the folder from a backup",
    )
}
