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
                Ok(text) => line(&text),
                Err(error) => note(&format!("the answer has no JSON form: {error}")),
            },
        }
    }

    /// Whether progress may be drawn: text output, and somebody looks.
    pub fn shows_progress(self) -> bool {
        self == Self::Text && std::io::stderr().is_terminal()
    }
}

/// Writes a line on standard output. A reader that has seen enough (`| head`) is no fault of anybody.
pub(crate) fn line(text: &str) {
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
    let _unread = writeln!(std::io::stderr().lock(), "muster: {text}");
}

/// A number of things in words.
pub(super) fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// A plain table: left-aligned columns, two spaces between.
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
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
