//! Entry bundles: up to 256 entries, each after its length in two bytes, big-endian (c2sp.org/tlog-tiles).

use std::ops::Range;

/// Largest entry that the writer takes. The format would hold 65,535 bytes; what is large belongs in a blob.
pub const ENTRY_BYTES_MAX: usize = 32 * 1024;
/// Largest entry that the format holds, for readers of other logs.
pub const BUNDLE_ENTRY_BYTES_MAX: u64 = 0xffff;
/// Largest bundle file that a reader looks at: 256 entries of the format's own limit.
pub const BUNDLE_BYTES_MAX: u64 = 256 * (2 + BUNDLE_ENTRY_BYTES_MAX);
const LENGTH_BYTES: usize = 2;

/// Where and how a bundle's framing breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    #[error("entry {position} is cut off at byte {offset}")]
    Cut { position: usize, offset: u64 },
    #[error("bytes follow the last of {count} entries at byte {offset}")]
    Trailing { count: usize, offset: u64 },
}

impl BundleError {
    /// Byte in the file.
    pub fn offset(&self) -> u64 {
        match self {
            Self::Cut { offset, .. } | Self::Trailing { offset, .. } => *offset,
        }
    }
}

/// Appends one entry to the bytes of a bundle.
pub fn push(bundle: &mut Vec<u8>, entry: &[u8]) {
    let length =
        u16::try_from(entry.len()).expect("invariant: the writer refuses entries above ENTRY_BYTES_MAX");
    bundle.extend_from_slice(&length.to_be_bytes());
    bundle.extend_from_slice(entry);
}

/// The places of the entries of a bundle as far as its framing holds, and where it stops to hold for exactly
/// `count` entries.
pub fn split(bundle: &[u8], count: usize) -> (Vec<Range<usize>>, Option<BundleError>) {
    let mut entries = Vec::with_capacity(count);
    let mut at = 0;
    for position in 0..count {
        let cut = BundleError::Cut { position, offset: at as u64 };
        let Some(length) = bundle.get(at..at + LENGTH_BYTES) else { return (entries, Some(cut)) };
        let start = at + LENGTH_BYTES;
        let end = start + usize::from(u16::from_be_bytes([length[0], length[1]]));
        if end > bundle.len() {
            return (entries, Some(cut));
        }
        entries.push(start..end);
        at = end;
    }
    let trailing = BundleError::Trailing { count, offset: at as u64 };
    (entries, (at < bundle.len()).then_some(trailing))
}

/// The places of exactly `count` entries.
pub fn decode(bundle: &[u8], count: usize) -> Result<Vec<Range<usize>>, BundleError> {
    match split(bundle, count) {
        (entries, None) => Ok(entries),
        (_, Some(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn framing_is_exact() {
        let mut bundle = Vec::new();
        push(&mut bundle, b"ab");
        push(&mut bundle, b"");
        assert_eq!(bundle, [0, 2, b'a', b'b', 0, 0]);
        assert_eq!(decode(&bundle, 2), Ok(vec![2..4, 6..6]));
        assert_eq!(decode(&bundle, 1), Err(BundleError::Trailing { count: 1, offset: 4 }));
        assert_eq!(decode(&bundle, 3), Err(BundleError::Cut { position: 2, offset: 6 }));
        assert_eq!(decode(&bundle[..3], 1), Err(BundleError::Cut { position: 0, offset: 0 }));
    }

    proptest! {
        #[test]
        fn entries_come_back(entries in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..20)) {
            let mut bundle = Vec::new();
            entries.iter().for_each(|entry| push(&mut bundle, entry));
            let places = decode(&bundle, entries.len()).unwrap();
            let back: Vec<_> = places.into_iter().map(|place| bundle[place].to_vec()).collect();
            prop_assert_eq!(back, entries);
        }

        #[test]
        fn no_bytes_panic_the_decoder(bytes in proptest::collection::vec(any::<u8>(), 0..600), count in 0_usize..=256) {
            let (places, _) = split(&bytes, count);
            prop_assert!(places.iter().all(|place| place.end <= bytes.len()));
        }
    }
}
