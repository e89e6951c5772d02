//! Whole attempts on this machine's CPU device: the sample task with its candidates, and the conformance suite.
#![expect(clippy::unwrap_used, reason = "a test's helper fails the test by panicking")]

mod injection;
mod printing;

use agent_node::backend::Interrupt;
use agent_node::backend::conformance::{Bed, Verdict, check};
use agent_node::harness::harness;
use agent_node::inventory::{Offer, Wish, cpu_offers};
use agent_node::job::context::{Assignment, BlobFault, BlobSource, Context, Node};
use agent_node::job::{Residents, attempt};
use agent_node::machine_lock::MachineLock;
use agent_node::measure::clock::SystemClock;
use agent_node::sandbox::{Confinement, set_launcher};
use fleet_config::config::{LoadedTask, load};
use fleet_config::domain::{
    Blame, BlobRef, CellId, CheckEvidence, CheckFinding, DeviceKind, Digest, FaultKind, Fence,
    MeasurementPolicy, Milliseconds, Nonce, Picoseconds, Screen, Seed, Stage, Status, SubmissionId,
    canonical,
};
use fleet_config::identity::SecretKey;
use ledger::entry::predicate::{Evidence, ResultRecord};
use ledger::entry::{Body, Entry, decode_samples};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tempfile::TempDir;
use zeroize::Zeroizing;

/// Timing tests and each other's compilers would disturb: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A node's devices in a folder that goes away.
struct Place {
    folder: TempDir,
    wish: Wish,
    offer: Offer,
}

impl Place {
    fn new() -> Self {
        set_launcher(PathBuf::from(env!("CARGO_BIN_EXE_muster-node")));
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let wish = Wish {
            levels: Vec::new(),
            compiler: None,
            nvrtc: None,
            compile: None,
            confinement: Confinement::Required,
            node_key: [1; 32],
            harness: harness().unwrap(),
            cache: root.join("cache"),
            cache_bytes: 1 << 30,
            standby: 0,
            folder: root.join("ask"),
        };
        let offer = cpu_offers(&wish).unwrap().remove(0);
        Self { folder, wish, offer }
    }
    fn subfolder(&self, name: &str) -> PathBuf {
        let path = self.folder.path().canonicalize().unwrap().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

struct Shelf(BTreeMap<Digest, Vec<u8>>);

impl Shelf {
    fn put(&mut self, bytes: Vec<u8>) -> BlobRef {
        let blob = BlobRef::of(&bytes);
        self.0.insert(blob.blake3, bytes);
        blob
    }
}

impl BlobSource for Shelf {
    fn fetch(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobFault> {
        Ok(self.0[&blob.blake3].clone())
    }
}

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/sample")
}

/// Few pairs: these tests ask what the verdict is, not how precise a time is.
fn policy() -> MeasurementPolicy {
    MeasurementPolicy {
        name: "test-paired/1".to_owned(),
        pairs_min: 4,
        pairs_max: 6,
        budget: Milliseconds(300),
        ..MeasurementPolicy::cpu_paired()
    }
}

fn run(place: &Place, candidate: &str) -> ResultRecord {
    run_with(place, &sample(), &sample().join("candidates").join(candidate), &policy()).0
}

/// The record of `candidate` for the task in `folder`, with what its evidence says of screens.
fn run_with(
    place: &Place,
    folder: &Path,
    path: &Path,
    policy: &MeasurementPolicy,
) -> (ResultRecord, Vec<CheckEvidence>) {
    let (record, mut checks) = run_checked(place, folder, path, policy);
    checks.retain(|one| one.check.as_str().parse::<Screen>().is_ok());
    (record, checks)
}

/// The same, with every check.
fn run_checked(
    place: &Place,
    folder: &Path,
    path: &Path,
    policy: &MeasurementPolicy,
) -> (ResultRecord, Vec<CheckEvidence>) {
    let LoadedTask { task, blobs, .. } = load::task(&folder.join("task.toml"), &[0; 32]).unwrap();
    let loaded = load::candidates(path, &task.entry, task.limits.source).unwrap().remove(0);
    let mut shelf = Shelf(BTreeMap::new());
    for (_, bytes) in blobs.into_iter().chain(loaded.blobs) {
        shelf.put(bytes);
    }
    let assignment = Assignment {
        submission: SubmissionId([1; 32]),
        cell: CellId([2; 32]),
        fence: Fence(3),
        task: shelf.put(task.document().unwrap().bytes),
        candidate: shelf.put(loaded.candidate.document().unwrap().bytes),
        policy: shelf.put(policy.document().unwrap().bytes),
        device: place.offer.description.id.clone(),
        nonce: Nonce([4; 32]),
        seeds: vec![Seed(5), Seed(6)],
        compile: Milliseconds(60_000),
        run: Milliseconds(120_000),
        queued: Milliseconds(0),
        sealed: None,
    };
    let node = Node {
        key: SecretKey::from_seed(&Zeroizing::new([7; 32])),
        harness: harness().unwrap(),
        confinement: Confinement::Required,
    };
    let folder = place.subfolder(&format!("job-{}-{}", task.name, path.file_name().unwrap().display()));
    let locks = place.subfolder("locks");
    let context = Context {
        assignment: &assignment,
        origin: "muster.invalid/0123456789abcdef",
        node: &node,
        device: &place.offer.description,
        backend: place.offer.backend.as_ref(),
        hardware: &|| None,
        blobs: &shelf,
        residents: &Residents::on(&place.offer.description),
        machine: &MachineLock::at(locks),
        clock: &SystemClock,
        folder: &folder,
        progress: &|_, _| {},
        interrupt: Interrupt::never(),
        deadline: Picoseconds(u64::MAX),
    };
    let finished = attempt(&context).unwrap();
    let Body::Result(record) = Entry::read(&finished.envelope).unwrap().body else { panic!("no result") };
    for named in record.blobs() {
        assert!(finished.blobs.iter().any(|(blob, bytes)| *blob == named && BlobRef::of(bytes) == named));
    }
    for timing in &record.timings {
        let bytes = &finished.blobs.iter().find(|(blob, _)| *blob == timing.samples).unwrap().1;
        assert!(decode_samples(bytes).unwrap().baseline.len() >= 2);
    }
    let evidence = record.evidence.and_then(|evidence| {
        let bytes = &finished.blobs.iter().find(|(blob, _)| *blob == evidence)?.1;
        Some(canonical::from_bytes::<Evidence>(bytes).unwrap().checks)
    });
    (*record, evidence.unwrap_or_default())
}

#[test]
fn the_cpu_device_passes_the_conformance_suite() {
    let _alone = ALONE.lock();
    let place = Place::new();
    let folder = place.subfolder("conformance");
    let bed = Bed {
        backend: place.offer.backend.as_ref(),
        device: &place.offer.description,
        folder: &folder,
        confinement: Confinement::Required,
    };
    let findings = check(&bed);
    let bad: Vec<_> = findings.iter().filter(|finding| finding.verdict != Verdict::Passed).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn good_candidates_of_the_sample_are_ok_and_timed_on_both_cases() {
    let _alone = ALONE.lock();
    let place = Place::new();
    for candidate in ["tiled.cu", "vectorised.cu", "slower.cu"] {
        let record = run(&place, candidate);
        assert_eq!(record.outcome.status, Status::Ok, "{candidate}: {:?}", record.outcome);
        let cases: Vec<&str> = record.timings.iter().map(|timing| timing.case.as_str()).collect();
        assert_eq!(cases, ["square", "oblong"]);
        assert!(record.evidence.is_some() && record.build.is_some());
        assert_eq!(record.sandbox, Confinement::Required.level_for(DeviceKind::Cpu).as_str());
    }
}

#[test]
fn bad_candidates_of_the_sample_are_told_what_is_wrong() {
    let _alone = ALONE.lock();
    let place = Place::new();
    for (candidate, status, stage) in [
        ("odd-size-bug.cu", Status::WrongResult, Stage::Validate),
        ("overrun.cu", Status::ContractViolation, Stage::Validate),
        ("syntax-error.cu", Status::CompileError, Stage::Compile),
    ] {
        let record = run(&place, candidate);
        let outcome = &record.outcome;
        assert_eq!((outcome.status, outcome.stage), (status, stage), "{candidate}: {outcome:?}");
        assert_eq!(outcome.blame, Blame::Candidate);
        assert!(record.timings.is_empty());
        let cause = outcome.cause.as_ref().unwrap();
        match status {
            Status::WrongResult => assert_eq!(cause.case.as_deref(), Some("odd")),
            Status::ContractViolation => assert_eq!(cause.memory.as_ref().unwrap().buffer, "c"),
            _ => assert!(cause.source.as_ref().unwrap().line > 0),
        }
    }
}

#[test]
fn tasks_of_half_precision_bfloat16_and_several_steps_pass_every_stage() {
    let _alone = ALONE.lock();
    let place = Place::new();
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kernels");
    for name in ["axpy-half", "gelu-bf16", "rms-norm-bf16", "matmul-half", "scan-blocks", "histogram-match"] {
        let home = kernels.join(name);
        let record = run_with(&place, &home, &home.join("candidate.cu"), &policy()).0;
        assert_eq!(record.outcome.status, Status::Ok, "{name}: {:?}", record.outcome);
        assert_eq!(record.timings.len(), 1, "{name}");
    }
}

#[test]
fn good_candidates_of_both_samples_pass_every_screen() {
    let _alone = ALONE.lock();
    let place = Place::new();
    let policy = policy().with_screens(Screen::ALL.to_vec());
    let saxpy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/sample-saxpy");
    for (folder, candidate) in [
        (sample(), "tiled.cu"),
        (sample(), "vectorised.cu"),
        (saxpy.clone(), "vectorised.cu"),
        (saxpy, "strided.cu"),
    ] {
        let path = folder.join("candidates").join(candidate);
        let (record, screens) = run_with(&place, &folder, &path, &policy);
        assert_eq!(record.outcome.status, Status::Ok, "{candidate}: {:?}", record.outcome);
        assert_eq!(
            screens.iter().map(|one| one.check.clone()).collect::<Vec<_>>(),
            Screen::ALL.map(Screen::check)
        );
        for one in &screens {
            // Without a sanitizer's library the screen says so; it is never a pass.
            let is_missing = one.finding == CheckFinding::NotRun && one.detail.contains("is missing");
            assert!(one.finding == CheckFinding::NoFaultFound || is_missing, "{candidate}: {one:?}");
            assert_eq!(one.case, "odd");
        }
    }
}

/// Names of the tasks in `tests/kernels` that this run looks at: a few, or all of them with `MUSTER_TABLE` set.
fn kernels_to_screen(home: &Path) -> Vec<String> {
    if std::env::var_os("MUSTER_TABLE").is_none() {
        // Local arrays, several kernels with scratch, warp operations, atomics.
        return ["rotary-half", "scan-blocks", "histogram-match", "bfs-step"].map(str::to_owned).into();
    }
    let entries = std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap());
    let tasks = entries.filter(|entry| entry.path().join("task.toml").is_file());
    let mut names: Vec<String> = tasks.map(|entry| entry.file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn right_kernels_of_many_styles_pass_every_screen() {
    let _alone = ALONE.lock();
    let place = Place::new();
    let policy = policy().with_screens(Screen::ALL.to_vec());
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kernels");
    let mut alarms = Vec::new();
    for name in kernels_to_screen(&kernels) {
        let home = kernels.join(&name);
        let (record, screens) = run_with(&place, &home, &home.join("candidate.cu"), &policy);
        let costs: Vec<String> = screens
            .iter()
            .map(|one| format!("{} {} {}", one.check, one.finding.words(), one.took.0))
            .collect();
        println!("{name}: {}; {}", record.outcome.status, costs.join(", "));
        alarms.extend(
            screens
                .into_iter()
                .filter(|one| one.finding == CheckFinding::FaultFound)
                .map(|one| (name.clone(), one)),
        );
    }
    assert!(alarms.is_empty(), "{alarms:#?}");
}

/// One thread for each element and something beside it; the answer is right.
fn beside(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    let source = format!(
        "extern \"C\" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {{\n\
         int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;\nfloat sum = 0;\n{text}\n\
         if (row < m && col < n) {{ for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];\nc[row * n + col] = sum; }}\n}}\n"
    );
    std::fs::write(&path, source).unwrap();
    path
}

#[test]
fn a_race_that_leaves_the_answer_right_is_a_runtime_error_with_both_lines() {
    let _alone = ALONE.lock();
    let place = Place::new();
    if place.offer.backend.screens().iter().any(|offer| offer.missing.is_some()) {
        eprintln!("SKIPPED: this compiler's sanitizers are not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = "__shared__ volatile int hits[8];\nhits[threadIdx.x % 8] = row;\n__syncthreads();";
    let path = beside(&folder, "racy.cu", text);
    let cheap = policy().with_screens(Screen::CHEAP.to_vec());
    let (record, screens) = run_with(&place, &sample(), &path, &cheap);
    assert_eq!(record.outcome.status, Status::Ok, "the cheap screens do not see it: {:?}", record.outcome);
    assert_eq!(
        screens.iter().map(|one| one.check.clone()).collect::<Vec<_>>(),
        Screen::CHEAP.map(Screen::check)
    );
    let thorough = policy().with_screens(Screen::ALL.to_vec());
    let (record, screens) = run_with(&place, &sample(), &path, &thorough);
    assert_eq!(record.outcome.status, Status::RuntimeError, "{:?}", record.outcome);
    let cause = record.outcome.cause.unwrap();
    assert_eq!((cause.fault, cause.code.as_str()), (Some(FaultKind::Race), "screen/races-in-block"));
    assert!(cause.message.contains("`hits`") && cause.message.contains("racy.cu:5"), "{}", cause.message);
    let last = screens.last().unwrap();
    assert_eq!((last.check.clone(), last.finding), (Screen::RacesInBlock.check(), CheckFinding::FaultFound));
    assert!(record.outcome.log.is_some() && record.timings.is_empty());
}

#[test]
fn what_validation_sees_is_named_by_its_screen_and_a_wrong_answer_is_explained() {
    let _alone = ALONE.lock();
    let place = Place::new();
    let (record, screens) = run_with(
        &place,
        &sample(),
        &sample().join("candidates/overrun.cu"),
        &policy().with_screens(Vec::new()),
    );
    assert_eq!(record.outcome.status, Status::ContractViolation);
    assert_eq!(
        (screens[0].check.clone(), screens[0].finding),
        (Screen::Fences.check(), CheckFinding::FaultFound)
    );
    let folder = tempfile::tempdir().unwrap();
    let text = "__shared__ float s[16];\nsum = s[15 - threadIdx.x] * 0.f;\ns[threadIdx.x] = 1;";
    let path = beside(&folder, "stale.cu", text);
    let (record, _) = run_with(&place, &sample(), &path, &policy().with_screens(Screen::CHEAP.to_vec()));
    assert_eq!(record.outcome.status, Status::WrongResult);
    assert!(record.outcome.hint.contains("uninitialised-shared"), "{}", record.outcome.hint);
}
