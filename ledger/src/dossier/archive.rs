//! A bundle as one file: POSIX.1-1988 ustar, regular files alone, without owner and time, so that the same files give the
//! same bytes. Every `tar` unpacks it.

use super::Files;

/// Bytes of a header, and what contents are padded to.
const BLOCK: usize = 512;
/// Longest name that the plain field holds; ours are shorter.
const NAME_BYTES_MAX: usize = 100;
/// Most files of a bundle that is read.
const FILES_MAX: usize = 100_000;
/// Largest bundle that is read. It is held in memory, as is what it holds.
pub const ARCHIVE_BYTES_MAX: u64 = 1 << 30;

/// Why bytes are no archive of ours, or files cannot become one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    #[error("the name `{0}` is longer than {NAME_BYTES_MAX} bytes or leads out of the archive")]
    Name(String),
    #[error("byte {0}: no ustar header with a right checksum")]
    Header(usize),
    #[error("byte {0}: not a regular file")]
    Kind(usize),
    #[error("byte {0}: the archive ends within a file")]
    Cut(usize),
    #[error("`{0}` is in the archive twice")]
    Twice(String),
    #[error("more than {FILES_MAX} files")]
    TooMany,
    #[error("byte {0}: something stands after the end of the archive")]
    Trailing(usize),
}

/// The archive of `files`, in order of their paths.
pub fn pack(files: &Files) -> Result<Vec<u8>, ArchiveError> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        if !is_legal(name) {
            return Err(ArchiveError::Name(name.clone()));
        }
        bytes.extend_from_slice(&header(name, content.len()));
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    Ok(bytes)
}

/// The files of an archive.
pub fn unpack(bytes: &[u8]) -> Result<Files, ArchiveError> {
    let mut files = Files::new();
    let mut at = 0;
    loop {
        let header = bytes.get(at..at + BLOCK).ok_or(ArchiveError::Cut(at))?;
        if header.iter().all(|byte| *byte == 0) {
            break;
        }
        let (name, size) = read_header(header, at)?;
        let start = at + BLOCK;
        let end = start.checked_add(size).ok_or(ArchiveError::Cut(at))?;
        let content = bytes.get(start..end).ok_or(ArchiveError::Cut(at))?;
        if files.len() == FILES_MAX {
            return Err(ArchiveError::TooMany);
        }
        if files.insert(name.clone(), content.to_vec()).is_some() {
            return Err(ArchiveError::Twice(name));
        }
        at = end.checked_next_multiple_of(BLOCK).ok_or(ArchiveError::Cut(at))?;
    }
    match bytes[at..].iter().position(|byte| *byte != 0) {
        Some(place) => Err(ArchiveError::Trailing(at + place)),
        None => Ok(files),
    }
}

/// Relative, of ordinary parts: nothing that unpacking could write elsewhere.
pub fn is_legal(name: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    name.len() <= NAME_BYTES_MAX
        && name.split('/').all(part)
        && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

/// Fields of a header: start and length.
const NAME: (usize, usize) = (0, 100);
const MODE: (usize, usize) = (100, 8);
const SIZE: (usize, usize) = (124, 12);
const CHECKSUM: (usize, usize) = (148, 8);
const KIND: usize = 156;
const MAGIC: (usize, usize) = (257, 8);

fn header(name: &str, size: usize) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put =
        |(start, _): (usize, usize), text: &[u8]| header[start..start + text.len()].copy_from_slice(text);
    put(NAME, name.as_bytes());
    put(MODE, b"0000644\0");
    // Owner, group and time of nobody and never.
    put((108, 8), b"0000000\0");
    put((116, 8), b"0000000\0");
    put(SIZE, format!("{size:011o}\0").as_bytes());
    put((136, 12), b"00000000000\0");
    put((KIND, 1), b"0");
    put(MAGIC, b"ustar\x0000");
    let sum = checksum(&header);
    header[CHECKSUM.0..CHECKSUM.0 + CHECKSUM.1].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// Sum of the bytes of a header, its own field counted as blanks.
fn checksum(header: &[u8]) -> u64 {
    let own = CHECKSUM.0..CHECKSUM.0 + CHECKSUM.1;
    let value = |(at, byte): (usize, &u8)| if own.contains(&at) { u64::from(b' ') } else { u64::from(*byte) };
    header.iter().enumerate().map(value).sum()
}

fn read_header(header: &[u8], at: usize) -> Result<(String, usize), ArchiveError> {
    let bad = || ArchiveError::Header(at);
    let field = |(start, length): (usize, usize)| &header[start..start + length];
    let number = |place| octal(field(place)).ok_or_else(bad);
    if field(MAGIC).get(..5) != Some(b"ustar") || number(CHECKSUM)? != checksum(header) {
        return Err(bad());
    }
    if !matches!(header[KIND], b'0' | 0) {
        return Err(ArchiveError::Kind(at));
    }
    let name = field(NAME).split(|byte| *byte == 0).next().unwrap_or_default();
    let name = str::from_utf8(name).map_err(|_| bad())?;
    // The second half of long names, which ours never have.
    let prefix = field((345, 155)).first().copied().unwrap_or(0);
    if !is_legal(name) || prefix != 0 {
        return Err(ArchiveError::Name(name.to_owned()));
    }
    let size = usize::try_from(number(SIZE)?).map_err(|_| bad())?;
    Ok((name.to_owned(), size))
}

/// Octal digits up to a zero byte or blank.
fn octal(field: &[u8]) -> Option<u64> {
    let end = field.iter().position(|byte| matches!(byte, 0 | b' ')).unwrap_or(field.len());
    let digits = str::from_utf8(&field[..end]).ok()?;
    let is_octal = !digits.is_empty() && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    is_octal.then(|| u64::from_str_radix(digits, 8).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Files {
        Files::from([
            ("README.txt".to_owned(), b"hello\n".to_vec()),
            ("blob/blake3/ab/abcd".to_owned(), vec![7; 1024]),
            ("empty".to_owned(), Vec::new()),
        ])
    }

    #[test]
    fn files_come_back_and_names_that_lead_out_are_refused() {
        let packed = pack(&sample()).unwrap();
        assert_eq!(packed.len() % BLOCK, 0);
        assert_eq!(unpack(&packed).unwrap(), sample());
        for name in ["", "/etc/passwd", "../x", "a//b", "a/./b", "a/..", "a\\b", "a b", "ä", &"n".repeat(101)]
        {
            assert_eq!(
                pack(&Files::from([(name.to_owned(), Vec::new())])),
                Err(ArchiveError::Name(name.to_owned()))
            );
        }
    }

    #[test]
    fn other_archives_are_refused_with_the_place() {
        let packed = pack(&sample()).unwrap();
        assert_eq!(unpack(&packed[..BLOCK]), Err(ArchiveError::Cut(0)));
        assert_eq!(unpack(b""), Err(ArchiveError::Cut(0)));
        let mut link = packed.clone();
        link[KIND] = b'2';
        let sum = format!("{:06o}\0 ", checksum(&link[..BLOCK]));
        link[CHECKSUM.0..CHECKSUM.0 + 8].copy_from_slice(sum.as_bytes());
        assert_eq!(unpack(&link), Err(ArchiveError::Kind(0)));
        let twice = [&packed[..2 * BLOCK], &packed].concat();
        assert_eq!(unpack(&twice), Err(ArchiveError::Twice("README.txt".to_owned())));
        let end = packed.len();
        let trailing = [&packed[..], b"x"].concat();
        assert_eq!(unpack(&trailing), Err(ArchiveError::Trailing(end)));
    }

    proptest! {
        #[test]
        fn a_changed_header_is_refused(at in 0..BLOCK, bit in 0..8_u8) {
            // The checksum's digits end at a zero or a blank, and what stands behind that says nothing.
            prop_assume!(!(CHECKSUM.0 + 6..CHECKSUM.0 + 8).contains(&at));
            let mut packed = pack(&sample()).unwrap();
            packed[at] ^= 1 << bit;
            prop_assert_ne!(unpack(&packed).ok(), Some(sample()), "byte {}", at);
        }

        #[test]
        fn no_bytes_panic_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
            let _ = unpack(&bytes);
        }
    }
}
