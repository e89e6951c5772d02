//! An attempt that no fleet asked for: what a coordinator would decide, decided here, and documents that lie in memory.

use super::context::{Assignment, BlobFault, BlobSource, Context, Machine, Node};
use super::residents::Residents;
use crate::backend::Interrupt;
use crate::inventory::{Offer, Wish};
use crate::measure::clock::SystemClock;
use fleet_config::domain::canonical::{CanonicalError, Document};
use fleet_config::domain::{
    BlobRef, Candidate, CellId, Digest, Fence, MeasurementPolicy, Milliseconds, Nonce, Picoseconds, Seed,
    SubmissionId, Task,
};
use fleet_config::identity::SecretKey;
use std::collections::BTreeMap;
use std::path::Path;
use zeroize::Zeroizing;

/// Seeds of the draws: any do, and fixed ones make a try repeatable.
const SEEDS: [Seed; 2] = [Seed(1), Seed(2)];

/// How long compiler and device may take in all, whatever the task's own limits allow beyond.
pub(super) const PATIENCE: Milliseconds = Milliseconds(600_000);

/// A node that signs for nobody.
pub(super) fn node(wish: &Wish) -> Node {
    Node {
        key: SecretKey::from_seed(&Zeroizing::new([0; 32])),
        harness: wish.harness.clone(),
        confinement: wish.confinement,
    }
}

/// An attempt that has all the time it wants and that nobody waits for.
pub(super) fn context<'a>(
    assignment: &'a Assignment,
    node: &'a Node,
    offer: &'a Offer,
    shelf: &'a Shelf,
    residents: &'a Residents,
    machine: &'a dyn Machine,
    folder: &'a Path,
) -> Context<'a> {
    Context {
        assignment,
        origin: "",
        node,
        device: &offer.description,
        backend: offer.backend.as_ref(),
        hardware: &|| None,
        blobs: shelf,
        residents,
        machine,
        clock: &SystemClock,
        folder,
        progress: &|_, _| {},
        interrupt: Interrupt::never(),
        deadline: Picoseconds(u64::MAX),
    }
}

/// `candidate` on `offer`, with every document on the shelf.
pub(super) fn assignment(
    task: &Task,
    candidate: &Candidate,
    policy: &MeasurementPolicy,
    offer: &Offer,
    shelf: &mut Shelf,
) -> Result<Assignment, CanonicalError> {
    Ok(Assignment {
        submission: SubmissionId([0; 32]),
        cell: CellId([0; 32]),
        fence: Fence(0),
        task: shelf.put(task.document()?),
        candidate: shelf.put(candidate.document()?),
        policy: shelf.put(policy.document()?),
        device: offer.description.id.clone(),
        nonce: Nonce([0; 32]),
        seeds: SEEDS.to_vec(),
        compile: PATIENCE,
        run: PATIENCE,
        queued: Milliseconds(0),
        sealed: None,
    })
}

/// The blobs of one task, in memory.
pub(super) struct Shelf(BTreeMap<Digest, Vec<u8>>);

impl Shelf {
    pub(super) fn of(blobs: impl IntoIterator<Item = (BlobRef, Vec<u8>)>) -> Self {
        Self(blobs.into_iter().map(|(blob, bytes)| (blob.blake3, bytes)).collect())
    }
    pub(super) fn put(&mut self, document: Document) -> BlobRef {
        self.0.insert(document.blob.blake3, document.bytes);
        document.blob
    }
}

impl BlobSource for Shelf {
    fn fetch(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobFault> {
        let missing = || BlobFault {
            blob: blob.blake3,
            size: blob.size,
            cause: "the task file does not name it".to_owned(),
        };
        self.0.get(&blob.blake3).cloned().ok_or_else(missing)
    }
}
