//! Reading a ledger folder without its coordinator: key, log, blobs, definitions.

use super::ledger_args::LedgerSource;
use crate::desk::catalog::{Catalog, Entry};
use crate::keyring;
use crate::state::Layout;
use fleet_config::domain::{Digest, LeafIndex, Task, TaskId, canonical};
use fleet_config::refusal::Refusal;
use ledger::blob::BlobStore;
use ledger::entry::{Body, Entry as LedgerEntry, Envelope};
use ledger::log::store::StoreError;
use ledger::log::{LogReader, ReadError, VerifierKey};
use std::path::{Path, PathBuf};

/// Largest blob that the command line reads into memory.
const BLOB_MAX: u64 = 64 << 20;
/// Fewest digits of a record id that may stand for it.
const PREFIX_MIN: usize = 8;

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
        Self::of(state, &LedgerSource::default())
    }

    /// Opens the ledger that was asked for: that of the state folder, or a folder that needs no coordinator and no state.
    pub(super) fn of(state: &Path, source: &LedgerSource) -> Result<Self, Refusal> {
        let LedgerSource { folder, vkey } = source;
        let verifier = verifier_key(state, vkey.as_deref())?;
        let own = Layout::of(state).ledger();
        let folder = folder.clone().unwrap_or(own);
        match LogReader::open(&folder, &verifier) {
            Ok(log) => Ok(Self { log, blobs: BlobStore::open(&folder), folder }),
            Err(error) => {
                if source.folder.is_none() && vkey.is_none() {
                    keyring::check_verifier(&Layout::of(state), &verifier)?;
                }
                Err(unreadable(&folder, &error))
            }
        }
    }

    /// Every entry below `size`, in order.
    pub(super) fn entries(&self, size: u64) -> Result<Vec<(LeafIndex, Vec<u8>)>, Refusal> {
        self.stream(size).collect()
    }

    /// The same, one at a time: memory does not grow with the ledger.
    pub(super) fn stream(&self, size: u64) -> impl Iterator<Item = Result<(LeafIndex, Vec<u8>), Refusal>> {
        self.log.entries(0..size).map(|entry| entry.map_err(|error| self.unreadable(&error)))
    }

    /// Why this ledger cannot be read, for people.
    pub(super) fn unreadable(&self, error: &ReadError) -> Refusal {
        unreadable(&self.folder, error)
    }

    /// The entry that `text` names: a leaf index, a record id, or a unique prefix of one.
    pub(super) fn find(&self, text: &str) -> Result<(LeafIndex, Vec<u8>), Refusal> {
        let unknown = |cause: String| {
            Refusal::new(
                "show/unknown",
                text.chars().take(80).collect::<String>(),
                cause,
                "`muster rank TASK` shows records, `muster status SUBMISSION` leaves; a leaf index counts from 0",
            )
        };
        let size = self.log.size();
        if text.len() < PREFIX_MIN
            && let Ok(index) = text.parse::<u64>()
        {
            if index >= size {
                return Err(unknown(format!("the ledger has {size} entries")));
            }
            let bytes = self.log.entry(LeafIndex(index)).map_err(|error| unknown(error.to_string()))?;
            return Ok((LeafIndex(index), bytes));
        }
        if text.len() < PREFIX_MIN {
            return Err(unknown(format!("a record is named by at least {PREFIX_MIN} digits")));
        }
        let named =
            |bytes: &[u8]| Envelope::parse(bytes).is_ok_and(|e| e.record().to_string().starts_with(text));
        let mut found = None;
        for entry in self.stream(size) {
            let (leaf, bytes) = entry?;
            if named(&bytes) && found.replace((leaf, bytes)).is_some() {
                return Err(unknown("more than one record begins with these digits".to_owned()));
            }
        }
        found.ok_or_else(|| unknown("no record begins with these digits".to_owned()))
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

fn unreadable(folder: &Path, error: &ReadError) -> Refusal {
    let next = match error {
        ReadError::Store(StoreError::Checkpoint(_)) => {
            "give the key of this very log with --vkey; if it is that, run `muster ledger verify`"
        }
        _ => "run `muster ledger verify` to see what is damaged",
    };
    Refusal::new("ledger/unreadable", folder.display().to_string(), error.to_string(), next)
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
                    "name the coordinator's state folder with --state, or give the key with --vkey",
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
