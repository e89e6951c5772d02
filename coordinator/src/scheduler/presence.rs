//! Nodes come, speak, go quiet and come back: hello, heartbeat, progress, stop, disconnect.

use super::Scheduler;
use super::effect::{Effect, Effects, Event, LostReason};
use super::input::{DrainIntent, HeldAttempt, SessionId, Stop};
use super::lease::{LeasePhase, Occupancy};
use super::limits::{DEVICES_PER_NODE_MAX, HELD_PER_NODE_MAX, NODE_TIMEOUT, NODES_MAX};
use super::node::{Drain, Node};
use super::node_state::NodeState;
use super::queue::FreeDevice;
use super::timer::Timer;
use fleet_config::domain::{CellId, DeviceClass, DeviceDescription, DeviceId, Fence, NodeId, Stage};
use fleet_config::refusal::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Scheduler {
    pub(super) fn on_hello(
        &mut self,
        now: Duration,
        id: NodeId,
        session: SessionId,
        devices: Vec<DeviceDescription>,
        held: Vec<HeldAttempt>,
        out: &mut Effects,
    ) {
        if let Err(refusal) = self.check_hello(id, session, &devices, &held) {
            out.push(Effect::Disconnect { node: id, session, refusal });
            return;
        }
        self.timers.insert((now + NODE_TIMEOUT, Timer::NodeSilence(id)));
        let node = self.nodes.entry(id).or_insert_with(Node::new);
        node.heard = now;
        if let Some(earlier) = node.session.replace(session) {
            let refusal = Refusal::new(
                "node/replaced",
                format!("node {}", id.short()),
                "the node opened a newer connection",
                "Use the newer one.",
            );
            out.push(Effect::Disconnect { node: id, session: earlier, refusal });
        }
        let state = match node.drain {
            Drain::Open => NodeState::Ready,
            Drain::Drained => {
                out.push(Effect::Intake { node: id, session, intent: DrainIntent::Drain });
                NodeState::Draining
            }
        };
        self.set_node_state(id, state, out);
        self.withdraw_offers(id);
        self.offer(id, devices);
        self.reconcile(now, id, held, out);
        self.refresh_node(id);
    }

    /// A device that is gone takes no more work; what runs on it goes on, and ends as every attempt does.
    pub(super) fn on_devices_changed(
        &mut self,
        now: Duration,
        id: NodeId,
        session: SessionId,
        devices: Vec<DeviceDescription>,
        out: &mut Effects,
    ) {
        if !self.is_heard(now, id, session) {
            return;
        }
        if let Err(refusal) = check_devices(id, &devices) {
            out.push(Effect::Disconnect { node: id, session, refusal });
            return;
        }
        self.withdraw_offers(id);
        self.offer(id, devices);
        self.refresh_node(id);
    }

    fn check_hello(
        &mut self,
        id: NodeId,
        session: SessionId,
        devices: &[DeviceDescription],
        held: &[HeldAttempt],
    ) -> Result<(), Refusal> {
        let place = || format!("node {}", id.short());
        check_devices(id, devices)?;
        if held.len() > HELD_PER_NODE_MAX {
            let cause = format!("{} held attempts are too many", held.len());
            let next = "Split the machine into several nodes.";
            return Err(Refusal::new("node/too-much", place(), cause, next));
        }
        let Some(node) = self.nodes.get(&id) else {
            let lost = |node: &Node| node.state == NodeState::Lost && node.slots.is_empty();
            if self.nodes.len() >= NODES_MAX {
                let forgotten = self.nodes.iter().find(|(_, node)| lost(node) && node.drain == Drain::Open);
                let Some(forgotten) = forgotten.map(|(id, _)| *id) else {
                    let cause = format!("{NODES_MAX} nodes are known already");
                    return Err(Refusal::new("node/fleet-full", place(), cause, "Run a second coordinator."));
                };
                self.nodes.remove(&forgotten);
            }
            return Ok(());
        };
        if node.session.is_some_and(|current| current >= session) {
            let cause = "a newer connection of this node is open";
            return Err(Refusal::new("node/replaced", place(), cause, "Use the newer one."));
        }
        Ok(())
    }

    /// Nothing of the node is offered any more; open leases keep their slots.
    pub(super) fn withdraw_offers(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        for (device, slot) in &mut node.slots {
            slot.offer = None;
            let classes = std::mem::take(&mut slot.classes);
            if let Some(load) = slot.pooled.take() {
                for class in &classes {
                    let free = FreeDevice { load, node: id, device: device.clone() };
                    self.queue.remove_free(class, &free);
                }
            }
        }
    }

    fn offer(&mut self, id: NodeId, devices: Vec<DeviceDescription>) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        for device in devices {
            let classes = self.queue.classes.keys().filter(|class| class.matches(&device)).cloned().collect();
            let slot = node.slots.entry(device.id.clone()).or_default();
            slot.classes = classes;
            slot.offer = Some(device);
        }
    }

    /// A class is named for the first time: every device that belongs to it joins its pool.
    pub(super) fn open_class(&mut self, class: &DeviceClass) {
        for (id, node) in &mut self.nodes {
            for (device, slot) in &mut node.slots {
                if slot.offer.as_ref().is_some_and(|offer| class.matches(offer)) {
                    slot.classes.push(class.clone());
                    if let Some(load) = slot.pooled {
                        let free = FreeDevice { load, node: *id, device: device.clone() };
                        self.queue.insert_free(class, free);
                    }
                }
            }
        }
    }

    /// Compares what the node holds with what is leased to it. What both know goes on; what the node lacks is
    /// lost; what only the node knows is told to stop and keeps its device from new work until it did.
    fn reconcile(&mut self, now: Duration, id: NodeId, held: Vec<HeldAttempt>, out: &mut Effects) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        for slot in node.slots.values_mut() {
            slot.stale.clear();
        }
        let leases: Vec<Fence> = node.leases().collect();
        let mut held: BTreeMap<(CellId, Fence), DeviceId> =
            held.into_iter().map(|attempt| ((attempt.cell, attempt.fence), attempt.device)).collect();
        for fence in leases {
            let Some(lease) = self.leases.get_mut(&fence) else { continue };
            let cell = lease.grant.cell;
            let is_held = held.get(&(cell, fence)) == Some(&lease.grant.device);
            if is_held {
                held.remove(&(cell, fence));
            }
            lease.occupancy = match (is_held, lease.phase) {
                (true, _) => Occupancy::Possible,
                (false, LeasePhase::Granted | LeasePhase::Recorded) => Occupancy::Untouched,
                (false, LeasePhase::Assigned { .. } | LeasePhase::Ending) => Occupancy::Over,
            };
            match (is_held, lease.phase) {
                (true, LeasePhase::Ending) => self.cancel_on_node(id, cell, fence, out),
                (false, LeasePhase::Assigned { .. }) => self.lose(fence, LostReason::NotHeld, out),
                (_, LeasePhase::Recorded) => self.assign(now, fence, out),
                (true, LeasePhase::Granted | LeasePhase::Assigned { .. })
                | (false, LeasePhase::Granted | LeasePhase::Ending) => {}
            }
        }
        for ((cell, fence), device) in held {
            if let Some(slot) = self.nodes.get_mut(&id).and_then(|node| node.slots.get_mut(&device)) {
                slot.stale.insert(fence, cell);
            }
            self.cancel_on_node(id, cell, fence, out);
        }
    }

    pub(super) fn cancel_on_node(&self, node: NodeId, cell: CellId, fence: Fence, out: &mut Effects) {
        if let Some(session) = self.nodes.get(&node).and_then(|node| node.session) {
            out.push(Effect::CancelOnNode { node, session, cell, fence });
        }
    }

    /// Whether `session` is the node's current connection; if so, this is a sign of life.
    pub(super) fn is_heard(&mut self, now: Duration, id: NodeId, session: SessionId) -> bool {
        let Some(node) = self.nodes.get_mut(&id) else { return false };
        let current = node.session == Some(session);
        if current {
            node.heard = now;
        }
        current
    }

    /// Cancels that may have been lost are repeated with the node's own beat.
    pub(super) fn on_heartbeat(&mut self, now: Duration, id: NodeId, session: SessionId, out: &mut Effects) {
        if !self.is_heard(now, id, session) {
            return;
        }
        let Some(node) = self.nodes.get(&id) else { return };
        for slot in node.slots.values() {
            for (fence, cell) in &slot.stale {
                self.cancel_on_node(id, *cell, *fence, out);
            }
            let ending = slot
                .lease
                .and_then(|fence| self.leases.get(&fence))
                .filter(|lease| lease.phase == LeasePhase::Ending && lease.occupancy == Occupancy::Possible);
            if let Some(lease) = ending {
                self.cancel_on_node(id, lease.grant.cell, lease.grant.fence, out);
            }
        }
    }

    /// The connection is gone; leases stay, until silence or a hello says more.
    pub(super) fn on_disconnected(&mut self, id: NodeId, session: SessionId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.session == Some(session) {
            node.session = None;
            self.refresh_node(id);
        }
    }

    pub(super) fn on_progress(
        &mut self,
        node: NodeId,
        cell: CellId,
        fence: Fence,
        stage: Stage,
        out: &mut Effects,
    ) {
        let Some(lease) = self.leases.get_mut(&fence) else { return };
        if lease.grant.node != node || lease.grant.cell != cell {
            return;
        }
        lease.stage = Some(stage);
        if let Some(row) = self.cells.get(&cell) {
            out.push(Effect::Publish(Event::CellStage { submission: row.submission, cell, fence, stage }));
        }
    }

    pub(super) fn on_stopped(
        &mut self,
        id: NodeId,
        cell: CellId,
        fence: Fence,
        how: Stop,
        out: &mut Effects,
    ) {
        if let Some(node) = self.nodes.get_mut(&id) {
            for slot in node.slots.values_mut() {
                if slot.stale.get(&fence) == Some(&cell) {
                    slot.stale.remove(&fence);
                }
            }
        }
        if let Some(lease) = self.leases.get_mut(&fence)
            && lease.grant.node == id
            && lease.grant.cell == cell
        {
            match (lease.phase, how) {
                (LeasePhase::Granted | LeasePhase::Recorded, _) => {}
                (LeasePhase::Assigned { .. }, Stop::Reported) | (LeasePhase::Ending, _) => {
                    lease.occupancy = Occupancy::Over;
                }
                (LeasePhase::Assigned { .. }, Stop::Cancelled | Stop::Abandoned) => {
                    lease.occupancy = Occupancy::Over;
                    self.lose(fence, LostReason::Abandoned, out);
                }
            }
        }
        self.refresh_node(id);
    }

    pub(super) fn set_node_state(&mut self, id: NodeId, next: NodeState, out: &mut Effects) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.state != next {
            out.push(Effect::Publish(Event::NodeChanged { node: id, state: next }));
        }
        node.state = node.state.to(next);
    }
}

/// What no machine offers.
fn check_devices(id: NodeId, devices: &[DeviceDescription]) -> Result<(), Refusal> {
    let place = || format!("node {}", id.short());
    if devices.len() > DEVICES_PER_NODE_MAX {
        let cause = format!("{} devices are too many", devices.len());
        let next = "Split the machine into several nodes.";
        return Err(Refusal::new("node/too-much", place(), cause, next));
    }
    let names: BTreeSet<&DeviceId> = devices.iter().map(|device| &device.id).collect();
    if names.len() != devices.len() {
        let cause = "two devices have one name";
        return Err(Refusal::new("node/device-twice", place(), cause, "Offer each device once."));
    }
    Ok(())
}
