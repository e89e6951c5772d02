//! Replay: facts are applied and nothing is decided; then the ledger's history; then the fleet starts.

use super::cell_state::{Cell, CellState, Wish};
use super::effect::{Effect, Effects, Ending};
use super::fact::{AcceptedSubmission, CancelTarget, Fact};
use super::input::EndReason;
use super::invite::InviteState;
use super::lease::{LeasePhase, Occupancy, term};
use super::limits::{ATTEMPTS_MAX, NODE_TIMEOUT};
use super::node::{Drain, Node};
use super::queue::{Queue, Turn};
use super::timer::Timer;
use super::{Phase, Scheduler, SubmissionState};
use fleet_config::domain::{CellId, Fence};
use fleet_config::refusal::Refusal;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// A journal whose facts do not follow from each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("the journal has fact {found} where fact {expected} should stand")]
    Sequence { expected: u64, found: u64 },
    #[error("fact {sequence} of the journal grants fence {fence}; they must be equal")]
    Fence { sequence: u64, fence: Fence },
    #[error("fact {sequence} of the journal names {what}, which no earlier fact explains")]
    Unexplained { sequence: u64, what: String },
}

impl Scheduler {
    /// Sequence number of the first fact of a journal.
    pub const FIRST_SEQUENCE: u64 = 1;

    /// The scheduler as the journal's facts leave it, numbered from [`Self::FIRST_SEQUENCE`] without a gap. The
    /// ledger's history and `RecoveryComplete` must follow.
    pub fn replay(facts: impl IntoIterator<Item = (u64, Fact)>) -> Result<Self, ReplayError> {
        let mut scheduler = Self {
            phase: Phase::Recovering,
            now: Duration::ZERO,
            next_sequence: Self::FIRST_SEQUENCE,
            submissions: BTreeMap::new(),
            accepted: BTreeSet::new(),
            finished: VecDeque::new(),
            cells: BTreeMap::new(),
            open_cells: 0,
            leases: BTreeMap::new(),
            superseded: BTreeSet::new(),
            nodes: BTreeMap::new(),
            queue: Queue::default(),
            timers: BTreeSet::new(),
            invites: BTreeMap::new(),
            #[cfg(debug_assertions)]
            steps: 0,
        };
        for (sequence, fact) in facts {
            scheduler.check_fact(sequence, &fact)?;
            scheduler.apply(sequence, fact);
        }
        Ok(scheduler)
    }

    /// A fact that a sound journal cannot hold.
    fn check_fact(&self, sequence: u64, fact: &Fact) -> Result<(), ReplayError> {
        if sequence != self.next_sequence {
            return Err(ReplayError::Sequence { expected: self.next_sequence, found: sequence });
        }
        let unexplained = |what: String| Err(ReplayError::Unexplained { sequence, what });
        match fact {
            Fact::SubmissionAccepted(accepted) if self.accepted.contains(&accepted.id) => {
                unexplained(format!("submission {} a second time", accepted.id))
            }
            Fact::LeaseGranted(grant) if grant.fence.0 != sequence => {
                Err(ReplayError::Fence { sequence, fence: grant.fence })
            }
            Fact::LeaseGranted(grant) => match self.cells.get(&grant.cell).map(|cell| cell.state) {
                Some(CellState::Queued { .. } | CellState::Leased { .. }) => Ok(()),
                Some(CellState::Backoff { .. } | CellState::Ending { .. } | CellState::Finished { .. })
                | None => unexplained(format!("cell {}", grant.cell)),
            },
            Fact::InviteConsumed { invite, key: _ } if !self.invites.contains_key(invite) => {
                unexplained(format!("invite {}", invite.0))
            }
            Fact::SubmissionAccepted(_)
            | Fact::Cancelled(_)
            | Fact::NodeDrained { .. }
            | Fact::NodeUndrained { .. }
            | Fact::InviteCreated(_)
            | Fact::InviteConsumed { .. } => Ok(()),
        }
    }

    /// Applies a fact, decided now or long ago. It asks for nothing.
    pub(super) fn apply(&mut self, sequence: u64, fact: Fact) {
        self.next_sequence = sequence + 1;
        match fact {
            Fact::SubmissionAccepted(accepted) => self.apply_submission(sequence, *accepted),
            Fact::LeaseGranted(grant) => self.apply_grant(grant),
            Fact::Cancelled(target) => self.apply_cancel(target),
            Fact::NodeDrained { node } => {
                self.nodes.entry(node).or_insert_with(Node::new).drain = Drain::Drained;
            }
            Fact::NodeUndrained { node } => {
                self.nodes.entry(node).or_insert_with(Node::new).drain = Drain::Open;
            }
            Fact::InviteCreated(invite) => {
                let state = InviteState { invite, keys: BTreeSet::new() };
                self.invites.insert(state.invite.id.clone(), state);
            }
            Fact::InviteConsumed { invite, key } => {
                if let Some(state) = self.invites.get_mut(&invite) {
                    state.keys.insert(key);
                }
            }
        }
    }

    fn apply_submission(&mut self, sequence: u64, accepted: AcceptedSubmission) {
        let AcceptedSubmission { id, submission, terms, entropy, reused } = accepted;
        let mut state = SubmissionState {
            sequence,
            task: submission.task,
            policy: submission.policy,
            terms,
            holdout: submission.holdout,
            entropy,
            cells: Vec::new(),
            open: 0,
        };
        for (cell, candidate, class) in submission.cells(id) {
            state.cells.push(cell);
            let answer = match reused.get(&cell) {
                Some(index) => CellState::Finished { ending: Ending::Reused { index: *index } },
                None => CellState::Queued { since: self.now },
            };
            if !reused.contains_key(&cell) {
                state.open += 1;
                self.open_cells += 1;
                if !self.queue.classes.contains_key(&class) {
                    self.queue.classes.entry(class.clone()).or_default();
                    self.open_class(&class);
                }
                self.queue.classes.entry(class.clone()).or_default().open += 1;
            }
            let wish = Wish::Run;
            let row = Cell {
                id: cell,
                submission: id,
                candidate,
                class,
                state: answer,
                wish,
                attempts: 0,
                last_node: None,
            };
            self.cells.insert(cell, row);
        }
        if state.open == 0 {
            self.finished.push_back(id);
        }
        self.accepted.insert(id);
        self.submissions.insert(id, state);
    }

    fn apply_cancel(&mut self, target: CancelTarget) {
        let cells = match target {
            CancelTarget::Submission(id) => {
                self.submissions.get(&id).map(|state| state.cells.clone()).unwrap_or_default()
            }
            CancelTarget::Cell(id) => vec![id],
        };
        for cell in cells {
            if let Some(cell) = self.cells.get_mut(&cell) {
                cell.wish = Wish::Stop;
            }
        }
    }

    /// The ledger's history is known: every open lease gets one fresh term, cells that wait are queued, and what
    /// had been decided without leaving a fact (a cancel's end, the end of exhausted cells) is decided again.
    pub(super) fn on_recovery_complete(&mut self, now: Duration, out: &mut Effects) {
        if !self.is_recovering() {
            return;
        }
        if let Some(fence) = self.superseded.first() {
            out.push(Effect::Halt {
                refusal: Refusal::new(
                    "state/ledger-behind-journal",
                    "ledger",
                    format!("the journal moved on after fence {fence}; the ledger does not say how that attempt ended"),
                    "Restore the ledger that belongs to this journal; both live in one state folder.",
                ),
            });
            return;
        }
        self.phase = Phase::Running;
        for (id, node) in &mut self.nodes {
            node.heard = now;
            self.timers.insert((now + NODE_TIMEOUT, Timer::NodeSilence(*id)));
        }
        let mut unrecorded = Vec::new();
        let fences: Vec<Fence> = self.leases.keys().copied().collect();
        for fence in fences {
            let Some(grant) = self.describe(fence) else { continue };
            let Some(lease) = self.leases.get_mut(&fence) else { continue };
            match lease.phase {
                LeasePhase::Granted => unrecorded.push(grant),
                // It may have been sent before the restart: its node's hello will tell.
                LeasePhase::Recorded => {
                    let deadline = now + term(&grant.terms);
                    lease.enter(LeasePhase::Assigned { deadline });
                    lease.occupancy = Occupancy::Possible;
                    self.timers.insert((deadline, Timer::LeaseDeadline(fence)));
                }
                LeasePhase::Assigned { .. } | LeasePhase::Ending => {}
            }
        }
        if !unrecorded.is_empty() {
            out.push(Effect::RecordGrants(unrecorded));
        }
        for cell in self.cells_to_stop() {
            self.end(cell, EndReason::Cancelled, out);
        }
        self.queue_waiting_cells(now, out);
    }

    /// In the order in which the submissions were accepted.
    fn queue_waiting_cells(&mut self, now: Duration, out: &mut Effects) {
        let mut open: Vec<(u64, Vec<CellId>)> = self
            .submissions
            .values()
            .filter(|submission| submission.open > 0)
            .map(|submission| (submission.sequence, submission.cells.clone()))
            .collect();
        open.sort_by_key(|(sequence, _)| *sequence);
        for cell in open.into_iter().flat_map(|(_, cells)| cells) {
            let Some(row) = self.cells.get(&cell) else { continue };
            match row.state {
                CellState::Backoff { .. } if row.attempts >= ATTEMPTS_MAX => {
                    self.end(cell, EndReason::AttemptsExhausted, out);
                }
                CellState::Queued { .. } | CellState::Backoff { .. } => self.enqueue(now, cell, Turn::Last),
                CellState::Leased { .. } | CellState::Ending { .. } | CellState::Finished { .. } => {}
            }
        }
    }
}
