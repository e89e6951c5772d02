//! `history.json`: every attempt with its cases, in the order of iterations.

use super::Story;
use crate::optimizer::attempt::{Attempt, CaseOutcome, Decision, Measured, Verdict};
use serde_json::{Value, json};

/// The list of the guide's shape (iteration, source_sha256, origin, status, cases, geomean_ms), with what else is known of
/// each attempt beside it. `launch` answers with grid and block of an attempt in a case.
pub fn history(story: &Story<'_>, launch: &dyn Fn(&Attempt, &str) -> Value) -> Value {
    story.attempts.iter().map(|attempt| entry(attempt, launch)).collect()
}

fn entry(attempt: &Attempt, launch: &dyn Fn(&Attempt, &str) -> Value) -> Value {
    let proposal = &attempt.proposal;
    let mut entry = json!({
        "iteration": proposal.iteration,
        "source_sha256": proposal.source_sha256,
        "origin": proposal.origin.word(),
        "name": proposal.name,
        "parent": proposal.parent,
        "point": proposal.point,
        "words": proposal.words,
        "model": proposal.model,
        "usage": proposal.usage,
    });
    let Some(measured) = &attempt.measured else {
        entry["status"] = json!("pending");
        return entry;
    };
    entry["status"] = json!(status(measured));
    entry["decision"] = json!(measured.decision);
    entry["reason"] = if measured.code.is_empty() { Value::Null } else { json!(measured.code) };
    entry["log"] = json!(measured.told);
    entry["ratio"] = json!(measured.ratio);
    entry["geomean_ms"] = json!(geomean_ms(measured));
    entry["record"] = json!(measured.record);
    entry["leaf"] = json!(measured.leaf);
    entry["submission"] = json!(measured.submission);
    entry["device_ms"] = json!(measured.device_ms);
    entry["reused"] = json!(measured.reused);
    entry["cases"] = measured.cases.iter().map(|case| one(case, launch(attempt, &case.case))).collect();
    entry
}

fn one(case: &CaseOutcome, launch: Value) -> Value {
    json!({
        "id": case.case,
        "validated": case.validated,
        "max_abs_error": case.absolute_error_max,
        "latency_ms": case.timing.as_ref().map(|timing| timing.candidate_ns / 1e6),
        "baseline_ms": case.timing.as_ref().map(|timing| timing.baseline_ns / 1e6),
        "launch": launch,
    })
}

fn status(measured: &Measured) -> &'static str {
    match (measured.verdict, measured.decision) {
        (Verdict::Passed, Decision::Screened) => "screened",
        (Verdict::Passed, _) => "valid",
        (Verdict::Failed, _) => "rejected",
        (Verdict::Masked, _) => "masked",
    }
}

/// Geometric mean of the candidate's medians over its timed cases.
pub(super) fn geomean_ms(measured: &Measured) -> Option<f64> {
    let times: Vec<f64> = measured
        .cases
        .iter()
        .filter_map(|case| case.timing.as_ref())
        .map(|timing| timing.candidate_ns / 1e6)
        .filter(|ms| *ms > 0.0)
        .collect();
    let logarithms: Vec<f64> = times.iter().map(|ms| ms.ln()).collect();
    ledger::stats::geometric_mean(&logarithms)
}
