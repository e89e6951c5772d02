//! What recorded attempts cost and how steady their times are: sums over results of the ledger. Needs no coordinator.

use super::percentile;
use crate::cli::Context;
use crate::cli::output::table;
use crate::cli::reading::Reading;
use fleet_config::domain::{Fact, Facts, canonical, field};
use fleet_config::refusal::Refusal;
use ledger::entry::predicate::{Evidence, ResultRecord, VolatileFacts};
use ledger::entry::{Body, Entry};
use serde::Serialize;
use std::collections::BTreeMap;

/// One result, as far as it is summed up.
#[derive(Debug, Clone)]
struct Attempt {
    device: String,
    candidate: String,
    status: String,
    started_ms: i64,
    finished_ms: i64,
    /// Stage and milliseconds.
    stages: [(&'static str, u64); 5],
    /// Stage of validation and milliseconds.
    checks: Vec<(String, u64)>,
    /// Case, baseline and candidate in picoseconds.
    medians: Vec<(String, u64, u64)>,
    after: Facts,
    /// UUID that the driver named in the worker, where one was timed.
    inside: Vec<String>,
}

/// What the attempts say together.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Summary {
    attempts: usize,
    statuses: BTreeMap<String, usize>,
    /// Attempts by device.
    devices: BTreeMap<String, usize>,
    /// From the first start to the last end.
    wall_seconds: f64,
    per_hour: f64,
    /// Share of the wall time in which at least two devices worked.
    share_parallel: f64,
    /// Mean milliseconds of an attempt by stage.
    stage_ms: BTreeMap<String, f64>,
    /// Mean milliseconds of an attempt by stage of validation; it sums to `validate` and `time`.
    check_ms: BTreeMap<String, f64>,
    /// Mean milliseconds of an attempt for the workers, from the second record of each device on.
    worker_ms: BTreeMap<String, f64>,
    workers_an_attempt: f64,
    /// Share of these that stood by.
    share_adopted: f64,
    /// Share of the time that a node had the device in which launches, copies and buffers were worked on.
    share_busy: f64,
    /// The same for launches alone.
    share_launching: f64,
    /// How long attempts took from their start to their end, by status: median and longest, in milliseconds.
    wall_ms: BTreeMap<String, [f64; 2]>,
    /// By case: lowest, median and highest of the attempts' medians in picoseconds; their span in parts per million.
    steadiness: BTreeMap<String, Steady>,
    disturbed: BTreeMap<String, usize>,
    samples: u64,
    sampling_us: u64,
    /// Timed attempts whose worker named another device than the record; must be 0.
    wrong_device: usize,
    named_device: usize,
}

/// How far the medians of one side of a case lie apart.
#[derive(Debug, Clone, Serialize)]
struct Steady {
    attempts: usize,
    candidate_ps: [u64; 3],
    candidate_span_ppm: u64,
    /// Between the tenth and the ninetieth of a hundred.
    candidate_middle_ppm: u64,
    baseline_ps: [u64; 3],
    baseline_span_ppm: u64,
}

/// Reads the results from leaf `from` on.
pub(super) fn run(context: &Context, from: u64) -> Result<Summary, Refusal> {
    let reading = Reading::open(&context.state)?;
    let mut attempts = Vec::new();
    for (leaf, bytes) in reading.entries(reading.log.size())? {
        if leaf.0 < from {
            continue;
        }
        let Ok(Entry { body: Body::Result(result), .. }) = Entry::read(&bytes) else { continue };
        attempts.push(attempt(&reading, &result));
    }
    Ok(summary(&attempts))
}

fn attempt(reading: &Reading, result: &ResultRecord) -> Attempt {
    let volatile: Option<VolatileFacts> =
        reading.blob(&result.volatile.blake3).and_then(|bytes| canonical::from_bytes(&bytes).ok());
    let evidence: Option<Evidence> = result
        .evidence
        .and_then(|blob| reading.blob(&blob.blake3))
        .and_then(|bytes| canonical::from_bytes(&bytes).ok());
    let times = &result.stage_times;
    let inside = volatile.iter().flat_map(|volatile| &volatile.during).filter_map(|facts| {
        match facts.get(field::WORKER_DEVICE) {
            Some(Fact::Text(text)) => Some(text.clone()),
            Some(Fact::Count(_) | Fact::Flag(_) | Fact::Unknown(_)) | None => None,
        }
    });
    Attempt {
        device: result.device.to_string(),
        candidate: result.candidate.to_string(),
        status: result.outcome.status.to_string(),
        started_ms: milliseconds(&result.started_on),
        finished_ms: milliseconds(&result.finished_on),
        stages: [
            ("queue", times.queue.0),
            ("transfer", times.transfer.0),
            ("compile", times.compile.0),
            ("validate", times.validate.0),
            ("time", times.time.0),
        ],
        checks: evidence
            .iter()
            .flat_map(|evidence| &evidence.checks)
            .map(|check| (check.check.to_string(), check.took.0))
            .collect(),
        medians: result
            .timings
            .iter()
            .map(|timing| (timing.case.clone(), timing.baseline_median.0, timing.candidate_median.0))
            .collect(),
        inside: inside.collect(),
        after: volatile.map(|volatile| volatile.after).unwrap_or_default(),
    }
}

/// Milliseconds since 1970; 0 for what is no time.
fn milliseconds(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_millisecond)
}

fn count(facts: &Facts, name: &str) -> Option<u64> {
    match facts.get(name)? {
        Fact::Count(count) => Some(*count),
        Fact::Text(_) | Fact::Flag(_) | Fact::Unknown(_) => None,
    }
}

fn summary(attempts: &[Attempt]) -> Summary {
    let start = attempts.iter().map(|attempt| attempt.started_ms).min().unwrap_or(0);
    let end = attempts.iter().map(|attempt| attempt.finished_ms).max().unwrap_or(0);
    let wall = (end - start) as f64 / 1e3;
    let all = attempts.len().max(1) as f64;
    let mut statuses = BTreeMap::new();
    let mut devices = BTreeMap::new();
    let (mut stage_ms, mut check_ms) = (BTreeMap::new(), BTreeMap::new());
    let mut walls: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut disturbed = BTreeMap::new();
    for attempt in attempts {
        *statuses.entry(attempt.status.clone()).or_default() += 1;
        *devices.entry(attempt.device.clone()).or_default() += 1;
        for (stage, took) in attempt.stages {
            *stage_ms.entry(stage.to_owned()).or_insert(0.0) += took as f64 / all;
        }
        for (check, took) in &attempt.checks {
            *check_ms.entry(check.clone()).or_insert(0.0) += *took as f64 / all;
        }
        let took = (attempt.finished_ms - attempt.started_ms) as f64;
        walls.entry(attempt.status.clone()).or_default().push(took);
        let word = match attempt.after.get(field::DISTURBED) {
            Some(Fact::Flag(false)) => "no",
            Some(Fact::Flag(true)) => "yes",
            Some(Fact::Unknown(_)) => "unknown",
            Some(Fact::Text(_) | Fact::Count(_)) | None => "not timed",
        };
        *disturbed.entry(word.to_owned()).or_default() += 1;
    }
    let workers = Workers::of(attempts);
    Summary {
        attempts: attempts.len(),
        statuses,
        devices,
        wall_seconds: wall,
        per_hour: if wall > 0.0 { attempts.len() as f64 * 3600.0 / wall } else { 0.0 },
        share_parallel: parallel(attempts) / wall.max(1e-3),
        stage_ms,
        check_ms,
        worker_ms: workers.milliseconds(),
        workers_an_attempt: workers.an_attempt(field::WORKER_OPENED),
        share_adopted: workers.share(&[field::WORKER_ADOPTED], field::WORKER_OPENED),
        share_busy: workers
            .share(&[field::WORKER_LAUNCH, field::WORKER_COPY, field::WORKER_PREPARE], field::LEASE_HELD),
        share_launching: workers.share(&[field::WORKER_LAUNCH], field::LEASE_HELD),
        wall_ms: walls.into_iter().map(|(status, walls)| (status, middle_and_longest(walls))).collect(),
        steadiness: steadiness(attempts),
        disturbed,
        samples: attempts.iter().filter_map(|attempt| count(&attempt.after, field::SAMPLES)).sum(),
        sampling_us: attempts.iter().filter_map(|attempt| count(&attempt.after, field::SAMPLING_COST)).sum(),
        wrong_device: attempts.iter().filter(|a| a.inside.iter().any(|uuid| *uuid != a.device)).count(),
        named_device: attempts.iter().filter(|attempt| !attempt.inside.is_empty()).count(),
    }
}

fn middle_and_longest(mut walls: Vec<f64>) -> [f64; 2] {
    walls.sort_by(f64::total_cmp);
    [percentile(&walls, 0.5), walls.last().copied().unwrap_or(0.0)]
}

/// Seconds in which attempts ran on two devices or more.
fn parallel(attempts: &[Attempt]) -> f64 {
    let mut edges: Vec<(i64, i32)> =
        attempts.iter().flat_map(|attempt| [(attempt.started_ms, 1), (attempt.finished_ms, -1)]).collect();
    edges.sort_unstable();
    let (mut running, mut since, mut both) = (0, 0, 0);
    for (at, step) in edges {
        if running >= 2 {
            both += at - since;
        }
        running += step;
        since = at;
    }
    both as f64 / 1e3
}

/// Growth of the workers' sums over the attempts of each device, added up over the devices.
struct Workers {
    grown: BTreeMap<&'static str, u64>,
    attempts: u64,
}

const SUMS: [&str; 9] = [
    field::WORKER_OPENED,
    field::WORKER_ADOPTED,
    field::WORKER_OPEN,
    field::WORKER_PREPARE,
    field::WORKER_COPY,
    field::WORKER_LAUNCHES,
    field::WORKER_LAUNCH,
    field::WORKER_END,
    field::LEASE_HELD,
];

impl Workers {
    fn of(attempts: &[Attempt]) -> Self {
        let mut workers = Self { grown: BTreeMap::new(), attempts: 0 };
        let mut by_device: BTreeMap<&str, Vec<&Attempt>> = BTreeMap::new();
        for attempt in attempts {
            by_device.entry(attempt.device.as_str()).or_default().push(attempt);
        }
        for mut of_one in by_device.into_values() {
            of_one.sort_by_key(|attempt| attempt.finished_ms);
            let told = |attempt: &&&Attempt| count(&attempt.after, field::WORKER_OPENED).is_some();
            let first = of_one.iter().position(|attempt| told(&attempt));
            let last = of_one.iter().rposition(|attempt| told(&attempt));
            let (Some(first), Some(last)) = (first, last) else { continue };
            workers.attempts += (last - first) as u64;
            for name in SUMS {
                let at =
                    |place: usize| of_one.get(place).and_then(|one| count(&one.after, name)).unwrap_or(0);
                // A node that was started again begins anew.
                *workers.grown.entry(name).or_default() += at(last).saturating_sub(at(first));
            }
        }
        workers
    }

    fn sum(&self, name: &str) -> f64 {
        self.grown.get(name).copied().unwrap_or(0) as f64
    }

    fn an_attempt(&self, name: &str) -> f64 {
        self.sum(name) / self.attempts.max(1) as f64
    }

    fn share(&self, parts: &[&str], whole: &str) -> f64 {
        let parts: f64 = parts.iter().map(|part| self.sum(part)).sum();
        parts / self.sum(whole).max(1.0)
    }

    fn milliseconds(&self) -> BTreeMap<String, f64> {
        let times = SUMS.iter().filter(|name| name.ends_with("_us"));
        times.map(|name| (name.trim_end_matches("_us").to_owned(), self.an_attempt(name) / 1e3)).collect()
    }
}

/// Medians by case, and by candidate where there are several.
fn steadiness(attempts: &[Attempt]) -> BTreeMap<String, Steady> {
    let mut groups: BTreeMap<String, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for attempt in attempts {
        let short: String = attempt.candidate.chars().take(8).collect();
        for (case, baseline, candidate) in &attempt.medians {
            for group in [format!("{case}, all"), format!("{case}, {short}")] {
                let (left, right) = groups.entry(group).or_default();
                left.push(*baseline);
                right.push(*candidate);
            }
        }
    }
    let repeated = groups.into_iter().filter(|(_, (left, _))| left.len() > 1);
    repeated.map(|(group, (left, right))| (group, steady(left, right))).collect()
}

fn steady(mut baseline: Vec<u64>, mut candidate: Vec<u64>) -> Steady {
    baseline.sort_unstable();
    candidate.sort_unstable();
    let at = |sorted: &[u64], p: f64| -> u64 {
        let last = sorted.len().saturating_sub(1);
        sorted.get((p * last as f64).round() as usize).copied().unwrap_or(0)
    };
    let three = |sorted: &[u64]| [at(sorted, 0.0), at(sorted, 0.5), at(sorted, 1.0)];
    let ppm = |low: u64, high: u64| (high - low).saturating_mul(1_000_000) / low.max(1);
    let span = |sorted: &[u64]| ppm(at(sorted, 0.0), at(sorted, 1.0));
    Steady {
        attempts: candidate.len(),
        candidate_ps: three(&candidate),
        candidate_span_ppm: span(&candidate),
        candidate_middle_ppm: ppm(at(&candidate, 0.1), at(&candidate, 0.9)),
        baseline_ps: three(&baseline),
        baseline_span_ppm: span(&baseline),
    }
}

/// The summary for people.
pub(super) fn text(summary: &Summary) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut put = |what: &str, value: String| rows.push(vec![what.to_owned(), value]);
    let listed = |counts: &BTreeMap<String, usize>| {
        counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
    };
    let costs = |costs: &BTreeMap<String, f64>| {
        costs.iter().map(|(name, cost)| format!("{name} {cost:.1}")).collect::<Vec<_>>().join(", ")
    };
    put("attempts", format!("{}: {}", summary.attempts, listed(&summary.statuses)));
    put("devices", listed(&summary.devices));
    let rate = format!("{:.0} an hour, {:.1} s in all", summary.per_hour, summary.wall_seconds);
    put("rate", rate);
    put("two devices at once", format!("{:.0} % of the time", summary.share_parallel * 100.0));
    put("ms an attempt, by stage", costs(&summary.stage_ms));
    put("ms an attempt, by stage of validation", costs(&summary.check_ms));
    put("ms an attempt, workers", costs(&summary.worker_ms));
    let workers =
        format!("{:.1}, {:.0} % stood by", summary.workers_an_attempt, summary.share_adopted * 100.0);
    put("workers an attempt", workers);
    let busy = format!(
        "{:.0} %, launches alone {:.0} %",
        summary.share_busy * 100.0,
        summary.share_launching * 100.0
    );
    put("share of the lease at work", busy);
    for (status, [middle, longest]) in &summary.wall_ms {
        put(&format!("{status}: start to end"), format!("median {middle:.0} ms, longest {longest:.0} ms"));
    }
    for (group, steady) in &summary.steadiness {
        let span = |ppm: u64| format!("{:.2} %", ppm as f64 / 1e4);
        let value = format!(
            "{} attempts, median {} ps, span {} (10 to 90 of 100: {}), baseline {} ps, span {}",
            steady.attempts,
            steady.candidate_ps[1],
            span(steady.candidate_span_ppm),
            span(steady.candidate_middle_ppm),
            steady.baseline_ps[1],
            span(steady.baseline_span_ppm)
        );
        put(group, value);
    }
    put("disturbed", listed(&summary.disturbed));
    put("samples", format!("{}, {} µs to read", summary.samples, summary.sampling_us));
    let inside = format!("{} named by the worker, {} wrong", summary.named_device, summary.wrong_device);
    put("device", inside);
    table(&["WHAT", "VALUE"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(device: &str, start: i64, end: i64, opened: u64, median: u64) -> Attempt {
        let facts = [
            (field::WORKER_OPENED, opened),
            (field::WORKER_ADOPTED, opened / 2),
            (field::WORKER_LAUNCH, opened * 1000),
            (field::LEASE_HELD, opened * 4000),
        ];
        let mut after: Facts =
            facts.into_iter().map(|(name, number)| (name.to_owned(), Fact::Count(number))).collect();
        after.insert(field::DISTURBED.to_owned(), Fact::Flag(false));
        Attempt {
            device: device.to_owned(),
            candidate: "c0ffee00".to_owned(),
            status: "ok".to_owned(),
            started_ms: start,
            finished_ms: end,
            stages: [("queue", 1), ("transfer", 2), ("compile", 3), ("validate", 4), ("time", 5)],
            checks: vec![("smoke/1".to_owned(), 6)],
            medians: vec![("square".to_owned(), 1000, median)],
            after,
            inside: vec![device.to_owned()],
        }
    }

    #[test]
    fn rates_shares_and_spans_are_those_of_the_attempts() {
        let attempts =
            [one("A", 0, 1000, 10, 1000), one("A", 1000, 2000, 16, 1005), one("B", 500, 1500, 4, 1001)];
        let told = summary(&attempts);
        assert_eq!((told.attempts, told.statuses["ok"], told.devices["A"]), (3, 3, 2));
        assert!((told.wall_seconds - 2.0).abs() < 1e-9 && (told.per_hour - 5400.0).abs() < 1e-6);
        assert!((told.share_parallel - 0.5).abs() < 1e-9, "{}", told.share_parallel);
        // The second record of A against its first; B has no second.
        assert!((told.workers_an_attempt - 6.0).abs() < 1e-9);
        assert!((told.share_adopted - 0.5).abs() < 1e-9);
        assert!((told.share_busy - 0.25).abs() < 1e-9);
        assert!((told.stage_ms["time"] - 5.0).abs() < 1e-9);
        let steady = &told.steadiness["square, all"];
        assert_eq!(steady.candidate_ps, [1000, 1001, 1005]);
        assert_eq!(steady.candidate_span_ppm, 5000);
        assert_eq!((told.wrong_device, told.named_device), (0, 3));
        assert!(text(&told).contains("5400 an hour"), "{}", text(&told));
    }

    #[test]
    fn nothing_recorded_is_no_division_by_zero() {
        let told = summary(&[]);
        assert_eq!((told.attempts, told.per_hour, told.share_busy), (0, 0.0, 0.0));
        assert!(!text(&told).is_empty());
    }

    #[test]
    fn a_worker_on_another_device_and_a_restarted_node_are_seen() {
        let mut wrong = one("A", 0, 10, 50, 1000);
        wrong.inside = vec!["A".to_owned(), "B".to_owned()];
        let told = summary(&[wrong, one("A", 10, 20, 5, 1000)]);
        assert_eq!(told.wrong_device, 1);
        assert!((told.workers_an_attempt - 0.0).abs() < 1e-9);
    }

    #[test]
    fn times_of_records_are_read_and_nonsense_is_not() {
        assert_eq!(milliseconds("1970-01-01T00:00:01.500Z"), 1500);
        assert_eq!(milliseconds("yesterday"), 0);
    }
}
