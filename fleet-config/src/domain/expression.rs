//! Integer expressions over named dimensions and device attributes, for shapes and launch geometry.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What the names in an expression stand for: dimensions (`m`), scalars of the case and device attributes
/// (`device.multiprocessors`).
pub type Scope = BTreeMap<String, i64>;

/// An expression such as `ceil_div(n, 16) * device.multiprocessors`; kept as its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression(String);

/// Why a text is no expression, or has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("`{text}`: {cause} at column {column}")]
    Syntax { text: String, cause: &'static str, column: usize },
    #[error("`{text}`: the name `{name}` stands for nothing here")]
    UnknownName { text: String, name: String },
    #[error("`{text}`: {cause}")]
    Value { text: String, cause: &'static str },
}

impl Expression {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Its value in `scope`.
    pub fn evaluate(&self, scope: &Scope) -> Result<i64, ExpressionError> {
        let text = self.0.trim();
        text.parse()
            .ok()
            .or_else(|| scope.get(text).copied())
            .ok_or_else(|| ExpressionError::UnknownName { text: self.0.clone(), name: text.to_owned() })
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;
    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Expression {
    type Error = ExpressionError;
    fn try_from(text: String) -> Result<Self, ExpressionError> {
        text.parse()
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> Self {
        expression.0
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
