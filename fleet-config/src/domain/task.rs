//! A task: what is to be computed, with everything that decides whether a candidate computed it.

use super::canonical::{CanonicalError, Document};
use super::{BlobRef, Decimal, Digest, ElementType, Expression, LaunchPlan, Milliseconds, TaskId};
use super::{Bytes, Provenance, SourceTree, Validation};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// Immutable; named by the blake3 of its canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// As [`Task::format_for`] says.
    pub format: String,
    /// Short name for people, `[a-z0-9-]`, not an identity.
    pub name: String,
    pub summary: String,
    /// Name of the kernel that candidates provide.
    pub entry: String,
    /// The exact CUDA C declaration of the entry, `extern "C" __global__ void …(…)`.
    pub signature: String,
    /// Names of the dimensions that shapes and launches are written in.
    pub dims: Vec<String>,
    /// Parameters in the order of the signature.
    pub params: Vec<Param>,
    /// Default draw of each input buffer, by parameter name; a case may override one.
    pub inputs: BTreeMap<String, Input>,
    pub cases: Vec<Case>,
    pub tolerance: Tolerance,
    pub limits: Limits,
    /// The trusted implementation that expected values come from.
    pub reference: Implementation,
    /// What candidates are timed against.
    pub baseline: Implementation,
    /// Header trees that reference, baseline and candidates may include.
    pub headers: Vec<SourceTree>,
    pub holdout: Option<Holdout>,
    /// SPDX expression; empty when not stated.
    pub licence: String,
    pub provenance: Provenance,
    /// What the stages of validation may do beyond the cases.
    #[serde(default)]
    pub validation: Option<Validation>,
}

/// The fields in the order of their declaration; `validation` is a field of the second form alone, so that tasks of
/// the first keep their bytes.
impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            format,
            name,
            summary,
            entry,
            signature,
            dims,
            params,
            inputs,
            cases,
            tolerance,
            limits,
            reference,
            baseline,
            headers,
            holdout,
            licence,
            provenance,
            validation,
        } = self;
        let mut form = serializer.serialize_struct("Task", 17 + usize::from(validation.is_some()))?;
        form.serialize_field("format", format)?;
        form.serialize_field("name", name)?;
        form.serialize_field("summary", summary)?;
        form.serialize_field("entry", entry)?;
        form.serialize_field("signature", signature)?;
        form.serialize_field("dims", dims)?;
        form.serialize_field("params", params)?;
        form.serialize_field("inputs", inputs)?;
        form.serialize_field("cases", cases)?;
        form.serialize_field("tolerance", tolerance)?;
        form.serialize_field("limits", limits)?;
        form.serialize_field("reference", reference)?;
        form.serialize_field("baseline", baseline)?;
        form.serialize_field("headers", headers)?;
        form.serialize_field("holdout", holdout)?;
        form.serialize_field("licence", licence)?;
        form.serialize_field("provenance", provenance)?;
        if let Some(validation) = validation {
            form.serialize_field("validation", validation)?;
        }
        form.end()
    }
}

impl Task {
    /// The form of a task without a section `validation`.
    pub const FORMAT: &str = "muster.task/1";
    /// The form of a task with one.
    pub const FORMAT_WITH_VALIDATION: &str = "muster.task/2";

    /// The form that a task with this section has.
    pub fn format_for(validation: Option<&Validation>) -> &'static str {
        match validation {
            None => Self::FORMAT,
            Some(_) => Self::FORMAT_WITH_VALIDATION,
        }
    }

    /// Canonical bytes and digests.
    pub fn document(&self) -> Result<Document, CanonicalError> {
        Document::of(self)
    }
    /// The name of this task.
    pub fn id(&self) -> Result<TaskId, CanonicalError> {
        Ok(TaskId(self.document()?.digest().0))
    }
    /// Every blob that a node needs before it can run this task.
    pub fn blobs(&self) -> Vec<BlobRef> {
        let trees = [&self.reference.source, &self.baseline.source].into_iter().chain(&self.headers);
        let files = self.inputs.values().chain(self.cases.iter().flat_map(|case| case.inputs.values()));
        trees.flat_map(SourceTree::blobs).chain(files.filter_map(Input::blob)).collect()
    }
}

/// A source tree with the launch plan that runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Implementation {
    pub source: SourceTree,
    pub plan: LaunchPlan,
    /// Who wrote it; lint warns when reference and candidate share an author.
    pub author: String,
}

/// One parameter of the entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    pub name: String,
    pub element: ElementType,
    pub kind: ParamKind,
}

/// Buffer in device memory, or scalar passed by value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ParamKind {
    /// Row-major; the product of the shape is the number of elements.
    Buffer { role: Role, shape: Vec<Expression> },
    /// An integer expression, or a decimal for float elements.
    Integer { value: Expression },
    /// A float passed by value.
    Float { value: Decimal },
}

/// What a kernel may do with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read only; changing it is a contract violation.
    In,
    /// Poisoned before each checked launch, then compared.
    Out,
    /// Drawn like an input, compared like an output, restored between launches.
    Inout,
}

/// How the elements of an input come about. Parameters are decimals; the generator (version
/// [`crate::generator::VERSION`]) turns them into elements, exact to the bit on every machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Input {
    Normal {
        mean: Decimal,
        std: Decimal,
        specials: Vec<Special>,
    },
    /// Half-open: low included, high excluded.
    Uniform {
        low: Decimal,
        high: Decimal,
        specials: Vec<Special>,
    },
    /// Half-open integers, exact also for float elements.
    Integers {
        low: i64,
        high: i64,
    },
    /// Element i is start + i × step.
    Arange {
        start: i64,
        step: i64,
    },
    Constant {
        value: Decimal,
    },
    /// The elements of `draw` (integers, arange or constant) made to fit the element type as `fit` says, then
    /// `specials`.
    Adapted {
        draw: Box<Input>,
        fit: Fit,
        specials: Vec<Special>,
    },
    /// Every byte is 0xFF (NaN, or -1) or every byte is 0x7B (large and finite), as the draw decides.
    Poison,
    /// Little-endian elements, exactly the size of the buffer; the same for every seed.
    File {
        blob: BlobRef,
    },
}

impl Input {
    /// The blob behind a file input.
    pub fn blob(&self) -> Option<BlobRef> {
        match self {
            Self::File { blob } => Some(*blob),
            Self::Normal { .. }
            | Self::Uniform { .. }
            | Self::Integers { .. }
            | Self::Arange { .. }
            | Self::Constant { .. }
            | Self::Adapted { .. }
            | Self::Poison => None,
        }
    }
    /// Whether another seed gives other elements.
    pub fn is_random(&self) -> bool {
        match self {
            Self::Normal { .. } | Self::Uniform { .. } | Self::Integers { .. } | Self::Poison => true,
            Self::Adapted { draw, fit: _, specials: _ } => draw.is_random(),
            Self::Arange { .. } | Self::Constant { .. } | Self::File { .. } => false,
        }
    }
}

/// How a value that an element type does not hold becomes an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// Not at all: every element must be exact.
    Exact,
    /// As a C cast does: integers wrap, fractions are cut off, floats are rounded to nearest.
    Cast,
}

/// Overwrites one element after the draw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Special {
    pub index: u64,
    pub value: SpecialValue,
}

/// Non-finite values that a draw never gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpecialValue {
    #[serde(rename = "nan")]
    Nan,
    #[serde(rename = "inf")]
    Inf,
    #[serde(rename = "-inf")]
    NegInf,
}

/// One input configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    pub kind: CaseKind,
    pub dims: BTreeMap<String, i64>,
    /// Overrides of the task's draws, by parameter name; a scalar takes a constant.
    pub inputs: BTreeMap<String, Input>,
}

impl Case {
    /// The value that this case gives to the scalar `name` instead of the task's.
    pub fn scalar(&self, name: &str) -> Option<&Decimal> {
        if let Some(Input::Constant { value }) = self.inputs.get(name) { Some(value) } else { None }
    }
}

/// Whether a case only gates or is scored too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaseKind {
    /// Must pass; never scored.
    Correctness,
    /// Must pass; is timed and scored.
    Performance,
}

/// Equal if a == b, or |a − b| ≤ absolute + relative × |reference|, or both NaN where the rule allows it.
/// Integers and bool are compared exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    pub absolute: Decimal,
    pub relative: Decimal,
    pub nan: NanRule,
}

/// What a NaN in the reference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NanRule {
    /// NaN equals NaN at the same place, and nothing else.
    Equal,
    /// A NaN anywhere is a mismatch.
    Never,
}

/// Budgets and bounds, each enforced by the supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub compile: Milliseconds,
    /// One checked launch, its wait included.
    pub launch: Milliseconds,
    /// All that one party of an attempt (reference, baseline, candidate) does on the device.
    pub run: Milliseconds,
    /// Device memory of buffers and scratch together.
    pub memory: Bytes,
    /// Source tree of a candidate.
    pub source: Bytes,
}

/// A sealed section of cases: the task holds only the commitment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holdout {
    pub commitment: Commitment,
    pub cases: u32,
}

/// blake3(32-byte salt ‖ canonical bytes of the holdout section).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Commitment(pub Digest);

impl Commitment {
    /// The commitment to `section` under `salt`.
    pub fn of(salt: &[u8; 32], section: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(salt);
        hasher.update(section);
        Self(Digest(*hasher.finalize().as_bytes()))
    }
}
