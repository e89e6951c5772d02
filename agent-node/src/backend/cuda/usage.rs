//! What each kernel of a cubin uses: from its ELF sections, and from what ptxas said where only ptxas knows (spills).
//!
//! Sections and attributes as `cuobjdump -elf` shows them; the values equal `cuobjdump -res-usage` of 12.9, 13.0 and
//! 13.5. Neither `sh_info` nor `sh_flags` of the code sections are read: their layout changes between versions.

use super::cubin::{CubinError, attributes};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// From this architecture on `.nv.shared.<kernel>` counts what the system reserves of each block.
const RESERVED_FROM: u32 = 90;
/// That many bytes.
const RESERVED: u64 = 1024;

/// Attributes of `.nv.info`: a symbol's index and a value, of 32 bits each.
const FRAME_SIZE: u8 = 0x11;
const STACK_SIZE: u8 = 0x12;
const REGISTERS: u8 = 0x2f;
/// Attributes of `.nv.info.<kernel>`.
const THREADS_MAX: u8 = 0x05;
const THREADS_REQUIRED: u8 = 0x10;
const PARAMETER_BYTES: u8 = 0x19;
const BARRIERS: u8 = 0x4c;

/// Kernels that a record names one by one; of further ones it has the largest values.
const NAMED_MAX: usize = 64;

/// What one kernel uses. Unknown is `None`, never 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    pub symbol: String,
    /// Of one thread.
    pub registers: Option<u64>,
    /// Bytes of the stack of one thread, local arrays included.
    pub stack_bytes: Option<u64>,
    /// Bytes of spills, as ptxas counts them: each store and load instruction once.
    pub spill_store_bytes: Option<u64>,
    pub spill_load_bytes: Option<u64>,
    /// Static shared memory of one block, without what the system reserves.
    pub shared_bytes: u64,
    pub barriers: Option<u64>,
    /// Bytes of the kernel's constant banks, parameters included.
    pub constant_bytes: u64,
    pub parameter_bytes: Option<u64>,
    pub code_bytes: u64,
    /// Threads that `__launch_bounds__` allows to a block.
    pub threads_max: Option<u64>,
    /// Threads that a block must have.
    pub threads_required: Option<u64>,
}

/// What the ELF file says, in the order of the symbols' names, with the digest of the code: blake3 over symbol and
/// instructions of each function. Debug information and line tables do not change it.
pub(super) fn of_cubin(bytes: &[u8], architecture: u32) -> Result<(Vec<Usage>, blake3::Hash), CubinError> {
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(|error| CubinError::Elf(error.to_string()))?;
    let mut symbols: BTreeMap<u32, String> = BTreeMap::new();
    for symbol in file.symbols() {
        if let (Ok(index), Ok(name)) = (u32::try_from(symbol.index().0), symbol.name()) {
            symbols.insert(index, name.to_owned());
        }
    }
    let mut found: BTreeMap<String, Usage> = BTreeMap::new();
    let mut values: Vec<(String, u8, u64)> = Vec::new();
    let mut code: BTreeMap<String, &[u8]> = BTreeMap::new();
    for section in file.sections() {
        let name = section.name().map_err(|error| CubinError::Elf(error.to_string()))?.to_owned();
        let data = || section.data().map_err(|_| CubinError::Section(name.clone()));
        if let Some(kernel) = name.strip_prefix(".nv.info.") {
            own_attributes(kernel, data()?, entry(&mut found, kernel))?;
        } else if name == ".nv.info" {
            values = file_attributes(data()?, &symbols)?;
        } else if let Some(kernel) = name.strip_prefix(".nv.shared.") {
            let reserved = if architecture >= RESERVED_FROM { RESERVED } else { 0 };
            entry(&mut found, kernel).shared_bytes = section.size().saturating_sub(reserved);
        } else if let Some(function) = name.strip_prefix(".text.") {
            entry(&mut found, function).code_bytes = section.size();
            code.insert(function.to_owned(), data()?);
        } else if let Some((bank, kernel)) =
            name.strip_prefix(".nv.constant").and_then(|rest| rest.split_once('.'))
            && bank.bytes().all(|byte| byte.is_ascii_digit())
        {
            let usage = entry(&mut found, kernel);
            usage.constant_bytes = usage.constant_bytes.saturating_add(section.size());
        }
    }
    for (symbol, attribute, value) in values {
        let Some(usage) = found.get_mut(&symbol) else { continue };
        match attribute {
            REGISTERS => usage.registers = Some(value),
            // The frame is the function's own; what it calls may need more.
            FRAME_SIZE | STACK_SIZE => usage.stack_bytes = Some(value.max(usage.stack_bytes.unwrap_or(0))),
            _ => {}
        }
    }
    let mut hasher = blake3::Hasher::new();
    for (symbol, instructions) in &code {
        for part in [symbol.as_bytes(), instructions] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
    }
    Ok((found.into_values().collect(), hasher.finalize()))
}

fn entry<'a>(found: &'a mut BTreeMap<String, Usage>, symbol: &str) -> &'a mut Usage {
    let usage = found.entry(symbol.to_owned()).or_default();
    symbol.clone_into(&mut usage.symbol);
    usage
}

/// `.nv.info`: values of symbols.
fn file_attributes(
    data: &[u8],
    symbols: &BTreeMap<u32, String>,
) -> Result<Vec<(String, u8, u64)>, CubinError> {
    let malformed = || CubinError::Attributes(".nv.info".to_owned());
    let mut values = Vec::new();
    for (attribute, payload) in attributes(data).ok_or_else(malformed)? {
        if !matches!(attribute, REGISTERS | FRAME_SIZE | STACK_SIZE) {
            continue;
        }
        let (index, value) =
            (word(payload, 0).ok_or_else(malformed)?, word(payload, 1).ok_or_else(malformed)?);
        if let Some(symbol) = symbols.get(&index) {
            values.push((symbol.clone(), attribute, u64::from(value)));
        }
    }
    Ok(values)
}

/// `.nv.info.<kernel>`: values of the kernel.
fn own_attributes(kernel: &str, data: &[u8], usage: &mut Usage) -> Result<(), CubinError> {
    let malformed = || CubinError::Attributes(kernel.to_owned());
    for (attribute, payload) in attributes(data).ok_or_else(malformed)? {
        let product = || {
            let side = |index| word(payload, index).map(u64::from);
            Some(side(0)?.saturating_mul(side(1)?).saturating_mul(side(2)?))
        };
        let short = || Some(u64::from(u16::from_le_bytes([*payload.first()?, *payload.get(1)?])));
        match attribute {
            THREADS_MAX => usage.threads_max = Some(product().ok_or_else(malformed)?),
            THREADS_REQUIRED => usage.threads_required = Some(product().ok_or_else(malformed)?),
            PARAMETER_BYTES => usage.parameter_bytes = Some(short().ok_or_else(malformed)?),
            BARRIERS => usage.barriers = payload.first().map(|count| u64::from(*count)),
            _ => {}
        }
    }
    Ok(())
}

/// A little-endian word of a payload.
fn word(payload: &[u8], index: usize) -> Option<u32> {
    let at = index.checked_mul(4)?;
    let bytes = payload.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Fills in what ptxas alone knows, from its values by `<symbol>.<what>`.
pub(super) fn complete(usages: &mut [Usage], said: &BTreeMap<String, u64>) {
    for usage in usages {
        let value = |what: &str| said.get(&format!("{}.{what}", usage.symbol)).copied();
        let (stores, loads) = (value("spill_store_bytes"), value("spill_load_bytes"));
        let (stack, barriers, registers) = (value("stack_bytes"), value("barriers"), value("registers"));
        usage.spill_store_bytes = stores;
        usage.spill_load_bytes = loads;
        usage.stack_bytes = usage.stack_bytes.or(stack);
        // Before CUDA 13 the file has no count of barriers.
        usage.barriers = usage.barriers.or(barriers);
        usage.registers = usage.registers.or(registers);
    }
}

/// As a record carries it: `<symbol>.<what>` for each of `usages`, and the largest of all without a symbol.
pub(super) fn resources(usages: &[Usage]) -> BTreeMap<String, u64> {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for (index, usage) in usages.iter().enumerate() {
        for (what, value) in values(usage) {
            let Some(value) = value else { continue };
            let largest = found.entry(what.to_owned()).or_insert(0);
            *largest = value.max(*largest);
            if index < NAMED_MAX {
                found.insert(format!("{}.{what}", usage.symbol), value);
            }
        }
    }
    found
}

fn values(usage: &Usage) -> [(&'static str, Option<u64>); 11] {
    let Usage {
        symbol: _,
        registers,
        stack_bytes,
        spill_store_bytes,
        spill_load_bytes,
        shared_bytes,
        barriers,
        constant_bytes,
        parameter_bytes,
        code_bytes,
        threads_max,
        threads_required,
    } = usage;
    [
        ("registers", *registers),
        ("stack_bytes", *stack_bytes),
        ("spill_store_bytes", *spill_store_bytes),
        ("spill_load_bytes", *spill_load_bytes),
        ("shared_bytes", Some(*shared_bytes)),
        ("barriers", *barriers),
        ("constant_bytes", Some(*constant_bytes)),
        ("parameter_bytes", *parameter_bytes),
        ("code_bytes", Some(*code_bytes)),
        ("threads_max", *threads_max),
        ("threads_required", *threads_required),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sized(attribute: u8, words: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0x04, attribute];
        bytes.extend(u16::try_from(words.len() * 4).unwrap().to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    #[test]
    fn attributes_of_a_kernel_are_read_by_their_numbers() {
        let mut data = sized(THREADS_MAX, &[128, 2, 1]);
        data.extend([0x02, BARRIERS, 3, 0]);
        data.extend([0x03, PARAMETER_BYTES, 0x1c, 0x01]);
        data.extend([0x03, 0x1b, 0xff, 0x00]);
        let mut usage = Usage::default();
        own_attributes("tile", &data, &mut usage).unwrap();
        assert_eq!(
            (usage.threads_max, usage.barriers, usage.parameter_bytes),
            (Some(256), Some(3), Some(284))
        );
        assert_eq!(usage.threads_required, None);
        let cut = own_attributes("tile", &data[..9], &mut usage).unwrap_err();
        assert_eq!(cut, CubinError::Attributes("tile".to_owned()));
        let short = sized(THREADS_REQUIRED, &[128]);
        assert!(own_attributes("tile", &short, &mut usage).is_err());
    }

    #[test]
    fn values_of_the_file_go_to_their_symbols() {
        let symbols = BTreeMap::from([(9, "tile".to_owned())]);
        let mut data = sized(REGISTERS, &[9, 42]);
        data.extend(sized(FRAME_SIZE, &[7, 16]));
        assert_eq!(file_attributes(&data, &symbols).unwrap(), [("tile".to_owned(), REGISTERS, 42)]);
        assert!(file_attributes(&sized(REGISTERS, &[9]), &symbols).is_err());
    }

    #[test]
    fn a_record_has_each_kernel_and_the_largest_of_all() {
        let usage = |symbol: &str, registers, spills| Usage {
            symbol: symbol.to_owned(),
            registers: Some(registers),
            spill_store_bytes: spills,
            ..Usage::default()
        };
        let mut usages = vec![usage("a", 10, None), usage("b", 40, None)];
        complete(
            &mut usages,
            &BTreeMap::from([("b.spill_store_bytes".to_owned(), 8), ("b.registers".to_owned(), 99)]),
        );
        let found = resources(&usages);
        for (name, value) in
            [("a.registers", 10), ("b.registers", 40), ("registers", 40), ("b.spill_store_bytes", 8)]
        {
            assert_eq!(found.get(name), Some(&value), "{name} in {found:?}");
        }
        assert_eq!(found.get("a.spill_store_bytes"), None, "unknown is not 0");
        let many: Vec<Usage> = (0..200).map(|index| usage(&format!("k{index}"), index, None)).collect();
        let found = resources(&many);
        assert_eq!((found.get("registers"), found.get("k199.registers")), (Some(&199), None));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
            let _ = of_cubin(&bytes, 90);
            let _ = own_attributes("k", &bytes, &mut Usage::default());
            let _ = file_attributes(&bytes, &BTreeMap::new());
        }
    }
}
