//! Who may sign: the keys that the entries so far have named.

use super::body::Body;
use super::ingest::{Checked, EntryError, check};
use fleet_config::domain::{LeafIndex, NodeId, Sha256};
use fleet_config::identity::PublicKey;
use std::collections::BTreeMap;

/// The keys named by genesis and node-enrol entries, folded in the order of the log. Starts empty: the first
/// entry that it takes is genesis.
#[derive(Debug, Clone, Default)]
pub struct Signers {
    genesis: Option<(String, PublicKey)>,
    nodes: BTreeMap<NodeId, Enrolled>,
}

/// A node as its first node-enrol entry names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolled {
    pub key: PublicKey,
    pub name: String,
    /// SHA-256 of the SubjectPublicKeyInfo of its TLS key, from its newest node-enrol entry.
    pub tls_key: Sha256,
    /// Id of the invite that its newest node-enrol entry names.
    pub invite: String,
    /// Leaf of its first node-enrol entry.
    pub leaf: LeafIndex,
    /// Leaf of the node-revoke entry, once it is trusted no more.
    pub revoked: Option<LeafIndex>,
}

impl Signers {
    /// Before the first entry.
    pub fn new() -> Self {
        Self::default()
    }
    /// Origin of this ledger, once genesis was folded.
    pub fn origin(&self) -> Option<&str> {
        self.genesis.as_ref().map(|(origin, _)| origin.as_str())
    }
    /// Key of the operator, once genesis was folded.
    pub fn operator(&self) -> Option<&PublicKey> {
        self.genesis.as_ref().map(|(_, key)| key)
    }
    /// The node, if it is enrolled.
    pub fn node(&self, node: &NodeId) -> Option<&Enrolled> {
        self.nodes.get(node)
    }
    /// Every enrolled node, in order of ids.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeId, &Enrolled)> {
        self.nodes.iter()
    }

    /// Checks an entry that is in the log and folds it: for the start, fed with the genesis and node-enrol entries in
    /// order (an index knows where they are).
    pub fn take_in(&mut self, leaf: LeafIndex, bytes: &[u8]) -> Result<Checked, EntryError> {
        let checked = check(bytes, self)?;
        self.fold(leaf, &checked);
        Ok(checked)
    }

    /// Takes in what an appended entry names. Call it for every checked entry in the order of the log, after the
    /// append; kinds that name no key change nothing. A node may be enrolled again (a new TLS key under the same
    /// signing key); its first leaf stays.
    pub fn fold(&mut self, leaf: LeafIndex, checked: &Checked) {
        match &checked.entry.body {
            Body::Genesis(genesis) => {
                if self.genesis.is_none() {
                    self.genesis = Some((genesis.origin.clone(), checked.signer));
                }
            }
            Body::NodeEnrol(enrol) => {
                let Ok(key) = PublicKey::from_hex(&enrol.signing_key) else { return };
                let first = self.nodes.get(&enrol.node).map_or(leaf, |known| known.leaf);
                let (name, invite) = (enrol.name.clone(), enrol.invite.clone());
                let enrolled =
                    Enrolled { key, name, tls_key: enrol.tls_key, invite, leaf: first, revoked: None };
                self.nodes.insert(enrol.node, enrolled);
            }
            Body::NodeRevoke(revoke) => {
                if let Some(node) = self.nodes.get_mut(&revoke.node) {
                    node.revoked.get_or_insert(leaf);
                }
            }
            Body::Task(_)
            | Body::Policy(_)
            | Body::AttemptGranted(_)
            | Body::AttemptLost(_)
            | Body::AttemptRefused(_)
            | Body::HoldoutOpened(_)
            | Body::Result(_)
            | Body::Verification(_)
            | Body::Finding(_)
            | Body::Unknown { .. } => {}
        }
    }
}
