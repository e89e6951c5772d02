//! Gathers what a ranking needs from entries and blobs; reading both is the caller's.

use super::finding::{Noted, Revoked};
use super::model::RankInput;
use crate::entry::predicate::{Environment, Evidence, ResultRecord};
use crate::entry::{Body, Entry, decode_samples};
use fleet_config::domain::canonical::from_bytes;
use fleet_config::domain::{
    Candidate, CheckFinding, Digest, Fact, FamilyId, LeafIndex, MeasurementPolicy, PolicyId, SampleSeries,
    Status, Task, TaskId, field,
};
use std::collections::BTreeMap;

/// Labels of one result that are shown: a node has three.
const REMARKS_MAX: usize = 4;

/// Why there is nothing to rank from.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    #[error("no entry defines task {0}")]
    UnknownTask(TaskId),
    #[error("the blob of task {0} is missing or no task")]
    TaskBlob(TaskId),
}

/// The task and its results among `entries`, which come in order of leaves and may be all of them or those that
/// an index names. Expects a ledger that was verified: entries that cannot be read are passed over. `blob` answers
/// with the content of a blob or nothing; an `ok` whose samples are missing is kept and [`super::rank`] says so.
pub fn collect(
    id: TaskId,
    entries: impl IntoIterator<Item = (LeafIndex, Vec<u8>)>,
    blob: &mut dyn FnMut(&Digest) -> Option<Vec<u8>>,
) -> Result<(Task, Vec<RankInput>), CollectError> {
    let task = blob(&Digest(id.0)).ok_or(CollectError::UnknownTask(id))?;
    let task: Task = from_bytes(&task).map_err(|_| CollectError::TaskBlob(id))?;
    let mut candidates: BTreeMap<Digest, Known> = BTreeMap::new();
    let mut models: BTreeMap<Digest, String> = BTreeMap::new();
    let mut policies: BTreeMap<PolicyId, Option<MeasurementPolicy>> = BTreeMap::new();
    let mut inputs = Vec::new();
    let mut findings: Vec<Noted> = Vec::new();
    let mut revocations: Vec<Revoked> = Vec::new();
    for (leaf, bytes) in entries {
        let (record_id, record) = match Entry::read(&bytes) {
            Ok(Entry { record, body: Body::Result(result), .. }) => (record, result),
            Ok(Entry { record, body: Body::Finding(finding), .. }) if finding.task == id => {
                findings.push(Noted::of(leaf, record, &finding));
                continue;
            }
            Ok(Entry { record, body: Body::NodeRevoke(revoke), .. }) => {
                revocations.push(Revoked::of(leaf, record, &revoke));
                continue;
            }
            Ok(_) | Err(_) => continue,
        };
        if record.task != id {
            continue;
        }
        let digest = Digest(record.candidate.0);
        let known = candidates.entry(digest);
        let known = known.or_insert_with(|| Known::of(blob(&digest), &task)).clone();
        let digest = record.environment.blake3;
        let model = models.entry(digest);
        let device_model =
            model.or_insert_with(|| blob(&digest).and_then(|b| device_model(&b)).unwrap_or_default()).clone();
        let is_ok = record.outcome.status == Status::Ok;
        let timings = if is_ok { record.timings.as_slice() } else { &[] };
        let samples: Vec<SampleSeries> =
            timings.iter().filter_map(|timing| decode_samples(&blob(&timing.samples.blake3)?).ok()).collect();
        let candidate_name = if known.name.is_empty() { record.candidate.short() } else { known.name };
        let policy = policies.entry(record.policy);
        let policy = policy
            .or_insert_with(|| blob(&Digest(record.policy.0)).and_then(|bytes| from_bytes(&bytes).ok()));
        let (policy_name, left_out) =
            policy.as_ref().map(|policy| (policy.name.clone(), policy.left_out.clone())).unwrap_or_default();
        let remarks = if is_ok { remarks(&record, blob) } else { Vec::new() };
        inputs.push(RankInput {
            leaf,
            record_id,
            record: *record,
            candidate_name,
            family: known.family,
            is_copy: known.is_copy,
            device_model,
            policy_name,
            left_out,
            remarks,
            samples,
            findings: Vec::new(),
        });
    }
    for input in &mut inputs {
        let judged = input.judged();
        input.findings = findings.iter().filter(|noted| noted.covers(&judged)).cloned().collect();
        let suspected = revocations.iter().filter(|one| one.suspects(input.record.node, input.leaf));
        input.findings.extend(suspected.map(|one| one.about(&judged)));
        input.findings.sort_by_key(|noted| noted.leaf);
    }
    Ok((task, inputs))
}

/// What the node labelled the candidate with; a result whose evidence is missing has none.
fn remarks(record: &ResultRecord, blob: &mut dyn FnMut(&Digest) -> Option<Vec<u8>>) -> Vec<String> {
    let evidence = record.evidence.and_then(|evidence| blob(&evidence.blake3));
    let Some(Ok(evidence)) = evidence.map(|bytes| from_bytes::<Evidence>(&bytes)) else { return Vec::new() };
    let labelled = evidence.checks.into_iter().filter(|check| check.finding == CheckFinding::Labelled);
    labelled.map(|check| check.detail).take(REMARKS_MAX).collect()
}

/// What of a candidate's document a ranking needs; nothing where the document is missing.
#[derive(Debug, Clone, Default)]
struct Known {
    name: String,
    family: Option<FamilyId>,
    is_copy: bool,
}

impl Known {
    fn of(bytes: Option<Vec<u8>>, task: &Task) -> Self {
        let candidate = bytes.and_then(|bytes| from_bytes::<Candidate>(&bytes).ok());
        let Some(candidate) = candidate else { return Self::default() };
        let Candidate { format: _, name, source, plan, family, provenance: _, licence: _ } = candidate;
        // By content: another name of the file is no other kernel.
        let same_source = source.blobs().eq(task.baseline.source.blobs());
        let same_plan = plan.is_none_or(|plan| plan == task.baseline.plan);
        Self { name, family, is_copy: same_source && same_plan }
    }
}

fn device_model(bytes: &[u8]) -> Option<String> {
    let environment: Environment = from_bytes(bytes).ok()?;
    match environment.identity.get(field::DEVICE_MODEL)? {
        Fact::Text(model) => Some(model.clone()),
        Fact::Count(_) | Fact::Flag(_) | Fact::Unknown(_) => None,
    }
}
