//! Devices that nodes offer, and device classes that submissions ask for.

use super::{Architecture, ArchitectureError, DeviceId, Fact, Facts, field};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// GPUs and CPUs are never ranked together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    Cpu,
    Gpu,
}

/// One device of a node, as offered to the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceDescription {
    pub id: DeviceId,
    pub kind: DeviceKind,
    pub architecture: Architecture,
    /// Memory that candidates may use, in bytes.
    pub memory: u64,
    /// Identity and configuration parts of the fingerprint.
    pub identity: Facts,
    pub configuration: Facts,
    /// Names that launch expressions may use, such as `device.multiprocessors`.
    pub attributes: BTreeMap<String, i64>,
}

impl DeviceDescription {
    /// Whether its node offers it for work: a quarantined device is shown and gets none.
    pub fn takes_work(&self) -> bool {
        self.configuration.get(field::HEALTH) != Some(&Fact::Text("quarantined".to_owned()))
    }
}

/// Predicates over fingerprint fields, written `cpu:x86-64-v3` or
/// `architecture=nvidia:sm_90a&device.model=NVIDIA H200`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceClass {
    predicates: Vec<Predicate>,
}

/// One condition; all of a class must hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Predicate {
    /// A fingerprint field; `architecture` is short for `device.architecture`.
    pub field: String,
    pub value: String,
}

/// A text that is no device class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceClassError {
    #[error(transparent)]
    Architecture(#[from] ArchitectureError),
    #[error("`{0}` is no device class; write an architecture or `field=value&field=value`")]
    Shape(String),
}

impl DeviceClass {
    /// The class of one architecture.
    pub fn of(architecture: &Architecture) -> Self {
        let value = architecture.as_str().to_owned();
        Self { predicates: vec![Predicate { field: field::ARCHITECTURE.to_owned(), value }] }
    }
    /// Whether `device` belongs to this class.
    pub fn matches(&self, device: &DeviceDescription) -> bool {
        self.predicates.iter().all(|predicate| {
            let fact =
                device.identity.get(&predicate.field).or_else(|| device.configuration.get(&predicate.field));
            match fact {
                Some(Fact::Text(text)) => *text == predicate.value,
                Some(Fact::Count(count)) => count.to_string() == predicate.value,
                Some(Fact::Flag(flag)) => flag.to_string() == predicate.value,
                Some(Fact::Unknown(_)) => false,
                None => {
                    predicate.field == field::ARCHITECTURE && device.architecture.as_str() == predicate.value
                }
            }
        })
    }
    /// Its conditions.
    pub fn predicates(&self) -> &[Predicate] {
        &self.predicates
    }
}

impl FromStr for DeviceClass {
    type Err = DeviceClassError;
    fn from_str(text: &str) -> Result<Self, DeviceClassError> {
        let bad = || DeviceClassError::Shape(text.chars().take(120).collect());
        if !text.contains('=') {
            return Ok(Self::of(&text.parse()?));
        }
        let mut predicates = Vec::new();
        for part in text.split('&') {
            let (name, value) = part.split_once('=').ok_or_else(bad)?;
            if name.is_empty() || value.is_empty() {
                return Err(bad());
            }
            let name = if name == "architecture" { field::ARCHITECTURE } else { name };
            predicates.push(Predicate { field: name.to_owned(), value: value.to_owned() });
        }
        predicates.sort();
        predicates.dedup();
        Ok(Self { predicates })
    }
}

impl fmt::Display for DeviceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.predicates.as_slice()
            && only.field == field::ARCHITECTURE
        {
            return f.write_str(&only.value);
        }
        let parts: Vec<String> = self.predicates.iter().map(|p| format!("{}={}", p.field, p.value)).collect();
        f.write_str(&parts.join("&"))
    }
}

impl TryFrom<String> for DeviceClass {
    type Error = DeviceClassError;
    fn try_from(text: String) -> Result<Self, DeviceClassError> {
        text.parse()
    }
}

impl From<DeviceClass> for String {
    fn from(class: DeviceClass) -> Self {
        class.to_string()
    }
}
