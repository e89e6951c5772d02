//! What a node checks of the log that its coordinator keeps: promises about its own results, and checkpoints.
//!
//! A node believes neither because it came over the right connection. A promise that is kept must prove something later, and
//! a log must never show one node two histories. Signatures are by the log key, which is pinned at the first welcome.

use fleet_config::domain::RecordId;
use fleet_config::wire::v1::{RecordVerdict, Recorded};
use ledger::entry::Entry;
use ledger::log::{Checkpoint, VerifierKey};

/// Context of the signature, see "The promise" in docs/PROTOCOL.md.
const PROMISE_CONTEXT: &str = "muster-promise/1";

/// The pinned log: origin of its ledger and its verifier key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log<'a> {
    pub origin: &'a str,
    pub vkey: &'a str,
}

/// What the coordinator said does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum WitnessError {
    #[error("the pinned log key is no verifier key: {0}")]
    Key(String),
    #[error("the promise is not the log key's signature over this record and index")]
    Promise,
    #[error("the promise is about record {promised}, and this node reported {reported}")]
    OtherRecord { promised: RecordId, reported: RecordId },
    #[error("the checkpoint is not the log's: {0}")]
    Checkpoint(String),
    #[error(
        "the log shows two histories: at {size} entries it had root {before} and now has root {now}; keep both notes and tell its operator"
    )]
    Forked { size: u64, before: String, now: String },
    #[error("the log went back from {before} entries to {now}")]
    Shrunk { before: u64, now: u64 },
}

impl Log<'_> {
    fn verifier(&self) -> Result<VerifierKey, WitnessError> {
        self.vkey.parse().map_err(|error: ledger::log::KeyError| WitnessError::Key(error.to_string()))
    }

    /// Whether an acknowledgement may settle the report of `envelope`.
    pub(super) fn check(&self, recorded: &Recorded, envelope: &[u8]) -> Result<(), WitnessError> {
        let RecordVerdict::Accepted { index, promise } = &recorded.verdict else { return Ok(()) };
        if let Ok(entry) = Entry::read(envelope)
            && entry.record.0 != recorded.record
        {
            return Err(WitnessError::OtherRecord {
                promised: RecordId(recorded.record),
                reported: entry.record,
            });
        }
        let signature = promise.as_slice().try_into().map_err(|_| WitnessError::Promise)?;
        let bytes = [self.origin.as_bytes(), b"\n", &recorded.record, &index.to_be_bytes()].concat();
        let verifier = self.verifier()?;
        verifier.verify_bytes(PROMISE_CONTEXT, &bytes, signature).map_err(|_| WitnessError::Promise)
    }

    /// Whether `note` may take the place of `seen`, the newest note so far or nothing: signed, and not of a log that went
    /// back or has another root at the same size. That the larger tree holds the smaller one takes a proof, which
    /// nobody sends yet.
    pub(super) fn follows(&self, seen: &str, note: &str) -> Result<(), WitnessError> {
        let verifier = self.verifier()?;
        let opened = Checkpoint::open(note.as_bytes(), &verifier);
        let now = opened.map_err(|error| WitnessError::Checkpoint(error.to_string()))?;
        if seen.is_empty() {
            return Ok(());
        }
        // What is kept was checked before it was kept; if the disk has damaged it, it says nothing.
        let Ok(before) = Checkpoint::open(seen.as_bytes(), &verifier) else { return Ok(()) };
        if now.size < before.size {
            return Err(WitnessError::Shrunk { before: before.size, now: now.size });
        }
        if now.size == before.size && now.root != before.root {
            let (size, before, now) = (now.size, before.root.to_string(), now.root.to_string());
            return Err(WitnessError::Forked { size, before, now });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::SigningKey;
    use fleet_config::domain::Sha256;
    use ledger::log::LogSigner;

    const ORIGIN: &str = "muster.invalid/0011223344556677";

    fn signer(seed: u8) -> LogSigner {
        LogSigner::new(ORIGIN, SigningKey::from_bytes(&[seed; 32])).unwrap()
    }

    fn accepted(signer: &LogSigner, origin: &str, record: u8, index: u64) -> Recorded {
        let record = [record; 32];
        let bytes = [origin.as_bytes(), b"\n", &record, &index.to_be_bytes()].concat();
        let promise = signer.sign_bytes(PROMISE_CONTEXT, &bytes).to_vec();
        Recorded { record, verdict: RecordVerdict::Accepted { index, promise } }
    }

    #[test]
    fn a_promise_settles_only_what_the_log_key_signed() {
        let vkey = signer(1).verifier().to_string();
        let log = Log { origin: ORIGIN, vkey: &vkey };
        let good = accepted(&signer(1), ORIGIN, 5, 9);
        assert_eq!(log.check(&good, b""), Ok(()));
        let wrong = Err(WitnessError::Promise);
        assert_eq!(log.check(&accepted(&signer(2), ORIGIN, 5, 9), b""), wrong);
        assert_eq!(log.check(&accepted(&signer(1), "other", 5, 9), b""), wrong);
        assert_eq!(log.check(&Recorded { record: [6; 32], ..good.clone() }, b""), wrong);
        let RecordVerdict::Accepted { promise, .. } = good.verdict.clone() else { panic!() };
        for (index, promise) in [(10, promise.clone()), (9, promise[..63].to_vec()), (9, Vec::new())] {
            let verdict = RecordVerdict::Accepted { index, promise };
            assert_eq!(log.check(&Recorded { verdict, ..good.clone() }, b""), wrong);
        }
        assert!(matches!(Log { vkey: "v", ..log }.check(&good, b""), Err(WitnessError::Key(_))));
        let refused = RecordVerdict::Refused { index: 1, reason: "stale_fence".to_owned() };
        assert_eq!(log.check(&Recorded { record: [5; 32], verdict: refused }, b""), Ok(()));
    }

    #[test]
    fn a_checkpoint_is_kept_if_it_is_signed_and_the_log_did_not_go_back_or_fork() {
        let vkey = signer(1).verifier().to_string();
        let log = Log { origin: ORIGIN, vkey: &vkey };
        let note = |seed: u8, size: u64, root: u8| {
            Checkpoint { origin: ORIGIN.to_owned(), size, root: Sha256([root; 32]) }.sign(&signer(seed))
        };
        let seen = note(1, 7, 3);
        assert_eq!(log.follows("", &seen), Ok(()));
        assert_eq!(log.follows(&seen, &seen), Ok(()));
        assert_eq!(log.follows(&seen, &note(1, 8, 4)), Ok(()));
        assert!(matches!(log.follows(&seen, &note(1, 7, 4)), Err(WitnessError::Forked { size: 7, .. })));
        assert_eq!(log.follows(&seen, &note(1, 6, 3)), Err(WitnessError::Shrunk { before: 7, now: 6 }));
        assert!(matches!(log.follows(&seen, &note(2, 8, 4)), Err(WitnessError::Checkpoint(_))));
        assert!(matches!(log.follows("", "junk"), Err(WitnessError::Checkpoint(_))));
        assert_eq!(log.follows("damaged on disk", &note(1, 8, 4)), Ok(()));
    }
}
