//! `results.tsv` in AutoKernel's ten columns. What is not known stays empty: throughput and share of the peak need a count of
//! operations that a task does not give. `speedup_vs_pytorch` is the speed-up over the task's own baseline, as it is there.

use super::Story;
use super::history::geomean_ms;
use crate::optimizer::attempt::{Attempt, Decision, Measured, Verdict};
use fleet_config::domain::Status;

const HEADER: &str = "experiment\ttag\tkernel_type\tthroughput_tflops\tlatency_us\tpct_peak\tspeedup_vs_pytorch\tcorrectness\tpeak_vram_mb\tdescription";

/// The whole table; attempts without a result are left out until they have one.
pub fn tsv(story: &Story<'_>) -> String {
    let mut lines = vec![HEADER.to_owned()];
    let measured = story.attempts.iter().filter_map(|attempt| Some((attempt, attempt.measured.as_ref()?)));
    lines.extend(measured.map(|(attempt, measured)| row(story, attempt, measured)));
    lines.push(String::new());
    lines.join("\n")
}

fn row(story: &Story<'_>, attempt: &Attempt, measured: &Measured) -> String {
    let number = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.4}"));
    let is_timed = measured.verdict == Verdict::Passed;
    let tag = match measured.decision {
        Decision::Baseline => "baseline",
        Decision::Keep => "kept",
        Decision::Tie | Decision::Slower | Decision::BelowMinimum | Decision::Screened => "revert",
        Decision::Failed | Decision::Masked => "failed",
    };
    let description = format!("{}: {}; {}", attempt.proposal.name, measured.decision.word(), measured.told);
    let cells = [
        attempt.proposal.iteration.to_string(),
        tag.to_owned(),
        story.settings.entry.clone(),
        String::new(),
        number(geomean_ms(measured).filter(|_| is_timed).map(|ms| ms * 1000.0)),
        String::new(),
        number(measured.ratio.filter(|_| is_timed).map(|ratio| ratio.ratio)),
        correctness(measured).to_owned(),
        String::new(),
        description,
    ];
    cells.map(|cell| escaped(&cell)).join("\t")
}

fn correctness(measured: &Measured) -> &'static str {
    match (measured.verdict, measured.status) {
        (Verdict::Passed, _) => "PASS",
        (_, Some(Status::Timeout | Status::CompileTimeout)) => "TIMEOUT",
        (_, Some(Status::RuntimeError | Status::LaunchError | Status::WorkerLost | Status::OutOfMemory)) => {
            "CRASH"
        }
        (
            _,
            Some(
                Status::Ok
                | Status::WrongResult
                | Status::ContractViolation
                | Status::Suspicious
                | Status::TaskWeak
                | Status::Rejected
                | Status::CompileError
                | Status::UnsupportedOnDevice
                | Status::Infrastructure,
            )
            | None,
        ) => "FAIL",
    }
}

/// A cell in which no tab or line end makes another.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}
