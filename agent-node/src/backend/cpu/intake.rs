//! What this device kind reads from candidates and children, as functions of bytes alone, for the fuzz targets.

pub use super::screen::intake::report;

use super::diagnostics::{Names, diagnose};
use super::fault::{Located, Report, explain};
use super::supervisor::line_of;
use super::{failure, rewrite};
use crate::backend::{Buffer, BufferUse};
use fleet_config::domain::{ElementType, LaunchPlace, Outcome, Role};
use std::path::Path;

/// The text that the host compiler gets of a candidate's file, or what is wrong with it and on which line.
pub fn rewritten(bytes: &[u8]) -> Result<String, (String, u32)> {
    rewrite::rewrite(bytes).map_err(|error| (error.to_string(), error.line()))
}

/// What a compiler's log means.
pub fn log(text: &str) -> Outcome {
    let is_known = |path: &str| path.starts_with("k/");
    let names = Names { main: "k/main.cu", main_lines: 9, asks_architecture: true, is_known: &is_known };
    *failure::diagnosis(diagnose(text, &names), text.to_owned()).outcome
}

/// Words of a worker's control page, as it may stand there at any time.
#[derive(Debug, Clone, Copy)]
pub struct FaultWords {
    pub kind: u32,
    pub signal: i32,
    pub code: i32,
    pub access: u32,
    pub line: u32,
    pub detail: [u32; 2],
    pub address: u64,
    pub buffers: [u64; 2],
    pub shared: [u64; 2],
    pub stack: [u64; 2],
    pub stack_pointer: u64,
}

/// What a fault record means.
pub fn fault(words: FaultWords) -> Outcome {
    let FaultWords {
        kind,
        signal,
        code,
        access,
        line,
        detail,
        address,
        buffers,
        shared,
        stack,
        stack_pointer,
    } = words;
    let place = LaunchPlace { block: [u32::MAX; 3], thread: [line; 3] };
    let report = Report {
        kind,
        signal,
        code,
        access,
        line,
        detail,
        place,
        address,
        instruction: None,
        shared,
        stack,
        stack_pointer,
    };
    let buffer = |name: &str, role| Buffer {
        name: name.to_owned(),
        use_: BufferUse::Parameter(role),
        element: ElementType::F32,
        bytes: 400,
    };
    let (input, output) = (buffer("a", Role::In), buffer("b", Role::Out));
    let located =
        [Located { buffer: &input, address: buffers[0] }, Located { buffer: &output, address: buffers[1] }];
    *explain(&report, &located, "case", "k/main.cu", None).outcome
}

/// The line of the candidate behind an instruction of the file at `path`, by the line tables in it.
pub fn line(path: &Path, offset: u64) -> Option<(String, u32)> {
    line_of(path, offset).map(|place| (place.file, place.line))
}
