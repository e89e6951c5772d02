//! Decimals as text: tolerances and distribution parameters keep their exact spelling, so that no float enters
//! a hashed document.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A finite decimal in the shortest spelling that reads back as the same `f64`, such as `1e-4` or `0.5`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Decimal(String);

/// A text that is no finite decimal in shortest form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    #[error("`{0}` is not a finite decimal number")]
    NotFinite(String),
    #[error("`{0}` is not in shortest form; write `{1}`")]
    NotShortest(String, String),
}

impl Decimal {
    /// The decimal nearest to `value` in shortest round-trip form.
    pub fn from_f64(value: f64) -> Result<Self, DecimalError> {
        if value.is_finite() {
            Ok(Self(shortest(value)))
        } else {
            Err(DecimalError::NotFinite(value.to_string()))
        }
    }
    /// The value.
    pub fn value(&self) -> f64 {
        self.0.parse().expect("checked when this decimal was made")
    }
    /// The spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Rust's `{:?}` of an f64 is the shortest round-trip form; a trailing `.0` is dropped.
fn shortest(value: f64) -> String {
    let text = format!("{value:?}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

impl FromStr for Decimal {
    type Err = DecimalError;
    fn from_str(text: &str) -> Result<Self, DecimalError> {
        let clip = || text.chars().take(80).collect::<String>();
        let value: f64 = text.parse().map_err(|_| DecimalError::NotFinite(clip()))?;
        if !value.is_finite() {
            return Err(DecimalError::NotFinite(clip()));
        }
        let wanted = shortest(value);
        if wanted == text { Ok(Self(wanted)) } else { Err(DecimalError::NotShortest(clip(), wanted)) }
    }
}

impl TryFrom<String> for Decimal {
    type Error = DecimalError;
    fn try_from(text: String) -> Result<Self, DecimalError> {
        text.parse()
    }
}

impl From<Decimal> for String {
    fn from(decimal: Decimal) -> Self {
        decimal.0
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_shortest_finite_spelling_is_a_decimal() {
        for good in ["0", "1", "-1", "0.5", "0.0001", "1e-5", "1e300"] {
            assert_eq!(good.parse::<Decimal>().map(|d| d.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "nan", "inf", "-inf", "1.0", "+1", "1e-05", "0x1", "1e999", " 1"] {
            assert!(bad.parse::<Decimal>().is_err(), "{bad}");
        }
    }
}
