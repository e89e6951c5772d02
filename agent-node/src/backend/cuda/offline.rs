//! Compiling without a GPU: diagnostics, and what each kernel uses on each architecture.

use super::compile::{Compiler, Description};
use super::occupancy::{self, Block, Occupancy};
use super::toolchain::{ToolchainFacts, message};
use super::usage::Usage;
use super::{architecture, default_cache, toolkit};
use crate::backend::{Artefact, CompileRequest, EntryPoint, Failure, Interrupt, ResolvedStep, Sources};
use crate::sandbox::Confinement;
use fleet_config::config::load;
use fleet_config::domain::{
    Architecture, BlobRef, CaseKind, Digest, LaunchPlan, MeasurementPolicy, Milliseconds, Outcome,
    SourceTree, Task,
};
use fleet_config::refusal::Refusal;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Time for one source and architecture; nobody waits in a queue behind it.
const LIMIT: Milliseconds = Milliseconds(300_000);
/// Bytes of one source file.
const SOURCE_MAX: u64 = 16 << 20;
/// Threads of a block that nothing is said about.
const THREADS: u64 = 256;

/// What to compile.
#[derive(Debug, Clone)]
pub struct OfflineArguments {
    /// One source file; or
    pub file: Option<PathBuf>,
    /// a task's folder or file: its reference, its baseline, and
    pub task: Option<PathBuf>,
    /// candidates of that task.
    pub candidates: Vec<PathBuf>,
    /// Kernels that the one file must define; none means all that it has.
    pub kernels: Vec<String>,
    /// `sm_90a`, or with its vendor `nvidia:sm_90a`.
    pub architectures: Vec<String>,
    /// Flags beside those of the default GPU policy.
    pub flags: Vec<String>,
    /// Threads of a block and its dynamic shared memory, for occupancy; a task's plan and the kernel say them otherwise.
    pub threads: Option<u64>,
    pub dynamic_shared_bytes: Option<u64>,
    /// Where NVRTC is looked for in place of the usual places.
    pub nvrtc: Option<PathBuf>,
    /// The toolchain to take: a version or the first digits of a digest.
    pub toolchain: Option<String>,
    /// Where cubins are kept; the user's cache folder unless named.
    pub cache: Option<PathBuf>,
    pub confinement: Confinement,
}

/// Everything that was compiled, and with what.
#[derive(Debug, Clone, Serialize)]
pub struct OfflineReport {
    /// The toolchains that were found and can be used, best first.
    pub toolchains: Vec<ToolchainFacts>,
    /// What was wrong with others.
    pub unusable: Vec<String>,
    pub rows: Vec<Row>,
}

/// One source for one architecture.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub source: String,
    pub architecture: String,
    /// `NVRTC 13.0` with the digest of the library; empty where none knows the architecture.
    pub compiler: String,
    /// Digest of the toolchain that compiled.
    pub toolchain: Option<Digest>,
    pub flags: Vec<String>,
    /// Name of the cubin in the cache; `None` where there is an outcome.
    pub key: Option<String>,
    pub cubin: Option<PathBuf>,
    pub cubin_bytes: Option<u64>,
    /// blake3 of the cubin.
    pub cubin_digest: Option<Digest>,
    /// blake3 over the instructions of every function.
    pub code_digest: Option<Digest>,
    pub resources: BTreeMap<String, u64>,
    pub kernels: Vec<KernelRow>,
    pub log: String,
    /// Why there is no cubin.
    pub outcome: Option<Outcome>,
}

/// One kernel of it.
#[derive(Debug, Clone, Serialize)]
pub struct KernelRow {
    pub usage: Usage,
    /// Threads of a block, and who says so.
    pub threads: u64,
    pub threads_from: ThreadsFrom,
    pub dynamic_shared_bytes: u64,
    /// `None` for an architecture whose limits are not known.
    pub occupancy: Option<Occupancy>,
}

/// Who says how many threads a block has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadsFrom {
    /// The caller.
    Asked,
    /// The launch plan, for the first performance case.
    Plan,
    /// The kernel allows no other number.
    Kernel,
    /// Nobody; 256, or as many as the kernel allows.
    Assumed,
}

/// Why nothing was compiled.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    #[error("{0}; write an architecture such as `sm_90a`")]
    Architecture(#[from] fleet_config::domain::ArchitectureError),
    #[error("name at least one architecture, such as `--arch sm_90a`")]
    NoArchitecture,
    #[error("{0}: {1}")]
    File(PathBuf, #[source] io::Error),
    #[error("there is no cache folder: set HOME or name one with `--cache`")]
    NoCache,
    #[error(transparent)]
    Compiler(#[from] super::CompilerError),
    #[error("{0}")]
    Toolchain(String),
    #[error("name a source file or `--task DIR`")]
    NoSource,
    #[error("the task or a candidate is refused: {0}")]
    Refused(String),
}

/// Compiles every source for every architecture.
pub fn compile_offline(arguments: &OfflineArguments) -> Result<OfflineReport, OfflineError> {
    let architectures: Vec<Architecture> =
        arguments.architectures.iter().map(|text| parsed(text)).collect::<Result<_, _>>()?;
    if architectures.is_empty() {
        return Err(OfflineError::NoArchitecture);
    }
    let units = units(arguments)?;
    let cache = arguments.cache.clone().or_else(default_cache).ok_or(OfflineError::NoCache)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| OfflineError::File(path, error)
    };
    fs::create_dir_all(&cache).map_err(failed(&cache))?;
    let cache = fs::canonicalize(&cache).map_err(failed(&cache))?.join("cuda");
    let found = toolkit::search(&toolkit::Surroundings::of_process(arguments.nvrtc.as_deref()));
    let compiler = Compiler::choose(found, None, cache.clone(), arguments.confinement)?;
    let mut policy = MeasurementPolicy::gpu_paired().with_flags(arguments.flags.clone());
    if let Some(text) = &arguments.toolchain {
        let pinned = compiler.toolchains().named(text).map_err(OfflineError::Toolchain)?;
        policy = policy.with_toolchain(pinned);
    }
    let mut rows = Vec::new();
    for (number, (unit, architecture)) in units
        .iter()
        .flat_map(|unit| architectures.iter().map(move |architecture| (unit, architecture)))
        .enumerate()
    {
        let folder = cache.join(format!("offline-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let request = CompileRequest {
            sources: unit.sources.clone(),
            headers: unit.headers.clone(),
            entries: unit.entries.clone(),
            architecture: architecture.clone(),
            policy: policy.clone(),
            limit: LIMIT,
            folder: folder.clone(),
            confinement: arguments.confinement,
            interrupt: Interrupt::never(),
        };
        let made = compiler.compile(&request);
        let _ = fs::remove_dir_all(&folder);
        rows.push(row(arguments, unit, &request, &compiler, made));
    }
    let facts = compiler.toolchains().all().iter().map(|toolchain| toolchain.facts());
    let toolchains =
        facts.collect::<Result<_, _>>().map_err(|failure| OfflineError::Toolchain(message(&failure)))?;
    Ok(OfflineReport { toolchains, unusable: compiler.toolchains().refusals.clone(), rows })
}

/// One translation unit, exactly as a job would compile it, so that its cubin has the same key.
struct Unit {
    label: String,
    sources: Sources,
    headers: Vec<Sources>,
    entries: Vec<EntryPoint>,
    /// The launch plan with its task, where there is one.
    plan: Option<(Task, LaunchPlan)>,
}

fn units(arguments: &OfflineArguments) -> Result<Vec<Unit>, OfflineError> {
    let Some(path) = &arguments.task else {
        let file = arguments.file.as_ref().ok_or(OfflineError::NoSource)?;
        let entry = |name: &String| EntryPoint { name: name.clone(), signature: None };
        let entries = arguments.kernels.iter().map(entry).collect();
        let label = file.display().to_string();
        return Ok(vec![Unit { label, sources: sources(file)?, headers: Vec::new(), entries, plan: None }]);
    };
    let path = if path.is_dir() { path.join("task.toml") } else { path.clone() };
    let refused = |refusals: Vec<Refusal>| {
        OfflineError::Refused(refusals.iter().map(Refusal::to_string).collect::<Vec<_>>().join("; "))
    };
    // The salt seals holdouts and does not reach a compiler.
    let loaded = load::task(&path, &[0; 32]).map_err(|findings| refused(findings.refusals))?;
    let task = &loaded.task;
    let headers: Vec<Sources> = task.headers.iter().map(|tree| tree_sources(tree, &loaded.blobs)).collect();
    let unit = |label: &str, tree: &SourceTree, plan: &LaunchPlan, blobs: &[(BlobRef, Vec<u8>)]| Unit {
        label: label.to_owned(),
        sources: tree_sources(tree, blobs),
        headers: headers.clone(),
        entries: crate::job::entries(task, plan),
        plan: Some((task.clone(), plan.clone())),
    };
    let mut units = Vec::new();
    for (label, side) in [("reference", &task.reference), ("baseline", &task.baseline)] {
        units.push(unit(label, &side.source, &side.plan, &loaded.blobs));
    }
    for path in &arguments.candidates {
        for found in load::candidates(path, &task.entry, task.limits.source).map_err(refused)? {
            let plan = found.candidate.plan.as_ref().unwrap_or(&task.baseline.plan);
            units.push(unit(&found.candidate.name, &found.candidate.source, plan, &found.blobs));
        }
    }
    Ok(units)
}

fn tree_sources(tree: &SourceTree, blobs: &[(BlobRef, Vec<u8>)]) -> Sources {
    let bytes =
        |blob: BlobRef| blobs.iter().find(|(known, _)| *known == blob).map(|(_, bytes)| bytes.clone());
    let files = tree.files.iter().filter_map(|file| Some((file.path.clone(), bytes(file.blob)?))).collect();
    Sources { main: tree.main.clone(), files }
}

fn parsed(text: &str) -> Result<Architecture, fleet_config::domain::ArchitectureError> {
    if text.contains(':') { text.parse() } else { format!("nvidia:{text}").parse() }
}

fn row(
    arguments: &OfflineArguments,
    unit: &Unit,
    request: &CompileRequest,
    compiler: &Compiler,
    made: Result<Artefact, Failure>,
) -> Row {
    let toolchain = compiler.toolchains().select(&request.architecture, request.policy.toolchain).ok();
    let toolchain = toolchain.map(|(toolchain, _)| toolchain);
    let row = Row {
        source: unit.label.clone(),
        architecture: request.architecture.as_str().to_owned(),
        compiler: toolchain.and_then(|one| one.name().ok()).unwrap_or_default(),
        toolchain: toolchain.and_then(|one| one.digest().ok()),
        flags: Vec::new(),
        key: None,
        cubin: None,
        cubin_bytes: None,
        cubin_digest: None,
        code_digest: None,
        resources: BTreeMap::new(),
        kernels: Vec::new(),
        log: String::new(),
        outcome: None,
    };
    match made {
        Ok(artefact) => {
            let description = Description::beside(&artefact.path).ok();
            let usage = description.as_ref().map(|description| description.usage.clone()).unwrap_or_default();
            let launches = launches(unit, request);
            let kernels = usage.into_iter().enumerate();
            let kernel =
                |(at, usage)| kernel(arguments, launches.get(&at).copied(), &request.architecture, usage);
            Row {
                flags: artefact.flags,
                key: Some(artefact.key.to_string()),
                cubin: Some(artefact.path),
                cubin_bytes: Some(artefact.blob.size),
                cubin_digest: Some(artefact.blob.blake3),
                code_digest: description.map(|description| description.code),
                resources: artefact.resources,
                kernels: kernels.map(kernel).collect(),
                log: artefact.log,
                ..row
            }
        }
        Err(failure) => Row {
            log: String::from_utf8_lossy(&failure.log.unwrap_or_default()).into_owned(),
            outcome: Some(*failure.outcome),
            ..row
        },
    }
}

/// Threads and dynamic shared memory of each kernel of the plan, in its first performance case; nothing where the plan
/// asks what differs between boards.
fn launches(unit: &Unit, request: &CompileRequest) -> BTreeMap<usize, (u64, u64)> {
    let Some((task, plan)) = &unit.plan else { return BTreeMap::new() };
    let case = task.cases.iter().find(|case| case.kind == CaseKind::Performance);
    let number = architecture::number(&request.architecture).unwrap_or(0);
    let resolved =
        case.and_then(|case| crate::job::resolved(task, case, &occupancy::attributes(number), plan).ok());
    let mut found = BTreeMap::new();
    for step in resolved.into_iter().flat_map(|evaluation| evaluation.steps) {
        if let ResolvedStep::Kernel { entry, block, shared_bytes, .. } = step {
            let threads = block.iter().fold(1u64, |product, side| product.saturating_mul(*side));
            found.entry(entry).or_insert((threads, shared_bytes));
        }
    }
    found
}

fn kernel(
    arguments: &OfflineArguments,
    launch: Option<(u64, u64)>,
    architecture: &Architecture,
    usage: Usage,
) -> KernelRow {
    let (threads, threads_from) = match (arguments.threads, launch, usage.threads_required) {
        (Some(threads), _, _) => (threads, ThreadsFrom::Asked),
        (None, Some((threads, _)), _) => (threads, ThreadsFrom::Plan),
        (None, None, Some(threads)) => (threads, ThreadsFrom::Kernel),
        (None, None, None) => (THREADS.min(usage.threads_max.unwrap_or(THREADS)), ThreadsFrom::Assumed),
    };
    let dynamic = arguments.dynamic_shared_bytes.or_else(|| launch.map(|(_, bytes)| bytes)).unwrap_or(0);
    let block = usage.registers.map(|registers| Block {
        threads,
        registers,
        shared_bytes: usage.shared_bytes.saturating_add(dynamic),
        barriers: usage.barriers.unwrap_or(0),
    });
    let number = architecture::number(architecture);
    let occupancy = block.zip(number).and_then(|(block, number)| occupancy::occupancy(number, block));
    KernelRow { usage, threads, threads_from, dynamic_shared_bytes: dynamic, occupancy }
}

fn sources(file: &Path) -> Result<Sources, OfflineError> {
    let unreadable = |error| OfflineError::File(file.to_owned(), error);
    // Opening a pipe would wait for somebody who writes into it.
    if !fs::metadata(file).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is no regular file")));
    }
    let bytes =
        super::read_bounded(file, SOURCE_MAX).map_err(|error| OfflineError::File(file.to_owned(), error))?;
    let main =
        file.file_name().map_or_else(|| "kernel.cu".to_owned(), |name| name.to_string_lossy().into_owned());
    Ok(Sources { files: BTreeMap::from([(main.clone(), bytes)]), main })
}
