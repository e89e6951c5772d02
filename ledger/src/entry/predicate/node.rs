//! Entries about nodes.

use super::{Kind, Predicate};
use fleet_config::domain::{LeafIndex, NodeId, Sha256};
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

/// A node is trusted no more: what it signs from here on is refused, and what it signed from `suspect_from` on falls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRevoke {
    /// Its signing key is the subject.
    pub node: NodeId,
    /// The first entry whose result by this node is ranked no more; the leaf of this entry where nothing is suspected.
    pub suspect_from: LeafIndex,
    /// For people.
    pub reason: String,
    pub revoked_on: String,
}

impl Predicate for NodeRevoke {
    const KIND: Kind = Kind::NodeRevoke;
}
impl Predicate for NodeEnrol {
    const KIND: Kind = Kind::NodeEnrol;
}
