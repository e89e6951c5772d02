//! A worker's process as its supervisor holds it: orders, answers, deadlines, interrupts, and its end.

use super::effort::{Effort, Spent};
use super::failure::{self, infrastructure, logged};
use super::meaning::explain;
use super::pool::{Pool, Taken};
use super::protocol::{Answer, CacheOrder, INTERRUPTED, Order, UntilEnd, receive, send};
use super::standby::{OPEN_LIMIT, Remains, Standby, Starter};
use crate::backend::{Failure, Interrupt, WorkerOptions};
use crate::clock;
use crate::sandbox::{Child, Exit, WaitError};
use fleet_config::domain::{Fact, Facts, Milliseconds, Stage, field};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Buffers of more than this part of the device wait for workers that are ending.
const LARGE: u64 = 8;

/// Where workers of one device come from, and where their time is counted.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub starter: Arc<Starter>,
    pub pool: Arc<Pool<Arc<Starter>>>,
    /// Of the device, in bytes.
    pub memory: u64,
    pub effort: Effort,
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
    remains: Option<Remains>,
    interrupt: Interrupt,
    facts: Facts,
    source: Source,
}

impl Process {
    /// One that stands by, or a new one, confined; it has taken the device when this returns. One that stood by and has
    /// died since is nobody's loss: the next is tried, and at last a new one.
    pub(super) fn start(
        source: &Source,
        options: &WorkerOptions,
        cache: CacheOrder,
    ) -> Result<Self, Failure> {
        let from = clock::monotonic();
        let suits = options.confinement == source.starter.confinement;
        while suits && let Some(taken) = source.pool.take() {
            let (Taken::Entered(standby) | Taken::Started(standby)) = taken;
            match Self::own(source, standby, options, cache) {
                Ok(process) => {
                    source.effort.adopted();
                    source.effort.add(Spent::Open, from);
                    return Ok(process);
                }
                Err(failure) if options.interrupt.asked() => return Err(failure),
                Err(failure) => {
                    let cause = failure.outcome.cause.map(|cause| cause.message).unwrap_or_default();
                    tracing::warn!(cause, "a worker that stood by cannot be used");
                }
            }
        }
        let spawned = source.starter.spawn();
        let standby = spawned.map_err(|error| infrastructure(Stage::Prepare, "start the worker", &error))?;
        let process = Self::own(source, standby, options, cache)?;
        source.effort.add(Spent::Open, from);
        Ok(process)
    }

    fn own(
        source: &Source,
        mut standby: Standby,
        options: &WorkerOptions,
        cache: CacheOrder,
    ) -> Result<Self, Failure> {
        standby.note_context(&source.starter.living);
        let (socket, child, remains) = standby.into_parts();
        let mut process = Self {
            socket,
            child: Some(child),
            remains: Some(remains),
            interrupt: options.interrupt.clone(),
            facts: Facts::new(),
            source: source.clone(),
        };
        let about = About { case: None, launch_limit: options.launch_limit };
        let order = Order::Open { device: source.starter.uuid.clone(), cache };
        let (answer, _) = process.ask(about, &order, &[], 0, OPEN_LIMIT)?;
        let Answer::Opened { device, floor_picoseconds, flush_bytes } = &answer else {
            return Err(process.unexpected(&answer));
        };
        // The worker asked the driver whose context it has.
        if *device != source.starter.uuid {
            return Err(process.unexpected(&answer));
        }
        process.facts = Facts::from([
            (field::WORKER_DEVICE.to_owned(), Fact::Text(device.clone())),
            (field::EVENT_FLOOR.to_owned(), Fact::Count(*floor_picoseconds)),
            (field::L2_FLUSH.to_owned(), Fact::Count(*flush_bytes)),
        ]);
        Ok(process)
    }

    /// Waits from now on end when `interrupt` says so.
    pub(super) fn attend(&mut self, interrupt: &Interrupt) {
        self.interrupt = interrupt.clone();
    }

    /// What the worker found when it took the device.
    pub(super) fn facts(&self) -> Facts {
        self.facts.clone()
    }

    /// Before `bytes` are allocated: where they are a good part of the device, what ended workers held must be free.
    pub(super) fn make_room(&self, bytes: u64) {
        if bytes > self.source.memory / LARGE {
            self.source.pool.settle();
        }
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
        let from = clock::monotonic();
        let answer = send(&mut line, order, raw).and_then(|()| receive::<Answer>(&mut line, raw_max));
        if let Some(on) = spent_on(order) {
            self.source.effort.add(on, from);
        }
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
                Order::Start { .. }
                | Order::Enter
                | Order::Open { .. }
                | Order::Load { .. }
                | Order::Prepare { .. }
                | Order::Write { .. }
                | Order::Fill { .. }
                | Order::Read { .. }
                | Order::Gather { .. }
                | Order::Trade { .. }
                | Order::Addresses { .. }
                | Order::CheckFences { .. } => {
                    infrastructure(stage, "hear from the worker", &format!("no answer in {limit:?}"))
                }
            };
            return self.end(failure);
        }
        let exit = self.reap();
        let message = match &exit {
            Some(Ok(exit)) => format!("the worker ended ({:?}) before it answered: {error}", exit.how),
            Some(Err(wait)) => format!("the worker cannot be waited for: {wait}"),
            None => error.to_string(),
        };
        let output = exit.and_then(Result::ok).map(|exit| exit.output.bytes).unwrap_or_default();
        logged(failure::worker_lost(stage, message), &output)
    }

    /// Kills the worker and waits until it is gone.
    fn reap(&mut self) -> Option<Result<Exit, WaitError>> {
        let from = clock::monotonic();
        let exit = self.child.take()?.kill();
        self.remains = None;
        self.source.effort.add(Spent::End, from);
        Some(exit)
    }

    /// Ends the worker; what it wrote becomes the failure's log.
    fn end(&mut self, failure: Failure) -> Failure {
        let exit = self.reap();
        let output = exit.and_then(Result::ok).map(|exit| exit.output.bytes).unwrap_or_default();
        logged(failure, &output)
    }

    /// Ends the worker over an answer to another question.
    pub(super) fn unexpected(&mut self, answer: &Answer) -> Failure {
        let told = format!("it answered {answer:?}");
        self.end(infrastructure(Stage::Validate, "understand the worker", &told))
    }

    /// Ends the worker; its end changes nothing any more. The candidate is device code, which ends with the launch: what
    /// was read of it is out of its reach, so that the process may go beside what comes next. Nothing is timed and the
    /// device is not given on before it is gone.
    pub(super) fn kill(&mut self) {
        let (Some(child), remains, effort) =
            (self.child.take(), self.remains.take(), self.source.effort.clone())
        else {
            return;
        };
        self.source.pool.end_beside(move || {
            let from = clock::monotonic();
            let _ = child.kill();
            drop(remains);
            effort.add(Spent::End, from);
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Whoever drops a worker in the middle, as on an error of the other side, wants it gone.
        let _gone = self.reap();
    }
}

/// What the time of an order is counted as; opening is counted as a whole.
fn spent_on(order: &Order) -> Option<Spent> {
    match order {
        Order::Start { .. } | Order::Enter | Order::Open { .. } | Order::Addresses { .. } => None,
        Order::Load { .. } | Order::Prepare { .. } => Some(Spent::Prepare),
        Order::Write { .. }
        | Order::Fill { .. }
        | Order::Read { .. }
        | Order::Gather { .. }
        | Order::Trade { .. }
        | Order::CheckFences { .. } => Some(Spent::Copy),
        Order::Launch { .. } => Some(Spent::Launch),
    }
}
