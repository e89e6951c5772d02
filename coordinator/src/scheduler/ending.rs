//! How leases and cells end: asking the ledger for it, and what follows once the ledger answered.

use super::Scheduler;
use super::cell_state::CellState;
use super::effect::{CellSubject, Effect, Effects, Ending, Event, LostReason};
use super::input::EndReason;
use super::lease::{LeasePhase, Occupancy};
use super::limits::{ATTEMPTS_MAX, FINISHED_SUBMISSIONS_KEPT};
use super::queue::Turn;
use super::retry::backoff;
use super::timer::Timer;
use fleet_config::domain::{CellId, Fence};
use std::time::Duration;

impl Scheduler {
    /// Asks the ledger to record the loss of an attempt; nothing is granted again before it answers.
    pub(super) fn lose(&mut self, fence: Fence, reason: LostReason, out: &mut Effects) {
        let Some(lease) = self.leases.get(&fence) else { return };
        match lease.phase {
            LeasePhase::Granted | LeasePhase::Recorded | LeasePhase::Assigned { .. } => {}
            LeasePhase::Ending => return,
        }
        let (node, device) = (lease.grant.node, lease.grant.device.clone());
        let Some(about) = self.subject(lease.grant.cell) else { return };
        out.push(Effect::RecordLost { about, fence, node, device, reason });
        self.close_lease(fence, out);
    }

    /// Asks the ledger for the entry that ends a cell without a result.
    pub(super) fn end(&mut self, id: CellId, reason: EndReason, out: &mut Effects) {
        let Some(about) = self.subject(id) else { return };
        let Some(cell) = self.cells.get_mut(&id) else { return };
        match cell.state {
            CellState::Queued { .. } | CellState::Backoff { .. } | CellState::Leased { .. } => {}
            CellState::Ending { .. } | CellState::Finished { .. } => return,
        }
        let fence = cell.state.fence();
        cell.enter(CellState::Ending { reason, fence });
        out.push(Effect::RecordEnd { about, fence, attempts: cell.attempts, reason });
        if let Some(fence) = fence {
            self.close_lease(fence, out);
        }
    }

    fn subject(&self, cell: CellId) -> Option<CellSubject> {
        let row = self.cells.get(&cell)?;
        let task = self.submissions.get(&row.submission)?.task;
        Some(CellSubject { cell, submission: row.submission, task, candidate: row.candidate })
    }

    /// The lease waits for the ledger from here on; the node is told to stop if it can be told.
    fn close_lease(&mut self, fence: Fence, out: &mut Effects) {
        let Some(lease) = self.leases.get_mut(&fence) else { return };
        if let LeasePhase::Assigned { deadline } = lease.phase {
            self.timers.remove(&(deadline, Timer::LeaseDeadline(fence)));
        }
        lease.enter(LeasePhase::Ending);
        match lease.occupancy {
            Occupancy::Possible => {
                let (node, cell) = (lease.grant.node, lease.grant.cell);
                self.cancel_on_node(node, cell, fence, out);
            }
            Occupancy::Untouched | Occupancy::Over => {}
        }
    }

    /// Removes an open lease whose end is durable. Its device is free at once only if the node cannot be running
    /// the attempt any more.
    pub(super) fn drop_lease(&mut self, fence: Fence) {
        self.superseded.remove(&fence);
        let Some(lease) = self.leases.remove(&fence) else { return };
        if let LeasePhase::Assigned { deadline } = lease.phase {
            self.timers.remove(&(deadline, Timer::LeaseDeadline(fence)));
        }
        let Some(node) = self.nodes.get_mut(&lease.grant.node) else { return };
        if let Some(slot) = node.slots.get_mut(&lease.grant.device)
            && slot.lease == Some(fence)
        {
            slot.lease = None;
            match lease.occupancy {
                Occupancy::Possible => {
                    slot.stale.insert(fence, lease.grant.cell);
                }
                Occupancy::Untouched | Occupancy::Over => {}
            }
        }
        self.refresh_node(lease.grant.node);
    }

    /// An attempt ended by the fleet's fault and that is durable: the cell tries again, or ends.
    pub(super) fn try_again(&mut self, now: Duration, id: CellId, fence: Fence, out: &mut Effects) {
        let recovering = self.is_recovering();
        let Some(cell) = self.cells.get_mut(&id) else { return };
        let attempts = cell.attempts;
        if recovering {
            // What follows is decided when the whole history is known.
            cell.enter(CellState::Backoff { until: now });
            return;
        }
        if attempts >= ATTEMPTS_MAX {
            cell.enter(CellState::Backoff { until: now });
            self.end(id, EndReason::AttemptsExhausted, out);
            return;
        }
        let until = now + backoff(attempts);
        cell.enter(CellState::Backoff { until });
        self.timers.insert((until, Timer::RetryDue(id)));
        out.push(Effect::Publish(Event::CellRetried {
            submission: cell.submission,
            cell: id,
            fence,
            attempts,
        }));
    }

    /// Puts a cell into the queue of its class; its queue budget starts now.
    pub(super) fn enqueue(&mut self, now: Duration, id: CellId, turn: Turn) {
        let Some(cell) = self.cells.get_mut(&id) else { return };
        let budget = self.submissions.get(&cell.submission).and_then(|submission| submission.terms.queue);
        cell.enter_queue(now);
        self.queue.push(cell, turn);
        if let Some(budget) = budget {
            self.timers.insert((now + budget.duration(), Timer::QueueBudget(id)));
        }
    }

    /// The cell's one final entry is durable.
    pub(super) fn finish(&mut self, id: CellId, ending: Ending, out: &mut Effects) {
        let Some(cell) = self.cells.get_mut(&id) else { return };
        cell.enter(CellState::Finished { ending });
        let submission_id = cell.submission;
        self.open_cells -= 1;
        if let Some(class) = self.queue.classes.get_mut(&cell.class) {
            class.open -= 1;
        }
        let recovering = self.is_recovering();
        if !recovering {
            out.push(Effect::Publish(Event::CellFinished { submission: submission_id, cell: id, ending }));
        }
        let Some(submission) = self.submissions.get_mut(&submission_id) else { return };
        submission.open -= 1;
        if submission.open > 0 {
            return;
        }
        self.finished.push_back(submission_id);
        if !recovering {
            out.push(Effect::Publish(Event::SubmissionFinished { submission: submission_id }));
        }
        if self.finished.len() > FINISHED_SUBMISSIONS_KEPT {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.finished.pop_front() else { return };
        let Some(submission) = self.submissions.remove(&oldest) else { return };
        for cell in submission.cells {
            self.cells.remove(&cell);
        }
    }
}
