//! The plan that a program with a sanitizer reads from its descriptor: 64-bit little-endian words, then the contents of
//! the buffers.
//!
//! ```text
//! magic, most blocks of a kernel, buffers, steps
//! per buffer   place in the file, bytes
//! per step     u64::MAX, buffer, byte                                              a fill
//!              entry, grid ×3, block ×3, shared bytes, n, then n × (buffer, scalar) a kernel; u64::MAX: no buffer
//! ```

use crate::backend::{Argument, Evaluation, ResolvedStep};

/// "uscreen1", read as a number.
const MAGIC: u64 = 0x316e_6565_7263_7375;
const FILL: u64 = u64::MAX;
const SCALAR: u64 = u64::MAX;
/// Each buffer's contents begin at a multiple of this.
const ALIGNMENT: usize = 16;

/// The bytes of the plan for `evaluation` with `contents` in its buffers.
pub(super) fn encode(evaluation: &Evaluation, contents: &[Vec<u8>], blocks_max: u64) -> Vec<u8> {
    let mut steps = Vec::new();
    for step in &evaluation.steps {
        match step {
            ResolvedStep::Memset { buffer, byte } => steps.extend([FILL, *buffer as u64, u64::from(*byte)]),
            ResolvedStep::Kernel { entry, grid, block, shared_bytes, arguments, .. } => {
                steps.push(*entry as u64);
                steps.extend(grid);
                steps.extend(block);
                steps.extend([*shared_bytes, arguments.len() as u64]);
                steps.extend(arguments.iter().flat_map(argument));
            }
        }
    }
    let head = [MAGIC, blocks_max, contents.len() as u64, evaluation.steps.len() as u64];
    let words = head.len() + 2 * contents.len() + steps.len();
    let mut offset = (words * 8).next_multiple_of(ALIGNMENT);
    let mut bytes: Vec<u8> = Vec::new();
    let mut put = |word: u64| bytes.extend(word.to_le_bytes());
    head.into_iter().for_each(&mut put);
    for content in contents {
        put(offset as u64);
        put(content.len() as u64);
        offset += content.len().next_multiple_of(ALIGNMENT);
    }
    steps.into_iter().for_each(&mut put);
    for content in contents {
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes.extend(content);
    }
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    bytes
}

fn argument(argument: &Argument) -> [u64; 2] {
    match argument {
        Argument::Buffer(index) => [*index as u64, 0],
        Argument::Scalar(bytes) => {
            let mut word = [0u8; 8];
            for (to, from) in word.iter_mut().zip(bytes) {
                *to = *from;
            }
            [SCALAR, u64::from_le_bytes(word)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_lies_where_its_word_says() {
        let kernel = ResolvedStep::Kernel {
            entry: 0,
            name: "f".to_owned(),
            grid: [2, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 64,
            arguments: vec![Argument::Buffer(1), Argument::Scalar(vec![7, 0, 0, 0])],
            cooperative: false,
            cluster: None,
        };
        let steps = vec![ResolvedStep::Memset { buffer: 0, byte: 3 }, kernel];
        let evaluation = Evaluation { case: String::new(), buffers: Vec::new(), steps };
        let contents = [vec![1u8; 5], vec![2u8; 40]];
        let bytes = encode(&evaluation, &contents, 9);
        let word = |index: usize| u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().unwrap());
        assert_eq!([word(0), word(1), word(2), word(3)], [MAGIC, 9, 2, 2]);
        for (index, content) in contents.iter().enumerate() {
            let (offset, length) = (word(4 + 2 * index) as usize, word(5 + 2 * index) as usize);
            assert_eq!(&bytes[offset..offset + length], content.as_slice());
        }
        assert_eq!([word(8), word(9), word(10)], [FILL, 0, 3]);
        let kernel: Vec<u64> = (11..24).map(word).collect();
        assert_eq!(kernel, [0, 2, 1, 1, 32, 1, 1, 64, 2, 1, 0, SCALAR, 7]);
    }
}
