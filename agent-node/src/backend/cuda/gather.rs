//! Which pieces of a buffer hold the elements that are looked at after a launch. Pure.

use super::protocol::Piece;

/// Gaps up to this are copied along: a piece of its own costs as much as some kilobytes of copying.
const GAP: u64 = 512;
/// Pieces of one order: its JSON stays small.
const PIECES_MAX: usize = 1024;
/// Bytes that are gathered; also the size of the worker's staging buffer.
pub(super) const BYTES_MAX: u64 = 256 << 10;

/// The pieces in ascending order without overlap, and where in them each element lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gather {
    pieces: Vec<Piece>,
    /// Start of each element asked for, counted over the joined pieces, in the order in which it was asked for.
    starts: Vec<u64>,
    width: u64,
}

impl Gather {
    /// For `elements` of `width` bytes of a buffer of `size` bytes; `None` if one lies outside of it.
    pub(super) fn plan(elements: &[u64], width: u64, size: u64) -> Option<Self> {
        let offset = |element: &u64| {
            let offset = element.checked_mul(width)?;
            (offset.checked_add(width)? <= size).then_some(offset)
        };
        let offsets: Vec<u64> = elements.iter().map(offset).collect::<Option<_>>()?;
        let mut sorted = offsets.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let mut pieces: Vec<Piece> = Vec::new();
        for offset in sorted {
            match pieces.last_mut() {
                Some(last) if offset <= last.offset + last.bytes + GAP => {
                    last.bytes = last.bytes.max(offset + width - last.offset);
                }
                Some(_) | None => pieces.push(Piece { offset, bytes: width }),
            }
        }
        let mut joined = 0;
        let placed: Vec<(Piece, u64)> = pieces
            .iter()
            .map(|piece| {
                joined += piece.bytes;
                (*piece, joined - piece.bytes)
            })
            .collect();
        let start = |offset: &u64| {
            let after = placed.partition_point(|(piece, _)| piece.offset <= *offset);
            let (piece, before) = placed.get(after.checked_sub(1)?)?;
            Some(before + (offset - piece.offset))
        };
        Some(Self { starts: offsets.iter().filter_map(start).collect(), pieces, width })
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Bytes of all pieces together.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// Whether a worker takes this as one order; else the whole buffer is read.
    pub(super) fn is_worth_it(&self) -> bool {
        self.pieces.len() <= PIECES_MAX && self.bytes() <= BYTES_MAX
    }

    /// The joined pieces out of the whole buffer.
    pub(super) fn cut(&self, whole: &[u8]) -> Vec<u8> {
        self.pieces
            .iter()
            .filter_map(|piece| range(whole, piece.offset, piece.bytes))
            .flatten()
            .copied()
            .collect()
    }

    /// The elements out of the joined pieces, as they were asked for.
    pub(super) fn pick(&self, joined: &[u8]) -> Vec<u8> {
        self.starts.iter().filter_map(|start| range(joined, *start, self.width)).flatten().copied().collect()
    }
}

fn range(bytes: &[u8], from: u64, length: u64) -> Option<&[u8]> {
    let from = usize::try_from(from).ok()?;
    bytes.get(from..from.checked_add(usize::try_from(length).ok()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(elements: &[u64], width: u64, size: u64) -> Vec<(u64, u64)> {
        Gather::plan(elements, width, size)
            .unwrap()
            .pieces()
            .iter()
            .map(|piece| (piece.offset, piece.bytes))
            .collect()
    }

    #[test]
    fn near_elements_share_a_piece_and_far_ones_do_not() {
        assert_eq!(pieces(&[0, 1, 3], 4, 4000), [(0, 16)]);
        assert_eq!(pieces(&[900, 0, 900], 4, 4000), [(0, 4), (3600, 4)]);
        assert_eq!(pieces(&[0, 129], 4, 4000), [(0, 520)]);
        assert_eq!(pieces(&[0, 130], 4, 4000), [(0, 4), (520, 4)]);
    }

    #[test]
    fn what_lies_outside_is_refused_and_nothing_overflows() {
        assert_eq!(pieces(&[999], 4, 4000), [(3996, 4)]);
        for (elements, width, size) in
            [(&[0, 1000][..], 4, 4000), (&[u64::MAX], 4, 4000), (&[0], u64::MAX, 4000), (&[0], 8, 0)]
        {
            assert_eq!(Gather::plan(elements, width, size), None, "{elements:?}");
        }
        assert!(Gather::plan(&[], 4, 4000).unwrap().pick(&[]).is_empty());
    }

    #[test]
    fn too_much_for_one_order_is_read_whole() {
        let spread: Vec<u64> = (0..2000).map(|index| index * 1000).collect();
        assert!(!Gather::plan(&spread, 4, 1 << 30).unwrap().is_worth_it());
        let dense: Vec<u64> = (0..100_000).collect();
        assert!(!Gather::plan(&dense, 4, 1 << 30).unwrap().is_worth_it());
        assert!(Gather::plan(&spread[..64], 4, 1 << 30).unwrap().is_worth_it());
    }

    proptest! {
        #[test]
        fn gathering_gives_what_reading_all_of_it_gives(
            elements in proptest::collection::vec(0u64..3000, 0..100),
            width in prop_oneof![Just(1u64), Just(2), Just(4), Just(8)],
        ) {
            let whole: Vec<u8> = (0..8000u32).map(|index| (index * 7 % 251) as u8).collect();
            let elements: Vec<u64> = elements.into_iter().map(|element| element.min(8000 / width - 1)).collect();
            let gather = Gather::plan(&elements, width, whole.len() as u64).unwrap();
            let joined = gather.cut(&whole);
            prop_assert_eq!(joined.len() as u64, gather.bytes());
            let expected: Vec<u8> = elements
                .iter()
                .filter_map(|element| range(&whole, element * width, width))
                .flatten()
                .copied()
                .collect();
            prop_assert_eq!(gather.pick(&joined), expected);
            for pair in gather.pieces().windows(2) {
                prop_assert!(pair[0].offset + pair[0].bytes + GAP < pair[1].offset);
            }
        }
    }
}
