//! `muster audit`: the denominator of a recorded number, from the ledger alone.

use crate::cli::ledger_args::AuditArgs;
use crate::cli::moment::AsOf;
use crate::cli::output::table;
use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use fleet_config::domain::Digest;
use fleet_config::refusal::Refusal;
use ledger::audit::{Attempt, AttemptEnding, Audit, AuditReport};
use ledger::entry::Entry;
use ledger::entry::predicate::word;
use serde::Serialize;

#[derive(Debug, Serialize)]
struct Answer {
    #[serde(rename = "as_of")]
    moment: AsOf,
    audit: AuditReport,
}

/// Runs the command.
pub(crate) fn run(context: &Context, args: &AuditArgs) -> Result<Ending, Refusal> {
    let reading = Reading::of(&context.state, &args.source)?;
    let moment = AsOf::of(&reading, args.as_of)?;
    let (leaf, bytes) = reading.find(&args.record)?;
    let mut blob = |digest: &Digest| reading.blob(digest);
    let entry = Entry::read(&bytes).ok();
    let audit = entry.as_ref().and_then(|entry| Audit::of(leaf, entry, &mut blob));
    let mut audit = audit.filter(|_| leaf.0 < moment.tree_size).ok_or_else(|| {
        let cause = format!("entry {leaf} is no result of the first {} entries", moment.tree_size);
        let next = "name a result; `muster rank TASK` and `muster query --kind result` list them";
        Refusal::new("audit/not-a-result", &args.record, cause, next)
    })?;
    for entry in reading.stream(moment.tree_size) {
        let (leaf, bytes) = entry?;
        audit.take(leaf, &bytes, &mut blob);
    }
    let answer = Answer { moment, audit: audit.finish() };
    context.output.print(&answer, render);
    Ok(Ending::Done)
}

fn render(answer: &Answer) -> String {
    let audit = &answer.audit;
    let shown = &audit.result;
    let number = shown.speedup.map(|s| format!(", speed-up {:.3}", s.0 as f64 * 1e-9)).unwrap_or_default();
    let counts = &audit.counts;
    let mut lines = vec![
        format!("result {} (entry {}): {}{number}", shown.record, shown.leaf, shown.status),
        match audit.fallen_by {
            Some(leaf) => format!("FALLEN by entry {leaf}"),
            None => "stands".to_owned(),
        },
        String::new(),
        format!(
            "this candidate: {} attempts in {} cells of {} submissions: {} ok, {} failed, {} lost, {} open, {} refused",
            counts.attempts,
            counts.cells,
            counts.submissions,
            counts.ok,
            counts.failed,
            counts.lost,
            counts.open,
            counts.refused
        ),
        format!(
            "this task: {} attempts at {} candidates, {} policies, {} classes",
            audit.task_attempts, audit.task_candidates, audit.task_policies, audit.task_classes
        ),
        format!(
            "this class and policy: {} results of {} candidates, {} of them ok once; {}",
            audit.class_results,
            audit.class_candidates,
            audit.class_candidates_ok,
            audit
                .class_statuses
                .iter()
                .map(|(name, count)| format!("{count} {name}"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        String::new(),
        table(&["FENCE", "GRANTED", "NODE", "ENDING", "ENTRY", "CELL"], &rows(&audit.attempts)),
    ];
    lines.extend(details(audit));
    lines.push(String::new());
    lines.push(answer.moment.line());
    lines.join("\n")
}

fn rows(attempts: &[Attempt]) -> Vec<Vec<String>> {
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let row = |attempt: &Attempt| {
        let (ending, leaf) = match &attempt.ending {
            AttemptEnding::Open => ("open".to_owned(), None),
            AttemptEnding::Lost { leaf, reason, consequence } => {
                (format!("lost: {}, {}", word(reason), word(consequence)), Some(*leaf))
            }
            AttemptEnding::Result { leaf, status, code, sealed, .. } => {
                let code = code.as_ref().map(|code| format!(" [{code}]")).unwrap_or_default();
                let sealed =
                    sealed.map(|verdict| format!(", sealed cases {}", verdict.words())).unwrap_or_default();
                (format!("{status}{code}{sealed}"), Some(*leaf))
            }
        };
        vec![
            text(attempt.fence.map(|fence| fence.to_string())),
            text(attempt.granted.map(|leaf| leaf.to_string())),
            text(attempt.node.map(|node| node.short())),
            ending,
            text(leaf.map(|leaf| leaf.to_string())),
            attempt.cell.short(),
        ]
    };
    attempts.iter().map(row).collect()
}

fn details(audit: &AuditReport) -> Vec<String> {
    let mut lines = Vec::new();
    for retry in &audit.retries {
        lines.push(format!("tried again after entry {}: {}", retry.leaf, retry.cause));
    }
    for attempt in &audit.attempts {
        for (leaf, reason) in &attempt.refused {
            lines.push(format!("refused by entry {leaf}: {}", word(reason)));
        }
    }
    if audit.has_holdout {
        let others = audit.openings_of_other_candidates;
        lines.push(format!(
            "sealed cases opened {} times for this candidate, {others} times for others",
            audit.openings.len()
        ));
    } else {
        lines.push("the task seals no cases".to_owned());
    }
    for finding in &audit.findings {
        lines.push(format!(
            "{} {} in entry {}: {} [{}]",
            finding.detector, finding.judgement, finding.leaf, finding.cause, finding.code
        ));
    }
    for near in &audit.near_tasks {
        let why = match (near.same_name, near.same_reference) {
            (true, true) => "the same name and reference",
            (true, false) => "the same name",
            (false, _) => "the same reference",
        };
        lines.push(format!(
            "another task with {why}: {} (entry {}), {} results",
            near.task.short(),
            near.leaf,
            near.results
        ));
    }
    if audit.grants_unreadable > 0 {
        lines.push(format!(
            "{} grant entries cannot be read: attempts in them are not counted",
            audit.grants_unreadable
        ));
    }
    lines
}
