//! From results to tables.

use super::finding::{fall, standing};
use super::model::{
    CPU_NOTICE, FallenCandidate, FleetFault, Label, Place, RankInput, RankRow, Ranking, RejectedCandidate,
    RejectedGroup, Table,
};
use crate::stats;
use fleet_config::domain::{
    Architecture, CandidateId, CaseKind, ClassId, DeviceKind, PartsPerBillion, PolicyId, SandboxLevel,
    Status, Task, TaskId,
};
use std::collections::BTreeMap;

const ONE: PartsPerBillion = PartsPerBillion(1_000_000_000);

/// Ranks `results` of `task`, as of a tree of `as_of` entries: later ones, those of other tasks, those that ran in a
/// weaker sandbox than `least`, and what only compiled are left out.
pub fn rank(task: &Task, id: TaskId, results: Vec<RankInput>, as_of: u64, least: SandboxLevel) -> Ranking {
    let asked_for = |input: &RankInput| {
        let record = &input.record;
        let ran = record.device_kind != DeviceKind::Compile;
        ran && input.leaf.0 < as_of && record.task == id && sandbox_of(input) >= least
    };
    let mut results: Vec<RankInput> = results.into_iter().filter(asked_for).collect();
    results.sort_by_key(|input| input.leaf);
    for input in &mut results {
        input.findings.retain(|noted| noted.leaf.0 < as_of);
    }
    let built: BTreeMap<Likeness, ClassId> =
        results.iter().filter(|i| i.record.build.is_some()).map(|i| (likeness(i), i.record.class)).collect();
    let mut classes: BTreeMap<(DeviceKind, ClassId), Vec<RankInput>> = BTreeMap::new();
    for input in results {
        let class = home(&input, &built);
        classes.entry((input.record.device_kind, class)).or_default().push(input);
    }
    let cases: Vec<&str> = task
        .cases
        .iter()
        .filter(|case| case.kind == CaseKind::Performance)
        .map(|case| case.name.as_str())
        .collect();
    let mut tables: Vec<Table> =
        classes.into_iter().filter_map(|((_, class), inputs)| table(class, &inputs, &cases)).collect();
    tables.sort_by(|a, b| {
        // GPUs first: their order is what a ranking is asked for.
        let key = |t: &Table| {
            (t.device_kind == DeviceKind::Cpu, t.architecture.clone(), t.device_model.clone(), t.class)
        };
        key(a).cmp(&key(b))
    });
    Ranking { task: id, task_name: task.name.clone(), as_of, least_sandbox: least, tables }
}

/// The sandbox that a result ran in. A word that this version does not know vouches for nothing.
fn sandbox_of(input: &RankInput) -> SandboxLevel {
    input.record.sandbox.parse().unwrap_or(SandboxLevel::None)
}

/// What two results share when only what a build adds to the class may differ.
type Likeness = (DeviceKind, Architecture, String, PolicyId);

fn likeness(input: &RankInput) -> Likeness {
    let record = &input.record;
    (record.device_kind, record.architecture.clone(), input.device_model.clone(), record.policy)
}

/// The class whose table a result belongs to. A result without a build (it did not compile) may lack the compiler
/// in its class; it is listed with the latest class of built results on the same device model, under the same
/// policy, so that a reader finds it beside what it competed with. It has no times to be compared.
fn home(input: &RankInput, built: &BTreeMap<Likeness, ClassId>) -> ClassId {
    let own = input.record.class;
    let has_times = input.record.build.is_some() || !input.record.timings.is_empty();
    if has_times { own } else { built.get(&likeness(input)).copied().unwrap_or(own) }
}

/// The table of one class; `inputs` are in order of leaves and not empty.
fn table(class: ClassId, inputs: &[RankInput], cases: &[&str]) -> Option<Table> {
    let first = inputs.first()?;
    let mut candidates: BTreeMap<CandidateId, Vec<&RankInput>> = BTreeMap::new();
    let mut fleet_faults = Vec::new();
    for input in inputs {
        if input.record.is_final() {
            candidates.entry(input.record.candidate).or_default().push(input);
        } else {
            fleet_faults.push(FleetFault {
                candidate: input.record.candidate,
                name: input.candidate_name.clone(),
                status: input.record.outcome.status,
                record: input.record_id,
                leaf: input.leaf,
            });
        }
    }
    let mut rows = Vec::new();
    let mut rejected: BTreeMap<Status, Vec<RejectedCandidate>> = BTreeMap::new();
    let mut fallen = Vec::new();
    for attempts in candidates.values() {
        let ok = |input: &&&RankInput| {
            input.record.outcome.status == Status::Ok && fall(&input.findings, &input.judged()).is_none()
        };
        let row = attempts.iter().rev().find(ok).and_then(|best| row(best, attempts, cases));
        let lost = attempts.iter().rev().find_map(|input| fallen_of(input, attempts, cases));
        let is_judged = lost.is_some();
        fallen.extend(lost);
        match (row, attempts.last()) {
            (None, Some(_)) if is_judged => {}
            (Some(row), _) => rows.push(row),
            (None, Some(last)) => {
                let group = rejected.entry(last.record.outcome.status).or_default();
                group.push(reject(last, attempts.len() as u64));
            }
            (None, None) => {}
        }
    }
    fallen.sort_by_key(|one| (one.finding_leaf, one.leaf));
    let is_cpu = first.record.device_kind == DeviceKind::Cpu;
    let group = |(status, mut candidates): (Status, Vec<RejectedCandidate>)| {
        candidates.sort_by_key(|candidate| candidate.leaf);
        RejectedGroup { status, candidates }
    };
    Some(Table {
        class,
        policy: first.record.policy,
        policy_name: first.policy_name.clone(),
        left_out: first.left_out.clone(),
        device_kind: first.record.device_kind,
        architecture: first.record.architecture.clone(),
        device_model: first.device_model.clone(),
        rows: placed(rows),
        rejected: rejected.into_iter().map(group).collect(),
        fallen,
        fleet_faults,
        attempts: inputs.len() as u64,
        weakest_sandbox: inputs.iter().map(sandbox_of).min().unwrap_or(SandboxLevel::None),
        notice: if is_cpu { CPU_NOTICE.to_owned() } else { String::new() },
    })
}

/// The line of an `ok` that a finding brought down.
fn fallen_of(input: &RankInput, attempts: &[&RankInput], cases: &[&str]) -> Option<FallenCandidate> {
    if input.record.outcome.status != Status::Ok {
        return None;
    }
    let finding = fall(&input.findings, &input.judged())?;
    Some(FallenCandidate {
        candidate: input.record.candidate,
        name: input.candidate_name.clone(),
        record: input.record_id,
        leaf: input.leaf,
        score: row(input, attempts, cases).map(|row| row.score),
        detector: finding.detector.clone(),
        code: finding.code.clone(),
        cause: finding.cause.clone(),
        finding: finding.finding,
        finding_leaf: finding.leaf,
    })
}

/// The row of a candidate from its latest `ok`. `None` when a performance case has no samples: a mean over fewer
/// cases would be another number under the same name.
fn row(best: &RankInput, attempts: &[&RankInput], cases: &[&str]) -> Option<RankRow> {
    let mut logs = Vec::with_capacity(cases.len());
    let mut resolutions = Vec::with_capacity(cases.len());
    for case in cases {
        let series = best.samples.iter().find(|series| series.case == *case)?;
        logs.push(stats::log_ratios(series));
        resolutions.push(stats::log_resolution(series));
    }
    let medians = logs.iter().map(|case| stats::median(case)).collect::<Option<Vec<f64>>>()?;
    let score = stats::parts_per_billion(stats::geometric_mean(&medians)?);
    let interval = stats::geometric_mean_interval(&logs, seed(best))?.widened(&resolutions);
    // A percentile interval may miss its own estimate by a hair when few pairs scatter little.
    let low = stats::parts_per_billion(interval.low).min(score);
    let high = stats::parts_per_billion(interval.high).max(score);
    let failed = attempts.iter().filter(|a| a.record.outcome.status != Status::Ok).count() as u64;
    Some(RankRow {
        place: Place::Rank(0),
        candidate: Some(best.record.candidate),
        name: best.candidate_name.clone(),
        score,
        low,
        high,
        is_like_baseline: low <= ONE && ONE <= high,
        remarks: best.remarks.clone(),
        record: Some(best.record_id),
        leaf: Some(best.leaf),
        attempts: attempts.len() as u64,
        failed,
        labels: labels(best),
    })
}

/// What detectors found about a result that still stands.
fn labels(input: &RankInput) -> Vec<Label> {
    let held = standing(&input.findings, &input.judged());
    let label = |noted: &super::finding::Noted| Label {
        detector: noted.detector.clone(),
        code: noted.code.clone(),
        cause: noted.cause.clone(),
        finding: noted.finding,
        leaf: noted.leaf,
    };
    held.into_iter().map(label).collect()
}

/// Seed of the resampling: the first eight bytes of the record's name, so that it is fixed and nobody's choice.
fn seed(input: &RankInput) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&input.record_id.0[..8]);
    u64::from_be_bytes(bytes)
}

fn reject(input: &RankInput, attempts: u64) -> RejectedCandidate {
    let outcome = &input.record.outcome;
    let (code, cause) =
        outcome.cause.as_ref().map(|cause| (cause.code.clone(), cause.message.clone())).unwrap_or_default();
    // An `ok` without samples of every case is not ranked; say so instead of showing nothing.
    let is_partial = outcome.status == Status::Ok;
    RejectedCandidate {
        candidate: input.record.candidate,
        name: input.candidate_name.clone(),
        record: input.record_id,
        leaf: input.leaf,
        stage: outcome.stage,
        blame: outcome.blame,
        code: if is_partial { "rank/samples".to_owned() } else { code },
        cause: if is_partial { "a performance case has no readable samples".to_owned() } else { cause },
        hint: outcome.hint.clone(),
        attempts,
    }
}

/// Sorts rows, gives them their ranks and puts the baseline where one belongs.
fn placed(mut rows: Vec<RankRow>) -> Vec<RankRow> {
    rows.sort_by_key(|row| (std::cmp::Reverse(row.score), row.leaf));
    let mut best_low = ONE;
    let mut shared = 0;
    for (position, row) in rows.iter_mut().enumerate() {
        if position == 0 || row.high < best_low {
            shared = position as u64 + 1;
            best_low = row.low;
        }
        row.place = Place::Rank(shared);
    }
    if !rows.is_empty() {
        let at = rows.partition_point(|row| row.score >= ONE);
        rows.insert(at, baseline());
    }
    rows
}

fn baseline() -> RankRow {
    RankRow {
        place: Place::Baseline,
        candidate: None,
        name: "baseline".to_owned(),
        score: ONE,
        low: ONE,
        high: ONE,
        is_like_baseline: true,
        remarks: Vec::new(),
        record: None,
        leaf: None,
        attempts: 0,
        failed: 0,
        labels: Vec::new(),
    }
}

/// Ranks of rows given as (leaf, score, low, high), without the baseline.
#[cfg(test)]
pub(super) fn place_for_test(rows: &[(u64, PartsPerBillion, PartsPerBillion, PartsPerBillion)]) -> Vec<u64> {
    use fleet_config::domain::LeafIndex;
    let row = |&(leaf, score, low, high): &(u64, _, _, _)| RankRow {
        place: Place::Rank(0),
        leaf: Some(LeafIndex(leaf)),
        score,
        low,
        high,
        ..baseline()
    };
    let placed = placed(rows.iter().map(row).collect());
    let rank = |row: &RankRow| match row.place {
        Place::Rank(rank) => Some(rank),
        Place::Baseline => None,
    };
    placed.iter().filter_map(rank).collect()
}
