//! Where NVRTC and its headers lie on this machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Names a libnvrtc, or a folder with one; nothing else is searched then.
pub const VARIABLE: &str = "MUSTER_NVRTC";
/// Folders of distributions.
const SYSTEM: [&str; 5] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib"];
/// Where Python interpreters keep packages; each holds `pythonX.Y/site-packages`.
const PYTHON: [&str; 3] = ["/usr/local/lib", "/usr/lib", "/opt/conda/lib"];
/// Files in one header tree: a toolkit has about 2,000.
const HEADERS_MAX: usize = 20_000;
/// Depth of folders in one header tree.
const DEPTH_MAX: usize = 12;

/// One NVRTC on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installation {
    pub library: PathBuf,
    pub builtins: Option<PathBuf>,
    /// Folders with headers of the same toolkit, such as `cuda_fp16.h`; empty where only the library is installed.
    pub includes: Vec<PathBuf>,
}

/// What the search reads of the process: arguments, so that tests bring their own.
#[derive(Debug, Clone, Default)]
pub(super) struct Surroundings {
    pub named: Option<PathBuf>,
    pub cuda_home: Option<PathBuf>,
    pub home: Option<PathBuf>,
    pub virtual_env: Option<PathBuf>,
}

impl Surroundings {
    /// Those of this process.
    pub(super) fn of_process() -> Self {
        let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            named: path(VARIABLE),
            cuda_home: path("CUDA_HOME").or_else(|| path("CUDA_PATH")),
            home: path("HOME"),
            virtual_env: path("VIRTUAL_ENV"),
        }
    }
}

/// Every NVRTC that is found, those named by the operator first, then newer before older in each folder.
pub(super) fn search(surroundings: &Surroundings) -> Vec<Installation> {
    let mut folders: Vec<PathBuf> = Vec::new();
    match &surroundings.named {
        Some(named) if named.is_file() => return installation(named).into_iter().collect(),
        Some(named) => {
            folders.push(named.clone());
            folders.extend(packages(named));
            folders.extend(["lib64", "lib"].map(|name| named.join(name)));
        }
        None => folders.extend(usual(surroundings)),
    }
    let mut found: Vec<Installation> = Vec::new();
    for folder in folders {
        for library in libraries(&folder) {
            // The same file by several names (links) counts once.
            let real = fs::canonicalize(&library).unwrap_or(library);
            if !found.iter().any(|known| known.library == real) {
                found.extend(installation(&real));
            }
        }
    }
    found
}

fn usual(surroundings: &Surroundings) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Some(home) = &surroundings.cuda_home {
        folders.extend([home.join("lib64"), home.join("lib")]);
    }
    let mut toolkits: Vec<PathBuf> = children(Path::new("/usr/local"), "cuda");
    toolkits.reverse();
    folders.extend(toolkits.iter().map(|toolkit| toolkit.join("lib64")));
    folders.extend(SYSTEM.map(PathBuf::from));
    let mut pythons: Vec<PathBuf> = PYTHON.map(PathBuf::from).to_vec();
    pythons.extend(surroundings.virtual_env.as_ref().map(|root| root.join("lib")));
    pythons.extend(surroundings.home.as_ref().map(|home| home.join(".local/lib")));
    for python in pythons.iter().flat_map(|root| children(root, "python")) {
        for packages_folder in ["site-packages", "dist-packages"] {
            folders.extend(packages(&python.join(packages_folder)));
        }
    }
    folders
}

/// Library folders of the vendor's Python packages under one package folder.
fn packages(root: &Path) -> Vec<PathBuf> {
    let vendor = root.join("nvidia");
    let mut folders: Vec<PathBuf> = children(&vendor, "cu").iter().map(|folder| folder.join("lib")).collect();
    folders.reverse();
    folders.push(vendor.join("lib"));
    folders
}

/// Folders in `root` whose names begin with `prefix`, sorted.
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

/// `libnvrtc.so*` in one folder, the newest first.
fn libraries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        children(folder, "libnvrtc.so").into_iter().filter(|path| path.is_file()).collect();
    found.reverse();
    found
}

fn installation(library: &Path) -> Option<Installation> {
    let library = fs::canonicalize(library).ok()?;
    let folder = library.parent()?;
    let name = library.file_name()?.to_str()?;
    // `libnvrtc.so.13` or `libnvrtc.so.12.9.86`: builtins are of the same major, and minor where it is told.
    let version = name.strip_prefix("libnvrtc.so").unwrap_or("").trim_start_matches('.');
    let short = version.split('.').take(2).collect::<Vec<_>>().join(".");
    let mut builtins: Vec<PathBuf> = children(folder, &format!("libnvrtc-builtins.so.{short}"));
    if builtins.is_empty() {
        builtins = children(folder, "libnvrtc-builtins.so");
    }
    let builtins = builtins.into_iter().filter_map(|path| fs::canonicalize(path).ok()).next_back();
    let roots =
        [folder.join("../include"), folder.join("../../include"), folder.join("../../cuda_runtime/include")];
    let is_toolkit = |root: &PathBuf| root.join("cuda_fp16.h").is_file();
    let mut includes: Vec<PathBuf> =
        roots.into_iter().filter(is_toolkit).filter_map(|root| fs::canonicalize(root).ok()).collect();
    includes.truncate(1);
    // Since 13.0 the C++ headers of the toolkit (`<cuda/std/...>`) lie in a folder of their own.
    let more: Vec<PathBuf> =
        includes.iter().map(|root| root.join("cccl")).filter(|root| root.is_dir()).collect();
    includes.extend(more);
    Some(Installation { library, builtins, includes })
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

    #[test]
    fn a_python_package_is_found_with_its_builtins_and_headers() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("nvidia/cu13");
        touch(&folder.join("lib/libnvrtc.so.13"), "library");
        touch(&folder.join("lib/libnvrtc.alt.so.13"), "not this one");
        touch(&folder.join("lib/libnvrtc-builtins.so.13.0"), "builtins");
        touch(&folder.join("include/cuda_fp16.h"), "header");
        touch(&root.path().join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12"), "older");
        let named = Surroundings { named: Some(root.path().to_owned()), ..Surroundings::default() };
        let found = search(&named);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|found| found.library.is_absolute()));
        let newest = found.iter().find(|found| found.library.ends_with("libnvrtc.so.13")).unwrap();
        assert!(newest.builtins.as_ref().unwrap().ends_with("libnvrtc-builtins.so.13.0"));
        assert_eq!(newest.includes.len(), 1);
        let before = digest(newest).unwrap();
        touch(&folder.join("include/cuda_fp16.h"), "another header");
        assert_ne!(before, digest(newest).unwrap());
    }

    #[test]
    fn a_named_place_without_a_library_gives_nothing() {
        let root = tempfile::tempdir().unwrap();
        let named = Surroundings { named: Some(root.path().to_owned()), ..Surroundings::default() };
        assert_eq!(search(&named), []);
    }
}
