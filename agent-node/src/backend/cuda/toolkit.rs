//! Where NVRTC and its headers lie on this machine.
//!
//! Several installations may lie side by side: CUDA 12 and 13, a toolkit and a Python package. All are found, in the
//! order in which they are preferred; which of them compiles a request is decided in `toolchain.rs`.

use serde::Serialize;
use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Names one libnvrtc or more, or folders with some, separated by colons; nothing else is searched then.
pub const VARIABLE: &str = "MUSTER_NVRTC";
/// Where toolkits are installed, beside `/usr/local/cuda*`.
const TOOLKITS: [&str; 3] = ["/opt/cuda", "/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit"];
/// Folders of distributions.
const SYSTEM: [&str; 5] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib"];
/// Where Python interpreters keep packages below `lib/pythonX.Y`.
const PYTHON: [&str; 3] = ["/usr/local", "/usr", "/opt/conda"];
/// Files in one header tree: a toolkit has about 2,000. A folder with more is not a toolkit's alone.
const HEADERS_MAX: usize = 20_000;
/// Depth of folders in one header tree.
const DEPTH_MAX: usize = 12;
/// Installations that are looked at: each is loaded once to ask for its version.
const FOUND_MAX: usize = 8;

/// What a kernel may include of the toolkit, with every file that this needs.
const HEADERS: [(&str, &[&str]); 6] = [
    ("cuda_fp16.h", &["cuda_fp16.h", "nv/target"]),
    ("cuda_bf16.h", &["cuda_bf16.h", "nv/target"]),
    ("cooperative_groups.h", &["cooperative_groups.h", "nv/target"]),
    ("mma.h", &["mma.h", "crt/mma.h"]),
    ("cuda/std", &["cuda/std/type_traits"]),
    ("cub", &["cub/cub.cuh"]),
];

/// Who led to an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The settings, the command line or [`VARIABLE`].
    Configuration,
    CudaHome,
    LibraryPath,
    Toolkit,
    Distribution,
    PythonPackage,
}

impl Origin {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Configuration => "named by configuration",
            Self::CudaHome => "CUDA_HOME",
            Self::LibraryPath => "LD_LIBRARY_PATH",
            Self::Toolkit => "CUDA toolkit",
            Self::Distribution => "distribution",
            Self::PythonPackage => "Python package",
        }
    }
}

/// One NVRTC on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installation {
    pub origin: Origin,
    pub library: PathBuf,
    pub builtins: Option<PathBuf>,
    /// Folders with headers of the same toolkit, such as `cuda_fp16.h`; empty where only the library is installed.
    pub includes: Vec<PathBuf>,
}

impl Installation {
    /// What a kernel may include and what not: names of [`HEADERS`].
    pub(super) fn headers(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let has = |file: &&str| self.includes.iter().any(|root| root.join(file).is_file());
        let (there, lacking): (Vec<_>, Vec<_>) =
            HEADERS.iter().partition(|(_, files)| files.iter().all(&has));
        let names = |found: Vec<&(&'static str, &[&str])>| found.into_iter().map(|(name, _)| *name).collect();
        (names(there), names(lacking))
    }
}

/// What the search reads of the process: arguments, so that tests bring their own.
#[derive(Debug, Clone, Default)]
pub(super) struct Surroundings {
    /// Files and folders that the operator named.
    pub named: Vec<PathBuf>,
    pub cuda_home: Option<PathBuf>,
    pub library_path: Vec<PathBuf>,
    pub home: Option<PathBuf>,
    pub virtual_env: Option<PathBuf>,
    pub conda: Option<PathBuf>,
}

impl Surroundings {
    /// Those of this process; `named` by the operator goes before [`VARIABLE`].
    pub(super) fn of_process(named: Option<&Path>) -> Self {
        let text = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let path = |name: &str| text(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let list =
            |value| std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect();
        let named = named.map(|path| path.as_os_str().to_owned()).or_else(|| text(VARIABLE));
        let library_path: Vec<PathBuf> = text("LD_LIBRARY_PATH").map(list).unwrap_or_default();
        Self {
            named: named.map(list).unwrap_or_default(),
            cuda_home: path("CUDA_HOME").or_else(|| path("CUDA_PATH")),
            library_path: library_path.into_iter().filter(|path| path.is_absolute()).collect(),
            home: path("HOME"),
            virtual_env: path("VIRTUAL_ENV"),
            conda: path("CONDA_PREFIX"),
        }
    }
}

/// Every NVRTC that is found, those of the operator first, then by [`Origin`], the newest of each first.
pub(super) fn search(surroundings: &Surroundings) -> Vec<Installation> {
    let places = if surroundings.named.is_empty() { usual(surroundings) } else { named(surroundings) };
    let mut found: Vec<Installation> = Vec::new();
    for (origin, folders) in places {
        let mut libraries: Vec<PathBuf> = folders.iter().flat_map(|folder| libraries(folder)).collect();
        // Stable: among equals the folder that is searched first stays first.
        libraries.sort_by_key(|library| Reverse(version(library)));
        for library in libraries {
            // The same file by several names (links) counts once.
            if found.len() < FOUND_MAX && !found.iter().any(|known| known.library == library) {
                found.extend(installation(origin, &library));
            }
        }
    }
    found
}

fn named(surroundings: &Surroundings) -> Vec<(Origin, Vec<PathBuf>)> {
    // Each is a place of its own, so that their order is the operator's.
    let place = |path: &PathBuf| if path.is_file() { vec![path.clone()] } else { below(path) };
    surroundings.named.iter().map(|path| (Origin::Configuration, place(path))).collect()
}

fn usual(surroundings: &Surroundings) -> Vec<(Origin, Vec<PathBuf>)> {
    let all = |roots: &[PathBuf]| -> Vec<PathBuf> { roots.iter().flat_map(|root| below(root)).collect() };
    let mut toolkits = children(Path::new("/usr/local"), "cuda");
    toolkits.extend(TOOLKITS.map(PathBuf::from));
    let mut python: Vec<PathBuf> = [&surroundings.virtual_env, &surroundings.conda]
        .into_iter()
        .flatten()
        .cloned()
        .chain(surroundings.home.iter().map(|home| home.join(".local")))
        .chain(PYTHON.map(PathBuf::from))
        .collect();
    if let Some(home) = &surroundings.home {
        python.extend(children(&home.join(".pyenv/versions"), ""));
    }
    vec![
        (Origin::CudaHome, all(surroundings.cuda_home.as_slice())),
        (Origin::LibraryPath, surroundings.library_path.clone()),
        (Origin::Toolkit, all(&toolkits)),
        (Origin::Distribution, SYSTEM.map(PathBuf::from).to_vec()),
        (Origin::PythonPackage, python.iter().flat_map(|root| interpreters(root)).collect()),
    ]
}

/// Library folders of a toolkit, a virtual environment or a folder of Python packages.
fn below(root: &Path) -> Vec<PathBuf> {
    let mut folders = vec![root.to_owned(), root.join("lib64"), root.join("lib")];
    folders.extend(children(&root.join("targets"), "").iter().map(|target| target.join("lib")));
    folders.extend(packages(root));
    folders.extend(interpreters(root));
    folders
}

/// Library folders of packages below an interpreter's root.
fn interpreters(root: &Path) -> Vec<PathBuf> {
    let pythons = children(&root.join("lib"), "python");
    let folders =
        pythons.iter().flat_map(|python| ["site-packages", "dist-packages"].map(|name| python.join(name)));
    folders.flat_map(|folder| packages(&folder)).collect()
}

/// Library folders of the vendor's Python packages under one package folder.
fn packages(root: &Path) -> Vec<PathBuf> {
    children(&root.join("nvidia"), "").iter().map(|package| package.join("lib")).collect()
}

/// Folders and files in `root` whose names begin with `prefix`, sorted.
fn children(root: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let named = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
    };
    let mut found: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(named).collect();
    found.sort();
    found
}

/// `libnvrtc.so*` in one folder, by their real paths; a file stands for itself.
fn libraries(folder: &Path) -> Vec<PathBuf> {
    let found = if folder.is_file() { vec![folder.to_owned()] } else { children(folder, "libnvrtc.so") };
    found.into_iter().filter(|path| path.is_file()).filter_map(|path| fs::canonicalize(path).ok()).collect()
}

/// The numbers in `libnvrtc.so.12.9.86`.
fn version(library: &Path) -> Vec<u32> {
    let name = library.file_name().and_then(|name| name.to_str()).unwrap_or("");
    let numbers = name.strip_prefix("libnvrtc.so").unwrap_or("");
    numbers.split('.').filter_map(|part| part.parse().ok()).collect()
}

fn installation(origin: Origin, library: &Path) -> Option<Installation> {
    let folder = library.parent()?;
    // `libnvrtc.so.13` or `libnvrtc.so.12.9.86`: builtins are of the same major, and minor where it is told.
    let short: Vec<String> = version(library).iter().take(2).map(u32::to_string).collect();
    let mut builtins: Vec<PathBuf> = children(folder, &format!("libnvrtc-builtins.so.{}", short.join(".")));
    if builtins.is_empty() {
        builtins = children(folder, "libnvrtc-builtins.so");
    }
    let builtins = builtins.into_iter().filter_map(|path| fs::canonicalize(path).ok()).next_back();
    Some(Installation { origin, library: library.to_owned(), builtins, includes: includes(folder) })
}

/// Header trees of the toolkit whose libraries lie in `folder`.
fn includes(folder: &Path) -> Vec<PathBuf> {
    let at = |path: &str| fs::canonicalize(folder.join(path)).ok().filter(|path| path.is_dir());
    let is_toolkit = |root: &PathBuf| root.join("cuda_fp16.h").is_file() && count(root) <= HEADERS_MAX;
    let whole = ["../include", "../../include"].into_iter().filter_map(at).find(is_toolkit);
    // Python packages of CUDA 12 have a folder for each part, beside which those of 13 may lie: parts are never mixed.
    let parts: &[&str] = match &whole {
        Some(_) => &[],
        None => &["../../cuda_cccl/include", "../../cuda_nvcc/include"],
    };
    let apart = || at("../../cuda_runtime/include").filter(is_toolkit);
    let Some(main) = whole.or_else(apart) else { return Vec::new() };
    // Since 13.0 the C++ headers (`<cuda/std/...>`) lie in a folder of their own.
    let cccl = Some(main.join("cccl")).filter(|path| path.is_dir());
    let mut found = vec![main];
    for more in cccl.into_iter().chain(parts.iter().copied().filter_map(at)) {
        if !found.contains(&more) {
            found.push(more);
        }
    }
    found
}

/// Files below `root`, counted until there are too many.
fn count(root: &Path) -> usize {
    let mut files = Vec::new();
    match headers(root, DEPTH_MAX, &mut files) {
        Ok(()) => files.len(),
        Err(_) => usize::MAX,
    }
}

/// Digest of everything that compiling with this installation may read.
pub(super) fn digest(installation: &Installation) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    for file in std::iter::once(&installation.library).chain(&installation.builtins) {
        hasher.update(content(file)?.as_bytes());
    }
    for root in &installation.includes {
        let mut files = Vec::new();
        headers(root, DEPTH_MAX, &mut files)?;
        files.sort();
        for file in files {
            let name = file.strip_prefix(root).unwrap_or(&file).as_os_str().as_encoded_bytes();
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name);
            hasher.update(content(&file)?.as_bytes());
        }
    }
    Ok(hasher.finalize())
}

/// Digest of one file.
pub(super) fn content(file: &Path) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(file)?)?;
    Ok(hasher.finalize())
}

fn headers(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if depth == 0 {
        return Err(io::Error::other(format!("{} is nested too deeply", folder.display())));
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            headers(&path, depth - 1, found)?;
        } else {
            found.push(path);
        }
        if found.len() > HEADERS_MAX {
            return Err(io::Error::other(format!("more than {HEADERS_MAX} headers in {}", folder.display())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn named(paths: &[&Path]) -> Vec<Installation> {
        let named = paths.iter().map(|path| path.to_path_buf()).collect();
        search(&Surroundings { named, ..Surroundings::default() })
    }

    fn libraries_of(found: &[Installation]) -> Vec<String> {
        found.iter().map(|found| found.library.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn python_packages_of_both_majors_are_found_newest_first_with_builtins_and_headers() {
        let root = tempfile::tempdir().unwrap();
        let new = root.path().join("nvidia/cu13");
        touch(&new.join("lib/libnvrtc.so.13"), "library");
        touch(&new.join("lib/libnvrtc.alt.so.13"), "not this one");
        touch(&new.join("lib/libnvrtc-builtins.so.13.0"), "builtins");
        touch(&new.join("include/cuda_fp16.h"), "header");
        touch(&new.join("include/cccl/nv/target"), "header");
        let old = root.path().join("nvidia");
        touch(&old.join("cuda_nvrtc/lib/libnvrtc.so.12"), "older");
        touch(&old.join("cuda_runtime/include/cuda_fp16.h"), "header");
        touch(&old.join("cuda_runtime/include/mma.h"), "header");
        touch(&old.join("cuda_nvcc/include/crt/mma.h"), "header");
        let found = named(&[root.path()]);
        assert_eq!(libraries_of(&found), ["libnvrtc.so.13", "libnvrtc.so.12"], "{found:?}");
        assert!(found[0].builtins.as_ref().unwrap().ends_with("libnvrtc-builtins.so.13.0"));
        assert_eq!(
            found[0].headers(),
            (vec!["cuda_fp16.h"], vec!["cuda_bf16.h", "cooperative_groups.h", "mma.h", "cuda/std", "cub"])
        );
        assert_eq!(found[1].headers().0, ["mma.h"], "without nv/target no other header works");
        assert_eq!((found[0].includes.len(), found[1].includes.len()), (2, 2));
        let before = digest(&found[0]).unwrap();
        touch(&new.join("include/cuda_fp16.h"), "another header");
        assert_ne!(before, digest(&found[0]).unwrap());
    }

    #[test]
    fn a_toolkit_is_found_through_its_links_once_and_versions_are_numbers() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9.2", "12.9", "13.0"] {
            let lib = root.path().join(format!("cuda-{version}/targets/x86_64-linux/lib"));
            touch(&lib.join(format!("libnvrtc.so.{version}.1")), version);
            std::os::unix::fs::symlink(format!("libnvrtc.so.{version}.1"), lib.join("libnvrtc.so")).unwrap();
            std::os::unix::fs::symlink(
                "targets/x86_64-linux/lib",
                root.path().join(format!("cuda-{version}/lib64")),
            )
            .unwrap();
        }
        let homes: Vec<PathBuf> = ["12.9", "9.2", "13.0"]
            .iter()
            .map(|version| root.path().join(format!("cuda-{version}")))
            .collect();
        let homes: Vec<&Path> = homes.iter().map(PathBuf::as_path).collect();
        // Named one by one, the operator's order holds.
        assert_eq!(
            libraries_of(&named(&homes)),
            ["libnvrtc.so.12.9.1", "libnvrtc.so.9.2.1", "libnvrtc.so.13.0.1"]
        );
        let home = Surroundings { cuda_home: Some(root.path().join("cuda-12.9")), ..Surroundings::default() };
        let found = search(&home);
        assert_eq!(
            (found[0].origin, libraries_of(&found[..1])[0].as_str()),
            (Origin::CudaHome, "libnvrtc.so.12.9.1")
        );
        assert_eq!(version(Path::new("libnvrtc.so.12.9.86")), [12, 9, 86]);
        assert!(version(Path::new("libnvrtc.so")) < version(Path::new("libnvrtc.so.12")));
    }

    #[test]
    fn a_virtual_environment_a_file_and_a_list_can_be_named() {
        let root = tempfile::tempdir().unwrap();
        let library = root.path().join("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
        touch(&library, "library");
        let environment = root.path().join("venv");
        assert_eq!(libraries_of(&named(&[&environment])), ["libnvrtc.so.13"]);
        assert_eq!(libraries_of(&named(&[&library])), ["libnvrtc.so.13"]);
        assert_eq!(named(&[&environment, &library]).len(), 1);
        let active = Surroundings { virtual_env: Some(environment), ..Surroundings::default() };
        let found = search(&active);
        assert!(found.iter().any(|found| found.library.ends_with("cu13/lib/libnvrtc.so.13")
            && found.origin == Origin::PythonPackage));
    }

    #[test]
    fn a_named_place_without_a_library_gives_nothing() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(named(&[root.path()]), []);
        assert_eq!(named(&[&root.path().join("missing.so")]), []);
    }
}
