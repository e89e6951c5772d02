//! What people ask for: submit, cancel, drain.

use super::Scheduler;
use super::cell_state::CellState;
use super::effect::{Effect, Effects, Event, Reply};
use super::fact::{AcceptedSubmission, CancelTarget, Fact};
use super::input::{DrainIntent, EndReason, RequestId, SubmitRequest};
use super::limits::{CLASSES_MAX, OPEN_CELLS_MAX, SEEDS_MAX};
use super::node::Drain;
use super::node_state::NodeState;
use super::queue::Turn;
use fleet_config::domain::{CellId, DeviceClass, NodeId, Submission, SubmissionId};
use fleet_config::refusal::Refusal;
use std::collections::BTreeSet;
use std::time::Duration;

impl Scheduler {
    pub(super) fn on_submit(&mut self, now: Duration, request: SubmitRequest, out: &mut Effects) {
        let SubmitRequest { request, submission, terms, entropy, reused } = request;
        let id = match self.check_submission(&submission, terms.seeds) {
            Ok(id) => id,
            Err(refusal) => {
                out.push(Effect::Reply { request, reply: Reply::Refused(refusal) });
                return;
            }
        };
        if self.accepted.contains(&id) {
            out.push(Effect::Reply { request, reply: Reply::AlreadyAccepted { submission: id } });
            return;
        }
        let fact = AcceptedSubmission { id, submission, terms, entropy, reused };
        let sequence = self.persist(Fact::SubmissionAccepted(Box::new(fact.clone())), out);
        let cells = self.submissions.get(&id).map(|state| state.cells.clone()).unwrap_or_default();
        let warnings = self.warnings(&fact.submission, terms.memory.0);
        out.push(Effect::Reply { request, reply: Reply::Accepted { submission: id, sequence, warnings } });
        out.push(Effect::Publish(Event::SubmissionAccepted { submission: id, cells: cells.len() }));
        for cell in cells {
            match fact.reused.get(&cell) {
                Some(index) => self.announce_reuse(id, cell, *index, out),
                None => self.enqueue(now, cell, Turn::Last),
            }
        }
        if self.submissions.get(&id).is_some_and(|state| state.open == 0) {
            out.push(Effect::Publish(Event::SubmissionFinished { submission: id }));
        }
    }

    fn check_submission(&mut self, submission: &Submission, seeds: u32) -> Result<SubmissionId, Refusal> {
        let place = "submission";
        let id = submission.id().map_err(|error| {
            Refusal::new("submit/no-canonical-form", place, error.to_string(), "Send plain JSON values.")
        })?;
        let cells = submission.candidates.len().saturating_mul(submission.targets.len());
        if cells == 0 {
            let cause = "no candidate or no target is named";
            return Err(Refusal::new("submit/empty", place, cause, "Name at least one of each."));
        }
        if cells > Submission::CELLS_MAX {
            let cause = format!("{cells} cells; at most {} go into one submission", Submission::CELLS_MAX);
            return Err(Refusal::new("submit/too-many-cells", place, cause, "Split the submission."));
        }
        if seeds == 0 || seeds > SEEDS_MAX {
            let cause = format!("{seeds} input seeds for an attempt; 1 to {SEEDS_MAX} are possible");
            return Err(Refusal::new("submit/seeds", place, cause, "Use a policy with fewer draws."));
        }
        let distinct: BTreeSet<CellId> = submission.cells(id).into_iter().map(|(cell, _, _)| cell).collect();
        if distinct.len() != cells {
            let cause = "a candidate or a target is named twice";
            return Err(Refusal::new("submit/duplicate-cell", place, cause, "Name each once."));
        }
        if self.open_cells + cells > OPEN_CELLS_MAX && !self.accepted.contains(&id) {
            let cause = format!("{} cells are open; the limit is {OPEN_CELLS_MAX}", self.open_cells);
            return Err(Refusal::new("submit/queue-full", place, cause, "Wait until some have finished."));
        }
        self.make_room_for_classes(submission)?;
        Ok(id)
    }

    fn make_room_for_classes(&mut self, submission: &Submission) -> Result<(), Refusal> {
        let known = |class: &&DeviceClass| !self.queue.classes.contains_key(*class);
        let new = submission.targets.iter().filter(known).count();
        if self.queue.classes.len() + new <= CLASSES_MAX {
            return Ok(());
        }
        let unused = self.queue.forget_unused();
        for slot in self.nodes.values_mut().flat_map(|node| node.slots.values_mut()) {
            slot.classes.retain(|class| !unused.contains(class));
        }
        let known = |class: &&DeviceClass| !self.queue.classes.contains_key(*class);
        let new = submission.targets.iter().filter(known).count();
        if self.queue.classes.len() + new <= CLASSES_MAX {
            return Ok(());
        }
        Err(Refusal::new(
            "submit/too-many-classes",
            "submission.targets",
            format!(
                "open cells name {} device classes; the limit is {CLASSES_MAX}",
                self.queue.classes.len()
            ),
            "Use classes that are in use, or wait.",
        ))
    }

    /// Classes that no connected device could serve as things are: the cells wait, and people should know.
    fn warnings(&self, submission: &Submission, memory: u64) -> Vec<Refusal> {
        let offers = || {
            let open = self.nodes.values().filter(|node| node.takes_work());
            open.flat_map(|node| node.slots.values()).filter_map(|slot| slot.offer.as_ref())
        };
        let unserved = submission
            .targets
            .iter()
            .filter(|class| !offers().any(|offer| class.matches(offer) && offer.memory >= memory));
        let warn = |class: &DeviceClass| {
            Refusal::new(
                "submit/no-such-class",
                class.to_string(),
                format!(
                    "no node that takes work offers a device of this class with {memory} bytes of memory"
                ),
                "The cells wait until one joins; `muster node list` shows what there is.",
            )
        };
        unserved.map(warn).collect()
    }

    fn announce_reuse(
        &self,
        submission: SubmissionId,
        cell: CellId,
        index: fleet_config::domain::LeafIndex,
        out: &mut Effects,
    ) {
        let ending = super::effect::Ending::Reused { index };
        out.push(Effect::Publish(Event::CellFinished { submission, cell, ending }));
    }

    pub(super) fn on_cancel(&mut self, request: RequestId, target: CancelTarget, out: &mut Effects) {
        let cells = match target {
            CancelTarget::Submission(id) => self.submissions.get(&id).map(|state| state.cells.clone()),
            CancelTarget::Cell(id) => self.cells.contains_key(&id).then(|| vec![id]),
        };
        let Some(cells) = cells else {
            let cause = match target {
                CancelTarget::Submission(id) => format!("no submission {id} is open or lately finished"),
                CancelTarget::Cell(id) => format!("no cell {id} is open or lately finished"),
            };
            let refusal = Refusal::new("cancel/unknown", "target", cause, "See `muster status`.");
            out.push(Effect::Reply { request, reply: Reply::Refused(refusal) });
            return;
        };
        let is_open = |id: &CellId| {
            self.cells.get(id).is_some_and(|cell| match cell.state {
                CellState::Queued { .. } | CellState::Backoff { .. } | CellState::Leased { .. } => true,
                CellState::Ending { .. } | CellState::Finished { .. } => false,
            })
        };
        let open: Vec<CellId> = cells.into_iter().filter(is_open).collect();
        if !open.is_empty() {
            self.persist(Fact::Cancelled(target), out);
        }
        out.push(Effect::Reply { request, reply: Reply::Cancelled { cells: open.len() } });
        for cell in open {
            self.end(cell, EndReason::Cancelled, out);
        }
    }

    pub(super) fn on_drain(
        &mut self,
        request: RequestId,
        id: NodeId,
        intent: DrainIntent,
        out: &mut Effects,
    ) {
        let Some(node) = self.nodes.get(&id) else {
            let cause = format!("no node {id} is known");
            let refusal = Refusal::new("node/unknown", "node", cause, "See `muster node list`.");
            out.push(Effect::Reply { request, reply: Reply::Refused(refusal) });
            return;
        };
        let (wanted, fact, next) = match intent {
            DrainIntent::Drain => (Drain::Drained, Fact::NodeDrained { node: id }, NodeState::Draining),
            DrainIntent::Resume => (Drain::Open, Fact::NodeUndrained { node: id }, NodeState::Ready),
        };
        let (changed, state, running) = (node.drain != wanted, node.state, node.leases().count());
        let session = node.session;
        if changed {
            self.persist(fact, out);
            match state {
                NodeState::Ready | NodeState::Draining => self.set_node_state(id, next, out),
                // The wish is remembered; its next hello brings it into the right state.
                NodeState::Joining | NodeState::Lost => {}
            }
            self.refresh_node(id);
            if let Some(session) = session {
                out.push(Effect::Intake { node: id, session, intent });
            }
        }
        out.push(Effect::Reply { request, reply: Reply::Drained { running } });
    }
}
