//! Why a cell is not running, as data.

use super::cell_state::{Cell, CellState};
use super::effect::Ending;
use super::input::EndReason;
use super::lease::LeasePhase;
use super::node::Slot;
use super::node_state::NodeState;
use super::{Phase, Scheduler};
use fleet_config::domain::{Bytes, CellId, DeviceId, Fence, NodeId, Stage};
use std::time::Duration;

/// Where a cell stands, and why it does not move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Explanation {
    Finished(Ending),
    /// Its end without a result is on the way to the ledger.
    Ending {
        reason: EndReason,
    },
    /// Leased; the ledger has yet to record the grant, or the node has yet to reconnect and take it.
    Granted {
        node: NodeId,
        device: DeviceId,
        fence: Fence,
    },
    /// Sent to its node; `stage` is what the node said last.
    Running {
        node: NodeId,
        device: DeviceId,
        fence: Fence,
        stage: Option<Stage>,
    },
    /// The attempt is lost and the ledger has yet to record it.
    Losing {
        node: NodeId,
        fence: Fence,
    },
    /// An attempt failed by the fleet's fault; the next comes at `until` (monotonic, since the start).
    Backoff {
        attempts: u32,
        until: Duration,
    },
    /// In the queue: `ahead` cells of its submission come first, and these are the obstacles.
    Waiting {
        ahead: usize,
        submissions_in_class: usize,
        obstacles: Vec<Obstacle>,
    },
}

/// What keeps a waiting cell from a device. Counts are devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// The coordinator is still reading its history.
    Recovering,
    /// No node ever offered a device of the class since the start.
    NoDeviceOfClass,
    /// Devices of the class are too small.
    MemoryTooSmall { devices: usize, need: Bytes, largest: Bytes },
    /// Other leases hold them.
    Busy { devices: usize },
    /// Their nodes are draining.
    Draining { devices: usize },
    /// Their nodes are not connected.
    Disconnected { devices: usize },
    /// They may still run an attempt that is over; the node was told to stop it.
    Stopping { devices: usize },
    /// They are free: other cells of the class come first, in turn.
    BehindOthers { devices: usize },
}

#[derive(Default)]
struct Count {
    small: usize,
    largest: u64,
    busy: usize,
    draining: usize,
    away: usize,
    stopping: usize,
    free: usize,
}

impl Scheduler {
    /// Why `cell` is where it is; `None` when it is unknown or was forgotten after it had finished.
    pub fn explain(&self, cell: CellId) -> Option<Explanation> {
        let cell = self.cells.get(&cell)?;
        Some(match cell.state {
            CellState::Finished { ending } => Explanation::Finished(ending),
            CellState::Ending { reason, fence: _ } => Explanation::Ending { reason },
            CellState::Backoff { until } => Explanation::Backoff { attempts: cell.attempts, until },
            CellState::Leased { fence } => self.explain_lease(fence)?,
            CellState::Queued { since: _ } => self.explain_wait(cell),
        })
    }

    fn explain_lease(&self, fence: Fence) -> Option<Explanation> {
        let lease = self.leases.get(&fence)?;
        let (node, device) = (lease.grant.node, lease.grant.device.clone());
        Some(match lease.phase {
            LeasePhase::Granted | LeasePhase::Recorded => Explanation::Granted { node, device, fence },
            LeasePhase::Assigned { deadline: _ } => {
                Explanation::Running { node, device, fence, stage: lease.stage }
            }
            LeasePhase::Ending => Explanation::Losing { node, fence },
        })
    }

    fn explain_wait(&self, cell: &Cell) -> Explanation {
        let queue = self.queue.classes.get(&cell.class);
        let waiting = queue.and_then(|queue| queue.waiting.get(&cell.submission));
        let ahead = waiting.map_or(0, |cells| cells.iter().take_while(|id| **id != cell.id).count());
        let submissions_in_class = queue.map_or(0, |queue| queue.rotation.len());
        Explanation::Waiting { ahead, submissions_in_class, obstacles: self.obstacles(cell) }
    }

    fn obstacles(&self, cell: &Cell) -> Vec<Obstacle> {
        match self.phase {
            Phase::Recovering => return vec![Obstacle::Recovering],
            Phase::Running => {}
        }
        let need = self.submissions.get(&cell.submission).map_or(0, |submission| submission.terms.memory.0);
        let mut count = Count::default();
        let mut seen = false;
        for node in self.nodes.values() {
            for slot in node.slots.values() {
                let Some(offer) = slot.offer.as_ref().filter(|offer| cell.class.matches(offer)) else {
                    continue;
                };
                seen = true;
                count.add(node.state, node.session.is_some(), slot, offer.memory, need);
            }
        }
        if !seen {
            return vec![Obstacle::NoDeviceOfClass];
        }
        count.obstacles(need)
    }
}

impl Count {
    fn add(&mut self, state: NodeState, connected: bool, slot: &Slot, memory: u64, need: u64) {
        if memory < need {
            self.small += 1;
            self.largest = self.largest.max(memory);
            return;
        }
        match state {
            NodeState::Draining => self.draining += 1,
            NodeState::Joining | NodeState::Lost => self.away += 1,
            NodeState::Ready if !connected => self.away += 1,
            NodeState::Ready if slot.lease.is_some() => self.busy += 1,
            NodeState::Ready if !slot.stale.is_empty() => self.stopping += 1,
            NodeState::Ready => self.free += 1,
        }
    }

    fn obstacles(self, need: u64) -> Vec<Obstacle> {
        let Self { small, largest, busy, draining, away, stopping, free } = self;
        let memory = Obstacle::MemoryTooSmall { devices: small, need: Bytes(need), largest: Bytes(largest) };
        let all = [
            (small, memory),
            (busy, Obstacle::Busy { devices: busy }),
            (draining, Obstacle::Draining { devices: draining }),
            (away, Obstacle::Disconnected { devices: away }),
            (stopping, Obstacle::Stopping { devices: stopping }),
            (free, Obstacle::BehindOthers { devices: free }),
        ];
        all.into_iter().filter(|(devices, _)| *devices > 0).map(|(_, obstacle)| obstacle).collect()
    }
}
