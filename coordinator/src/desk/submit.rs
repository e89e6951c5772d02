//! Accepting a submission: check everything, store, journal, answer with a signed receipt.

use super::{Desk, blocking};
use crate::driver::request::Request;
use crate::http::body::{Receipt, ReceiptBody, SubmitBody};
use crate::scheduler::effect::Reply;
use crate::scheduler::fact::{CancelTarget, Terms};
use data_encoding::HEXLOWER;
use fleet_config::domain::canonical;
use fleet_config::domain::{
    BlobRef, CandidateId, CellId, DeviceClass, DeviceDescription, DeviceKind, Digest, LeafIndex,
    MeasurementPolicy, Milliseconds, OptionalStage, PolicyId, Preset, Reuse, Screen, Submission,
    SubmissionId, Task, field,
};
use fleet_config::refusal::Refusal;
use ledger::entry::predicate::PolicyAdded;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a receipt's signature covers before the body: it cannot be taken for an entry or a checkpoint.
pub(super) const RECEIPT_CONTEXT: &[u8] = b"muster-receipt/1\n";

/// Compiler flags of one submission, and how much of an illegal one is said.
const FLAGS_MAX: usize = 8;
const FLAG_SHOWN_MAX: usize = 64;

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
        let (policy_id, policy) = self.policy(body.policy.as_deref(), Wish::of(&body)?, &targets).await?;
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
            holdout: None,
        };
        self.journal_submission(submission, &entry.value, &policy).await
    }

    /// Cancels what is open of a submission; answers how many cells that were.
    pub async fn cancel(&self, id: &str) -> Result<u64, Refusal> {
        let target = CancelTarget::Submission(self.submission(id).await?);
        match self.ask(|reply| Request::Cancel { target, reply }).await? {
            Reply::Cancelled { cells } => Ok(cells as u64),
            other => Err(unexpected(other)),
        }
    }

    /// Journals a submission of what was checked before, and signs its receipt.
    pub(super) async fn journal_submission(
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
            Reuse::Fresh => BTreeMap::new(),
            Reuse::Allowed => {
                let devices = self.ask(|reply| Request::Devices { reply }).await?;
                self.commit.reusable(&submission, id, &devices)
            }
        };
        // The journal is about to promise verdicts on these candidates: their blobs must survive with it.
        let store = Arc::clone(&self.blobs);
        blocking(move || store.sync()).await?.map_err(|error| blob_refusal(&error))?;
        let is_verification = submission.holdout.is_some();
        let terms = Terms {
            memory: task.limits.memory,
            queue: None,
            // Reference, baseline and candidate are compiled within one attempt.
            compile: Milliseconds(task.limits.compile.0.saturating_mul(3)),
            // What is sealed has as much time again as what is open.
            run: Milliseconds(task.limits.run.0.saturating_mul(if is_verification { 2 } else { 1 })),
            seeds: policy.draws,
        };
        let asked = reused.clone();
        let request =
            |reply| Request::Submit { submission: Box::new(submission), terms, reused: asked, reply };
        let (warnings, reused) = match self.ask(request).await? {
            Reply::Accepted { submission: _, sequence: _, warnings } => (warnings, reused),
            // What was promised then counts, not what the ledger would answer now.
            Reply::AlreadyAccepted { submission: _ } => (Vec::new(), self.promised_reuse(id).await?),
            other => return Err(unexpected(other)),
        };
        let body = ReceiptBody {
            origin: self.facts.origin.clone(),
            submission: id,
            cells,
            reused,
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
            reused: body.reused.len() as u64,
            warnings,
        })
    }

    /// The cells of an accepted submission that earlier results answer.
    async fn promised_reuse(&self, submission: SubmissionId) -> Result<BTreeMap<CellId, LeafIndex>, Refusal> {
        let cells = self.ask(|reply| Request::Cells { submission, reply }).await??;
        let reused = cells.iter().filter(|cell| cell.reused);
        Ok(reused.filter_map(|cell| Some((cell.cell, LeafIndex(cell.index?)))).collect())
    }

    /// The policy named, or the default of the targets' kind of device, with other screens and stages if some are asked
    /// for; its entry is made on first use.
    async fn policy(
        &self,
        name: Option<&str>,
        wish: Wish,
        targets: &[DeviceClass],
    ) -> Result<(PolicyId, MeasurementPolicy), Refusal> {
        let built_in = MeasurementPolicy::built_in();
        let policy = match name {
            Some(name) if let Some(preset) = Preset::named(name) => {
                let devices = self.ask(|reply| Request::Devices { reply }).await?;
                honoured(preset, kind(targets, &devices)?)?
            }
            Some(name) => {
                let known = self.catalog.policy_named(name);
                if let (Some((id, entry)), false) = (&known, wish.is_any()) {
                    return Ok((*id, (*entry.value).clone()));
                }
                let known = known.map(|(_, entry)| (*entry.value).clone());
                known.into_iter().chain(built_in).find(|policy| policy.name == name).ok_or_else(|| {
                    Refusal::new(
                        "submit/unknown-policy",
                        name,
                        "no policy of this name",
                        "`muster policy list` shows those that there are",
                    )
                })?
            }
            None => {
                let devices = self.ask(|reply| Request::Devices { reply }).await?;
                match kind(targets, &devices)? {
                    DeviceKind::Cpu => MeasurementPolicy::cpu_paired(),
                    // What only compiles does so as for a GPU, so that the cubins are the same.
                    DeviceKind::Gpu | DeviceKind::Compile => MeasurementPolicy::gpu_paired(),
                }
            }
        };
        check_flags(&wish.flags, policy.possible_flags())?;
        let policy = wish.applied(policy);
        let document = policy.document().map_err(|error| {
            Refusal::new(
                "internal/policy",
                &policy.name,
                error.to_string(),
                "report this with the coordinator's log",
            )
        })?;
        let id = PolicyId(document.digest().0);
        let _defining = self.defining.lock().await;
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
        stored.map(|_| ()).map_err(|error| blob_refusal(&error))
    }
}

fn blob_refusal(error: &ledger::blob::BlobError) -> Refusal {
    Refusal::new("ledger/blob", "", error.to_string(), "check the disk of the coordinator's state folder")
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

/// The kind of device that the targets mean: by the architecture that a class names, else by the connected devices
/// that belong to it. Mixed kinds need a submission each.
pub(super) fn kind(targets: &[DeviceClass], devices: &[DeviceDescription]) -> Result<DeviceKind, Refusal> {
    let mut kinds = BTreeSet::new();
    for class in targets {
        let named = class.predicates().iter().find(|predicate| predicate.field == field::ARCHITECTURE);
        match named {
            Some(predicate) if predicate.value.starts_with("cpu:") => drop(kinds.insert(DeviceKind::Cpu)),
            Some(_) => drop(kinds.insert(DeviceKind::Gpu)),
            None => {
                let of_class: Vec<_> = devices.iter().filter(|device| class.matches(device)).collect();
                if of_class.is_empty() {
                    return Err(Refusal::new(
                        "submit/unknown-kind",
                        class.to_string(),
                        "no connected device belongs to this class, so nothing says whether it is a CPU's or a GPU's",
                        "name a policy with --policy, add an architecture to the class, or start a node of it",
                    ));
                }
                kinds.extend(of_class.iter().map(|device| match device.kind {
                    DeviceKind::Cpu => DeviceKind::Cpu,
                    DeviceKind::Gpu | DeviceKind::Compile => DeviceKind::Gpu,
                }));
            }
        }
    }
    match (kinds.pop_first(), kinds.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) | (None, _) => Err(Refusal::new(
            "submit/mixed-kinds",
            "targets",
            "CPU and GPU targets are measured by different policies",
            "submit once for the CPU classes and once for the GPU classes, each with --on",
        )),
    }
}

pub(super) fn random_nonce() -> String {
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

/// What a submission wants other than its policy has it.
#[derive(Debug)]
struct Wish {
    screens: Option<Vec<Screen>>,
    stages: Option<Vec<OptionalStage>>,
    toolchain: Option<Digest>,
    flags: Vec<String>,
}

impl Wish {
    fn of(body: &SubmitBody) -> Result<Self, Refusal> {
        let screens = body.screens.as_deref().map(|text| {
            Screen::list(text).map_err(|error| {
                let next = "give a list of their names, `cheap`, `all` or `none`";
                Refusal::new("submit/unknown-screen", "", error.to_string(), next)
            })
        });
        let stages = body.stages.as_deref().map(|text| {
            OptionalStage::list(text).map_err(|error| {
                let next = "give a list of their names, `all` or `fewest`";
                Refusal::new("submit/unknown-stage", "", error.to_string(), next)
            })
        });
        let (toolchain, flags) = (body.toolchain, body.flags.clone());
        Ok(Self { screens: screens.transpose()?, stages: stages.transpose()?, toolchain, flags })
    }

    fn is_any(&self) -> bool {
        let Self { screens, stages, toolchain, flags } = self;
        screens.is_some() || stages.is_some() || toolchain.is_some() || !flags.is_empty()
    }

    fn applied(self, policy: MeasurementPolicy) -> MeasurementPolicy {
        let Self { screens, stages, toolchain, flags } = self;
        let policy = screens.into_iter().fold(policy, MeasurementPolicy::with_screens);
        let policy = stages.into_iter().fold(policy, |policy, stages| policy.with_stages(&stages));
        toolchain.into_iter().fold(policy.with_flags(flags), MeasurementPolicy::with_toolchain)
    }
}

/// The policy that a preset means on this kind of device. What no device can honour yet is refused, and never measured
/// in another way under that name.
fn honoured(preset: Preset, kind: DeviceKind) -> Result<MeasurementPolicy, Refusal> {
    preset.policy(kind).map_err(|unmet| {
        Refusal::new(
            "policy/not-honoured",
            preset.name(),
            format!("no device measures in this way yet: {unmet}"),
            "take `paired`, `cold` or `hot`; `muster policy diff` says what differs",
        )
    })
}

/// Flags become part of a policy's name and of the ledger, so that none gets there which no device takes.
fn check_flags(flags: &[String], possible: &[&str]) -> Result<(), Refusal> {
    if flags.len() > FLAGS_MAX {
        let cause = format!("{} compiler flags; at most {FLAGS_MAX} are possible", flags.len());
        return Err(Refusal::new("submit/flags", "flags", cause, "give fewer"));
    }
    let Some(flag) = flags.iter().find(|flag| !possible.contains(&flag.as_str())) else { return Ok(()) };
    let shown: String = flag.chars().take(FLAG_SHOWN_MAX).flat_map(char::escape_debug).collect();
    let cause = format!("`{shown}` is no compiler flag that these devices take");
    Err(Refusal::new("submit/flags", "flags", cause, format!("these are possible: {}", possible.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::{DeviceId, Fact, Facts};

    fn device(kind: DeviceKind, architecture: &str, model: &str) -> DeviceDescription {
        DeviceDescription {
            id: DeviceId(model.to_owned()),
            kind,
            architecture: architecture.parse().unwrap(),
            memory: 1,
            identity: Facts::from([(field::DEVICE_MODEL.to_owned(), Fact::Text(model.to_owned()))]),
            configuration: Facts::new(),
            attributes: BTreeMap::new(),
        }
    }

    #[test]
    fn flags_that_reach_for_files_or_that_no_device_takes_are_refused_before_anything_is_recorded() {
        let host = MeasurementPolicy::cpu_paired().possible_flags();
        let gpu = MeasurementPolicy::gpu_paired().possible_flags();
        let code = |flag: &str, possible: &[&str]| {
            check_flags(&[flag.to_owned()], possible).map_err(|refusal| refusal.code.into_owned())
        };
        assert_eq!(code("-std=c++20", host), Ok(()));
        assert_eq!(code("--use_fast_math", gpu), Ok(()));
        for flag in [
            "-I/etc",
            "-include/etc/passwd",
            "-include=/etc/passwd",
            "@/etc/passwd",
            "--options-file=/etc/passwd",
            "-Xptxas=-v",
            "-fplugin=/tmp/x.so",
            "-B/tmp",
            "-wrapper",
            "-std=c++20 -I/etc",
            "-std=c++20\n-I/etc",
            "-std=c++20\0",
            " -std=c++20",
            "-use_fast_math",
            "",
            "\u{1b}[2J",
        ] {
            for possible in [host, gpu] {
                assert_eq!(code(flag, possible), Err("submit/flags".to_owned()), "{flag:?}");
            }
        }
        assert_eq!(code("-lineinfo", host), Err("submit/flags".to_owned()), "a flag of the other kind");
        let said = check_flags(&["\u{1b}[2J\n".repeat(100)], host).unwrap_err().to_string();
        assert!(said.len() < 1000 && !said.contains(char::is_control), "{said:?}");
        assert!(check_flags(&vec!["-O2".to_owned(); FLAGS_MAX + 1], host).is_err());
    }

    #[test]
    fn a_class_without_an_architecture_is_of_the_kind_of_its_devices() {
        let devices = [
            device(DeviceKind::Cpu, "cpu:x86-64-v3", "Example CPU"),
            device(DeviceKind::Gpu, "nvidia:sm_90a", "Example GPU"),
        ];
        let kind_of = |classes: &[&str]| {
            let classes: Vec<DeviceClass> = classes.iter().map(|class| class.parse().unwrap()).collect();
            kind(&classes, &devices).map_err(|refusal| refusal.code.into_owned())
        };
        assert_eq!(kind_of(&["device.model=Example CPU"]), Ok(DeviceKind::Cpu));
        assert_eq!(kind_of(&["device.model=Example GPU"]), Ok(DeviceKind::Gpu));
        assert_eq!(kind_of(&["cpu:x86-64-v4"]), Ok(DeviceKind::Cpu), "an architecture needs no device");
        assert_eq!(kind_of(&["nvidia:sm_80"]), Ok(DeviceKind::Gpu));
        assert_eq!(
            kind_of(&["compile:sm_80", "nvidia:sm_80"]),
            Ok(DeviceKind::Gpu),
            "one policy, the same cubins"
        );
        assert_eq!(kind_of(&["device.model=Another"]), Err("submit/unknown-kind".to_owned()));
        let mixed = ["cpu:x86-64-v3", "device.model=Example GPU"];
        assert_eq!(kind_of(&mixed), Err("submit/mixed-kinds".to_owned()));
    }
}
