//! How bad input is answered: a stable code, the place, the cause and the next step.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// A refusal of outside input. Its text is for people; its code is for programs and never changes meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Stable, lower-case, `room/what-is-wrong`, for example `task/unknown-key`.
    pub code: Cow<'static, str>,
    /// Where: file and line, field, argument or peer. Empty when there is no place to name.
    pub place: String,
    /// What is wrong, as a lower-case fragment.
    pub cause: String,
    /// What to do next, as an imperative sentence.
    pub next: String,
}

impl Refusal {
    /// A refusal with all of its parts.
    pub fn new(
        code: &'static str,
        place: impl Into<String>,
        cause: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { code: Cow::Borrowed(code), place: place.into(), cause: cause.into(), next: next.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            write!(f, "{} [{}]; {}", self.cause, self.code, self.next)
        } else {
            write!(f, "{}: {} [{}]; {}", self.place, self.cause, self.code, self.next)
        }
    }
}

impl std::error::Error for Refusal {}
