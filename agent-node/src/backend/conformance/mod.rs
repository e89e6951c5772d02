//! One suite that every backend must pass, run against a real device: right results, fences, limits, recovery.
//!
//! Each check answers with a verdict and never panics, so that `doctor` commands can show them too.

mod launch;
mod pair;
mod timing;

pub use timing::{AgainstItself, against_itself};

use super::{
    Argument, Artefact, Backend, Buffer, BufferUse, CompileRequest, EntryPoint, Evaluation, Failure,
    Interrupt, ResolvedStep, Sources, Worker,
};
use crate::clock::monotonic;
use crate::sandbox::Confinement;
use fleet_config::domain::{
    DeviceDescription, DeviceKind, ElementType, MeasurementPolicy, Milliseconds, Role, Status,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Elements of the test vectors: no multiple of any block, so that bounds checks matter.
const N: u32 = 1003;

/// Limit of one launch in these checks.
const LAUNCH: Milliseconds = Milliseconds(1500);

/// How long after the limit an endless kernel may live; a loaded machine schedules late.
const GRACE: Duration = Duration::from_secs(10);

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// The backend says plainly that it cannot do this; allowed where the check says so.
    Unsupported(String),
    Failed(String),
}

/// One check by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub check: &'static str,
    pub verdict: Verdict,
}

/// A device with what is needed to use it.
#[derive(Clone, Copy)]
pub struct Bed<'a> {
    pub backend: &'a dyn Backend,
    pub device: &'a DeviceDescription,
    /// An empty folder.
    pub folder: &'a Path,
    pub confinement: Confinement,
}

type Check = fn(&Bed<'_>) -> Result<(), Trouble>;

/// Why a check did not pass.
enum Trouble {
    Unsupported(String),
    Wrong(String),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        let text = describe(&failure);
        match failure.outcome.status {
            Status::UnsupportedOnDevice => Self::Unsupported(text),
            Status::Ok
            | Status::WrongResult
            | Status::ContractViolation
            | Status::Suspicious
            | Status::TaskWeak
            | Status::Rejected
            | Status::CompileError
            | Status::CompileTimeout
            | Status::LaunchError
            | Status::RuntimeError
            | Status::Timeout
            | Status::OutOfMemory
            | Status::WorkerLost
            | Status::Infrastructure => Self::Wrong(text),
        }
    }
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self::Wrong(text)
    }
}

/// Runs the whole suite on one device. `Unsupported` stands where a backend may lack a part of the plan.
pub fn check(bed: &Bed<'_>) -> Vec<Finding> {
    let checks: [(&'static str, bool, Check); 15] = [
        ("a sum of vectors is right", false, sum_is_right),
        ("poison is seen where nothing is written", false, poison_survives),
        ("a write past the end of a buffer is caught", false, overrun_is_caught),
        ("a changed input is seen", false, changed_input_is_seen),
        ("an endless kernel is killed at its limit", false, endless_kernel_is_killed),
        ("a fault leaves the next worker fine", false, fault_leaves_next_worker_fine),
        ("kernels, scratch and memset run in order", true, plan_runs_in_order),
        ("a source that does not compile names its line", false, compile_error_names_line),
        ("an entry that is not there is refused", false, missing_entry_is_refused),
        ("each side of a pair has its own result", false, pair::sides_keep_apart),
        ("a fault of one side of a pair is seen on that side", false, pair::fault_is_of_its_side),
        ("some elements read as they do in the whole", false, pair::samples_are_right),
        ("a cancelled launch ends at once", false, pair::cancelled_launch_ends),
        ("each set of buffers lies elsewhere", false, launch::addresses_are_fresh),
        ("the clock of record fits the node's own wait", false, launch::time_fits_the_wait),
    ];
    checks
        .into_iter()
        .map(|(name, may_lack, check)| {
            let verdict = match check(bed) {
                Ok(()) => Verdict::Passed,
                Err(Trouble::Unsupported(text)) if may_lack => Verdict::Unsupported(text),
                Err(Trouble::Unsupported(text) | Trouble::Wrong(text)) => Verdict::Failed(text),
            };
            Finding { check: name, verdict }
        })
        .collect()
}

const SUM: &str = r#"
extern "C" __global__ void sum(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"#;

fn sum_is_right(bed: &Bed<'_>) -> Result<(), Trouble> {
    let artefact = bed.compile("sum", SUM, &["sum"])?;
    bed.sum(&artefact)
}

fn poison_survives(bed: &Bed<'_>) -> Result<(), Trouble> {
    let source = SUM.replace("if (i < n)", "if (i < n && i % 2 == 0)");
    let artefact = bed.compile("half", &source, &["sum"])?;
    let mut worker = bed.open(&artefact)?;
    worker.prepare(&vectors(N))?;
    fill_inputs(worker.as_mut())?;
    worker.fill(2, 0x7b)?;
    worker.launch()?;
    worker.check_fences()?;
    let odd = worker.read(2)?[4..8].to_vec();
    worker.finish();
    if odd == [0x7b; 4] {
        Ok(())
    } else {
        Err(format!("an element that nobody wrote holds {odd:02x?}").into())
    }
}

fn overrun_is_caught(bed: &Bed<'_>) -> Result<(), Trouble> {
    let artefact = bed.compile("overrun", SUM, &["sum"])?;
    // One element, then far more than any slack: the kernel is told a larger n than its buffers have.
    for beyond in [1, 300_000] {
        let mut evaluation = vectors(N);
        let ResolvedStep::Kernel { arguments, grid, .. } = &mut evaluation.steps[0] else { continue };
        arguments[3] = Argument::Scalar((N + beyond).to_le_bytes().to_vec());
        grid[0] = u64::from((N + beyond).div_ceil(256));
        let mut worker = bed.open(&artefact)?;
        worker.prepare(&evaluation)?;
        fill_inputs(worker.as_mut())?;
        worker.fill(2, 0xff)?;
        let outcome = worker.launch().map(|_| ()).and_then(|()| worker.check_fences());
        worker.finish();
        let caught = [Status::ContractViolation, Status::RuntimeError];
        expect(outcome, &caught, &format!("{beyond} elements written past the end"))?;
    }
    Ok(())
}

fn changed_input_is_seen(bed: &Bed<'_>) -> Result<(), Trouble> {
    let source = SUM.replace("c[i] = a[i] + b[i];", "{ c[i] = a[i]; ((float*)b)[i] = 7.0f; }");
    let artefact = bed.compile("input", &source, &["sum"])?;
    let mut worker = bed.open(&artefact)?;
    worker.prepare(&vectors(N))?;
    let (_, b) = fill_inputs(worker.as_mut())?;
    worker.fill(2, 0xff)?;
    match worker.launch() {
        Ok(_) => {
            let now = worker.read(1)?;
            worker.finish();
            if now == b {
                Err("a changed input reads back as it was written".to_owned().into())
            } else {
                Ok(())
            }
        }
        // A device that maps inputs read only stops the kernel instead.
        Err(failure) => expect(Err(failure), &[Status::ContractViolation], "an input written"),
    }
}

fn endless_kernel_is_killed(bed: &Bed<'_>) -> Result<(), Trouble> {
    // A compiler may drop a loop without effect, so this one has one.
    let source = SUM.replace("if (i < n) c[i]", "for (;;) atomicAdd(&c[0], 1.0f); if (i < n) c[i]");
    let artefact = bed.compile("endless", &source, &["sum"])?;
    let mut worker = bed.open(&artefact)?;
    worker.prepare(&vectors(N))?;
    fill_inputs(worker.as_mut())?;
    let start = monotonic();
    let outcome = worker.launch().map(|_| ());
    let took = monotonic().saturating_sub(start);
    worker.finish();
    expect(outcome, &[Status::Timeout], "an endless kernel")?;
    if took > LAUNCH.duration() + GRACE {
        return Err(format!("an endless kernel lived {took:?} under a limit of {LAUNCH}").into());
    }
    bed.sum(&bed.compile("after-endless", SUM, &["sum"])?)
}

fn fault_leaves_next_worker_fine(bed: &Bed<'_>) -> Result<(), Trouble> {
    let source =
        SUM.replace("c[i] = a[i] + b[i];", "*(volatile float*)(unsigned long long)(16 + 4 * n) = 1.0f;");
    let artefact = bed.compile("fault", &source, &["sum"])?;
    let mut worker = bed.open(&artefact)?;
    worker.prepare(&vectors(N))?;
    fill_inputs(worker.as_mut())?;
    let outcome = worker.launch().map(|_| ());
    worker.finish();
    expect(outcome, &[Status::RuntimeError, Status::ContractViolation], "a wild write")?;
    bed.sum(&bed.compile("after-fault", SUM, &["sum"])?)
}

const PLAN: &str = r#"
extern "C" __global__ void scale(const float* a, float* s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) s[i] += 2.0f * a[i];
}
extern "C" __global__ void add(const float* s, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = s[i] + b[i];
}
"#;

fn plan_runs_in_order(bed: &Bed<'_>) -> Result<(), Trouble> {
    let artefact = bed.compile("plan", PLAN, &["scale", "add"])?;
    let mut evaluation = vectors(N);
    let n = Argument::Scalar(N.to_le_bytes().to_vec());
    let bytes = evaluation.buffers[0].bytes;
    evaluation.buffers.push(Buffer {
        name: "s".to_owned(),
        use_: BufferUse::Scratch,
        element: ElementType::F32,
        bytes,
    });
    let first = vec![Argument::Buffer(0), Argument::Buffer(3), n.clone()];
    let second = vec![Argument::Buffer(3), Argument::Buffer(1), Argument::Buffer(2), n];
    evaluation.steps = vec![
        ResolvedStep::Memset { buffer: 3, byte: 0 },
        kernel(0, "scale", first, N),
        kernel(1, "add", second, N),
    ];
    let mut worker = bed.open(&artefact)?;
    worker.prepare(&evaluation)?;
    let (a, b) = fill_inputs(worker.as_mut())?;
    // Twice: the memset belongs to each evaluation, so that the second launch gives the same.
    for _ in 0..2 {
        worker.fill(2, 0xff)?;
        worker.fill(3, 0xff)?;
        worker.launch()?;
        worker.check_fences()?;
        compare(&worker.read(2)?, &a, &b, |a, b| 2.0 * a + b)?;
    }
    worker.finish();
    Ok(())
}

fn compile_error_names_line(bed: &Bed<'_>) -> Result<(), Trouble> {
    let source = "extern \"C\" __global__ void sum(const float* a) {\n    undeclared_name = 1;\n}\n";
    let Err(failure) = bed.compile("broken", source, &["sum"]) else {
        return Err("a source with an undeclared name compiled".to_owned().into());
    };
    let place = failure.outcome.cause.as_ref().and_then(|cause| cause.source.clone());
    match (failure.outcome.status, place) {
        (Status::CompileError, Some(place)) if place.line == 2 => Ok(()),
        (_, place) => Err(format!("{} at {place:?} instead of line 2", describe(&failure)).into()),
    }
}

fn missing_entry_is_refused(bed: &Bed<'_>) -> Result<(), Trouble> {
    let compiled = bed.compile("missing", SUM, &["product"]);
    let outcome = compiled.and_then(|artefact| {
        let mut worker = bed.open(&artefact)?;
        worker.prepare(&vectors(N))
    });
    expect(outcome, &[Status::CompileError, Status::Rejected], "an entry that the source lacks")
}

fn expect(outcome: Result<(), Failure>, wanted: &[Status], what: &str) -> Result<(), Trouble> {
    match outcome {
        Ok(()) => Err(format!("{what}: nothing noticed").into()),
        Err(failure) if wanted.contains(&failure.outcome.status) => Ok(()),
        Err(failure) => Err(format!("{what}: {}", describe(&failure)).into()),
    }
}

fn describe(failure: &Failure) -> String {
    let cause = failure.outcome.cause.as_ref();
    let (code, message) = cause.map_or(("", ""), |cause| (&cause.code, &cause.message));
    format!("{} [{code}] {message}", failure.outcome.status)
}

impl Bed<'_> {
    fn subfolder(&self, name: &str) -> Result<PathBuf, Failure> {
        let folder = self.folder.join(name);
        let made = std::fs::create_dir_all(&folder);
        made.map(|()| folder).map_err(|error| {
            let stage = fleet_config::domain::Stage::Prepare;
            crate::job::fault::infrastructure(stage, "conformance/folder", error.to_string())
        })
    }

    fn compile(&self, name: &str, source: &str, entries: &[&str]) -> Result<Artefact, Failure> {
        let policy = match self.device.kind {
            DeviceKind::Cpu => MeasurementPolicy::cpu_paired(),
            DeviceKind::Gpu | DeviceKind::Compile => MeasurementPolicy::gpu_paired(),
        };
        self.backend.compile(&CompileRequest {
            sources: Sources {
                main: "kernel.cu".to_owned(),
                files: BTreeMap::from([("kernel.cu".to_owned(), source.as_bytes().to_vec())]),
            },
            headers: Vec::new(),
            entries: entries
                .iter()
                .map(|name| EntryPoint { name: (*name).to_owned(), signature: None })
                .collect(),
            architecture: self.device.architecture.clone(),
            policy,
            limit: Milliseconds(60_000),
            folder: self.subfolder(&format!("compile-{name}"))?,
            confinement: self.confinement,
            interrupt: Interrupt::never(),
        })
    }

    fn open(&self, artefact: &Artefact) -> Result<Box<dyn Worker>, Failure> {
        let options = self.options("worker")?;
        self.backend.open(&self.device.id, artefact, &options)
    }

    fn sum(&self, artefact: &Artefact) -> Result<(), Trouble> {
        let mut worker = self.open(artefact)?;
        worker.prepare(&vectors(N))?;
        let (a, b) = fill_inputs(worker.as_mut())?;
        worker.fill(2, 0xff)?;
        let time = worker.launch()?;
        worker.check_fences()?;
        compare(&worker.read(2)?, &a, &b, |a, b| a + b)?;
        if (worker.read(0)?, worker.read(1)?) != (a, b) {
            return Err("an input that nobody changed reads back otherwise".to_owned().into());
        }
        worker.finish();
        if time.0 == 0 { Err("a launch took no time".to_owned().into()) } else { Ok(()) }
    }
}

/// c = f(a, b) over `n` floats.
fn vectors(n: u32) -> Evaluation {
    let buffer = |name: &str, role| Buffer {
        name: name.to_owned(),
        use_: BufferUse::Parameter(role),
        element: ElementType::F32,
        bytes: u64::from(n) * 4,
    };
    let mut arguments: Vec<Argument> = (0..3).map(Argument::Buffer).collect();
    arguments.push(Argument::Scalar(n.to_le_bytes().to_vec()));
    Evaluation {
        case: "conformance".to_owned(),
        buffers: vec![buffer("a", Role::In), buffer("b", Role::In), buffer("c", Role::Out)],
        steps: vec![kernel(0, "sum", arguments, n)],
    }
}

fn kernel(entry: usize, name: &str, arguments: Vec<Argument>, n: u32) -> ResolvedStep {
    ResolvedStep::Kernel {
        entry,
        name: name.to_owned(),
        grid: [u64::from(n.div_ceil(256)), 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
        arguments,
        cooperative: false,
        cluster: None,
    }
}

/// Small integers: every sum is exact, on any device.
fn fill_inputs(worker: &mut dyn Worker) -> Result<(Vec<u8>, Vec<u8>), Failure> {
    let floats = |from: u32| -> Vec<u8> { (from..from + N).flat_map(|i| (i as f32).to_le_bytes()).collect() };
    let (a, b) = (floats(0), floats(5000));
    worker.write(0, &a)?;
    worker.write(1, &b)?;
    Ok((a, b))
}

fn compare(got: &[u8], a: &[u8], b: &[u8], f: fn(f32, f32) -> f32) -> Result<(), Trouble> {
    let float = |bytes: &[u8]| bytes.try_into().map(f32::from_le_bytes).unwrap_or(f32::NAN);
    let inputs = a.chunks_exact(4).zip(b.chunks_exact(4));
    for (index, ((a, b), got)) in inputs.zip(got.chunks_exact(4)).enumerate() {
        let expected = f(float(a), float(b));
        if float(got) != expected {
            return Err(format!("element {index} is {} instead of {expected}", float(got)).into());
        }
    }
    Ok(())
}
