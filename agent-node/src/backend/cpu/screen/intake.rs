//! Reports of sanitizers as functions of their text, for the fuzz targets.

use super::report::{Facts, View};
use super::{report_address, report_thread};
use crate::backend::{Buffer, BufferUse, Evaluation, ResolvedStep};
use fleet_config::domain::{ElementType, Outcome, Role, Screen};
use std::path::Path;

/// What a report of each kind of sanitizer means, and what the program said of itself.
pub fn report(text: &str) -> Vec<Outcome> {
    let buffer = |name: &str, role| Buffer {
        name: name.to_owned(),
        use_: BufferUse::Parameter(role),
        element: ElementType::F32,
        bytes: 400,
    };
    let kernel = ResolvedStep::Kernel {
        entry: 0,
        name: "f".to_owned(),
        grid: [2, 1, 1],
        block: [32, 1, 1],
        shared_bytes: 64,
        arguments: Vec::new(),
        cooperative: false,
        cluster: None,
    };
    let evaluation = Evaluation {
        case: "case".to_owned(),
        buffers: vec![buffer("a", Role::In), buffer("b", Role::Out)],
        steps: vec![kernel],
    };
    let facts = Facts::read(text);
    let view =
        View { evaluation: &evaluation, program: Path::new("/none"), main: "k/main.cu", facts: &facts };
    let found = [
        report_address::read(text, &view),
        report_thread::read(text, &view, Screen::RacesInBlock),
        view.stopped(),
    ];
    found.into_iter().flatten().map(|failure| *failure.outcome).collect()
}
