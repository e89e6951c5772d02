//! One turn of the loop after another: wait, take a batch, step, make facts durable, perform.

use super::pace::Pace;
use super::{Driver, DriverError, Farewell, Internal, Parts, TURN_MAX};
use crate::clock::Clock;
use crate::driver::request::Request;
use crate::scheduler::effect::Effect;
use crate::scheduler::input::{Input, LedgerEvent};
use crate::transport::TransportEvent;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tokio::sync::mpsc;

/// Reports from the loop's own tasks that wait for a turn.
const INTERNAL_QUEUE: usize = 4_096;

/// Longest wait for an event: bounds how long an overflow waits for the writer.
const IDLE: Duration = Duration::from_millis(250);

/// What woke the loop.
enum Happening {
    Request(Request),
    Ledger(LedgerEvent),
    Transport(TransportEvent),
    Internal(Internal),
    Nothing,
    /// Every sender of a channel is gone: the process is ending.
    Closed,
}

/// Where happenings come from; the ledger first, so that its writer never waits long.
struct Channels {
    ledger: mpsc::Receiver<LedgerEvent>,
    inbox: mpsc::Receiver<Internal>,
    transport: mpsc::Receiver<TransportEvent>,
    requests: mpsc::Receiver<Request>,
}

impl Channels {
    /// The next happening, or nothing after `wake`.
    async fn wait(&mut self, wake: Duration) -> Happening {
        tokio::select! {
            biased;
            event = self.ledger.recv() => event.map_or(Happening::Closed, Happening::Ledger),
            event = self.inbox.recv() => event.map_or(Happening::Closed, Happening::Internal),
            event = self.transport.recv() => event.map_or(Happening::Closed, Happening::Transport),
            event = self.requests.recv() => event.map_or(Happening::Closed, Happening::Request),
            () = tokio::time::sleep(wake) => Happening::Nothing,
        }
    }

    /// What has happened already.
    fn next(&mut self) -> Option<Happening> {
        let next = self.ledger.try_recv().map(Happening::Ledger).ok();
        let next = next.or_else(|| self.inbox.try_recv().map(Happening::Internal).ok());
        let next = next.or_else(|| self.transport.try_recv().map(Happening::Transport).ok());
        next.or_else(|| self.requests.try_recv().map(Happening::Request).ok())
    }
}

impl Driver {
    /// Runs until asked to stop, on a runtime of several threads. Returns the error that makes going on impossible,
    /// and what must live on until the nodes are told.
    pub async fn run(parts: Parts, history: Vec<LedgerEvent>) -> (Result<(), DriverError>, Farewell) {
        let (internal, inbox) = mpsc::channel(INTERNAL_QUEUE);
        let mut channels =
            Channels { requests: parts.requests, ledger: parts.ledger, transport: parts.transport, inbox };
        let mut driver = Driver {
            checkpoints: parts.commit.checkpoints(),
            checkpoint_due: Duration::ZERO,
            scheduler: parts.scheduler,
            journal: parts.journal,
            commit: parts.commit,
            blobs: parts.blobs,
            watch: parts.watch,
            register: parts.register,
            names: parts.names,
            origin: parts.origin,
            vkey: parts.vkey,
            documents: parts.documents,
            sealed: parts.sealed,
            sessions: BTreeMap::new(),
            replies: BTreeMap::new(),
            next_request: 0,
            overflow: VecDeque::new(),
            internal,
            clock: Clock::start(),
            pace: Pace::default(),
            stop: false,
        };
        let ended = driver.turn_after_turn(&mut channels, history).await;
        (ended, Farewell { sessions: driver.sessions, transport: channels.transport })
    }

    async fn turn_after_turn(
        &mut self,
        channels: &mut Channels,
        history: Vec<LedgerEvent>,
    ) -> Result<(), DriverError> {
        self.recover(history)?;
        while !self.stop {
            let wake =
                self.scheduler.next_wake().map_or(IDLE, |due| due.saturating_sub(self.clock.now()).min(IDLE));
            let first = channels.wait(wake).await;
            let mut inputs = Vec::new();
            self.take(first, &mut inputs);
            for _ in 0..TURN_MAX {
                match channels.next() {
                    Some(happening) => self.take(happening, &mut inputs),
                    None => break,
                }
            }
            inputs.push(Input::Tick);
            self.turn(inputs)?;
            self.tell_checkpoint(self.clock.now());
        }
        Ok(())
    }

    /// Ledger entries are applied before any lease is granted.
    fn recover(&mut self, history: Vec<LedgerEvent>) -> Result<(), DriverError> {
        let inputs = history.into_iter().map(Input::Ledger).chain([Input::RecoveryComplete]).collect();
        self.turn(inputs)?;
        // What ended in an earlier life is no pace of this one.
        self.pace = Pace::default();
        self.retell_open();
        Ok(())
    }

    /// Turns what happened into inputs of the scheduler; questions are answered at once.
    fn take(&mut self, happening: Happening, inputs: &mut Vec<Input>) {
        match happening {
            Happening::Request(request) => self.on_request(request, inputs),
            Happening::Ledger(event) => inputs.push(Input::Ledger(event)),
            Happening::Transport(event) => self.on_transport(event, inputs),
            Happening::Internal(event) => self.on_internal(event, inputs),
            Happening::Nothing => {}
            Happening::Closed => self.stop = true,
        }
    }

    /// Steps through the inputs, makes all facts durable with one sync, then performs everything else in order.
    ///
    /// Crash before the sync: nothing was said to anybody, replay knows nothing of it. Crash after it: replay
    /// knows the facts and performs what follows from them again.
    fn turn(&mut self, inputs: Vec<Input>) -> Result<(), DriverError> {
        let mut effects = Vec::new();
        for input in inputs {
            effects.extend(self.scheduler.step(self.clock.now(), input));
        }
        let mut facts = Vec::new();
        let mut rest = Vec::with_capacity(effects.len());
        for effect in effects {
            match effect {
                Effect::Persist { sequence, fact } => facts.push((sequence, fact)),
                other => rest.push(other),
            }
        }
        if let Some((first, _)) = facts.first()
            && *first != self.journal.next_sequence()
        {
            return Err(DriverError::Sequence { expected: self.journal.next_sequence(), found: *first });
        }
        if !facts.is_empty() {
            // The sync blocks: other tasks of this worker go on elsewhere meanwhile.
            tokio::task::block_in_place(|| self.journal.append_batch(&facts))?;
        }
        for (_, fact) in &facts {
            self.register.note(fact);
        }
        for effect in rest {
            self.perform(effect)?;
        }
        self.flush_overflow();
        Ok(())
    }
}
