//! What commands print: tables for people, JSON for programs.

use serde::Serialize;
use std::io::IsTerminal;

/// Which of the two was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    Text,
    Json,
}

impl Output {
    /// From the `--json` flag.
    pub fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }

    /// Prints `value` as JSON, or the text that `render` makes of it.
    pub fn print<T: Serialize>(self, value: &T, render: impl FnOnce(&T) -> String) {
        match self {
            Self::Text => line(render(value).trim_end()),
            Self::Json => match serde_json::to_string_pretty(value) {
                // Programs get the value as it is; JSON escapes what would move a cursor.
                Ok(text) => exactly(&text),
                Err(error) => note(&format!("the answer has no JSON form: {error}")),
            },
        }
    }

    /// Whether progress may be drawn: text output, and somebody looks.
    pub fn shows_progress(self) -> bool {
        self == Self::Text && std::io::stderr().is_terminal()
    }
}

/// Whether a character can change what a terminal shows beside itself: controls, and those that turn the direction of
/// writing or take no room (Unicode, "Trojan Source", CVE-2021-42574).
fn is_unruly(character: char) -> bool {
    let hidden = matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    hidden || character.is_control()
}

/// The text as a terminal may have it: lines stay lines, and whatever a candidate, a compiler or a file put into it stays
/// text.
fn plain(text: &str) -> String {
    let shown =
        |c: char| if is_unruly(c) && c != '\n' && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

/// One cell of a table: a line break in it would make a row of its own.
fn cell(text: &str) -> String {
    text.chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }).collect()
}

/// Writes a line on standard output, as a terminal may have it.
pub(crate) fn line(text: &str) {
    exactly(&plain(text));
}

/// Writes the text and a line break. A reader that has seen enough (`| head`) is no fault of anybody.
fn exactly(text: &str) {
    use std::io::Write;
    match writeln!(std::io::stdout().lock(), "{text}") {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        Err(error) => note(&format!("standard output cannot be written: {error}")),
    }
}

/// Writes a line on standard error. Whether anybody reads it changes nothing: a closed pipe there has nowhere left
/// to be told.
pub(crate) fn note(text: &str) {
    use std::io::Write;
    let _unread = writeln!(std::io::stderr().lock(), "muster: {}", plain(text));
}

/// A number of things in words.
pub(super) fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// A plain table: left-aligned columns, two spaces between.
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(header.get(column).map(|title| title.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&mut header.iter().copied())];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    lines.join("\n")
}

/// The first twelve digits of a long id.
pub(super) fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_candidate_says_moves_no_cursor_and_makes_no_row() {
        assert_eq!(
            plain("a\u{1b}[2Jb\tc\nd\r\u{202e}e\u{9b}"),
            "a\u{fffd}[2Jb\tc\nd\u{fffd}\u{fffd}e\u{fffd}"
        );
        assert_eq!(plain("grün — 中文 👍"), "grün — 中文 👍");
        let rows = [vec!["x\nverified: ok".to_owned(), "1".to_owned()]];
        assert_eq!(table(&["name", "n"], &rows), "name            n\nx verified: ok  1");
    }
}
