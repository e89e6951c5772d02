//! Everything that the scheduler can ask for, as one closed enum.
//!
//! Order: an effect that follows a [`Effect::Persist`] of the same step may be performed only once that fact is
//! durable. Performing all `Persist`s of a step first, in order and with one sync, is always right.

use super::fact::{Fact, Terms};
use super::input::{DrainIntent, EndReason, RequestId, SessionId};
use fleet_config::domain::{
    CandidateId, CellId, DeviceClass, DeviceId, Fence, HoldoutCheck, LeafIndex, Milliseconds, NodeId, Nonce,
    PolicyId, Seed, Stage, Status, SubmissionId, TaskId,
};
use fleet_config::refusal::Refusal;

/// The effects of one step, in order.
pub type Effects = Vec<Effect>;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Append to the journal; `sequence` must equal the number that the journal gives it.
    Persist { sequence: u64, fact: Fact },
    /// Append one `attempt-granted` entry for these grants; answered by `LedgerEvent::GrantsRecorded`.
    RecordGrants(Vec<Grant>),
    /// Append an `attempt-lost` entry if the acceptance table still has this fence open; answered by
    /// `LedgerEvent::Lost`, or by the `Committed` that came first.
    RecordLost { about: CellSubject, fence: Fence, node: NodeId, device: DeviceId, reason: LostReason },
    /// Append the entry that ends the cell if the acceptance table still has it open; answered by
    /// `LedgerEvent::Ended`, or by the `Committed` that came first.
    RecordEnd { about: CellSubject, fence: Option<Fence>, attempts: u32, reason: EndReason },
    /// Send the assignment over this session; drop it if the session is gone.
    Assign { session: SessionId, grant: Box<Grant> },
    /// Tell the node to stop an attempt; it answers `AttemptStopped` even if it never saw it. Repeats happen.
    CancelOnNode { node: NodeId, session: SessionId, cell: CellId, fence: Fence },
    /// Tell the node whether it takes work. It forgets with its connection, so it is said again after each hello.
    Intake { node: NodeId, session: SessionId, intent: DrainIntent },
    /// Close the session: what is still under way in it must not be delivered.
    Disconnect { node: NodeId, session: SessionId, refusal: Refusal },
    /// Answer a request.
    Reply { request: RequestId, reply: Reply },
    /// Tell whoever watches.
    Publish(Event),
    /// The persisted state contradicts itself: stop, say so, repair nothing.
    Halt { refusal: Refusal },
}

/// Which question a loss or an end is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellSubject {
    pub cell: CellId,
    pub submission: SubmissionId,
    pub task: TaskId,
    pub candidate: CandidateId,
}

/// One leased try, with all that assignment, record and check need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub fence: Fence,
    pub cell: CellId,
    pub submission: SubmissionId,
    pub task: TaskId,
    pub policy: PolicyId,
    pub candidate: CandidateId,
    pub class: DeviceClass,
    pub node: NodeId,
    pub device: DeviceId,
    pub nonce: Nonce,
    pub seeds: Vec<Seed>,
    /// 1 for the first try.
    pub attempt: u32,
    pub terms: Terms,
    /// Present where the lease opens a holdout; searches never do.
    pub holdout: Option<HoldoutCheck>,
    /// How long the cell waited for this lease, as far as this run of the coordinator knows.
    pub waited: Milliseconds,
}

/// Why an attempt is lost; all of them are the fleet's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LostReason {
    /// The node said nothing for [`super::limits::NODE_TIMEOUT`].
    NodeSilent,
    /// The lease ran past its deadline.
    DeadlinePassed,
    /// The node came back without it.
    NotHeld,
    /// The node gave it up.
    Abandoned,
}

impl LostReason {
    /// The word used in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeSilent => "node_silent",
            Self::DeadlinePassed => "deadline_passed",
            Self::NotHeld => "not_held",
            Self::Abandoned => "abandoned",
        }
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Journalled at `sequence`; `warnings` say which classes have no device now.
    Accepted {
        submission: SubmissionId,
        sequence: u64,
        warnings: Vec<Refusal>,
    },
    /// The same document was accepted before.
    AlreadyAccepted {
        submission: SubmissionId,
    },
    /// Cancelled as far as it was open.
    Cancelled {
        cells: usize,
    },
    /// Drained or resumed; `running` leases are still open on the node.
    Drained {
        running: usize,
    },
    InviteCreated,
    /// This key may join; its devices must belong to `class`.
    InviteConsumed {
        class: Option<DeviceClass>,
    },
    Refused(Refusal),
}

/// What watchers are told. Order within a cell is the order of its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    SubmissionAccepted {
        submission: SubmissionId,
        cells: usize,
    },
    CellLeased {
        submission: SubmissionId,
        cell: CellId,
        fence: Fence,
        node: NodeId,
        device: DeviceId,
        attempt: u32,
    },
    CellStage {
        submission: SubmissionId,
        cell: CellId,
        fence: Fence,
        stage: Stage,
    },
    /// The fleet failed; another try follows.
    CellRetried {
        submission: SubmissionId,
        cell: CellId,
        fence: Fence,
        attempts: u32,
    },
    CellFinished {
        submission: SubmissionId,
        cell: CellId,
        ending: Ending,
    },
    SubmissionFinished {
        submission: SubmissionId,
    },
    NodeChanged {
        node: NodeId,
        state: super::node_state::NodeState,
    },
}

/// How a cell ended; the index is that of its one final entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By a result of its own.
    Result { status: Status, fence: Fence, index: LeafIndex },
    /// By an earlier result of the same question.
    Reused { index: LeafIndex },
    /// Without a result.
    Ended { reason: EndReason, index: LeafIndex },
}
