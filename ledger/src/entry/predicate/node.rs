//! Entries about nodes.

use super::{Kind, Predicate};
use fleet_config::domain::{NodeId, Sha256};
use serde::{Deserialize, Serialize};

/// A node joined: binds its signing key to its TLS key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEnrol {
    pub node: NodeId,
    /// Name given by the operator of the node, for people.
    pub name: String,
    /// Ed25519 public key that its results are signed with, 64 hex digits.
    pub signing_key: String,
    /// SHA-256 of the SubjectPublicKeyInfo of its TLS certificate.
    pub tls_key: Sha256,
    /// Id of the invite that it joined by (never the secret).
    pub invite: String,
    pub enrolled_on: String,
}

impl Predicate for NodeEnrol {
    const KIND: Kind = Kind::NodeEnrol;
}
