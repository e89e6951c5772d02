//! Feedback as text: one line for a loop that keeps many, a page for one that looks.

use super::{CaseRatio, Comparison, Feedback, FirstCause, Ratio, ToBest};
use fleet_config::domain::{Mismatch, StageTimes, words};

/// One line: status, cause with its place or ratio with its interval, next step.
pub fn short(feedback: &Feedback) -> String {
    let mut parts = vec![feedback.status.to_string()];
    if let Some(cause) = &feedback.cause {
        parts.push(one_line(&cause_text(cause)));
    }
    if let Some(mismatch) = &feedback.mismatch {
        parts.push(one_line(&pattern(mismatch)));
    }
    if let Some(ratio) = feedback.to_baseline {
        parts.push(format!("{} of the baseline", interval(ratio)));
    }
    if let Some(ToBest { ratio: Some(ratio), leaf, .. }) = &feedback.to_best {
        let leaf = leaf.map_or_else(String::new, |leaf| format!(" (leaf {leaf})"));
        parts.push(format!("{} of the best{leaf}", interval(*ratio)));
    }
    if let Some(fallen) = &feedback.fallen {
        parts.push(one_line(&format!("fallen: {fallen}")));
    }
    parts.push(one_line(&format!("next: {}", feedback.hint)));
    parts.join("; ")
}

/// Everything, line by line.
pub fn long(feedback: &Feedback) -> String {
    let mut lines = vec![format!(
        "{} at leaf {} on {} ({}), policy {}",
        one_line(&feedback.name),
        feedback.leaf,
        feedback.architecture,
        one_line(&feedback.device_model),
        one_line(&feedback.policy)
    )];
    lines.push(format!("status    {} at {}", feedback.status, feedback.stage.name()));
    if let Some(cause) = &feedback.cause {
        lines.push(format!("cause     {}", one_line(&cause_text(cause))));
        if let Some(line) = &cause.line {
            lines.push(format!("          | {}", one_line(line)));
        }
    }
    if let Some(mismatch) = &feedback.mismatch {
        lines.extend(mismatch_lines(mismatch));
    }
    if let Some(ratio) = feedback.to_baseline {
        lines.push(format!("baseline  {}", interval(ratio)));
    }
    lines.extend(feedback.cases.iter().map(case_line));
    if let Some(best) = &feedback.to_best {
        lines.push(best_line(best));
    }
    if let Some(fallen) = &feedback.fallen {
        lines.push(format!("fallen    {}", one_line(fallen)));
    }
    if !feedback.resources.is_empty() {
        let uses: Vec<String> = feedback.resources.iter().map(|(name, n)| format!("{name} {n}")).collect();
        lines.push(format!("uses      {}", one_line(&uses.join(", "))));
    }
    let StageTimes { queue, transfer, compile, validate, time } = feedback.stage_times;
    lines.push(format!(
        "took      queue {queue}, transfer {transfer}, compile {compile}, validate {validate}, time {time}"
    ));
    for note in &feedback.checks {
        lines.push(one_line(&format!("check     {}: {}: {}", note.check, note.finding.words(), note.detail)));
    }
    lines.push(format!("next      {}", one_line(&feedback.hint)));
    lines.join("\n")
}

fn interval(ratio: Ratio) -> String {
    format!("{:.3}× [{:.3}, {:.3}]", ratio.ratio, ratio.low, ratio.high)
}

fn cause_text(cause: &FirstCause) -> String {
    let mut text = format!("{} [{}]", cause.message, cause.code);
    if let Some(place) = &cause.source {
        text.push_str(&format!(" at {}:{}", place.file, place.line));
        if place.column > 0 {
            text.push_str(&format!(":{}", place.column));
        }
    }
    if let Some(case) = &cause.case {
        text.push_str(&format!(" in case `{case}`"));
    }
    if let Some(memory) = &cause.memory {
        text.push_str(&format!(", byte {} of `{}` ({} bytes)", memory.offset, memory.buffer, memory.size));
    }
    text
}

fn pattern(mismatch: &Mismatch) -> String {
    let pattern = if mismatch.pattern.is_empty() { "no pattern" } else { &mismatch.pattern };
    format!("{} of {} elements of `{}`: {pattern}", mismatch.count, mismatch.total, mismatch.output)
}

fn mismatch_lines(mismatch: &Mismatch) -> Vec<String> {
    let at = |coordinates: &[u64], index: u64| {
        if coordinates.is_empty() { format!("[{index}]") } else { format!("{coordinates:?}") }
    };
    let mut lines = vec![format!("wrong     {}", one_line(&pattern(mismatch)))];
    lines.push(one_line(&format!(
        "          first at {}: expected {}, got {}",
        at(&mismatch.coordinates, mismatch.index),
        mismatch.expected,
        mismatch.got
    )));
    if let Some(worst) = &mismatch.worst {
        lines.push(one_line(&format!(
            "          furthest off at {}: expected {}, got {}",
            at(&worst.coordinates, worst.index),
            worst.expected,
            worst.got
        )));
    }
    lines
}

fn case_line(case: &CaseRatio) -> String {
    let micros = |ns: f64| format!("{:.3} µs", ns / 1000.0);
    format!(
        "          {}: {} to {}, {:.3}× over {} pairs",
        one_line(&case.case),
        micros(case.baseline_ns),
        micros(case.candidate_ns),
        case.ratio,
        case.pairs
    )
}

fn best_line(best: &ToBest) -> String {
    let leaf = best.leaf.map_or_else(String::new, |leaf| format!(", leaf {leaf}"));
    let words = match best.verdict {
        Comparison::Faster => "faster than it",
        Comparison::Tie => "no difference shown",
        Comparison::Slower => "slower than it",
        Comparison::NotTimed => "this one has no time",
    };
    let own =
        best.ratio.map_or_else(String::new, |ratio| format!("; {} of it over two leases", interval(ratio)));
    format!("best      {}{leaf}: {} of the baseline{own}; {words}", one_line(&best.name), interval(best.best))
}

/// One line that cannot steer a terminal.
fn one_line(text: &str) -> String {
    words::printable(text.as_bytes()).replace(['\n', '\t'], " ")
}
