//! What compute-sanitizer wrote: the first thing that it found. Pure, and for people: nothing is decided by it.
//!
//! ```text
//! ========= Invalid __global__ write of size 4 bytes
//! =========     at oob+0x110 in kernel.cu:1
//! =========     by thread (255,0,0) in block (0,0,0)
//! =========     Access at 0x7f5aeea30400 is out of bounds
//! ```
//! Names of kernels and files are the candidate's: a `#line` may hold anything. So lines are cut, and what is not
//! printable is left out.

use fleet_config::domain::{LaunchPlace, SourcePlace};

/// Begins every line.
const PREFIX: &str = "=========";
/// Lines that are looked at.
const LINES_MAX: usize = 2_000;
/// Characters of one line that are kept.
const LINE_MAX: usize = 200;

/// The first finding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Its first line; empty where there is none.
    pub title: String,
    /// A second access, of a race.
    pub other: Option<String>,
    pub source: Option<SourcePlace>,
    pub place: Option<LaunchPlace>,
    pub address: Option<u64>,
}

impl Report {
    /// Reads a report.
    pub(super) fn read(text: &str) -> Self {
        let mut lines = text.lines().take(LINES_MAX).filter_map(line);
        let mut report = Self::default();
        let is_title = |line: &Line| !line.is_detail && !is_frame(&line.text);
        let Some(title) = lines.by_ref().find(is_title) else { return report };
        report.source = source(&title.text);
        for detail in lines.take_while(|line| line.is_detail) {
            let text = detail.text;
            if let Some(rest) = text.strip_prefix("and ") {
                report.other = Some(rest.to_owned());
            }
            report.source = report.source.or_else(|| source(&text));
            report.place = report.place.or_else(|| place(&text));
            report.address = report.address.or_else(|| address(&text));
        }
        report.title = title.text.trim_start_matches("Error: ").to_owned();
        report
    }

    /// For people.
    pub(super) fn sentence(&self) -> String {
        let Self { title, other, source, place, address: _ } = self;
        let mut sentence = if title.is_empty() { "a fault that the tool does not describe" } else { title }
            .trim_end_matches('.')
            .to_owned();
        if let Some(other) = other {
            sentence.push_str(" and ");
            sentence.push_str(other);
        }
        if let Some(LaunchPlace { block, thread }) = place {
            sentence.push_str(&format!(" by thread {thread:?} of block {block:?}"));
        }
        match source {
            Some(SourcePlace { file, line, column: _ }) if other.is_none() => {
                format!("{file}:{line}: {sentence}")
            }
            Some(_) | None => sentence,
        }
    }
}

struct Line {
    text: String,
    /// Indented under what stands above.
    is_detail: bool,
}

fn line(text: &str) -> Option<Line> {
    let rest = text.strip_prefix(PREFIX)?;
    let is_detail = rest.starts_with("    ");
    let printable = rest.trim().chars().filter(|letter| !letter.is_control()).take(LINE_MAX).collect();
    Some(Line { text: printable, is_detail })
}

/// What stands around the findings.
fn is_frame(text: &str) -> bool {
    text.is_empty() || text == "COMPUTE-SANITIZER" || text.contains("SUMMARY:") || text.starts_with("Warning")
}

/// `… in kernel.cu:12`, perhaps with more behind it.
fn source(text: &str) -> Option<SourcePlace> {
    let (_, rest) = text.rsplit_once(" in ")?;
    let word = rest.split(' ').next()?;
    let (file, line) = word.rsplit_once(':')?;
    let line = line.parse().ok().filter(|line| *line > 0)?;
    Some(SourcePlace { file: file.to_owned(), line, column: 0 })
}

/// `by thread (255,0,0) in block (0,0,0)`.
fn place(text: &str) -> Option<LaunchPlace> {
    let (thread, block) = text.strip_prefix("by thread (")?.split_once(") in block (")?;
    let three = |text: &str| -> Option<[u32; 3]> {
        let numbers: Option<Vec<u32>> = text.split(',').map(|number| number.parse().ok()).collect();
        numbers?.try_into().ok()
    };
    Some(LaunchPlace { block: three(block.split(')').next()?)?, thread: three(thread)? })
}

/// `Access at 0x7f… is out of bounds`, `Address 0x7f…`.
fn address(text: &str) -> Option<u64> {
    let rest = text.strip_prefix("Access at 0x").or_else(|| text.strip_prefix("Address 0x"))?;
    u64::from_str_radix(rest.split(|letter: char| !letter.is_ascii_hexdigit()).next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source_of(file: &str, line: u32) -> Option<SourcePlace> {
        Some(SourcePlace { file: file.to_owned(), line, column: 0 })
    }

    // As compute-sanitizer 2025.3.1 wrote them on an H200.
    const UNINITIALISED: &str = "========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at uninit+0xe0 in toy.cu:3
=========     by thread (32,0,0) in block (1,2,0)
=========     Address 0x7f5aeea30480
=========\u{20}
========= Uninitialized __global__ memory read of size 4 bytes
=========     at uninit+0xe0 in toy.cu:9
=========     by thread (33,0,0) in block (0,0,0)
=========     Address 0x7f5aeea30484
=========\u{20}
========= ERROR SUMMARY: 256 errors
";
    const RACE: &str = "========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at race+0x200 in toy.cu:2
=========     and Read access at race+0x210 in toy.cu:4 [1024 hazards]
=========\u{20}
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
";
    const BARRIER: &str = "========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp.
=========     at sync+0xa0 in toy.cu:4
=========     by thread (64,0,0) in block (0,0,0)
";

    #[test]
    fn the_first_finding_is_read_with_its_place() {
        let report = Report::read(UNINITIALISED);
        assert_eq!(report.source, source_of("toy.cu", 3));
        assert_eq!(report.place, Some(LaunchPlace { block: [1, 2, 0], thread: [32, 0, 0] }));
        assert_eq!(report.address, Some(0x7f5a_eea3_0480));
        assert_eq!(
            report.sentence(),
            "toy.cu:3: Uninitialized __global__ memory read of size 4 bytes by thread [32, 0, 0] of block [1, 2, 0]"
        );
    }

    #[test]
    fn a_race_has_two_places() {
        let report = Report::read(RACE);
        assert_eq!(report.source, source_of("toy.cu", 2));
        assert_eq!(
            report.sentence(),
            "Race reported between Write access at race+0x200 in toy.cu:2 and Read access at race+0x210 in toy.cu:4 [1024 hazards]"
        );
        let report = Report::read(BARRIER);
        assert_eq!(report.source, source_of("toy.cu", 4));
        assert!(report.title.contains("Divergent thread(s)"));
    }

    #[test]
    fn a_report_without_findings_and_one_with_forged_lines_say_no_more_than_they_hold() {
        let none = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n";
        assert_eq!(Report::read(none), Report::default());
        assert_eq!(Report::default().sentence(), "a fault that the tool does not describe");
        // A file name of a `#line` with an escape sequence and a made-up line behind it.
        let forged = "========= Invalid __global__ write of size 4 bytes\n=========     at f+0x1 in \u{1b}[2Ja\n========= ERROR SUMMARY: 0 errors\n.cu:7\n";
        let report = Report::read(forged);
        assert_eq!(report.sentence(), "Invalid __global__ write of size 4 bytes");
        let long = format!("========= {}\n", "x".repeat(5000));
        assert_eq!(Report::read(&long).title.len(), LINE_MAX);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reading_panic(text in "(=========( {0,6}(at|by thread|and|Access at 0x|Address 0x|Error:|in|[(),:0-9a-fx é]){0,6}\n)?){0,6}") {
            let _ = Report::read(&text).sentence();
        }
    }
}
