//! Worker processes before they have an owner: started, and brought as far as may be without one.

use super::pool::Maker;
use super::probe;
use super::protocol::{Answer, Order, UntilEnd, receive, send};
use super::worker::SOCKET;
use crate::backend::Interrupt;
use crate::clock;
use crate::device_lock::{DeviceGuard, DeviceLock};
use crate::machine_lock::{MachineLock, SharedGuard};
use crate::sandbox::{self, Child, Confinement, Profile, Request};
use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Initialising the driver, making a context, loading a module; a machine without persistence takes seconds.
pub(super) const OPEN_LIMIT: Duration = Duration::from_secs(60);
/// Bytes of what a worker prints that are kept for a failure's log.
const OUTPUT_MAX: usize = 256 << 10;

/// The workers of this process that hold a context, by process id: they are no strangers on the device.
#[derive(Debug, Default, Clone)]
pub(super) struct Living(Arc<Mutex<BTreeSet<u32>>>);

impl Living {
    /// Their process ids now.
    pub(super) fn ids(&self) -> BTreeSet<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    fn enter(&self, id: u32) -> Presence {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Presence { living: self.clone(), id }
    }
}

struct Presence {
    living: Living,
    id: u32,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.living.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// How far a worker has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Spawned,
    /// Its driver is initialised.
    Started,
    /// It has a context and is confined.
    Entered,
}

/// A worker process and our end of its socket. Dropping it kills the group.
pub(super) struct Standby {
    pub socket: UnixStream,
    pub child: Child,
    pub progress: Progress,
    folder: WorkFolder,
    presence: Option<Presence>,
}

/// What of a worker outlives its socket: dropped when the process is gone.
pub(super) struct Remains {
    _folder: WorkFolder,
    _presence: Option<Presence>,
}

impl Standby {
    /// Notes that it holds a context.
    pub(super) fn note_context(&mut self, living: &Living) {
        let id = self.child.id();
        self.presence.get_or_insert_with(|| living.enter(id));
    }

    /// Socket, process, and what is to be kept until the process is gone.
    pub(super) fn into_parts(self) -> (UnixStream, Child, Remains) {
        let Self { socket, child, progress: _, folder, presence } = self;
        (socket, child, Remains { _folder: folder, _presence: presence })
    }

    fn order(&self, order: &Order) -> Result<(), String> {
        let end = clock::monotonic().saturating_add(OPEN_LIMIT);
        let interrupt = Interrupt::never();
        let mut line = UntilEnd { socket: &self.socket, end, now: clock::monotonic, interrupt: &interrupt };
        let answered = send(&mut line, order, &[]).and_then(|()| receive::<Answer>(&mut line, 0));
        match answered {
            Ok((Answer::Done, _)) => Ok(()),
            Ok((answer, _)) => Err(format!("the worker answered {answer:?}")),
            Err(error) => Err(format!("the worker does not answer: {error}")),
        }
    }
}

/// An empty folder, removed with the value.
struct WorkFolder(PathBuf);

impl Drop for WorkFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!(folder = %self.0.display(), %error, "a worker's folder stays behind");
        }
    }
}

/// Makes workers for one device.
#[derive(Debug)]
pub(super) struct Starter {
    pub uuid: String,
    pub confinement: Confinement,
    /// Work folders are made in here.
    pub folder: PathBuf,
    pub living: Living,
    pub device: DeviceLock,
    pub machine: MachineLock,
    made: AtomicU64,
}

impl Starter {
    pub(super) fn new(uuid: &str, confinement: Confinement, folder: PathBuf, living: Living) -> Self {
        Self {
            uuid: uuid.to_owned(),
            confinement,
            folder,
            living,
            device: DeviceLock::of_this_machine(),
            machine: MachineLock::of_this_machine(),
            made: AtomicU64::new(0),
        }
    }

    /// A confined process that has done nothing yet.
    pub(super) fn spawn(&self) -> Result<Standby, String> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{}-{}-{number}", self.uuid, std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let folder = WorkFolder(path.clone());
        let (ours, theirs) = UnixStream::pair().map_err(|error| format!("make a socket: {error}"))?;
        let request = Request {
            program: sandbox::own_binary(),
            arguments: vec!["worker-cuda".into()],
            environment: probe::environment(Some(&self.uuid)),
            folder: path,
            readable: probe::readable(),
            executable: Vec::new(),
            devices: probe::device_nodes(),
            passed: vec![(theirs.into(), SOCKET)],
            profile: Profile::CudaWorker,
            limits: probe::limits(OUTPUT_MAX),
        };
        let child = sandbox::spawn(request, self.confinement).map_err(|error| error.to_string())?;
        Ok(Standby { socket: ours, child, progress: Progress::Spawned, folder, presence: None })
    }
}

/// The machine and the device, free of everybody's timing.
pub(super) struct Leave {
    // In this order, the reverse of taking.
    _device: DeviceGuard,
    _machine: SharedGuard,
}

impl Maker for Arc<Starter> {
    type Made = Standby;
    type Leave = Leave;

    fn start(&self) -> Result<Standby, String> {
        let mut made = self.spawn()?;
        made.order(&Order::Start { device: self.uuid.clone() })?;
        made.progress = Progress::Started;
        Ok(made)
    }

    fn enter(&self, made: &mut Standby) -> Result<(), String> {
        made.note_context(&self.living);
        made.order(&Order::Enter)?;
        made.progress = Progress::Entered;
        Ok(())
    }

    fn leave(&self) -> Option<Leave> {
        // What cannot be locked now is somebody's; what cannot be locked at all is told by the attempt that needs it.
        let machine = self.machine.try_shared().ok().flatten()?;
        let device = self.device.try_claim(&self.uuid).ok().flatten()?;
        Some(Leave { _device: device, _machine: machine })
    }
}
