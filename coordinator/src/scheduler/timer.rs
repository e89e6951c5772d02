//! What falls due: silence of nodes, deadlines of leases, retries, queue budgets.

use super::Scheduler;
use super::cell_state::CellState;
use super::effect::{Effect, Effects, LostReason};
use super::input::EndReason;
use super::lease::{LeasePhase, Occupancy};
use super::limits::{NODE_TIMEOUT, PAUSE_MIN, TICK_MAX};
use super::node_state::NodeState;
use super::queue::Turn;
use fleet_config::domain::{CellId, Fence, NodeId};
use fleet_config::refusal::Refusal;
use std::time::Duration;

/// One thing that falls due. A timer that fires looks at the state again and may find nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The node has been silent since its last sign of life.
    NodeSilence(NodeId),
    /// The attempt should have reported by now.
    LeaseDeadline(Fence),
    /// The cell may be tried again.
    RetryDue(CellId),
    /// The cell has waited as long as its submission allows.
    QueueBudget(CellId),
}

impl Scheduler {
    /// When to step at the latest: `Duration::ZERO` when there is work left over, `None` when nothing falls due.
    pub fn next_wake(&self) -> Option<Duration> {
        if self.is_recovering() {
            return None;
        }
        if !self.queue.is_settled() {
            return Some(Duration::ZERO);
        }
        let due = self.timers.first().map(|(due, _)| *due)?;
        Some(due.min(self.now + TICK_MAX))
    }

    /// The coordinator itself was paused (suspended machine, stopped process): what nodes said meanwhile waits
    /// unread, so that silence and late results prove nothing. Everybody gets the pause back.
    pub(super) fn forgive_pause(&mut self, now: Duration) {
        let pause = now.saturating_sub(self.now);
        if pause < PAUSE_MIN || self.timers.is_empty() {
            return;
        }
        for node in self.nodes.values_mut() {
            node.heard += pause;
        }
        let fences: Vec<Fence> = self.leases.keys().copied().collect();
        for fence in fences {
            let Some(lease) = self.leases.get_mut(&fence) else { continue };
            if let LeasePhase::Assigned { deadline } = lease.phase {
                lease.enter(LeasePhase::Assigned { deadline: deadline + pause });
                self.timers.remove(&(deadline, Timer::LeaseDeadline(fence)));
                self.timers.insert((deadline + pause, Timer::LeaseDeadline(fence)));
            }
        }
    }

    pub(super) fn fire_timers(&mut self, now: Duration, out: &mut Effects) {
        while let Some((due, timer)) = self.timers.first().copied() {
            if due > now {
                break;
            }
            self.timers.pop_first();
            match timer {
                Timer::NodeSilence(node) => self.on_silence(now, node, out),
                Timer::LeaseDeadline(fence) => self.lose(fence, LostReason::DeadlinePassed, out),
                Timer::RetryDue(cell) => self.on_retry_due(now, cell),
                Timer::QueueBudget(cell) => self.on_queue_budget(now, cell, out),
            }
        }
    }

    fn on_silence(&mut self, now: Duration, id: NodeId, out: &mut Effects) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        match node.state {
            NodeState::Lost => return,
            NodeState::Joining | NodeState::Ready | NodeState::Draining => {}
        }
        if node.heard + NODE_TIMEOUT > now {
            self.timers.insert((node.heard + NODE_TIMEOUT, Timer::NodeSilence(id)));
            return;
        }
        if let Some(session) = node.session.take() {
            let refusal = Refusal::new(
                "node/silent",
                format!("node {}", id.short()),
                format!("nothing was heard for {} s", NODE_TIMEOUT.as_secs()),
                "Reconnect; what still runs there is told to stop.",
            );
            out.push(Effect::Disconnect { node: id, session, refusal });
        }
        self.set_node_state(id, NodeState::Lost, out);
        let leases: Vec<Fence> = self.nodes.get(&id).into_iter().flat_map(|node| node.leases()).collect();
        for fence in leases {
            self.lose(fence, LostReason::NodeSilent, out);
            // Nothing is placed there before its next hello, and that tells what it still runs.
            if let Some(lease) = self.leases.get_mut(&fence) {
                lease.occupancy = Occupancy::Over;
            }
        }
        for slot in self.nodes.get_mut(&id).into_iter().flat_map(|node| node.slots.values_mut()) {
            slot.stale.clear();
        }
        self.withdraw_offers(id);
        self.refresh_node(id);
    }

    fn on_retry_due(&mut self, now: Duration, id: CellId) {
        let Some(cell) = self.cells.get(&id) else { return };
        match cell.state {
            CellState::Backoff { until } if until <= now => self.enqueue(now, id, Turn::First),
            CellState::Backoff { .. }
            | CellState::Queued { .. }
            | CellState::Leased { .. }
            | CellState::Ending { .. }
            | CellState::Finished { .. } => {}
        }
    }

    fn on_queue_budget(&mut self, now: Duration, id: CellId, out: &mut Effects) {
        let Some(cell) = self.cells.get(&id) else { return };
        let budget = self.submissions.get(&cell.submission).and_then(|submission| submission.terms.queue);
        match (cell.state, budget) {
            (CellState::Queued { since }, Some(budget)) if since + budget.duration() <= now => {
                self.end(id, EndReason::QueueBudgetSpent, out);
            }
            (
                CellState::Queued { .. }
                | CellState::Backoff { .. }
                | CellState::Leased { .. }
                | CellState::Ending { .. }
                | CellState::Finished { .. },
                Some(_) | None,
            ) => {}
        }
    }
}
