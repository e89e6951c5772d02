//! Everything that can happen to the scheduler, as one closed enum.
//!
//! Duties of the driver: replay the journal, feed every [`LedgerEvent`] of the ledger that concerns a journalled
//! cell, then [`Input::RecoveryComplete`], and only then let nodes and people in. A session is one connection of
//! a node; what a node says is fed in the order of its control stream.

use super::fact::{CancelTarget, Invite, InviteId, Terms};
use fleet_config::domain::{
    Blame, CellId, DeviceDescription, DeviceId, Digest, Fence, LeafIndex, NodeId, RecordId, Stage, Status,
    Submission,
};
use std::collections::BTreeMap;

/// Ties a reply to its request; drawn by the driver, meaningless here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// One connection of one node; the driver counts them up, so that words of an old connection are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// An entry is durable in the ledger: at start as history, later as it happens. Repeats are harmless.
    Ledger(LedgerEvent),
    /// The ledger's history has been fed; from now on leases are granted.
    RecoveryComplete,
    /// Time has passed; nothing else happened. Due at [`super::Scheduler::next_wake`].
    Tick,
    Submit(Box<SubmitRequest>),
    Cancel {
        request: RequestId,
        target: CancelTarget,
    },
    Drain {
        request: RequestId,
        node: NodeId,
        intent: DrainIntent,
    },
    CreateInvite {
        request: RequestId,
        invite: Invite,
    },
    ConsumeInvite {
        request: RequestId,
        invite: InviteId,
        secret_hash: Digest,
        /// Hash of the key that wants to join.
        key: Digest,
        now_unix_ms: u64,
    },
    /// First message of a session.
    NodeHello {
        node: NodeId,
        session: SessionId,
        devices: Vec<DeviceDescription>,
        /// What the node runs, and what it finished without an acknowledgement (its outbox).
        held: Vec<HeldAttempt>,
    },
    /// The node offers other devices than it said in its hello; what it runs goes on.
    DevicesChanged {
        node: NodeId,
        session: SessionId,
        devices: Vec<DeviceDescription>,
    },
    /// A sign of life.
    Heartbeat {
        node: NodeId,
        session: SessionId,
    },
    /// The connection is gone. The node may well keep running and come back.
    NodeDisconnected {
        node: NodeId,
        session: SessionId,
    },
    /// An attempt entered a stage.
    Progress {
        node: NodeId,
        session: SessionId,
        cell: CellId,
        fence: Fence,
        stage: Stage,
    },
    /// The node no longer runs an attempt.
    AttemptStopped {
        node: NodeId,
        session: SessionId,
        cell: CellId,
        fence: Fence,
        how: Stop,
    },
}

/// A checked submission with what the driver looked up for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitRequest {
    pub request: RequestId,
    pub submission: Submission,
    pub terms: Terms,
    /// 32 fresh random bytes.
    pub entropy: Digest,
    /// Cells that a recorded result answers (the driver asked the ledger's index).
    pub reused: BTreeMap<CellId, LeafIndex>,
}

/// Which way a drain goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainIntent {
    /// Finish and take no more.
    Drain,
    /// Take work again.
    Resume,
}

/// An attempt that a node says it holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldAttempt {
    pub cell: CellId,
    pub fence: Fence,
    pub device: DeviceId,
}

/// Why a node no longer runs an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was told to; it also answers so for an attempt that it never saw.
    Cancelled,
    /// It gave up without a result (its worker died, it cannot take the assignment).
    Abandoned,
    /// Its result has arrived at the coordinator; the ledger will say what became of it.
    Reported,
}

/// What the ledger's writer made durable about a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerEvent {
    /// An `attempt-granted` entry covers these fences.
    GrantsRecorded { fences: Vec<Fence>, index: LeafIndex },
    /// A `result` entry was accepted.
    Committed { cell: CellId, fence: Fence, record: RecordId, status: Status, blame: Blame, index: LeafIndex },
    /// An `attempt-lost` entry that leaves its cell open.
    Lost { cell: CellId, fence: Fence, index: LeafIndex },
    /// The entry that ends a cell without a result.
    Ended { cell: CellId, reason: EndReason, index: LeafIndex },
}

/// Why a cell ended without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndReason {
    /// The fleet failed [`super::limits::ATTEMPTS_MAX`] times; recorded as `infrastructure`.
    AttemptsExhausted,
    /// No device within the queue budget; recorded as `infrastructure`.
    QueueBudgetSpent,
    /// Somebody cancelled it.
    Cancelled,
}
