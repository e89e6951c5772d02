//! What a machine cannot give is said where a reader of the whole run sees it.

use std::fmt::Display;
use std::io::Write as _;

/// Says that a part of a test did not run, and why. Written past the capture of a passing test's output, so that
/// `scripts/check.sh` can count it.
pub fn skipped(why: impl Display) {
    // A closed standard error takes the words with it, and no test.
    let _said = writeln!(std::io::stderr().lock(), "\nSKIPPED: {why}");
}
