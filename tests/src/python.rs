//! Programs in `tests/python`, run where there is a Python.

use crate::fleet::checkout;
use crate::skip::skipped;
use std::process::{Command, Output};

/// Runs a program of `tests/python`; nothing, and said so, where there is no Python. `$MUSTER_TEST_PYTHON` names another
/// interpreter than `python3`, such as one that has securesystemslib.
#[expect(clippy::disallowed_methods, reason = "the harness starts real processes")]
pub fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    let python = std::env::var("MUSTER_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let path = checkout().join("tests/python").join(program);
    match Command::new(&python).arg("-B").arg(path).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) => {
            skipped(format!("{program}: {python} does not start: {error}"));
            None
        }
    }
}
