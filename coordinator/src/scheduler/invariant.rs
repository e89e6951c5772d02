//! The whole-state check: what must hold between any two steps.

use super::Scheduler;
use super::cell_state::CellState;
use super::limits::{ATTEMPTS_MAX, OPEN_CELLS_MAX};
use fleet_config::domain::{CellId, SubmissionId};
use std::collections::{BTreeMap, BTreeSet};

/// A broken invariant: a bug of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("broken invariant: {0}")]
pub struct Violation(String);

impl Scheduler {
    /// Checks everything; linear in the size of the state.
    pub fn check(&self) -> Result<(), Violation> {
        self.check_leases()?;
        self.check_cells()?;
        self.check_queue()?;
        self.check_nodes()
    }

    /// Debug builds check after each step while the fleet is small, and now and then when it is large, since the
    /// check looks at everything.
    pub(super) fn check_sometimes(&mut self) {
        #[cfg(debug_assertions)]
        {
            const SMALL: usize = 256;
            const SELDOM: u64 = 4_096;
            self.steps += 1;
            if self.nodes.len() + self.cells.len() <= SMALL || self.steps.is_multiple_of(SELDOM) {
                let result = self.check();
                assert!(result.is_ok(), "{result:?}");
            }
        }
    }

    fn check_leases(&self) -> Result<(), Violation> {
        for (fence, lease) in &self.leases {
            let cell = self.cells.get(&lease.grant.cell);
            let holds = cell.is_some_and(|cell| cell.state.fence() == Some(*fence));
            ensure(holds, || format!("lease {fence} is not the lease of its cell"))?;
            if self.superseded.contains(fence) {
                continue;
            }
            let slot = self.nodes.get(&lease.grant.node).and_then(|node| node.slots.get(&lease.grant.device));
            let holds = slot.is_some_and(|slot| slot.lease == Some(*fence));
            ensure(holds, || format!("lease {fence} is not the lease of its device"))?;
            ensure(fence.0 < self.next_sequence, || format!("fence {fence} is from the future"))?;
        }
        Ok(())
    }

    fn check_cells(&self) -> Result<(), Violation> {
        let mut open: BTreeMap<SubmissionId, usize> = BTreeMap::new();
        let mut total = 0;
        for cell in self.cells.values() {
            let id = cell.id;
            ensure(cell.attempts <= ATTEMPTS_MAX, || format!("cell {id} was tried too often"))?;
            if let Some(fence) = cell.state.fence() {
                ensure(self.leases.contains_key(&fence), || format!("cell {id} has lost lease {fence}"))?;
            }
            match cell.state {
                CellState::Finished { ending: _ } => {}
                CellState::Queued { .. }
                | CellState::Backoff { .. }
                | CellState::Leased { .. }
                | CellState::Ending { .. } => {
                    *open.entry(cell.submission).or_default() += 1;
                    total += 1;
                }
            }
        }
        ensure(total == self.open_cells, || format!("{total} open cells, {} counted", self.open_cells))?;
        ensure(total <= OPEN_CELLS_MAX, || "too many open cells".to_owned())?;
        for (id, submission) in &self.submissions {
            let found = open.get(id).copied().unwrap_or_default();
            ensure(found == submission.open, || format!("submission {id} has {found} open cells"))?;
        }
        Ok(())
    }

    fn check_queue(&self) -> Result<(), Violation> {
        let mut queued: BTreeSet<CellId> = BTreeSet::new();
        for (class, queue) in &self.queue.classes {
            let turns: BTreeSet<SubmissionId> = queue.rotation.iter().copied().collect();
            let once = turns.len() == queue.rotation.len() && turns.iter().eq(queue.waiting.keys());
            ensure(once, || format!("class {class}: a submission has no turn, or two"))?;
            for id in queue.waiting.values().flatten() {
                let Some(cell) = self.cells.get(id) else { continue };
                match cell.state {
                    CellState::Queued { .. } => {
                        ensure(queued.insert(*id), || format!("cell {id} is queued twice"))?;
                    }
                    CellState::Backoff { .. }
                    | CellState::Leased { .. }
                    | CellState::Ending { .. }
                    | CellState::Finished { .. } => {}
                }
            }
        }
        if self.is_recovering() {
            return Ok(());
        }
        let waiting =
            self.cells.values().filter(|cell| matches!(cell.state, CellState::Queued { .. })).count();
        ensure(waiting == queued.len(), || format!("{waiting} cells wait, {} are queued", queued.len()))
    }

    fn check_nodes(&self) -> Result<(), Violation> {
        let mut pooled = 0;
        for (id, node) in &self.nodes {
            for (device, slot) in &node.slots {
                let place = || format!("device {device} of node {id}");
                if let Some(fence) = slot.lease {
                    ensure(self.leases.contains_key(&fence), || {
                        format!("{} has lost lease {fence}", place())
                    })?;
                }
                let free = node.takes_work() && slot.is_free();
                ensure(free == slot.pooled.is_some(), || format!("{} is pooled wrongly", place()))?;
                pooled += if slot.pooled.is_some() { slot.classes.len() } else { 0 };
            }
        }
        let free: usize = self.queue.classes.values().map(|queue| queue.free.len()).sum();
        ensure(pooled == free, || format!("{pooled} places in pools expected, {free} found"))
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(what())) }
}
