//! `muster matrix`: candidates × device classes as a table, JSON or CSV.

use super::insight::{QuestionArgs, csv, percent, times};
use super::rank::ask;
use crate::cli::output::{line, table};
use crate::cli::{Context, Ending};
use fleet_config::refusal::Refusal;
use ledger::rank::matrix::{Cell, Column, Matrix, Worth, matrix};
use ledger::rank::{Claim, Reach};

/// Runs the subcommand.
pub(super) fn run(context: &Context, args: &QuestionArgs) -> Result<Ending, Refusal> {
    let answer = ask(context, &args.task, args.as_of, args.sandbox)?;
    let matrix = matrix(&answer.task, &answer.ranking, &answer.results);
    if args.csv {
        line(&rows(&matrix));
    } else {
        context.output.print(&matrix, text);
    }
    Ok(Ending::Done)
}

/// What stands above a column: A, B, …, explained below the table.
fn letter(place: usize) -> String {
    match u8::try_from(place) {
        Ok(place) if place < 26 => char::from(b'A' + place).to_string(),
        Ok(_) | Err(_) => format!("#{}", place + 1),
    }
}

fn text(matrix: &Matrix) -> String {
    let head = format!("{} as of {} entries", matrix.task_name, matrix.as_of);
    if matrix.columns.is_empty() {
        return format!("{head}\n\nno results yet");
    }
    let letters: Vec<String> = (0..matrix.columns.len()).map(letter).collect();
    let header: Vec<&str> = std::iter::once("CANDIDATE").chain(letters.iter().map(String::as_str)).collect();
    let body: Vec<Vec<String>> = matrix
        .rows
        .iter()
        .map(|row| std::iter::once(row.name.clone()).chain(row.cells.iter().map(short)).collect())
        .collect();
    let mut lines = vec![head, String::new(), table(&header, &body), String::new()];
    for (letter, column) in letters.iter().zip(&matrix.columns) {
        lines.push(format!("{letter}: {}", named(column)));
    }
    lines.push("a ratio is the speed-up over the baseline with its 95 % interval; ? claims nothing beyond its one lease, ~ is no difference".to_owned());
    if !matrix.notice.is_empty() {
        lines.push(matrix.notice.clone());
    }
    lines.join("\n")
}

/// A column in words.
fn named(column: &Column) -> String {
    match column.class {
        Some(class) => {
            let bandwidth = match &column.bandwidth {
                Some((bytes, source)) => format!(", {} GB/s ({source})", bytes / 1_000_000_000),
                None => ", peak bandwidth unknown".to_owned(),
            };
            let (architecture, model, policy) =
                (&column.architecture, &column.device_model, &column.policy_name);
            format!("{architecture}, {model}, {policy}, class {}{bandwidth}", class.short())
        }
        None => format!("compiled for {} under {}, never run", column.architecture, column.policy_name),
    }
}

fn short(cell: &Cell) -> String {
    match cell {
        Cell::Valid(worth) if worth.record.is_none() => times(worth.speed_up),
        Cell::Valid(worth) => {
            let mark = match worth.claim {
                Claim::OneLeaseOnly => " ?",
                Claim::NoDifference => " ~",
                Claim::Faster | Claim::Slower => "",
            };
            let share = worth.memory_share.map(|share| format!(", {} of memory", percent(share)));
            let (low, high) = (times(worth.low), times(worth.high));
            format!("{} ({low} to {high}){mark}{}", times(worth.speed_up), share.unwrap_or_default())
        }
        Cell::Invalid(reason) => format!("{} [{}]", reason.status, reason.code),
        Cell::Compiled { resources, .. } => {
            let most = |word: &str| {
                resources.iter().filter(|(name, _)| name.contains(word)).map(|(_, value)| *value).max()
            };
            let told = |word: &str| most(word).map(|value| format!("{word} {value}"));
            let told: Vec<String> = ["registers", "spill", "shared"].into_iter().filter_map(told).collect();
            if told.is_empty() { "compiles".to_owned() } else { told.join(", ") }
        }
        Cell::Untried => "–".to_owned(),
    }
}

/// One line for each candidate and column.
fn rows(matrix: &Matrix) -> String {
    let header = [
        "candidate",
        "candidate_id",
        "family",
        "device_kind",
        "architecture",
        "device_model",
        "policy",
        "class",
        "state",
        "speed_up",
        "low",
        "high",
        "claim",
        "reach",
        "memory_share",
        "reason",
        "resources",
        "record",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for row in &matrix.rows {
        for (column, cell) in matrix.columns.iter().zip(&row.cells) {
            let mut fields = vec![
                row.name.clone(),
                row.candidate.map(|id| id.to_string()).unwrap_or_default(),
                row.family.map(|id| id.to_string()).unwrap_or_default(),
                column.device_kind.name().to_owned(),
                column.architecture.to_string(),
                column.device_model.clone(),
                column.policy_name.clone(),
                column.class.map(|id| id.to_string()).unwrap_or_default(),
            ];
            fields.extend(values(cell));
            lines.push(fields);
        }
    }
    csv(&lines)
}

/// State, speed-up, low, high, claim, reach, share, reason, resources and record of a cell. Ratios in full.
fn values(cell: &Cell) -> [String; 10] {
    let none = String::new;
    let ratio = |value: fleet_config::domain::PartsPerBillion| format!("{:.9}", value.ratio());
    match cell {
        Cell::Valid(Worth { speed_up, low, high, claim, reach, memory_share, record }) => {
            let claim = match claim {
                Claim::Faster => "faster",
                Claim::Slower => "slower",
                Claim::NoDifference => "no_difference",
                Claim::OneLeaseOnly => "one_lease_only",
            };
            let reach = match reach {
                Reach::SingleLease => "single_lease",
                Reach::Leases => "leases",
                Reach::Boards => "boards",
            };
            [
                "valid".to_owned(),
                ratio(*speed_up),
                ratio(*low),
                ratio(*high),
                claim.to_owned(),
                reach.to_owned(),
                memory_share.map(ratio).unwrap_or_default(),
                none(),
                none(),
                record.map(|id| id.to_string()).unwrap_or_default(),
            ]
        }
        Cell::Invalid(reason) => {
            let why = format!("{} [{}] {}", reason.status, reason.code, reason.cause);
            let record = reason.record.to_string();
            ["invalid".to_owned(), none(), none(), none(), none(), none(), none(), why, none(), record]
        }
        Cell::Compiled { resources, record } => {
            let told: Vec<String> = resources.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let (told, record) = (told.join(" "), record.to_string());
            ["compiled".to_owned(), none(), none(), none(), none(), none(), none(), none(), told, record]
        }
        Cell::Untried => {
            let mut fields: [String; 10] = Default::default();
            fields[0] = "untried".to_owned();
            fields
        }
    }
}
