//! A node that is ready to connect: its folder, keys, pin or invite, and the outbox of an earlier run.

use super::blob_cache::BlobCache;
use super::fetch::BlobFetcher;
use super::folder::NodeFolder;
use super::identity::NodeIdentity;
use super::machine::AttemptKey;
use super::outbox::Outbox;
use super::pin::Pin;
use fleet_config::domain::{DeviceDescription, canonical};
use fleet_config::invite::{Invite, InviteSecret};
use fleet_config::refusal::Refusal;
use fleet_config::state;
use fleet_config::wire::v1::Device;
use quinn::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

/// Longest checkpoint note that is kept.
pub(super) const CHECKPOINT_MAX: usize = 4096;

/// Who joins, with what.
#[derive(Debug)]
pub struct SessionOptions {
    /// State folder of the node.
    pub state: PathBuf,
    /// Name for people.
    pub name: String,
    pub harness_version: String,
    /// Needed until the coordinator is pinned.
    pub invite: Option<Invite>,
    /// Bytes of blobs that are kept from one attempt to the next.
    pub blob_cache_bytes: u64,
}

/// A node that is ready to connect.
pub struct Session {
    pub(super) folder: NodeFolder,
    pub(super) identity: Arc<NodeIdentity>,
    pub(super) name: String,
    pub(super) harness_version: String,
    pub(super) invite: Option<InviteSecret>,
    pub(super) pin: Pin,
    pub(super) outbox: Outbox,
    pub(super) signed: Vec<(AttemptKey, String)>,
    pub(super) cache: BlobCache,
    pub(super) checkpoint: String,
    pub(super) links: watch::Sender<Option<Connection>>,
}

impl Session {
    /// Opens the state folder: keys, pin or invite, the outbox of an earlier run. Nothing is dialled yet.
    pub fn open(options: SessionOptions) -> Result<Self, Refusal> {
        let folder = NodeFolder::open(&options.state)?;
        let identity = Arc::new(NodeIdentity::open(&folder.keys())?);
        let pin = choose_coordinator(Pin::load(&folder.pin())?, options.invite.as_ref())?;
        let refusal = |path: PathBuf| {
            move |error: &dyn std::fmt::Display| {
                Refusal::new(
                    "state/io",
                    path.display().to_string(),
                    error.to_string(),
                    "check the folder and its file system",
                )
            }
        };
        let (outbox, signed) =
            Outbox::open(&folder.outbox()).map_err(|error| refusal(folder.outbox())(&error))?;
        let cache = BlobCache::open(&folder.blobs(), options.blob_cache_bytes)
            .map_err(|error| refusal(folder.blobs())(&error))?;
        let checkpoint = state::read_bounded(&folder.checkpoint(), CHECKPOINT_MAX as u64)
            .map_err(|error| refusal(folder.checkpoint())(&error))?
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .unwrap_or_default();
        Ok(Self {
            folder,
            identity,
            name: options.name,
            harness_version: options.harness_version,
            invite: options.invite.map(|invite| invite.secret),
            pin,
            outbox,
            signed,
            cache,
            checkpoint,
            links: watch::Sender::new(None),
        })
    }

    /// The keys of this node.
    pub fn identity(&self) -> &Arc<NodeIdentity> {
        &self.identity
    }
    /// The state folder.
    pub fn folder(&self) -> &NodeFolder {
        &self.folder
    }
    /// Fetches blobs for jobs once the session runs. Must be called within a tokio runtime.
    pub fn fetcher(&self) -> BlobFetcher {
        BlobFetcher::new(self.cache.clone(), self.links.subscribe())
    }
}

/// The pin to dial by: what is pinned, with the addresses of a newer invite of the same coordinator.
fn choose_coordinator(pinned: Option<Pin>, invite: Option<&Invite>) -> Result<Pin, Refusal> {
    match (pinned, invite) {
        (Some(pin), None) => Ok(pin),
        (Some(pin), Some(invite)) if pin.tls_key == invite.coordinator => {
            Ok(Pin { addresses: invite.addresses.clone(), ..pin })
        }
        (Some(_), Some(_)) => Err(Refusal::new(
            "join/other-coordinator",
            "invite",
            "this state folder belongs to a node of another coordinator",
            "start on another --state folder to join this one",
        )),
        (None, Some(invite)) => Ok(Pin {
            addresses: invite.addresses.clone(),
            tls_key: invite.coordinator,
            origin: String::new(),
            log_vkey: String::new(),
        }),
        (None, None) => Err(Refusal::new(
            "join/no-invite",
            "node",
            "this node has not joined any coordinator yet",
            "pipe in the invite that `muster node invite` printed on the coordinator",
        )),
    }
}

pub(super) fn describe(devices: &[DeviceDescription]) -> Result<Vec<Device>, Refusal> {
    let describe = |device: &DeviceDescription| {
        let description = canonical::to_bytes(device).map_err(|error| {
            Refusal::new(
                "node/device",
                device.id.to_string(),
                error.to_string(),
                "report this: a device has no canonical form",
            )
        })?;
        Ok(Device { id: device.id.0.clone(), description })
    };
    devices.iter().map(describe).collect()
}
