//! What the ledger's writer accepts: a valid result once, and the same result nowhere else.

#![expect(clippy::unwrap_used, reason = "a test's helper fails the test by panicking")]

use coordinator::commit::{
    CommitHandle, CommitRequest, CommitThread, History, IncomingReport, PROMISE_CONTEXT, Parts, promise_bytes,
};
use coordinator::scheduler::effect::{CellSubject, Grant as LeasedGrant, LostReason};
use coordinator::scheduler::fact::Terms;
use coordinator::scheduler::input::LedgerEvent;
use fleet_config::domain::*;
use fleet_config::identity::SecretKey;
use fleet_config::wire::v1::RecordVerdict;
use ledger::blob::BlobStore;
use ledger::entry::predicate::{
    Environment, Evidence, Genesis, Harness, HoldoutVerdict, NodeEnrol, NodeRevoke, OpenedHoldout,
    PolicyAdded, ResultRecord, Verification, VolatileFacts,
};
use ledger::entry::{Body, FORMAT, Subject, case_timing, check, encode_samples, seal};
use ledger::index::Index;
use ledger::log::{LogReader, LogSigner, LogWriter, VerifierKey};
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
    candidate: Candidate,
    verifier: VerifierKey,
}

impl World {
    async fn new(operator_seed: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let operator = key(operator_seed);
        let origin = format!("muster.invalid/{}", &operator.public().key_id().to_string()[..16]);
        let log_key = key(operator_seed + 100);
        let signer = LogSigner::new(&origin, ed25519_dalek::SigningKey::from_bytes(&log_key.seed())).unwrap();
        let verifier = signer.verifier().clone();
        let promises = signer.clone();
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
            promises,
            events: sender,
        };
        let (thread, commit) = CommitThread::start(parts).unwrap();
        let source = SourceTree {
            main: "kernel.cu".to_owned(),
            files: vec![SourceFile { path: "kernel.cu".to_owned(), blob: blobs.put(b"a kernel").unwrap() }],
        };
        let candidate = Candidate {
            format: Candidate::FORMAT.to_owned(),
            name: "some candidate".to_owned(),
            source,
            plan: None,
            family: None,
            provenance: Provenance::default(),
            licence: String::new(),
        };
        blobs.put(&candidate.document().unwrap().bytes).unwrap();
        let world = Self { folder, origin, commit, thread, blobs, events, candidate, verifier };
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
            candidate: self.candidate.id().unwrap(),
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
            holdout: None,
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
        self.sealed(self.record(grant, seed), seed)
    }

    fn sealed(&self, record: ResultRecord, seed: u8) -> Vec<u8> {
        let manifest = self.candidate.source.document().unwrap().blob;
        seal(record, Subject::of_blob("source", &manifest), &key(seed)).unwrap().bytes
    }

    fn record(&self, grant: &LeasedGrant, seed: u8) -> ResultRecord {
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
        ResultRecord {
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
        }
    }

    async fn report(&self, peer: u8, cell: u8, fence: u64, envelope: &[u8]) -> RecordVerdict {
        let peer = key(peer).public().node_id();
        let (cell, fence) = (CellId([cell; 32]), Fence(fence));
        let report = IncomingReport { peer, cell, fence, envelope: envelope.to_vec() };
        self.commit.report(report).await.verdict
    }

    /// Everybody who may sign by now.
    async fn signers(&self) -> ledger::entry::Signers {
        self.commit.checkpoint().await.unwrap();
        let reader = LogReader::open(self.folder.path(), &self.verifier).unwrap();
        let mut signers = ledger::entry::Signers::new();
        for entry in reader.entries(0..reader.size()) {
            let (leaf, bytes) = entry.unwrap();
            if let Ok(checked) = check(&bytes, &signers) {
                signers.fold(leaf, &checked);
            }
        }
        signers
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
    let RecordVerdict::Accepted { index, promise } = &first else { panic!("{first:?}") };
    let record = check(&envelope, &world.signers().await).unwrap().record();
    let bytes = promise_bytes(&world.origin, &record.0, LeafIndex(*index));
    world.verifier.verify_bytes(PROMISE_CONTEXT, &bytes, promise.as_slice().try_into().unwrap()).unwrap();
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
    assert_eq!(reason, "stale_fence");
    let again = world.report(2, 10, 5, &late).await;
    assert_eq!(again, refused, "identical bytes, identical answer");
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

/// A record with a fault of content, and the code that it is refused with.
type Fault = (&'static str, &'static str, fn(&World, &mut ResultRecord));

fn missing() -> BlobRef {
    BlobRef::of(b"bytes that nobody brought")
}

/// A result with times whose samples are in the store.
fn timed(world: &World, record: &mut ResultRecord) {
    let series = SampleSeries {
        format: SampleSeries::FORMAT.to_owned(),
        case: "large".to_owned(),
        warmups: 3,
        baseline: (0..10).map(|step| Picoseconds(2_000 + step)).collect(),
        candidate: (0..10).map(|step| Picoseconds(1_000 + step)).collect(),
    };
    let samples = world.blobs.put(&encode_samples(&series).unwrap()).unwrap();
    record.outcome = Outcome::ok();
    record.timings = vec![case_timing(&series, samples)];
}

const FAULTS: [Fault; 10] = [
    ("a blob that was not brought", "report/missing-blob", |_, record| record.volatile = missing()),
    ("another size", "report/content", |_, record| record.environment.size += 1),
    ("another SHA-256", "report/content", |_, record| record.environment.sha256 = missing().sha256),
    ("another class", "report/content", |_, record| record.class = ClassId([1; 32])),
    ("an environment of another policy", "report/content", |world, record| {
        let fingerprint = Fingerprint {
            identity: Facts::new(),
            configuration: Facts::new(),
            before: Facts::new(),
            during: Vec::new(),
            after: Facts::new(),
        };
        let class = ComparabilityClass::of(&fingerprint, PolicyId([77; 32]));
        record.class = class.id().unwrap();
        let environment = Environment { identity: Facts::new(), configuration: Facts::new(), class };
        record.environment = world.blobs.put(&canonical::to_bytes(&environment).unwrap()).unwrap();
    }),
    ("an environment that is none", "report/content", |world, record| {
        record.environment = world.blobs.put(b"{}").unwrap();
    }),
    ("evidence that is none", "report/content", |world, record| {
        record.evidence = Some(world.blobs.put(b"[1]").unwrap());
    }),
    ("samples that are none", "report/content", |world, record| {
        timed(world, record);
        record.timings[0].samples = world.blobs.put(b"no frame").unwrap();
    }),
    ("a median that is not that of the samples", "report/content", |world, record| {
        timed(world, record);
        record.timings[0].candidate_median = Picoseconds(1);
    }),
    ("a ratio that is not that of the samples", "report/content", |world, record| {
        timed(world, record);
        record.timings[0].ratio.0 *= 2;
    }),
];

#[tokio::test]
async fn what_verification_would_refuse_for_ever_is_not_recorded() {
    let mut world = World::new(1).await;
    let grant = world.grant(10, 5, 2);
    world.granted(&grant).await;
    let size = world.commit.size();
    for (what, expected, spoil) in FAULTS {
        let mut record = world.record(&grant, 2);
        spoil(&world, &mut record);
        let verdict = world.report(2, 10, 5, &world.sealed(record, 2)).await;
        assert!(matches!(verdict, RecordVerdict::Invalid { .. }), "{what}: {verdict:?}");
        assert_eq!(code(&verdict), expected, "{what}: {verdict:?}");
    }
    let subject = Subject::of_blob("source", &BlobRef::of(b"another source tree"));
    let other = seal(world.record(&grant, 2), subject, &key(2)).unwrap().bytes;
    assert_eq!(code(&world.report(2, 10, 5, &other).await), "report/content", "another subject");
    assert_eq!(world.commit.size(), size, "nothing was appended");
    let mut record = world.record(&grant, 2);
    timed(&world, &mut record);
    let evidence = canonical::to_bytes(&Evidence { cases: Vec::new(), checks: Vec::new() }).unwrap();
    record.evidence = Some(world.blobs.put(&evidence).unwrap());
    let verdict = world.report(2, 10, 5, &world.sealed(record, 2)).await;
    assert_eq!(code(&verdict), "accepted", "{verdict:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_statement_of_the_operator_is_one_entry_however_often_it_is_made() {
    let world = World::new(1).await;
    let policy = MeasurementPolicy::cpu_paired();
    let document = policy.document().unwrap();
    let definition = world.blobs.put(&document.bytes).unwrap();
    let entry = |added_on: &str| PolicyAdded {
        policy: policy.id().unwrap(),
        name: policy.name.clone(),
        definition,
        added_on: added_on.to_owned(),
    };
    let (first, second) =
        tokio::join!(world.commit.add_policy(entry(WHEN)), world.commit.add_policy(entry(WHEN)));
    let first = first.unwrap();
    assert_eq!(second.unwrap(), first, "in one batch, or in two");
    assert_eq!(world.commit.add_policy(entry(WHEN)).await.unwrap(), first, "and later");
    let size = world.commit.size();
    assert_ne!(world.commit.add_policy(entry("2026-11-30T12:00:01Z")).await.unwrap(), first);
    assert_eq!(world.commit.size(), size + 1);
}

#[tokio::test]
async fn a_damaged_store_is_not_held_against_the_node() {
    let mut world = World::new(1).await;
    let grant = world.grant(10, 5, 2);
    world.granted(&grant).await;
    let envelope = world.result(&grant, 2);
    let source = world.candidate.source.files[0].blob;
    std::fs::write(world.blobs.path(&source.blake3), b"rotten").unwrap();
    let verdict = world.report(2, 10, 5, &envelope).await;
    assert!(matches!(verdict, RecordVerdict::Later { .. }), "{verdict:?}");
    assert_eq!(code(&verdict), "ledger/blob");
    world.blobs.put(b"a kernel").unwrap();
    assert_eq!(code(&world.report(2, 10, 5, &envelope).await), "accepted", "once the store is repaired");
    world.end().await;
}

/// Kinds of the entries, in order.
async fn kinds(world: &World) -> Vec<String> {
    world.commit.checkpoint().await.unwrap();
    let reader = LogReader::open(world.folder.path(), &world.verifier).unwrap();
    let entries = reader.entries(0..reader.size()).map(|entry| entry.unwrap().1);
    let kind =
        |bytes: Vec<u8>| ledger::entry::Entry::read(&bytes).unwrap().body.kind().unwrap().word().to_owned();
    entries.map(kind).collect()
}

#[tokio::test]
async fn an_opening_is_counted_before_its_grant_and_only_its_verification_ends_the_attempt() {
    let mut world = World::new(1).await;
    let commitment = Commitment(Digest([0x5e; 32]));
    let check = HoldoutCheck { record: RecordId([1; 32]), commitment };
    let opening = |grant: LeasedGrant| LeasedGrant { holdout: Some(check), ..grant };
    let (first, second, search) =
        (opening(world.grant(10, 5, 2)), opening(world.grant(11, 6, 2)), world.grant(12, 7, 2));
    for grant in [&first, &second, &search] {
        world.granted(grant).await;
    }
    let told = kinds(&world).await;
    assert_eq!(
        told[told.len() - 5..],
        ["holdout-opened", "attempt-granted", "holdout-opened", "attempt-granted", "attempt-granted"]
    );
    assert_eq!(world.commit.openings(commitment), 2);
    let opened = world.commit.opened_for(second.cell, second.fence).unwrap();
    assert_eq!((opened.opening, opened.record), (2, check.record));
    assert_eq!(world.commit.opened_for(search.cell, search.fence), None);

    let verification = |grant: &LeasedGrant, opening: u64| {
        let holdout = OpenedHoldout { commitment, opening, record: check.record };
        let verdict = HoldoutVerdict::NotReached;
        let manifest = world.candidate.source.document().unwrap().blob;
        let body = Verification { holdout, verdict, result: world.record(grant, 2) };
        seal(body, Subject::of_blob("source", &manifest), &key(2)).unwrap().bytes
    };
    assert_eq!(
        code(&world.report(2, 11, 6, &world.result(&second, 2)).await),
        "report/holdout",
        "a plain result"
    );
    assert_eq!(
        code(&world.report(2, 11, 6, &verification(&second, 1)).await),
        "report/holdout",
        "another opening"
    );
    assert_eq!(
        code(&world.report(2, 12, 7, &verification(&search, 3)).await),
        "report/holdout",
        "nothing was opened"
    );
    let sound = verification(&second, 2);
    let accepted = world.report(2, 11, 6, &sound).await;
    assert_eq!(code(&accepted), "accepted");
    assert_eq!(world.report(2, 11, 6, &sound).await, accepted, "sent again, answered the same");
    assert_eq!(world.commit.opened_for(second.cell, second.fence), None, "its attempt is over");
    assert_eq!(world.commit.openings(commitment), 2, "and it stays counted");
    assert_eq!(code(&world.report(2, 12, 7, &world.result(&search, 2)).await), "accepted");
    world.end().await;
}

#[tokio::test]
async fn a_revoked_node_gets_nothing_in_and_another_one_does() {
    let mut world = World::new(1).await;
    let (own, other) = (world.grant(10, 5, 2), world.grant(11, 6, 3));
    world.granted(&own).await;
    world.granted(&other).await;
    let revoke = NodeRevoke {
        node: key(2).public().node_id(),
        suspect_from: LeafIndex(u64::MAX),
        reason: "test".to_owned(),
        revoked_on: WHEN.to_owned(),
    };
    let index = world.commit.revoke(revoke.clone()).await.unwrap();
    let reader = LogReader::open(world.folder.path(), &world.verifier).unwrap();
    let entry = ledger::entry::Entry::read(&reader.entry(index).unwrap()).unwrap();
    let Body::NodeRevoke(recorded) = entry.body else { panic!("{entry:?}") };
    assert_eq!(recorded.suspect_from, index, "nothing is suspected");
    assert_eq!(code(&world.report(2, 10, 5, &world.result(&own, 2)).await), "entry/field");
    assert_eq!(code(&world.report(3, 11, 6, &world.result(&other, 3)).await), "accepted");
    assert_eq!(world.commit.revoke(revoke).await.unwrap_err().code, "entry/field");
    let stranger = NodeRevoke { node: NodeId([9; 32]), ..recorded };
    assert_eq!(world.commit.revoke(stranger).await.unwrap_err().code, "node/unknown-node");
    world.end().await;
}
