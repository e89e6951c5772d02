//! The outbox: signed results that are not yet acknowledged. They outlive crashes and are sent until they are.
//!
//! `<outbox>/<cell>-<fence>/` holds `envelope`, `device` and `blobs/<blake3>`. An entry is written beside as
//! `.new-…`, synced, and renamed, so that it is there whole or not at all; it is removed by renaming it to
//! `.old-…` first, so that a crash in mid-removal leaves no half entry. What is damaged is set aside as
//! `.damaged-…` and never sent.

use super::machine::AttemptKey;
use fleet_config::domain::{BlobRef, CellId, DeviceId, Digest, Fence};
use fleet_config::state;
use fleet_config::wire::FRAME_MAX;
use fleet_config::wire::v1::{Report, ReportBlob};
use std::path::{Path, PathBuf};

/// Largest blob of a report; the same as what the coordinator takes of a whole report.
const BLOB_MAX: u64 = 256 * 1024 * 1024;

/// Blobs that one report may name; the same as what the coordinator takes.
const BLOBS_MAX: usize = 256;

/// Longest id of a device.
const DEVICE_MAX: u64 = 256;

/// Why an entry cannot be kept or sent.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("the outbox entry of {0:?} is damaged: {1}")]
    Damaged(AttemptKey, &'static str),
    #[error("the result names {0} blobs, more than a report may")]
    TooManyBlobs(usize),
    #[error("the result is larger than a report may be")]
    TooLarge,
}

/// The folder of signed results.
#[derive(Debug, Clone)]
pub struct Outbox {
    folder: PathBuf,
}

impl Outbox {
    /// Opens the folder, clears what a crash left half done, and lists what waits.
    pub fn open(folder: &Path) -> Result<(Self, Vec<(AttemptKey, String)>), OutboxError> {
        state::make_folder(folder)?;
        let outbox = Self { folder: folder.to_owned() };
        let mut waiting = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(".new-") || name.starts_with(".old-") {
                std::fs::remove_dir_all(entry.path())?;
            } else if let Some(attempt) = parse_name(name) {
                match outbox.device(attempt) {
                    Ok(device) => waiting.push((attempt, device.0)),
                    Err(error) => {
                        tracing::error!(entry = name, %error, "set aside");
                        outbox.set_aside(attempt)?;
                    }
                }
            }
        }
        waiting.sort();
        Ok((outbox, waiting))
    }

    /// Keeps a signed result durably. The same attempt again changes nothing: what was signed first is sent.
    pub fn put(
        &self,
        attempt: AttemptKey,
        device: &DeviceId,
        envelope: &[u8],
        blobs: &[(BlobRef, Vec<u8>)],
    ) -> Result<(), OutboxError> {
        if blobs.len() > BLOBS_MAX {
            return Err(OutboxError::TooManyBlobs(blobs.len()));
        }
        let total = blobs.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        // Half a frame leaves room for the list of blobs beside the envelope.
        if envelope.len() > FRAME_MAX / 2 || total > BLOB_MAX {
            return Err(OutboxError::TooLarge);
        }
        let place = self.place(attempt);
        if place.exists() {
            return Ok(());
        }
        let new = self.folder.join(format!(".new-{}", name(attempt)));
        if new.exists() {
            std::fs::remove_dir_all(&new)?;
        }
        let shelf = new.join("blobs");
        state::make_folder(&shelf)?;
        for (blob, bytes) in blobs {
            state::write_new(&shelf.join(blob.blake3.to_string()), bytes)?;
        }
        state::sync_folder(&shelf)?;
        state::write_new(&new.join("device"), device.0.as_bytes())?;
        state::write_new(&new.join("envelope"), envelope)?;
        state::sync_folder(&new)?;
        // Before the rename the entry is not there; after it is synced the result cannot be lost any more.
        std::fs::rename(&new, &place)?;
        state::sync_folder(&self.folder)?;
        Ok(())
    }

    /// The report of an entry; the bodies of its blobs are at [`Outbox::blob`].
    pub fn report(&self, attempt: AttemptKey) -> Result<Report, OutboxError> {
        let damaged = |cause| OutboxError::Damaged(attempt, cause);
        let place = self.place(attempt);
        let envelope = state::read_bounded(&place.join("envelope"), FRAME_MAX as u64 / 2)?
            .ok_or_else(|| damaged("no envelope"))?;
        let mut blobs = Vec::new();
        for entry in std::fs::read_dir(place.join("blobs"))? {
            let entry = entry?;
            if blobs.len() == BLOBS_MAX {
                return Err(damaged("too many blobs"));
            }
            let bytes = state::read_bounded(&entry.path(), BLOB_MAX)?.ok_or_else(|| damaged("no blob"))?;
            let blob = BlobRef::of(&bytes);
            if entry.file_name().to_str() != Some(blob.blake3.to_string().as_str()) {
                return Err(damaged("a blob has other bytes than its name"));
            }
            blobs.push(blob);
        }
        // The order of a folder is nobody's; the same report has the same bytes each time.
        blobs.sort();
        let blobs = blobs.into_iter().map(|blob| ReportBlob { blob: blob.into() }).collect();
        Ok(Report { cell: attempt.cell.0, fence: attempt.fence.0, envelope, blobs })
    }

    /// Where the bytes of a blob of an entry lie.
    pub fn blob(&self, attempt: AttemptKey, blob: Digest) -> PathBuf {
        self.place(attempt).join("blobs").join(blob.to_string())
    }

    /// Drops an entry that was acknowledged.
    pub fn remove(&self, attempt: AttemptKey) -> Result<(), OutboxError> {
        let old = self.folder.join(format!(".old-{}", name(attempt)));
        std::fs::rename(self.place(attempt), &old)?;
        state::sync_folder(&self.folder)?;
        Ok(std::fs::remove_dir_all(&old)?)
    }

    /// Moves a damaged entry out of the way and keeps it for people.
    pub fn set_aside(&self, attempt: AttemptKey) -> Result<(), OutboxError> {
        let aside = self.folder.join(format!(".damaged-{}", name(attempt)));
        if aside.exists() {
            std::fs::remove_dir_all(&aside)?;
        }
        std::fs::rename(self.place(attempt), aside)?;
        Ok(state::sync_folder(&self.folder)?)
    }

    fn device(&self, attempt: AttemptKey) -> Result<DeviceId, OutboxError> {
        let damaged = |cause| OutboxError::Damaged(attempt, cause);
        let bytes = state::read_bounded(&self.place(attempt).join("device"), DEVICE_MAX)?
            .ok_or_else(|| damaged("no device"))?;
        String::from_utf8(bytes).map(DeviceId).map_err(|_| damaged("the device is not text"))
    }

    fn place(&self, attempt: AttemptKey) -> PathBuf {
        self.folder.join(name(attempt))
    }
}

fn name(attempt: AttemptKey) -> String {
    format!("{}-{}", attempt.cell, attempt.fence.0)
}

fn parse_name(text: &str) -> Option<AttemptKey> {
    let (cell, fence) = text.split_once('-')?;
    let attempt = AttemptKey { cell: cell.parse::<CellId>().ok()?, fence: Fence(fence.parse().ok()?) };
    (name(attempt) == text).then_some(attempt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(fence: u64) -> AttemptKey {
        AttemptKey { cell: CellId([0xab; 32]), fence: Fence(fence) }
    }

    fn put(outbox: &Outbox, fence: u64) -> Vec<(BlobRef, Vec<u8>)> {
        let blobs: Vec<_> =
            [b"log".to_vec(), b"samples".to_vec()].into_iter().map(|b| (BlobRef::of(&b), b)).collect();
        outbox.put(attempt(fence), &DeviceId("CPU-1".to_owned()), b"envelope", &blobs).unwrap();
        blobs
    }

    #[test]
    fn what_was_signed_is_found_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let (outbox, waiting) = Outbox::open(folder.path()).unwrap();
        assert_eq!(waiting, []);
        let blobs = put(&outbox, 3);
        let (outbox, waiting) = Outbox::open(folder.path()).unwrap();
        assert_eq!(waiting, [(attempt(3), "CPU-1".to_owned())]);
        let report = outbox.report(attempt(3)).unwrap();
        assert_eq!((report.fence, report.envelope.as_slice()), (3, &b"envelope"[..]));
        assert_eq!(report.blobs.len(), 2);
        for (blob, bytes) in blobs {
            assert!(report.blobs.contains(&ReportBlob { blob: blob.into() }));
            assert_eq!(std::fs::read(outbox.blob(attempt(3), blob.blake3)).unwrap(), bytes);
        }
        outbox.remove(attempt(3)).unwrap();
        assert_eq!(Outbox::open(folder.path()).unwrap().1, []);
    }

    #[test]
    fn what_was_signed_first_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (outbox, _) = Outbox::open(folder.path()).unwrap();
        put(&outbox, 3);
        outbox.put(attempt(3), &DeviceId("CPU-1".to_owned()), b"another", &[]).unwrap();
        assert_eq!(outbox.report(attempt(3)).unwrap().envelope, b"envelope");
    }

    #[test]
    fn half_written_and_half_removed_entries_vanish() {
        let folder = tempfile::tempdir().unwrap();
        let (outbox, _) = Outbox::open(folder.path()).unwrap();
        put(&outbox, 3);
        for half in [".new-x", ".old-x"] {
            std::fs::create_dir_all(folder.path().join(half).join("blobs")).unwrap();
        }
        let (_, waiting) = Outbox::open(folder.path()).unwrap();
        assert_eq!(waiting.len(), 1);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn damaged_entries_are_noticed_and_kept_aside() {
        let folder = tempfile::tempdir().unwrap();
        let (outbox, _) = Outbox::open(folder.path()).unwrap();
        let blobs = put(&outbox, 3);
        std::fs::write(outbox.blob(attempt(3), blobs[0].0.blake3), "flipped").unwrap();
        assert!(matches!(outbox.report(attempt(3)), Err(OutboxError::Damaged(..))));
        put(&outbox, 4);
        std::fs::remove_file(outbox.place(attempt(4)).join("device")).unwrap();
        let (_, waiting) = Outbox::open(folder.path()).unwrap();
        assert_eq!(waiting.len(), 1, "the one without a device is aside");
        assert!(folder.path().join(format!(".damaged-{}", name(attempt(4)))).exists());
    }

    #[test]
    fn names_are_read_strictly() {
        assert_eq!(parse_name(&name(attempt(7))), Some(attempt(7)));
        for bad in ["", "x-1", &format!("{}-07", CellId([1; 32])), &format!("{}", CellId([1; 32]))] {
            assert_eq!(parse_name(bad), None, "{bad}");
        }
    }
}
