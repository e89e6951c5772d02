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
    /// A compiler without a device: it says what a candidate uses on its architecture and never how fast it is.
    Compile,
}

impl DeviceKind {
    /// The word used in records and classes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Compile => "compile",
        }
    }
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

/// Predicates over fingerprint fields, written `cpu:x86-64-v3`,
/// `architecture=nvidia:sm_90a&device.model=NVIDIA H200`, or `compile:sm_90a` for compiling alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceClass {
    predicates: Vec<Predicate>,
}

/// What stands before the name of an architecture of NVIDIA in a class that compiles alone.
const COMPILE: &str = "compile:";

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
    /// The class of what compiles for one architecture and runs nothing.
    pub fn compiling_for(architecture: &Architecture) -> Self {
        let mut class = Self::of(architecture);
        let value = DeviceKind::Compile.name().to_owned();
        class.predicates.push(Predicate { field: field::DEVICE_KIND.to_owned(), value });
        class
    }
    /// The kind that the class names, if it names one.
    pub fn kind(&self) -> Option<&str> {
        let named = self.predicates.iter().find(|predicate| predicate.field == field::DEVICE_KIND);
        named.map(|predicate| predicate.value.as_str())
    }
    /// Whether `device` belongs to this class. What only compiles belongs to no class that does not say so.
    pub fn matches(&self, device: &DeviceDescription) -> bool {
        if device.kind == DeviceKind::Compile && self.kind().is_none() {
            return false;
        }
        self.predicates.iter().all(|predicate| {
            if predicate.field == field::DEVICE_KIND {
                return device.kind.name() == predicate.value;
            }
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
            return match text.strip_prefix(COMPILE) {
                Some(name) if name.contains(':') => Ok(Self::compiling_for(&name.parse()?)),
                Some(name) => Ok(Self::compiling_for(&format!("nvidia:{name}").parse()?)),
                None => Ok(Self::of(&text.parse()?)),
            };
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
        if let [architecture, kind] = self.predicates.as_slice()
            && architecture.field == field::ARCHITECTURE
            && (kind.field == field::DEVICE_KIND && kind.value == DeviceKind::Compile.name())
            && let Some(name) = architecture.value.strip_prefix("nvidia:")
        {
            return write!(f, "{COMPILE}{name}");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn device(kind: DeviceKind, architecture: &str) -> DeviceDescription {
        DeviceDescription {
            id: DeviceId("x".to_owned()),
            kind,
            architecture: architecture.parse().unwrap(),
            memory: 1,
            identity: Facts::new(),
            configuration: Facts::new(),
            attributes: BTreeMap::new(),
        }
    }

    #[test]
    fn what_only_compiles_is_asked_for_by_name_and_never_stands_for_a_gpu() {
        let (gpu, compiler) =
            (device(DeviceKind::Gpu, "nvidia:sm_90a"), device(DeviceKind::Compile, "nvidia:sm_90a"));
        let belongs = |class: &str| {
            let class: DeviceClass = class.parse().unwrap();
            (class.matches(&gpu), class.matches(&compiler))
        };
        assert_eq!(belongs("nvidia:sm_90a"), (true, false));
        assert_eq!(belongs("compile:sm_90a"), (false, true));
        assert_eq!(belongs("compile:nvidia:sm_90a"), (false, true));
        assert_eq!(belongs("compile:sm_80"), (false, false));
        assert_eq!(belongs("device.kind=gpu&architecture=nvidia:sm_90a"), (true, false));
        assert_eq!(belongs("device.kind=compile"), (false, true));
    }

    #[test]
    fn a_compile_class_is_written_as_it_is_read() {
        for text in ["compile:sm_90a", "compile:sm_100a", "nvidia:sm_90a", "cpu:x86-64-v3"] {
            assert_eq!(text.parse::<DeviceClass>().unwrap().to_string(), text);
        }
        let long = "architecture=nvidia:sm_80&device.kind=compile".parse::<DeviceClass>().unwrap();
        assert_eq!((long.to_string().as_str(), long), ("compile:sm_80", "compile:sm_80".parse().unwrap()));
        for bad in ["compile:", "compile:SM_90", "compile:sm 90"] {
            assert!(bad.parse::<DeviceClass>().is_err(), "{bad}");
        }
    }
}
