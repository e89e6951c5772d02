//! Cubins: the checks before one is loaded, and what one says about its kernels.
//!
//! `cuModuleLoadData` is given no length, so that a truncated file would be read past its end: every section must lie
//! inside the file. Attributes of `.nv.info` as `cuobjdump -elf` shows them: each is a format byte, an attribute byte
//! and either a 16-bit value or a 16-bit size with that many bytes.

use object::read::elf::{ElfFile64, FileHeader as _};
use object::{Endianness, Object as _, ObjectSection as _};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The machine number of cubins in the ELF header.
const MACHINE: u16 = object::elf::EM_CUDA.0;
/// Kernels of one file.
const KERNELS_MAX: usize = 1024;
/// Longest name of a kernel: mangled names of deep templates have a few kilobytes. Sections may share one text for their
/// names, so that a small file could otherwise name gigabytes.
const SYMBOL_MAX: usize = 16 << 10;
/// Parameters of one kernel; CUDA bounds their bytes to 32,764.
const PARAMETERS_MAX: usize = 4096;
/// Attributes of one section: one for each parameter and each place of an instruction that the driver patches.
const ATTRIBUTES_MAX: usize = 1 << 16;

/// The attribute with ordinal, offset and size of one parameter.
const PARAMETER: u8 = 0x17;
/// The format of attributes that carry bytes.
const SIZED: u8 = 0x04;

/// One kernel of a cubin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kernel {
    pub symbol: String,
    /// Size of each parameter in bytes, in their order.
    pub parameters: Vec<u32>,
}

/// A file that must not be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CubinError {
    #[error("it is no 64-bit ELF file: {0}")]
    Elf(String),
    #[error("its machine number is {0}, not that of a cubin")]
    Machine(u16),
    #[error("section `{0}` lies outside the file")]
    Section(String),
    #[error("it is for sm_{found}, not for sm_{wanted}")]
    Architecture { found: String, wanted: u32 },
    #[error("the attributes of `{0}` are malformed")]
    Attributes(String),
    #[error(
        "it has more than {KERNELS_MAX} kernels or {PARAMETERS_MAX} parameters, or a name of over {SYMBOL_MAX} bytes"
    )]
    Many,
}

/// Checks that `bytes` is a whole cubin for `wanted` (90 for `sm_90a`) and lists its kernels.
pub(super) fn kernels(bytes: &[u8], wanted: u32) -> Result<Vec<Kernel>, CubinError> {
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(|error| CubinError::Elf(error.to_string()))?;
    let (header, endian) = (file.elf_header(), file.endian());
    let machine = header.e_machine(endian).0;
    if machine != MACHINE {
        return Err(CubinError::Machine(machine));
    }
    // The number stands in the lowest byte, from CUDA 13 on (ABI version 8) in the second.
    let flags = header.e_flags(endian).0;
    let numbers = [flags & 0xff, (flags >> 8) & 0xff];
    if !numbers.contains(&wanted) {
        let found = format!("{} or {}", numbers[0], numbers[1]);
        return Err(CubinError::Architecture { found, wanted });
    }
    check_segments(&file, bytes)?;
    let mut found = Vec::new();
    let mut constants = BTreeSet::new();
    for section in file.sections() {
        let name = section.name().map_err(|error| CubinError::Elf(error.to_string()))?;
        if name.len() > SYMBOL_MAX {
            return Err(CubinError::Many);
        }
        let data = section.data().map_err(|_| CubinError::Section(name.to_owned()))?;
        if let Some(symbol) = name.strip_prefix(".nv.constant0.") {
            constants.insert(symbol.to_owned());
        }
        if let Some(symbol) = name.strip_prefix(".nv.info.") {
            let parameters = parameters(data).ok_or_else(|| CubinError::Attributes(symbol.to_owned()))?;
            found.push(Kernel { symbol: symbol.to_owned(), parameters });
        }
        if found.len().max(constants.len()) > KERNELS_MAX {
            return Err(CubinError::Many);
        }
    }
    // Functions that are no kernels may have attributes; only kernels have a bank of parameters.
    found.retain(|kernel| constants.contains(&kernel.symbol));
    Ok(found)
}

fn check_segments(file: &ElfFile64<'_, Endianness>, bytes: &[u8]) -> Result<(), CubinError> {
    use object::read::elf::ProgramHeader as _;
    for (index, segment) in file.elf_program_headers().iter().enumerate() {
        segment
            .data(file.endian(), bytes)
            .map_err(|()| CubinError::Section(format!("program header {index}")))?;
    }
    Ok(())
}

/// The attributes of one section in their order: number and payload, which is two bytes for those without a size;
/// `None` if the bytes are malformed.
pub(super) fn attributes(mut data: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut found = Vec::new();
    while let [format, attribute, low, high, rest @ ..] = data {
        if *format == SIZED {
            let size = usize::from(u16::from_le_bytes([*low, *high]));
            found.push((*attribute, rest.get(..size)?));
            data = rest.get(size..)?;
        } else {
            found.push((*attribute, data.get(2..4)?));
            data = rest;
        }
        if found.len() > ATTRIBUTES_MAX {
            return None;
        }
    }
    data.is_empty().then_some(found)
}

/// Sizes of the parameters in the attributes of one kernel; `None` if the bytes are malformed.
fn parameters(data: &[u8]) -> Option<Vec<u32>> {
    let mut sizes: Vec<(u16, u32)> = Vec::new();
    for (attribute, payload) in attributes(data)? {
        if attribute == PARAMETER {
            // Index, ordinal, offset, and a word whose bits from 18 on are the size.
            let [_, _, _, _, o0, o1, _, _, w0, w1, w2, w3] = payload else { return None };
            let word = u32::from_le_bytes([*w0, *w1, *w2, *w3]);
            sizes.push((u16::from_le_bytes([*o0, *o1]), word >> 18));
        }
        if sizes.len() > PARAMETERS_MAX {
            return None;
        }
    }
    sizes.sort_unstable();
    let gapless = sizes.iter().enumerate().all(|(index, (ordinal, _))| usize::from(*ordinal) == index);
    gapless.then(|| sizes.into_iter().map(|(_, size)| size).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attribute(ordinal: u16, size: u32) -> Vec<u8> {
        let mut bytes = vec![SIZED, PARAMETER, 12, 0, 0, 0, 0, 0];
        bytes.extend(ordinal.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend((size << 18).to_le_bytes());
        bytes
    }

    #[test]
    fn parameters_come_in_their_order_whatever_the_order_in_the_file() {
        let mut data = attribute(1, 4);
        data.extend([0x03, 0x1b, 0xff, 0x00]);
        data.extend(attribute(0, 8));
        assert_eq!(parameters(&data), Some(vec![8, 4]));
        assert_eq!(parameters(&data[..data.len() - 1]), None);
        assert_eq!(parameters(&attribute(1, 4)), None);
        assert_eq!(parameters(&[]), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_checks_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
            let _ = kernels(&bytes, 90);
            let _ = parameters(&bytes);
        }
    }
}
