//! Compiles a source, gives it buffers, launches it, checks the fences and hands the buffers back.

use agent_node::backend::cpu::{
    ArtefactCache, CpuBackend, Toolchain, USUAL_COMPILERS, attributes, host_levels,
};
use agent_node::backend::screen::{ScreenRequest, Screening};
use agent_node::backend::{
    Argument, Artefact, Backend, Buffer, BufferUse, CompileRequest, EntryPoint, Evaluation, Failure,
    Interrupt, ResolvedStep, Sources, Worker, WorkerOptions,
};
use agent_node::sandbox::{Confinement, set_launcher};
use fleet_config::domain::{
    Architecture, DeviceDescription, DeviceId, DeviceKind, ElementType, FpContract, MeasurementPolicy,
    Milliseconds, Role, Screen,
};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use tempfile::TempDir;

const MEMORY: u64 = 64 << 20;
/// Far beyond what these kernels need, even on a loaded machine.
pub(crate) const PATIENT: u64 = 60_000;

/// A device with its folders. `None`, with a printed reason, where no compiler is found.
pub(crate) struct Bench {
    pub(crate) backend: CpuBackend,
    folder: TempDir,
    pub(crate) architecture: Architecture,
    pub(crate) policy: MeasurementPolicy,
    pub(crate) interrupt: Interrupt,
}

/// One folder for all tests: the precompiled header is made once.
fn cache() -> PathBuf {
    static CACHE: OnceLock<TempDir> = OnceLock::new();
    CACHE.get_or_init(|| tempfile::tempdir().unwrap()).path().to_owned()
}

pub(crate) fn bench() -> Option<Bench> {
    let compilers: Vec<PathBuf> = USUAL_COMPILERS.iter().map(PathBuf::from).collect();
    bench_with(&compilers)
}

pub(crate) fn bench_with(compilers: &[PathBuf]) -> Option<Bench> {
    bench_on(compilers, 2)
}

/// A device whose workers have one thread, which takes every signal.
pub(crate) fn bench_of_one_thread() -> Option<Bench> {
    let compilers: Vec<PathBuf> = USUAL_COMPILERS.iter().map(PathBuf::from).collect();
    bench_on(&compilers, 1)
}

fn bench_on(compilers: &[PathBuf], threads: u32) -> Option<Bench> {
    set_launcher(PathBuf::from(env!("CARGO_BIN_EXE_muster-node")));
    let folder = tempfile::tempdir().unwrap();
    let toolchain = match Toolchain::discover(compilers, folder.path(), Confinement::Required) {
        Ok(toolchain) => toolchain,
        Err(error) => {
            // Past the capture of a passing test's output, so that `scripts/check.sh` counts it.
            let _said = writeln!(std::io::stderr().lock(), "\nSKIPPED: {error}");
            return None;
        }
    };
    let architecture = host_levels().remove(0);
    let device = DeviceDescription {
        id: DeviceId("CPU-test".to_owned()),
        kind: DeviceKind::Cpu,
        architecture: architecture.clone(),
        memory: MEMORY,
        identity: BTreeMap::new(),
        configuration: BTreeMap::new(),
        attributes: attributes(threads),
    };
    let mut policy = MeasurementPolicy::cpu_paired();
    policy.fp_contract = FpContract::Off;
    let backend = CpuBackend::new(toolchain, device, threads, ArtefactCache::new(cache(), 1 << 30));
    Some(Bench { backend, folder, architecture, policy, interrupt: Interrupt::never() })
}

/// A launch: geometry, dynamic shared memory, scalars and buffers in the kernel's order.
pub(crate) struct Launch {
    pub(crate) grid: [u64; 3],
    pub(crate) block: [u64; 3],
    pub(crate) shared_bytes: u64,
    pub(crate) arguments: Vec<Given>,
    pub(crate) limit: u64,
}

pub(crate) fn launch(grid: u64, block: u64, arguments: Vec<Given>) -> Launch {
    Launch { grid: [grid, 1, 1], block: [block, 1, 1], shared_bytes: 0, arguments, limit: PATIENT }
}

pub(crate) enum Given {
    In(Vec<u8>),
    Inout(Vec<u8>),
    Out(usize),
    Int(i32),
    Float(f32),
}

pub(crate) fn input(values: &[f32]) -> Given {
    Given::In(bytes(values))
}
pub(crate) fn output(elements: usize) -> Given {
    Given::Out(elements * 4)
}
pub(crate) fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}
pub(crate) fn ints(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|chunk| i32::from_le_bytes(chunk.try_into().unwrap())).collect()
}
/// Values that differ from each other and are no powers of two.
pub(crate) fn ramp(count: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 37 + 11) % 101) as f32 / 7.0 - 6.0).collect()
}

impl Bench {
    pub(crate) fn compile(
        &self,
        source: &str,
        name: &str,
        signature: Option<&str>,
    ) -> Result<Artefact, Failure> {
        let files = BTreeMap::from([("kernels/cand.cu".to_owned(), source.as_bytes().to_vec())]);
        self.compile_tree(files, name, signature)
    }

    pub(crate) fn compile_tree(
        &self,
        files: BTreeMap<String, Vec<u8>>,
        name: &str,
        signature: Option<&str>,
    ) -> Result<Artefact, Failure> {
        self.backend.compile(&self.request(files, name, signature))
    }

    fn request(
        &self,
        files: BTreeMap<String, Vec<u8>>,
        name: &str,
        signature: Option<&str>,
    ) -> CompileRequest {
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap().keep();
        CompileRequest {
            sources: Sources { main: "kernels/cand.cu".to_owned(), files },
            headers: vec![Sources {
                main: String::new(),
                files: BTreeMap::from([("task.h".to_owned(), b"#define FROM_TASK 3\n".to_vec())]),
            }],
            entries: vec![EntryPoint { name: name.to_owned(), signature: signature.map(str::to_owned) }],
            architecture: self.architecture.clone(),
            policy: self.policy.clone(),
            limit: Milliseconds(PATIENT),
            folder,
            confinement: Confinement::Required,
            interrupt: self.interrupt.clone(),
        }
    }

    /// Runs one screen over `launch`; the ordinary build must succeed.
    pub(crate) fn screen(&self, screen: Screen, source: &str, name: &str, launch: &Launch) -> Screening {
        let files = BTreeMap::from([("kernels/cand.cu".to_owned(), source.as_bytes().to_vec())]);
        let artefact = self.compile_tree(files.clone(), name, None).unwrap();
        let (evaluation, contents) = evaluation(name, launch);
        let fill = |(content, buffer): (&Option<Vec<u8>>, &Buffer)| {
            content.clone().unwrap_or_else(|| vec![0xff; usize::try_from(buffer.bytes).unwrap()])
        };
        let contents: Vec<Vec<u8>> = contents.iter().zip(&evaluation.buffers).map(fill).collect();
        let request = ScreenRequest {
            screen,
            compile: &self.request(files, name, None),
            artefact: &artefact,
            evaluation: &evaluation,
            contents: &contents,
            worker: &self.options(launch.limit),
        };
        self.backend.screen(&DeviceId("CPU-test".to_owned()), &request).unwrap()
    }

    /// How a worker is opened whose kernel has `limit` milliseconds.
    pub(crate) fn options(&self, limit: u64) -> WorkerOptions {
        WorkerOptions {
            folder: tempfile::tempdir_in(self.folder.path()).unwrap().keep(),
            confinement: Confinement::Required,
            launch_limit: Milliseconds(limit),
            memory: MEMORY,
            interrupt: self.interrupt.clone(),
        }
    }

    /// A fresh folder of its own.
    pub(crate) fn subfolder(&self) -> PathBuf {
        tempfile::tempdir_in(self.folder.path()).unwrap().keep()
    }

    /// Compiles, launches once, checks fences; the buffers in order, inputs too.
    pub(crate) fn run(&self, source: &str, name: &str, launch: &Launch) -> Result<Vec<Vec<u8>>, Failure> {
        let artefact = self.compile(source, name, None)?;
        self.launch(&artefact, name, launch)
    }

    /// A worker with `artefact` loaded, whose launches may take `limit` milliseconds.
    pub(crate) fn worker(&self, artefact: &Artefact, limit: u64) -> Result<Box<dyn Worker>, Failure> {
        self.backend.open(&DeviceId("CPU-test".to_owned()), artefact, &self.options(limit))
    }

    fn launch(&self, artefact: &Artefact, name: &str, launch: &Launch) -> Result<Vec<Vec<u8>>, Failure> {
        let mut worker = self.worker(artefact, launch.limit)?;
        let read = evaluate(worker.as_mut(), name, launch)?;
        worker.finish();
        Ok(read)
    }
}

/// Prepares, writes, launches once, checks fences; the buffers in order.
pub(crate) fn evaluate(
    worker: &mut dyn Worker,
    name: &str,
    launch: &Launch,
) -> Result<Vec<Vec<u8>>, Failure> {
    let (evaluation, contents) = evaluation(name, launch);
    load(worker, &evaluation, &contents)?;
    let time = worker.launch()?;
    assert!(time.0 > 0, "a launch takes time");
    worker.check_fences()?;
    (0..evaluation.buffers.len()).map(|index| worker.read(index)).collect()
}

/// Fresh buffers, inputs written and outputs poisoned, nothing launched.
pub(crate) fn prepare(worker: &mut dyn Worker, name: &str, launch: &Launch) {
    let (evaluation, contents) = evaluation(name, launch);
    load(worker, &evaluation, &contents).unwrap();
}

fn load(
    worker: &mut dyn Worker,
    evaluation: &Evaluation,
    contents: &[Option<Vec<u8>>],
) -> Result<(), Failure> {
    worker.prepare(evaluation)?;
    for (index, content) in contents.iter().enumerate() {
        match content {
            Some(bytes) => worker.write(index, bytes)?,
            None => worker.fill(index, 0xff)?,
        }
    }
    Ok(())
}

fn evaluation(name: &str, launch: &Launch) -> (Evaluation, Vec<Option<Vec<u8>>>) {
    let (mut buffers, mut contents, mut arguments) = (Vec::new(), Vec::new(), Vec::new());
    for given in &launch.arguments {
        let (role, bytes, content) = match given {
            Given::Int(value) => {
                arguments.push(Argument::Scalar(value.to_le_bytes().to_vec()));
                continue;
            }
            Given::Float(value) => {
                arguments.push(Argument::Scalar(value.to_le_bytes().to_vec()));
                continue;
            }
            Given::In(bytes) => (Role::In, bytes.len(), Some(bytes.clone())),
            Given::Inout(bytes) => (Role::Inout, bytes.len(), Some(bytes.clone())),
            Given::Out(bytes) => (Role::Out, *bytes, None),
        };
        arguments.push(Argument::Buffer(buffers.len()));
        buffers.push(Buffer {
            name: format!("b{}", buffers.len()),
            use_: BufferUse::Parameter(role),
            element: ElementType::F32,
            bytes: bytes as u64,
        });
        contents.push(content);
    }
    let step = ResolvedStep::Kernel {
        entry: 0,
        name: name.to_owned(),
        grid: launch.grid,
        block: launch.block,
        shared_bytes: launch.shared_bytes,
        arguments,
        cooperative: false,
        cluster: None,
    };
    (Evaluation { case: "small".to_owned(), buffers, steps: vec![step] }, contents)
}
