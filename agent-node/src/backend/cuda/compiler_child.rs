//! The compiling child (`muster-node nvrtc-compile`): one order from the job's folder, one answer into it.
//!
//! Files in the folder: `order.json` and `source/…`, `headers<N>/…` from the node; `answer.json` and `candidate.cubin`
//! from here. The node trusts none of what it reads back.

use super::assembly;
use super::nvrtc::{Compiled, Nvrtc, NvrtcError};
use crate::sandbox::lock_cuda_worker;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Name of the order.
pub(super) const ORDER: &str = "order.json";
/// Name of the answer.
pub(super) const ANSWER: &str = "answer.json";
/// Name of the cubin.
pub(super) const CUBIN: &str = "candidate.cubin";
/// Bytes of an answer: mostly the log.
pub(super) const ANSWER_MAX: u64 = 16 << 20;

/// What the child is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    pub library: PathBuf,
    pub builtins: Option<PathBuf>,
    /// `None`: only describe the library.
    pub unit: Option<UnitOrder>,
}

/// One translation unit.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnitOrder {
    /// Path of the main file below `source`; its name in messages.
    pub main: String,
    /// Text behind the main file.
    pub glue: String,
    pub options: Vec<String>,
    pub kernels: Vec<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    /// The library: version and the numbers of its architectures.
    Library { major: i32, minor: i32, architectures: Vec<i32> },
    /// The cubin lies in its file.
    Compiled { log: String, symbols: Vec<String> },
    /// The source is at fault.
    Refused { log: String },
    /// The compiler does not know an option.
    Option { log: String },
    /// The compiler could not be used.
    Failed { cause: String },
}

/// The hidden subcommand. Its working folder is the job's.
pub fn nvrtc_compile_main() -> ExitCode {
    let answer = match work() {
        Ok(answer) => answer,
        Err(error) => Answer::Failed { cause: error.to_string() },
    };
    let written =
        serde_json::to_vec(&answer).map_err(io::Error::from).and_then(|bytes| fs::write(ANSWER, bytes));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write the answer: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum ChildError {
    #[error("cannot read or write {0}: {1}")]
    File(&'static str, #[source] io::Error),
    #[error("the order does not read: {0}")]
    Order(#[from] serde_json::Error),
    #[error("cannot confine the compiler: {0}")]
    Sandbox(#[from] crate::sandbox::SandboxError),
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
}

fn work() -> Result<Answer, ChildError> {
    let order = fs::read(ORDER).map_err(|error| ChildError::File("the order", error))?;
    let order: Order = serde_json::from_slice(&order)?;
    let nvrtc = Nvrtc::load(&order.library, order.builtins.as_deref())?;
    // From here on no exec and no new process; the source has not been read yet.
    lock_cuda_worker()?;
    let Some(unit) = order.unit else {
        let (major, minor) = nvrtc.version;
        return Ok(Answer::Library { major, minor, architectures: nvrtc.architectures()? });
    };
    let path = PathBuf::from("source").join(&unit.main);
    let main = fs::read_to_string(path).map_err(|error| ChildError::File("the main file", error))?;
    // A byte order mark is legal in a source and unknown to the compiler.
    let main = main.strip_prefix('\u{feff}').unwrap_or(&main);
    let text = format!("{main}\n{}", unit.glue);
    match nvrtc.compile(&text, &unit.main, &unit.options, &unit.kernels)? {
        Compiled::Cubin { cubin, log, symbols } => {
            fs::write(CUBIN, cubin).map_err(|error| ChildError::File("the cubin", error))?;
            Ok(Answer::Compiled { log, symbols })
        }
        Compiled::Refused { log } => Ok(Answer::Refused { log: located(&nvrtc, &text, &unit, log) }),
        Compiled::Option { log } => Ok(Answer::Option { log }),
    }
}

/// The log, with the place in the source of what the assembler says first, where that can be found out.
fn located(nvrtc: &Nvrtc, text: &str, unit: &UnitOrder, log: String) -> String {
    let find = || -> Option<String> {
        let (_, message) = assembly::first_error(&log)?;
        // With line numbers the same PTX has other lines, so ptxas is asked again.
        let again = assembly::options(&unit.options, false);
        let Ok(Compiled::Refused { log: again }) = nvrtc.compile(text, &unit.main, &again, &[]) else {
            return None;
        };
        let (at, _) = assembly::first_error(&again)?;
        let ptx = nvrtc.ptx(text, &unit.main, &assembly::options(&unit.options, true)).ok()??;
        let (file, line) = assembly::source_of(&ptx, at)?;
        let folder = std::env::current_dir().ok()?;
        let file = file.strip_prefix(&format!("{}/", folder.display())).unwrap_or(file);
        Some(format!("{file}({line}): error: ptxas: {message}\n"))
    };
    find().unwrap_or_default() + &log
}
