//! Where compute-sanitizer lies on this machine, and which version it is.

use crate::backend::screen::Missing;
use crate::sandbox::{self, Confinement, Profile, Request, ResourceLimits, system_toolchain};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names the program, or the folder with its parts; nothing else is searched then.
pub(in crate::backend::cuda) const VARIABLE: &str = "MUSTER_COMPUTE_SANITIZER";
const NAME: &str = "compute-sanitizer";
/// Where toolkits are installed, beside `/usr/local/cuda*`.
const TOOLKITS: [&str; 4] = ["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit"];
/// It prints a few lines.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
const OUTPUT_MAX: usize = 16 << 10;

/// The program with its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backend::cuda) struct Tool {
    /// Not the script of this name in a toolkit's `bin`, which would need a shell.
    pub program: PathBuf,
    /// Its libraries and helpers lie beside it.
    pub folder: PathBuf,
    pub version: String,
}

impl Tool {
    /// Looks for it and asks for its version, in `folder`, an empty one.
    pub(in crate::backend::cuda) fn find(folder: &Path, confinement: Confinement) -> Result<Self, Missing> {
        let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = ["CUDA_HOME", "CUDA_PATH"].into_iter().find_map(std::env::var_os).map(PathBuf::from);
        let (program, parts) = search(named.as_deref(), home.as_deref())?;
        let version = version(&program, &parts, folder, confinement).map_err(|cause| Missing {
            cause: format!("{} cannot be asked for its version: {cause}", program.display()),
            next: format!("run `{} --version` by hand", program.display()),
        })?;
        Ok(Self { program, folder: parts, version })
    }
}

fn search(named: Option<&Path>, home: Option<&Path>) -> Result<(PathBuf, PathBuf), Missing> {
    let places: Vec<PathBuf> = match named {
        Some(named) => vec![named.to_owned(), named.join(NAME)],
        None => {
            let below = |root: &Path| root.join(NAME).join(NAME);
            home.into_iter().chain(TOOLKITS.iter().map(Path::new)).map(below).collect()
        }
    };
    let real = |path: &PathBuf| std::fs::canonicalize(path).ok().filter(|path| path.is_file());
    let found = places.iter().find_map(real);
    let with_parts = found.and_then(|program| Some((program.clone(), program.parent()?.to_owned())));
    with_parts.ok_or_else(|| Missing {
        cause: "compute-sanitizer is missing".to_owned(),
        next: format!(
            "install it with the CUDA toolkit, and set CUDA_HOME or {VARIABLE} where it lies elsewhere"
        ),
    })
}

fn version(program: &Path, parts: &Path, folder: &Path, confinement: Confinement) -> Result<String, String> {
    let mut toolchain = system_toolchain();
    toolchain.readable.push(parts.to_owned());
    toolchain.executable.push(parts.to_owned());
    let request = Request {
        program: program.to_owned(),
        arguments: vec!["--version".into()],
        environment: Vec::new(),
        folder: folder.to_owned(),
        readable: toolchain.readable,
        executable: toolchain.executable,
        devices: Vec::new(),
        passed: Vec::new(),
        profile: Profile::Harness,
        limits: ResourceLimits {
            cpu_seconds: VERSION_LIMIT.as_secs(),
            memory: None,
            file_size: 1 << 20,
            open_files: 256,
            processes: 64,
            output_max: OUTPUT_MAX,
        },
    };
    let mut child = sandbox::spawn(request, confinement).map_err(|error| error.to_string())?;
    let exit = child.wait(VERSION_LIMIT).map_err(|error| error.to_string())?;
    let said = exit.output.text();
    if !exit.success() {
        return Err(format!("it ended by {:?}: {}", exit.how, said.trim()));
    }
    number(&said).ok_or_else(|| format!("it said: {}", said.trim().chars().take(200).collect::<String>()))
}

/// The number in `Version 2025.3.1.0 (build …)`.
fn number(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("Version ")?;
    let number = rest.split_whitespace().next()?;
    let is_number = number.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    (is_number && !number.is_empty() && number.len() < 40).then(|| number.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_by_its_own_name_and_below_a_toolkit() {
        let root = tempfile::tempdir().unwrap();
        let parts = std::fs::canonicalize(root.path()).unwrap().join(NAME);
        std::fs::create_dir(&parts).unwrap();
        let absent = search(Some(&parts), None).unwrap_err();
        assert!(absent.next.contains(VARIABLE));
        std::fs::write(parts.join(NAME), "").unwrap();
        let found = (parts.join(NAME), parts.clone());
        assert_eq!(search(None, Some(root.path())).unwrap(), found);
        assert_eq!(search(Some(&parts), None).unwrap(), found);
        assert_eq!(search(Some(&parts.join(NAME)), None).unwrap(), found);
    }

    #[test]
    fn its_version_is_the_number_that_it_says() {
        let said = "NVIDIA (R) Compute Sanitizer\nVersion 2025.3.1.0 (build 36400806) (public-release)\n";
        assert_eq!(number(said).unwrap(), "2025.3.1.0");
        for other in ["", "Version ", "Version x.1", "1.2.3"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
