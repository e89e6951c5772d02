//! Inclusion proofs as files (c2sp.org/tlog-proof): the path from one entry to a signed checkpoint, checked offline.
//!
//! The `extra` line of ours holds the entry itself, so that one file is enough. Nothing trusts it: its leaf hash must
//! lead to the signed root.

use super::checkpoint::{Checkpoint, CheckpointError};
use super::note::{NOTE_BYTES_MAX, VerifierKey, decode_base64};
use super::proof::{self, ProofError};
use super::tree::leaf_hash;
use data_encoding::BASE64;
use fleet_config::domain::Sha256;
use std::fmt;

/// First line of every proof file.
pub const PROOF_HEADER: &str = "c2sp.org/tlog-proof@v1";
/// Hashes of the longest path: a tree of 2^63 leaves has no more levels.
const HASHES_MAX: usize = 63;
/// Bytes that `extra` may decode to: the longest entry that a bundle can hold.
const EXTRA_BYTES_MAX: usize = 0xffff;
/// Largest proof file that is read: the longest note, the longest path, and an entry in base64, with room for the rest.
pub const PROOF_BYTES_MAX: u64 = NOTE_BYTES_MAX + 96 * 1024;

/// Why a proof file proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofFileError {
    #[error("a proof is UTF-8 text of at most {PROOF_BYTES_MAX} bytes")]
    Text,
    #[error("the first line is not `{PROOF_HEADER}`")]
    Header,
    #[error("line {line} is not `extra` with base64 of at most {EXTRA_BYTES_MAX} bytes")]
    Extra { line: usize },
    #[error("line {line} is not `index` with a decimal number")]
    Index { line: usize },
    #[error("line {line} is not the base64 of one SHA-256 hash")]
    Hash { line: usize },
    #[error("more than {HASHES_MAX} hashes")]
    Length,
    #[error("no empty line and no checkpoint follow the hashes")]
    NoCheckpoint,
    #[error("the proof carries no entry; give the one that it is about")]
    NoEntry,
    #[error("checkpoint: {0}")]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Proof(#[from] ProofError),
}

/// A proof file as read. Says nothing before [`Self::verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofFile {
    /// Opaque and not authenticated; ours holds the bytes of the entry.
    pub extra: Option<Vec<u8>>,
    /// Leaf of the entry, from 0.
    pub index: u64,
    /// From the sibling of the leaf up to the child of the root.
    pub path: Vec<Sha256>,
    /// The signed note, as it stood.
    pub checkpoint: String,
}

/// What a proof shows once it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    pub checkpoint: Checkpoint,
    pub index: u64,
    pub leaf: Sha256,
}

impl ProofFile {
    /// Reads a proof file.
    pub fn parse(bytes: &[u8]) -> Result<Self, ProofFileError> {
        if bytes.len() as u64 > PROOF_BYTES_MAX {
            return Err(ProofFileError::Text);
        }
        let text = str::from_utf8(bytes).map_err(|_| ProofFileError::Text)?;
        // The checkpoint has empty lines of its own: the first one of the file ends the path.
        let (head, checkpoint) = text.split_once("\n\n").ok_or(ProofFileError::NoCheckpoint)?;
        let mut lines = head.split('\n').zip(1..).peekable();
        if lines.next().map(|(line, _)| line) != Some(PROOF_HEADER) {
            return Err(ProofFileError::Header);
        }
        let extra = match lines.next_if(|(line, _)| line.starts_with("extra ")) {
            Some((line, number)) => Some(extra(line).ok_or(ProofFileError::Extra { line: number })?),
            None => None,
        };
        let (line, number) = lines.next().unwrap_or(("", 2));
        let index = index(line).ok_or(ProofFileError::Index { line: number })?;
        let mut path = Vec::new();
        for (line, number) in lines {
            if path.len() == HASHES_MAX {
                return Err(ProofFileError::Length);
            }
            path.push(hash(line).ok_or(ProofFileError::Hash { line: number })?);
        }
        if checkpoint.is_empty() {
            return Err(ProofFileError::NoCheckpoint);
        }
        Ok(Self { extra, index, path, checkpoint: checkpoint.to_owned() })
    }

    /// Whether `entry` (else the one in `extra`) stands at this index under a checkpoint that `verifier` signed.
    pub fn verify(&self, entry: Option<&[u8]>, verifier: &VerifierKey) -> Result<Proven, ProofFileError> {
        let checkpoint = Checkpoint::open(self.checkpoint.as_bytes(), verifier)?;
        let entry = entry.or(self.extra.as_deref()).ok_or(ProofFileError::NoEntry)?;
        let leaf = leaf_hash(entry);
        proof::check_inclusion(leaf, self.index, checkpoint.size, &self.path, checkpoint.root)?;
        Ok(Proven { checkpoint, index: self.index, leaf })
    }
}

impl fmt::Display for ProofFile {
    /// The file's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{PROOF_HEADER}")?;
        if let Some(extra) = &self.extra {
            writeln!(f, "extra {}", BASE64.encode(extra))?;
        }
        writeln!(f, "index {}", self.index)?;
        for hash in &self.path {
            writeln!(f, "{}", BASE64.encode(hash.as_bytes()))?;
        }
        write!(f, "\n{}", self.checkpoint)
    }
}

fn extra(line: &str) -> Option<Vec<u8>> {
    decode_base64(line.strip_prefix("extra ")?).filter(|bytes| bytes.len() <= EXTRA_BYTES_MAX)
}

/// An index has one spelling: no sign, no leading zero.
fn index(line: &str) -> Option<u64> {
    let digits = line.strip_prefix("index ")?;
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

fn hash(line: &str) -> Option<Sha256> {
    Some(Sha256(decode_base64(line)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogReader;
    use crate::log::tests::{entries, ledger, signer};
    use fleet_config::domain::LeafIndex;
    use proptest::prelude::*;

    /// The proof of entry `index` in a log of `size` entries.
    fn made(index: u64, size: u64) -> ProofFile {
        let (_directory, folder) = ledger(&[size]);
        LogReader::open(&folder, signer().verifier()).unwrap().prove(LeafIndex(index)).unwrap()
    }

    fn vector(name: &str) -> String {
        let path = format!("{}/../tests/vectors/proofs/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    #[test]
    fn the_file_is_the_golden_one() {
        let proof = made(5, 7);
        assert_eq!(proof.to_string(), vector("inclusion-5-of-7.tlog-proof"));
        assert_eq!(signer().verifier().to_string(), vector("log.vkey").trim_end());
        let proven = proof.verify(None, signer().verifier()).unwrap();
        assert_eq!((proven.index, proven.checkpoint.size), (5, 7));
        assert_eq!(proven.leaf, leaf_hash(&entries(5..6)[0]));
    }

    #[test]
    fn every_entry_of_logs_around_the_width_of_a_tile_is_proven_and_no_other_entry_is() {
        for size in [1, 2, 3, 255, 256, 257, 513] {
            let (_directory, folder) = ledger(&[size]);
            let reader = LogReader::open(&folder, signer().verifier()).unwrap();
            let all = entries(0..size);
            for index in 0..size {
                let text = reader.prove(LeafIndex(index)).unwrap().to_string();
                let proof = ProofFile::parse(text.as_bytes()).unwrap();
                assert_eq!(proof.to_string(), text);
                assert!(proof.verify(None, signer().verifier()).is_ok(), "{index} of {size}");
                let own = &all[index as usize];
                assert!(proof.verify(Some(own), signer().verifier()).is_ok(), "{index} of {size}");
                let other = entries(size..size + 1).remove(0);
                assert!(proof.verify(Some(&other), signer().verifier()).is_err(), "{index} of {size}");
            }
        }
    }

    #[test]
    fn a_proof_without_its_entry_asks_for_it() {
        let proof = ProofFile { extra: None, ..made(2, 3) };
        let read = ProofFile::parse(proof.to_string().as_bytes()).unwrap();
        assert_eq!(read.verify(None, signer().verifier()), Err(ProofFileError::NoEntry));
        assert!(read.verify(Some(&entries(2..3)[0]), signer().verifier()).is_ok());
    }

    #[test]
    fn other_shapes_are_refused_with_their_line() {
        let good = made(5, 7).to_string();
        let check = |from: &str, to: &str, expected: ProofFileError| {
            assert!(good.contains(from), "{from}");
            let text = good.replacen(from, to, 1);
            assert_eq!(ProofFile::parse(text.as_bytes()), Err(expected), "{text}");
        };
        check("@v1", "@v2", ProofFileError::Header);
        check("extra ey", "extra *ey", ProofFileError::Extra { line: 2 });
        check("index 5", "index 05", ProofFileError::Index { line: 3 });
        check("index 5", "index +5", ProofFileError::Index { line: 3 });
        check("index 5", "number 5", ProofFileError::Index { line: 3 });
        check("index 5\n", "index 5\nAAAA\n", ProofFileError::Hash { line: 4 });
        let hash = BASE64.encode(&[0; 32]);
        check("index 5\n", &format!("index 5\n{}", format!("{hash}\n").repeat(64)), ProofFileError::Length);
        assert_eq!(ProofFile::parse(b"c2sp.org/tlog-proof@v1\nindex 0\n"), Err(ProofFileError::NoCheckpoint));
        assert_eq!(
            ProofFile::parse(b"c2sp.org/tlog-proof@v1\nindex 0\n\n"),
            Err(ProofFileError::NoCheckpoint)
        );
        assert_eq!(ProofFile::parse(b"\xff"), Err(ProofFileError::Text));
        assert_eq!(ProofFile::parse(&vec![b'a'; PROOF_BYTES_MAX as usize + 1]), Err(ProofFileError::Text));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Only the log signed this file, so there is no byte that it does not depend on.
        #[test]
        fn any_changed_byte_fails(
            size in 1_u64..600, at in any::<u64>(), place in any::<prop::sample::Index>(), bit in 0..8_u8
        ) {
            let text = made(at % size, size).to_string();
            let mut bytes = text.into_bytes();
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
            let read = ProofFile::parse(&bytes);
            let holds = read.is_ok_and(|proof| proof.verify(None, signer().verifier()).is_ok());
            prop_assert!(!holds, "bit {bit} of byte {place}: {}", String::from_utf8_lossy(&bytes));
        }
    }
}
