//! From a candidate's source to a cubin: compile in the sandbox, check, keep by key.

use super::compiler_child::{Answer, CUBIN, Order, UnitOrder};
use super::compiler_run::{Place, RunError, run};
use super::cubin::{self, CubinError, Kernel};
use super::diagnostics::{diagnose, said, steady};
use super::failure::{self, infrastructure};
use super::glue::glue;
use super::nvrtc::CUBIN_MAX;
use super::toolchain::{Toolchain, Toolchains};
use super::toolkit::{self, Installation};
use super::usage::{self, Usage};
use crate::backend::{Artefact, CompileRequest, Failure, Portability, Sources};
use crate::machine_lock::{MachineLockError, locked, unless};
use crate::sandbox::Confinement;
use fleet_config::domain::{BlobRef, Digest, FpContract, GPU_FLAGS, Stage};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// Raised when the way of compiling changes in a manner that no other part of the key sees.
const RECIPE: &str = "muster.cuda-recipe/1";
/// Implies `--fmad=true`, flushed denormals and approximate division and square root.
const FAST_MATH: &str = "--use_fast_math";
/// Log that is kept of a compilation.
const LOG_MAX: usize = 256 << 10;
/// Bytes of the description beside a cubin.
const DESCRIPTION_MAX: u64 = 4 << 20;

/// What is kept beside a cubin, under the same key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    /// Always [`Description::FORMAT`].
    pub format: String,
    pub blob: BlobRef,
    /// Of the instructions alone; see [`usage::of_cubin`].
    pub code: Digest,
    pub architecture: String,
    pub compiler: String,
    pub flags: Vec<String>,
    pub log: String,
    pub resources: BTreeMap<String, u64>,
    /// The kernels of the launch plan, in its order.
    pub kernels: Vec<Kernel>,
    /// What each of them uses.
    pub usage: Vec<Usage>,
}

impl Description {
    pub(super) const FORMAT: &str = "muster.cubin/2";

    /// Reads what lies beside the cubin at `path`.
    pub(super) fn beside(path: &Path) -> io::Result<Self> {
        let bytes = read_bounded(&path.with_extension("json"), DESCRIPTION_MAX)?;
        let read: Self = serde_json::from_slice(&bytes)?;
        if read.format == Self::FORMAT {
            Ok(read)
        } else {
            Err(io::Error::other(format!("its description has the format `{}`", read.format)))
        }
    }
}

/// Why there is no compiler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompilerError {
    #[error("no NVRTC was found; install it with CUDA or the Python package `nvidia-cuda-nvrtc`, or set {variable} to its path", variable = toolkit::VARIABLE)]
    Missing,
    #[error("no NVRTC could be used: {0}")]
    Unusable(String),
}

/// The node's toolchains with a cache folder.
#[derive(Debug)]
pub(super) struct Compiler {
    toolchains: Toolchains,
    cache: PathBuf,
}

impl Compiler {
    /// Every usable NVRTC of `found`; see [`Toolchains::ask`].
    pub(super) fn choose(
        found: Vec<Installation>,
        newest_major: Option<i32>,
        cache: PathBuf,
        confinement: Confinement,
    ) -> Result<Self, CompilerError> {
        let toolchains = Toolchains::ask(found, newest_major, &cache, confinement)?;
        Ok(Self { toolchains, cache })
    }

    pub(super) fn toolchains(&self) -> &Toolchains {
        &self.toolchains
    }

    /// Where the one lies that is taken where nothing else is asked for.
    pub(super) fn path(&self) -> &Path {
        &self.toolchains.first().installation.library
    }

    /// The artefact of `request`, from the cache or made now.
    pub(super) fn compile(&self, request: &CompileRequest) -> Result<Artefact, Failure> {
        let (toolchain, number) = self.toolchains.select(&request.architecture, request.policy.toolchain)?;
        let tail = glue(&request.entries).map_err(|error| failure::glue(&error))?;
        check_tree(&request.sources)?;
        request.headers.iter().try_for_each(check_tree)?;
        if !request.sources.files.contains_key(&request.sources.main) {
            return Err(failure::main_missing(&request.sources.main));
        }
        let flags = flags(request)?;
        let key = key(toolchain, request, &tail, &flags)?;
        let folder = self.cache.join("cubins");
        let path = folder.join(format!("{key}.cubin"));
        let failed = |what: &str, error: io::Error| infrastructure(Stage::Compile, what, &error);
        let description = match kept(&path) {
            Some(description) => description,
            None => {
                fs::create_dir_all(&folder).map_err(|error| failed("make the cache folder", error))?;
                // Whoever comes first compiles; the others wait for it and find the cubin.
                let _turn = self.turn(&folder, key, request)?;
                match kept(&path) {
                    Some(description) => description,
                    None => {
                        let order = Making { toolchain, request, number, tail, flags };
                        let (bytes, description) = order.make()?;
                        // The description last: a cubin without one counts as absent.
                        let text = serde_json::to_vec(&description)
                            .map_err(|error| failed("describe the cubin", error.into()))?;
                        place(&path, &bytes).map_err(|error| failed("keep the cubin", error))?;
                        place(&path.with_extension("json"), &text)
                            .map_err(|error| failed("keep the cubin", error))?;
                        description
                    }
                }
            }
        };
        Ok(Artefact {
            path,
            blob: description.blob,
            key,
            compiler: description.compiler,
            flags: description.flags,
            log: description.log,
            resources: description.resources,
            portability: Portability::Architecture,
            main: request.sources.main.clone(),
        })
    }

    /// Keeps every other compilation of the same key out until the guard goes: of this node and of all on this cache
    /// folder. The lock files are as many as a byte has values, so that they need not be cleared away; two keys that
    /// share one wait for each other, which costs little and is rare.
    fn turn(&self, folder: &Path, key: Digest, request: &CompileRequest) -> Result<OwnedFd, Failure> {
        let [first, ..] = key.0;
        let file = folder.join(format!("compiling-{first:02x}.lock"));
        let take =
            move || -> Result<OwnedFd, MachineLockError> { locked(&file, FlockOperation::LockExclusive) };
        match unless(take, &|| request.interrupt.asked()) {
            Ok(Some(held)) => Ok(held),
            Ok(None) => Err(failure::interrupted(Stage::Compile)),
            Err(error) => Err(infrastructure(Stage::Compile, "wait for another compilation", &error)),
        }
    }
}

fn key(
    toolchain: &Toolchain,
    request: &CompileRequest,
    tail: &str,
    flags: &[String],
) -> Result<Digest, Failure> {
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    add(RECIPE.as_bytes());
    add(toolchain.digest()?.as_bytes());
    add(request.architecture.as_str().as_bytes());
    add(request.sources.main.as_bytes());
    add(tail.as_bytes());
    for (kind, texts) in [("flag", flags.to_vec()), ("kernel", kernels(request))] {
        for text in texts {
            add(kind.as_bytes());
            add(text.as_bytes());
        }
    }
    for (root, tree) in std::iter::once(&request.sources).chain(&request.headers).enumerate() {
        add(&(root as u64).to_le_bytes());
        for (path, bytes) in &tree.files {
            add(path.as_bytes());
            add(bytes);
        }
    }
    Ok(Digest(*hasher.finalize().as_bytes()))
}

/// One compilation that has to be done.
struct Making<'a> {
    toolchain: &'a Toolchain,
    request: &'a CompileRequest,
    number: u32,
    tail: String,
    flags: Vec<String>,
}

impl Making<'_> {
    fn make(self) -> Result<(Vec<u8>, Description), Failure> {
        let Self { toolchain, request, number, tail, flags } = self;
        let (log, symbols) = answered(toolchain, request, tail, &flags)?;
        let failed = |what: &str, error: io::Error| infrastructure(Stage::Compile, what, &error);
        let bytes = read_bounded(&request.folder.join(CUBIN), CUBIN_MAX as u64)
            .map_err(|error| failed("read the cubin", error))?;
        let refused = |error: CubinError| infrastructure(Stage::Compile, "accept the cubin", &error);
        let found = cubin::kernels(&bytes, number).map_err(refused)?;
        let kernels = ordered(&found, &symbols, &request.entries)?;
        let (all, code) = usage::of_cubin(&bytes, number).map_err(refused)?;
        let of = |kernel: &Kernel| all.iter().find(|usage| usage.symbol == kernel.symbol).cloned();
        let mut usage: Vec<Usage> = kernels.iter().filter_map(of).collect();
        usage::complete(&mut usage, &said(&log));
        let blob = BlobRef::of(&bytes);
        let mut resources = usage::resources(&usage);
        resources.insert("artefact_bytes".to_owned(), blob.size);
        let description = Description {
            format: Description::FORMAT.to_owned(),
            blob,
            code: Digest(*code.as_bytes()),
            architecture: request.architecture.as_str().to_owned(),
            compiler: toolchain.name()?,
            flags,
            log,
            resources,
            kernels,
            usage,
        };
        Ok((bytes, description))
    }
}

/// Lets the sandboxed child compile; its log and the symbols of the asked kernels.
fn answered(
    toolchain: &Toolchain,
    request: &CompileRequest,
    tail: String,
    flags: &[String],
) -> Result<(String, Vec<String>), Failure> {
    let failed = |what: &str, error: io::Error| infrastructure(Stage::Compile, what, &error);
    write_tree(&request.folder.join("source"), &request.sources)
        .map_err(|error| failed("write the sources", error))?;
    for (index, tree) in request.headers.iter().enumerate() {
        let root = request.folder.join(format!("headers{index}"));
        write_tree(&root, tree).map_err(|error| failed("write the headers", error))?;
    }
    let installation = &toolchain.installation;
    let mut options = flags.to_vec();
    options.push("-I=source".to_owned());
    options.extend((0..request.headers.len()).map(|index| format!("-I=headers{index}")));
    options.extend(installation.includes.iter().map(|root| format!("-I={}", root.display())));
    let unit =
        UnitOrder { main: request.sources.main.clone(), glue: tail, options, kernels: kernels(request) };
    let Installation { origin: _, library, builtins, includes: _ } = installation.clone();
    let order = Order { library, builtins, unit: Some(unit) };
    let limit = request.limit.duration();
    let place = Place { folder: &request.folder, confinement: request.confinement };
    let (answer, output) =
        run(&order, installation, place, limit, &request.interrupt).map_err(|error| match error {
            RunError::Interrupted => failure::interrupted(Stage::Compile),
            RunError::Deadline => failure::compile_timeout(request.limit),
            RunError::Died { signal, output } => {
                let message = format!("the compiler was ended by signal {signal}");
                let diagnosis = super::diagnostics::Diagnosis::Error { message, place: None };
                failure::diagnosis(diagnosis, &output)
            }
            RunError::Other(cause) => infrastructure(Stage::Compile, "run the compiler", &cause),
        })?;
    match answer {
        Answer::Compiled { log, symbols } => Ok((cleaned(&log), symbols)),
        Answer::Refused { log } => {
            let log = cleaned(&log);
            Err(failure::diagnosis(diagnose(&log), &log))
        }
        Answer::Option { log } => {
            let message = format!("{} refuses the options {flags:?}", toolchain.short_name());
            Err(failure::logged(failure::toolchain(message), cleaned(&log).as_bytes()))
        }
        Answer::Failed { cause } => {
            let failure = infrastructure(Stage::Compile, "use NVRTC", &cause);
            Err(failure::logged(failure, output.as_bytes()))
        }
        Answer::Library { .. } => {
            Err(infrastructure(Stage::Compile, "use NVRTC", &"it answered another question"))
        }
    }
}

/// Flags of architecture and policy. Nothing that reads or writes files is let through.
fn flags(request: &CompileRequest) -> Result<Vec<String>, Failure> {
    let mut flags = vec![format!("-arch={}", request.architecture.name())];
    flags.push(match request.policy.fp_contract {
        FpContract::Off => "--fmad=false".to_owned(),
        FpContract::Fast => "--fmad=true".to_owned(),
    });
    for flag in &request.policy.compiler_flags {
        if !GPU_FLAGS.contains(&flag.as_str()) {
            return Err(failure::flag(flag));
        }
        // Fast mathematics fuses multiplications and additions, whatever else is asked for.
        if flag == FAST_MATH && request.policy.fp_contract == FpContract::Off {
            return Err(failure::flag("--use_fast_math beside fp_contract = off"));
        }
        flags.push(flag.clone());
    }
    flags.push("--ptxas-options=-v".to_owned());
    Ok(flags)
}

fn kernels(request: &CompileRequest) -> Vec<String> {
    request.entries.iter().map(|entry| entry.name.trim().to_owned()).collect()
}

/// The kernels of the plan in its order; without a plan, all that the cubin has.
fn ordered(
    found: &[Kernel],
    symbols: &[String],
    entries: &[crate::backend::EntryPoint],
) -> Result<Vec<Kernel>, Failure> {
    if entries.is_empty() {
        return Ok(found.to_vec());
    }
    if symbols.len() != entries.len() {
        return Err(infrastructure(Stage::Compile, "name the kernels", &"the compiler named another number"));
    }
    let kernel = |symbol: &String| {
        let kernel = found.iter().find(|kernel| kernel.symbol == *symbol).cloned();
        kernel.ok_or_else(|| failure::entry_missing(&format!("`{symbol}` is no kernel")))
    };
    symbols.iter().map(kernel).collect()
}

/// The log with the submitter's file names, without what differs between two runs, bounded.
fn cleaned(log: &str) -> String {
    let lines = steady(log);
    let mut text = String::with_capacity(lines.len());
    for line in lines.lines() {
        let line = line.strip_prefix("source/").unwrap_or(line);
        let line = match line.strip_prefix("headers").and_then(|rest| rest.split_once('/')) {
            Some((digits, rest)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => rest,
            _ => line,
        };
        if text.len() + line.len() >= LOG_MAX {
            text.push_str("… cut here\n");
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// A cubin of the cache with its description, if both are whole.
fn kept(path: &Path) -> Option<Description> {
    let description = Description::beside(path).ok()?;
    let bytes = read_bounded(path, CUBIN_MAX as u64).ok()?;
    (BlobRef::of(&bytes) == description.blob).then_some(description)
}

pub(super) fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("{} has more than {limit} bytes", path.display())));
    }
    Ok(bytes)
}

/// Writes a file so that a reader sees all of it or nothing.
fn place(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside =
        path.with_extension(format!("part-{}-{:?}", std::process::id(), std::thread::current().id()));
    fs::write(&beside, bytes)?;
    fs::rename(&beside, path)
}

fn check_tree(tree: &Sources) -> Result<(), Failure> {
    for (path, bytes) in &tree.files {
        let inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || path.is_empty() {
            return Err(failure::path_outside(path));
        }
        if bytes.contains(&0) {
            return Err(failure::source_refused(path, "has a NUL byte"));
        }
        if std::str::from_utf8(bytes).is_err() {
            return Err(failure::source_refused(path, "is not UTF-8"));
        }
    }
    Ok(())
}

fn write_tree(root: &Path, tree: &Sources) -> io::Result<()> {
    fs::create_dir_all(root)?;
    for (path, bytes) in &tree.files {
        let target = root.join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(target, bytes)?;
    }
    Ok(())
}
