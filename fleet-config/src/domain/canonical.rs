//! Canonical form: RFC 8785 JSON without floats. Everything hashed or signed goes through here.

use super::{BlobRef, Digest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Largest integer magnitude that every JSON reader keeps exactly (2^53 − 1).
pub const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Deepest nesting of a canonical document; bounds the recursion of every reader.
pub const DEPTH_MAX: usize = 32;

/// Why bytes or a value have no canonical form here.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    #[error("not JSON of the expected shape: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the number {0} is not an integer of magnitude below 2^53; write decimals as strings")]
    Number(serde_json::Number),
    #[error("nested deeper than {DEPTH_MAX} levels")]
    Depth,
    #[error("not in canonical form (RFC 8785): the same value has other bytes")]
    NotCanonical,
}

/// The canonical bytes of `value`.
pub fn to_bytes(value: &impl Serialize) -> Result<Vec<u8>, CanonicalError> {
    let value = serde_json::to_value(value)?;
    check(&value, 0)?;
    Ok(serde_json_canonicalizer::to_vec(&value)?)
}

/// Parses bytes that must already be canonical; unknown fields are the type's own business.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CanonicalError> {
    let value: Value = serde_json::from_slice(bytes)?;
    check(&value, 0)?;
    if serde_json_canonicalizer::to_vec(&value)? != bytes {
        return Err(CanonicalError::NotCanonical);
    }
    Ok(serde_json::from_value(value)?)
}

/// A document with its canonical bytes and the blob that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub bytes: Vec<u8>,
    pub blob: BlobRef,
}

impl Document {
    /// The canonical document of `value`.
    pub fn of(value: &impl Serialize) -> Result<Self, CanonicalError> {
        let bytes = to_bytes(value)?;
        let blob = BlobRef::of(&bytes);
        Ok(Self { bytes, blob })
    }
    /// blake3 of the canonical bytes: the document's name.
    pub fn digest(&self) -> Digest {
        self.blob.blake3
    }
}

fn check(value: &Value, depth: usize) -> Result<(), CanonicalError> {
    if depth > DEPTH_MAX {
        return Err(CanonicalError::Depth);
    }
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
        Value::Number(number) => {
            let exact = number.as_u64().is_some_and(|n| n <= INTEGER_MAX)
                || number.as_i64().is_some_and(|n| n.unsigned_abs() <= INTEGER_MAX);
            if exact { Ok(()) } else { Err(CanonicalError::Number(number.clone())) }
        }
        Value::Array(items) => items.iter().try_for_each(|item| check(item, depth + 1)),
        Value::Object(fields) => fields.values().try_for_each(|item| check(item, depth + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_floats_are_refused() {
        let value = serde_json::json!({"b": 1, "a": "x"});
        assert_eq!(to_bytes(&value).unwrap(), br#"{"a":"x","b":1}"#);
        assert!(matches!(to_bytes(&serde_json::json!(1.5)), Err(CanonicalError::Number(_))));
        assert!(matches!(to_bytes(&serde_json::json!(1u64 << 53)), Err(CanonicalError::Number(_))));
    }

    #[test]
    fn bytes_that_are_not_canonical_are_refused() {
        assert!(from_bytes::<Value>(br#"{"a":1}"#).is_ok());
        for bad in [&br#"{"a": 1}"#[..], br#"{"b":1,"a":1}"#, br#"{"a":1}x"#, br#"{"a":1.0}"#, b""] {
            assert!(from_bytes::<Value>(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
