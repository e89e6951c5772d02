//! From a candidate's source to a shared object: rewrite, compile in the sandbox, keep by key.
//!
//! The key covers all that the compiler can read: the rewritten sources, headers of the task, text of entries, flags, shim,
//! and by [`Toolchain::digest`] the compiler's programs, the system's headers and what every library is linked with.

use super::artefacts::ArtefactCache;
use super::diagnostics::{Diagnosis, Names, diagnose};
use super::failure;
use super::glue::glue;
use super::rewrite::rewrite;
use super::shim;
use super::toolchain::{Family, Toolchain};
use crate::backend::{Artefact, CompileRequest, Failure, Interrupt, Portability, Sources};
use crate::sandbox::{self, Confinement, Exit, ExitHow, Profile, Request, ResourceLimits};
use fleet_config::domain::{BlobRef, Digest, FpContract, HOST_FLAGS, SourcePlace, Stage};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Raised when the way of compiling changes in a manner that no other part of the key sees.
const RECIPE: &str = "muster.cpu-recipe/2";
/// Address space of one compiler process: templates may be hungry, the node must stay up.
const COMPILER_MEMORY: u64 = 4 << 30;
/// Largest file that a compiler may write.
const OUTPUT_FILE_MAX: u64 = 256 << 20;
/// Diagnostics that are kept.
const LOG_MAX: usize = 256 << 10;
/// Time for the parts that all candidates share; charged to nobody.
const BASE_LIMIT: Duration = Duration::from_secs(120);

/// Compiles for one toolchain into one cache folder.
#[derive(Debug)]
pub(super) struct Compiler {
    toolchain: Toolchain,
    pub(super) cache: ArtefactCache,
}

/// How the parts that all candidates share are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recipe<'a> {
    pub flags: &'a [String],
    /// Further flags for what becomes part of a candidate.
    pub instrument: &'a [String],
    /// Files of the shim to compile.
    pub units: &'a [&'a str],
}

impl Compiler {
    pub(super) fn new(toolchain: Toolchain, cache: ArtefactCache) -> Self {
        Self { toolchain, cache }
    }

    /// The compiler in use.
    pub(super) fn toolchain(&self) -> &Toolchain {
        &self.toolchain
    }

    /// The artefact of `request`, from the cache or made now.
    pub(super) fn compile(&self, request: &CompileRequest) -> Result<Artefact, Failure> {
        let tail = glue(&request.entries).map_err(|error| failure::glue(&error))?;
        let tree = rewritten(&request.sources)?;
        let headers = request.headers.iter().map(rewritten).collect::<Result<Vec<_>, _>>()?;
        let flags = self.flags(request)?;
        let key = self.key(request, &tree, &headers, &tail, &flags);
        let infrastructure =
            |what: &str, error: io::Error| failure::infrastructure(Stage::Compile, what, &error);
        // A link of the job's own: another node on this cache may clear it at any time.
        let library = request.folder.join("artefact.so");
        if !self.cache.take(key, &library).map_err(|error| infrastructure("look into the cache", error))? {
            let recipe = Recipe { flags: &flags, instrument: &[], units: &[shim::RUNTIME] };
            let base = self.base(&recipe, (request.confinement, &request.interrupt))?;
            let built = self.build(request, &tree, &headers, &tail, &flags, &base)?;
            fs::rename(&built, &library).map_err(|error| infrastructure("name the artefact", error))?;
            self.cache.keep(key, &library).map_err(|error| infrastructure("keep the artefact", error))?;
        }
        let bytes = fs::read(&library).map_err(|error| infrastructure("read the artefact", error))?;
        let blob = BlobRef::of(&bytes);
        let resources = BTreeMap::from([("artefact_bytes".to_owned(), blob.size)]);
        Ok(Artefact {
            path: library,
            blob,
            key,
            compiler: self.toolchain.version.clone(),
            flags,
            log: String::new(),
            resources,
            portability: Portability::ThisMachine,
            main: request.sources.main.clone(),
        })
    }

    /// Flags of the architecture, then those of the policy.
    pub(super) fn flags(&self, request: &CompileRequest) -> Result<Vec<String>, Failure> {
        let mut flags = self.toolchain.flags(&request.architecture);
        flags.push(match request.policy.fp_contract {
            FpContract::Off => "-ffp-contract=off".to_owned(),
            FpContract::Fast => "-ffp-contract=fast".to_owned(),
        });
        for flag in &request.policy.compiler_flags {
            if !HOST_FLAGS.contains(&flag.as_str()) {
                return Err(failure::flag(flag));
            }
            flags.push(flag.clone());
        }
        Ok(flags)
    }

    pub(super) fn key(
        &self,
        request: &CompileRequest,
        tree: &BTreeMap<String, String>,
        headers: &[BTreeMap<String, String>],
        tail: &str,
        flags: &[String],
    ) -> Digest {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        add(RECIPE.as_bytes());
        add(self.toolchain.path.as_os_str().as_encoded_bytes());
        add(self.toolchain.version.as_bytes());
        add(self.toolchain.digest.as_bytes());
        add(shim::digest().as_bytes());
        add(request.architecture.as_str().as_bytes());
        add(request.sources.main.as_bytes());
        add(tail.as_bytes());
        for flag in flags {
            add(flag.as_bytes());
        }
        for (root, files) in std::iter::once(tree).chain(headers).enumerate() {
            add(&(root as u64).to_le_bytes());
            for (path, text) in files {
                add(path.as_bytes());
                add(text.as_bytes());
            }
        }
        Digest(*hasher.finalize().as_bytes())
    }

    /// The shim, its precompiled header and its compiled units for one set of flags.
    pub(super) fn base(
        &self,
        recipe: &Recipe<'_>,
        around: (Confinement, &Interrupt),
    ) -> Result<PathBuf, Failure> {
        let Recipe { flags, instrument, units } = *recipe;
        let mut hasher = blake3::Hasher::new();
        hasher.update(shim::digest().as_bytes()).update(self.toolchain.digest.as_bytes());
        hasher.update(self.toolchain.path.as_os_str().as_encoded_bytes());
        for flag in flags.iter().chain(instrument) {
            hasher.update(flag.as_bytes()).update(b"\0");
        }
        let name = hasher.finalize().to_hex();
        let folder = self.cache.folder().join(format!("base-{}", name.get(..24).unwrap_or("")));
        let failed = |error: io::Error| failure::infrastructure(Stage::Compile, "prepare the shim", &error);
        fs::create_dir_all(self.cache.folder()).map_err(failed)?;
        // Whoever comes first makes it, also among several nodes on one cache; a precompiled header names its own
        // folder, so it cannot be made elsewhere and moved. The mark is written last: a crash leaves none.
        let lock = fs::File::create(folder.with_extension("lock")).map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        let ready = folder.join("ready");
        if ready.is_file() {
            return Ok(folder);
        }
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(failed)?;
        shim::write(&folder).map_err(failed)?;
        let precompiled = match self.toolchain.family {
            Family::Gcc => "muster_cuda.h.gch",
            Family::Clang => "muster_cuda.h.pch",
        };
        let header = ["-I.", "-x", "c++-header", shim::PRELUDE, "-o", precompiled].map(str::to_owned);
        let mut all_arguments = vec![[flags, instrument, &header].concat()];
        for unit in units {
            let object = unit.replace(".cpp", ".o");
            let arguments = ["-c", "-x", "c++", unit, "-o", &object].map(str::to_owned);
            all_arguments.push([flags, &arguments].concat());
        }
        for all in all_arguments {
            let exit = self.run(&folder, &all, None, BASE_LIMIT, around)?;
            if !exit.success() {
                return Err(failure::toolchain(&exit.output.text()));
            }
        }
        fs::write(ready, "").map_err(failed)?;
        Ok(folder)
    }

    fn build(
        &self,
        request: &CompileRequest,
        tree: &BTreeMap<String, String>,
        headers: &[BTreeMap<String, String>],
        tail: &str,
        flags: &[String],
        base: &Path,
    ) -> Result<PathBuf, Failure> {
        let failed = |error: io::Error| failure::infrastructure(Stage::Compile, "write the sources", &error);
        let source = request.folder.join("source");
        let main = &request.sources.main;
        let main_text = tree.get(main).ok_or_else(|| failure::main_missing(main))?;
        write_tree(&source, tree, main, tail).map_err(failed)?;
        for (index, files) in headers.iter().enumerate() {
            write_tree(&request.folder.join(format!("headers{index}")), files, "", "").map_err(failed)?;
        }
        let library = request.folder.join("candidate.so");
        let arguments = self.arguments(flags, base, headers.len(), main, &request.folder);
        let limit = Duration::from_millis(request.limit.0);
        let exit = self.run(
            &request.folder,
            &arguments,
            Some(base),
            limit,
            (request.confinement, &request.interrupt),
        )?;
        if exit.how == ExitHow::Deadline || exit.how == ExitHow::Signal(libc::SIGXCPU) {
            return Err(failure::compile_timeout(request.limit));
        }
        if exit.success() {
            return Ok(library);
        }
        let own = request.folder.display().to_string();
        let log =
            exit.output.text().replace(&format!("{own}/"), "").replace(&base.display().to_string(), "shim");
        let is_known =
            |path: &str| tree.contains_key(path) || headers.iter().any(|files| files.contains_key(path));
        let main_lines = u32::try_from(main_text.lines().count()).unwrap_or(u32::MAX);
        let asks =
            |files: &BTreeMap<String, String>| files.values().any(|text| text.contains("__CUDA_ARCH__"));
        let asks_architecture = asks(tree) || headers.iter().any(asks);
        let names = Names { main, main_lines, asks_architecture, is_known: &is_known };
        let diagnosis = match exit.how {
            ExitHow::Signal(signal) => Diagnosis::Error {
                message: format!("the compiler was ended by signal {signal}"),
                place: None,
            },
            ExitHow::MemoryLimit => Diagnosis::Error {
                message: "the compiler used more memory than it may".to_owned(),
                place: None,
            },
            ExitHow::Code(_) | ExitHow::Deadline => diagnose(&log, &names),
        };
        Err(failure::diagnosis(diagnosis, log))
    }

    fn arguments(
        &self,
        flags: &[String],
        base: &Path,
        headers: usize,
        main: &str,
        folder: &Path,
    ) -> Vec<String> {
        let mut all = self.reading(flags, base, headers, folder);
        let main = format!("source/{main}");
        let tail = [
            "-shared",
            "-Wl,-z,defs",
            "-Wl,-Bsymbolic",
            "-Wl,--build-id=none",
            "-static-libgcc",
            "-static-libstdc++",
            "-x",
            "c++",
            &main,
            "-x",
            "none",
        ];
        all.extend(tail.map(str::to_owned));
        all.extend([format!("{}/runtime.o", base.display()), "-o".to_owned(), "candidate.so".to_owned()]);
        all
    }

    /// The part of the arguments that says what is read, and under which names.
    pub(super) fn reading(
        &self,
        flags: &[String],
        base: &Path,
        headers: usize,
        folder: &Path,
    ) -> Vec<String> {
        let mut all = flags.to_vec();
        let base = base.display();
        match self.toolchain.family {
            Family::Gcc => all.extend([format!("-I{base}"), "-include".to_owned(), shim::PRELUDE.to_owned()]),
            Family::Clang => {
                all.extend([
                    format!("-I{base}"),
                    "-include-pch".to_owned(),
                    format!("{base}/muster_cuda.h.pch"),
                ]);
            }
        }
        all.push("-Isource".to_owned());
        all.extend((0..headers).map(|index| format!("-Iheaders{index}")));
        // The same source gives the same bytes in whatever folder it is compiled; line numbers name the files as the
        // submitter wrote them.
        all.push(format!("-ffile-prefix-map={}=/candidate", folder.display()));
        all.push("-ffile-prefix-map=source/=".to_owned());
        all
    }

    /// Runs the compiler in `folder`.
    pub(super) fn run(
        &self,
        folder: &Path,
        arguments: &[String],
        readable: Option<&Path>,
        limit: Duration,
        (confinement, interrupt): (Confinement, &Interrupt),
    ) -> Result<Exit, Failure> {
        let mut system = sandbox::system_toolchain();
        system.readable.extend(readable.map(Path::to_owned));
        let request = Request {
            program: self.toolchain.path.clone(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment: Vec::new(),
            folder: folder.to_owned(),
            readable: system.readable,
            executable: system.executable,
            devices: Vec::new(),
            passed: Vec::new(),
            profile: Profile::Compiler,
            limits: ResourceLimits {
                cpu_seconds: limit.as_secs().saturating_add(1),
                memory: Some(COMPILER_MEMORY),
                file_size: OUTPUT_FILE_MAX,
                open_files: 256,
                processes: 64,
                output_max: LOG_MAX,
            },
        };
        let mut child = sandbox::spawn(request, confinement)
            .map_err(|error| failure::infrastructure(Stage::Compile, "start the compiler", &error))?;
        child
            .wait_unless(limit, &|| interrupt.asked())
            .map_err(|error| failure::infrastructure(Stage::Compile, "wait for the compiler", &error))?
            .ok_or_else(|| failure::interrupted(Stage::Compile))
    }
}

/// Every file as the compiler will see it.
pub(super) fn rewritten(sources: &Sources) -> Result<BTreeMap<String, String>, Failure> {
    let mut files = BTreeMap::new();
    for (path, bytes) in &sources.files {
        let inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || path.is_empty() {
            return Err(failure::path_outside(path));
        }
        let text = rewrite(bytes).map_err(|error| {
            let place = SourcePlace { file: path.clone(), line: error.line(), column: 0 };
            failure::source_refused(&error, place)
        })?;
        files.insert(path.clone(), text);
    }
    Ok(files)
}

pub(super) fn write_tree(
    root: &Path,
    files: &BTreeMap<String, String>,
    main: &str,
    tail: &str,
) -> io::Result<()> {
    fs::create_dir_all(root)?;
    for (path, text) in files {
        let target = root.join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        if path == main {
            fs::write(target, format!("{text}\n{tail}"))?;
        } else {
            fs::write(target, text)?;
        }
    }
    Ok(())
}
