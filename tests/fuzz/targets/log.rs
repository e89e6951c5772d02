//! The log's files as bytes: WAL frames, notes and checkpoints, tiles, bundles, proofs and their files.

use super::repository::{files, tagged};
use super::{Cursor, Target};
use ed25519_dalek::SigningKey;
use fleet_config::domain::Sha256;
use ledger::log::frame::{FILE_HEADER_BYTES, Scan, Tail, encode_batch, file_header, scan};
use ledger::log::note::Note;
use ledger::log::tile::{Edge, TileCoordinate};
use ledger::log::tree::{leaf_hash, root_of};
use ledger::log::{Checkpoint, LogSigner, ProofFile, VerifierKey, bundle, proof, tile};
use std::convert::Infallible;
use std::sync::OnceLock;

pub(crate) const WAL: Target = Target::new("wal", wal, wal_seeds);
pub(crate) const NOTE: Target = Target::new("note", note, note_seeds).length(2048);
pub(crate) const PROOF: Target = Target::new("proof", proof_file, proof_seeds).length(4096);
pub(crate) const TILE: Target = Target::new("tile", tile_files, tile_seeds);

const ORIGIN: &str = "muster.invalid/0123456789abcdef";

fn signer() -> &'static LogSigner {
    static SIGNER: OnceLock<LogSigner> = OnceLock::new();
    SIGNER.get_or_init(|| {
        LogSigner::new(ORIGIN, SigningKey::from_bytes(&[8; 32])).expect("the origin is a name")
    })
}

/// The input is either a whole file, or the batches of a sound one followed by damage: then what was sound before the
/// damage is still read, or the file is refused, and nothing that was never written is read.
fn wal(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    if cursor.byte().is_multiple_of(2) {
        let body = cursor.rest();
        if let Ok(found) = scan(body) {
            sound(body, &found);
        }
        let with_header = [&file_header()[..], body].concat();
        if let Ok(found) = scan(&with_header) {
            sound(&with_header, &found);
        }
        return;
    }
    let first = cursor.long() >> 1;
    let mut file = file_header().to_vec();
    let (mut next, mut written) = (first, Vec::new());
    for _ in 0..cursor.byte() % 4 {
        let batch: Vec<Vec<u8>> = (0..1 + cursor.byte() % 3)
            .map(|_| {
                let length = usize::from(cursor.byte());
                cursor.bytes(length).to_vec()
            })
            .collect();
        file.extend(encode_batch(next, &batch));
        next += batch.len() as u64;
        written.extend(batch);
    }
    let whole = scan(&file).expect("what was written is sound");
    assert_eq!((whole.frames.len(), whole.tail), (written.len(), Tail::Whole));
    let length = file.len();
    match cursor.byte() % 4 {
        0 => {
            file.truncate(FILE_HEADER_BYTES + usize::from(cursor.short()) % (length - FILE_HEADER_BYTES + 1))
        }
        1 => {
            let at = usize::from(cursor.short()) % length;
            let count = (usize::from(cursor.byte()) * 4).min(length - at);
            file[at..at + count].fill(0);
        }
        2 => file.extend(cursor.bytes(512)),
        _ => {
            while !cursor.is_empty() {
                let at = usize::from(cursor.short()) % length;
                file[at] ^= cursor.byte();
            }
        }
    }
    let Ok(found) = scan(&file) else { return };
    sound(&file, &found);
    for (frame, entry) in found.frames.iter().zip(&written) {
        assert_eq!(&file[frame.entry.clone()], entry.as_slice(), "an entry that was never written is read");
    }
}

/// Frames lie in order, within the file, without a gap in their sequences.
fn sound(file: &[u8], found: &Scan) {
    for pair in found.frames.windows(2) {
        assert!(pair[0].sequence + 1 == pair[1].sequence && pair[0].entry.end as u64 <= pair[1].offset);
    }
    assert!(found.frames.iter().all(|frame| frame.entry.end <= file.len()));
}

fn wal_seeds() -> Vec<Vec<u8>> {
    let entries = files("tests/vectors/entries", ".json");
    let file =
        [&file_header()[..], &encode_batch(3, &entries[..2]), &encode_batch(5, &entries[2..3])].concat();
    let built: Vec<u8> =
        [&[1, 9, 0, 0, 0, 0, 0, 0, 0, 3][..], &[0, 5], &[7; 5], &[1, 3], &[8; 3], &[2], &[9; 2]].concat();
    let damage = [&[0, 60, 0][..], &[1, 40, 0, 9], &[2, 1, 2, 3], &[3, 30, 0, 255, 90, 0, 1]];
    let mut seeds = vec![tagged(0, &file), tagged(0, &file[FILE_HEADER_BYTES..])];
    seeds.extend(damage.iter().map(|damage| [built.as_slice(), damage].concat()));
    seeds
}

fn note(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 3 {
        0 => {
            let Ok(parsed) = Note::parse(bytes) else { return };
            parsed.unverified_text();
            if let Ok(text) = parsed.verify(signer().verifier()) {
                let checkpoint = Checkpoint::parse_text(text);
                assert_eq!(checkpoint.is_ok(), Checkpoint::open(bytes, signer().verifier()).is_ok());
            }
        }
        1 => {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            let Ok(checkpoint) = Checkpoint::parse_text(text) else { return };
            // Extension lines are left out when a checkpoint is written again.
            assert!(text.starts_with(&checkpoint.text()), "{text:?}");
            let opened = Checkpoint::open(checkpoint.sign(signer()).as_bytes(), signer().verifier());
            if checkpoint.origin == ORIGIN {
                assert_eq!(opened.as_ref(), Ok(&checkpoint));
            } else {
                assert!(opened.is_err(), "a checkpoint of another log is believed");
            }
        }
        _ => {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            let Ok(key) = text.parse::<VerifierKey>() else { return };
            assert_eq!(key.to_string().parse::<VerifierKey>().as_ref(), Ok(&key));
        }
    }
}

fn note_seeds() -> Vec<Vec<u8>> {
    let checkpoint = Checkpoint { origin: ORIGIN.to_owned(), size: 300, root: Sha256([4; 32]) };
    vec![
        tagged(0, checkpoint.sign(signer()).as_bytes()),
        tagged(1, checkpoint.text().as_bytes()),
        tagged(2, signer().verifier().to_string().as_bytes()),
    ]
}

/// Entries of the one log whose checkpoint is signed here.
fn logged() -> Vec<Vec<u8>> {
    (0..7_u8).map(|entry| vec![entry; 3 + usize::from(entry)]).collect()
}

fn proof_seed(index: u64, with_entry: bool) -> Vec<u8> {
    let entries = logged();
    let leaves: Vec<Sha256> = entries.iter().map(|entry| leaf_hash(entry)).collect();
    let source = |subtree: proof::Subtree| -> Result<Sha256, Infallible> {
        let start = (subtree.index << subtree.level) as usize;
        Ok(root_of(&leaves[start..start + (1 << subtree.level)]))
    };
    let size = leaves.len() as u64;
    let path = proof::inclusion(index, size, source).expect("the leaf is in the tree");
    let checkpoint = Checkpoint { origin: ORIGIN.to_owned(), size, root: root_of(&leaves) };
    let extra = with_entry.then(|| entries[index as usize].clone());
    ProofFile { extra, index, path, checkpoint: checkpoint.sign(signer()) }.to_string().into_bytes()
}

/// A file that is read is written back as it was, and what holds is an entry of the log, at its place.
fn proof_file(data: &[u8]) {
    let Ok(read) = ProofFile::parse(data) else { return };
    assert_eq!(read.to_string().as_bytes(), data);
    let entries = logged();
    if let Ok(proven) = read.verify(None, signer().verifier()) {
        assert_eq!(read.extra.as_ref(), entries.get(proven.index as usize));
    }
    for (index, entry) in entries.iter().enumerate() {
        if let Ok(proven) = read.verify(Some(entry), signer().verifier()) {
            assert_eq!(proven.index, index as u64);
        }
    }
}

fn proof_seeds() -> Vec<Vec<u8>> {
    vec![proof_seed(0, true), proof_seed(3, false), proof_seed(6, true)]
}

fn tile_files(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    match cursor.byte() % 5 {
        0 => {
            let Ok(text) = std::str::from_utf8(cursor.rest()) else { return };
            if let Some(coordinate) = TileCoordinate::parse(text) {
                assert_eq!(coordinate.to_string(), text);
            }
        }
        1 => {
            let count = 1 + usize::from(cursor.byte());
            let bytes = cursor.rest();
            if let Ok(places) = bundle::decode(bytes, count) {
                let mut again = Vec::new();
                places.iter().for_each(|place| bundle::push(&mut again, &bytes[place.clone()]));
                assert_eq!(again, bytes);
            }
        }
        2 => {
            let bytes = cursor.rest();
            if let Some(hashes) = tile::decode(bytes) {
                assert_eq!(tile::encode(&hashes), bytes);
            }
        }
        3 => {
            let size = cursor.long() >> (cursor.byte() % 64);
            let mut levels = Vec::new();
            for level in tile::levels(size) {
                let width = (tile::level_size(level, size) % 256) as usize;
                levels.push(vec![Sha256([cursor.byte(); 32]); width]);
            }
            let mut edge = Edge::from_partials(size, levels).expect("the widths are those of the size");
            let root = edge.root();
            assert_eq!(edge.frontier().root(), root);
            if size < u64::MAX {
                edge.push(leaf_hash(b"x"), |full| assert!(full.coordinate.is_full()));
                assert_eq!(edge.size(), size + 1);
            }
        }
        _ => proofs(cursor),
    }
}

/// Made proofs hold for what they were made for and for no other root; made-up ones fail without a panic.
fn proofs(mut cursor: Cursor<'_>) {
    let leaves: Vec<Sha256> = (0..1 + cursor.byte() % 40).map(|leaf| leaf_hash(&[leaf])).collect();
    let size = leaves.len() as u64;
    let old = u64::from(cursor.byte()) % (size + 1);
    let index = u64::from(cursor.byte()) % size;
    let source = |subtree: proof::Subtree| -> Result<Sha256, Infallible> {
        let start = (subtree.index << subtree.level) as usize;
        Ok(root_of(&leaves[start..start + (1 << subtree.level)]))
    };
    let (new_root, old_root) = (root_of(&leaves), root_of(&leaves[..old as usize]));
    let path = proof::inclusion(index, size, source).expect("the leaf is in the tree");
    let leaf = leaves[index as usize];
    assert_eq!(proof::check_inclusion(leaf, index, size, &path, new_root), Ok(()));
    let path = proof::consistency(old, size, source).expect("the tree has grown");
    assert_eq!(proof::check_consistency(old, old_root, size, new_root, &path), Ok(()));
    let made_up: Vec<Sha256> = (0..cursor.byte() % 70).map(|_| Sha256([cursor.byte(); 32])).collect();
    let (small, large) = (cursor.long(), cursor.long());
    assert!(proof::check_inclusion(leaf, small, large, &made_up, Sha256([1; 32])).is_err());
    let _ = proof::check_consistency(small, old_root, large, new_root, &made_up);
}

fn tile_seeds() -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    for entry in files("tests/vectors/entries", ".json") {
        bundle::push(&mut bytes, &entry);
    }
    vec![
        tagged(0, b"tile/0/x001/x234/067.p/12"),
        tagged(0, b"tile/entries/000"),
        tagged(1, &[&[7], bytes.as_slice()].concat()),
        tagged(2, &[5; 64]),
        tagged(3, &[1, 2, 3, 0, 0, 0, 0, 0, 8, 9]),
        tagged(4, &[30, 12, 3, 1, 2, 3, 9, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0, 0, 0, 0, 0]),
    ]
}
