//! Accepting a submission: check everything, store, journal, answer with a signed receipt.

use super::{Desk, blocking, parse_submission};
use crate::driver::request::Request;
use crate::http::body::{Receipt, ReceiptBody, SubmitBody};
use crate::scheduler::effect::Reply;
use crate::scheduler::fact::{CancelTarget, Terms};
use data_encoding::HEXLOWER;
use fleet_config::domain::canonical;
use fleet_config::domain::{
    BlobRef, CandidateId, DeviceClass, DeviceKind, LeafIndex, MeasurementPolicy, Milliseconds, PolicyId,
    Reuse, Submission, Task, Vendor, field,
};
use fleet_config::refusal::Refusal;
use ledger::entry::predicate::PolicyAdded;

/// What a receipt's signature covers before the body: it cannot be taken for an entry or a checkpoint.
pub(super) const RECEIPT_CONTEXT: &[u8] = b"muster-receipt/1\n";

use std::sync::Arc;

impl Desk {
    /// Accepts a submission; when this returns, it is journalled.
    pub async fn submit(&self, body: SubmitBody) -> Result<Receipt, Refusal> {
        let entry = self.catalog.task(body.task).ok_or_else(|| {
            Refusal::new(
                "task/unknown-task",
                body.task.to_string(),
                "no such task is in the ledger",
                "add it with `muster task add FOLDER`",
            )
        })?;
        let targets = targets(&body.targets)?;
        if body.candidates.is_empty()
            || body.candidates.len().saturating_mul(targets.len()) > Submission::CELLS_MAX
        {
            return Err(Refusal::new(
                "submit/too-large",
                "",
                format!("{} candidates on {} targets", body.candidates.len(), targets.len()),
                format!("submit at least one candidate and at most {} cells at once", Submission::CELLS_MAX),
            ));
        }
        let (policy_id, policy) = self.policy(body.policy.as_deref(), &targets).await?;
        let mut candidates = Vec::with_capacity(body.candidates.len());
        for candidate in &body.candidates {
            self.check_candidate(candidate, &entry.value)?;
            let document = candidate.document().map_err(|error| {
                Refusal::new(
                    "candidate/not-canonical",
                    &candidate.name,
                    error.to_string(),
                    "write integers only",
                )
            })?;
            let id = CandidateId(document.digest().0);
            self.catalog.name_candidate(id, &candidate.name);
            candidates.push(id);
            self.store(document.bytes).await?;
            self.store(candidate.source.document().map(|tree| tree.bytes).unwrap_or_default()).await?;
        }
        candidates.sort();
        candidates.dedup();
        let nonce = body.nonce.unwrap_or_else(random_nonce);
        let submission = Submission {
            format: Submission::FORMAT.to_owned(),
            task: body.task,
            candidates,
            targets,
            policy: policy_id,
            reuse: body.reuse,
            nonce,
        };
        self.journal_submission(submission, &entry.value, &policy).await
    }

    /// Cancels what is open of a submission; answers how many cells that were.
    pub async fn cancel(&self, id: &str) -> Result<u64, Refusal> {
        let target = CancelTarget::Submission(parse_submission(id)?);
        match self.ask(|reply| Request::Cancel { target, reply }).await? {
            Reply::Cancelled { cells } => Ok(cells as u64),
            other => Err(unexpected(other)),
        }
    }

    async fn journal_submission(
        &self,
        submission: Submission,
        task: &Task,
        policy: &MeasurementPolicy,
    ) -> Result<Receipt, Refusal> {
        let id = submission.id().map_err(|error| {
            Refusal::new("submit/not-canonical", "", error.to_string(), "use a plain text nonce")
        })?;
        let cells: Vec<_> = submission.cells(id).into_iter().map(|(cell, _, _)| cell).collect();
        let reused = match submission.reuse {
            Reuse::Fresh => std::collections::BTreeMap::new(),
            Reuse::Allowed => {
                let devices = self.ask(|reply| Request::Devices { reply }).await?;
                self.commit.reusable(&submission, id, &devices)
            }
        };
        let count = reused.len() as u64;
        let terms = Terms {
            memory: task.limits.memory,
            queue: None,
            // Reference, baseline and candidate are compiled within one attempt.
            compile: Milliseconds(task.limits.compile.0.saturating_mul(3)),
            run: task.limits.run,
            seeds: policy.draws,
        };
        let request = |reply| Request::Submit { submission: Box::new(submission), terms, reused, reply };
        let warnings = match self.ask(request).await? {
            Reply::Accepted { submission: _, sequence: _, warnings } => warnings,
            Reply::AlreadyAccepted { submission: _ } => Vec::new(),
            other => return Err(unexpected(other)),
        };
        let body = ReceiptBody {
            origin: self.facts.origin.clone(),
            submission: id,
            cells,
            ledger_size: self.commit.size(),
            accepted_on: crate::clock::wall_rfc3339(),
        };
        let total = body.cells.len() as u64;
        let bytes = canonical::to_bytes(&body).map_err(|error| {
            Refusal::new("internal/receipt", "", error.to_string(), "report this with the coordinator's log")
        })?;
        let signature = self.operator.sign(&[RECEIPT_CONTEXT, &bytes].concat());
        Ok(Receipt {
            body: String::from_utf8_lossy(&bytes).into_owned(),
            signature: HEXLOWER.encode(&signature),
            keyid: self.operator.public().key_id().to_string(),
            submission: id,
            cells: total,
            reused: count,
            warnings,
        })
    }

    /// The policy named, or the default of the targets' kind of device; its entry is made on first use.
    async fn policy(
        &self,
        name: Option<&str>,
        targets: &[DeviceClass],
    ) -> Result<(PolicyId, MeasurementPolicy), Refusal> {
        let built_in = [MeasurementPolicy::cpu_paired(), MeasurementPolicy::gpu_probe()];
        let policy = match name {
            Some(name) => {
                if let Some((id, entry)) = self.catalog.policy_named(name) {
                    return Ok((id, (*entry.value).clone()));
                }
                built_in.into_iter().find(|policy| policy.name == name).ok_or_else(|| {
                    Refusal::new(
                        "submit/unknown-policy",
                        name,
                        "no policy of this name",
                        "use cpu-paired/1 or gpu-probe/1",
                    )
                })?
            }
            None => match kind(targets)? {
                DeviceKind::Cpu => MeasurementPolicy::cpu_paired(),
                DeviceKind::Gpu => MeasurementPolicy::gpu_probe(),
            },
        };
        let document = policy.document().map_err(|error| {
            Refusal::new(
                "internal/policy",
                &policy.name,
                error.to_string(),
                "report this with the coordinator's log",
            )
        })?;
        let id = PolicyId(document.digest().0);
        if self.catalog.policy(id).is_none() {
            self.store(document.bytes).await?;
            let index = self.add_policy(id, &policy, document.blob).await?;
            self.catalog.add_policy(id, policy.clone(), index);
        }
        Ok((id, policy))
    }

    async fn add_policy(
        &self,
        id: PolicyId,
        policy: &MeasurementPolicy,
        definition: BlobRef,
    ) -> Result<LeafIndex, Refusal> {
        let added_on = crate::clock::wall_rfc3339();
        self.commit
            .add_policy(PolicyAdded { policy: id, name: policy.name.clone(), definition, added_on })
            .await
    }

    async fn store(&self, bytes: Vec<u8>) -> Result<(), Refusal> {
        let store = Arc::clone(&self.blobs);
        let stored = blocking(move || store.put(&bytes)).await?;
        stored.map(|_| ()).map_err(|error| {
            Refusal::new(
                "ledger/blob",
                "",
                error.to_string(),
                "check the disk of the coordinator's state folder",
            )
        })
    }
}

fn targets(texts: &[String]) -> Result<Vec<DeviceClass>, Refusal> {
    let mut classes = Vec::with_capacity(texts.len());
    for text in texts {
        classes.push(text.parse::<DeviceClass>().map_err(|error| {
            Refusal::new(
                "submit/device-class",
                text.chars().take(80).collect::<String>(),
                error.to_string(),
                "see `muster node list` for the classes of this fleet",
            )
        })?);
    }
    if classes.is_empty() {
        return Err(Refusal::new(
            "submit/no-target",
            "",
            "no device class was named",
            "name one with --on, for example --on cpu:x86-64-v3",
        ));
    }
    classes.sort();
    classes.dedup();
    Ok(classes)
}

/// The device kind of targets that name architectures; mixed kinds need a policy by name.
fn kind(targets: &[DeviceClass]) -> Result<DeviceKind, Refusal> {
    let is_cpu = |class: &DeviceClass| {
        let mut predicates = class.predicates().iter();
        predicates.any(|p| p.field == field::ARCHITECTURE && p.value.starts_with("cpu:"))
    };
    debug_assert!(Vendor::Cpu < Vendor::Nvidia, "cpu is a vendor of its own");
    match (targets.iter().any(&is_cpu), targets.iter().all(&is_cpu)) {
        (true, true) => Ok(DeviceKind::Cpu),
        (false, false) => Ok(DeviceKind::Gpu),
        (true, false) | (false, true) => Err(Refusal::new(
            "submit/mixed-kinds",
            "",
            "CPU and GPU targets are measured by different policies",
            "submit once for the CPU classes and once for the GPU classes",
        )),
    }
}

fn random_nonce() -> String {
    let mut bytes = [0u8; 16];
    // Without randomness the empty nonce still makes a legal submission; repeats would then be the same one.
    if getrandom::fill(&mut bytes).is_err() {
        return String::new();
    }
    HEXLOWER.encode(&bytes)
}

/// The refusal in a reply, or what makes of a reply that answers another question.
pub(super) fn unexpected(reply: Reply) -> Refusal {
    match reply {
        Reply::Refused(refusal) => refusal,
        Reply::Accepted { .. }
        | Reply::AlreadyAccepted { .. }
        | Reply::Cancelled { .. }
        | Reply::Drained { .. }
        | Reply::InviteCreated
        | Reply::InviteConsumed { .. } => {
            Refusal::new("internal/reply", "", format!("{reply:?}"), "report this with the coordinator's log")
        }
    }
}
