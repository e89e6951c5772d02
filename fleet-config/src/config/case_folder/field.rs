//! A JSON document read field by field, so that every fault names its place.

use crate::refusal::Refusal;
use serde_json::Value;

/// Longest text of a document that describes a case, in bytes: far beyond any real one.
pub(super) const TEXT_MAX: usize = 4 << 20;

/// One value with its place, such as `case.json: configs[0].args[2].init`.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    pub value: &'a Value,
    pub place: String,
}

/// The document in `bytes`; `file` names it for people. A fault of syntax quotes its line, since some writers put words
/// such as `NaN` where JSON has no number.
pub(super) fn document(bytes: &[u8], file: &str) -> Result<Value, Refusal> {
    if bytes.len() > TEXT_MAX {
        let cause = format!("more than {TEXT_MAX} bytes");
        return Err(Refusal::new("case/size", file, cause, "Describe the case in less."));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let line = bytes.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1)).unwrap_or(b"");
        let quoted: String =
            String::from_utf8_lossy(line).trim().chars().filter(|c| !c.is_control()).take(80).collect();
        Refusal::new("case/json", file, format!("{error}: `{quoted}`"), "Write it as JSON.")
    })
}

impl<'a> Field<'a> {
    /// The document itself.
    pub(super) fn root(value: &'a Value, file: &str) -> Self {
        Self { value, place: file.to_owned() }
    }

    /// The refusal of this field.
    pub(super) fn refuse(&self, cause: impl Into<String>) -> Refusal {
        Refusal::new("case/field", self.place.clone(), cause, "See docs/CASES.md for the schema.")
    }

    /// The field `name`, or nothing where it is absent or null.
    pub(super) fn optional(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        let dot = if self.place.ends_with(".json") { ": " } else { "." };
        Some(Self { value, place: format!("{}{dot}{name}", self.place) })
    }

    /// The field `name`.
    pub(super) fn required(&self, name: &str) -> Result<Self, Refusal> {
        self.optional(name).ok_or_else(|| self.refuse(format!("`{name}` is missing")))
    }

    /// Its text.
    pub(super) fn text(&self) -> Result<String, Refusal> {
        self.value.as_str().map(str::to_owned).ok_or_else(|| self.refuse("a text is expected"))
    }

    /// Its number; finite, as JSON has no other.
    pub(super) fn number(&self) -> Result<f64, Refusal> {
        self.value.as_f64().ok_or_else(|| self.refuse("a number is expected"))
    }

    /// Its integer; one with a fraction of zero counts.
    pub(super) fn integer(&self) -> Result<i64, Refusal> {
        let real = || self.value.as_f64().filter(|real| real.fract() == 0.0 && real.abs() < 9e15);
        let whole = self.value.as_i64().or_else(|| real().map(|real| real as i64));
        whole.ok_or_else(|| self.refuse("an integer of 64 bits is expected"))
    }

    /// Its flag.
    pub(super) fn flag(&self) -> Result<bool, Refusal> {
        self.value.as_bool().ok_or_else(|| self.refuse("true or false is expected"))
    }

    /// Its elements, at most `most`.
    pub(super) fn list(&self, most: usize) -> Result<Vec<Self>, Refusal> {
        let list = self.value.as_array().ok_or_else(|| self.refuse("a list is expected"))?;
        if list.len() > most {
            return Err(self.refuse(format!("{} elements are more than {most}", list.len())));
        }
        let element = |(at, value)| Self { value, place: format!("{}[{at}]", self.place) };
        Ok(list.iter().enumerate().map(element).collect())
    }

    /// Its members by name, at most `most`.
    pub(super) fn members(&self, most: usize) -> Result<Vec<(String, Self)>, Refusal> {
        let members = self.value.as_object().ok_or_else(|| self.refuse("an object is expected"))?;
        if members.len() > most {
            return Err(self.refuse(format!("{} members are more than {most}", members.len())));
        }
        let member = |(name, value): (&String, &'a Value)| {
            (name.clone(), Self { value, place: format!("{}.{name}", self.place) })
        };
        Ok(members.iter().map(member).collect())
    }

    /// A list of texts; nothing where it is absent.
    pub(super) fn texts(&self, name: &str, most: usize) -> Result<Vec<String>, Refusal> {
        let Some(field) = self.optional(name) else { return Ok(Vec::new()) };
        field.list(most)?.iter().map(Self::text).collect()
    }

    /// The names of members that are not in `known`: what a later schema may have added.
    pub(super) fn unknown(&self, known: &[&str]) -> Vec<String> {
        let names = self.value.as_object().into_iter().flat_map(|members| members.keys());
        names
            .filter(|name| !known.contains(&name.as_str()))
            .map(|name| format!("{}: {name}", self.place))
            .collect()
    }
}
