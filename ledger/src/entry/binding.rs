//! Whether a result belongs to the attempt that it claims to be the verdict of.

use super::predicate::{Grant, ResultRecord};
use fleet_config::domain::NodeId;
use fleet_config::refusal::Refusal;

/// What the coordinator granted, and who brings the result.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Of this ledger.
    pub origin: &'a str,
    /// The attempt, as it was granted.
    pub grant: &'a Grant,
    /// The node at the other end of the connection, by its enrolled TLS key.
    pub peer: NodeId,
}

/// A result of something else: a replay into another ledger, for another cell or attempt, or by another node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} of the result is {found}, the attempt has {expected}")]
pub struct BindingError {
    /// Name of the first field that differs.
    pub field: &'static str,
    pub expected: String,
    pub found: String,
}

impl BindingError {
    /// For the peer that sent the result.
    pub fn refusal(&self) -> Refusal {
        Refusal::new(
            "result/binding",
            self.field,
            self.to_string(),
            "Send each result once, by the node that holds the lease, to the ledger that granted it.",
        )
    }
}

/// Compares every field that binds a result to its attempt; the first that differs is named. Call it after
/// [`super::check`], which ties the record to its signer and this ledger.
pub fn check_result_binding(record: &ResultRecord, expected: &Expected<'_>) -> Result<(), BindingError> {
    let Grant { submission, cell, fence, task, candidate, policy, node, device, nonce, seeds } =
        expected.grant;
    same("origin", &record.origin.as_str(), &expected.origin)?;
    same("submission", &record.submission, submission)?;
    same("cell", &record.cell, cell)?;
    same("fence", &record.fence, fence)?;
    same("nonce", &record.nonce, nonce)?;
    same("task", &record.task, task)?;
    same("candidate", &record.candidate, candidate)?;
    same("policy", &record.policy, policy)?;
    same("node", &record.node, node)?;
    same("node", &record.node, &expected.peer)?;
    same("device", &record.device, device)?;
    let text = |seeds: &[fleet_config::domain::Seed]| format!("{} seeds {:?}", seeds.len(), seeds.first());
    if record.seeds != *seeds {
        return Err(BindingError { field: "seeds", expected: text(seeds), found: text(&record.seeds) });
    }
    Ok(())
}

fn same<T: PartialEq + ToString>(field: &'static str, found: &T, expected: &T) -> Result<(), BindingError> {
    if found == expected {
        return Ok(());
    }
    let clip = |value: &T| value.to_string().chars().take(120).collect();
    Err(BindingError { field, expected: clip(expected), found: clip(found) })
}
