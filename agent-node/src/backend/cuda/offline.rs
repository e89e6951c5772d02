//! Compiling without a GPU: diagnostics, registers, spills and shared memory for each architecture.

use super::compile::Compiler;
use super::{default_cache, toolkit};
use crate::backend::{CompileRequest, EntryPoint, Failure, Interrupt, Sources};
use crate::sandbox::Confinement;
use fleet_config::config::load;
use fleet_config::domain::{
    Architecture, BlobRef, LaunchPlan, MeasurementPolicy, Milliseconds, Outcome, SourceTree,
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
    /// Where cubins are kept; the user's cache folder unless named.
    pub cache: Option<PathBuf>,
    pub confinement: Confinement,
}

/// One source for one architecture.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub source: String,
    pub architecture: String,
    pub compiler: String,
    /// Name of the cubin in the cache; `None` where there is an outcome.
    pub key: Option<String>,
    pub cubin: Option<PathBuf>,
    pub resources: BTreeMap<String, u64>,
    pub log: String,
    /// Why there is no cubin.
    pub outcome: Option<Outcome>,
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
    Unnamed(String),
    #[error("name a source file or `--task DIR`")]
    NoSource,
    #[error("the task or a candidate is refused: {0}")]
    Refused(String),
}

/// Compiles one file for every architecture. Failures of the source are rows; errors are what keeps all from compiling.
pub fn compile_offline(arguments: &OfflineArguments) -> Result<Vec<Row>, OfflineError> {
    if arguments.architectures.is_empty() {
        return Err(OfflineError::NoArchitecture);
    }
    let architectures: Vec<Architecture> =
        arguments.architectures.iter().map(|text| architecture(text)).collect::<Result<_, _>>()?;
    let units = units(arguments)?;
    let cache = arguments.cache.clone().or_else(default_cache).ok_or(OfflineError::NoCache)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| OfflineError::File(path, error)
    };
    fs::create_dir_all(&cache).map_err(failed(&cache))?;
    let cache = fs::canonicalize(&cache).map_err(failed(&cache))?.join("cuda");
    let found = toolkit::search(&toolkit::Surroundings::of_process());
    let compiler = Compiler::choose(found, None, cache.clone(), arguments.confinement)?;
    let name = compiler.name().map_err(|failure| OfflineError::Unnamed(message(&failure)))?;
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
            policy: MeasurementPolicy::gpu_paired(),
            limit: LIMIT,
            folder: folder.clone(),
            confinement: arguments.confinement,
            interrupt: Interrupt::never(),
        };
        let made = compiler.compile(&request);
        let _ = fs::remove_dir_all(&folder);
        rows.push(row(&unit.label, &request, &name, made));
    }
    Ok(rows)
}

/// One translation unit, exactly as a job would compile it, so that its cubin has the same key.
struct Unit {
    label: String,
    sources: Sources,
    headers: Vec<Sources>,
    entries: Vec<EntryPoint>,
}

fn units(arguments: &OfflineArguments) -> Result<Vec<Unit>, OfflineError> {
    let Some(path) = &arguments.task else {
        let file = arguments.file.as_ref().ok_or(OfflineError::NoSource)?;
        let entry = |name: &String| EntryPoint { name: name.clone(), signature: None };
        let entries = arguments.kernels.iter().map(entry).collect();
        let label = file.display().to_string();
        return Ok(vec![Unit { label, sources: sources(file)?, headers: Vec::new(), entries }]);
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

fn architecture(text: &str) -> Result<Architecture, fleet_config::domain::ArchitectureError> {
    if text.contains(':') { text.parse() } else { format!("nvidia:{text}").parse() }
}

fn message(failure: &Failure) -> String {
    failure.outcome.cause.as_ref().map_or_else(String::new, |cause| cause.message.clone())
}

fn row(
    label: &str,
    request: &CompileRequest,
    compiler: &str,
    made: Result<crate::backend::Artefact, Failure>,
) -> Row {
    let row = Row {
        source: label.to_owned(),
        architecture: request.architecture.as_str().to_owned(),
        compiler: compiler.to_owned(),
        key: None,
        cubin: None,
        resources: BTreeMap::new(),
        log: String::new(),
        outcome: None,
    };
    match made {
        Ok(artefact) => Row {
            key: Some(artefact.key.to_string()),
            cubin: Some(artefact.path),
            resources: artefact.resources,
            log: artefact.log,
            ..row
        },
        Err(failure) => Row {
            log: String::from_utf8_lossy(&failure.log.unwrap_or_default()).into_owned(),
            outcome: Some(*failure.outcome),
            ..row
        },
    }
}

fn sources(file: &Path) -> Result<Sources, OfflineError> {
    let bytes =
        super::read_bounded(file, SOURCE_MAX).map_err(|error| OfflineError::File(file.to_owned(), error))?;
    let main =
        file.file_name().map_or_else(|| "kernel.cu".to_owned(), |name| name.to_string_lossy().into_owned());
    Ok(Sources { files: BTreeMap::from([(main.clone(), bytes)]), main })
}
