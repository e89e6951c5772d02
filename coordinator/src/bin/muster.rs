//! The command line `muster`: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    coordinator::cli::run()
}
