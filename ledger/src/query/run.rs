//! The pass: entries go in, rows that are asked for come out.

use super::document::{BlobLookup, Documents};
use super::filter::Filter;
use super::row::Row;
use crate::entry::{Body, Entry};
use fleet_config::domain::{LeafIndex, NodeId, PolicyId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// A question under way. Feed it every entry in order of leaves: definitions stand before what refers to them, so one
/// pass knows every name.
#[derive(Debug, Default)]
pub struct Query {
    filter: Filter,
    tasks: BTreeMap<TaskId, String>,
    policies: BTreeMap<PolicyId, String>,
    nodes: BTreeMap<NodeId, String>,
    documents: Documents,
    heard: BTreeSet<String>,
}

/// Names that were asked for and that nothing in the log has: most likely misspelled.
pub type Unheard = Vec<String>;

impl Query {
    /// A question for what `filter` asks.
    pub fn new(filter: Filter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// The row of the next entry, if it is asked for.
    pub fn take(&mut self, leaf: LeafIndex, bytes: &[u8], blob: &mut BlobLookup<'_>) -> Option<Row> {
        let entry = Entry::read(bytes).ok();
        self.learn(entry.as_ref());
        let (mut row, named) = Row::of(leaf, entry.as_ref());
        row.task_name = row.task.and_then(|task| self.tasks.get(&task).cloned());
        row.policy_name = row.policy.and_then(|policy| self.policies.get(&policy).cloned());
        row.node_name = row.node.and_then(|node| self.nodes.get(&node).cloned());
        if !self.filter.admits_entry(&row, &mut self.heard) {
            return None;
        }
        row.consult(&named, &mut self.documents, blob);
        self.filter.admits_documents(&row, &mut self.heard).then_some(row)
    }

    /// What was asked for by a name that nothing has.
    pub fn unheard(&self) -> Unheard {
        self.filter.names().filter(|name| !self.heard.contains(*name)).cloned().collect()
    }

    fn learn(&mut self, entry: Option<&Entry>) {
        match entry.map(|entry| &entry.body) {
            Some(Body::Task(task)) => drop(self.tasks.insert(task.task, task.name.clone())),
            Some(Body::Policy(policy)) => drop(self.policies.insert(policy.policy, policy.name.clone())),
            Some(Body::NodeEnrol(enrol)) => drop(self.nodes.insert(enrol.node, enrol.name.clone())),
            Some(_) | None => {}
        }
    }
}
