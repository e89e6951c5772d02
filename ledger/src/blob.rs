//! Blobs: content beside the ledger, addressed by blake3, written once.
