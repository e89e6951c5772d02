//! A worker's process as its supervisor holds it: orders, answers, deadlines, interrupts, and its end.

use super::failure::{self, infrastructure, logged};
use super::meaning::explain;
use super::probe;
use super::protocol::{Answer, CacheOrder, INTERRUPTED, Order, UntilEnd, receive, send};
use super::worker::SOCKET;
use crate::backend::{Failure, Interrupt, WorkerOptions};
use crate::clock;
use crate::sandbox::{self, Child, Profile, Request};
use fleet_config::domain::{Fact, Facts, Milliseconds, Stage, field};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Initialising the driver, making a context, loading a module; a machine without persistence takes seconds.
pub(super) const OPEN_LIMIT: Duration = Duration::from_secs(60);
const OUTPUT_MAX: usize = 256 << 10;

/// How many workers of this process hold a context: they are no strangers on the device.
#[derive(Debug, Default, Clone)]
pub(super) struct Living(Arc<AtomicU64>);

impl Living {
    /// How many there are now.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn enter(&self) -> Presence {
        self.0.fetch_add(1, Ordering::Relaxed);
        Presence(self.clone())
    }
}

struct Presence(Living);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What an order is about, for the failure that may come of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct About<'a> {
    /// Case of the prepared evaluation; `None` while nothing is prepared.
    pub case: Option<&'a str>,
    pub launch_limit: Milliseconds,
}

/// The process and our end of its socket. Dropping it kills the group.
pub(super) struct Process {
    socket: UnixStream,
    child: Option<Child>,
    interrupt: Interrupt,
    facts: Facts,
    _presence: Presence,
}

impl Process {
    /// Starts it, confined, and has it take the device.
    pub(super) fn start(
        uuid: &str,
        options: &WorkerOptions,
        cache: CacheOrder,
        living: &Living,
    ) -> Result<Self, Failure> {
        let failed = |what: &str, error: &dyn std::fmt::Display| infrastructure(Stage::Prepare, what, error);
        let (ours, theirs) = UnixStream::pair().map_err(|error| failed("make a socket", &error))?;
        let request = Request {
            program: sandbox::own_binary(),
            arguments: vec!["worker-cuda".into()],
            environment: probe::environment(Some(uuid)),
            folder: options.folder.clone(),
            readable: probe::readable(),
            executable: Vec::new(),
            devices: probe::device_nodes(),
            passed: vec![(theirs.into(), SOCKET)],
            profile: Profile::CudaWorker,
            limits: probe::limits(OUTPUT_MAX),
        };
        let child = sandbox::spawn(request, options.confinement)
            .map_err(|error| failed("start the worker", &error))?;
        let mut process = Self {
            socket: ours,
            child: Some(child),
            interrupt: options.interrupt.clone(),
            facts: Facts::new(),
            _presence: living.enter(),
        };
        let about = About { case: None, launch_limit: options.launch_limit };
        let order = Order::Open { device: uuid.to_owned(), cache };
        let (answer, _) = process.ask(about, &order, &[], 0, OPEN_LIMIT)?;
        let Answer::Opened { floor_picoseconds, flush_bytes } = answer else {
            return Err(process.unexpected(&answer));
        };
        process.facts = Facts::from([
            (field::EVENT_FLOOR.to_owned(), Fact::Count(floor_picoseconds)),
            (field::L2_FLUSH.to_owned(), Fact::Count(flush_bytes)),
        ]);
        Ok(process)
    }

    /// What the worker found when it took the device.
    pub(super) fn facts(&self) -> Facts {
        self.facts.clone()
    }

    /// Sends an order and waits for its answer with at most `raw_max` raw bytes. After a failure the process is gone.
    pub(super) fn ask(
        &mut self,
        about: About<'_>,
        order: &Order,
        raw: &[u8],
        raw_max: u64,
        limit: Duration,
    ) -> Result<(Answer, Vec<u8>), Failure> {
        if self.child.is_none() {
            return Err(infrastructure(Stage::Validate, "use the worker", &"it has ended before"));
        }
        let end = clock::monotonic().saturating_add(limit);
        let mut line =
            UntilEnd { socket: &self.socket, end, now: clock::monotonic, interrupt: &self.interrupt };
        let answer = send(&mut line, order, raw).and_then(|()| receive::<Answer>(&mut line, raw_max));
        match answer {
            Ok((Answer::Failed(trouble), _)) => {
                Err(self.end(explain(&trouble, about.case.unwrap_or_default(), about.launch_limit)))
            }
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.broken(about, order, &error, limit)),
        }
    }

    /// An order that is answered by `done`.
    pub(super) fn done(
        &mut self,
        about: About<'_>,
        order: &Order,
        raw: &[u8],
        limit: Duration,
    ) -> Result<(), Failure> {
        match self.ask(about, order, raw, 0, limit)? {
            (Answer::Done, _) => Ok(()),
            (answer, _) => Err(self.unexpected(&answer)),
        }
    }

    /// The failure that a socket error means; the worker is gone afterwards.
    fn broken(&mut self, about: About<'_>, order: &Order, error: &io::Error, limit: Duration) -> Failure {
        let stage = if about.case.is_some() { Stage::Validate } else { Stage::Prepare };
        if error.kind() == INTERRUPTED {
            return self.end(failure::interrupted(stage));
        }
        if error.kind() == io::ErrorKind::TimedOut {
            let failure = match order {
                Order::Launch { seat: _ } => {
                    failure::timeout(about.launch_limit, about.case.unwrap_or_default())
                }
                Order::Open { .. }
                | Order::Load { .. }
                | Order::Prepare { .. }
                | Order::Write { .. }
                | Order::Fill { .. }
                | Order::Read { .. }
                | Order::Gather { .. }
                | Order::CheckFences { .. } => {
                    infrastructure(stage, "hear from the worker", &format!("no answer in {limit:?}"))
                }
            };
            return self.end(failure);
        }
        let exit = self.child.take().map(Child::kill);
        let message = match &exit {
            Some(Ok(exit)) => format!("the worker ended ({:?}) before it answered: {error}", exit.how),
            Some(Err(wait)) => format!("the worker cannot be waited for: {wait}"),
            None => error.to_string(),
        };
        let output = exit.and_then(Result::ok).map(|exit| exit.output.bytes).unwrap_or_default();
        logged(failure::worker_lost(stage, message), &output)
    }

    /// Ends the worker; what it wrote becomes the failure's log.
    fn end(&mut self, failure: Failure) -> Failure {
        let exit = self.child.take().map(Child::kill);
        let output = exit.and_then(Result::ok).map(|exit| exit.output.bytes).unwrap_or_default();
        logged(failure, &output)
    }

    /// Ends the worker over an answer to another question.
    pub(super) fn unexpected(&mut self, answer: &Answer) -> Failure {
        let told = format!("it answered {answer:?}");
        self.end(infrastructure(Stage::Validate, "understand the worker", &told))
    }

    /// Ends the worker; its end changes nothing any more.
    pub(super) fn kill(&mut self) {
        if let Some(child) = self.child.take() {
            let _ = child.kill();
        }
    }
}
