//! `muster show`: one record with its envelope's facts and its evidence.

use crate::cli::args::ShowArgs;
use crate::cli::output::table;
use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use fleet_config::domain::{CheckEvidence, Digest, LeafIndex, StageTimes, words};
use fleet_config::refusal::Refusal;
use ledger::entry::{Entry, Envelope};
use serde::Serialize;
use serde_json::{Value, json};

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &ShowArgs) -> Result<Ending, Refusal> {
    let reading = Reading::of(&context.state, &args.source)?;
    let (leaf, shown) = look(&reading, &args.record)?;
    if args.stages {
        let costs = costs(&shown).ok_or_else(|| {
            let place = leaf.to_string();
            let next = "name a result that was validated; `muster status SUBMISSION` shows their leaves";
            Refusal::new("show/no-stages", place, "this record has no stages", next)
        })?;
        context.output.print(&costs, |costs| costs.render());
        return Ok(Ending::Done);
    }
    context.output.print(&shown, text);
    Ok(Ending::Done)
}

/// The entry that `record` names, with what its blobs say.
pub(super) fn look(reading: &Reading, record: &str) -> Result<(LeafIndex, Value), Refusal> {
    let (leaf, bytes) = reading.find(record)?;
    let entry = Entry::read(&bytes).map_err(|error| {
        Refusal::new("show/entry", leaf.to_string(), error.to_string(), "run `muster ledger verify`")
    })?;
    let envelope = Envelope::parse(&bytes).map_err(|error| {
        Refusal::new("show/entry", leaf.to_string(), error.to_string(), "run `muster ledger verify`")
    })?;
    let statement: Value = serde_json::from_slice(&envelope.payload).unwrap_or(Value::Null);
    let mut shown = json!({
        "leaf": leaf.0,
        "record": entry.record.to_string(),
        "keyid": envelope.key_id,
        "statement": statement,
    });
    if let Some(result) = entry.body.result() {
        let document = |digest: &Digest| -> Value {
            reading.blob(digest).and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or(Value::Null)
        };
        let log = result.outcome.log.and_then(|log| reading.blob(&log.blake3));
        shown["environment"] = document(&result.environment.blake3);
        shown["volatile"] = document(&result.volatile.blake3);
        shown["evidence"] = result.evidence.map_or(Value::Null, |evidence| document(&evidence.blake3));
        let log = log.map(|bytes| words::printable(&bytes));
        shown["prints"] = log.as_deref().and_then(words::quotation).map_or(Value::Null, Value::from);
        shown["log"] = log.map_or(Value::Null, Value::String);
        shown["candidate"] = document(&Digest(result.candidate.0));
    }
    Ok((leaf, shown))
}

/// The record, the checks as a table, and behind all of ours the candidate's own words.
fn text(shown: &Value) -> String {
    let record = serde_json::to_string_pretty(shown).unwrap_or_default();
    let prints = shown["prints"].as_str().map(str::to_owned);
    let parts = [Some(record), stages(&shown["evidence"]["checks"]), prints];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

/// What the stages of one attempt cost.
#[derive(Debug, Serialize)]
struct Costs {
    leaf: Value,
    candidate: Value,
    stages: Vec<Cost>,
    /// Of all of them: validation, screens and timing.
    total_ms: u64,
    /// Parts of the attempt that are no stage.
    attempt: StageTimes,
}

#[derive(Debug, Serialize)]
struct Cost {
    stage: String,
    finding: String,
    took_ms: u64,
    /// In thousandths of the total.
    share: u64,
    launches: u32,
}

/// Nothing for a record without stages.
fn costs(shown: &Value) -> Option<Costs> {
    let checks: Vec<CheckEvidence> = serde_json::from_value(shown["evidence"]["checks"].clone()).ok()?;
    let attempt = serde_json::from_value(shown["statement"]["predicate"]["stage_times"].clone()).ok()?;
    let total_ms = checks.iter().fold(0_u64, |total, check| total.saturating_add(check.took.0));
    let cost = |check: &CheckEvidence| Cost {
        stage: check.check.to_string(),
        finding: check.finding.words().to_owned(),
        took_ms: check.took.0,
        share: check.took.0.saturating_mul(1000).checked_div(total_ms).unwrap_or(0),
        launches: check.launches,
    };
    let stages: Vec<Cost> = checks.iter().map(cost).collect();
    let (leaf, candidate) = (shown["leaf"].clone(), shown["candidate"]["name"].clone());
    (!stages.is_empty()).then_some(Costs { leaf, candidate, stages, total_ms, attempt })
}

impl Costs {
    fn render(&self) -> String {
        let Self { leaf: _, candidate: _, stages, total_ms, attempt } = self;
        let share = |share: u64| format!("{}.{} %", share / 10, share % 10);
        let row = |cost: &Cost| {
            let Cost { stage, finding, took_ms, share: part, launches } = cost;
            vec![stage.clone(), format!("{took_ms} ms"), share(*part), launches.to_string(), finding.clone()]
        };
        let mut rows: Vec<Vec<String>> = stages.iter().map(row).collect();
        rows.push(vec![
            "all".to_owned(),
            format!("{total_ms} ms"),
            share(1000),
            String::new(),
            String::new(),
        ]);
        let StageTimes { queue, transfer, compile, validate, time } = attempt;
        format!(
            "{}\n\nthe attempt: queue {queue}, transfer {transfer}, compile {compile}, validate {validate}, time {time}",
            table(&["STAGE", "COST", "SHARE", "LAUNCHES", "FINDING"], &rows)
        )
    }
}

/// What was looked at before a time counted, what it cost and what was found, as a table.
fn stages(checks: &Value) -> Option<String> {
    let checks: Vec<CheckEvidence> = serde_json::from_value(checks.clone()).ok()?;
    let row = |check: &CheckEvidence| {
        vec![
            check.check.to_string(),
            check.finding.words().to_owned(),
            check.took.to_string(),
            if check.case.is_empty() { check.cases.to_string() } else { plain(&check.case) },
            check.draws.to_string(),
            check.launches.to_string(),
            plain(&check.detail),
        ]
    };
    let header = ["STAGE", "FINDING", "COST", "CASES", "DRAWS", "LAUNCHES", "DETAIL"];
    let rows: Vec<Vec<String>> = checks.iter().map(row).collect();
    (!rows.is_empty()).then(|| table(&header, &rows))
}

/// One line that cannot steer a terminal.
fn plain(text: &str) -> String {
    words::printable(text.as_bytes()).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_candidate_printed_is_shown_last_and_marked() {
        let prints = words::quoted(b"STAGE  FINDING\nverdict: ok\x1b[2J\n").unwrap();
        let shown = text(&json!({ "leaf": 3, "evidence": null, "prints": prints }));
        assert!(shown.ends_with("| STAGE  FINDING\n| verdict: ok\\u{1b}[2J\n"), "{shown}");
        assert!(shown.contains(words::HEADING) && !shown.contains('\u{1b}'));
        assert!(text(&json!({ "leaf": 3, "prints": null })).ends_with('}'));
    }
}
