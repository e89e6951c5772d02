//! Task × candidate × device class: what each candidate is worth on each, and why it is worth nothing.
//!
//! A column is what a ranking's table is: one comparability class, so one policy; beside these a column for each architecture
//! that was only compiled for, whose cells have resources and no times. A row is a candidate; the baseline is one too.

use super::model::{CPU_NOTICE, Claim, Place, RankInput, RankRow, Ranking, Reach, Table};
use crate::detect::board::board_of;
use crate::detect::floor::{moved, picoseconds};
use crate::stats;
use fleet_config::domain::{
    Architecture, CandidateId, CaseKind, ClassId, DeviceKind, FamilyId, PartsPerBillion, PolicyId, RecordId,
    SandboxLevel, Status, Task, TaskId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matrix {
    pub task: TaskId,
    pub task_name: String,
    /// Tree size that the answer is about.
    pub as_of: u64,
    /// As the tables of a ranking, then what was only compiled for, by architecture.
    pub columns: Vec<Column>,
    /// The baseline, then candidates by name.
    pub rows: Vec<Row>,
    /// [`CPU_NOTICE`] where a column is a CPU's.
    pub notice: String,
}

/// Where candidates were tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub device_kind: DeviceKind,
    pub architecture: Architecture,
    /// Empty where nothing ran.
    pub device_model: String,
    pub policy: PolicyId,
    pub policy_name: String,
    /// None where nothing ran.
    pub class: Option<ClassId>,
    /// Peak bandwidth of its memory in bytes a second, with where that stands; none where no source is known.
    pub bandwidth: Option<(u64, String)>,
}

/// One candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// None is the baseline.
    pub candidate: Option<CandidateId>,
    pub name: String,
    pub family: Option<FamilyId>,
    /// One for each column.
    pub cells: Vec<Cell>,
}

/// What became of a candidate in a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    Valid(Worth),
    /// Why it is not valid there.
    Invalid(Reason),
    /// It compiles; nothing was run.
    Compiled {
        resources: BTreeMap<String, u64>,
        record: RecordId,
    },
    Untried,
}

/// A valid candidate's worth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worth {
    pub speed_up: PartsPerBillion,
    pub low: PartsPerBillion,
    pub high: PartsPerBillion,
    pub claim: Claim,
    pub reach: Reach,
    /// Geometric mean over cases of (bytes that the task moves at least ÷ peak bandwidth) ÷ time. Above one: what it moves
    /// was in a cache, or the time is suspicious. None where the bandwidth is unknown.
    pub memory_share: Option<PartsPerBillion>,
    /// None for the baseline, which is measured in every one.
    pub record: Option<RecordId>,
}

/// Why there is no number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The word of the status, or `fallen` where a finding brought it down.
    pub status: String,
    pub code: String,
    pub cause: String,
    pub record: RecordId,
}

/// The matrix that belongs to `ranking`, which was made from `results` of `task` too.
pub fn matrix(task: &Task, ranking: &Ranking, results: &[RankInput]) -> Matrix {
    let compiled = compiled(ranking, results);
    let mut columns: Vec<Column> = ranking.tables.iter().map(timed).collect();
    columns.extend(compiled.keys().map(|(architecture, policy)| Column {
        device_kind: DeviceKind::Compile,
        architecture: architecture.clone(),
        device_model: String::new(),
        policy: *policy,
        policy_name: name_of(*policy, results),
        class: None,
        bandwidth: None,
    }));
    let mut names: BTreeMap<CandidateId, (String, Option<FamilyId>)> = BTreeMap::new();
    for input in within(ranking, results) {
        names.insert(input.record.candidate, (input.candidate_name.clone(), input.family));
    }
    let mut rows: Vec<Row> = names
        .into_iter()
        .map(|(candidate, (name, family))| {
            let mut cells: Vec<Cell> =
                ranking.tables.iter().map(|table| cell(task, table, candidate, results)).collect();
            let of =
                |column: &BTreeMap<CandidateId, &RankInput>| column.get(&candidate).map(|input| built(input));
            cells.extend(compiled.values().map(|column| of(column).unwrap_or(Cell::Untried)));
            Row { candidate: Some(candidate), name, family, cells }
        })
        .collect();
    rows.sort_by(|one, other| (&one.name, one.candidate).cmp(&(&other.name, other.candidate)));
    let mut cells: Vec<Cell> = ranking.tables.iter().map(baseline).collect();
    cells.resize(columns.len(), Cell::Untried);
    rows.insert(0, Row { candidate: None, name: "baseline".to_owned(), family: None, cells });
    let has_cpu = columns.iter().any(|column| column.device_kind == DeviceKind::Cpu);
    Matrix {
        task: ranking.task,
        task_name: ranking.task_name.clone(),
        as_of: ranking.as_of,
        columns,
        rows,
        notice: if has_cpu { CPU_NOTICE.to_owned() } else { String::new() },
    }
}

fn within<'a>(ranking: &Ranking, results: &'a [RankInput]) -> impl Iterator<Item = &'a RankInput> {
    let (task, as_of, least) = (ranking.task, ranking.as_of, ranking.least_sandbox);
    let sandbox = |input: &RankInput| input.record.sandbox.parse().unwrap_or(SandboxLevel::None);
    results
        .iter()
        .filter(move |input| input.record.task == task && input.leaf.0 < as_of && sandbox(input) >= least)
}

/// What was only compiled: by architecture and policy, the newest result of each candidate that is not the fleet's fault.
fn compiled<'a>(
    ranking: &Ranking,
    results: &'a [RankInput],
) -> BTreeMap<(Architecture, PolicyId), BTreeMap<CandidateId, &'a RankInput>> {
    let mut columns: BTreeMap<(Architecture, PolicyId), BTreeMap<CandidateId, &RankInput>> = BTreeMap::new();
    for input in within(ranking, results) {
        let record = &input.record;
        if record.device_kind != DeviceKind::Compile || !record.is_final() {
            continue;
        }
        let column = columns.entry((record.architecture.clone(), record.policy)).or_default();
        let newest = column.entry(record.candidate).or_insert(input);
        if newest.leaf <= input.leaf {
            *newest = input;
        }
    }
    columns
}

fn name_of(policy: PolicyId, results: &[RankInput]) -> String {
    let found = results.iter().find(|input| input.record.policy == policy);
    found.map(|input| input.policy_name.clone()).unwrap_or_default()
}

fn timed(table: &Table) -> Column {
    let board = board_of(&table.device_model);
    Column {
        device_kind: table.device_kind,
        architecture: table.architecture.clone(),
        device_model: table.device_model.clone(),
        policy: table.policy,
        policy_name: table.policy_name.clone(),
        class: Some(table.class),
        bandwidth: board.map(|board| (board.bandwidth, board.source.to_owned())),
    }
}

fn built(input: &RankInput) -> Cell {
    let record = input.record_id;
    match (&input.record.build, input.record.outcome.status) {
        (Some(build), Status::Ok) => Cell::Compiled { resources: build.resources.clone(), record },
        (_, status) => {
            let cause = input.record.outcome.cause.clone().unwrap_or_default();
            Cell::Invalid(Reason {
                status: status.name().to_owned(),
                code: cause.code,
                cause: cause.message,
                record,
            })
        }
    }
}

fn baseline(table: &Table) -> Cell {
    match table.rows.iter().find(|row| row.place == Place::Baseline) {
        Some(row) => Cell::Valid(worth(row, None)),
        None => Cell::Untried,
    }
}

fn cell(task: &Task, table: &Table, candidate: CandidateId, results: &[RankInput]) -> Cell {
    if let Some(row) = table.rows.iter().find(|row| row.candidate == Some(candidate)) {
        let newest = results.iter().find(|input| Some(input.record_id) == row.record);
        return Cell::Valid(worth(row, newest.and_then(|input| memory_share(task, input))));
    }
    if let Some(fallen) = table.fallen.iter().find(|one| one.candidate == candidate) {
        return Cell::Invalid(Reason {
            status: "fallen".to_owned(),
            code: fallen.code.clone(),
            cause: fallen.cause.clone(),
            record: fallen.record,
        });
    }
    for group in &table.rejected {
        if let Some(one) = group.candidates.iter().find(|one| one.candidate == candidate) {
            return Cell::Invalid(Reason {
                status: group.status.name().to_owned(),
                code: one.code.clone(),
                cause: one.cause.clone(),
                record: one.record,
            });
        }
    }
    Cell::Untried
}

fn worth(row: &RankRow, memory_share: Option<PartsPerBillion>) -> Worth {
    Worth {
        speed_up: row.score,
        low: row.low,
        high: row.high,
        claim: row.claim,
        reach: row.reach,
        memory_share,
        record: row.record,
    }
}

/// How close its times come to those of a launch that does nothing but move the task's bytes.
fn memory_share(task: &Task, input: &RankInput) -> Option<PartsPerBillion> {
    let board = board_of(&input.device_model)?;
    let mut logarithms = Vec::new();
    for case in task.cases.iter().filter(|case| case.kind == CaseKind::Performance) {
        let timing = input.record.timings.iter().find(|timing| timing.case == case.name)?;
        let floor = picoseconds(moved(task, case)?, board.bandwidth);
        let took = timing.candidate_median.0;
        if floor == 0 || took == 0 {
            return None;
        }
        logarithms.push(libm::log(floor as f64 / took as f64));
    }
    stats::geometric_mean(&logarithms).map(stats::parts_per_billion)
}
