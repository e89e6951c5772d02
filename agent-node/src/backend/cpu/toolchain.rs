//! The host compiler: which one, which version, and the digest of everything of it that decides an artefact.

use super::surroundings::{add_headers, include_folders, library_folders, linked};
use crate::sandbox::{self, Confinement, Profile, Request, ResourceLimits};
use fleet_config::domain::{Architecture, Digest};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which compiler's options and messages to expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Gcc,
    Clang,
}

/// A usable compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    pub path: PathBuf,
    pub family: Family,
    /// The first line of `--version`.
    pub version: String,
    /// Over the binaries of driver, compiler, assembler and linker, all system headers, and what every link reads.
    pub digest: Digest,
    /// Which of the libraries of its sanitizers are installed.
    pub sanitizers: BTreeSet<Sanitizer>,
}

/// A sanitizer whose library a screen needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sanitizer {
    Address,
    Thread,
}

/// No compiler that this device could use.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    #[error("no host compiler found ({0}); install g++ 12 or newer, or clang++ 14 or newer")]
    Missing(String),
    #[error("cannot ask {path} for its version: {source}")]
    Spawn { path: PathBuf, source: sandbox::SpawnError },
    #[error("cannot ask {path} for its version: {source}")]
    Wait { path: PathBuf, source: sandbox::WaitError },
    #[error("{path} is {version}; g++ 12 or newer, or clang++ 14 or newer is needed")]
    TooOld { path: PathBuf, version: String },
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
}

/// The first versions with `__attribute__((unavailable))` on templates and `-ffp-contract=off` as used here.
const GCC_MIN: u32 = 12;
const CLANG_MIN: u32 = 14;
/// A compiler answers in milliseconds; a machine under load takes longer.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Where a distribution puts compilers, best first.
pub const USUAL: [&str; 4] =
    ["/usr/bin/g++", "/usr/local/bin/g++", "/usr/bin/clang++", "/usr/local/bin/clang++"];

impl Toolchain {
    /// The first usable compiler among `candidates`. `folder` is where the compiler runs while it is asked.
    pub fn discover(
        candidates: &[PathBuf],
        folder: &Path,
        confinement: Confinement,
    ) -> Result<Self, ToolchainError> {
        let mut refused = Vec::new();
        for path in candidates {
            if !path.is_file() {
                refused.push(format!("{}: absent", path.display()));
                continue;
            }
            match Self::examine(path, folder, confinement) {
                Ok(found) => return Ok(found),
                Err(ToolchainError::TooOld { path, version }) => {
                    refused.push(format!("{}: {version} is too old", path.display()));
                }
                Err(error) => return Err(error),
            }
        }
        Err(ToolchainError::Missing(refused.join(", ")))
    }

    fn examine(path: &Path, folder: &Path, confinement: Confinement) -> Result<Self, ToolchainError> {
        let ask = |arguments: &[&str]| ask(path, arguments, folder, confinement);
        let answer = ask(&["--version"])?;
        let version = answer.lines().next().unwrap_or("").trim().to_owned();
        let too_old = || ToolchainError::TooOld { path: path.to_owned(), version: version.clone() };
        let (family, number) = match version.split_once("clang version ") {
            Some((_, number)) => (Family::Clang, number),
            None => (Family::Gcc, version.rsplit(' ').next().unwrap_or("")),
        };
        let major: u32 = number.split('.').next().and_then(|text| text.parse().ok()).ok_or_else(too_old)?;
        let least = match family {
            Family::Gcc => GCC_MIN,
            Family::Clang => CLANG_MIN,
        };
        if major < least {
            return Err(too_old());
        }
        let mut hasher = blake3::Hasher::new();
        hash_file(&mut hasher, path)?;
        let parts: &[&str] = match family {
            Family::Gcc => &["cc1plus", "as", "ld"],
            Family::Clang => &["ld"],
        };
        for part in parts {
            let answer = ask(&[&format!("-print-prog-name={part}")])?;
            let named = PathBuf::from(answer.trim());
            let found = if named.is_absolute() { named } else { Path::new("/usr/bin").join(named) };
            if found.is_file() {
                hash_file(&mut hasher, &found)?;
            }
        }
        hasher.update(version.as_bytes());
        // Its standard input is empty.
        let headers = include_folders(&ask(&["-v", "-E", "-x", "c++", "-"])?);
        add_headers(&mut hasher, &headers)
            .map_err(|source| ToolchainError::Read { path: path.to_owned(), source })?;
        let libraries = library_folders(&ask(&["-print-search-dirs"])?);
        for linked in linked(&libraries) {
            hash_file(&mut hasher, &linked)?;
        }
        let sanitizers = sanitizers(family, &libraries);
        let digest = Digest(*hasher.finalize().as_bytes());
        Ok(Self { path: path.to_owned(), family, version, digest, sanitizers })
    }

    /// Flags of every compile for `architecture`: code that this level of processor runs, IEEE arithmetic, no
    /// exceptions (device code has none), nothing exported but entries.
    pub(super) fn flags(&self, architecture: &Architecture) -> Vec<String> {
        let name = architecture.name();
        let mut flags = vec![match name {
            "aarch64" => "-march=armv8-a".to_owned(),
            _ => format!("-march={name}"),
        }];
        let fixed = [
            // The language that NVRTC assumes; a policy may say otherwise.
            "-std=gnu++17",
            "-fPIC",
            "-g1",
            "-fvisibility=hidden",
            "-fno-exceptions",
            // Kernels look at the bits of floats through pointers, and GPU compilers let them.
            "-fno-strict-aliasing",
            "-fno-diagnostics-show-option",
            "-fno-ident",
            "-w",
        ];
        flags.extend(fixed.map(str::to_owned));
        let own: &[&str] = match self.family {
            // Errors in macros of the shim are reported where the candidate wrote the name.
            Family::Gcc => &["-ftrack-macro-expansion=0", "-fmax-errors=20", "-fdiagnostics-color=never"],
            Family::Clang => &["-ferror-limit=20", "-fno-color-diagnostics", "-fno-caret-diagnostics"],
        };
        flags.extend(own.iter().map(|flag| (*flag).to_owned()));
        flags
    }
}

/// Levels of the host's processor that artefacts can be made for and run here, best first.
pub fn host_levels() -> Vec<Architecture> {
    let mut names: Vec<&str> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        // The psABI's micro-architecture levels; the features named imply the rest on every known processor.
        let v2 = is_x86_feature_detected!("sse4.2")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("ssse3");
        let v3 = v2
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("movbe");
        let v4 = v3
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        names.extend(v4.then_some("x86-64-v4"));
        names.extend(v3.then_some("x86-64-v3"));
        names.extend(v2.then_some("x86-64-v2"));
        names.push("x86-64");
    }
    #[cfg(target_arch = "aarch64")]
    names.push("aarch64");
    names.into_iter().filter_map(|name| format!("cpu:{name}").parse().ok()).collect()
}

/// The sanitizers with all of their libraries in `folders`.
fn sanitizers(family: Family, folders: &[PathBuf]) -> BTreeSet<Sanitizer> {
    let architecture = std::env::consts::ARCH;
    let names = |sanitizer| match (family, sanitizer) {
        (Family::Gcc, Sanitizer::Address) => vec!["libasan.so".to_owned(), "libubsan.so".to_owned()],
        (Family::Gcc, Sanitizer::Thread) => vec!["libtsan.so".to_owned()],
        // clang's own folder of libraries holds them one level deeper.
        (Family::Clang, Sanitizer::Address) => vec![format!("lib/linux/libclang_rt.asan-{architecture}.a")],
        (Family::Clang, Sanitizer::Thread) => vec![format!("lib/linux/libclang_rt.tsan-{architecture}.a")],
    };
    let is_there = |name: &String| folders.iter().any(|folder| folder.join(name).is_file());
    let all = [Sanitizer::Address, Sanitizer::Thread];
    all.into_iter().filter(|sanitizer| names(*sanitizer).iter().all(is_there)).collect()
}

fn ask(
    path: &Path,
    arguments: &[&str],
    folder: &Path,
    confinement: Confinement,
) -> Result<String, ToolchainError> {
    let system = sandbox::system_toolchain();
    let request = Request {
        program: path.to_owned(),
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: Vec::new(),
        folder: folder.to_owned(),
        readable: system.readable,
        executable: system.executable,
        devices: Vec::new(),
        passed: Vec::new(),
        profile: Profile::Harness,
        limits: ResourceLimits {
            cpu_seconds: ANSWER_MAX.as_secs(),
            memory: None,
            file_size: 1 << 20,
            open_files: 64,
            processes: 32,
            output_max: 1 << 16,
        },
    };
    let mut child = sandbox::spawn(request, confinement)
        .map_err(|source| ToolchainError::Spawn { path: path.to_owned(), source })?;
    let exit =
        child.wait(ANSWER_MAX).map_err(|source| ToolchainError::Wait { path: path.to_owned(), source })?;
    Ok(exit.output.text())
}

fn hash_file(hasher: &mut blake3::Hasher, path: &Path) -> Result<(), ToolchainError> {
    let read = |source| ToolchainError::Read { path: path.to_owned(), source };
    let file = fs::File::open(path).map_err(read)?;
    hasher.update_reader(file).map_err(read)?;
    Ok(())
}
