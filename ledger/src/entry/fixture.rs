//! Fixed keys and fixed entries of every kind, for the tests of this crate.

use super::predicate::*;
use super::{Sealed, Subject, case_timing, encode_samples, seal, seal_grants};
use fleet_config::domain::canonical::Document;
use fleet_config::domain::*;
use fleet_config::identity::SecretKey;
use std::collections::BTreeMap;
use zeroize::Zeroizing;

pub(crate) const ORIGIN: &str = "muster.invalid/0123456789abcdef";
pub(crate) const WHEN: &str = "2026-11-30T12:00:00Z";

/// What a task of these tests seals, where it seals something.
pub(crate) const SEALED: Commitment = Commitment(Digest([0x5e; 32]));

pub(crate) fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&Zeroizing::new([seed; 32]))
}
pub(crate) fn operator() -> SecretKey {
    key(1)
}
pub(crate) fn node() -> SecretKey {
    key(2)
}

/// A ledger of one task: its definitions, its attempts and the blobs that they name.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) blobs: BTreeMap<Digest, Vec<u8>>,
    pub(crate) task: Document,
    pub(crate) policy: Document,
    pub(crate) environment: Environment,
}

impl World {
    pub(crate) fn new() -> Self {
        let policy = policy();
        let policy_id = policy.id().unwrap();
        let text = |t: &str| Fact::Text(t.to_owned());
        let identity = Facts::from([
            (field::DEVICE_MODEL.to_owned(), text("Example CPU")),
            (field::ARCHITECTURE.to_owned(), text("cpu:x86-64-v3")),
        ]);
        let fingerprint = Fingerprint {
            identity: identity.clone(),
            configuration: Facts::new(),
            before: Facts::new(),
            during: Vec::new(),
            after: Facts::new(),
        };
        let class = ComparabilityClass::of(&fingerprint, policy_id);
        let environment = Environment { identity, configuration: Facts::new(), class };
        let mut world = Self {
            blobs: BTreeMap::new(),
            task: Document::of(&task()).unwrap(),
            policy: policy.document().unwrap(),
            environment,
        };
        for bytes in [world.task.bytes.clone(), world.policy.bytes.clone()] {
            world.store(&bytes);
        }
        for blob in task().blobs() {
            assert_eq!(blob, BlobRef::of(b"kernel"), "the one source of this task");
        }
        world.store(b"kernel");
        world
    }

    /// The same with a task that seals a holdout.
    pub(crate) fn sealing() -> Self {
        let mut world = Self::new();
        let task = Task { holdout: Some(Holdout { commitment: SEALED, cases: 1 }), ..task() };
        world.task = Document::of(&task).unwrap();
        let bytes = world.task.bytes.clone();
        world.store(&bytes);
        world
    }

    pub(crate) fn store(&mut self, bytes: &[u8]) -> BlobRef {
        let blob = BlobRef::of(bytes);
        self.blobs.insert(blob.blake3, bytes.to_vec());
        blob
    }

    pub(crate) fn document(&mut self, value: &impl serde::Serialize) -> BlobRef {
        let document = Document::of(value).unwrap();
        self.store(&document.bytes)
    }

    /// A stored candidate called `name`.
    pub(crate) fn candidate(&mut self, name: &str) -> Candidate {
        let source = SourceTree {
            main: "kernel.cu".to_owned(),
            files: vec![SourceFile { path: "kernel.cu".to_owned(), blob: self.store(name.as_bytes()) }],
        };
        self.document(&source);
        let candidate = Candidate {
            format: Candidate::FORMAT.to_owned(),
            name: name.to_owned(),
            source,
            plan: None,
            family: None,
            provenance: Provenance::default(),
            licence: String::new(),
        };
        self.document(&candidate);
        candidate
    }

    /// The attempt `fence` at the cell of `candidate`.
    pub(crate) fn grant(&self, candidate: &Candidate, fence: u64) -> Grant {
        let submission = SubmissionId([7; 32]);
        let candidate = candidate.id().unwrap();
        Grant {
            submission,
            cell: CellId::of(submission, candidate, "cpu:x86-64-v3"),
            fence: Fence(fence),
            task: TaskId(self.task.digest().0),
            candidate,
            policy: PolicyId(self.policy.digest().0),
            node: node().public().node_id(),
            device: DeviceId("CPU-0".to_owned()),
            nonce: Nonce([fence as u8; 32]),
            seeds: vec![Seed(11), Seed(12)],
        }
    }

    /// The result of `grant` with `series` as its times, or with the outcome alone where there are none.
    pub(crate) fn result(
        &mut self,
        grant: &Grant,
        outcome: Outcome,
        series: &[SampleSeries],
    ) -> ResultRecord {
        let environment = self.environment.clone();
        let timings = series.iter().map(|series| self.timing(series)).collect();
        let volatile = VolatileFacts { before: Facts::new(), during: Vec::new(), after: Facts::new() };
        let environment_blob = self.document(&environment);
        ResultRecord {
            origin: ORIGIN.to_owned(),
            submission: grant.submission,
            cell: grant.cell,
            fence: grant.fence,
            nonce: grant.nonce,
            task: grant.task,
            candidate: grant.candidate,
            policy: grant.policy,
            node: grant.node,
            device: grant.device.clone(),
            device_kind: DeviceKind::Cpu,
            architecture: "cpu:x86-64-v3".parse().unwrap(),
            class: environment.class.id().unwrap(),
            seeds: grant.seeds.clone(),
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
            build: None,
            environment: environment_blob,
            volatile: self.document(&volatile),
            evidence: None,
            started_on: WHEN.to_owned(),
            finished_on: WHEN.to_owned(),
        }
    }

    fn timing(&mut self, series: &SampleSeries) -> CaseTiming {
        let samples = self.store(&encode_samples(series).unwrap());
        case_timing(series, samples)
    }

    /// Genesis, policy, task and node.
    pub(crate) fn opening(&self) -> Vec<Sealed> {
        let key = operator();
        let genesis = Genesis {
            format: 1,
            origin: ORIGIN.to_owned(),
            operator_key: key.public().to_hex(),
            created_on: WHEN.to_owned(),
        };
        let policy = PolicyAdded {
            policy: PolicyId(self.policy.digest().0),
            name: "example/1".to_owned(),
            definition: self.policy.blob,
            added_on: WHEN.to_owned(),
        };
        let task = TaskAdded {
            task: TaskId(self.task.digest().0),
            name: "copy".to_owned(),
            definition: self.task.blob,
            blobs: vec![BlobRef::of(b"kernel")],
            added_on: WHEN.to_owned(),
        };
        let enrol = NodeEnrol {
            node: node().public().node_id(),
            name: "first".to_owned(),
            signing_key: node().public().to_hex(),
            tls_key: Sha256([3; 32]),
            invite: "invite-1".to_owned(),
            enrolled_on: WHEN.to_owned(),
        };
        vec![
            seal(genesis, Subject::of_key("operator-key", &key.public()), &key).unwrap(),
            seal(policy, Subject::of_blob("policy", &self.policy.blob), &key).unwrap(),
            seal(task, Subject::of_blob("task", &self.task.blob), &key).unwrap(),
            seal(enrol, Subject::of_key("signing-key", &node().public()), &key).unwrap(),
        ]
    }

    pub(crate) fn granted(&mut self, grants: &[Grant]) -> Sealed {
        let (granted, document) = seal_grants(grants, WHEN.to_owned()).unwrap();
        self.store(&document.bytes);
        seal(granted, Subject::of_blob("grants", &document.blob), &operator()).unwrap()
    }

    pub(crate) fn sealed_result(&self, candidate: &Candidate, record: ResultRecord) -> Sealed {
        seal(record, source(candidate), &node()).unwrap()
    }

    /// The opening of a holdout for `grant`, chosen for `record`.
    pub(crate) fn opened(
        &self,
        candidate: &Candidate,
        grant: &Grant,
        record: RecordId,
        opening: u64,
    ) -> Sealed {
        let opened = HoldoutOpened {
            commitment: SEALED,
            opening,
            task: grant.task,
            candidate: grant.candidate,
            record,
            submission: grant.submission,
            cell: grant.cell,
            fence: grant.fence,
            node: grant.node,
            device: grant.device.clone(),
            opened_on: WHEN.to_owned(),
        };
        let subject = Subject::of_blob("candidate", &candidate.document().unwrap().blob);
        seal(opened, subject, &operator()).unwrap()
    }

    pub(crate) fn verified(
        &self,
        candidate: &Candidate,
        result: ResultRecord,
        record: RecordId,
        opening: u64,
    ) -> Sealed {
        let holdout = OpenedHoldout { commitment: SEALED, opening, record };
        let verification = Verification { holdout, verdict: HoldoutVerdict::Failed, result };
        seal(verification, source(candidate), &node()).unwrap()
    }

    /// A finding of detector `name` about the result `record`.
    pub(crate) fn finding(
        &mut self,
        candidate: &Candidate,
        (record, result): (RecordId, &ResultRecord),
        name: &str,
        (judgement, scope): (FindingJudgement, FindingScope),
    ) -> Sealed {
        let evidence = self.document(&serde_json::json!({"seen": "the same text"}));
        let finding = Finding {
            record,
            task: result.task,
            candidate: result.candidate,
            class: result.class,
            detector: DetectorName { name: name.to_owned(), version: 1 },
            judgement,
            scope,
            code: format!("{name}/baseline"),
            cause: "the source is the baseline's".to_owned(),
            evidence,
            rerun: None,
            found_on: WHEN.to_owned(),
        };
        let subject = Subject::of_blob("candidate", &candidate.document().unwrap().blob);
        seal(finding, subject, &operator()).unwrap()
    }

    /// The node of these tests is trusted no more.
    pub(crate) fn revoked(&self, suspect_from: u64) -> Sealed {
        let revoke = NodeRevoke {
            node: node().public().node_id(),
            suspect_from: LeafIndex(suspect_from),
            reason: "its clock was tampered with".to_owned(),
            revoked_on: WHEN.to_owned(),
        };
        seal(revoke, Subject::of_key("signing-key", &node().public()), &operator()).unwrap()
    }

    pub(crate) fn lost(&self, candidate: &Candidate, grant: &Grant, consequence: Consequence) -> Sealed {
        let lost = AttemptLost {
            submission: grant.submission,
            cell: grant.cell,
            fence: Some(grant.fence),
            task: grant.task,
            candidate: grant.candidate,
            reason: LossReason::NodeSilent,
            consequence,
            lost_on: WHEN.to_owned(),
        };
        let subject = Subject::of_blob("candidate", &candidate.document().unwrap().blob);
        seal(lost, subject, &operator()).unwrap()
    }

    pub(crate) fn refused(&mut self, grant: &Grant, late: &Sealed) -> Sealed {
        let envelope = self.store(&late.bytes);
        let refused = AttemptRefused {
            cell: grant.cell,
            fence: grant.fence,
            node: grant.node,
            record: late.record,
            envelope,
            reason: RefusalReason::StaleFence,
            refused_on: WHEN.to_owned(),
        };
        seal(refused, Subject::of_blob("envelope", &envelope), &operator()).unwrap()
    }
}

/// The subject of results of `candidate`.
pub(crate) fn source(candidate: &Candidate) -> Subject {
    Subject::of_blob("source", &candidate.source.document().unwrap().blob)
}

/// `pairs` pairs of (baseline, candidate) with noise of up to 1.2 % on each side.
pub(crate) fn series(case: &str, baseline: u64, candidate: u64, pairs: u64) -> SampleSeries {
    let noisy =
        |base: u64, step: u64| (0..pairs).map(|i| Picoseconds(base + i * step % 13 * base / 1000)).collect();
    SampleSeries {
        format: SampleSeries::FORMAT.to_owned(),
        case: case.to_owned(),
        baseline: noisy(baseline, 7919),
        candidate: noisy(candidate, 7),
        warmups: 3,
    }
}

pub(crate) fn mismatch() -> Outcome {
    let cause = Cause {
        code: "validate/mismatch".to_owned(),
        message: "3 of 9 elements differ".to_owned(),
        ..Cause::default()
    };
    let hint = "check the last row";
    Outcome::failed(Status::WrongResult, Stage::Validate, Blame::Candidate, cause, hint)
}

fn policy() -> MeasurementPolicy {
    MeasurementPolicy {
        format: MeasurementPolicy::FORMAT.to_owned(),
        name: "example/1".to_owned(),
        clock: ClockOfRecord::SupervisorMonotonic,
        statistic: Statistic::MedianLogRatio,
        order: CaseOrder::Abba,
        warmups: 3,
        pairs_min: 10,
        pairs_max: 200,
        budget: Milliseconds(2000),
        checked_launches: 2,
        draws: 2,
        fp_contract: FpContract::Off,
        compiler_flags: vec!["-O2".to_owned()],
        screens: Vec::new(),
        left_out: Vec::new(),
        toolchain: None,
        placement: Placement::Fixed,
    }
}

pub(crate) fn task() -> Task {
    let source = SourceTree {
        main: "kernel.cu".to_owned(),
        files: vec![SourceFile { path: "kernel.cu".to_owned(), blob: BlobRef::of(b"kernel") }],
    };
    let plan = LaunchPlan { scratch: Vec::new(), steps: Vec::new() };
    let implementation = Implementation { source, plan, author: "somebody".to_owned() };
    let case = |name: &str, kind| Case {
        name: name.to_owned(),
        kind,
        dims: BTreeMap::from([("n".to_owned(), 64)]),
        inputs: BTreeMap::new(),
    };
    Task {
        format: Task::FORMAT.to_owned(),
        name: "copy".to_owned(),
        summary: "copies".to_owned(),
        entry: "copy".to_owned(),
        signature: "extern \"C\" __global__ void copy(const float* a, float* b)".to_owned(),
        dims: vec!["n".to_owned()],
        params: Vec::new(),
        inputs: BTreeMap::new(),
        cases: vec![
            case("odd", CaseKind::Correctness),
            case("small", CaseKind::Performance),
            case("large", CaseKind::Performance),
        ],
        tolerance: Tolerance {
            absolute: "0".parse().unwrap(),
            relative: "1e-5".parse().unwrap(),
            nan: NanRule::Never,
        },
        limits: Limits {
            compile: Milliseconds(10_000),
            launch: Milliseconds(1_000),
            run: Milliseconds(60_000),
            memory: Bytes(1 << 20),
            source: Bytes(1 << 16),
        },
        reference: implementation.clone(),
        baseline: implementation,
        headers: Vec::new(),
        holdout: None,
        licence: "MIT".to_owned(),
        provenance: Provenance::default(),
        validation: None,
    }
}
