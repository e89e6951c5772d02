//! The ranking as plain text.

use super::model::{Claim, FallenCandidate, Floor, Place, RankRow, Ranking, Reach, RejectedGroup, Table};
use fleet_config::domain::{PartsPerBillion, SandboxLevel};
use std::fmt::Write as _;

/// Longest name that a table shows; the record has the whole one.
const NAME_CHARS_MAX: usize = 40;

/// The whole ranking. The same ranking gives the same bytes.
pub fn render(ranking: &Ranking) -> String {
    let mut text = format!(
        "ranking of {} ({}) as of {} entries\n",
        shown(&ranking.task_name),
        ranking.task.short(),
        ranking.as_of
    );
    if ranking.least_sandbox > SandboxLevel::None {
        let least = ranking.least_sandbox;
        line(&mut text, format_args!("only results of sandbox level {least} or closer"));
    }
    if ranking.tables.is_empty() {
        text.push_str("\nno results yet\n");
    }
    for table in &ranking.tables {
        push_table(&mut text, table);
    }
    text
}

fn push_table(text: &mut String, table: &Table) {
    let model = if table.device_model.is_empty() { "unknown model" } else { &table.device_model };
    line(text, format_args!(""));
    line(text, format_args!("{} · {} · class {}", table.architecture, shown(model), table.class.short()));
    if table.rows.is_empty() {
        line(text, format_args!("  no candidate passed"));
    } else {
        push_rows(text, &table.rows);
        push_floor(text, table);
    }
    push_fallen(text, &table.fallen);
    for group in &table.rejected {
        push_rejected(text, group);
    }
    if !table.fleet_faults.is_empty() {
        let count = table.fleet_faults.len();
        line(text, format_args!("  {count} attempt(s) ended by the fleet's own fault, charged to nobody"));
    }
    if !table.left_out.is_empty() {
        let stages: Vec<&str> = table.left_out.iter().map(|stage| stage.name()).collect();
        let (stages, policy) = (stages.join(", "), shown(&table.policy_name));
        line(text, format_args!("  validated by fewer stages, without {stages} (policy {policy})"));
    }
    line(text, format_args!("  sandbox: {} or closer in every result", table.weakest_sandbox));
    if !table.notice.is_empty() {
        line(text, format_args!("  {}", table.notice));
    }
}

fn push_rows(text: &mut String, rows: &[RankRow]) {
    let width = rows.iter().map(|row| shown(&row.name).chars().count()).max().unwrap_or(0).max(9);
    line(
        text,
        format_args!(
            "  {:>4}  {:<width$}  {:>8}  {:<19}  {:<12}  note",
            "rank", "candidate", "speed-up", "95 % interval", "record"
        ),
    );
    for row in rows {
        let interval = format!("{} to {}", ratio(row.low), ratio(row.high));
        let (place, interval) = match row.place {
            Place::Baseline => ("–".to_owned(), String::new()),
            Place::Rank(rank) if is_tied(rank, row, rows) => (format!("={rank}"), interval),
            Place::Rank(rank) => (rank.to_string(), interval),
        };
        let record = row.record.map(|record| record.short()).unwrap_or_default();
        let written = format!(
            "  {place:>4}  {:<width$}  {:>8}  {interval:<19}  {record:<12}  {}",
            shown(&row.name),
            ratio(row.score),
            note(row)
        );
        line(text, format_args!("{}", written.trim_end()));
    }
}

/// Whether another row shares this rank.
fn is_tied(rank: u64, row: &RankRow, rows: &[RankRow]) -> bool {
    rows.iter().any(|other| other.place == Place::Rank(rank) && other.candidate != row.candidate)
}

fn note(row: &RankRow) -> String {
    let mut notes = Vec::new();
    if row.place != Place::Baseline {
        match row.claim {
            Claim::NoDifference => notes.push("no difference from the baseline".to_owned()),
            Claim::OneLeaseOnly | Claim::Faster | Claim::Slower => {}
        }
        if row.reach == Reach::SingleLease {
            notes.push("single lease".to_owned());
        }
        if row.nodes == 1 {
            notes.push("single witness".to_owned());
        }
        if row.reach != Reach::SingleLease {
            notes.push(format!("{} leases, boards: {}", row.leases, row.boards));
        }
    }
    notes.extend(row.remarks.iter().map(|remark| one_line(remark)));
    if row.failed > 0 {
        notes.push(format!("{} of {} attempts failed", row.failed, row.attempts));
    }
    notes.extend(row.labels.iter().map(|label| format!("{} says {}", label.detector, shown(&label.code))));
    notes.join("; ")
}

/// What a claim had to be larger than.
fn push_floor(text: &mut String, table: &Table) {
    match &table.noise_floor {
        Some(Floor { results, bound }) => line(
            text,
            format_args!(
                "  noise floor: a copy of the baseline comes out within {} of one ({results} results)",
                ratio(*bound)
            ),
        ),
        None if table.rows.iter().any(|row| row.claim == Claim::OneLeaseOnly) => line(
            text,
            format_args!(
                "  a single lease claims nothing beyond itself: measure three, or the baseline as a candidate for the noise floor"
            ),
        ),
        None => {}
    }
}

/// What fell, why, and where the ranking before can be seen.
fn push_fallen(text: &mut String, fallen: &[FallenCandidate]) {
    if fallen.is_empty() {
        return;
    }
    line(text, format_args!("  fallen after it was ranked: {}", fallen.len()));
    for one in fallen {
        let score = one.score.map(ratio).unwrap_or_default();
        let (name, record, code) = (shown(&one.name), one.record.short(), shown(&one.code));
        line(text, format_args!("        {name}  {record}  {score}  [{code}] {}", one_line(&one.cause)));
        let (detector, leaf) = (&one.detector, one.finding_leaf);
        let finding = one.finding.short();
        line(
            text,
            format_args!("          by {detector} in entry {leaf} ({finding}); before it: --as-of {leaf}"),
        );
    }
}

fn push_rejected(text: &mut String, group: &RejectedGroup) {
    line(text, format_args!("  not ranked, {}: {}", group.status, group.candidates.len()));
    for candidate in &group.candidates {
        let record = candidate.record.short();
        line(
            text,
            format_args!(
                "        {}  {}  [{}] {}",
                shown(&candidate.name),
                record,
                shown(&candidate.code),
                one_line(&candidate.cause)
            ),
        );
        if !candidate.hint.is_empty() {
            line(text, format_args!("          hint: {}", one_line(&candidate.hint)));
        }
    }
}

/// Three decimals, rounded half up, from the integer alone.
fn ratio(value: PartsPerBillion) -> String {
    let thousandths = value.0.saturating_add(500_000) / 1_000_000;
    format!("{}.{:03}×", thousandths / 1000, thousandths % 1000)
}

/// Outside text without control characters and of bounded length: a name must not move the cursor.
fn shown(text: &str) -> String {
    clip(text, NAME_CHARS_MAX)
}

fn one_line(text: &str) -> String {
    clip(text, 200)
}

fn clip(text: &str, most: usize) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.chars().count() <= most {
        return clean;
    }
    clean.chars().take(most - 1).chain(['…']).collect()
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("writing to a String cannot fail");
}
