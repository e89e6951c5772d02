//! Running the compiling child: started confined, ended by its limit or an interrupt, its answer read back.

use super::compile::read_bounded;
use super::compiler_child::{ANSWER, ANSWER_MAX, Answer, ORDER, Order};
use super::nvrtc::CUBIN_MAX;
use super::toolkit::Installation;
use crate::backend::Interrupt;
use crate::sandbox::{self, Confinement, ExitHow, Profile, Request, ResourceLimits};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Address space of the compiling child.
const COMPILER_MEMORY: u64 = 16 << 30;
/// Output of the child itself; the compiler's log travels in the answer.
const OUTPUT_MAX: usize = 64 << 10;
/// Time for loading a library of 100 MB from a cold disk and asking its version.
const DESCRIBE_LIMIT: Duration = Duration::from_secs(60);

/// Asks one library for its version and architectures.
pub(super) fn describe(
    installation: &Installation,
    cache: &Path,
    confinement: Confinement,
) -> Result<Answer, String> {
    // A folder of its own, so that two nodes on one cache do not meet.
    let folder = cache.join(format!("describe-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let Installation { library, builtins, includes: _, origin: _ } = installation.clone();
    let order = Order { library, builtins, unit: None };
    let place = Place { folder: &folder, confinement };
    let answer = run(&order, installation, place, DESCRIBE_LIMIT, &Interrupt::never());
    let _ = fs::remove_dir_all(&folder);
    match answer {
        Ok((answer, _)) => Ok(answer),
        Err(RunError::Deadline | RunError::Interrupted) => Err("it did not answer in time".to_owned()),
        Err(RunError::Died { signal, output }) => Err(format!("it was ended by signal {signal}: {output}")),
        Err(RunError::Other(cause)) => Err(cause),
    }
}

/// Why there is no answer.
pub(super) enum RunError {
    Deadline,
    Interrupted,
    Died { signal: i32, output: String },
    Other(String),
}

/// Where a compiling child runs.
pub(super) struct Place<'a> {
    pub folder: &'a Path,
    pub confinement: Confinement,
}

/// Runs the compiling child and reads its answer. It is dead within a fraction of a second after an interrupt.
pub(super) fn run(
    order: &Order,
    installation: &Installation,
    place: Place<'_>,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<(Answer, String), RunError> {
    let Place { folder, confinement } = place;
    let other = |what: &str, error: &dyn std::fmt::Display| RunError::Other(format!("{what}: {error}"));
    let text = serde_json::to_vec(order).map_err(|error| other("the order", &error))?;
    fs::write(folder.join(ORDER), text).map_err(|error| other("the order", &error))?;
    let mut readable = vec![installation.library.clone()];
    readable.extend(installation.builtins.clone());
    readable.extend(installation.includes.clone());
    readable.push(PathBuf::from("/proc/cpuinfo"));
    let request = Request {
        program: sandbox::own_binary(),
        arguments: vec!["nvrtc-compile".into()],
        environment: vec![("TMPDIR".into(), folder.into()), ("LC_ALL".into(), "C".into())],
        folder: folder.to_owned(),
        readable,
        executable: Vec::new(),
        devices: Vec::new(),
        passed: Vec::new(),
        profile: Profile::Worker,
        limits: ResourceLimits {
            cpu_seconds: limit.as_secs().saturating_add(1),
            memory: Some(COMPILER_MEMORY),
            file_size: CUBIN_MAX as u64,
            open_files: 256,
            processes: 64,
            output_max: OUTPUT_MAX,
        },
    };
    let mut child = sandbox::spawn(request, confinement).map_err(|error| other("start it", &error))?;
    let exit = child.wait_unless(limit, &|| interrupt.asked());
    let exit = exit.map_err(|error| other("wait for it", &error))?.ok_or(RunError::Interrupted)?;
    let output = exit.output.text();
    match exit.how {
        ExitHow::Deadline | ExitHow::Signal(libc::SIGXCPU) => Err(RunError::Deadline),
        ExitHow::Signal(signal) => Err(RunError::Died { signal, output }),
        ExitHow::MemoryLimit => Err(RunError::Died { signal: libc::SIGKILL, output }),
        ExitHow::Code(0) => {
            let bytes = read_bounded(&folder.join(ANSWER), ANSWER_MAX)
                .map_err(|error| other("its answer", &error))?;
            let answer = serde_json::from_slice(&bytes).map_err(|error| other("its answer", &error))?;
            Ok((answer, output))
        }
        ExitHow::Code(code) => Err(RunError::Other(format!("it ended with code {code}: {output}"))),
    }
}
