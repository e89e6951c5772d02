//! Reading a ledger folder without its coordinator: key, log, blobs, definitions.

use crate::desk::catalog::{Catalog, Entry};
use crate::keyring;
use crate::state::Layout;
use fleet_config::domain::{Digest, LeafIndex, Task, TaskId, canonical};
use fleet_config::refusal::Refusal;
use ledger::blob::BlobStore;
use ledger::entry::{Body, Entry as LedgerEntry};
use ledger::log::{LogReader, VerifierKey};
use std::path::{Path, PathBuf};

/// Largest blob that the command line reads into memory.
const BLOB_MAX: u64 = 64 << 20;

/// A ledger folder opened for reading; works while a coordinator writes.
#[derive(Debug)]
pub(super) struct Reading {
    pub folder: PathBuf,
    pub log: LogReader,
    pub blobs: BlobStore,
}

impl Reading {
    /// Opens the ledger of a state folder with the verifier key that lies in it.
    pub(super) fn open(state: &Path) -> Result<Self, Refusal> {
        let folder = Layout::of(state).ledger();
        let verifier = verifier_key(state, None)?;
        let log = match LogReader::open(&folder, &verifier) {
            Ok(log) => log,
            Err(error) => {
                keyring::check_verifier(&Layout::of(state), &verifier)?;
                return Err(Refusal::new(
                    "ledger/unreadable",
                    folder.display().to_string(),
                    error.to_string(),
                    "run `muster ledger verify` to see what is damaged",
                ));
            }
        };
        let blobs = BlobStore::open(&folder);
        Ok(Self { folder, log, blobs })
    }

    /// Every entry below `size`, in order.
    pub(super) fn entries(&self, size: u64) -> Result<Vec<(LeafIndex, Vec<u8>)>, Refusal> {
        let entries: Result<Vec<_>, _> = self.log.entries(0..size).collect();
        entries.map_err(|error| {
            Refusal::new(
                "ledger/unreadable",
                self.folder.display().to_string(),
                error.to_string(),
                "run `muster ledger verify` to see what is damaged",
            )
        })
    }

    /// The content of a blob, or nothing.
    pub(super) fn blob(&self, digest: &Digest) -> Option<Vec<u8>> {
        self.blobs.read_unchecked(digest, BLOB_MAX).ok().flatten()
    }

    /// The task that `text` names among `entries`.
    pub(super) fn task(
        &self,
        entries: &[(LeafIndex, Vec<u8>)],
        text: &str,
    ) -> Result<(TaskId, Entry<Task>), Refusal> {
        let catalog = Catalog::default();
        for (leaf, bytes) in entries {
            let Ok(LedgerEntry { body: Body::Task(added), .. }) = LedgerEntry::read(bytes) else { continue };
            let task =
                self.blob(&added.definition.blake3).and_then(|bytes| canonical::from_bytes(&bytes).ok());
            if let Some(task) = task {
                catalog.add_task(added.task, task, *leaf);
            }
        }
        catalog.find_task(text)
    }
}

/// The verifier key to trust: as given, or the one in the state folder.
pub(super) fn verifier_key(state: &Path, given: Option<&str>) -> Result<VerifierKey, Refusal> {
    let path = Layout::of(state).keys().join("log.vkey");
    let (text, place, code, next) = match given {
        Some(text) => {
            let next = "write it as `muster ledger vkey` prints it";
            (text.to_owned(), "--vkey".to_owned(), "ledger/bad-key", next)
        }
        None => {
            let place = path.display().to_string();
            let text = std::fs::read_to_string(&path).map_err(|error| {
                Refusal::new(
                    "ledger/no-key",
                    &place,
                    error.to_string(),
                    "name the coordinator's state folder with --state; `muster ledger verify` also takes the key with --vkey",
                )
            })?;
            let next = "start the coordinator, which writes this file again from keys/log, or give the key with --vkey";
            (text, place, "state/key", next)
        }
    };
    text.trim()
        .parse()
        .map_err(|error: ledger::log::KeyError| Refusal::new(code, place, error.to_string(), next))
}
