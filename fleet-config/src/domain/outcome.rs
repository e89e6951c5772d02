//! The verdict of one attempt: a closed list of statuses, each with stage, first cause, hint and whose fault.

use super::{BlobRef, Decimal};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// Closed list. Only `worker_lost` without proof and `infrastructure` are the fleet's own and are retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Ok,
    WrongResult,
    ContractViolation,
    Suspicious,
    TaskWeak,
    Rejected,
    CompileError,
    CompileTimeout,
    LaunchError,
    RuntimeError,
    Timeout,
    OutOfMemory,
    UnsupportedOnDevice,
    WorkerLost,
    Infrastructure,
}

impl Status {
    /// Every status, in the order of their declaration.
    pub const ALL: [Self; 15] = [
        Self::Ok,
        Self::WrongResult,
        Self::ContractViolation,
        Self::Suspicious,
        Self::TaskWeak,
        Self::Rejected,
        Self::CompileError,
        Self::CompileTimeout,
        Self::LaunchError,
        Self::RuntimeError,
        Self::Timeout,
        Self::OutOfMemory,
        Self::UnsupportedOnDevice,
        Self::WorkerLost,
        Self::Infrastructure,
    ];

    /// The word used in records and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::WrongResult => "wrong_result",
            Self::ContractViolation => "contract_violation",
            Self::Suspicious => "suspicious",
            Self::TaskWeak => "task_weak",
            Self::Rejected => "rejected",
            Self::CompileError => "compile_error",
            Self::CompileTimeout => "compile_timeout",
            Self::LaunchError => "launch_error",
            Self::RuntimeError => "runtime_error",
            Self::Timeout => "timeout",
            Self::OutOfMemory => "out_of_memory",
            Self::UnsupportedOnDevice => "unsupported_on_device",
            Self::WorkerLost => "worker_lost",
            Self::Infrastructure => "infrastructure",
        }
    }
    /// Whether the scheduler tries again: the fleet's own faults only.
    pub fn is_retried(self) -> bool {
        match self {
            Self::WorkerLost | Self::Infrastructure => true,
            Self::Ok
            | Self::WrongResult
            | Self::ContractViolation
            | Self::Suspicious
            | Self::TaskWeak
            | Self::Rejected
            | Self::CompileError
            | Self::CompileTimeout
            | Self::LaunchError
            | Self::RuntimeError
            | Self::Timeout
            | Self::OutOfMemory
            | Self::UnsupportedOnDevice => false,
        }
    }
    /// Whether a recorded outcome may answer the same question again: `ok` and deterministic failures.
    pub fn is_reusable(self) -> bool {
        match self {
            Self::Ok
            | Self::WrongResult
            | Self::ContractViolation
            | Self::Rejected
            | Self::CompileError
            | Self::LaunchError
            | Self::UnsupportedOnDevice
            | Self::TaskWeak => true,
            Self::Suspicious
            | Self::CompileTimeout
            | Self::RuntimeError
            | Self::Timeout
            | Self::OutOfMemory
            | Self::WorkerLost
            | Self::Infrastructure => false,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where in its life an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Submit,
    Queue,
    Prepare,
    Compile,
    Validate,
    Time,
    Sign,
    Record,
}

impl Stage {
    /// Every stage in the order of a life.
    pub const ALL: [Self; 8] = [
        Self::Submit,
        Self::Queue,
        Self::Prepare,
        Self::Compile,
        Self::Validate,
        Self::Time,
        Self::Sign,
        Self::Record,
    ];

    /// The stage of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
    /// The word used in records and progress lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Queue => "queue",
            Self::Prepare => "prepare",
            Self::Compile => "compile",
            Self::Validate => "validate",
            Self::Time => "time",
            Self::Sign => "sign",
            Self::Record => "record",
        }
    }
}

/// Whose fault an outcome is. Nothing of the fleet is ever charged to a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    Nobody,
    Candidate,
    Task,
    Device,
    Fleet,
}

/// Faults in vendor-neutral words; the vendor's code stands beside them in [`Cause`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    IllegalAddress,
    MisalignedAddress,
    IllegalInstruction,
    ArithmeticException,
    StackOverflow,
    Assert,
    Trap,
    BarrierDivergence,
    /// Two threads at one place, one of them writing, in no order.
    Race,
    /// What was read before it was written reached an output.
    UninitialisedMemory,
    ForbiddenCall,
    Killed,
    Other,
}

/// Why a device cannot host a candidate or a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnsupportedReason {
    InlineAssembly,
    WarpWidth,
    MatrixUnit,
    SharedMemory,
    LaunchLimits,
    ElementType,
    Header,
    Library,
    Toolchain,
    NotImplementedHere,
}

/// The verdict of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    pub status: Status,
    pub stage: Stage,
    pub blame: Blame,
    /// The first cause; `None` exactly when the status is `ok`.
    pub cause: Option<Cause>,
    /// What to do next, for people.
    pub hint: String,
    /// Compiler log or captured output, quoted and bounded, never parsed for a verdict.
    pub log: Option<BlobRef>,
}

impl Outcome {
    /// The outcome of an attempt that passed every stage.
    pub fn ok() -> Self {
        Self {
            status: Status::Ok,
            stage: Stage::Time,
            blame: Blame::Nobody,
            cause: None,
            hint: String::new(),
            log: None,
        }
    }
    /// An outcome other than `ok`.
    pub fn failed(status: Status, stage: Stage, blame: Blame, cause: Cause, hint: impl Into<String>) -> Self {
        Self { status, stage, blame, cause: Some(cause), hint: hint.into(), log: None }
    }
}

/// The first cause, as exact as the stage can tell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// Stable, `stage/what`, for example `validate/mismatch`.
    pub code: String,
    /// For people, a lower-case fragment.
    pub message: String,
    pub fault: Option<FaultKind>,
    /// The vendor's own code or word, such as `CUDA_ERROR_ILLEGAL_ADDRESS (700)` or `SIGSEGV`.
    pub vendor_code: Option<String>,
    pub unsupported: Option<UnsupportedReason>,
    pub case: Option<String>,
    pub source: Option<SourcePlace>,
    pub memory: Option<MemoryPlace>,
    pub mismatch: Option<Mismatch>,
}

/// A place in the candidate's source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcePlace {
    pub file: String,
    pub line: u32,
    /// 0 when unknown.
    pub column: u32,
}

/// A place in a buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryPlace {
    pub buffer: String,
    /// From the buffer's start, in bytes; negative before it.
    pub offset: i64,
    /// Size of the buffer in bytes.
    pub size: u64,
    /// Who touched it, where the device can tell.
    pub place: Option<LaunchPlace>,
}

/// A thread of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchPlace {
    pub block: [u32; 3],
    pub thread: [u32; 3],
}

/// The first element outside the tolerance and how many there are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mismatch {
    pub output: String,
    /// Row-major.
    pub index: u64,
    /// Coordinates of the index in the output's shape.
    pub coordinates: Vec<u64>,
    /// Decimal text, or `nan`, `inf`, `-inf`.
    pub expected: String,
    pub got: String,
    pub absolute_error: Option<Decimal>,
    pub relative_error: Option<Decimal>,
    pub count: u64,
    pub total: u64,
    /// For people: `every element`, `last row`, `untouched`; empty when none is recognised.
    pub pattern: String,
    /// The element that is furthest off, where that is not the first one. Records from before it was looked for have
    /// none and keep their bytes.
    #[serde(default)]
    pub worst: Option<Worst>,
}

/// The element that is furthest off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worst {
    /// Row-major.
    pub index: u64,
    pub coordinates: Vec<u64>,
    pub expected: String,
    pub got: String,
    pub absolute_error: Decimal,
}

/// In the order of declaration; without a worst element the form is the one from before there was any.
impl Serialize for Mismatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            output,
            index,
            coordinates,
            expected,
            got,
            absolute_error,
            relative_error,
            count,
            total,
            pattern,
            worst,
        } = self;
        let mut form = serializer.serialize_struct("Mismatch", 10 + usize::from(worst.is_some()))?;
        form.serialize_field("output", output)?;
        form.serialize_field("index", index)?;
        form.serialize_field("coordinates", coordinates)?;
        form.serialize_field("expected", expected)?;
        form.serialize_field("got", got)?;
        form.serialize_field("absolute_error", absolute_error)?;
        form.serialize_field("relative_error", relative_error)?;
        form.serialize_field("count", count)?;
        form.serialize_field("total", total)?;
        form.serialize_field("pattern", pattern)?;
        if let Some(worst) = worst {
            form.serialize_field("worst", worst)?;
        }
        form.end()
    }
}
