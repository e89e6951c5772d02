//! Inputs, exact to the bit on every machine.
//!
//! The specification, version 1. One buffer is drawn from one Philox4x32-10 stream:
//! * key: the first eight bytes, as two little-endian words, of
//!   blake3("muster.input/1\0" ‖ seed u64 LE ‖ case name ‖ 0 ‖ parameter name ‖ 0 ‖ draw u32 LE);
//! * counter: (index low, index high, 0, 0); the first two words of the block are 64 bits r, first word low.
//!
//! All arithmetic is IEEE 754 double, rounded after every + − × ÷ √, never fused, and the result is rounded
//! once to the element type ([`crate::domain::encoding`]):
//! * uniform: low + (high − low) × u, where u is the top 24 bits of the first word ÷ 2^24, or for f64 the top 53
//!   bits of r ÷ 2^53; an element that rounding carried to `high` or beyond becomes the next one below;
//! * normal: mean + std × q((k + ½) ÷ 2^52), where k is the top 52 bits of r and q is AS 241 ([`mod@normal`]);
//! * integers: low + ⌊r × (high − low) ÷ 2^64⌋; arange: start + index × step; constant: the value;
//! * adapted: the integers, arange or constant within; with the fit `cast` integers wrap to the width of the
//!   element, a constant loses its fraction first where the element is an integer, a bool is true from anything but
//!   zero, and floats are rounded once, through a double, to infinity where they overflow;
//! * poison: every byte is 0xFF, or 0x7B where the lowest bit of r of index 0 is set;
//! * specials overwrite single elements at the end.

mod normal;
mod philox;

use crate::domain::encoding::{Number, integers, nearest, push_cast, push_integer, push_real, read};
use crate::domain::{ElementType, Fit, Input, Seed, Special, SpecialValue};
use philox::Stream;

/// Raised when any element of any draw changes; part of every record.
pub const VERSION: u64 = 1;

/// Most bytes of one buffer (1 TiB): beyond any device, so that sizes cannot overflow.
pub const BYTES_MAX: u64 = 1 << 40;

/// Why an input cannot be drawn. All but `File` and `Memory` are found by [`check`] before anything runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GeneratorError {
    #[error("elements of type {0} are reserved; nothing can be drawn yet")]
    Reserved(ElementType),
    #[error("{0} elements are more than one buffer may hold")]
    Size(u64),
    #[error("the range from {0} to {1} is empty or too wide")]
    Range(String, String),
    #[error("a standard deviation of {0} is negative")]
    Deviation(String),
    #[error("the value {0} is not exact in {1}")]
    NotExact(String, ElementType),
    #[error("{0} has no nan, inf or -inf")]
    NoSpecials(ElementType),
    #[error("the special value at index {index} lies outside of the {count} elements")]
    SpecialIndex { index: u64, count: u64 },
    #[error("only integers, arange and constant can be adapted, and only by a cast or by specials")]
    Adapted,
    #[error("a file input is read, not drawn")]
    File,
    #[error("no memory for {0} bytes of input")]
    Memory(u64),
}

/// Whether `count` elements of type `element` can be drawn from `input` ([`Input::File`] is always fine).
pub fn check(input: &Input, element: ElementType, count: u64) -> Result<(), GeneratorError> {
    if element.is_reserved() {
        return Err(GeneratorError::Reserved(element));
    }
    let width = element.bytes().ok_or(GeneratorError::Reserved(element))?;
    if count.checked_mul(width).is_none_or(|bytes| bytes > BYTES_MAX) {
        return Err(GeneratorError::Size(count));
    }
    match input {
        Input::Normal { mean: _, std, specials } => {
            if std.value() < 0.0 {
                return Err(GeneratorError::Deviation(std.to_string()));
            }
            check_specials(specials, element, count)
        }
        Input::Uniform { low, high, specials } => {
            let width = high.value() - low.value();
            if !(width > 0.0 && width.is_finite()) {
                return Err(GeneratorError::Range(low.to_string(), high.to_string()));
            }
            check_specials(specials, element, count)
        }
        Input::Integers { low, high } => {
            if low >= high {
                return Err(GeneratorError::Range(low.to_string(), high.to_string()));
            }
            check_integer(i128::from(*low), element)?;
            check_integer(i128::from(*high) - 1, element)
        }
        Input::Arange { start, step } => {
            let last = i128::from(*start) + i128::from(*step) * i128::from(count.max(1) - 1);
            check_integer(i128::from(*start), element)?;
            check_integer(last, element)
        }
        Input::Constant { value } => {
            let real = value.value();
            if !element.is_exact() {
                return Ok(());
            }
            if real.fract() != 0.0 || real.abs() > 9_007_199_254_740_992.0 {
                return Err(GeneratorError::NotExact(value.to_string(), element));
            }
            check_integer(real as i128, element)
        }
        Input::Adapted { draw, fit, specials } => check_adapted(draw, *fit, specials, element, count),
        Input::Poison => Ok(()),
        Input::File { blob: _ } => Ok(()),
    }
}

fn check_adapted(
    draw: &Input,
    fit: Fit,
    specials: &[Special],
    element: ElementType,
    count: u64,
) -> Result<(), GeneratorError> {
    // One input has one spelling: what adapts nothing is the draw itself.
    if fit == Fit::Exact && specials.is_empty() {
        return Err(GeneratorError::Adapted);
    }
    check_specials(specials, element, count)?;
    match (draw, fit) {
        (Input::Integers { .. } | Input::Arange { .. } | Input::Constant { .. }, Fit::Exact) => {
            check(draw, element, count)
        }
        (Input::Integers { low, high }, Fit::Cast) if low >= high => {
            Err(GeneratorError::Range(low.to_string(), high.to_string()))
        }
        (Input::Integers { .. } | Input::Arange { .. } | Input::Constant { .. }, Fit::Cast) => Ok(()),
        (
            Input::Normal { .. }
            | Input::Uniform { .. }
            | Input::Adapted { .. }
            | Input::Poison
            | Input::File { .. },
            _,
        ) => Err(GeneratorError::Adapted),
    }
}

/// The little-endian bytes of one buffer of `count` elements. `case` and `parameter` name the buffer, `draw`
/// counts redraws of one seed. Speed: about 20 ns an element. Errors: those of [`check`], a file input
/// (`GeneratorError::File`: the caller reads the blob), and no memory.
pub fn draw(
    input: &Input,
    element: ElementType,
    count: u64,
    seed: Seed,
    case: &str,
    parameter: &str,
    draw: u32,
) -> Result<Vec<u8>, GeneratorError> {
    check(input, element, count)?;
    let size = count * element.bytes().ok_or(GeneratorError::Reserved(element))?;
    let mut bytes = Vec::new();
    usize::try_from(size)
        .ok()
        .and_then(|size| bytes.try_reserve_exact(size).ok())
        .ok_or(GeneratorError::Memory(size))?;
    let stream = stream(seed, case, parameter, draw);
    fill(&mut bytes, input, element, count, stream)?;
    Ok(bytes)
}

/// Draws into `bytes`, which are empty and have room for all of them.
fn fill(
    bytes: &mut Vec<u8>,
    input: &Input,
    element: ElementType,
    count: u64,
    stream: Stream,
) -> Result<(), GeneratorError> {
    match input {
        Input::Normal { mean, std, specials } => {
            let (mean, std) = (mean.value(), std.value());
            for index in 0..count {
                let probability = ((stream.bits(index) >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
                push_real(bytes, element, mean + std * normal::quantile(probability));
            }
            overwrite(bytes, element, specials);
        }
        Input::Uniform { low, high, specials } => {
            uniform(bytes, element, count, stream, [low.value(), high.value()]);
            overwrite(bytes, element, specials);
        }
        Input::Integers { low, high } => {
            (0..count).for_each(|index| push_integer(bytes, element, integer(stream, index, *low, *high)));
        }
        Input::Arange { start, step } => {
            for index in 0..count {
                push_integer(bytes, element, at(index, *start, *step) as i64);
            }
        }
        Input::Constant { value } => (0..count).for_each(|_| push_real(bytes, element, value.value())),
        Input::Adapted { draw, fit, specials } => {
            match fit {
                Fit::Exact => fill(bytes, draw, element, count, stream)?,
                Fit::Cast => cast(bytes, draw, element, count, stream),
            }
            overwrite(bytes, element, specials);
        }
        Input::Poison => {
            let byte = if stream.bits(0) & 1 == 0 { POISON[0] } else { POISON[1] };
            bytes.resize(bytes.capacity(), byte);
            let size = count.saturating_mul(element.bytes().unwrap_or(0));
            bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        }
        Input::File { blob: _ } => return Err(GeneratorError::File),
    }
    Ok(())
}

/// The two bytes of poison: NaN or -1, and a large finite number or 123 repeated.
const POISON: [u8; 2] = [0xFF, 0x7B];

/// Element `index` of a draw of integers.
fn integer(stream: Stream, index: u64, low: i64, high: i64) -> i64 {
    let width = (i128::from(high) - i128::from(low)).unsigned_abs();
    let offset = (u128::from(stream.bits(index)) * width) >> 64;
    low.wrapping_add(offset as i64)
}

/// Element `index` of an arange; cannot overflow, as both factors have 64 bits.
fn at(index: u64, start: i64, step: i64) -> i128 {
    i128::from(start) + i128::from(index) * i128::from(step)
}

/// The draws that may be cast, cast; [`check`] lets no other through.
fn cast(bytes: &mut Vec<u8>, draw: &Input, element: ElementType, count: u64, stream: Stream) {
    for index in 0..count {
        match draw {
            Input::Integers { low, high } => {
                push_cast(bytes, element, Number::Integer(integer(stream, index, *low, *high).into()));
            }
            Input::Arange { start, step } => {
                push_cast(bytes, element, Number::Integer(at(index, *start, *step)));
            }
            Input::Constant { value } => push_cast(bytes, element, Number::Real(value.value())),
            Input::Normal { .. }
            | Input::Uniform { .. }
            | Input::Adapted { .. }
            | Input::Poison
            | Input::File { .. } => {}
        }
    }
}

fn stream(seed: Seed, case: &str, parameter: &str, draw: u32) -> Stream {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"muster.input/1\0");
    hasher.update(&seed.0.to_le_bytes());
    hasher.update(case.as_bytes()).update(&[0]);
    hasher.update(parameter.as_bytes()).update(&[0]);
    hasher.update(&draw.to_le_bytes());
    Stream::of(hasher.finalize().as_bytes())
}

fn uniform(bytes: &mut Vec<u8>, element: ElementType, count: u64, stream: Stream, range: [f64; 2]) {
    let [low, high] = range;
    let width = high - low;
    for index in 0..count {
        let bits = stream.bits(index);
        let unit = if element == ElementType::F64 {
            (bits >> 11) as f64 / (1_u64 << 53) as f64
        } else {
            f64::from((bits as u32) >> 8) / f64::from(1 << 24)
        };
        let start = bytes.len();
        push_real(bytes, element, low + width * unit);
        if !element.is_exact()
            && matches!(read(element, &bytes[start..]), Some(Number::Real(value)) if value >= high)
        {
            step_down(&mut bytes[start..]);
        }
    }
}

/// Replaces a finite float by the next one below: its bits are ordered as sign and magnitude.
fn step_down(element: &mut [u8]) {
    let width = element.len();
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(element);
    let bits = u64::from_le_bytes(wide);
    let sign = 1_u64 << (8 * width - 1);
    let below = match bits {
        0 => sign | 1,
        _ if bits & sign == 0 => bits - 1,
        _ => bits + 1,
    };
    element.copy_from_slice(&below.to_le_bytes()[..width]);
}

fn overwrite(bytes: &mut [u8], element: ElementType, specials: &[Special]) {
    for special in specials {
        let value = match special.value {
            SpecialValue::Nan => f64::NAN,
            SpecialValue::Inf => f64::INFINITY,
            SpecialValue::NegInf => f64::NEG_INFINITY,
        };
        let Some(encoded) = nearest(element, value) else { continue };
        let start = usize::try_from(special.index).unwrap_or(usize::MAX).saturating_mul(encoded.len());
        if let Some(place) = bytes.get_mut(start..start.saturating_add(encoded.len())) {
            place.copy_from_slice(&encoded);
        }
    }
}

fn check_specials(specials: &[Special], element: ElementType, count: u64) -> Result<(), GeneratorError> {
    if !specials.is_empty() && element.is_exact() {
        return Err(GeneratorError::NoSpecials(element));
    }
    match specials.iter().find(|special| special.index >= count) {
        Some(special) => Err(GeneratorError::SpecialIndex { index: special.index, count }),
        None => Ok(()),
    }
}

/// Whether every integer up to `value` is exact in `element`.
pub(crate) fn check_integer(value: i128, element: ElementType) -> Result<(), GeneratorError> {
    if integers(element).is_some_and(|range| range.contains(&value)) {
        Ok(())
    } else {
        Err(GeneratorError::NotExact(value.to_string(), element))
    }
}

#[cfg(test)]
mod tests;
