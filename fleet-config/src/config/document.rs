//! One way to read TOML: limits, then syntax, then shape, each fault with file and line.

use crate::refusal::Refusal;
use serde::de::DeserializeOwned;

/// Largest settings or task file in bytes: far beyond what a person writes, small enough to parse at once.
pub(super) const TEXT_MAX: usize = 1 << 20;

/// Which kind of file is read; decides the codes of its refusals.
#[derive(Debug, Clone, Copy)]
pub(super) enum Room {
    Task,
    Candidate,
    Node,
    Coordinator,
}

/// What is wrong with a text.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    Size,
    Syntax,
    UnknownKey,
    MissingKey,
    Value,
}

/// Parses `text` of the file that people know as `file`.
pub(super) fn parse<T: DeserializeOwned>(text: &str, file: &str, room: Room) -> Result<T, Refusal> {
    if text.len() > TEXT_MAX {
        let cause = format!("{} bytes are more than the {TEXT_MAX} of such a file", text.len());
        return Err(Refusal::new(code(room, Wrong::Size), file, cause, "Write a shorter file."));
    }
    // A byte order mark is no part of the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let deserializer = toml::Deserializer::parse(text)
        .map_err(|error| refuse(&error, text, file, room, Some(Wrong::Syntax)))?;
    T::deserialize(deserializer).map_err(|error| refuse(&error, text, file, room, None))
}

/// The file and line of a byte offset.
pub(super) fn place(text: &str, file: &str, offset: usize) -> String {
    format!("{file}:{}", line(text, offset))
}

/// The line, from 1, of a byte offset.
pub(super) fn line(text: &str, offset: usize) -> u32 {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    let breaks = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(breaks).unwrap_or(u32::MAX).saturating_add(1)
}

fn refuse(error: &toml::de::Error, text: &str, file: &str, room: Room, wrong: Option<Wrong>) -> Refusal {
    let message = error.message().lines().next().unwrap_or_default().to_owned();
    // The parser tells these two apart only by their words; the tests hold them.
    let wrong = wrong.unwrap_or(if message.starts_with("unknown field") {
        Wrong::UnknownKey
    } else if message.starts_with("missing field") {
        Wrong::MissingKey
    } else {
        Wrong::Value
    });
    let next = match wrong {
        Wrong::Size => "Write a shorter file.",
        Wrong::Syntax => "Mend the TOML at this line.",
        Wrong::UnknownKey => "Remove the key or correct its spelling.",
        Wrong::MissingKey => "Add the key.",
        Wrong::Value => "Give the key a value of the expected form.",
    };
    let message =
        message.replacen("unknown field", "unknown key", 1).replacen("missing field", "missing key", 1);
    let place = error.span().map_or_else(|| file.to_owned(), |span| place(text, file, span.start));
    Refusal::new(code(room, wrong), place, message, next)
}

fn code(room: Room, wrong: Wrong) -> &'static str {
    match (room, wrong) {
        (Room::Task, Wrong::Size) => "task/size",
        (Room::Task, Wrong::Syntax) => "task/syntax",
        (Room::Task, Wrong::UnknownKey) => "task/unknown-key",
        (Room::Task, Wrong::MissingKey) => "task/missing-key",
        (Room::Task, Wrong::Value) => "task/value",
        (Room::Candidate, Wrong::Size) => "candidate/size",
        (Room::Candidate, Wrong::Syntax) => "candidate/syntax",
        (Room::Candidate, Wrong::UnknownKey) => "candidate/unknown-key",
        (Room::Candidate, Wrong::MissingKey) => "candidate/missing-key",
        (Room::Candidate, Wrong::Value) => "candidate/value",
        (Room::Node, Wrong::Size) => "node/size",
        (Room::Node, Wrong::Syntax) => "node/syntax",
        (Room::Node, Wrong::UnknownKey) => "node/unknown-key",
        (Room::Node, Wrong::MissingKey) => "node/missing-key",
        (Room::Node, Wrong::Value) => "node/value",
        (Room::Coordinator, Wrong::Size) => "coordinator/size",
        (Room::Coordinator, Wrong::Syntax) => "coordinator/syntax",
        (Room::Coordinator, Wrong::UnknownKey) => "coordinator/unknown-key",
        (Room::Coordinator, Wrong::MissingKey) => "coordinator/missing-key",
        (Room::Coordinator, Wrong::Value) => "coordinator/value",
    }
}
