//! The ledger's blob store as the transport sees it.

use crate::transport::{BlobSink, BlobSource, BlobWriter};
use fleet_config::domain::{BlobRef, Digest};
use ledger::blob::{BlobStore, BlobUpload};
use std::io::Read;
use std::sync::Arc;

/// Serves blobs to nodes and keeps those of their reports.
#[derive(Debug, Clone)]
pub struct LedgerBlobs(pub Arc<BlobStore>);

impl BlobSource for LedgerBlobs {
    fn open(&self, blob: &BlobRef) -> std::io::Result<Option<Box<dyn Read + Send>>> {
        match std::fs::File::open(self.0.path(&blob.blake3)) {
            Ok(file) => Ok(Some(Box::new(file.take(blob.size)))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl BlobSink for LedgerBlobs {
    fn contains(&self, blob: &BlobRef) -> std::io::Result<bool> {
        Ok(self.0.contains(&blob.blake3))
    }

    fn begin(&self, blob: &BlobRef) -> std::io::Result<Box<dyn BlobWriter>> {
        let upload = self.0.receive(blob, REPORT_BLOB_MAX).map_err(std::io::Error::other)?;
        Ok(Box::new(Incoming { store: Arc::clone(&self.0), upload }))
    }
}

/// Largest blob of a report: far above samples and logs, far below what would hurt the coordinator.
pub const REPORT_BLOB_MAX: u64 = 64 << 20;

/// One blob of a report on its way into the store.
struct Incoming {
    store: Arc<BlobStore>,
    upload: BlobUpload,
}

impl BlobWriter for Incoming {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.upload.write(bytes).map_err(std::io::Error::other)
    }

    fn commit(self: Box<Self>) -> std::io::Result<()> {
        self.store.finish(self.upload).map_err(std::io::Error::other)
    }
}

/// The full reference of a small document that is known by its blake3 alone.
pub fn reference(store: &BlobStore, blake3: &Digest) -> Option<BlobRef> {
    let bytes = store.read_unchecked(blake3, DOCUMENT_MAX).ok().flatten()?;
    Some(BlobRef::of(&bytes)).filter(|blob| blob.blake3 == *blake3)
}

/// Largest canonical document.
const DOCUMENT_MAX: u64 = 1 << 20;
