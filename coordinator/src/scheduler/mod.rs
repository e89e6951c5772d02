//! The scheduler: pure decisions over facts.
//!
//! `step(now, Input) → Effects`: no clock, no runtime, no randomness. Read [`fact`] (what is remembered), [`input`]
//! (all that can happen), [`effect`] (all that can be asked), then the rooms of each event.
//!
//! Invariants, checked by [`invariant`] after each step in debug builds:
//! * a device has at most one open lease, and none while it may run an attempt whose lease is over;
//! * a cell has at most one open lease, and none once it is finished;
//! * a fence is the journal sequence number of its grant, so that a newer lease has a higher fence;
//! * a lease ends by a ledger entry only; until that entry is durable its cell is not granted again;
//! * a cell is finished by exactly one ledger entry: a final result, or the entry that ends it without one.

pub mod acceptance;
mod cell_state;
pub mod effect;
mod ending;
pub mod explain;
pub mod fact;
pub mod input;
mod invariant;
mod invite;
mod lease;
pub mod limits;
mod node;
pub mod node_state;
mod placement;
mod presence;
mod queue;
mod replay;
mod request;
pub mod retry;
#[cfg(test)]
mod tests;
mod timer;
mod verdict;
pub mod view;

pub use acceptance::{AcceptanceTable, Claim, Judgement, RefuseReason};
pub use effect::{CellSubject, Effect, Effects, Ending, Event, Grant, LostReason, Reply};
pub use fact::{AcceptedSubmission, CancelTarget, Fact, Invite, InviteId, LeaseGrant, Terms};
pub use input::{
    DrainIntent, EndReason, HeldAttempt, Input, LedgerEvent, RequestId, SessionId, Stop, SubmitRequest,
};
pub use invariant::Violation;
pub use node_state::NodeState;
pub use replay::ReplayError;

use cell_state::Cell;
use fleet_config::domain::{CellId, Digest, Fence, HoldoutCheck, NodeId, PolicyId, SubmissionId, TaskId};
use fleet_config::refusal::Refusal;
use invite::InviteState;
use lease::Lease;
use node::Node;
use queue::Queue;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use timer::Timer;

/// Who does what and when. Owned by the driver, which performs its effects.
#[derive(Debug, Clone)]
pub struct Scheduler {
    phase: Phase,
    /// Time of the last step.
    now: Duration,
    /// Journal sequence number of the next fact.
    next_sequence: u64,
    submissions: BTreeMap<SubmissionId, SubmissionState>,
    /// Every submission ever accepted, so that none is accepted twice after it was forgotten.
    accepted: BTreeSet<SubmissionId>,
    /// Finished submissions, oldest first.
    finished: VecDeque<SubmissionId>,
    cells: BTreeMap<CellId, Cell>,
    open_cells: usize,
    leases: BTreeMap<Fence, Lease>,
    /// While recovering: leases whose cell or device the journal granted again, so that the ledger must hold their end.
    superseded: BTreeSet<Fence>,
    nodes: BTreeMap<NodeId, Node>,
    queue: Queue,
    timers: BTreeSet<(Duration, Timer)>,
    invites: BTreeMap<InviteId, InviteState>,
    #[cfg(debug_assertions)]
    steps: u64,
}

/// ```text
///   Recovering ── RecoveryComplete ──► Running
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Facts and the ledger's history are applied; nothing is decided.
    Recovering,
    Running,
}

/// One accepted submission.
#[derive(Debug, Clone)]
struct SubmissionState {
    sequence: u64,
    task: TaskId,
    policy: PolicyId,
    terms: Terms,
    /// What its leases open: present in a final verification alone.
    holdout: Option<HoldoutCheck>,
    entropy: Digest,
    cells: Vec<CellId>,
    /// Cells that are not finished.
    open: usize,
}

impl Scheduler {
    /// Takes one event and answers what to do about it. `now` is monotonic time since the start of the process;
    /// a step back counts as no step.
    pub fn step(&mut self, now: Duration, input: Input) -> Effects {
        let now = now.max(self.now);
        let mut out = Effects::new();
        if !self.is_recovering() {
            self.forgive_pause(now);
        }
        self.now = now;
        match input {
            Input::Ledger(event) => self.on_ledger(now, event, &mut out),
            Input::RecoveryComplete => self.on_recovery_complete(now, &mut out),
            Input::Tick => {}
            other if self.is_recovering() => refuse_while_recovering(other, &mut out),
            Input::Submit(request) => self.on_submit(now, *request, &mut out),
            Input::Cancel { request, target } => self.on_cancel(request, target, &mut out),
            Input::Drain { request, node, intent } => self.on_drain(request, node, intent, &mut out),
            Input::CreateInvite { request, invite } => self.on_create_invite(request, invite, &mut out),
            Input::ConsumeInvite { request, invite, secret_hash, key, now_unix_ms } => {
                let reply = self.on_consume_invite(&invite, secret_hash, key, now_unix_ms, &mut out);
                out.push(Effect::Reply { request, reply });
            }
            Input::NodeHello { node, session, devices, held } => {
                self.on_hello(now, node, session, devices, held, &mut out);
            }
            Input::DevicesChanged { node, session, devices } => {
                self.on_devices_changed(now, node, session, devices, &mut out);
            }
            Input::Heartbeat { node, session } => self.on_heartbeat(now, node, session, &mut out),
            Input::NodeDisconnected { node, session } => self.on_disconnected(node, session),
            Input::Progress { node, session, cell, fence, stage } => {
                if self.is_heard(now, node, session) {
                    self.on_progress(node, cell, fence, stage, &mut out);
                }
            }
            Input::AttemptStopped { node, session, cell, fence, how } => {
                if self.is_heard(now, node, session) {
                    self.on_stopped(node, cell, fence, how, &mut out);
                }
            }
        }
        if !self.is_recovering() {
            self.fire_timers(now, &mut out);
            self.place(now, &mut out);
        }
        self.check_sometimes();
        out
    }

    fn is_recovering(&self) -> bool {
        match self.phase {
            Phase::Recovering => true,
            Phase::Running => false,
        }
    }

    /// Gives a decided fact its sequence number, applies it as replay would, and asks for its journal frame.
    fn persist(&mut self, fact: Fact, out: &mut Effects) -> u64 {
        let sequence = self.next_sequence;
        out.push(Effect::Persist { sequence, fact: fact.clone() });
        self.apply(sequence, fact);
        sequence
    }
}

/// The driver lets nobody in before `RecoveryComplete`; should it do so, nothing is lost silently.
fn refuse_while_recovering(input: Input, out: &mut Effects) {
    let refusal = Refusal::new(
        "coordinator/recovering",
        "",
        "the coordinator is still reading its journal and ledger",
        "Try again in a moment.",
    );
    match input {
        Input::Submit(submit) => {
            out.push(Effect::Reply { request: submit.request, reply: Reply::Refused(refusal) })
        }
        Input::Cancel { request, .. }
        | Input::Drain { request, .. }
        | Input::CreateInvite { request, .. }
        | Input::ConsumeInvite { request, .. } => {
            out.push(Effect::Reply { request, reply: Reply::Refused(refusal) });
        }
        Input::NodeHello { node, session, .. }
        | Input::DevicesChanged { node, session, .. }
        | Input::Heartbeat { node, session }
        | Input::Progress { node, session, .. }
        | Input::AttemptStopped { node, session, .. } => {
            out.push(Effect::Disconnect { node, session, refusal });
        }
        Input::NodeDisconnected { .. } | Input::Ledger(_) | Input::RecoveryComplete | Input::Tick => {}
    }
}
