//! What the ledger defines: tasks and policies, kept in memory for checks and answers.

use fleet_config::domain::{BlobRef, CandidateId, LeafIndex, MeasurementPolicy, PolicyId, Task, TaskId};
use fleet_config::refusal::Refusal;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Definitions by id. Filled from the ledger at start and after each append.
#[derive(Debug, Default)]
pub struct Catalog {
    tasks: RwLock<BTreeMap<TaskId, Entry<Task>>>,
    policies: RwLock<BTreeMap<PolicyId, Entry<MeasurementPolicy>>>,
    /// Names of lately submitted candidates, for people.
    names: RwLock<BTreeMap<CandidateId, String>>,
}

/// Candidate names kept for display.
const NAMES_MAX: usize = 100_000;

/// A definition with the leaf of its entry.
#[derive(Debug, Clone)]
pub struct Entry<T> {
    pub value: Arc<T>,
    pub index: LeafIndex,
}

impl Catalog {
    /// Remembers a task; the first entry of an id stands.
    pub fn add_task(&self, id: TaskId, task: Task, index: LeafIndex) {
        let mut tasks = self.tasks.write().unwrap_or_else(PoisonError::into_inner);
        tasks.entry(id).or_insert(Entry { value: Arc::new(task), index });
    }

    /// Remembers a policy; the first entry of an id stands.
    pub fn add_policy(&self, id: PolicyId, policy: MeasurementPolicy, index: LeafIndex) {
        let mut policies = self.policies.write().unwrap_or_else(PoisonError::into_inner);
        policies.entry(id).or_insert(Entry { value: Arc::new(policy), index });
    }

    /// Every task in order of its leaf.
    pub fn tasks(&self) -> Vec<(TaskId, Entry<Task>)> {
        let tasks = self.tasks.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = tasks.iter().map(|(id, entry)| (*id, entry.clone())).collect();
        all.sort_by_key(|(_, entry)| entry.index);
        all
    }

    /// The task with this id.
    pub fn task(&self, id: TaskId) -> Option<Entry<Task>> {
        self.tasks.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// The task that `text` names: a full id, a unique prefix of at least eight digits, or a name (the newest of
    /// that name).
    pub fn find_task(&self, text: &str) -> Result<(TaskId, Entry<Task>), Refusal> {
        let all = self.tasks();
        if let Some(named) = all.iter().rev().find(|(_, entry)| entry.value.name == text) {
            return Ok(named.clone());
        }
        let place: String = text.chars().take(80).collect();
        let matching: Vec<_> = all.iter().filter(|(id, _)| id.to_string().starts_with(text)).collect();
        match matching.as_slice() {
            [only] if text.len() >= 8 => Ok((*only).clone()),
            [_, _, ..] if text.len() >= 8 => Err(Refusal::new(
                "task/ambiguous",
                place,
                format!("{} tasks begin with these digits", matching.len()),
                "give more digits; `muster task list` shows them all",
            )),
            [] | [_, ..] => Err(Refusal::new(
                "task/unknown-task",
                place,
                "no task of this name or id is in the ledger",
                "see `muster task list`, or add one with `muster task add FOLDER`",
            )),
        }
    }

    /// The blob of a task's definition.
    pub fn task_blob(&self, id: TaskId) -> Option<BlobRef> {
        self.task(id)?.value.document().ok().map(|document| document.blob)
    }

    /// The blob of a policy's definition.
    pub fn policy_blob(&self, id: PolicyId) -> Option<BlobRef> {
        self.policy(id)?.value.document().ok().map(|document| document.blob)
    }

    /// Remembers the name of a candidate.
    pub fn name_candidate(&self, id: CandidateId, name: &str) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= NAMES_MAX {
            names.pop_first();
        }
        names.insert(id, name.to_owned());
    }

    /// The name of a candidate, if it is remembered.
    pub fn candidate_name(&self, id: CandidateId) -> Option<String> {
        self.names.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Whether this policy has its entry.
    pub fn policy(&self, id: PolicyId) -> Option<Entry<MeasurementPolicy>> {
        self.policies.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// The newest policy of this name.
    pub fn policy_named(&self, name: &str) -> Option<(PolicyId, Entry<MeasurementPolicy>)> {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        let named = policies.iter().filter(|(_, entry)| entry.value.name == name);
        named.max_by_key(|(_, entry)| entry.index).map(|(id, entry)| (*id, entry.clone()))
    }
}
