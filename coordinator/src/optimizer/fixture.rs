//! Results of the sample task for the tests of this room.

use fleet_config::config::{Files, assemble, parse_task};
use fleet_config::domain::{
    Blame, BlobRef, CandidateId, CaseTiming, Cause, CellId, ClassId, DeviceId, DeviceKind, Digest, Fence,
    LeafIndex, NodeId, Nonce, Outcome, PartsPerBillion, Picoseconds, PolicyId, RecordId, SampleSeries, Stage,
    StageTimes, Status, SubmissionId, Task, TaskId,
};
use ledger::entry::predicate::{Build, Harness, ResultRecord};
use ledger::rank::RankInput;
use std::collections::BTreeMap;

/// The sample task.
pub(super) fn task() -> Task {
    let draft = parse_task(include_str!("../../../scripts/sample/task.toml"), "task.toml").unwrap();
    let sources = [
        ("reference.cu", include_str!("../../../scripts/sample/reference.cu")),
        ("baseline.cu", include_str!("../../../scripts/sample/baseline.cu")),
    ];
    let files: Files =
        sources.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    assemble(&draft, &files, &[0; 32]).unwrap().task
}

pub(super) fn task_id() -> TaskId {
    task().id().unwrap()
}

/// Pairs of one case in which the candidate takes `baseline / ratio`, scattered by some thousandths.
fn series(case: &str, baseline_ns: u64, ratio: f64, pairs: u64) -> SampleSeries {
    let side = |base: f64, step: u64| -> Vec<Picoseconds> {
        let scattered = |i: u64| base * (1.0 + ((i * step) % 13) as f64 / 4000.0);
        (0..pairs).map(|i| Picoseconds(scattered(i) as u64)).collect()
    };
    let base = (baseline_ns * 1000) as f64;
    SampleSeries {
        format: SampleSeries::FORMAT.to_owned(),
        case: case.to_owned(),
        baseline: side(base, 7),
        candidate: side(base / ratio, 11),
        warmups: 3,
    }
}

/// The record of the attempt at `leaf` with this outcome.
fn record(leaf: u64, outcome: Outcome, timings: Vec<CaseTiming>) -> ResultRecord {
    let blob = BlobRef::of(b"a document");
    let byte = leaf as u8;
    ResultRecord {
        origin: "muster.invalid/0123456789abcdef".to_owned(),
        submission: SubmissionId([byte; 32]),
        cell: CellId([byte; 32]),
        fence: Fence(leaf),
        nonce: Nonce([byte; 32]),
        task: task_id(),
        candidate: CandidateId([byte; 32]),
        policy: PolicyId([4; 32]),
        node: NodeId([5; 32]),
        device: DeviceId("CPU-0".to_owned()),
        device_kind: DeviceKind::Cpu,
        architecture: "cpu:x86-64-v3".parse().unwrap(),
        class: ClassId([6; 32]),
        seeds: Vec::new(),
        generator: 1,
        harness: Harness {
            version: "0.1.0".to_owned(),
            digest: Digest([9; 32]),
            commit: String::new(),
            dirty: false,
        },
        sandbox: "kernel".to_owned(),
        outcome,
        timings,
        stage_times: StageTimes::default(),
        build: Some(Build {
            key: Digest([1; 32]),
            compiler: "g++ 12".to_owned(),
            flags: Vec::new(),
            artefact: None,
            resources: BTreeMap::from([("registers".to_owned(), 40)]),
        }),
        environment: blob,
        volatile: blob,
        evidence: None,
        started_on: "2026-11-30T12:00:00Z".to_owned(),
        finished_on: "2026-11-30T12:00:01Z".to_owned(),
    }
}

fn input(leaf: u64, name: &str, record: ResultRecord, samples: Vec<SampleSeries>) -> RankInput {
    RankInput {
        leaf: LeafIndex(leaf),
        record_id: RecordId([leaf as u8; 32]),
        record,
        candidate_name: name.to_owned(),
        family: None,
        is_copy: false,
        device_model: "Example CPU".to_owned(),
        policy_name: "cpu-paired/1".to_owned(),
        left_out: Vec::new(),
        remarks: Vec::new(),
        samples,
        findings: Vec::new(),
    }
}

/// An `ok` at `leaf` that is `ratio` times as fast as the baseline.
pub(super) fn ok(leaf: u64, name: &str, ratio: f64) -> RankInput {
    let samples: Vec<SampleSeries> =
        [("square", 5_000_000), ("oblong", 9_000_000)].map(|(case, ns)| series(case, ns, ratio, 30)).into();
    let timing = |series: &SampleSeries| CaseTiming {
        case: series.case.clone(),
        pairs: 30,
        baseline_median: series.baseline[15],
        candidate_median: series.candidate[15],
        ratio: PartsPerBillion((ratio * 1e9) as u64),
        samples: BlobRef::of(b"samples"),
    };
    let timings = samples.iter().map(timing).collect();
    input(leaf, name, record(leaf, Outcome::ok(), timings), samples)
}

/// A result at `leaf` that did not pass.
pub(super) fn failed(leaf: u64, name: &str, status: Status, blame: Blame, cause: Cause) -> RankInput {
    let stage = match status {
        Status::CompileError | Status::CompileTimeout => Stage::Compile,
        Status::Ok
        | Status::WrongResult
        | Status::ContractViolation
        | Status::Suspicious
        | Status::TaskWeak
        | Status::Rejected
        | Status::LaunchError
        | Status::RuntimeError
        | Status::Timeout
        | Status::OutOfMemory
        | Status::UnsupportedOnDevice
        | Status::WorkerLost
        | Status::Infrastructure => Stage::Validate,
    };
    let outcome = Outcome::failed(status, stage, blame, cause, "");
    input(leaf, name, record(leaf, outcome, Vec::new()), Vec::new())
}
