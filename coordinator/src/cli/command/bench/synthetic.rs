//! Entries of a made-up ledger in their real form: canonical, signed, taken in by the same checks. Nothing was measured.

use fleet_config::domain::{
    BlobRef, CandidateId, CaseTiming, CellId, ClassId, DeviceId, DeviceKind, Digest, Fence, NodeId, Nonce,
    Outcome, PartsPerBillion, Picoseconds, PolicyId, Seed, Sha256, StageTimes, SubmissionId, TaskId,
};
use fleet_config::identity::SecretKey;
use ledger::entry::predicate::{Genesis, Harness, NodeEnrol, ResultRecord};
use ledger::entry::{SealError, Subject, seal};
use zeroize::Zeroizing;

/// Name of the log.
pub(super) const ORIGIN: &str = "muster.invalid/bench";
/// Results of one task: what a query by task finds.
pub(super) const RESULTS_OF_TASK: u64 = 100;
const WHEN: &str = "2026-11-30T12:00:00Z";
/// Entries before the first result.
pub(super) const OPENING: u64 = 2;

/// The keys of the two signers.
pub(super) struct Keys {
    operator: SecretKey,
    node: SecretKey,
}

impl Keys {
    pub(super) fn new() -> Self {
        let key = |seed: u8| SecretKey::from_seed(&Zeroizing::new([seed; 32]));
        Self { operator: key(1), node: key(2) }
    }

    /// Genesis and the node.
    pub(super) fn opening(&self) -> Result<Vec<Vec<u8>>, SealError> {
        let public = self.operator.public();
        let genesis = Genesis {
            format: 1,
            origin: ORIGIN.to_owned(),
            operator_key: public.to_hex(),
            created_on: WHEN.to_owned(),
        };
        let enrol = NodeEnrol {
            node: self.node.public().node_id(),
            name: "bench".to_owned(),
            signing_key: self.node.public().to_hex(),
            tls_key: Sha256([3; 32]),
            invite: "bench".to_owned(),
            enrolled_on: WHEN.to_owned(),
        };
        let genesis = seal(genesis, Subject::of_key("operator-key", &public), &self.operator)?;
        let enrol = seal(enrol, Subject::of_key("signing-key", &self.node.public()), &self.operator)?;
        Ok(vec![genesis.bytes, enrol.bytes])
    }

    /// The entry of result `number`, from zero: always the same bytes.
    pub(super) fn result(&self, number: u64) -> Result<Vec<u8>, SealError> {
        let node = self.node.public().node_id();
        let subject = Subject::of_blob("source", &blob("source", number));
        Ok(seal(record(number, node), subject, &self.node)?.bytes)
    }
}

/// An id that follows from a word and a number.
fn id(word: &str, number: u64) -> [u8; 32] {
    *blake3::hash(format!("{word} {number}").as_bytes()).as_bytes()
}

fn blob(word: &str, number: u64) -> BlobRef {
    BlobRef::of(&id(word, number))
}

/// The task of result `number`.
pub(super) fn task(number: u64) -> TaskId {
    TaskId(id("task", number / RESULTS_OF_TASK))
}

/// The candidate of result `number`; each has four results, as of four leases.
pub(super) fn candidate(number: u64) -> CandidateId {
    CandidateId(id("candidate", number / 4))
}

pub(super) fn policy() -> PolicyId {
    PolicyId(id("policy", 0))
}

/// One of eight classes, a task in one of them.
pub(super) fn class(number: u64) -> ClassId {
    ClassId(id("class", number / RESULTS_OF_TASK % 8))
}

/// The submission of result `number`.
pub(super) fn submission(number: u64) -> SubmissionId {
    SubmissionId(id("submission", number / 20))
}

fn record(number: u64, node: NodeId) -> ResultRecord {
    let (submission, candidate) = (submission(number), candidate(number));
    let timing = |case: &str| CaseTiming {
        case: case.to_owned(),
        pairs: 20,
        baseline_median: Picoseconds(4_000_000 + number % 1000),
        candidate_median: Picoseconds(2_000_000 + number % 777),
        ratio: PartsPerBillion(2_000_000_000 - number % 100_000),
        samples: blob(case, number),
    };
    ResultRecord {
        origin: ORIGIN.to_owned(),
        submission,
        cell: CellId::of(submission, candidate, "cpu:x86-64-v3"),
        fence: Fence(number + 1),
        nonce: Nonce(id("nonce", number)),
        task: task(number),
        candidate,
        policy: policy(),
        node,
        device: DeviceId("CPU-bench".to_owned()),
        device_kind: DeviceKind::Cpu,
        architecture: "cpu:x86-64-v3".parse().expect("invariant: this is how architectures are spelled"),
        class: class(number),
        seeds: vec![Seed(number), Seed(number + 1)],
        generator: 1,
        harness: Harness {
            version: "0.1.0".to_owned(),
            digest: Digest([9; 32]),
            commit: String::new(),
            dirty: false,
        },
        sandbox: "kernel".to_owned(),
        outcome: Outcome::ok(),
        timings: vec![timing("small"), timing("large")],
        stage_times: StageTimes::default(),
        build: None,
        environment: blob("environment", number % 64),
        volatile: blob("volatile", number),
        evidence: Some(blob("evidence", number)),
        started_on: WHEN.to_owned(),
        finished_on: WHEN.to_owned(),
    }
}
