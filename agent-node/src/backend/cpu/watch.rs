//! Words of the outputs that are looked at twice: when a launch says that it is done, and when the worker has stopped.

use super::layout::{Segment, mix};
use super::shared::SharedFile;
use crate::backend::{Buffer, BufferUse};
use fleet_config::domain::Role;

/// Words per launch. A launch that left a share f of its work for later is missed with (1 − f)^64, each time.
const WORDS: u64 = 64;
const WORD: usize = 8;

/// Places in the shared file, drawn for one launch; no worker can tell them.
#[derive(Debug)]
pub(super) struct Watch(Vec<usize>);

impl Watch {
    /// Draws the places from `seed`, in proportion to the sizes of the outputs.
    pub(super) fn draw(buffers: &[Buffer], segments: &[Segment], seed: u64) -> Self {
        let outputs: Vec<&Segment> = buffers
            .iter()
            .zip(segments)
            .filter(|(buffer, _)| match buffer.use_ {
                BufferUse::Parameter(Role::Out | Role::Inout) => true,
                BufferUse::Parameter(Role::In) | BufferUse::Scratch => false,
            })
            .map(|(_, segment)| segment)
            .collect();
        let total: usize = outputs.iter().map(|segment| segment.bytes).sum();
        let place = |number: u64| {
            let mut at = usize::try_from(mix(seed ^ number.rotate_right(8)) % (total.max(1) as u64)).ok()?;
            for segment in &outputs {
                if at < segment.bytes {
                    return Some((segment.offset() + at) / WORD * WORD);
                }
                at -= segment.bytes;
            }
            None
        };
        Self((0..WORDS).filter_map(place).collect())
    }

    /// What stands there now.
    pub(super) fn look(&self, shared: &SharedFile) -> Vec<[u8; WORD]> {
        self.0.iter().filter_map(|place| shared.word(*place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Placement, layout};
    use super::*;
    use fleet_config::domain::ElementType;

    #[test]
    fn only_outputs_are_watched_all_of_them_and_elsewhere_for_each_launch() {
        let buffer = |use_, bytes| Buffer { name: "x".to_owned(), use_, element: ElementType::F32, bytes };
        let buffers = [
            buffer(BufferUse::Parameter(Role::In), 9000),
            buffer(BufferUse::Parameter(Role::Out), 4000),
            buffer(BufferUse::Scratch, 4000),
            buffer(BufferUse::Parameter(Role::Inout), 12_000),
        ];
        let segments = layout(&buffers, Placement::AtStart).unwrap();
        let watch = Watch::draw(&buffers, &segments, 1);
        let inside =
            |segment: &Segment, at: usize| at >= segment.offset() && at < segment.offset() + segment.bytes;
        let count = |segment: &Segment| watch.0.iter().filter(|at| inside(segment, **at)).count();
        assert_eq!((count(&segments[0]), count(&segments[2])), (0, 0));
        assert_eq!(count(&segments[1]) + count(&segments[3]), 64);
        assert!(count(&segments[1]) > 4 && count(&segments[3]) > 32);
        assert_ne!(watch.0, Watch::draw(&buffers, &segments, 2).0);
    }
}
