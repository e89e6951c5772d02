//! Predicates: the kinds of entries and what each of them says. Field names are part of the format.

mod attempt;
mod definition;
mod finding;
mod holdout;
mod node;
mod result;

pub use attempt::{
    AttemptGranted, AttemptLost, AttemptRefused, Consequence, Grant, LossReason, RefusalReason,
};
pub use definition::{Genesis, PolicyAdded, TaskAdded};
pub use finding::{DetectorName, Finding, FindingJudgement, FindingScope};
pub use holdout::{HoldoutOpened, HoldoutVerdict, OpenedHoldout, Verification};
pub use node::{NodeEnrol, NodeRevoke};
pub use result::{Build, CaseEvidence, Environment, Evidence, Harness, ResultRecord, VolatileFacts};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Every kind that this version writes and checks. Readers keep entries of unknown kinds and say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Genesis,
    Task,
    Policy,
    NodeEnrol,
    NodeRevoke,
    AttemptGranted,
    AttemptLost,
    AttemptRefused,
    HoldoutOpened,
    Result,
    Verification,
    Finding,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Genesis,
        Self::Task,
        Self::Policy,
        Self::NodeEnrol,
        Self::NodeRevoke,
        Self::AttemptGranted,
        Self::AttemptLost,
        Self::AttemptRefused,
        Self::HoldoutOpened,
        Self::Result,
        Self::Verification,
        Self::Finding,
    ];

    /// The word in `urn:muster:predicate:<word>:v1`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Genesis => "genesis",
            Self::Task => "task",
            Self::Policy => "policy",
            Self::NodeEnrol => "node-enrol",
            Self::NodeRevoke => "node-revoke",
            Self::AttemptGranted => "attempt-granted",
            Self::AttemptLost => "attempt-lost",
            Self::AttemptRefused => "attempt-refused",
            Self::HoldoutOpened => "holdout-opened",
            Self::Result => "result",
            Self::Verification => "verification",
            Self::Finding => "finding",
        }
    }
    /// The predicateType of its statements.
    pub fn predicate_type(self) -> String {
        format!("urn:muster:predicate:{}:v1", self.word())
    }
    /// The kind of a predicateType, if this version knows it.
    pub fn of(predicate_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.predicate_type() == predicate_type)
    }
    /// Who may sign it.
    pub fn signer(self) -> SignerRole {
        match self {
            Self::Genesis
            | Self::Task
            | Self::Policy
            | Self::NodeEnrol
            | Self::NodeRevoke
            | Self::AttemptGranted
            | Self::AttemptLost
            | Self::AttemptRefused
            | Self::HoldoutOpened
            | Self::Finding => SignerRole::Operator,
            Self::Result | Self::Verification => SignerRole::Node,
        }
    }
}

/// Roles of signing keys. The log key signs checkpoints and never entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignerRole {
    /// The coordinator's operator key, named by the genesis entry.
    Operator,
    /// A node's signing key, named by its node-enrol entry.
    Node,
}

/// The word of a closed list, as records spell it.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}

/// What a statement of one kind says.
pub trait Predicate: Serialize + DeserializeOwned {
    /// The kind that this type is the body of.
    const KIND: Kind;
}
