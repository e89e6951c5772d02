//! The ledger's history at start: one pass over all entries gives signers, acceptance, definitions and events.

use super::openings::Openings;
use crate::scheduler::acceptance::{AcceptanceTable, RefuseReason};
use crate::scheduler::fact::LeaseGrant;
use crate::scheduler::input::{EndReason, LedgerEvent};
use fleet_config::domain::{
    CellId, ClassId, DeviceDescription, DeviceId, Facts, Fence, LeafIndex, MeasurementPolicy, PolicyId, Task,
    TaskId, canonical,
};
use ledger::blob::BlobStore;
use ledger::entry::predicate::{
    AttemptLost, Consequence, Environment, Grant, LossReason, RefusalReason, ResultRecord,
};
use ledger::entry::{Body, Checked, Signers, read_grants};
use std::collections::BTreeMap;

/// Largest definition document.
const DEFINITION_MAX: u64 = 1 << 20;
/// Largest grants blob: 4,096 grants of at most 1.5 KiB.
pub(super) const GRANTS_BLOB_MAX: u64 = 8 << 20;

/// What one pass over the ledger gives.
#[derive(Debug, Default)]
pub struct History {
    pub signers: Signers,
    pub table: AcceptanceTable,
    /// Grants whose attempt has not ended, for the checks of their results.
    pub grants: BTreeMap<(CellId, Fence), Grant>,
    pub definitions: Vec<Definition>,
    pub events: Vec<LedgerEvent>,
    pub classes: BTreeMap<(DeviceId, PolicyId), RecordedClass>,
    pub openings: Openings,
    /// Findings that make parts of the history unusable; shown at start, never repaired.
    pub findings: Vec<String>,
}

/// A definition read back from the ledger.
#[derive(Debug)]
pub enum Definition {
    Task(TaskId, Box<Task>, LeafIndex),
    Policy(PolicyId, Box<MeasurementPolicy>, LeafIndex),
}

/// The class of a device's last result, with the fields that gave it.
#[derive(Debug, Clone)]
pub struct RecordedClass {
    pub id: ClassId,
    fields: Facts,
}

impl RecordedClass {
    /// Read from the environment document of a result.
    pub(super) fn of(result: &ResultRecord, blobs: &BlobStore) -> Option<Self> {
        let bytes = blobs.read(&result.environment, DEFINITION_MAX).ok()?;
        let environment: Environment = canonical::from_bytes(&bytes).ok()?;
        Some(Self { id: result.class, fields: environment.class.fields })
    }

    /// Whether `device` still measures in this class: an upgraded driver or kernel makes earlier results another
    /// class. What a description does not tell (compiler flags follow from the policy) is taken as unchanged.
    pub fn is_still(&self, device: &DeviceDescription) -> bool {
        self.fields.iter().all(|(name, fact)| {
            let now = device.identity.get(name).or_else(|| device.configuration.get(name));
            now.is_none_or(|now| now == fact)
        })
    }
}

impl History {
    /// Takes in the next entry.
    pub fn fold(&mut self, index: LeafIndex, checked: &Checked, blobs: &BlobStore) {
        self.signers.fold(index, checked);
        match &checked.entry.body {
            Body::Task(added) => match blobs.read(&added.definition, DEFINITION_MAX) {
                Ok(bytes) => match canonical::from_bytes(&bytes) {
                    Ok(task) => self.definitions.push(Definition::Task(added.task, Box::new(task), index)),
                    Err(error) => self.findings.push(format!("task {} at leaf {index}: {error}", added.task)),
                },
                Err(error) => self.findings.push(format!("task {} at leaf {index}: {error}", added.task)),
            },
            Body::Policy(added) => match blobs.read(&added.definition, DEFINITION_MAX) {
                Ok(bytes) => match canonical::from_bytes(&bytes) {
                    Ok(policy) => {
                        self.definitions.push(Definition::Policy(added.policy, Box::new(policy), index));
                    }
                    Err(error) => {
                        self.findings.push(format!("policy {} at leaf {index}: {error}", added.name))
                    }
                },
                Err(error) => self.findings.push(format!("policy {} at leaf {index}: {error}", added.name)),
            },
            Body::AttemptGranted(granted) => {
                let grants = blobs.read(&granted.grants, GRANTS_BLOB_MAX).map_err(|error| error.to_string());
                match grants.and_then(|bytes| read_grants(granted, &bytes).map_err(|error| error.to_string()))
                {
                    Ok(grants) => self.granted(grants, index),
                    Err(error) => self.findings.push(format!("grants at leaf {index}: {error}")),
                }
            }
            Body::AttemptLost(lost) => {
                let event = lost_event(lost, index);
                self.ended(&event);
            }
            Body::Result(result) => {
                if let Some(class) = RecordedClass::of(result, blobs) {
                    self.classes.insert((result.device.clone(), result.policy), class);
                }
                let event = committed_event(result, checked.record(), index);
                self.ended(&event);
            }
            Body::AttemptRefused(refused) => {
                let reason = refuse_reason(refused.reason);
                self.table.refused(refused.cell, refused.fence, refused.record, index, reason);
            }
            Body::HoldoutOpened(opened) => self.openings.note(opened),
            Body::Verification(verification) => {
                let event = committed_event(&verification.result, checked.record(), index);
                self.ended(&event);
            }
            Body::Genesis(_)
            | Body::NodeEnrol(_)
            | Body::NodeRevoke(_)
            | Body::Finding(_)
            | Body::Unknown { .. } => {}
        }
    }

    fn granted(&mut self, grants: Vec<Grant>, index: LeafIndex) {
        let fences = grants.iter().map(|grant| grant.fence).collect();
        for grant in grants {
            self.table.granted(&lease(&grant));
            self.grants.insert((grant.cell, grant.fence), grant);
        }
        self.events.push(LedgerEvent::GrantsRecorded { fences, index });
    }

    fn ended(&mut self, event: &LedgerEvent) {
        self.table.apply(event);
        forget_ended(&mut self.grants, event);
        self.openings.forget_ended(event);
        self.events.push(event.clone());
    }
}

/// Drops grants whose attempt has ended: a late result is refused by the table before they are looked at.
pub(super) fn forget_ended(grants: &mut BTreeMap<(CellId, Fence), Grant>, event: &LedgerEvent) {
    match event {
        LedgerEvent::Committed { cell, fence, .. } | LedgerEvent::Lost { cell, fence, .. } => {
            grants.remove(&(*cell, *fence));
        }
        LedgerEvent::Ended { cell, .. } => {
            let all = (*cell, Fence(0))..=(*cell, Fence(u64::MAX));
            let fences: Vec<_> = grants.range(all).map(|(key, _)| *key).collect();
            for key in fences {
                grants.remove(&key);
            }
        }
        LedgerEvent::GrantsRecorded { .. } => {}
    }
}

/// The lease that a recorded grant describes.
pub(super) fn lease(grant: &Grant) -> LeaseGrant {
    LeaseGrant {
        fence: grant.fence,
        cell: grant.cell,
        node: grant.node,
        device: grant.device.clone(),
        nonce: grant.nonce,
        seeds: grant.seeds.clone(),
    }
}

/// The event of an `attempt-lost` entry.
pub(super) fn lost_event(lost: &AttemptLost, index: LeafIndex) -> LedgerEvent {
    match (lost.consequence, lost.fence) {
        (Consequence::Retried, Some(fence)) => LedgerEvent::Lost { cell: lost.cell, fence, index },
        (Consequence::Retried, None) | (Consequence::Final, _) => {
            LedgerEvent::Ended { cell: lost.cell, reason: end_reason(lost.reason), index }
        }
    }
}

/// The event of a `result` entry.
pub(super) fn committed_event(
    result: &ResultRecord,
    record: fleet_config::domain::RecordId,
    index: LeafIndex,
) -> LedgerEvent {
    LedgerEvent::Committed {
        cell: result.cell,
        fence: result.fence,
        record,
        status: result.outcome.status,
        blame: result.outcome.blame,
        index,
    }
}

fn refuse_reason(reason: RefusalReason) -> RefuseReason {
    match reason {
        RefusalReason::UnknownCell => RefuseReason::UnknownCell,
        RefusalReason::CellClosed => RefuseReason::CellClosed,
        RefusalReason::StaleFence => RefuseReason::StaleFence,
        RefusalReason::UnknownFence => RefuseReason::UnknownFence,
        RefusalReason::WrongNode => RefuseReason::WrongNode,
        RefusalReason::WrongDevice => RefuseReason::WrongDevice,
        RefusalReason::WrongNonce => RefuseReason::WrongNonce,
    }
}

fn end_reason(reason: LossReason) -> EndReason {
    match reason {
        LossReason::Cancelled => EndReason::Cancelled,
        LossReason::QueueBudgetSpent => EndReason::QueueBudgetSpent,
        LossReason::AttemptsExhausted
        | LossReason::NodeSilent
        | LossReason::DeadlinePassed
        | LossReason::NotHeld
        | LossReason::Abandoned => EndReason::AttemptsExhausted,
    }
}
