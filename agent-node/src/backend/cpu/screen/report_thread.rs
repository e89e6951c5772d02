//! Reads reports of ThreadSanitizer: two accesses, where they happened, and what they touched.

use super::found;
use super::report::{View, hex, place, triple};
use crate::backend::Failure;
use fleet_config::domain::{FaultKind, LaunchPlace, MemoryPlace, Screen, SourcePlace};

/// What clang's ThreadSanitizer calls a variable whose name it would have to ask another program for.
const NAMELESS: &str = "<null>";

/// One side of a race.
struct Access {
    /// `write`, `atomic write`, `read`, `atomic read`.
    verb: String,
    bytes: u64,
    address: u64,
    by: Option<LaunchPlace>,
    source: Option<SourcePlace>,
}

/// The first race that `text` reports.
pub(super) fn read(text: &str, view: &View<'_>, screen: Screen) -> Option<Failure> {
    let (_, report) = text.split_once("WARNING: ThreadSanitizer: data race")?;
    let (first, second, memory) = accesses(report, view)?;
    Some(race(&first, &second, memory, view, screen))
}

/// The two accesses of one report and what they touched.
fn accesses(report: &str, view: &View<'_>) -> Option<(Access, Access, Option<MemoryPlace>)> {
    let report = report.split("==================").next()?;
    let lines: Vec<&str> = report.lines().collect();
    let mut accesses = (0..lines.len()).filter_map(|at| access(&lines, at, view));
    let (first, second) = (accesses.next()?, accesses.next()?);
    let memory = global(&lines, first.address, first.by).or_else(|| view.memory(first.address, first.by));
    Some((first, second, memory))
}

/// The first race by which an update is lost: a plain write to what another thread updates by an atomic, or one statement
/// of two threads that reads, changes and writes. `line_at` gives a line of the candidate's main file. Flags that several
/// threads set, and values that are looked at before an atomic decides, are no such race.
pub(super) fn lost_update(
    text: &str,
    view: &View<'_>,
    screen: Screen,
    line_at: &dyn Fn(u32) -> Option<String>,
) -> Option<Failure> {
    let reports = text.split("WARNING: ThreadSanitizer: data race").skip(1).take(REPORTS_MAX);
    for report in reports {
        let Some((first, second, memory)) = accesses(report, view) else { continue };
        let verbs = [first.verb.as_str(), second.verb.as_str()];
        let changes = || {
            let line = first
                .source
                .as_ref()
                .filter(|place| place.file == view.main)
                .and_then(|place| line_at(place.line));
            line.is_some_and(|line| CHANGES.iter().any(|operator| line.contains(operator)))
        };
        let is_lost = match verbs {
            ["write", "atomic write"] | ["atomic write", "write"] => true,
            ["write", "read"] | ["read", "write"] | ["write", "write"] => {
                first.source == second.source && changes()
            }
            _ => false,
        };
        if is_lost {
            return Some(race(&first, &second, memory, view, screen));
        }
    }
    None
}

/// Reports that are looked through.
const REPORTS_MAX: usize = 200;
/// Operators whose result depends on what stood there, and that do not give the same when done twice.
const CHANGES: [&str; 6] = ["+=", "-=", "*=", "^=", "++", "--"];

/// `  Previous write of size 4 at 0x55 by thread T32:` and the stack below it.
fn access(lines: &[&str], at: usize, view: &View<'_>) -> Option<Access> {
    let line = lines.get(at)?.trim();
    let (verb, rest) = line.split_once(" of size ")?;
    let (bytes, rest) = rest.split_once(" at 0x")?;
    let (address, rest) = rest.split_once(" by ")?;
    let thread = rest.trim_end_matches(':').split(' ').nth(1)?;
    Some(Access {
        verb: verb.trim_start_matches("Previous ").to_lowercase().chars().take(20).collect(),
        bytes: bytes.parse().ok()?,
        address: hex(address)?,
        by: name_of(lines, thread).and_then(place),
        source: view.source(lines.get(at + 1..)?.iter().copied().take_while(|line| !line.trim().is_empty())),
    })
}

/// `  Thread T33 'b0,0,0t32,0,0' (tid=0, running) created by main thread at:`.
fn name_of<'a>(lines: &[&'a str], thread: &str) -> Option<&'a str> {
    let head = format!("Thread {thread} '");
    lines.iter().find_map(|line| line.trim_start().strip_prefix(&head)?.split('\'').next())
}

/// `  Location is global 'f::s' of size 256 at 0x5555 (screen+0x6170)`.
fn global(lines: &[&str], address: u64, by: Option<LaunchPlace>) -> Option<MemoryPlace> {
    let said = lines.iter().find_map(|line| line.trim_start().strip_prefix("Location is global '"))?;
    let (name, rest) = said.split_once('\'')?;
    if name == NAMELESS {
        return None;
    }
    let (_, rest) = rest.split_once(" of size ")?;
    let (size, rest) = rest.split_once(" at 0x")?;
    let start = hex(rest.split(' ').next()?)?;
    let offset = i64::try_from(i128::from(address) - i128::from(start)).ok()?;
    let name = name.rsplit("::").next().unwrap_or(name);
    Some(MemoryPlace {
        buffer: name.chars().take(120).collect(),
        offset,
        size: size.parse().ok()?,
        place: by,
    })
}

fn race(
    first: &Access,
    second: &Access,
    memory: Option<MemoryPlace>,
    view: &View<'_>,
    screen: Screen,
) -> Failure {
    let who = |access: &Access| {
        let Access { verb, bytes, by, source, address: _ } = access;
        let by = by.as_ref().map_or_else(
            || "an unknown thread".to_owned(),
            |LaunchPlace { block, thread }| format!("block {}, thread {}", triple(*block), triple(*thread)),
        );
        let at =
            source.as_ref().map_or_else(String::new, |place| format!(" ({}:{})", place.file, place.line));
        format!("{verb} of {bytes} bytes by {by}{at}")
    };
    let on = memory.as_ref().map_or_else(
        || "memory of no known name".to_owned(),
        |memory| format!("`{}` at byte {}", memory.buffer, memory.offset),
    );
    let message = format!("race on {on}: {}, and {}, in no order", who(second), who(first));
    let hint = match screen {
        Screen::RacesBetweenBlocks => {
            "use atomic functions, or let each block write what no other block touches"
        }
        Screen::Fences
        | Screen::Orders
        | Screen::UninitialisedShared
        | Screen::DivergentBarriers
        | Screen::ShuffleMasks
        | Screen::UninitialisedMemory
        | Screen::Address
        | Screen::RacesInBlock => "put a __syncthreads or __syncwarp between them, or use atomic functions",
    };
    let mut failure = found(screen, FaultKind::Race, message, hint, &view.evaluation.case);
    if let Some(cause) = &mut failure.outcome.cause {
        cause.source = first.source.clone().or_else(|| second.source.clone());
        cause.memory = memory;
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Evaluation;
    use crate::backend::cpu::screen::report::Facts;
    use fleet_config::domain::Cause;
    use std::path::Path;

    const REPORT: &str = "muster-buffer 0 7ffff2bff000 400
==================
WARNING: ThreadSanitizer: data race (pid=6892)
  Write of size 4 at 0x55555555a170 by thread T33:
    #0 (/job/screen+0x1331) in f /candidate/k.cu:4
    #1 (/job/screen+0x13e2) in muster_entry_0 /candidate/k.cu:8

  Previous atomic read of size 4 at 0x55555555a170 by thread T32:
    #0 (/job/screen+0x1353) in atomicAdd /shim/muster_atomic.h:5
    #1 (/job/screen+0x1353) in f /candidate/headers0/task.h:5

  Location is global 'f::s' of size 256 at 0x55555555a0f0 (screen+0x6170)

  Thread T33 'b0,0,0t32,0,0' (tid=0, running) created by main thread at:
    #0 (/job/screen+0x2859) in run_block /shim/runtime.cpp:405

  Thread T32 'b0,0,0t31,0,0' (tid=0, running) created by main thread at:
    #0 (/job/screen+0x2859) in run_block /shim/runtime.cpp:405

==================
muster-done
";

    fn check(text: &str) -> Option<Cause> {
        let evaluation = Evaluation { case: "odd".to_owned(), buffers: Vec::new(), steps: Vec::new() };
        let facts = Facts::read(text);
        let program = Path::new("/nonexistent");
        let view = View { evaluation: &evaluation, program, main: "k.cu", facts: &facts };
        read(text, &view, Screen::RacesInBlock).and_then(|failure| failure.outcome.cause)
    }

    #[test]
    fn a_race_names_variable_byte_both_threads_and_both_lines() {
        let cause = check(REPORT).unwrap();
        let memory = cause.memory.unwrap();
        assert_eq!((memory.buffer.as_str(), memory.offset, memory.size), ("s", 128, 256));
        assert_eq!(cause.source.unwrap().line, 4);
        assert_eq!(cause.fault, Some(FaultKind::Race));
        let expected = "race on `s` at byte 128: atomic read of 4 bytes by block (0,0,0), thread (31,0,0) (task.h:5), and write of 4 bytes by block (0,0,0), thread (32,0,0) (k.cu:4), in no order";
        assert_eq!(cause.message, expected);
    }

    #[test]
    fn a_variable_without_a_name_is_not_given_one() {
        let said = "global 'f::s' of size 256 at 0x55555555a0f0";
        let report = REPORT.replace(said, "global '<null>' at 0x000000000000");
        assert!(report != REPORT);
        let cause = check(&report).unwrap();
        assert!(
            cause.memory.is_none() && cause.message.contains("memory of no known name"),
            "{}",
            cause.message
        );
        assert_eq!(cause.source.unwrap().line, 4);
    }

    #[test]
    fn an_output_without_two_accesses_has_no_race() {
        assert!(check("muster-done\n").is_none());
        let (cut, _) = REPORT.split_once("  Previous").unwrap();
        assert!(check(cut).is_none());
    }

    #[test]
    fn an_update_is_lost_beside_an_atomic_one_or_by_one_statement_of_two_threads() {
        let lost = |text: &str, line: &str| {
            let evaluation = Evaluation { case: "odd".to_owned(), buffers: Vec::new(), steps: Vec::new() };
            let facts = Facts::read(text);
            let program = Path::new("/nonexistent");
            let view = View { evaluation: &evaluation, program, main: "k.cu", facts: &facts };
            lost_update(text, &view, Screen::RacesInBlock, &|_| Some(line.to_owned())).is_some()
        };
        // A plain write beside an atomic read is a flag; beside an atomic update it loses one.
        assert!(!lost(REPORT, "s[i] += 1;"));
        let update = REPORT.replace("atomic read", "atomic write");
        assert!(lost(&update, "s[i] = 1;"));
        // An earlier harmless race does not hide it.
        assert!(lost(&format!("{REPORT}{update}"), ""));
        let peek = REPORT.replace("  Write of", "  Read of").replace("atomic read", "atomic write");
        assert!(!lost(&peek, "if (s[i] < v) atomicMax(&s[i], v);"));
        // One statement of two threads.
        let own = "    #0 (/job/screen+0x1331) in f /candidate/k.cu:4\n";
        let (before, rest) = REPORT.split_once("  Previous").unwrap();
        let (_, after) = rest.split_once("\n\n").unwrap();
        let both =
            format!("{before}  Previous read of size 4 at 0x55555555a170 by thread T32:\n{own}\n{after}");
        assert!(lost(&both, "s[i] += 1;"));
        assert!(!lost(&both, "if (!s[i]) s[i] = 1;"), "a flag that several threads set");
    }

    proptest::proptest! {
        #[test]
        fn any_report_is_read(cut in 0..1100usize, noise in "[ -~]{0,40}") {
            // The report is ASCII: every place is a boundary.
            let at = cut.min(REPORT.len());
            check(&format!("{}{noise}{}", &REPORT[..at], &REPORT[at..]));
        }
    }
}
