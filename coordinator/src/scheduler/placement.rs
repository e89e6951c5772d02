//! Which waiting cell gets which free device.

use super::Scheduler;
use super::cell_state::CellState;
use super::effect::{Effect, Effects, Grant};
use super::fact::{Fact, LeaseGrant};
use super::lease::{Lease, draw};
use super::limits::GRANTS_PER_STEP_MAX;
use super::node::Slot;
use super::queue::FreeDevice;
use super::timer::Timer;
use fleet_config::domain::{CellId, DeviceClass, DeviceId, Fence, Milliseconds, NodeId};
use std::time::Duration;

impl Scheduler {
    /// Grants leases until no class has both a cell and a device that fit, or the step's batch is full.
    pub(super) fn place(&mut self, now: Duration, out: &mut Effects) {
        let mut grants = Vec::new();
        while grants.len() < GRANTS_PER_STEP_MAX {
            let Some(class) = self.queue.next_class() else { break };
            match self.choose(&class) {
                Some((cell, free)) => grants.extend(self.grant(now, cell, free.node, free.device, out)),
                None => self.queue.settle(&class),
            }
        }
        if !grants.is_empty() {
            out.push(Effect::RecordGrants(grants));
        }
    }

    /// The next cell of `class` in turn that a free device fits, taken out of the queue.
    fn choose(&mut self, class: &DeviceClass) -> Option<(CellId, FreeDevice)> {
        let queue = self.queue.classes.get_mut(class)?;
        // Smallest need that no free device met in this pass: a cell that needs as much need not look again.
        let mut too_big: Option<u64> = None;
        for _ in 0..queue.rotation.len() {
            if queue.free.is_empty() {
                return None;
            }
            let head = queue.head(&self.cells)?;
            let cell = self.cells.get(&head)?;
            let need = self.submissions.get(&cell.submission)?.terms.memory.0;
            if too_big.is_none_or(|least| need < least) {
                let nodes = &self.nodes;
                let mut fitting = queue.free.iter().filter(|free| {
                    let slot = nodes.get(&free.node).and_then(|node| node.slots.get(&free.device));
                    slot.and_then(|slot| slot.offer.as_ref()).is_some_and(|offer| offer.memory >= need)
                });
                let first = fitting.next();
                let elsewhere = match (first, cell.last_node) {
                    (Some(free), Some(last)) if free.node == last => fitting.find(|free| free.node != last),
                    (Some(_) | None, Some(_) | None) => None,
                };
                if let Some(free) = elsewhere.or(first).cloned() {
                    queue.take_head();
                    return Some((head, free));
                }
                too_big = Some(need);
            }
            queue.pass_head();
        }
        None
    }

    fn grant(
        &mut self,
        now: Duration,
        cell: CellId,
        node: NodeId,
        device: DeviceId,
        out: &mut Effects,
    ) -> Option<Grant> {
        let row = self.cells.get(&cell)?;
        let submission = self.submissions.get(&row.submission)?;
        if let (CellState::Queued { since }, Some(budget)) = (row.state, submission.terms.queue) {
            self.timers.remove(&(since + budget.duration(), Timer::QueueBudget(cell)));
        }
        let waited = match row.state {
            CellState::Queued { since } => now.saturating_sub(since),
            CellState::Backoff { .. }
            | CellState::Leased { .. }
            | CellState::Ending { .. }
            | CellState::Finished { .. } => Duration::ZERO,
        };
        let fence = Fence(self.next_sequence);
        let (nonce, seeds) = draw(submission.entropy, cell, fence, submission.terms.seeds);
        self.persist(Fact::LeaseGranted(LeaseGrant { fence, cell, node, device, nonce, seeds }), out);
        if let Some(node) = self.nodes.get_mut(&node) {
            node.granted += 1;
        }
        self.refresh_node(node);
        if let Some(lease) = self.leases.get_mut(&fence) {
            lease.waited = waited;
        }
        debug_assert!(now >= self.now, "time runs forward");
        self.describe(fence)
    }

    /// All that assignment and record need to know of an open lease.
    pub(super) fn describe(&self, fence: Fence) -> Option<Grant> {
        let lease = self.leases.get(&fence)?;
        let LeaseGrant { fence, cell, node, device, nonce, seeds } = lease.grant.clone();
        let row = self.cells.get(&cell)?;
        let submission = self.submissions.get(&row.submission)?;
        Some(Grant {
            fence,
            cell,
            submission: row.submission,
            task: submission.task,
            policy: submission.policy,
            candidate: row.candidate,
            class: row.class.clone(),
            node,
            device,
            nonce,
            seeds,
            attempt: lease.attempt,
            terms: submission.terms,
            holdout: submission.holdout,
            waited: Milliseconds(u64::try_from(lease.waited.as_millis()).unwrap_or(u64::MAX)),
        })
    }

    /// Puts each device of a node into the pools of its classes, or takes it out, as its state says.
    pub(super) fn refresh_node(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let load = node.load();
        let takes_work = node.takes_work();
        for (device, slot) in &mut node.slots {
            let wanted = (takes_work && slot.is_free()).then_some(load);
            if slot.pooled == wanted {
                continue;
            }
            let Slot { offer: _, lease: _, stale: _, classes, pooled } = slot;
            for class in classes.iter() {
                let place = |load| FreeDevice { load, node: id, device: device.clone() };
                if let Some(load) = *pooled {
                    self.queue.remove_free(class, &place(load));
                }
                if let Some(load) = wanted {
                    self.queue.insert_free(class, place(load));
                }
            }
            *pooled = wanted;
        }
        node.slots.retain(|_, slot| slot.offer.is_some() || !slot.is_idle());
    }

    /// Opens a lease, by decision now or by replay.
    pub(super) fn apply_grant(&mut self, grant: LeaseGrant) {
        let Some(cell) = self.cells.get_mut(&grant.cell) else { return };
        if let Some(earlier) = cell.state.fence() {
            // Only replay comes here: the entry that ended the earlier lease is in the ledger.
            self.drop_lease(earlier);
            self.superseded.insert(earlier);
        }
        let Some(cell) = self.cells.get_mut(&grant.cell) else { return };
        cell.enter(CellState::Leased { fence: grant.fence });
        cell.attempts += 1;
        cell.last_node = Some(grant.node);
        let attempt = cell.attempts;
        let node = self.nodes.entry(grant.node).or_insert_with(super::node::Node::new);
        let slot = node.slots.entry(grant.device.clone()).or_default();
        self.superseded.extend(slot.lease.replace(grant.fence));
        self.leases.insert(grant.fence, Lease::new(grant, attempt));
    }
}
