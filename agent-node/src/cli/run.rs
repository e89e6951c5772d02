//! `muster-node run`: from settings to a session that works until it is stopped.

use super::RunArguments;
use super::settings::{compile_wish, confinement, levels, settings, state_folder};
use agent_node::harness::harness;
use agent_node::inventory::{self, Offer, Wish};
use agent_node::job::Node;
use agent_node::job::runner::Runner;
use agent_node::job::service::JobService;
use agent_node::machine_lock::MachineLock;
use agent_node::measure::clock::SystemClock;
use agent_node::sandbox::{self, Layer, Level};
use agent_node::session::{Session, SessionEnd, SessionOptions};
use agent_node::state::State;
use anyhow::Context as _;
use fleet_config::config::NodeSettings;
use fleet_config::domain::DeviceDescription;
use fleet_config::identity::SecretKey;
use fleet_config::invite::{Invite, check_address};
use fleet_config::refusal::Refusal;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use zeroize::Zeroizing;

/// Bytes of an invite that are read; a token has a few hundred.
const INVITE_MAX: u64 = 16 << 10;

/// Threads of the runtime: it moves frames and blobs, the work itself runs on blocking threads.
const RUNTIME_THREADS: usize = 2;

/// How often idle devices are looked after.
const TEND_EVERY: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let settings = settings(arguments)?;
    start_logging(&settings.log)?;
    // Before anything is started, and before the sandbox is asked for.
    report_groups(&sandbox::adopt_cgroup());
    let level = inventory::check_sandbox(confinement(&settings)?)?;
    if level == Level::None {
        tracing::warn!("candidates run without a sandbox; every record of this node says so");
    }
    let state = State::admit(&state_folder(&settings)?)?;
    let invite = invite(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(work(settings, state, invite))
}

async fn work(settings: NodeSettings, state: State, invite: Option<Invite>) -> anyhow::Result<ExitCode> {
    let harness = harness().context("cannot read this executable")?;
    let stop = stop_signal()?;
    let session = Session::open(SessionOptions {
        state: state.folder().to_owned(),
        name: settings.name.clone(),
        harness_version: harness.version.clone(),
        invite,
        blob_cache_bytes: settings.limits.blob_cache_bytes,
    })?;
    // The session holds the folder's lock now: what lies in the job folder is of a dead node.
    state.clear_jobs()?;
    let key = session.identity().signing();
    let confinement = confinement(&settings)?;
    let wish = Wish {
        levels: levels(&settings)?,
        compiler: (!settings.compiler.is_empty()).then(|| PathBuf::from(&settings.compiler)),
        nvrtc: (!settings.nvrtc.is_empty()).then(|| PathBuf::from(&settings.nvrtc)),
        compile: compile_wish(&settings.devices.compile)?,
        confinement,
        node_key: key.public().to_bytes(),
        harness: harness.clone(),
        cache: state.cache(),
        cache_bytes: settings.limits.artefact_cache_bytes,
        standby: usize::try_from(settings.limits.standby_workers).unwrap_or(0),
        folder: state.jobs().join("ask"),
    };
    let mut offers: Vec<Offer> =
        if settings.devices.cpu { inventory::cpu_offers(&wish)? } else { Vec::new() };
    if settings.devices.gpu {
        let (gpus, absence) = inventory::cuda_offers(&wish);
        if let Some(reason) = absence {
            tracing::info!(reason, "no CUDA device on offer");
        }
        offers.extend(gpus);
    }
    let (compiling, lacking) = inventory::compile_offers(&wish);
    for reason in lacking {
        tracing::warn!(reason, "an architecture is not compiled for");
    }
    offers.extend(compiling);
    for offer in &offers {
        let device = &offer.description;
        tracing::info!(device = %device.id, architecture = %device.architecture, "device on offer");
    }
    let node = Node { key: SecretKey::from_seed(&key.seed()), harness, confinement };
    let lock = Box::new(MachineLock::of_this_machine());
    let runner = Arc::new(Runner::new(offers, node, lock, Box::new(SystemClock), state.jobs()));
    let service = JobService::new(Arc::clone(&runner), session.fetcher());
    let (offered, devices) = watch::channel(runner.offered());
    tokio::spawn(tend(runner, offered, stop.clone()));
    match session.run(Arc::new(service), devices, stop).await {
        SessionEnd::Stopped => Ok(ExitCode::SUCCESS),
        SessionEnd::Refused(refusal) => Err(refusal.into()),
    }
}

/// Looks after the devices until the node stops, and offers them as they are. The sender lives as long as this does.
async fn tend(runner: Arc<Runner>, offered: watch::Sender<Vec<DeviceDescription>>, stop: CancellationToken) {
    loop {
        let tended = Arc::clone(&runner);
        let looked = tokio::task::spawn_blocking(move || {
            tended.tend();
            tended.offered()
        });
        if let Ok(now) = looked.await {
            offered.send_if_modified(|before| {
                let is_new = *before != now;
                *before = now;
                is_new
            });
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(TEND_EVERY) => {}
        }
    }
}

fn report_groups(groups: &Layer) {
    match groups {
        Layer::Present(what) => tracing::info!(controllers = what, "children get control groups"),
        Layer::Absent { cause, next } => tracing::info!(cause, next, "children get no control groups"),
    }
}

/// Cancelled by SIGTERM or SIGINT: the session then takes no more work, ends its jobs and leaves.
fn stop_signal() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let token = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("stopping on SIGTERM"),
            _ = interrupt.recv() => tracing::info!("stopping on SIGINT"),
        }
        token.cancel();
    });
    Ok(stop)
}

fn start_logging(filter: &str) -> Result<(), Refusal> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Refusal::new("node/log-filter", filter, error.to_string(), "write a filter such as `info,quinn=warn`")
    })?;
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();
    Ok(())
}

/// The invite, with the coordinators that the operator named in place of its own addresses.
fn invite(settings: &NodeSettings) -> Result<Option<Invite>, Refusal> {
    for address in &settings.coordinators {
        check_address(address)?;
    }
    if settings.invite_file.is_empty() {
        if !settings.coordinators.is_empty() {
            tracing::warn!(
                "without an invite this node dials where it joined; the named coordinators are not used"
            );
        }
        return Ok(None);
    }
    let mut text = Zeroizing::new(String::new());
    let read = if settings.invite_file == "-" {
        std::io::stdin().take(INVITE_MAX).read_to_string(&mut text)
    } else {
        File::open(&settings.invite_file).and_then(|file| file.take(INVITE_MAX).read_to_string(&mut text))
    };
    read.map_err(|error| {
        let next = "name the file that `muster node invite` was written to, or `-` for standard input";
        Refusal::new("join/invite-unreadable", settings.invite_file.as_str(), error.to_string(), next)
    })?;
    let mut invite = Invite::parse(text.trim())?;
    if !settings.coordinators.is_empty() {
        invite.addresses.clone_from(&settings.coordinators);
    }
    Ok(Some(invite))
}
