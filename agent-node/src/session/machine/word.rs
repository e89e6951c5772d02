//! What can happen to the machine and what it can ask for, as two closed enums.

use fleet_config::domain::{CellId, Fence};
use fleet_config::refusal::Refusal;
use fleet_config::wire::v1::{Device, Goodbye, Progress, Recorded, Running, Welcome};
use fleet_config::wire::v2::Assign;

/// One try at a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptKey {
    pub cell: CellId,
    pub fence: Fence,
}

impl AttemptKey {
    /// Of what `assign` grants.
    pub fn of(assign: &Assign) -> Self {
        Self { cell: CellId(assign.cell), fence: Fence(assign.fence) }
    }
}

/// An assignment stream that waits for its first answer; counted by the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamKey(pub u64);

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectFailure {
    /// Nobody answers; that changes.
    Unreachable,
    /// Whoever answers has another key or speaks another protocol. While joining this is final.
    Wrong(Refusal),
}

/// Everything that can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Begin,
    Connected,
    ConnectFailed {
        failure: ConnectFailure,
        entropy: u64,
    },
    Welcomed(Welcome),
    Dismissed {
        goodbye: Goodbye,
        entropy: u64,
    },
    Disconnected {
        entropy: u64,
    },
    Assigned {
        stream: StreamKey,
        assign: Box<Assign>,
    },
    Cancelled {
        attempt: AttemptKey,
    },
    Drained,
    Undrained,
    CheckpointSeen {
        note: String,
    },
    DevicesChanged {
        devices: Vec<Device>,
    },
    Progressed {
        attempt: AttemptKey,
        progress: Progress,
    },
    /// Its envelope is synced in the outbox.
    JobFinished {
        attempt: AttemptKey,
    },
    /// It ended without a result.
    JobAbandoned {
        attempt: AttemptKey,
        code: String,
        cause: String,
    },
    Acknowledged {
        attempt: AttemptKey,
        recorded: Recorded,
        entropy: u64,
    },
    /// The report's stream broke.
    ReportFailed {
        attempt: AttemptKey,
        entropy: u64,
    },
    /// Its files are damaged and were set aside.
    ReportDamaged {
        attempt: AttemptKey,
    },
    /// The moment of `Machine::wake_at` came.
    Woken {
        entropy: u64,
    },
    Stop,
}

/// Everything that can be asked of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Dial; the count picks among several addresses.
    Connect {
        dial: u64,
    },
    Hello {
        running: Vec<Running>,
        devices: Vec<Device>,
    },
    Heartbeat {
        sequence: u64,
        running: Vec<Running>,
    },
    Capacity {
        devices: Vec<Device>,
    },
    /// Say `Taken` on the stream and keep it for the attempt's answers.
    Take {
        stream: StreamKey,
        attempt: AttemptKey,
    },
    Decline {
        stream: StreamKey,
        code: &'static str,
        cause: String,
    },
    StartJob {
        assign: Box<Assign>,
    },
    CancelJob {
        attempt: AttemptKey,
    },
    Progress {
        attempt: AttemptKey,
        progress: Progress,
    },
    /// Say `Declined` on the attempt's stream, if it is still there, and end it.
    GiveUp {
        attempt: AttemptKey,
        code: String,
        cause: String,
    },
    /// End the attempt's stream: its result is signed.
    CloseAnswers {
        attempt: AttemptKey,
    },
    SendReport {
        attempt: AttemptKey,
    },
    /// Keep the promise, then drop the outbox entry.
    Settle {
        attempt: AttemptKey,
        recorded: Recorded,
    },
    KeepCheckpoint {
        note: String,
    },
    /// Keep the pin, so that the next start needs no invite.
    RememberCoordinator {
        welcome: Welcome,
    },
    /// Close the connection; nothing of it is reported any more.
    Disconnect,
    End(SessionEnd),
}

/// Why a session ended for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEnd {
    Stopped,
    Refused(Refusal),
}
