//! What others say about an attempt, cut to a size that fits its record whatever they say.
//!
//! An entry of the ledger has at most 32 KiB. A compiler quotes the candidate's own text, a child writes what it
//! likes, and a source may have thousands of kernels with names of any length: without a bound a candidate could
//! make its own verdict unsignable, and the fleet would try it again and again. So it is with numbers that no canonical form
//! holds: a child may claim any address. Logs keep what is cut here.

use fleet_config::domain::canonical::INTEGER_MAX;
use fleet_config::domain::{Cause, MemoryPlace, Mismatch, Outcome, SourcePlace};
use std::collections::BTreeMap;

/// Longest text of an outcome in bytes; the first line of an error is far shorter.
const TEXT_MAX: usize = 2000;
/// Most coordinates that a mismatch names; no shape has as many sides.
const COORDINATES_MAX: usize = 64;
/// Bytes of the names of resources that a record carries, with their numbers.
const RESOURCES_MAX: usize = 3000;
/// Digits of a number and what JSON puts around name and number.
const RESOURCE_FRAME: usize = 24;

/// The outcome with every text cut to [`TEXT_MAX`] and every number one that can be written.
pub(super) fn outcome(mut outcome: Outcome) -> Outcome {
    clip(&mut outcome.hint);
    if let Some(cause) = &mut outcome.cause {
        bound_cause(cause);
    }
    outcome
}

fn bound_cause(cause: &mut Cause) {
    let Cause { code, message, fault: _, vendor_code, unsupported: _, case, source, memory, mismatch } =
        cause;
    for text in [code, message].into_iter().chain(vendor_code).chain(case) {
        clip(text);
    }
    if let Some(SourcePlace { file, line: _, column: _ }) = source {
        clip(file);
    }
    if let Some(MemoryPlace { buffer, offset, size, place: _ }) = memory {
        clip(buffer);
        limit([size]);
        let most = INTEGER_MAX.cast_signed();
        *offset = (*offset).clamp(-most, most);
    }
    if let Some(Mismatch {
        output, coordinates, expected, got, pattern, worst, index, count, total, ..
    }) = mismatch
    {
        limit([index, count, total].into_iter().chain(&mut *coordinates));
        for text in [output, expected, got, pattern] {
            clip(text);
        }
        coordinates.truncate(COORDINATES_MAX);
        if let Some(worst) = worst {
            clip(&mut worst.expected);
            clip(&mut worst.got);
            worst.coordinates.truncate(COORDINATES_MAX);
            limit([&mut worst.index].into_iter().chain(&mut worst.coordinates));
        }
    }
}

fn limit<'n>(numbers: impl IntoIterator<Item = &'n mut u64>) {
    for number in numbers {
        *number = (*number).min(INTEGER_MAX);
    }
}

/// One line of text, cut at a character's border: a compiler quotes the candidate's source, and what is quoted may not
/// reach a terminal as a command.
fn clip(text: &mut String) {
    if text.chars().any(char::is_control) {
        *text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    }
    if text.len() > TEXT_MAX {
        text.truncate(text.floor_char_boundary(TEXT_MAX));
    }
}

/// The resources that a record carries: those of all kernels together, then those of single kernels as far as they fit.
pub(super) fn resources(all: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut left = RESOURCES_MAX;
    let (single, together): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| name.contains('.'));
    let fits = |(name, _): &(String, u64)| match left.checked_sub(name.len() + RESOURCE_FRAME) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let kept = together.into_iter().chain(single).filter(fits);
    kept.map(|(name, value)| (name, value.min(INTEGER_MAX))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::config::TIMED_MAX;
    use fleet_config::domain::canonical::to_bytes;
    use fleet_config::domain::{
        Blame, BlobRef, CaseTiming, Decimal, PartsPerBillion, Picoseconds, Stage, Status, Worst,
    };
    use ledger::entry::ENTRY_BYTES_MAX;

    /// Largest outcome and resources together; the rest of a record and its timings are bounded by the task's checks.
    const SHARE: usize = 22 << 10;

    #[test]
    fn an_outcome_fits_whatever_was_said() {
        let long = "\u{e9}".repeat(100_000);
        let number: Decimal = "1e-5".parse().unwrap();
        let worst = Worst {
            index: 0,
            coordinates: vec![u64::from(u32::MAX); 1000],
            expected: long.clone(),
            got: long.clone(),
            absolute_error: number.clone(),
        };
        let mismatch = Mismatch {
            output: long.clone(),
            index: 0,
            coordinates: vec![u64::MAX; 1000],
            expected: long.clone(),
            got: long.clone(),
            absolute_error: Some(number),
            relative_error: None,
            count: u64::MAX,
            total: u64::MAX,
            pattern: long.clone(),
            worst: Some(worst),
        };
        let source = SourcePlace { file: long.clone(), line: 1, column: 1 };
        let memory = MemoryPlace { buffer: long.clone(), offset: i64::MIN, size: u64::MAX, place: None };
        let told = Cause { code: long.clone(), message: long.clone(), ..Cause::default() };
        for cause in [
            Cause { source: Some(source), memory: Some(memory), vendor_code: Some(long.clone()), ..told },
            Cause { message: long.clone(), mismatch: Some(mismatch), ..Cause::default() },
        ] {
            let made = Outcome::failed(Status::CompileError, Stage::Compile, Blame::Candidate, cause, &*long);
            let bytes = to_bytes(&outcome(made.clone())).unwrap();
            assert!(bytes.len() < SHARE, "{} bytes", bytes.len());
            assert!(to_bytes(&made).map_or(usize::MAX, |bytes| bytes.len()) > SHARE);
            assert_eq!(outcome(outcome(made.clone())), outcome(made));
        }
    }

    /// 32 KiB in base64 and an envelope, and what a record says beside outcome, resources and timings.
    #[test]
    fn a_record_holds_the_most_timed_cases() {
        let timing = CaseTiming {
            case: "\"".repeat(64),
            pairs: u32::MAX,
            baseline_median: Picoseconds(INTEGER_MAX),
            candidate_median: Picoseconds(INTEGER_MAX),
            ratio: PartsPerBillion(INTEGER_MAX),
            samples: BlobRef { size: INTEGER_MAX, ..BlobRef::of(b"samples") },
        };
        let timings = to_bytes(&vec![timing; TIMED_MAX]).unwrap().len();
        let (payload, others) = (ENTRY_BYTES_MAX * 3 / 4 - 600, 3_200);
        assert!(timings + RESOURCES_MAX + others <= payload, "{timings} bytes of timings");
    }

    #[test]
    fn texts_are_one_line_without_controls() {
        let cause = Cause { message: "#error \u{1b}[2Jall\npassed".to_owned(), ..Cause::default() };
        let made = Outcome::failed(Status::CompileError, Stage::Compile, Blame::Candidate, cause, "a\rb");
        let made = outcome(made);
        assert_eq!(
            (made.cause.unwrap().message.as_str(), made.hint.as_str()),
            ("#error  [2Jall passed", "a b")
        );
    }

    #[test]
    fn short_texts_stay_as_they_are() {
        let cause = Cause {
            code: "compile/error".to_owned(),
            message: "expected `;`".to_owned(),
            ..Cause::default()
        };
        let made =
            Outcome::failed(Status::CompileError, Stage::Compile, Blame::Candidate, cause, "correct it");
        assert_eq!(outcome(made.clone()), made);
    }

    #[test]
    fn resources_of_all_kernels_stay_and_those_of_single_ones_as_far_as_they_fit() {
        let mut all = BTreeMap::from([("registers".to_owned(), 255), ("stack_bytes".to_owned(), 8)]);
        assert_eq!(resources(all.clone()), all);
        assert_eq!(resources(BTreeMap::from([("spills".to_owned(), u64::MAX)]))["spills"], INTEGER_MAX);
        all.extend((0..5000).map(|kernel| (format!("kernel{kernel}.registers"), kernel)));
        all.insert(format!("{}.registers", "x".repeat(10_000)), 1);
        let kept = resources(all);
        assert_eq!((kept["registers"], kept["stack_bytes"]), (255, 8));
        assert!(kept.len() > 40 && to_bytes(&kept).unwrap().len() <= RESOURCES_MAX);
    }
}
