//! The node's side of the conversation as a pure machine: `step(now, input)` gives the effects to perform.
//!
//! ```text
//!            Begin / Woken                Connected              Welcomed
//! Waiting ───────────────► Connecting ───────────────► Greeting ───────────► Ready
//!    ▲                         │ ConnectFailed            │ late, lost          │ lost, Goodbye(retry)
//!    └─────────────────────────┴──────────────────────────┴─────────────────────┘
//! Goodbye without retry, an identity that cannot become right, Stop ──► Ended
//!
//! attempt:  Waiting ──► Running ──► Signed(unsent ─► in flight ─► settled)
//!              │           │ Cancel     ▲  │ Later, broken stream ─► at a later time
//!              ▼           ▼            │
//!           removed    Cancelling ──────┘ (a result that was signed all the same is reported all the same)
//! ```
//!
//! Attempts outlive connections: a job keeps running and a signed result is sent until it is acknowledged.

mod attempts;
mod word;

pub use word::{AttemptKey, ConnectFailure, Effect, Input, SessionEnd, StreamKey};

use fleet_config::domain::{CellId, Fence};
use fleet_config::refusal::Refusal;
use fleet_config::wire::v1::{Device, Goodbye, Running, Welcome};
use fleet_config::wire::v2::Assign;
use std::collections::{BTreeMap, BTreeSet};

/// Milliseconds on a monotonic clock of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    fn after(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }
}

/// Shortest and longest pause before another try.
pub const BACKOFF_MIN_MS: u64 = 200;
pub const BACKOFF_MAX_MS: u64 = 10_000;

/// A connection that held this long ends a series of failures; shorter ones do not, or two nodes with the same
/// keys would take the place of each other five times a second.
pub const STEADY_MS: u64 = 10_000;

/// How long the coordinator may take to answer a hello.
pub const WELCOME_WITHIN_MS: u64 = 30_000;

/// Bounds of what a coordinator may ask for as heartbeat interval.
pub const HEARTBEAT_MIN_MS: u64 = 100;
pub const HEARTBEAT_MAX_MS: u64 = 15_000;

/// Reports on their way at once; the coordinator works on as many.
pub const REPORTS_IN_FLIGHT: usize = 4;

/// Attempts held at once, outbox included; the coordinator reads no more in a hello.
pub const HELD_MAX: usize = 1024;

/// Cancels remembered that came before their assignment; streams overtake each other only briefly.
const EARLY_CANCELS_MAX: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Waiting { until: Moment },
    Connecting,
    Greeting { until: Moment },
    Ready { since: Moment, interval_ms: u64, heartbeat_at: Moment },
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intake {
    Open,
    Draining,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Attempt {
    device: String,
    state: AttemptState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum AttemptState {
    /// For a cancelled job that still holds the device.
    Waiting(Box<Assign>),
    Running,
    Cancelling,
    Signed {
        report: ReportState,
        tries: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportState {
    Unsent,
    InFlight,
    At(Moment),
}

/// The machine. See the drawing above.
#[derive(Debug)]
pub struct Machine {
    link: Link,
    intake: Intake,
    devices: Vec<Device>,
    attempts: BTreeMap<AttemptKey, Attempt>,
    early_cancels: BTreeSet<AttemptKey>,
    dials: u64,
    failures: u32,
    /// Whether this coordinator has ever welcomed this node, in this run or before.
    known: Known,
    sequence: u64,
}

/// Whether the coordinator was met before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// No connection of this process was welcomed yet.
    Stranger,
    Welcomed,
}

impl Machine {
    /// A machine with `devices` whose outbox holds `signed`, each with its device.
    pub fn new(devices: Vec<Device>, signed: Vec<(AttemptKey, String)>) -> Self {
        let state = AttemptState::Signed { report: ReportState::Unsent, tries: 0 };
        let attempts =
            signed.into_iter().map(|(key, device)| (key, Attempt { device, state: state.clone() })).collect();
        Self {
            link: Link::Waiting { until: Moment(0) },
            intake: Intake::Open,
            devices,
            attempts,
            early_cancels: BTreeSet::new(),
            dials: 0,
            failures: 0,
            known: Known::Stranger,
            sequence: 0,
        }
    }

    /// When [`Input::Woken`] is due, if ever.
    pub fn wake_at(&self) -> Option<Moment> {
        match self.link {
            Link::Waiting { until } | Link::Greeting { until } => Some(until),
            Link::Connecting | Link::Ended => None,
            Link::Ready { heartbeat_at, .. } => {
                // With the window full the next acknowledgement sends what is due.
                let room = self.room() > 0;
                let reports = self.attempts.values().filter_map(|attempt| match attempt.state {
                    AttemptState::Signed { report: ReportState::At(at), .. } => room.then_some(at),
                    AttemptState::Signed { report: ReportState::Unsent | ReportState::InFlight, .. }
                    | AttemptState::Waiting(_)
                    | AttemptState::Running
                    | AttemptState::Cancelling => None,
                });
                reports.chain([heartbeat_at]).min()
            }
        }
    }

    /// What the node is working on or has not yet handed over, running work first.
    pub fn held(&self) -> Vec<Running> {
        let (signed, running): (Vec<_>, Vec<_>) = self
            .attempts
            .iter()
            .partition(|(_, attempt)| matches!(attempt.state, AttemptState::Signed { .. }));
        let row = |(key, attempt): (&AttemptKey, &Attempt)| Running {
            cell: key.cell.0,
            fence: key.fence.0,
            device: attempt.device.clone(),
        };
        running.into_iter().chain(signed).take(HELD_MAX).map(row).collect()
    }

    /// Takes one input at `now`.
    pub fn step(&mut self, now: Moment, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.link == Link::Ended {
            // Jobs that end now keep their results in the outbox for the next start.
            return effects;
        }
        match input {
            Input::Begin => self.connect(&mut effects),
            Input::Connected => self.on_connected(now, &mut effects),
            Input::ConnectFailed { failure, entropy } => {
                self.on_connect_failed(now, failure, entropy, &mut effects);
            }
            Input::Welcomed(welcome) => self.on_welcomed(now, welcome, &mut effects),
            Input::Dismissed { goodbye, entropy } => self.on_dismissed(now, goodbye, entropy, &mut effects),
            Input::Disconnected { entropy } => self.wait(now, entropy),
            Input::Assigned { stream, assign } => self.on_assigned(stream, assign, &mut effects),
            Input::Cancelled { attempt } => self.on_cancelled(attempt, &mut effects),
            Input::Drained => self.intake = Intake::Draining,
            Input::Undrained => self.intake = Intake::Open,
            Input::CheckpointSeen { note } => effects.push(Effect::KeepCheckpoint { note }),
            Input::DevicesChanged { devices } => self.on_devices(devices, &mut effects),
            Input::Progressed { attempt, progress } => {
                if self.state(attempt) == Some(&AttemptState::Running) {
                    effects.push(Effect::Progress { attempt, progress });
                }
            }
            Input::JobFinished { attempt } => self.on_finished(now, attempt, &mut effects),
            Input::JobAbandoned { attempt, code, cause } => {
                self.on_abandoned(attempt, code, cause, &mut effects);
            }
            Input::Acknowledged { attempt, recorded, entropy } => {
                self.on_acknowledged(now, attempt, recorded, entropy, &mut effects);
            }
            Input::ReportFailed { attempt, entropy } => self.retry_report(now, attempt, entropy),
            Input::ReportDamaged { attempt } => {
                if matches!(self.state(attempt), Some(AttemptState::Signed { .. })) {
                    self.attempts.remove(&attempt);
                }
                self.send_reports(now, &mut effects);
            }
            Input::Woken { entropy } => self.on_woken(now, entropy, &mut effects),
            Input::Stop => self.end(SessionEnd::Stopped, &mut effects),
        }
        effects
    }

    fn state(&self, attempt: AttemptKey) -> Option<&AttemptState> {
        self.attempts.get(&attempt).map(|attempt| &attempt.state)
    }

    fn connect(&mut self, effects: &mut Vec<Effect>) {
        if let Link::Waiting { .. } = self.link {
            self.link = Link::Connecting;
            effects.push(Effect::Connect { dial: self.dials });
            self.dials += 1;
        }
    }

    /// Back to waiting after the connection is gone, with full jitter so that a fleet does not return at once.
    fn wait(&mut self, now: Moment, entropy: u64) {
        match self.link {
            Link::Ready { since, .. } if now.0.saturating_sub(since.0) >= STEADY_MS => self.failures = 0,
            Link::Waiting { .. } | Link::Ended => return,
            Link::Connecting | Link::Greeting { .. } | Link::Ready { .. } => {}
        }
        self.link = Link::Waiting { until: now.after(backoff(self.failures, entropy)) };
        self.failures = self.failures.saturating_add(1);
        self.early_cancels.clear();
        for attempt in self.attempts.values_mut() {
            if let AttemptState::Signed { report, .. } = &mut attempt.state {
                *report = ReportState::Unsent;
            }
        }
    }

    fn end(&mut self, end: SessionEnd, effects: &mut Vec<Effect>) {
        for (key, attempt) in &self.attempts {
            if matches!(attempt.state, AttemptState::Running) {
                effects.push(Effect::CancelJob { attempt: *key });
            }
        }
        self.link = Link::Ended;
        effects.push(Effect::Disconnect);
        effects.push(Effect::End(end));
    }

    fn on_connected(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if self.link == Link::Connecting {
            self.link = Link::Greeting { until: now.after(WELCOME_WITHIN_MS) };
            effects.push(Effect::Hello { running: self.held(), devices: self.devices.clone() });
        }
    }

    fn on_connect_failed(
        &mut self,
        now: Moment,
        failure: ConnectFailure,
        entropy: u64,
        effects: &mut Vec<Effect>,
    ) {
        match (failure, self.known) {
            (ConnectFailure::Wrong(refusal), Known::Stranger) => {
                self.end(SessionEnd::Refused(refusal), effects);
            }
            // Work may be running: an address that somebody else answers for a while is waited out.
            (ConnectFailure::Wrong(_), Known::Welcomed) | (ConnectFailure::Unreachable, _) => {
                self.wait(now, entropy);
            }
        }
    }

    fn on_welcomed(&mut self, now: Moment, welcome: Welcome, effects: &mut Vec<Effect>) {
        let Link::Greeting { .. } = self.link else { return };
        let interval_ms = welcome.heartbeat_ms.clamp(HEARTBEAT_MIN_MS, HEARTBEAT_MAX_MS);
        self.link = Link::Ready { since: now, interval_ms, heartbeat_at: now.after(interval_ms) };
        self.known = Known::Welcomed;
        // A drain is said again on each connection.
        self.intake = Intake::Open;
        let stop: Vec<AttemptKey> = welcome
            .stop
            .iter()
            .map(|(cell, fence)| AttemptKey { cell: CellId(*cell), fence: Fence(*fence) })
            .collect();
        effects.push(Effect::RememberCoordinator { welcome });
        for attempt in stop {
            if self.attempts.contains_key(&attempt) {
                self.on_cancelled(attempt, effects);
            }
        }
        self.send_reports(now, effects);
    }

    fn on_dismissed(&mut self, now: Moment, goodbye: Goodbye, entropy: u64, effects: &mut Vec<Effect>) {
        if goodbye.retry {
            effects.push(Effect::Disconnect);
            self.wait(now, entropy);
            return;
        }
        let Goodbye { code, cause, next, retry: _ } = goodbye;
        let refusal = Refusal { code: code.into(), place: "coordinator".to_owned(), cause, next };
        self.end(SessionEnd::Refused(refusal), effects);
    }

    fn on_devices(&mut self, devices: Vec<Device>, effects: &mut Vec<Effect>) {
        self.devices = devices;
        if let Link::Ready { .. } = self.link {
            effects.push(Effect::Capacity { devices: self.devices.clone() });
        }
    }

    fn on_woken(&mut self, now: Moment, entropy: u64, effects: &mut Vec<Effect>) {
        match self.link {
            Link::Waiting { until } if now >= until => self.connect(effects),
            Link::Greeting { until } if now >= until => {
                effects.push(Effect::Disconnect);
                self.wait(now, entropy);
            }
            Link::Ready { since, interval_ms, heartbeat_at } => {
                if now >= heartbeat_at {
                    self.sequence += 1;
                    effects.push(Effect::Heartbeat { sequence: self.sequence, running: self.held() });
                    self.link = Link::Ready { since, interval_ms, heartbeat_at: now.after(interval_ms) };
                }
                self.send_reports(now, effects);
            }
            Link::Waiting { .. } | Link::Greeting { .. } | Link::Connecting | Link::Ended => {}
        }
    }
}

/// A pause in `BACKOFF_MIN_MS ..= ceiling`, where the ceiling doubles with each failure.
fn backoff(failures: u32, entropy: u64) -> u64 {
    let ceiling = BACKOFF_MAX_MS.min(BACKOFF_MIN_MS << failures.min(16));
    BACKOFF_MIN_MS + entropy % (ceiling - BACKOFF_MIN_MS + 1)
}

#[cfg(test)]
mod tests;
