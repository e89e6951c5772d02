//! One documented field of a GPU's fingerprint, and how NVML is asked for it.

use fleet_config::domain::{Fact, Facts};
use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;

/// A value, or why there is none.
pub(super) type Read = Result<Fact, NvmlError>;

/// A field. `docs/FINGERPRINT.md` lists every row of every table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub name: &'static str,
    /// How the number is to be read; empty for words and flags.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page's test reads it"))]
    pub unit: &'static str,
    /// The call that it comes from, as NVIDIA's documentation names it.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page's test reads it"))]
    pub call: &'static str,
    pub read: fn(&Device<'static>) -> Read,
}

/// The seam behind which NVML is.
pub(super) trait Sensors {
    /// The value of a row, or why there is none.
    fn read(&self, row: &Row) -> Fact;
}

/// A device of NVML, or why there is none.
impl Sensors for Result<Device<'static>, String> {
    fn read(&self, row: &Row) -> Fact {
        match self {
            Ok(device) => (row.read)(device).unwrap_or_else(|error| Fact::Unknown(error.to_string())),
            Err(reason) => Fact::Unknown(reason.clone()),
        }
    }
}

/// Every row of `rows`.
pub(super) fn read_all(sensors: &dyn Sensors, rows: &[Row]) -> Facts {
    rows.iter().map(|row| (row.name.to_owned(), sensors.read(row))).collect()
}

pub(super) fn count(number: impl Into<u64>) -> Read {
    Ok(Fact::Count(number.into()))
}

pub(super) fn text(text: impl Into<String>) -> Read {
    Ok(Fact::Text(text.into()))
}

pub(super) fn flag(flag: bool) -> Read {
    Ok(Fact::Flag(flag))
}

/// A word of NVML's own, as `ExclusiveProcess`.
pub(super) fn word(word: &dyn std::fmt::Debug) -> Read {
    Ok(Fact::Text(format!("{word:?}")))
}
