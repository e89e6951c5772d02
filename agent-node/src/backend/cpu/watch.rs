//! Words of the outputs that are looked at twice: when a launch says that it is done, and when the worker has stopped.

use super::layout::{Segment, mix};
use super::shared::SharedFile;
use crate::backend::{Buffer, BufferUse};
use fleet_config::domain::Role;

/// Words per launch. A launch that left a share f of its work for later is missed with (1 − f)^64, each time.
const WORDS: u64 = 64;
const WORD: usize = 8;

/// Whether the outputs stood when a launch said that it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an output that changed is a verdict"]
pub(super) enum Standing {
    Still,
    Changed,
}

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

    /// Looks before and after `between`, which stops the worker.
    pub(super) fn across<T>(&self, shared: &SharedFile, between: impl FnOnce() -> T) -> (Standing, T) {
        let before = self.look(shared);
        let said = between();
        (if before == self.look(shared) { Standing::Still } else { Standing::Changed }, said)
    }

    /// What stands there now.
    fn look(&self, shared: &SharedFile) -> Vec<[u8; WORD]> {
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

    #[test]
    fn a_write_between_the_answer_and_the_stop_is_seen_in_every_output_and_nowhere_else() {
        let uses = [
            BufferUse::Parameter(Role::In),
            BufferUse::Parameter(Role::Out),
            BufferUse::Scratch,
            BufferUse::Parameter(Role::Inout),
        ];
        let buffers =
            uses.map(|use_| Buffer { name: "x".to_owned(), use_, element: ElementType::F32, bytes: 4096 });
        let segments = layout(&buffers, Placement::AtStart).unwrap();
        let end = segments.iter().map(|segment| segment.file_offset + segment.mapped).max().unwrap();
        let shared = SharedFile::create(end).unwrap();
        for seed in 0..20 {
            let watch = Watch::draw(&buffers, &segments, seed);
            assert_eq!(watch.across(&shared, || 7), (Standing::Still, 7), "seed {seed}");
            for (segment, use_) in segments.iter().zip(uses) {
                // What a worker that has answered writes before the signal reaches it.
                let late = || {
                    let byte = shared.read(segment.offset(), 1).unwrap()[0].wrapping_add(1);
                    shared.fill(segment.offset(), segment.bytes, byte)
                };
                let output = use_ != BufferUse::Scratch && use_ != BufferUse::Parameter(Role::In);
                let expected = if output { Standing::Changed } else { Standing::Still };
                assert_eq!(watch.across(&shared, late), (expected, true), "seed {seed}, {use_:?}");
            }
        }
    }
}
