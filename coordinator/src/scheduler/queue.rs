//! Who waits for which class, in which order, and which free devices each class has.

use super::cell_state::{Cell, CellState};
use super::node::Load;
use fleet_config::domain::{CellId, DeviceClass, DeviceId, NodeId, SubmissionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// A free device; the order is the order of preference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FreeDevice {
    pub(super) load: Load,
    pub(super) node: NodeId,
    pub(super) device: DeviceId,
}

/// Cells that wait for one class, and its free devices.
#[derive(Debug, Clone, Default)]
pub(super) struct ClassQueue {
    /// First in, first out within a submission. Cells that left `Queued` are dropped when they come up.
    pub(super) waiting: BTreeMap<SubmissionId, VecDeque<CellId>>,
    /// Submissions take turns; each key of `waiting` stands here once.
    pub(super) rotation: VecDeque<SubmissionId>,
    pub(super) free: BTreeSet<FreeDevice>,
    /// Cells that are not finished and name this class.
    pub(super) open: usize,
}

/// Every class that an open cell names, and some that were named before.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    pub(super) classes: BTreeMap<DeviceClass, ClassQueue>,
    /// Classes in which a cell or a device came free since they were last looked at.
    dirty: BTreeSet<DeviceClass>,
    /// The class served last: classes take turns too.
    cursor: Option<DeviceClass>,
}

/// At which end a cell joins its submission's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// A new cell.
    Last,
    /// A retry: it has waited before.
    First,
}

impl Queue {
    pub(super) fn push(&mut self, cell: &Cell, turn: Turn) {
        let class = self.classes.entry(cell.class.clone()).or_default();
        let waiting = class.waiting.entry(cell.submission).or_insert_with(|| {
            class.rotation.push_back(cell.submission);
            VecDeque::new()
        });
        match turn {
            Turn::Last => waiting.push_back(cell.id),
            Turn::First => waiting.push_front(cell.id),
        }
        self.touch(&cell.class);
    }

    /// The class must be looked at again.
    pub(super) fn touch(&mut self, class: &DeviceClass) {
        if !self.dirty.contains(class) {
            self.dirty.insert(class.clone());
        }
    }

    /// The next class in turn that must be looked at.
    pub(super) fn next_class(&mut self) -> Option<DeviceClass> {
        let after = match &self.cursor {
            Some(cursor) => (Bound::Excluded(cursor.clone()), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let class = self.dirty.range(after).next().or_else(|| self.dirty.first())?.clone();
        self.cursor = Some(class.clone());
        Some(class)
    }

    /// Nothing more can be placed in this class for now.
    pub(super) fn settle(&mut self, class: &DeviceClass) {
        self.dirty.remove(class);
    }

    pub(super) fn is_settled(&self) -> bool {
        self.dirty.is_empty()
    }

    pub(super) fn insert_free(&mut self, class: &DeviceClass, free: FreeDevice) {
        if let Some(queue) = self.classes.get_mut(class) {
            queue.free.insert(free);
            self.touch(class);
        }
    }

    pub(super) fn remove_free(&mut self, class: &DeviceClass, free: &FreeDevice) {
        if let Some(queue) = self.classes.get_mut(class) {
            queue.free.remove(free);
        }
    }

    /// Forgets classes that no open cell names; returns them so that devices forget them too.
    pub(super) fn forget_unused(&mut self) -> BTreeSet<DeviceClass> {
        let unused: BTreeSet<DeviceClass> = self
            .classes
            .iter()
            .filter(|(_, queue)| queue.open == 0)
            .map(|(class, _)| class.clone())
            .collect();
        for class in &unused {
            self.classes.remove(class);
            self.dirty.remove(class);
        }
        unused
    }
}

impl ClassQueue {
    /// The cell whose turn it is in the submission that is first in rotation.
    pub(super) fn head(&mut self, cells: &BTreeMap<CellId, Cell>) -> Option<CellId> {
        loop {
            let submission = *self.rotation.front()?;
            let waiting = self.waiting.entry(submission).or_default();
            while let Some(head) = waiting.front() {
                if cells.get(head).is_some_and(|cell| matches!(cell.state, CellState::Queued { .. })) {
                    return Some(*head);
                }
                waiting.pop_front();
            }
            self.waiting.remove(&submission);
            self.rotation.pop_front();
        }
    }

    /// The head was placed: the next submission is first now.
    pub(super) fn take_head(&mut self) {
        let Some(submission) = self.rotation.pop_front() else { return };
        let Some(waiting) = self.waiting.get_mut(&submission) else { return };
        waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&submission);
        } else {
            self.rotation.push_back(submission);
        }
    }

    /// The head cannot be placed now: the next submission is first, this one last.
    pub(super) fn pass_head(&mut self) {
        self.rotation.rotate_left(usize::from(!self.rotation.is_empty()));
    }
}
