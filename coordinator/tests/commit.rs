//! What the ledger's writer accepts: a valid result once, and the same result nowhere else.

#![expect(clippy::unwrap_used, reason = "a test's helper fails the test by panicking")]

use coordinator::commit::{CommitHandle, CommitRequest, CommitThread, History, IncomingReport, Parts};
use coordinator::scheduler::effect::{CellSubject, Grant as LeasedGrant, LostReason};
use coordinator::scheduler::fact::Terms;
use coordinator::scheduler::input::LedgerEvent;
use fleet_config::domain::canonical::Document;
use fleet_config::domain::*;
use fleet_config::identity::SecretKey;
use fleet_config::wire::v1::RecordVerdict;
use ledger::blob::BlobStore;
use ledger::entry::predicate::{Environment, Genesis, Harness, NodeEnrol, ResultRecord, VolatileFacts};
use ledger::entry::{FORMAT, Subject, check, seal};
use ledger::index::Index;
use ledger::log::{LogReader, LogSigner, LogWriter};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::mpsc;
use zeroize::Zeroizing;

const WHEN: &str = "2026-11-30T12:00:00Z";

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&Zeroizing::new([seed; 32]))
}

/// A ledger with its writer and two enrolled nodes.
struct World {
    folder: TempDir,
    origin: String,
    commit: CommitHandle,
    thread: CommitThread,
    blobs: Arc<BlobStore>,
    events: mpsc::Receiver<LedgerEvent>,
    candidate: Document,
}

impl World {
    async fn new(operator_seed: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let operator = key(operator_seed);
        let origin = format!("muster.invalid/{}", &operator.public().key_id().to_string()[..16]);
        let log_key = key(operator_seed + 100);
        let signer = LogSigner::new(&origin, ed25519_dalek::SigningKey::from_bytes(&log_key.seed())).unwrap();
        let verifier = signer.verifier().clone();
        let mut log = LogWriter::create(folder.path(), signer).unwrap();
        let genesis = Genesis {
            format: FORMAT,
            origin: origin.clone(),
            operator_key: operator.public().to_hex(),
            created_on: WHEN.to_owned(),
        };
        let sealed = seal(genesis, Subject::of_key("operator-key", &operator.public()), &operator).unwrap();
        log.append_batch(std::slice::from_ref(&sealed.bytes)).unwrap();
        log.integrate().unwrap();
        let blobs = Arc::new(BlobStore::open(folder.path()));
        let mut history = History::default();
        let checked = check(&sealed.bytes, &history.signers).unwrap();
        history.fold(LeafIndex(0), &checked, &blobs);
        let reader = LogReader::open(folder.path(), &verifier).unwrap();
        let (index, _) = Index::open(&folder.path().join("index"), &reader).unwrap();
        let (sender, events) = mpsc::channel(64);
        let parts = Parts {
            log,
            blobs: Arc::clone(&blobs),
            index,
            history,
            origin: origin.clone(),
            operator,
            log_key,
            events: sender,
        };
        let (thread, commit) = CommitThread::start(parts).unwrap();
        let candidate = Document::of(&serde_json::json!({"name": "some candidate"})).unwrap();
        blobs.put(&candidate.bytes).unwrap();
        let world = Self { folder, origin, commit, thread, blobs, events, candidate };
        for seed in [2, 3] {
            world.enrol(seed).await;
        }
        world
    }

    async fn enrol(&self, seed: u8) {
        let public = key(seed).public();
        let entry = NodeEnrol {
            node: public.node_id(),
            name: format!("node {seed}"),
            signing_key: public.to_hex(),
            tls_key: Sha256([seed; 32]),
            invite: "test".to_owned(),
            enrolled_on: WHEN.to_owned(),
        };
        self.commit.enrol(entry).await.unwrap();
    }

    fn grant(&self, cell: u8, fence: u64, node: u8) -> LeasedGrant {
        LeasedGrant {
            fence: Fence(fence),
            cell: CellId([cell; 32]),
            submission: SubmissionId([7; 32]),
            task: TaskId([8; 32]),
            policy: PolicyId([9; 32]),
            candidate: CandidateId(self.candidate.digest().0),
            class: "cpu:x86-64-v2".parse().unwrap(),
            node: key(node).public().node_id(),
            device: DeviceId("CPU-test".to_owned()),
            nonce: Nonce([cell; 32]),
            seeds: vec![Seed(1), Seed(2)],
            attempt: 1,
            terms: Terms {
                memory: Bytes(1),
                queue: None,
                compile: Milliseconds(1),
                run: Milliseconds(1),
                seeds: 2,
            },
            waited: Milliseconds(0),
        }
    }

    /// Records a grant and waits until it is durable.
    async fn granted(&mut self, grant: &LeasedGrant) {
        self.commit.try_send(CommitRequest::Grants(vec![grant.clone()])).unwrap();
        let event = self.events.recv().await.unwrap();
        assert!(matches!(event, LedgerEvent::GrantsRecorded { .. }), "{event:?}");
    }

    /// The result of `grant`, as a node with the key of `seed` would sign it.
    fn result(&self, grant: &LeasedGrant, seed: u8) -> Vec<u8> {
        let node = key(seed);
        let fingerprint = Fingerprint {
            identity: Facts::new(),
            configuration: Facts::new(),
            before: Facts::new(),
            during: Vec::new(),
            after: Facts::new(),
        };
        let class = ComparabilityClass::of(&fingerprint, grant.policy);
        let environment =
            Environment { identity: Facts::new(), configuration: Facts::new(), class: class.clone() };
        let environment = self.blobs.put(&canonical::to_bytes(&environment).unwrap()).unwrap();
        let volatile = VolatileFacts { before: Facts::new(), during: Vec::new(), after: Facts::new() };
        let volatile = self.blobs.put(&canonical::to_bytes(&volatile).unwrap()).unwrap();
        let cause = Cause {
            code: "compile/error".to_owned(),
            message: "expected `;`".to_owned(),
            ..Cause::default()
        };
        let record = ResultRecord {
            origin: self.origin.clone(),
            submission: grant.submission,
            cell: grant.cell,
            fence: grant.fence,
            nonce: grant.nonce,
            task: grant.task,
            candidate: grant.candidate,
            policy: grant.policy,
            node: node.public().node_id(),
            device: grant.device.clone(),
            device_kind: DeviceKind::Cpu,
            architecture: "cpu:x86-64-v2".parse().unwrap(),
            class: class.id().unwrap(),
            seeds: grant.seeds.clone(),
            generator: 1,
            harness: Harness {
                version: "test".to_owned(),
                digest: Digest([1; 32]),
                commit: String::new(),
                dirty: true,
            },
            sandbox: "kernel".to_owned(),
            outcome: Outcome::failed(
                Status::CompileError,
                Stage::Compile,
                Blame::Candidate,
                cause,
                "correct it",
            ),
            timings: Vec::new(),
            stage_times: StageTimes::default(),
            build: None,
            environment,
            volatile,
            evidence: None,
            started_on: WHEN.to_owned(),
            finished_on: WHEN.to_owned(),
        };
        let subject = Subject::of_blob("source", &BlobRef::of(b"a source tree"));
        seal(record, subject, &node).unwrap().bytes
    }

    async fn report(&self, peer: u8, cell: u8, fence: u64, envelope: &[u8]) -> RecordVerdict {
        let peer = key(peer).public().node_id();
        let (cell, fence) = (CellId([cell; 32]), Fence(fence));
        let report = IncomingReport { peer, cell, fence, envelope: envelope.to_vec() };
        self.commit.report(report).await.verdict
    }

    async fn end(self) -> TempDir {
        self.commit.stop().await.unwrap();
        self.thread.join();
        self.folder
    }
}

fn code(verdict: &RecordVerdict) -> &str {
    match verdict {
        RecordVerdict::Invalid { code, .. } | RecordVerdict::Later { code, .. } => code,
        RecordVerdict::Accepted { .. } => "accepted",
        RecordVerdict::Refused { .. } => "refused",
    }
}

#[tokio::test]
async fn a_result_is_accepted_once_and_its_repeats_get_the_same_answer() {
    let mut world = World::new(1).await;
    let grant = world.grant(10, 5, 2);
    world.granted(&grant).await;
    let envelope = world.result(&grant, 2);
    let first = world.report(2, 10, 5, &envelope).await;
    assert_eq!(code(&first), "accepted");
    let size = world.commit.size();
    assert_eq!(world.report(2, 10, 5, &envelope).await, first, "identical bytes, identical answer");
    assert_eq!(world.commit.size(), size, "a repeat adds nothing");
    world.end().await;
}

#[tokio::test]
async fn a_replay_is_refused_for_another_cell_by_another_node_and_into_another_ledger() {
    let mut world = World::new(1).await;
    let (first, second) = (world.grant(10, 5, 2), world.grant(11, 6, 2));
    world.granted(&first).await;
    world.granted(&second).await;
    let envelope = world.result(&first, 2);
    assert_eq!(code(&world.report(2, 11, 6, &envelope).await), "report/other-cell");
    assert_eq!(code(&world.report(3, 10, 5, &envelope).await), "report/other-node");
    let by_another = world.result(&first, 3);
    assert_eq!(code(&world.report(3, 10, 5, &by_another).await), "refused", "another node's lease");
    let stranger = world.result(&first, 4);
    assert_eq!(code(&world.report(2, 10, 5, &stranger).await), "entry/signer");
    let mut other = World::new(50).await;
    let same = other.grant(10, 5, 2);
    other.granted(&same).await;
    assert_eq!(code(&other.report(2, 10, 5, &envelope).await), "entry/field", "bound to the other origin");
    assert_eq!(
        code(&world.report(2, 10, 5, &envelope).await),
        "accepted",
        "the lease holder's own still counts"
    );
    world.end().await;
    other.end().await;
}

#[tokio::test]
async fn a_late_result_becomes_attempt_refused_and_is_quoted() {
    let mut world = World::new(1).await;
    let grant = world.grant(10, 5, 2);
    world.granted(&grant).await;
    let late = world.result(&grant, 2);
    let about = CellSubject {
        cell: grant.cell,
        submission: grant.submission,
        task: grant.task,
        candidate: grant.candidate,
    };
    world
        .commit
        .try_send(CommitRequest::Lost { about, fence: Fence(5), reason: LostReason::NodeSilent })
        .unwrap();
    assert!(matches!(world.events.recv().await, Some(LedgerEvent::Lost { .. })));
    let retry = world.grant(10, 9, 3);
    world.granted(&retry).await;
    let refused = world.report(2, 10, 5, &late).await;
    let RecordVerdict::Refused { reason, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(reason, "stale-fence");
    let again = world.report(2, 10, 5, &late).await;
    assert!(
        matches!((&refused, &again), (RecordVerdict::Refused { index: a, .. }, RecordVerdict::Refused { index: b, .. }) if a == b)
    );
    let second = world.result(&retry, 3);
    assert_eq!(code(&world.report(3, 10, 9, &second).await), "accepted");
    assert_eq!(code(&world.report(2, 10, 5, &late).await), "refused", "a closed cell stays closed");
    world.end().await;
}

#[tokio::test]
async fn changed_bytes_and_changed_bindings_are_no_results() {
    let mut world = World::new(1).await;
    let grant = world.grant(10, 5, 2);
    world.granted(&grant).await;
    let envelope = world.result(&grant, 2);
    let mut flipped = envelope.clone();
    flipped[40] ^= 1;
    let verdict = world.report(2, 10, 5, &flipped).await;
    assert!(code(&verdict).starts_with("entry/"), "{verdict:?}");
    let mut other_seeds = grant.clone();
    other_seeds.seeds = vec![Seed(3)];
    let verdict = world.report(2, 10, 5, &world.result(&other_seeds, 2)).await;
    assert_eq!(code(&verdict), "result/binding", "{verdict:?}");
    for junk in [&b""[..], b"{}", b"\x00\xff", &envelope[..envelope.len() - 1]] {
        let verdict = world.report(2, 10, 5, junk).await;
        assert!(code(&verdict).starts_with("entry/"), "{verdict:?}");
    }
    assert_eq!(code(&world.report(2, 10, 5, &envelope).await), "accepted");
    world.end().await;
}
