//! Feedback: one result told so that whoever proposed the candidate, a person or a program, knows what to try next.
//!
//! Everything here comes from open cases: a verification of sealed cases is no result and has no feedback.

mod advice;
mod render;

#[cfg(test)]
mod tests;

pub use render::{long, short};

use fleet_config::domain::{
    Architecture, Blame, CandidateId, Cause, CheckFinding, FaultKind, LeafIndex, MemoryPlace, Mismatch,
    PartsPerBillion, RecordId, SandboxLevel, SourcePlace, Stage, StageTimes, Status, Task, TaskId,
    UnsupportedReason,
};
use ledger::entry::predicate::Evidence;
use ledger::rank::{Place, RankInput, RankRow, Table, rank};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest line of a source that is quoted, in characters.
const QUOTED_MAX: usize = 200;

/// What is told about one result. Ratios are times of the other side divided by times of this one: above one means
/// that this candidate is faster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Feedback {
    /// Always [`Feedback::SCHEMA`].
    pub schema: &'static str,
    pub record: RecordId,
    pub leaf: LeafIndex,
    pub task: TaskId,
    pub candidate: CandidateId,
    pub name: String,
    pub architecture: Architecture,
    pub device_model: String,
    pub policy: String,
    pub status: Status,
    pub stage: Stage,
    pub blame: Blame,
    /// `None` exactly when the status is `ok`.
    pub cause: Option<FirstCause>,
    /// The pattern and the first elements of a wrong answer.
    pub mismatch: Option<Mismatch>,
    /// Registers, spills, shared memory and the like, by name; empty where nothing was built or nothing is known.
    pub resources: BTreeMap<String, u64>,
    /// Where the attempt's time went, in milliseconds.
    pub stage_times: StageTimes,
    /// The performance cases, each by itself.
    pub cases: Vec<CaseRatio>,
    pub to_baseline: Option<Ratio>,
    pub to_best: Option<ToBest>,
    /// Checks that found or labelled something, and those that were not run.
    pub checks: Vec<CheckNote>,
    /// Why a result that passed counts no more.
    pub fallen: Option<String>,
    /// What to do next.
    pub hint: String,
}

impl Feedback {
    pub const SCHEMA: &str = "muster.feedback/1";
}

/// The first cause, with the line of the source that it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstCause {
    /// Stable, `stage/what`.
    pub code: String,
    pub message: String,
    pub case: Option<String>,
    pub fault: Option<FaultKind>,
    pub vendor_code: Option<String>,
    pub unsupported: Option<UnsupportedReason>,
    pub source: Option<SourcePlace>,
    /// The text of that line, where the source is there.
    pub line: Option<String>,
    pub memory: Option<MemoryPlace>,
}

/// A ratio with the ends of its 95 % interval, rounded to six digits after the point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

impl Ratio {
    /// From parts per billion, as records and rankings hold them.
    pub fn of(ratio: PartsPerBillion, low: PartsPerBillion, high: PartsPerBillion) -> Self {
        Self { ratio: six(ratio.ratio()), low: six(low.ratio()), high: six(high.ratio()) }
    }

    /// Whether the interval holds one: no difference was shown.
    pub fn holds_one(&self) -> bool {
        self.low <= 1.0 && 1.0 <= self.high
    }

    /// This ratio over another that was measured in another lease. Only the baseline is common to both, so the interval
    /// is the widest that the two leave open.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        Self {
            ratio: six(self.ratio / other.ratio),
            low: six(self.low / other.high),
            high: six(self.high / other.low),
        }
    }
}

/// Rounds to six digits after the point: beyond them is noise, and the shorter number is easier to read.
fn six(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// One performance case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseRatio {
    pub case: String,
    pub pairs: u32,
    pub baseline_ns: f64,
    pub candidate_ns: f64,
    pub ratio: f64,
}

/// How the candidate stands to the best other one of the same task, policy and comparability class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToBest {
    pub name: String,
    pub record: Option<RecordId>,
    pub leaf: Option<LeafIndex>,
    /// The best one's own ratio to the baseline.
    pub best: Ratio,
    /// This candidate against it, over two leases; none where this one has no time.
    pub ratio: Option<Ratio>,
    pub verdict: Comparison,
}

/// What two intervals say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    Faster,
    /// The intervals overlap.
    Tie,
    Slower,
    /// This candidate has no time.
    NotTimed,
}

/// A check that has something to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckNote {
    pub check: String,
    pub finding: CheckFinding,
    pub detail: String,
}

/// What feedback is made from. Reading it is the caller's.
#[derive(Debug)]
pub struct Sources<'a> {
    pub task: &'a Task,
    pub task_id: TaskId,
    /// Every result of the task, as [`ledger::rank::collect`] answers.
    pub results: &'a [RankInput],
    /// Size of the ledger that is looked at.
    pub as_of: u64,
}

impl Feedback {
    /// Feedback on the result at `leaf`; `None` where `sources` have no result there. `line` answers with the text of a
    /// place in the candidate's source, `evidence` is the blob that the record names.
    pub fn on(
        leaf: LeafIndex,
        sources: &Sources<'_>,
        evidence: Option<&Evidence>,
        line: &dyn Fn(&SourcePlace) -> Option<String>,
    ) -> Option<Self> {
        let own = sources.results.iter().find(|input| input.leaf == leaf)?;
        // Its own earlier and later attempts are no competitors.
        let is_rival =
            |input: &&RankInput| input.leaf == leaf || input.record.candidate != own.record.candidate;
        let others: Vec<RankInput> = sources.results.iter().filter(is_rival).cloned().collect();
        let ranking = rank(sources.task, sources.task_id, others, sources.as_of, SandboxLevel::None);
        let table = ranking.tables.iter().find(|table| holds(table, own.record_id));
        let row = table.and_then(|table| table.rows.iter().find(|row| row.record == Some(own.record_id)));
        let to_baseline = row.map(|row| Ratio::of(row.score, row.low, row.high));
        let to_best = table.and_then(|table| to_best(table, own, to_baseline));
        let fallen = table.and_then(|table| {
            let fallen = table.fallen.iter().find(|fallen| fallen.record == own.record_id)?;
            Some(format!("{} [{}], entry {}", fallen.cause, fallen.code, fallen.finding_leaf))
        });
        let record = &own.record;
        let outcome = &record.outcome;
        let mut feedback = Self {
            schema: Self::SCHEMA,
            record: own.record_id,
            leaf,
            task: record.task,
            candidate: record.candidate,
            name: own.candidate_name.clone(),
            architecture: record.architecture.clone(),
            device_model: own.device_model.clone(),
            policy: own.policy_name.clone(),
            status: outcome.status,
            stage: outcome.stage,
            blame: outcome.blame,
            cause: outcome.cause.as_ref().map(|cause| first_cause(cause, line)),
            mismatch: outcome.cause.as_ref().and_then(|cause| cause.mismatch.clone()),
            resources: record.build.as_ref().map(|build| build.resources.clone()).unwrap_or_default(),
            stage_times: record.stage_times,
            cases: cases(own),
            to_baseline,
            to_best,
            checks: evidence.map(notes).unwrap_or_default(),
            fallen,
            hint: outcome.hint.clone(),
        };
        feedback.hint = advice::next(&feedback);
        Some(feedback)
    }
}

/// Whether a table was made from the record, in whatever part of it.
fn holds(table: &Table, record: RecordId) -> bool {
    table.rows.iter().any(|row| row.record == Some(record))
        || table.rejected.iter().flat_map(|group| &group.candidates).any(|one| one.record == record)
        || table.fallen.iter().any(|one| one.record == record)
        || table.fleet_faults.iter().any(|one| one.record == record)
}

fn to_best(table: &Table, own: &RankInput, to_baseline: Option<Ratio>) -> Option<ToBest> {
    let is_other = |row: &&RankRow| row.place != Place::Baseline && row.record != Some(own.record_id);
    let row = table.rows.iter().find(is_other)?;
    let best = Ratio::of(row.score, row.low, row.high);
    let ratio = to_baseline.map(|own| own.over(&best));
    let verdict = match to_baseline {
        None => Comparison::NotTimed,
        Some(own) if own.low > best.high => Comparison::Faster,
        Some(own) if own.high < best.low => Comparison::Slower,
        Some(_) => Comparison::Tie,
    };
    Some(ToBest { name: row.name.clone(), record: row.record, leaf: row.leaf, best, ratio, verdict })
}

fn first_cause(cause: &Cause, line: &dyn Fn(&SourcePlace) -> Option<String>) -> FirstCause {
    let Cause { code, message, fault, vendor_code, unsupported, case, source, memory, mismatch: _ } = cause;
    let quoted = source.as_ref().and_then(line);
    FirstCause {
        code: code.clone(),
        message: message.clone(),
        case: case.clone(),
        fault: *fault,
        vendor_code: vendor_code.clone(),
        unsupported: *unsupported,
        source: source.clone(),
        line: quoted.map(|text| text.trim_end().chars().take(QUOTED_MAX).collect()),
        memory: memory.clone(),
    }
}

fn cases(own: &RankInput) -> Vec<CaseRatio> {
    let nanoseconds = |picoseconds: u64| (picoseconds as f64 / 1000.0 * 10.0).round() / 10.0;
    let one = |timing: &fleet_config::domain::CaseTiming| CaseRatio {
        case: timing.case.clone(),
        pairs: timing.pairs,
        baseline_ns: nanoseconds(timing.baseline_median.0),
        candidate_ns: nanoseconds(timing.candidate_median.0),
        ratio: six(timing.ratio.ratio()),
    };
    own.record.timings.iter().map(one).collect()
}

fn notes(evidence: &Evidence) -> Vec<CheckNote> {
    let speaks = |finding: CheckFinding| match finding {
        CheckFinding::NoFaultFound => false,
        CheckFinding::FaultFound | CheckFinding::Labelled | CheckFinding::NotRun => true,
    };
    let loud = evidence.checks.iter().filter(|check| speaks(check.finding));
    loud.map(|check| CheckNote {
        check: check.check.to_string(),
        finding: check.finding,
        detail: check.detail.clone(),
    })
    .collect()
}
