//! Task and candidate files end to end: the sample, what lint says of spoilt copies of it, and the scaffold.

use super::load;
use super::*;
use crate::domain::{Bytes, CaseKind, HoldoutSection, Input, NanRule, ParamKind, Step};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

mod candidate;
mod fault;
mod folder;
mod format;
mod whole;

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/sample")
}

fn text() -> String {
    fs::read_to_string(sample().join("task.toml")).unwrap()
}

/// The sample with one passage replaced.
fn spoilt(from: &str, to: &str) -> String {
    let text = text();
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

/// Codes of everything that is refused in `text`, each with its line.
fn refused(text: &str) -> Vec<String> {
    let list = match parse_task(text, "task.toml") {
        Err(refusal) => vec![refusal],
        Ok(draft) => lint(&draft).refusals,
    };
    let line = |place: &str| {
        let rest = place.strip_prefix("task.toml").unwrap_or_default().trim_start_matches(':');
        rest.chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    list.iter().map(|refusal| format!("{} {}", refusal.code, line(&refusal.place))).collect()
}

fn line_of(text: &str, passage: &str) -> usize {
    text[..text.find(passage).unwrap()].matches('\n').count() + 1
}

fn warned(text: &str) -> Vec<String> {
    let draft = parse_task(text, "task.toml").unwrap();
    lint(&draft).warnings.iter().map(|warning| warning.code.to_string()).collect()
}
