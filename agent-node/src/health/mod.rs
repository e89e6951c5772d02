//! Whether a GPU may be believed: what happened to it, what that means, and the way back.
//!
//! ```text
//! unproven ──canary right──► healthy ◄──two right canaries── suspect ◄──three right canaries── quarantined
//!     │                        │                               ▲ │
//!     │                        └── slow canary, ECC, Xid ──────┘ │ canary fails twice
//!     └──────────────── canary wrong, grave Xid ────────────────►└──────────────────────────► quarantined
//! ```
//! The machine ([`Health`]) is pure: it is told events and the time, and says whether a canary is due and whether the
//! device takes work. A suspect device works on, and what it offers and records says so; a quarantined one gets no work.
//! `canary` runs the known kernel, `xid` sorts the driver's reports, `keeper` does what this room decides.

pub mod canary;
pub mod keeper;
pub mod xid;

use fleet_config::domain::{Fact, Facts, Picoseconds, field};
use std::time::Duration;
use xid::{Class, Xid};

/// A healthy device shows its canary this often.
const EVERY: Duration = Duration::from_secs(15 * 60);
/// One that is in doubt shows it sooner.
const EVERY_DOUBTED: Duration = Duration::from_secs(60);
/// Right canaries in a row that take a doubt away, and that end a quarantine.
const RIGHT_FOR_HEALTHY: u32 = 2;
const RIGHT_FOR_RELEASE: u32 = 3;
/// A canary that takes longer than this many times the first of this run is slow, in percent.
const SLOW_PERCENT: u64 = 150;
/// Characters of a cause that are kept.
const CAUSE_MAX: usize = 300;

/// How a device stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No canary has run yet.
    Unproven,
    Healthy,
    /// Works, and its results say that there is a doubt.
    Suspect,
    /// Gets no work.
    Quarantined,
}

impl State {
    /// The word that nodes offer and people read.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unproven => "unproven",
            Self::Healthy => "healthy",
            Self::Suspect => "suspect",
            Self::Quarantined => "quarantined",
        }
    }
}

/// Whether right canaries can end a quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Release {
    ByCanary,
    /// The driver asks for a reset or another board: a new start of the node begins anew.
    ByRestart,
}

/// What a canary said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    Right {
        time: Picoseconds,
    },
    /// Another answer than the known one: what this device computes is worth nothing.
    Wrong {
        message: String,
    },
    /// It was stopped: fault, time limit, dead worker.
    Failed {
        message: String,
    },
    /// Nothing was learned: no compiler, somebody else has the device.
    NotRun {
        message: String,
    },
}

/// What happened to a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Canary(Reading),
    /// The driver reported this.
    Xid(Xid),
    /// Errors in memory that could not be corrected, since the last look.
    MemoryErrors(u64),
    /// The device slowed itself down, by these reasons.
    Slowed(String),
    /// An attempt ended in a fault: its own, as long as the canary says so.
    AttemptFault,
}

/// One device's health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    state: State,
    cause: String,
    release: Release,
    /// When the next canary is due.
    due: Duration,
    /// Canaries in a row that were right, and that failed.
    right: u32,
    failed: u32,
    first: Option<Picoseconds>,
    last: Option<Picoseconds>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            state: State::Unproven,
            cause: "no canary has run yet".to_owned(),
            release: Release::ByCanary,
            due: Duration::ZERO,
            right: 0,
            failed: 0,
            first: None,
            last: None,
        }
    }
}

impl Health {
    pub fn state(&self) -> State {
        self.state
    }

    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// Whether the canary should run before anything else does.
    pub fn is_due(&self, now: Duration) -> bool {
        now >= self.due
    }

    /// Whether the device gets work.
    pub fn takes_work(&self) -> bool {
        match self.state {
            State::Unproven | State::Healthy | State::Suspect => true,
            State::Quarantined => false,
        }
    }

    /// Takes in what happened.
    pub fn on(&mut self, now: Duration, event: Event) {
        match event {
            Event::Canary(reading) => self.on_canary(now, reading),
            Event::Xid(xid) => {
                self.due = now;
                let told = xid.told();
                match xid.class() {
                    // The candidate's doing. That the device is none the worse is for the canary to say.
                    Class::Application => {}
                    Class::Suspect => self.doubt(told),
                    Class::Quarantine => self.quarantine(told, Release::ByRestart),
                }
            }
            Event::MemoryErrors(0) => {}
            Event::MemoryErrors(count) => {
                self.due = now;
                self.doubt(format!("{count} memory errors that could not be corrected"));
            }
            Event::Slowed(reasons) => {
                self.due = now;
                self.doubt(format!("it slowed itself down: {reasons}"));
            }
            Event::AttemptFault => self.due = now,
        }
    }

    fn on_canary(&mut self, now: Duration, reading: Reading) {
        match reading {
            Reading::Right { time } => {
                self.failed = 0;
                self.last = Some(time);
                let first = *self.first.get_or_insert(time);
                if time.0.saturating_mul(100) > first.0.saturating_mul(SLOW_PERCENT) {
                    self.right = 0;
                    self.doubt(format!("its canary takes {time}, at the start it took {first}"));
                } else {
                    self.right = self.right.saturating_add(1);
                    self.recover();
                }
            }
            Reading::Wrong { message } => {
                self.right = 0;
                self.quarantine(format!("its canary is wrong: {message}"), Release::ByCanary);
            }
            Reading::Failed { message } => {
                (self.right, self.failed) = (0, self.failed.saturating_add(1));
                let told = format!("its canary was stopped: {message}");
                if self.failed > 1 { self.quarantine(told, Release::ByCanary) } else { self.doubt(told) }
            }
            Reading::NotRun { message } => {
                if self.state == State::Unproven {
                    self.say(format!("its canary could not be run: {message}"));
                }
            }
        }
        self.due = now.saturating_add(match self.state {
            State::Healthy => EVERY,
            State::Unproven | State::Suspect | State::Quarantined => EVERY_DOUBTED,
        });
    }

    /// One step towards healthy, where enough canaries in a row were right.
    fn recover(&mut self) {
        match (self.state, self.release) {
            (State::Unproven | State::Healthy, _) => self.heal(),
            (State::Suspect, _) if self.right >= RIGHT_FOR_HEALTHY => self.heal(),
            (State::Quarantined, Release::ByCanary) if self.right >= RIGHT_FOR_RELEASE => {
                (self.state, self.right) = (State::Suspect, 0);
                let before = std::mem::take(&mut self.cause);
                self.say(format!("released from quarantine ({before})"));
            }
            (State::Suspect | State::Quarantined, _) => {}
        }
    }

    fn heal(&mut self) {
        self.state = State::Healthy;
        self.cause.clear();
    }

    fn doubt(&mut self, cause: String) {
        match self.state {
            State::Unproven | State::Healthy | State::Suspect => {
                (self.state, self.right) = (State::Suspect, 0);
                self.say(cause);
            }
            // What is worse stays said.
            State::Quarantined => self.right = 0,
        }
    }

    fn quarantine(&mut self, cause: String, release: Release) {
        (self.state, self.right) = (State::Quarantined, 0);
        match (self.release, release) {
            (Release::ByRestart, Release::ByCanary) => {}
            (_, release) => {
                self.release = release;
                self.say(cause);
            }
        }
    }

    fn say(&mut self, cause: String) {
        self.cause = cause.chars().take(CAUSE_MAX).collect();
    }

    /// How much slower the newest canary is than the first, in parts per million; negative: faster.
    pub fn drift_ppm(&self) -> Option<i64> {
        let (first, last) = (i64::try_from(self.first?.0).ok()?, i64::try_from(self.last?.0).ok()?);
        Some((last - first).saturating_mul(1_000_000) / first.max(1))
    }

    /// What a node says of the device beside its configuration.
    pub fn facts(&self) -> Facts {
        let unknown = || Fact::Unknown("no canary has run yet".to_owned());
        let cause = if self.cause.is_empty() { "none" } else { &self.cause };
        let drift = self.drift_ppm().map(|drift| Fact::Text(drift.to_string()));
        Facts::from([
            (field::HEALTH.to_owned(), Fact::Text(self.state.word().to_owned())),
            (field::HEALTH_CAUSE.to_owned(), Fact::Text(cause.to_owned())),
            (field::CANARY.to_owned(), self.last.map_or_else(unknown, |last| Fact::Count(last.0))),
            (field::DRIFT.to_owned(), drift.unwrap_or_else(unknown)),
        ])
    }
}

#[cfg(test)]
mod tests;
