//! Who may join: a pure decision over what the peer proved, what is enrolled and which invites are open.
//!
//! ```text
//! hello malformed ──► join/hello          proof does not verify ──► join/proof
//! node enrolled: same TLS key ──► Known   other TLS key ──► join/other-tls-key   revoked ──► join/revoked
//! TLS key enrolled for another node ──► join/duplicate-tls-key
//! no invite ──► join/unknown-node         no such invite ──► join/invite-unknown
//! invite used by this very key pair ──► Enrol again (a retry, even after its expiry)
//! one-use invite used by another key ──► join/invite-other-key
//! every use taken ──► join/invite-used    past its time ──► join/invite-expired
//! a device outside the invite's class ──► join/invite-class; of a node that is enrolled: join/device-class
//! else ──► Enrol
//! ```

use super::event::PeerFacts;
use crate::scheduler::fact::Fact;
use fleet_config::domain::canonical;
use fleet_config::domain::{DeviceClass, DeviceDescription, Digest, NodeId, Sha256};
use fleet_config::identity::PublicKey;
use fleet_config::invite::secret_hash;
use fleet_config::refusal::Refusal;
use fleet_config::wire::close::proof_message;
use fleet_config::wire::v1::{Device, Goodbye, Hello};
use std::collections::{BTreeMap, BTreeSet};

/// Longest name of a node.
pub const NAME_MAX: usize = 64;

/// More devices than any machine holds.
pub const DEVICES_MAX: usize = 64;

/// Attempts that a node can hold: running ones and an outbox that waited for days.
pub const HELD_MAX: usize = 1024;

/// Longest text of a checkpoint note.
pub const CHECKPOINT_MAX: usize = 4096;

/// A node that the ledger knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolledNode {
    pub node: NodeId,
    pub tls_key: Sha256,
    pub standing: Standing,
    /// Class of the invite that it joined by: its devices must belong to it for ever.
    pub class: Option<DeviceClass>,
}

/// Whether an enrolled node may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Trusted,
    Revoked,
}

/// An invite as the journal knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenInvite {
    pub id: String,
    pub expires_unix_ms: u64,
    /// How many different key pairs may use it.
    pub uses: u32,
    /// The [`joining_key`]s that used it.
    pub used_by: BTreeSet<Digest>,
    /// Devices of a node that joins by it must belong to this class.
    pub class: Option<DeviceClass>,
}

/// What admission knows.
#[derive(Debug, Clone, Default)]
pub struct Register {
    pub nodes: BTreeMap<NodeId, EnrolledNode>,
    /// By the hash of the secret.
    pub invites: BTreeMap<Digest, OpenInvite>,
}

impl Register {
    /// Keeps what admission needs to know of a fact.
    pub fn note(&mut self, fact: &Fact) {
        match fact {
            Fact::InviteCreated(invite) => {
                let open = OpenInvite {
                    id: invite.id.0.clone(),
                    expires_unix_ms: invite.expires_unix_ms,
                    uses: invite.uses,
                    used_by: BTreeSet::new(),
                    class: invite.class.clone(),
                };
                self.invites.insert(invite.secret_hash, open);
            }
            Fact::InviteConsumed { invite, key } => {
                for open in self.invites.values_mut().filter(|open| open.id == invite.0) {
                    open.used_by.insert(*key);
                }
            }
            Fact::SubmissionAccepted(_)
            | Fact::LeaseGranted(_)
            | Fact::Cancelled(_)
            | Fact::NodeDrained { .. }
            | Fact::NodeUndrained { .. } => {}
        }
    }

    /// The class of the invite with this id.
    pub fn class_of(&self, invite: &str) -> Option<&DeviceClass> {
        self.invites.values().find(|open| open.id == invite)?.class.as_ref()
    }

    /// Whether an enrolled node may offer these devices.
    pub fn check_devices(&self, node: NodeId, devices: &[DeviceDescription]) -> Result<(), Refusal> {
        let class = self.nodes.get(&node).and_then(|enrolled| enrolled.class.as_ref());
        check_class(class, devices, "join/device-class")
    }
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Enrolled before: welcome it.
    Known {
        node: NodeId,
        devices: Vec<DeviceDescription>,
    },
    /// Journal the use of `invite` by `key` (harmless when it is there already), append node-enrol, then welcome.
    Enrol(Box<Enrolment>),
    Refused(Goodbye),
}

/// A node that may join by an invite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolment {
    pub node: NodeId,
    pub signing_key: PublicKey,
    pub tls_key: Sha256,
    pub name: String,
    pub invite: String,
    /// The [`joining_key`] that the invite is bound to.
    pub key: Digest,
    pub devices: Vec<DeviceDescription>,
    /// Class of the invite.
    pub class: Option<DeviceClass>,
}

/// Names the pair of keys that uses an invite.
pub fn joining_key(signing_key: &[u8; 32], tls_key: Sha256) -> Digest {
    let mut bytes = b"muster.joining-key/1\0".to_vec();
    bytes.extend_from_slice(signing_key);
    bytes.extend_from_slice(tls_key.as_bytes());
    Digest::of(&bytes)
}

/// Decides about one hello at wall time `now_unix_ms`.
pub fn admit(hello: &Hello, peer: &PeerFacts, register: &Register, now_unix_ms: u64) -> Admission {
    decide(hello, peer, register, now_unix_ms).unwrap_or_else(|refusal| Admission::Refused(goodbye(refusal)))
}

/// The goodbye that a refusal becomes: nothing changes by trying again.
pub fn goodbye(refusal: Refusal) -> Goodbye {
    let Refusal { code, place, cause, next } = refusal;
    let cause = if place.is_empty() { cause } else { format!("{place}: {cause}") };
    Goodbye { code: code.into_owned(), cause, next, retry: false }
}

fn decide(
    hello: &Hello,
    peer: &PeerFacts,
    register: &Register,
    now_unix_ms: u64,
) -> Result<Admission, Refusal> {
    let devices = check_hello(hello)?;
    let signing_key = PublicKey::from_bytes(&hello.signing_key)
        .map_err(|error| malformed("signing_key", &error.to_string()))?;
    if !signing_key.verifies(&proof_message(&peer.exporter), &hello.proof) {
        return Err(Refusal::new(
            "join/proof",
            "hello",
            "the proof is not a signature of this session by the signing key",
            "let nothing stand between node and coordinator that ends TLS",
        ));
    }
    let node = signing_key.node_id();
    if let Some(enrolled) = register.nodes.get(&node) {
        known(enrolled, peer)?;
        register.check_devices(node, &devices)?;
        return Ok(Admission::Known { node, devices });
    }
    if register.nodes.values().any(|other| other.tls_key == peer.tls_key) {
        return Err(Refusal::new(
            "join/duplicate-tls-key",
            "hello",
            "this TLS key belongs to an enrolled node with another signing key",
            "restore the node's own keys, or start it on a new state folder with an invite",
        ));
    }
    let key = joining_key(&hello.signing_key, peer.tls_key);
    let open = invited(hello, &key, register, now_unix_ms)?;
    // Before the use is journalled: a node that may not join burns no invite.
    check_class(open.class.as_ref(), &devices, "join/invite-class")?;
    Ok(Admission::Enrol(Box::new(Enrolment {
        node,
        signing_key,
        tls_key: peer.tls_key,
        name: hello.name.clone(),
        invite: open.id.clone(),
        key,
        devices,
        class: open.class.clone(),
    })))
}

fn check_class(
    class: Option<&DeviceClass>,
    devices: &[DeviceDescription],
    code: &'static str,
) -> Result<(), Refusal> {
    let Some(class) = class else { return Ok(()) };
    match devices.iter().find(|device| !class.matches(device)) {
        None => Ok(()),
        Some(stranger) => Err(Refusal::new(
            code,
            format!("device {}", stranger.id.0.chars().take(80).collect::<String>()),
            format!("the invite of this node is for devices of the class {class}"),
            "offer only such devices, or join from a new state folder with another invite",
        )),
    }
}

fn known(enrolled: &EnrolledNode, peer: &PeerFacts) -> Result<(), Refusal> {
    match enrolled.standing {
        Standing::Revoked => Err(Refusal::new(
            "join/revoked",
            "node",
            "this node was revoked",
            "ask the operator; a revoked node joins again only with new keys and a new invite",
        )),
        Standing::Trusted if enrolled.tls_key != peer.tls_key => Err(Refusal::new(
            "join/other-tls-key",
            "node",
            "this node is enrolled with another TLS key",
            "restore the keys folder of the node, or start it on a new state folder with an invite",
        )),
        Standing::Trusted => Ok(()),
    }
}

fn invited<'a>(
    hello: &Hello,
    key: &Digest,
    register: &'a Register,
    now_unix_ms: u64,
) -> Result<&'a OpenInvite, Refusal> {
    let refuse = |code, cause: &str| {
        Err(Refusal::new(code, "invite", cause, "ask for a new one: `muster node invite` on the coordinator"))
    };
    let Some(secret) = &hello.invite else {
        return refuse("join/unknown-node", "this node is not enrolled and shows no invite");
    };
    let Some(invite) = register.invites.get(&secret_hash(secret)) else {
        return refuse("join/invite-unknown", "this coordinator gave no such invite");
    };
    if invite.used_by.contains(key) {
        return Ok(invite);
    }
    let used = u32::try_from(invite.used_by.len()).unwrap_or(u32::MAX);
    if used >= invite.uses {
        return if invite.uses == 1 {
            refuse("join/invite-other-key", "this invite is bound to the key that used it first")
        } else {
            refuse("join/invite-used", "every use of this invite is taken")
        };
    }
    if now_unix_ms >= invite.expires_unix_ms {
        return refuse("join/invite-expired", "this invite has expired");
    }
    Ok(invite)
}

/// Checks what a hello says of the node, and parses its devices.
fn check_hello(hello: &Hello) -> Result<Vec<DeviceDescription>, Refusal> {
    let name = &hello.name;
    if name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
        return Err(malformed("name", "it must be 1 to 64 bytes of printable text"));
    }
    if hello.harness_version.len() > NAME_MAX {
        return Err(malformed("harness_version", "it is too long"));
    }
    if hello.running.len() > HELD_MAX {
        return Err(malformed("running", "it names too many attempts"));
    }
    if hello.checkpoint.len() > CHECKPOINT_MAX {
        return Err(malformed("checkpoint", "it is too long"));
    }
    parse_devices(&hello.devices)
}

/// The devices of a hello or of a capacity message.
pub fn parse_devices(devices: &[Device]) -> Result<Vec<DeviceDescription>, Refusal> {
    if devices.len() > DEVICES_MAX {
        return Err(malformed("devices", "there are too many"));
    }
    let mut seen = BTreeSet::new();
    let mut descriptions = Vec::with_capacity(devices.len());
    for device in devices {
        let description: DeviceDescription = canonical::from_bytes(&device.description)
            .map_err(|error| malformed("devices", &error.to_string()))?;
        if description.id.0 != device.id {
            return Err(malformed("devices", "a description names another device"));
        }
        if !seen.insert(device.id.as_str()) {
            return Err(malformed("devices", "a device is named twice"));
        }
        descriptions.push(description);
    }
    Ok(descriptions)
}

fn malformed(field: &str, cause: &str) -> Refusal {
    Refusal::new(
        "join/hello",
        format!("hello.{field}"),
        cause,
        "use the version of muster-node that belongs to this coordinator",
    )
}

#[cfg(test)]
#[path = "tests/admit.rs"]
mod tests;
