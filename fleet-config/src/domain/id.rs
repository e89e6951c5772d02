//! Identities: digests, content-derived ids and the sequence numbers that order facts.

use data_encoding::HEXLOWER;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A text that is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not 64 lower-case hexadecimal digits")]
pub struct DigestError {
    text: String,
}

/// Declares 32-byte identities that print as 64 hex digits; in JSON a string, on the wire 32 bytes.
macro_rules! digests {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 32]);

        impl $name {
            /// The bytes of this identity.
            pub fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
            /// The first twelve hex digits: enough for people, never for programs.
            pub fn short(&self) -> String {
                HEXLOWER.encode(&self.0[..6])
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&HEXLOWER.encode(&self.0))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.short())
            }
        }
        impl FromStr for $name {
            type Err = DigestError;
            fn from_str(text: &str) -> Result<Self, DigestError> {
                let bad = || DigestError { text: text.chars().take(80).collect() };
                let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| bad())?;
                Ok(Self(bytes.try_into().map_err(|_| bad())?))
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.serialize_str(&HEXLOWER.encode(&self.0))
                } else {
                    self.0.serialize(serializer)
                }
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
                } else {
                    Ok(Self(<[u8; 32]>::deserialize(deserializer)?))
                }
            }
        }
    )*};
}

digests! {
    /// blake3 of some bytes.
    Digest;
    /// SHA-256 of some bytes, written beside blake3 so that generic tools can match.
    Sha256;
    /// blake3 of a task's canonical form.
    TaskId;
    /// blake3 of a candidate's canonical form.
    CandidateId;
    /// Shared by the variants of one candidate for several architectures.
    FamilyId;
    /// blake3 of a measurement policy's canonical form.
    PolicyId;
    /// blake3 of a submission's canonical form.
    SubmissionId;
    /// blake3 of (submission, candidate, device class): the unit of scheduling.
    CellId;
    /// Hash of the fingerprint fields that must be equal for two times to be compared.
    ClassId;
    /// blake3 of a statement's payload bytes.
    RecordId;
    /// SHA-256 of a node's Ed25519 signing key; equal to the `keyid` of its envelopes.
    NodeId;
    /// Drawn by the coordinator for one attempt, bound into its result.
    Nonce;
}

impl Digest {
    /// blake3 of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl Sha256 {
    /// SHA-256 of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }
}

impl CellId {
    /// The cell of `candidate` on the device class spelled `class` in `submission`.
    pub fn of(submission: SubmissionId, candidate: CandidateId, class: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"muster.cell/1\0");
        hasher.update(submission.as_bytes());
        hasher.update(candidate.as_bytes());
        hasher.update(class.as_bytes());
        Self(*hasher.finalize().as_bytes())
    }
}

/// A device as its vendor names it (`GPU-…`, or `CPU-…` for the CPU device of a node), never an index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceId(pub String);

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Declares sequence numbers that cannot be mixed.
macro_rules! sequences {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}

sequences! {
    /// Position of an entry in the ledger; order comes from this, never from wall time.
    LeafIndex;
    /// Sequence number of the journal fact that granted a lease.
    Fence;
}

/// Seed of one draw of inputs, drawn by the coordinator after submission. Kept below 2^53 so that it is an
/// exact JSON integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// Largest seed: the largest integer that every JSON reader keeps exactly.
    pub const MAX: u64 = (1 << 53) - 1;

    /// A seed from 64 random bits.
    pub fn from_random(bits: u64) -> Self {
        Self(bits & Self::MAX)
    }
}
