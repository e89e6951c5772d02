//! WAL frames: their bytes, and how a torn tail is told from damage.
//!
//! File: `muster-w` ‖ version (u32) ‖ CRC-32C of these twelve bytes; then frames. Frame: `\xf7WAL` ‖ sequence (u64,
//! the leaf index) ‖ batch (u64, the sequence of the first frame that was synced together with this one) ‖ length
//! (u32) ‖ CRC-32C of the entry (u32) ‖ CRC-32C of the 28 bytes before (u32) ‖ entry. Integers are big-endian.
//!
//! A batch is synced before anything is written behind it, so only the last batch can be incomplete after a crash.
//! What a crash leaves is a file that ends too early, or sectors that were never written and read as zeros. Anything
//! else is damage to entries that may have been acknowledged; cutting it off would lose them without a word.

use super::bundle::ENTRY_BYTES_MAX;
use std::fmt;
use std::ops::Range;

const MAGIC: &[u8; 8] = b"muster-w";
const VERSION: u32 = 1;
/// Bytes before the first frame.
pub const FILE_HEADER_BYTES: usize = 16;
const FRAME_MARK: &[u8; 4] = b"\xf7WAL";
/// Bytes of a frame before its entry.
pub const FRAME_HEADER_BYTES: usize = 32;
/// Disks write at least this much at once; a sector is either old or new.
const SECTOR_BYTES: usize = 512;

/// One entry in the WAL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Leaf index of the entry.
    pub sequence: u64,
    /// Byte of the file at which the frame starts.
    pub offset: u64,
    /// Where in the file the entry is.
    pub entry: Range<usize>,
}

/// How the file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// With a whole frame.
    Whole,
    /// With a write that a crash cut short; nothing of it was acknowledged.
    Torn(TornTail),
}

/// The part of the file behind its last whole frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TornTail {
    pub offset: u64,
    pub bytes: u64,
}

/// What a scan found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    pub frames: Vec<Frame>,
    pub tail: Tail,
}

/// What is wrong with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The file ends inside the frame's header.
    HeaderCut,
    /// The file ends inside the entry.
    EntryCut,
    /// The header does not match its checksum.
    Header,
    /// The entry does not match its checksum.
    Entry,
    /// The frame is sound and not the one that must come next.
    Order,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeaderCut => "the file ends inside a frame's header",
            Self::EntryCut => "the file ends inside an entry",
            Self::Header => "a frame's header does not match its checksum",
            Self::Entry => "an entry does not match its checksum",
            Self::Order => "a frame is out of order",
        })
    }
}

/// Why a WAL is refused as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("the WAL's header is damaged")]
    FileHeader,
    #[error("the WAL has version {found}, this program reads version 1")]
    Version { found: u32 },
    #[error("the WAL is damaged at byte {offset}: {flaw}")]
    Damaged { offset: u64, flaw: Flaw },
}

impl FrameError {
    /// Byte of the file.
    pub fn offset(&self) -> u64 {
        match self {
            Self::FileHeader => 0,
            Self::Version { .. } => MAGIC.len() as u64,
            Self::Damaged { offset, .. } => *offset,
        }
    }
}

/// The bytes before the first frame.
pub fn file_header() -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_be_bytes());
    let checksum = crc32c::crc32c(&header[..12]);
    header[12..].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// The frames of one batch whose first entry is leaf `first`.
pub fn encode_batch(first: u64, entries: &[Vec<u8>]) -> Vec<u8> {
    let bytes_total = entries.iter().map(|entry| FRAME_HEADER_BYTES + entry.len()).sum();
    let mut bytes = Vec::with_capacity(bytes_total);
    for (sequence, entry) in (first..).zip(entries) {
        let start = bytes.len();
        bytes.extend_from_slice(FRAME_MARK);
        bytes.extend_from_slice(&sequence.to_be_bytes());
        bytes.extend_from_slice(&first.to_be_bytes());
        let length = u32::try_from(entry.len()).expect("invariant: entries are at most ENTRY_BYTES_MAX");
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(entry).to_be_bytes());
        let checksum = crc32c::crc32c(&bytes[start..]);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        bytes.extend_from_slice(entry);
    }
    bytes
}

/// Reads a whole WAL file. A torn tail is part of the answer, damage is an error that names the place.
pub fn scan(file: &[u8]) -> Result<Scan, FrameError> {
    check_file_header(file)?;
    let mut frames: Vec<Frame> = Vec::new();
    let mut batch = None;
    let mut at = FILE_HEADER_BYTES;
    while at < file.len() {
        let damaged = |flaw| FrameError::Damaged { offset: at as u64, flaw };
        let expected = frames.last().map(|frame| frame.sequence + 1);
        match read_frame(file, at) {
            Ok((header, entry)) => {
                let follows = expected.is_none_or(|expected| expected == header.sequence);
                // The first frame may belong to a batch whose beginning was trimmed away.
                let in_batch = header.batch == header.sequence
                    || batch == Some(header.batch)
                    || (batch.is_none() && header.batch < header.sequence);
                if !follows || !in_batch || header.sequence == u64::MAX {
                    return Err(damaged(Flaw::Order));
                }
                batch = Some(header.batch);
                frames.push(Frame { sequence: header.sequence, offset: at as u64, entry: entry.clone() });
                at = entry.end;
            }
            Err(flaw) => {
                if !is_torn(file, at, expected, flaw) {
                    return Err(damaged(flaw));
                }
                let tail = TornTail { offset: at as u64, bytes: (file.len() - at) as u64 };
                return Ok(Scan { frames, tail: Tail::Torn(tail) });
            }
        }
    }
    Ok(Scan { frames, tail: Tail::Whole })
}

fn check_file_header(file: &[u8]) -> Result<(), FrameError> {
    let header = file.first_chunk::<FILE_HEADER_BYTES>().ok_or(FrameError::FileHeader)?;
    let checksum = u32_at(header, 12);
    if &header[..8] != MAGIC || checksum != crc32c::crc32c(&header[..12]) {
        return Err(FrameError::FileHeader);
    }
    match u32_at(header, 8) {
        VERSION => Ok(()),
        found => Err(FrameError::Version { found }),
    }
}

struct FrameHeader {
    sequence: u64,
    batch: u64,
    length: usize,
    entry_checksum: u32,
}

fn read_header(file: &[u8], at: usize) -> Result<FrameHeader, Flaw> {
    let header = file.get(at..at + FRAME_HEADER_BYTES).ok_or(Flaw::HeaderCut)?;
    let length = u32_at(header, 20) as usize;
    let sound = &header[..4] == FRAME_MARK && u32_at(header, 28) == crc32c::crc32c(&header[..28]);
    if !sound || length > ENTRY_BYTES_MAX {
        return Err(Flaw::Header);
    }
    let (sequence, batch) = (u64_at(header, 4), u64_at(header, 12));
    Ok(FrameHeader { sequence, batch, length, entry_checksum: u32_at(header, 24) })
}

fn read_frame(file: &[u8], at: usize) -> Result<(FrameHeader, Range<usize>), Flaw> {
    let header = read_header(file, at)?;
    let start = at + FRAME_HEADER_BYTES;
    let place = start..start + header.length;
    let entry = file.get(place.clone()).ok_or(Flaw::EntryCut)?;
    if crc32c::crc32c(entry) != header.entry_checksum {
        return Err(Flaw::Entry);
    }
    Ok((header, place))
}

/// Whether the bad frame at `at` can be the trace of a crash during the write of the last batch.
fn is_torn(file: &[u8], at: usize, expected: Option<u64>, flaw: Flaw) -> bool {
    let search_from = match flaw {
        // The frame reaches behind the end of the file, so nothing can follow it.
        Flaw::HeaderCut | Flaw::EntryCut => return true,
        Flaw::Header => at + 1,
        // The header is sound and says where the next frame starts; an entry's own bytes are not searched.
        Flaw::Entry => at + FRAME_HEADER_BYTES + read_header(file, at).map_or(0, |header| header.length),
        Flaw::Order => return false,
    };
    let mut next = None;
    for place in search_from..file.len().saturating_sub(FRAME_HEADER_BYTES - 1) {
        let Ok((header, _)) = read_frame(file, place) else { continue };
        // A sound frame of a later batch: this one was synced, and perhaps acknowledged, before it.
        if expected.is_none_or(|expected| header.batch > expected) {
            return false;
        }
        next.get_or_insert(place);
    }
    has_unwritten_sector(file, at..next.unwrap_or(file.len()))
}

/// Whether part of the range within one sector is all zeros. A frame's mark is not zero, so a frame that was
/// written never looks like this at its beginning.
fn has_unwritten_sector(file: &[u8], range: Range<usize>) -> bool {
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min((start / SECTOR_BYTES + 1) * SECTOR_BYTES);
        if file[start..end].iter().all(|byte| *byte == 0) {
            return true;
        }
        start = end;
    }
    false
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    (u64::from(u32_at(bytes, at)) << 32) | u64::from(u32_at(bytes, at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Three batches: entries 7, 8 and 9, 10 to 12.
    fn sample() -> Vec<u8> {
        let entry = |index: u8| vec![index; 40 + usize::from(index)];
        let mut file = file_header().to_vec();
        file.extend(encode_batch(7, &[entry(7)]));
        file.extend(encode_batch(8, &[entry(8), entry(9)]));
        file.extend(encode_batch(10, &[entry(10), entry(11), entry(12)]));
        file
    }

    fn sequences(scan: &Scan) -> Vec<u64> {
        scan.frames.iter().map(|frame| frame.sequence).collect()
    }

    #[test]
    fn frames_come_back_in_order() {
        let file = sample();
        let scan = scan(&file).unwrap();
        assert_eq!(sequences(&scan), [7, 8, 9, 10, 11, 12]);
        assert_eq!(scan.tail, Tail::Whole);
        assert!(scan.frames.iter().all(|frame| file[frame.entry.clone()][0] == frame.sequence as u8));
        assert_eq!(scan.frames[0].offset, 16);
    }

    #[test]
    fn a_cut_at_every_byte_of_the_last_frame_is_a_torn_tail() {
        let file = sample();
        let last = scan(&file).unwrap().frames.pop().unwrap();
        for end in last.offset as usize + 1..file.len() {
            let scan = scan(&file[..end]).unwrap();
            assert_eq!(sequences(&scan), [7, 8, 9, 10, 11], "cut at {end}");
            let torn = TornTail { offset: last.offset, bytes: end as u64 - last.offset };
            assert_eq!(scan.tail, Tail::Torn(torn));
        }
    }

    #[test]
    fn every_flipped_bit_is_damage_that_names_its_frame() {
        let file = sample();
        let frames = scan(&file).unwrap().frames;
        for bit in 0..file.len() * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let error = scan(&flipped).unwrap_err();
            let frame = frames.iter().rev().find(|frame| frame.offset <= bit as u64 / 8);
            match frame {
                Some(frame) => assert_eq!(error.offset(), frame.offset, "bit {bit}"),
                None => assert!(error.offset() < 16, "bit {bit}"),
            }
        }
    }

    #[test]
    fn unwritten_sectors_in_the_last_batch_are_torn_and_in_an_earlier_one_damage() {
        let entries: Vec<_> = (0..8_u8).map(|index| vec![index + 1; 600]).collect();
        let mut file = file_header().to_vec();
        file.extend(encode_batch(0, &entries));
        let whole = file.clone();
        file[1024..2048].fill(0);
        let scan_last = scan(&file).unwrap();
        assert_eq!(sequences(&scan_last), [0]);
        assert!(matches!(scan_last.tail, Tail::Torn(_)));

        let mut earlier = file;
        earlier.extend(encode_batch(8, &entries));
        assert!(matches!(scan(&earlier), Err(FrameError::Damaged { offset: 648, flaw: Flaw::Entry })));

        let mut tail_of_zeros = whole;
        tail_of_zeros.extend([0; 700]);
        assert_eq!(sequences(&scan(&tail_of_zeros).unwrap()), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn frames_out_of_order_are_damage() {
        let mut file = sample();
        let end = file.len() as u64;
        file.extend(encode_batch(14, &[vec![1]]));
        assert_eq!(scan(&file), Err(FrameError::Damaged { offset: end, flaw: Flaw::Order }));
        assert_eq!(scan(&file[..10]), Err(FrameError::FileHeader));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_the_scan(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let file = [&file_header()[..], &bytes].concat();
            let _ = scan(&bytes);
            if let Ok(scan) = scan(&file) {
                prop_assert!(scan.frames.is_empty());
            }
        }
    }
}
