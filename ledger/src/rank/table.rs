//! From results to tables.

use super::finding::{fall, standing};
use super::leases::{Standing, estimate};
use super::model::{
    CPU_NOTICE, Claim, FallenCandidate, FleetFault, Floor, Label, Place, RankInput, RankRow, Ranking, Reach,
    RejectedCandidate, RejectedGroup, Table,
};
use crate::stats::{self, Conclusion, NoiseFloor};
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
    let intervals = [stats::METHOD.to_owned(), stats::LEASES_METHOD.to_owned()];
    Ranking { task: id, task_name: task.name.clone(), as_of, intervals, least_sandbox: least, tables }
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
    let mut ranked = Vec::new();
    let mut rejected: BTreeMap<Status, Vec<RejectedCandidate>> = BTreeMap::new();
    let mut fallen = Vec::new();
    for attempts in candidates.values() {
        let standing = Standing::of(attempts, cases);
        let lost = attempts.iter().rev().find_map(|input| fallen_of(input, cases));
        let is_judged = lost.is_some();
        fallen.extend(lost);
        match (standing, attempts.last()) {
            (None, Some(_)) if is_judged => {}
            (Some(standing), _) => ranked.push(standing),
            (None, Some(last)) => {
                let group = rejected.entry(last.record.outcome.status).or_default();
                group.push(reject(last, attempts.len() as u64));
            }
            (None, None) => {}
        }
    }
    fallen.sort_by_key(|one| (one.finding_leaf, one.leaf));
    let (floor, rows) = judged(&ranked);
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
        noise_floor: floor.map(|floor| Floor {
            results: floor.results,
            bound: stats::parts_per_billion(libm::exp(floor.bound())),
        }),
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
fn fallen_of(input: &RankInput, cases: &[&str]) -> Option<FallenCandidate> {
    if input.record.outcome.status != Status::Ok {
        return None;
    }
    let finding = fall(&input.findings, &input.judged())?;
    Some(FallenCandidate {
        candidate: input.record.candidate,
        name: input.candidate_name.clone(),
        record: input.record_id,
        leaf: input.leaf,
        score: estimate(input, cases).map(|estimate| stats::parts_per_billion(libm::exp(estimate.log))),
        detector: finding.detector.clone(),
        code: finding.code.clone(),
        cause: finding.cause.clone(),
        finding: finding.finding,
        finding_leaf: finding.leaf,
    })
}

/// The rows of all candidates together, and the noise floor that copies of the baseline among them show.
fn judged(ranked: &[Standing<'_>]) -> (Option<NoiseFloor>, Vec<RankRow>) {
    let copies: Vec<f64> = ranked.iter().filter(|one| one.newest.is_copy).flat_map(Standing::logs).collect();
    let floor = NoiseFloor::of(&copies);
    let concluded: Vec<(&Standing<'_>, Conclusion)> =
        ranked.iter().filter_map(|one| Some((one, one.conclude(floor.as_ref())?))).collect();
    let conclusions: Vec<Conclusion> = concluded.iter().map(|(_, conclusion)| *conclusion).collect();
    let claims = stats::claims(&conclusions, floor.as_ref());
    let rows = concluded.into_iter().zip(claims);
    (floor, rows.map(|((standing, conclusion), claim)| row(standing, &conclusion, claim.into())).collect())
}

/// Chance of being seen that the detectable ratio of a row is told for.
const POWER: f64 = 0.8;

fn row(standing: &Standing<'_>, conclusion: &Conclusion, claim: Claim) -> RankRow {
    let newest = standing.newest;
    let Conclusion { estimate, reach, leases, boards } = *conclusion;
    let score = stats::parts_per_billion(libm::exp(estimate.log));
    let interval = estimate.interval();
    // Rounding may put an end on the wrong side of the estimate where nothing scatters.
    let low = stats::parts_per_billion(interval.low).min(score);
    let high = stats::parts_per_billion(interval.high).max(score);
    let failed = standing.attempts.iter().filter(|a| a.record.outcome.status != Status::Ok).count() as u64;
    RankRow {
        place: Place::Rank(0),
        candidate: Some(newest.record.candidate),
        name: newest.candidate_name.clone(),
        score,
        low,
        high,
        is_like_baseline: low <= ONE && ONE <= high,
        claim,
        reach: reach.into(),
        leases,
        boards,
        nodes: standing.nodes(),
        detectable: stats::parts_per_billion(libm::exp(estimate.detectable(POWER))),
        is_copy: newest.is_copy,
        remarks: newest.remarks.clone(),
        record: Some(newest.record_id),
        leaf: Some(newest.leaf),
        attempts: standing.attempts.len() as u64,
        failed,
        labels: labels(newest),
    }
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
        claim: Claim::NoDifference,
        reach: Reach::Boards,
        leases: 0,
        boards: 0,
        nodes: 0,
        detectable: ONE,
        is_copy: false,
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
