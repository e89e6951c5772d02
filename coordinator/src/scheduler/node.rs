//! What the scheduler knows of a node: its devices, which of them are taken, and when it was heard last.

use super::input::SessionId;
use super::node_state::NodeState;
use fleet_config::domain::{CellId, DeviceClass, DeviceDescription, DeviceId, Fence};
use std::collections::BTreeMap;
use std::time::Duration;

/// What people want of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drain {
    Open,
    Drained,
}

/// One node.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) state: NodeState,
    pub(super) drain: Drain,
    /// The connection it is reached by; `None` while it is away.
    pub(super) session: Option<SessionId>,
    pub(super) heard: Duration,
    pub(super) slots: BTreeMap<DeviceId, Slot>,
    /// Leases granted since the start: idle devices are used in turn.
    pub(super) granted: u64,
}

/// One device of a node.
#[derive(Debug, Clone, Default)]
pub(super) struct Slot {
    /// `None` when the node does not offer it (any more), while a lease of it is still open.
    pub(super) offer: Option<DeviceDescription>,
    pub(super) lease: Option<Fence>,
    /// Attempts that are over for the ledger while the node may still run them.
    pub(super) stale: BTreeMap<Fence, CellId>,
    /// Known classes that the offer belongs to.
    pub(super) classes: Vec<DeviceClass>,
    /// Its place in the pools of these classes while it is free.
    pub(super) pooled: Option<Load>,
}

/// Order of free devices: least loaded node first, then the one used least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Load {
    /// Leases open on the node.
    pub(super) busy: usize,
    /// Leases it has had.
    pub(super) granted: u64,
}

impl Node {
    pub(super) fn new() -> Self {
        Self {
            state: NodeState::Joining,
            drain: Drain::Open,
            session: None,
            heard: Duration::ZERO,
            slots: BTreeMap::new(),
            granted: 0,
        }
    }

    /// Fences of its open leases.
    pub(super) fn leases(&self) -> impl Iterator<Item = Fence> + '_ {
        self.slots.values().filter_map(|slot| slot.lease)
    }

    pub(super) fn load(&self) -> Load {
        Load { busy: self.leases().count(), granted: self.granted }
    }

    /// Whether it may be given work at all.
    pub(super) fn takes_work(&self) -> bool {
        self.session.is_some()
            && match self.state {
                NodeState::Ready => true,
                NodeState::Joining | NodeState::Draining | NodeState::Lost => false,
            }
    }
}

impl Slot {
    /// Nothing runs on it and nothing may run on it.
    pub(super) fn is_idle(&self) -> bool {
        self.lease.is_none() && self.stale.is_empty()
    }
    /// It is on offer, its health allows work, and nothing runs on it.
    pub(super) fn is_free(&self) -> bool {
        self.offer.as_ref().is_some_and(DeviceDescription::takes_work) && self.is_idle()
    }
}
