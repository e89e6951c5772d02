//! From a candidate's source to a cubin: compile in the sandbox, check, keep by key.

use super::architecture;
use super::compiler_child::{Answer, CUBIN, Order, UnitOrder};
use super::compiler_run::{Place, RunError, describe, run};
use super::cubin::{self, Kernel};
use super::diagnostics::{diagnose, resources, steady};
use super::failure::{self, infrastructure};
use super::glue::glue;
use super::nvrtc::CUBIN_MAX;
use super::toolkit::{self, Installation};
use crate::backend::{Artefact, CompileRequest, Failure, Portability, Sources};
use crate::sandbox::Confinement;
use fleet_config::domain::{BlobRef, Digest, FpContract, Stage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// Raised when the way of compiling changes in a manner that no other part of the key sees.
const RECIPE: &str = "muster.cuda-recipe/1";
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
    pub architecture: String,
    pub compiler: String,
    pub flags: Vec<String>,
    pub log: String,
    pub resources: BTreeMap<String, u64>,
    /// The kernels of the launch plan, in its order.
    pub kernels: Vec<Kernel>,
}

impl Description {
    pub(super) const FORMAT: &str = "muster.cubin/1";

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

/// NVRTC with a cache folder.
#[derive(Debug)]
pub(super) struct Compiler {
    installation: Installation,
    version: (i32, i32),
    architectures: Vec<i32>,
    cache: PathBuf,
    /// Of the libraries and headers; made when first asked for, since it reads 100 MB.
    digests: OnceLock<Result<Digests, String>>,
}

#[derive(Debug, Clone)]
struct Digests {
    everything: blake3::Hash,
    library: blake3::Hash,
}

impl Compiler {
    /// The first usable NVRTC of `found`; a major version above `newest_major` (the driver's) is passed over, since its
    /// cubins would not load.
    pub(super) fn choose(
        found: Vec<Installation>,
        newest_major: Option<i32>,
        cache: PathBuf,
        confinement: Confinement,
    ) -> Result<Self, CompilerError> {
        if found.is_empty() {
            return Err(CompilerError::Missing);
        }
        let mut refusals = Vec::new();
        for installation in found {
            let name = installation.library.display().to_string();
            match describe(&installation, &cache, confinement) {
                Ok(Answer::Library { major, minor, architectures }) => {
                    if newest_major.is_none_or(|newest| major <= newest) {
                        let version = (major, minor);
                        let digests = OnceLock::new();
                        return Ok(Self { installation, version, architectures, cache, digests });
                    }
                    refusals.push(format!("{name} is {major}.{minor}, newer than the driver"));
                }
                Ok(Answer::Failed { cause }) => refusals.push(cause),
                Ok(other) => refusals.push(format!("{name} answered {other:?}")),
                Err(error) => refusals.push(format!("{name}: {error}")),
            }
        }
        Err(CompilerError::Unusable(refusals.join("; ")))
    }

    /// Where it lies, for people.
    pub(super) fn path(&self) -> &Path {
        &self.installation.library
    }

    /// `NVRTC 13.0`, with the digest of the library.
    pub(super) fn name(&self) -> Result<String, Failure> {
        let library = self.digests()?.library.to_hex();
        let (major, minor) = self.version;
        Ok(format!("NVRTC {major}.{minor} blake3:{}", library.get(..16).unwrap_or("")))
    }

    fn digests(&self) -> Result<&Digests, Failure> {
        let made = self.digests.get_or_init(|| {
            let library = toolkit::content(&self.installation.library);
            let everything = toolkit::digest(&self.installation);
            match (library, everything) {
                (Ok(library), Ok(everything)) => Ok(Digests { everything, library }),
                (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
            }
        });
        made.as_ref().map_err(|error| infrastructure(Stage::Compile, "read the compiler's files", error))
    }

    /// The artefact of `request`, from the cache or made now.
    pub(super) fn compile(&self, request: &CompileRequest) -> Result<Artefact, Failure> {
        let number = architecture::number(&request.architecture)
            .ok_or_else(|| failure::toolchain(format!("NVRTC makes no code for {}", request.architecture)))?;
        if !self.architectures.iter().any(|known| u32::try_from(*known) == Ok(number)) {
            let (major, minor) = self.version;
            return Err(failure::toolchain(format!(
                "NVRTC {major}.{minor} makes no code for {}; it knows {:?}",
                request.architecture, self.architectures
            )));
        }
        let tail = glue(&request.entries).map_err(|error| failure::glue(&error))?;
        check_tree(&request.sources)?;
        request.headers.iter().try_for_each(check_tree)?;
        if !request.sources.files.contains_key(&request.sources.main) {
            return Err(failure::main_missing(&request.sources.main));
        }
        let flags = flags(request)?;
        let key = self.key(request, &tail, &flags)?;
        let folder = self.cache.join("cubins");
        let path = folder.join(format!("{key}.cubin"));
        let failed = |what: &str, error: io::Error| infrastructure(Stage::Compile, what, &error);
        let description = match kept(&path) {
            Some(description) => description,
            None => {
                fs::create_dir_all(&folder).map_err(|error| failed("make the cache folder", error))?;
                let (bytes, description) = self.build(request, number, tail, flags)?;
                // The description last: a cubin without one counts as absent.
                let text = serde_json::to_vec(&description)
                    .map_err(|error| failed("describe the cubin", error.into()))?;
                place(&path, &bytes).map_err(|error| failed("keep the cubin", error))?;
                place(&path.with_extension("json"), &text)
                    .map_err(|error| failed("keep the cubin", error))?;
                description
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

    fn key(&self, request: &CompileRequest, tail: &str, flags: &[String]) -> Result<Digest, Failure> {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        add(RECIPE.as_bytes());
        add(self.digests()?.everything.as_bytes());
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

    fn build(
        &self,
        request: &CompileRequest,
        number: u32,
        tail: String,
        flags: Vec<String>,
    ) -> Result<(Vec<u8>, Description), Failure> {
        let failed = |what: &str, error: io::Error| infrastructure(Stage::Compile, what, &error);
        write_tree(&request.folder.join("source"), &request.sources)
            .map_err(|error| failed("write the sources", error))?;
        for (index, tree) in request.headers.iter().enumerate() {
            let root = request.folder.join(format!("headers{index}"));
            write_tree(&root, tree).map_err(|error| failed("write the headers", error))?;
        }
        let mut options = flags.clone();
        options.push("-I=source".to_owned());
        options.extend((0..request.headers.len()).map(|index| format!("-I=headers{index}")));
        options.extend(self.installation.includes.iter().map(|root| format!("-I={}", root.display())));
        let unit =
            UnitOrder { main: request.sources.main.clone(), glue: tail, options, kernels: kernels(request) };
        let order = self.order(Some(unit));
        let limit = request.limit.duration();
        let place = Place { folder: &request.folder, confinement: request.confinement };
        let (answer, output) = run(&order, &self.installation, place, limit, &request.interrupt).map_err(
            |error| match error {
                RunError::Interrupted => failure::interrupted(Stage::Compile),
                RunError::Deadline => failure::compile_timeout(request.limit),
                RunError::Died { signal, output } => {
                    let message = format!("the compiler was ended by signal {signal}");
                    let diagnosis = super::diagnostics::Diagnosis::Error { message, place: None };
                    failure::diagnosis(diagnosis, &output)
                }
                RunError::Other(cause) => infrastructure(Stage::Compile, "run the compiler", &cause),
            },
        )?;
        let (log, symbols) = match answer {
            Answer::Compiled { log, symbols } => (cleaned(&log), symbols),
            Answer::Refused { log } => {
                let log = cleaned(&log);
                return Err(failure::diagnosis(diagnose(&log), &log));
            }
            Answer::Option { log } => {
                let (major, minor) = self.version;
                let message = format!("NVRTC {major}.{minor} refuses the options {flags:?}");
                return Err(failure::logged(failure::toolchain(message), cleaned(&log).as_bytes()));
            }
            Answer::Failed { cause } => {
                let failure = infrastructure(Stage::Compile, "use NVRTC", &cause);
                return Err(failure::logged(failure, output.as_bytes()));
            }
            Answer::Library { .. } => {
                return Err(infrastructure(Stage::Compile, "use NVRTC", &"it answered another question"));
            }
        };
        let bytes = read_bounded(&request.folder.join(CUBIN), CUBIN_MAX as u64)
            .map_err(|error| failed("read the cubin", error))?;
        let found = cubin::kernels(&bytes, number)
            .map_err(|error| infrastructure(Stage::Compile, "accept the cubin", &error))?;
        let kernels = ordered(&found, &symbols, &request.entries)?;
        let blob = BlobRef::of(&bytes);
        let mut resources = resources(&log);
        resources.insert("artefact_bytes".to_owned(), blob.size);
        let description = Description {
            format: Description::FORMAT.to_owned(),
            blob,
            architecture: request.architecture.as_str().to_owned(),
            compiler: self.name()?,
            flags,
            log,
            resources,
            kernels,
        };
        Ok((bytes, description))
    }

    fn order(&self, unit: Option<UnitOrder>) -> Order {
        let Installation { library, builtins, includes: _ } = self.installation.clone();
        Order { library, builtins, unit }
    }
}

/// Flags of architecture and policy. Nothing that reads or writes files is let through.
fn flags(request: &CompileRequest) -> Result<Vec<String>, Failure> {
    const ALLOWED: [&str; 6] =
        ["-std=c++14", "-std=c++17", "-std=c++20", "-lineinfo", "--extra-device-vectorization", "--restrict"];
    let mut flags = vec![format!("-arch={}", request.architecture.name())];
    flags.push(match request.policy.fp_contract {
        FpContract::Off => "--fmad=false".to_owned(),
        FpContract::Fast => "--fmad=true".to_owned(),
    });
    for flag in &request.policy.compiler_flags {
        if !ALLOWED.contains(&flag.as_str()) {
            return Err(failure::flag(flag));
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
