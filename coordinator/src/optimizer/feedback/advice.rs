//! The next step, by what a result says.

use super::{Comparison, Feedback};
use fleet_config::domain::{Blame, Status};

/// What to do next: the record's own hint where it has one, else what follows from status and ratios.
pub(super) fn next(feedback: &Feedback) -> String {
    if feedback.fallen.is_some() {
        return "this result counts no more: read why it fell, and submit an honest candidate".to_owned();
    }
    if feedback.status == Status::Ok {
        return timed(feedback);
    }
    if !feedback.hint.is_empty() {
        return feedback.hint.clone();
    }
    failed(feedback.status, feedback.blame).to_owned()
}

fn timed(feedback: &Feedback) -> String {
    let Some(own) = feedback.to_baseline else {
        return "it passed and has no rank here: see `muster rank` for what is ranked".to_owned();
    };
    let slowest = feedback.cases.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let where_least = slowest
        .filter(|_| feedback.cases.len() > 1)
        .map_or_else(String::new, |case| format!("; it gains least on `{}` ({:.3}×)", case.case, case.ratio));
    if own.high < 1.0 {
        return format!("slower than the baseline: go back to its parent{where_least}");
    }
    if own.holds_one() {
        return "no difference from the baseline was shown: try something that changes more".to_owned();
    }
    match feedback.to_best.as_ref().map(|best| best.verdict) {
        None => format!("the only one that is faster than the baseline so far: build on it{where_least}"),
        Some(Comparison::Faster) => format!("the best so far: build on it{where_least}"),
        Some(Comparison::Tie) => {
            format!("no difference from the best so far was shown: not a step forward by itself{where_least}")
        }
        Some(Comparison::Slower | Comparison::NotTimed) => {
            format!("faster than the baseline and slower than the best so far{where_least}")
        }
    }
}

fn failed(status: Status, blame: Blame) -> &'static str {
    if blame == Blame::Fleet {
        return "the fleet's own fault: submit the same candidate again; it counts for nothing";
    }
    match status {
        Status::Ok => "",
        Status::WrongResult => "compare the pattern of wrong elements with the kernel's indices and edges",
        Status::ContractViolation => "write only the outputs, and only inside them",
        Status::Suspicious => "compute the answer inside the timed launch, for every input",
        Status::TaskWeak => "the task itself is at fault: no candidate can answer it until it is mended",
        Status::Rejected => "submit what the task's contract allows: entry, signature, sizes, launch limits",
        Status::CompileError => "mend the first error that the compiler names",
        Status::CompileTimeout => "make the source cheaper to compile: fewer templates, less unrolling",
        Status::LaunchError => "launch within the limits of the device: threads, shared memory, registers",
        Status::RuntimeError => "look for an access outside of a buffer or an instruction that traps",
        Status::Timeout => "look for a loop or a wait that never ends",
        Status::OutOfMemory => "use less device memory",
        Status::UnsupportedOnDevice => "submit to a device that has what the candidate needs",
        Status::WorkerLost | Status::Infrastructure => "submit the same candidate again",
    }
}
