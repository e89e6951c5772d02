//! Start and end of a coordinator: state, ledger, journal, scheduler, listeners, event loop, in this order.

use crate::address;
use crate::commit::{CommitThread, Definition, History, Parts as CommitParts};
use crate::desk::catalog::Catalog;
use crate::desk::{Desk, Facts};
use crate::driver::watch::Watch;
use crate::driver::{Driver, DriverError, Farewell, Parts as DriverParts};
use crate::http;
use crate::journal::{Journal, NumberedFacts};
use crate::keyring;
use crate::scheduler::Scheduler;
use crate::scheduler::fact::Fact;
use crate::state::{Layout, Part, State, io, write_private};
use crate::stores::LedgerBlobs;
use crate::transport::admit::{EnrolledNode, Register, Standing};
use crate::transport::{Listener, ServerIdentity, Stores};
use fleet_config::domain::LeafIndex;
use fleet_config::identity::SecretKey;
use fleet_config::refusal::Refusal;
use ledger::blob::BlobStore;
use ledger::entry::predicate::Genesis;
use ledger::entry::{FORMAT, Signers, Subject, check, seal};
use ledger::index::Index;
use ledger::log::{LogReader, LogSigner, LogWriter};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
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

/// Runs a coordinator until it is asked to stop. Addresses come before anything is read or written, so that a port
/// in use changes nothing.
pub async fn run(options: Options) -> Result<(), Refusal> {
    address::check_advertised(&options.advertise)?;
    let state = State::open(&options.state)?;
    let layout = state.layout();
    let operator = state.key("operator")?;
    let identity = ServerIdentity::open(&layout.keys())?;
    let tls_key = identity.fingerprint();
    let blobs = Arc::new(BlobStore::open(&layout.ledger()));
    let (transport_sender, transport) = mpsc::channel(QUEUE);
    let listener = address::listen(&options, &layout, identity, &stores(&blobs), &transport_sender)?;
    let addresses = address::dialable(&options.advertise, listener.local_address())?;
    let opened = open_ledger(&layout, &state, &operator, &blobs)?;
    let (journal, facts) = open_journal(&layout)?;
    let register = register(&facts, &opened.history.signers);
    let scheduler = Scheduler::replay(facts).map_err(|error| Part::Journal.failed(&layout, &error))?;
    let names = opened.history.signers.nodes().map(|(id, node)| (*id, node.name.clone())).collect();
    let events = opened.history.events.clone();
    let catalog = Arc::new(catalog(&opened.history));
    let socket = http::bind(&layout.socket())?;
    let (ledger_sender, ledger) = mpsc::channel(QUEUE);
    let (requests_sender, requests) = mpsc::channel(QUEUE);
    let Opened { log, index, history, origin, vkey, promises } = opened;
    let (bound, sealed) = (listener.local_address(), layout.sealed());
    let facts = Facts { origin: origin.clone(), vkey: vkey.clone(), bound, addresses, tls_key, sealed };
    announce(&layout, &facts)?;
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
    let (thread, commit) =
        CommitThread::start(parts).map_err(|error| Part::Ledger.failed(&layout, &error))?;
    let watch = Arc::new(Watch::default());
    let desk = Arc::new(Desk {
        catalog: Arc::clone(&catalog),
        blobs: Arc::clone(&blobs),
        commit: commit.clone(),
        requests: requests_sender,
        watch: Arc::clone(&watch),
        operator: state.key("operator")?,
        facts,
        defining: tokio::sync::Mutex::default(),
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
        sealed: layout.sealed(),
        requests,
        ledger,
        transport,
    };
    Running { layout, listener, commit, thread }.until_stopped(desk, socket, driver, events).await
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
        socket: UnixListener,
        driver: DriverParts,
        history: Vec<crate::scheduler::input::LedgerEvent>,
    ) -> Result<(), Refusal> {
        let cancel = CancellationToken::new();
        let served = tokio::spawn(serve(Arc::clone(&desk), socket, cancel.clone()));
        tokio::spawn(stop_on_signal(desk));
        let (ended, farewell) = match tokio::spawn(Driver::run(driver, history)).await {
            Ok((ended, farewell)) => {
                (ended.map_err(|error| loop_failed(&self.layout, error)), Some(farewell))
            }
            Err(error) => (Err(Part::Loop.failed(&self.layout, &error)), None),
        };
        cancel.cancel();
        ended.and(self.finish(served, farewell).await)
    }

    /// Ends listeners and writer in the order that loses nothing: no new work, then the last integration. Answers
    /// with the refusal that ended the API, if one did.
    async fn finish(
        self,
        served: JoinHandle<Result<(), Refusal>>,
        farewell: Option<Farewell>,
    ) -> Result<(), Refusal> {
        let waving = farewell.map(|farewell| tokio::spawn(farewell.wave()));
        self.listener.shutdown().await;
        if let Some(waving) = waving {
            waving.abort();
        }
        // Streams of watchers would keep the server for ever; its work is done.
        served.abort();
        if self.commit.stop().await.is_ok() {
            self.thread.join();
        }
        let _gone = std::fs::remove_file(self.layout.running());
        let _gone_too = std::fs::remove_file(self.layout.socket());
        // An aborted server has nothing to say.
        served.await.unwrap_or(Ok(()))
    }
}

/// The refusal that the loop's error becomes: what the scheduler said, or what the journal's disk said.
fn loop_failed(layout: &Layout, error: DriverError) -> Refusal {
    match error {
        DriverError::Halted(refusal) => refusal,
        DriverError::Journal(error) => Part::Journal.failed(layout, &error),
        error @ DriverError::Sequence { .. } => Part::Loop.failed(layout, &error),
    }
}

fn open_journal(layout: &Layout) -> Result<(Journal, NumberedFacts), Refusal> {
    let (journal, facts, report) =
        Journal::open(layout.folder()).map_err(|error| Part::Journal.failed(layout, &error))?;
    if let Some(torn) = &report.torn {
        tracing::warn!(
            ?torn,
            "the journal ended in an unfinished write; it was cut off and kept beside the file"
        );
    }
    Ok((journal, facts))
}

/// The ledger with its history.
struct Opened {
    log: LogWriter,
    index: Index,
    history: History,
    origin: String,
    vkey: String,
    promises: LogSigner,
}

fn open_ledger(
    layout: &Layout,
    state: &State,
    operator: &SecretKey,
    blobs: &BlobStore,
) -> Result<Opened, Refusal> {
    let folder = layout.ledger();
    let key_id = operator.public().key_id().to_string();
    let origin = format!("muster.invalid/{}", &key_id[..16]);
    let signer = || {
        let seed = state.key("log")?.seed();
        LogSigner::new(&origin, ed25519_dalek::SigningKey::from_bytes(&seed))
            .map_err(|error| Part::Ledger.failed(layout, &error))
    };
    let vkey = signer()?.verifier().to_string();
    keyring::check(layout, signer()?.verifier())?;
    let exists = folder.join("checkpoint").exists() || folder.join(".state/version").exists();
    let mut log = if exists {
        let (log, report) =
            LogWriter::open(&folder, signer()?).map_err(|error| Part::Ledger.failed(layout, &error))?;
        if let Some(torn) = report.torn {
            tracing::warn!(
                ?torn,
                "the ledger's WAL ended in an unfinished write; nothing acknowledged was in it"
            );
        }
        log
    } else {
        LogWriter::create(&folder, signer()?).map_err(|error| Part::Ledger.failed(layout, &error))?
    };
    blobs.clear_temporaries().map_err(|error| Part::Ledger.failed(layout, &error))?;
    if log.size() == 0 {
        let genesis = Genesis {
            format: FORMAT,
            origin: origin.clone(),
            operator_key: operator.public().to_hex(),
            created_on: crate::clock::wall_rfc3339(),
        };
        let sealed = seal(genesis, Subject::of_key("operator-key", &operator.public()), operator)
            .map_err(|error| Part::Ledger.failed(layout, &error))?;
        log.append_batch(&[sealed.bytes]).map_err(|error| Part::Ledger.failed(layout, &error))?;
    }
    log.integrate().map_err(|error| Part::Ledger.failed(layout, &error))?;
    let history =
        read_history(&folder, &vkey, blobs).map_err(|error| Part::Ledger.failed(layout, error.as_ref()))?;
    for finding in &history.findings {
        tracing::error!(finding, "the ledger's history is damaged; run `muster ledger verify`");
    }
    write_private(&layout.keys().join("log.vkey"), vkey.as_bytes())
        .map_err(|error| io(&layout.keys().display().to_string(), &error))?;
    let reader = reader(&folder, &vkey).map_err(|error| Part::Ledger.failed(layout, error.as_ref()))?;
    let (index, opened) =
        Index::open(&folder.join("index"), &reader).map_err(|error| Part::Index.failed(layout, &error))?;
    tracing::info!(?opened, "index");
    let promises = signer()?;
    Ok(Opened { log, index, history, origin, vkey, promises })
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
        register.note(fact);
    }
    let enrolled = signers.nodes().map(|(node, known)| {
        let class = register.class_of(&known.invite).cloned();
        let (node, tls_key) = (*node, known.tls_key);
        let standing = if known.revoked.is_some() { Standing::Revoked } else { Standing::Trusted };
        (node, EnrolledNode { node, tls_key, standing, class })
    });
    register.nodes = enrolled.collect();
    register
}

fn stores(blobs: &Arc<BlobStore>) -> Stores {
    Stores {
        source: Arc::new(LedgerBlobs(Arc::clone(blobs))),
        sink: Arc::new(LedgerBlobs(Arc::clone(blobs))),
    }
}

async fn serve(desk: Arc<Desk>, socket: UnixListener, cancel: CancellationToken) -> Result<(), Refusal> {
    let served = http::serve(Arc::clone(&desk), socket, cancel).await;
    if let Err(refusal) = &served {
        tracing::error!(%refusal, "the HTTP API ended");
        desk.stop();
    }
    served
}

/// Writes what other programs may want to know about the running coordinator.
fn announce(layout: &Layout, facts: &Facts) -> Result<(), Refusal> {
    let text = serde_json::json!({
        "process": std::process::id(),
        "listening": facts.addresses,
        "origin": facts.origin,
        "vkey": facts.vkey,
    });
    write_private(&layout.running(), text.to_string().as_bytes())
        .map_err(|error| io(&layout.running().display().to_string(), &error))?;
    tracing::info!(listening = ?facts.addresses, origin = facts.origin, "coordinator is ready");
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
