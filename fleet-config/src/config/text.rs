//! Task and candidate files as they are written: the shape of the TOML, before anything is checked.

use crate::domain::{
    CaseKind, Determinism, ElementType, Expression, Fake, Fit, NanRule, Role, Special, Stress,
};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

/// A whole task file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskText {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) summary: String,
    pub(super) entry: Spanned<String>,
    pub(super) signature: Spanned<String>,
    pub(super) dims: Spanned<Vec<String>>,
    #[serde(default)]
    pub(super) licence: String,
    /// Files that reference, baseline and candidates may include.
    #[serde(default)]
    pub(super) headers: Vec<String>,
    pub(super) param: Vec<Spanned<ParamText>>,
    #[serde(default)]
    pub(super) inputs: BTreeMap<String, Spanned<InputText>>,
    #[serde(default)]
    pub(super) case: Vec<Spanned<CaseText>>,
    pub(super) tolerance: Option<Spanned<ToleranceText>>,
    #[serde(default)]
    pub(super) limits: LimitsText,
    pub(super) reference: Spanned<ImplementationText>,
    pub(super) baseline: Spanned<ImplementationText>,
    pub(super) holdout: Option<HoldoutText>,
    pub(super) validation: Option<Spanned<ValidationText>>,
    #[serde(default)]
    pub(super) provenance: ProvenanceText,
}

/// A parameter: a buffer has `role` and `shape`, a scalar has `value`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ParamText {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) element: ElementType,
    pub(super) role: Option<Role>,
    pub(super) shape: Option<Vec<ExpressionText>>,
    pub(super) value: Option<ScalarText>,
}

/// Exactly one draw; specials for all but poison and file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InputText {
    pub(super) normal: Option<NormalText>,
    pub(super) uniform: Option<RangeText<DecimalText>>,
    pub(super) integers: Option<RangeText<i64>>,
    pub(super) arange: Option<ArangeText>,
    pub(super) constant: Option<DecimalText>,
    pub(super) poison: Option<PoisonText>,
    pub(super) file: Option<String>,
    /// With integers, arange and constant alone.
    pub(super) fit: Option<Fit>,
    #[serde(default)]
    pub(super) specials: Vec<Special>,
}

/// Poison has nothing to choose: `poison = {}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoisonText {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NormalText {
    pub(super) mean: DecimalText,
    pub(super) std: DecimalText,
}

/// From `low` on, and below `high`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RangeText<T> {
    pub(super) low: T,
    pub(super) high: T,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArangeText {
    pub(super) start: i64,
    pub(super) step: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseText {
    pub(super) name: String,
    pub(super) kind: CaseKind,
    pub(super) dims: BTreeMap<String, i64>,
    #[serde(default)]
    pub(super) inputs: BTreeMap<String, Spanned<InputText>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToleranceText {
    pub(super) absolute: Option<Spanned<DecimalText>>,
    pub(super) relative: Option<Spanned<DecimalText>>,
    pub(super) nan: Option<NanRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsText {
    pub(super) compile_ms: Option<Spanned<u64>>,
    pub(super) launch_ms: Option<Spanned<u64>>,
    pub(super) run_ms: Option<Spanned<u64>>,
    pub(super) memory_bytes: Option<Spanned<u64>>,
    pub(super) source_bytes: Option<Spanned<u64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImplementationText {
    /// The file that is compiled.
    pub(super) file: String,
    /// Further files that it includes.
    #[serde(default)]
    pub(super) files: Vec<String>,
    #[serde(default)]
    pub(super) author: String,
    pub(super) launch: LaunchText,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HoldoutText {
    pub(super) case: Vec<Spanned<CaseText>>,
}

/// What the stages of validation may do; every kind of stress where none is named.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ValidationText {
    #[serde(default)]
    pub(super) determinism: Determinism,
    #[serde(default)]
    pub(super) sweep: BTreeMap<String, SweepText>,
    pub(super) stress: Option<Vec<Stress>>,
    #[serde(default)]
    pub(super) allow: Vec<Fake>,
}

/// Both ends included.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SweepText {
    pub(super) low: i64,
    pub(super) high: i64,
    pub(super) multiple_of: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProvenanceText {
    #[serde(default)]
    pub(super) author: String,
    #[serde(default)]
    pub(super) agent: String,
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    pub(super) origin: String,
}

/// One kernel in short form, or `step`s; not both.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LaunchText {
    pub(super) entry: Option<String>,
    pub(super) grid: Option<Vec<ExpressionText>>,
    pub(super) block: Option<Vec<ExpressionText>>,
    pub(super) shared_bytes: Option<ExpressionText>,
    pub(super) arguments: Option<Vec<String>>,
    pub(super) cooperative: Option<bool>,
    pub(super) cluster: Option<[u32; 3]>,
    #[serde(default)]
    pub(super) scratch: Vec<ScratchText>,
    #[serde(default)]
    pub(super) step: Vec<StepText>,
}

/// A kernel, or a memset with `memset` and `byte`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepText {
    pub(super) entry: Option<String>,
    pub(super) grid: Option<Vec<ExpressionText>>,
    pub(super) block: Option<Vec<ExpressionText>>,
    pub(super) shared_bytes: Option<ExpressionText>,
    pub(super) arguments: Option<Vec<String>>,
    pub(super) cooperative: Option<bool>,
    pub(super) cluster: Option<[u32; 3]>,
    pub(super) memset: Option<String>,
    pub(super) byte: Option<u8>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScratchText {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) element: ElementType,
    pub(super) count: ExpressionText,
}

/// A candidate's sidecar, or one entry of `[[candidate]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CandidateText {
    pub(super) name: Option<String>,
    pub(super) file: Option<String>,
    #[serde(default)]
    pub(super) files: Vec<String>,
    #[serde(default)]
    pub(super) author: String,
    #[serde(default)]
    pub(super) agent: String,
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    pub(super) origin: String,
    #[serde(default)]
    pub(super) licence: String,
    pub(super) parent: Option<String>,
    pub(super) family: Option<String>,
    pub(super) cost: Option<CostText>,
    pub(super) launch: Option<LaunchText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CostText {
    #[serde(default)]
    pub(super) calls: u64,
    #[serde(default)]
    pub(super) tokens_in: u64,
    #[serde(default)]
    pub(super) tokens_out: u64,
    #[serde(default)]
    pub(super) micros: u64,
    #[serde(default)]
    pub(super) currency: String,
}

/// A file of `[[candidate]]` tables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CandidatesText {
    pub(super) candidate: Vec<Spanned<CandidateText>>,
}

/// An expression written as a string or as an integer.
#[derive(Debug, Clone)]
pub(super) struct ExpressionText(pub(super) Expression);

/// A decimal written as a number or a string of any spelling; may be `nan` or infinite until it is checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecimalText(pub(super) f64);

/// The value of a scalar parameter: a number, or an expression over the dimensions.
#[derive(Debug, Clone)]
pub(super) enum ScalarText {
    Integer(i64),
    Float(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for ScalarText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = ScalarText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a string")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<ScalarText, E> {
                Ok(ScalarText::Integer(value))
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<ScalarText, E> {
                Ok(ScalarText::Float(value))
            }
            fn visit_str<E: Error>(self, value: &str) -> Result<ScalarText, E> {
                Ok(ScalarText::Text(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Scalar)
    }
}

impl<'de> Deserialize<'de> for ExpressionText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match ScalarText::deserialize(deserializer)? {
            ScalarText::Integer(value) => Ok(Self(Expression::from_integer(value))),
            ScalarText::Float(_) => {
                Err(D::Error::custom("an integer or an expression is expected, not a float"))
            }
            ScalarText::Text(text) => text.parse().map(Self).map_err(D::Error::custom),
        }
    }
}

impl<'de> Deserialize<'de> for DecimalText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match ScalarText::deserialize(deserializer)? {
            ScalarText::Integer(value) => Ok(Self(value as f64)),
            ScalarText::Float(value) => Ok(Self(value)),
            ScalarText::Text(text) => text
                .parse()
                .map(Self)
                .map_err(|_| D::Error::custom(format!("`{text}` is not a decimal number"))),
        }
    }
}
