//! The nouns of the fleet, each with its canonical form.
//!
//! Task: what is to be computed. Case: one input configuration. Candidate: a source tree and a launch plan.
//! Submission: candidates × targets × policy. Cell: one candidate on one device class. Attempt: one leased
//! try at a cell. Outcome: the verdict of an attempt. Fingerprint: what it was measured in. Comparability
//! class: which fields must be equal for two times to be compared.

mod architecture;
mod blob;
mod candidate;
pub mod canonical;
mod check;
mod decimal;
mod device;
mod element;
pub mod encoding;
mod expression;
mod fingerprint;
mod flag;
pub mod half;
mod holdout;
mod id;
mod measurement;
mod outcome;
mod plan;
mod policy;
mod preset;
mod sandbox;
mod screen;
pub mod shape;
mod submission;
mod task;
mod unit;
mod validation;
pub mod words;

pub use architecture::{Architecture, ArchitectureError, Vendor};
pub use blob::BlobRef;
pub use candidate::{Candidate, Cost, Provenance, SourceFile, SourceTree};
pub use check::{
    CheckEvidence, CheckFinding, CheckName, CheckNameError, OptionalStage, OptionalStageError,
    ValidationStage,
};
pub use decimal::{Decimal, DecimalError};
pub use device::{DeviceClass, DeviceClassError, DeviceDescription, DeviceKind, Predicate};
pub use element::ElementType;
pub use expression::{Expression, ExpressionError, Scope};
pub use fingerprint::{
    CLASS_FIELDS, ComparabilityClass, Fact, Facts, Fingerprint, MEASURE_VERSION, RATIO_FIELDS, field,
};
pub use flag::{GPU_FLAGS, HOST_FLAGS};
pub use holdout::{HoldoutError, HoldoutSection};
pub use id::{
    CandidateId, CellId, ClassId, DeviceId, Digest, DigestError, FamilyId, Fence, LeafIndex, NodeId, Nonce,
    PolicyId, RecordId, Seed, Sha256, SubmissionId, TaskId,
};
pub use measurement::{CaseTiming, SampleSeries, StageTimes};
pub use outcome::{
    Blame, Cause, FaultKind, LaunchPlace, MemoryPlace, Mismatch, Outcome, SourcePlace, Stage, Status,
    UnsupportedReason, Worst,
};
pub use plan::{Attributes, KernelStep, LaunchPlan, MemsetStep, Scratch, Step};
pub use policy::{CaseOrder, ClockOfRecord, FpContract, MeasurementPolicy, Placement, Statistic};
pub use preset::{Description, Preset};
pub use sandbox::{SandboxLevel, SandboxLevelError};
pub use screen::{Screen, ScreenError};
pub use shape::ShapeError;
pub use submission::{HoldoutCheck, Reuse, Submission};
pub use task::{
    Case, CaseKind, Commitment, Fit, Holdout, Implementation, Input, Limits, NanRule, Param, ParamKind, Role,
    Special, SpecialValue, Task, Tolerance,
};
pub use unit::{Bytes, Milliseconds, PartsPerBillion, Picoseconds};
pub use validation::{Determinism, Fake, Stress, SweepRange, Validation};
