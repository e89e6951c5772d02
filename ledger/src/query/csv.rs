//! Rows as comma-separated values (RFC 4180): one line a row, the same columns for every kind.
//!
//! A cell whose text begins with `=`, `+`, `-`, `@`, a tab or a return gets a `'` before it: spreadsheets run such cells,
//! and some of these texts were written by candidates.

use super::row::Row;
use std::fmt::Display;

/// The columns, in order. New ones are added at the end.
pub const COLUMNS: [&str; 32] = [
    "leaf",
    "record",
    "kind",
    "time",
    "task",
    "task_name",
    "candidate",
    "candidate_name",
    "author",
    "agent",
    "model",
    "parent",
    "submission",
    "cell",
    "fence",
    "node",
    "node_name",
    "device",
    "device_kind",
    "device_model",
    "driver",
    "architecture",
    "class",
    "policy",
    "policy_name",
    "status",
    "sandbox",
    "code",
    "note",
    "about",
    "speedup_ppb",
    "cases",
];

/// The line of column names, with its line end.
pub fn header() -> String {
    format!("{}\r\n", COLUMNS.join(","))
}

/// The line of a row, with its line end. `cases` holds `name=ratio_ppb` separated by spaces.
pub fn line(row: &Row) -> String {
    let cases: Vec<String> = row.cases.iter().map(|case| format!("{}={}", case.case, case.ratio.0)).collect();
    let cells: [String; 32] = [
        text(Some(row.leaf)),
        text(row.record),
        quoted(Some(&row.kind)),
        quoted(row.time.as_ref()),
        text(row.task),
        quoted(row.task_name.as_ref()),
        text(row.candidate),
        quoted(row.candidate_name.as_ref()),
        quoted(row.author.as_ref()),
        quoted(row.agent.as_ref()),
        quoted(row.model.as_ref()),
        text(row.parent),
        text(row.submission),
        text(row.cell),
        text(row.fence),
        text(row.node),
        quoted(row.node_name.as_ref()),
        quoted(row.device.as_ref()),
        quoted(row.device_kind.as_ref()),
        quoted(row.device_model.as_ref()),
        quoted(row.driver.as_ref()),
        quoted(row.architecture.as_ref()),
        text(row.class),
        text(row.policy),
        quoted(row.policy_name.as_ref()),
        text(row.status),
        quoted(row.sandbox.as_ref()),
        quoted(row.code.as_ref()),
        quoted(row.note.as_ref()),
        text(row.about),
        text(row.speedup.map(|speedup| speedup.0)),
        quoted(Some(&cases.join(" "))),
    ];
    format!("{}\r\n", cells.join(","))
}

/// Ids, numbers and words of closed lists: nothing in them needs quoting.
fn text(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn quoted(value: Option<&String>) -> String {
    let Some(value) = value else { return String::new() };
    let runs = value.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let plain = !runs && !value.contains(['"', ',', '\n', '\r']) && value.trim() == value;
    match (plain, runs) {
        (true, _) => value.clone(),
        (false, true) => format!("\"'{}\"", value.replace('"', "\"\"")),
        (false, false) => format!("\"{}\"", value.replace('"', "\"\"")),
    }
}
