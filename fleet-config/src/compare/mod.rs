//! Comparison of an output with the expected bytes: the one rule that decides whether a result is right.

mod pattern;

use crate::domain::encoding::{Number, read};
use crate::domain::{Decimal, ElementType, Mismatch, NanRule, Tolerance};
use pattern::{Pattern, is_transposed};

/// Bytes that outputs are filled with before a checked launch, one per run. Both are unlikely results in every
/// element type: 0xFF… is a NaN in floats, 0x7B… a huge number in doubles and singles.
pub const POISON: [u8; 2] = [0xFF, 0x7B];

/// One output buffer as the task describes it.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    /// The parameter's name.
    pub name: &'a str,
    pub element: ElementType,
    /// Row-major; the product is the number of elements.
    pub shape: &'a [u64],
    pub tolerance: &'a Tolerance,
}

/// Why two buffers cannot be compared at all; a fault of the caller, never of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    #[error("{0} bytes were expected by the shape, but the buffers have {1} and {2}")]
    Size(u64, usize, usize),
    #[error("elements of type {0} are reserved")]
    Reserved(ElementType),
}

/// How far a good output is from the expected one; evidence for the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors {
    /// Largest absolute error; 0 for equal outputs. Elements that are not finite on both sides are left out.
    pub absolute: Decimal,
    /// Elements that differ from the expected ones at all.
    pub differing: u64,
    pub total: u64,
}

/// The first mismatch of `got` against `expected` with the pattern of all, or `None` when every element is
/// within tolerance. Both are little-endian elements of exactly the output's size.
///
/// Floats are equal if `a == b`, or if both are finite and |a − b| ≤ absolute + relative × |expected| in double
/// arithmetic, or if both are NaN and the rule is [`NanRule::Equal`]. A NaN on one side only never matches,
/// and under [`NanRule::Never`] no NaN does. Infinities match themselves alone. Integers and bool match
/// exactly.
pub fn compare(output: &Output<'_>, expected: &[u8], got: &[u8]) -> Result<Option<Mismatch>, CompareError> {
    let width = width(output, expected, got)?;
    let rule = Rule::of(output.tolerance);
    let mut pattern: Option<Pattern> = None;
    for (index, (left, right)) in (0_u64..).zip(expected.chunks_exact(width).zip(got.chunks_exact(width))) {
        // Equal bytes are equal elements unless a NaN may be among them.
        if left == right && (output.element.is_exact() || !is_nan(output.element, left)) {
            continue;
        }
        let pair = (read(output.element, left), read(output.element, right));
        let (Some(left), Some(value)) = pair else { return Err(CompareError::Reserved(output.element)) };
        if !rule.accepts(left, value) {
            pattern.get_or_insert_with(|| Pattern::starting(index, left, value)).add(
                index,
                output.shape,
                left,
                value,
                right,
            );
        }
    }
    Ok(pattern.map(|pattern| {
        // Reading all once more is the price of a wrong output alone.
        let transposed = is_transposed(output, &rule, expected, got, width);
        pattern.mismatch(output, transposed)
    }))
}

/// The largest error and the number of differing elements, whatever the tolerance says.
pub fn max_errors(output: &Output<'_>, expected: &[u8], got: &[u8]) -> Result<Errors, CompareError> {
    let width = width(output, expected, got)?;
    let (mut largest, mut differing) = (0.0_f64, 0);
    for (left, right) in expected.chunks_exact(width).zip(got.chunks_exact(width)) {
        if left == right {
            continue;
        }
        differing += 1;
        if let (Some(left), Some(right)) = (read(output.element, left), read(output.element, right)) {
            largest = largest.max(absolute_error(left, right).filter(|e| e.is_finite()).unwrap_or(0.0));
        }
    }
    let absolute = Decimal::from_f64(largest).expect("invariant: only finite errors were kept");
    Ok(Errors { absolute, differing, total: total(output.shape) })
}

fn width(output: &Output<'_>, expected: &[u8], got: &[u8]) -> Result<usize, CompareError> {
    let reserved = CompareError::Reserved(output.element);
    if output.element.is_reserved() {
        return Err(reserved);
    }
    let width = output.element.bytes().ok_or(reserved)?;
    let size = total(output.shape).saturating_mul(width);
    if expected.len() as u64 == size && got.len() as u64 == size {
        Ok(usize::try_from(width).unwrap_or(1))
    } else {
        Err(CompareError::Size(size, expected.len(), got.len()))
    }
}

fn total(shape: &[u64]) -> u64 {
    shape.iter().fold(1, |product, side| product.saturating_mul(*side))
}

fn is_nan(element: ElementType, bytes: &[u8]) -> bool {
    matches!(read(element, bytes), Some(Number::Real(value)) if value.is_nan())
}

struct Rule {
    absolute: f64,
    relative: f64,
    nan: NanRule,
}

impl Rule {
    fn of(tolerance: &Tolerance) -> Self {
        let (absolute, relative) = (tolerance.absolute.value(), tolerance.relative.value());
        Self { absolute, relative, nan: tolerance.nan }
    }

    fn accepts(&self, expected: Number, got: Number) -> bool {
        match (expected, got) {
            (Number::Integer(left), Number::Integer(right)) => left == right,
            (Number::Real(left), Number::Real(right)) => {
                if left.is_nan() || right.is_nan() {
                    return self.nan == NanRule::Equal && left.is_nan() && right.is_nan();
                }
                if left == right {
                    return true;
                }
                // An infinite difference is refused before an infinite bound could admit it.
                let error = (left - right).abs();
                error.is_finite() && error <= self.absolute + self.relative * left.abs()
            }
            (Number::Integer(_), Number::Real(_)) | (Number::Real(_), Number::Integer(_)) => false,
        }
    }
}

fn absolute_error(expected: Number, got: Number) -> Option<f64> {
    match (expected, got) {
        (Number::Integer(left), Number::Integer(right)) => Some((left - right).unsigned_abs() as f64),
        (Number::Real(left), Number::Real(right)) => Some((left - right).abs()),
        (Number::Integer(_), Number::Real(_)) | (Number::Real(_), Number::Integer(_)) => None,
    }
}

/// Shortest text that reads back as the same element; `nan`, `inf` and `-inf` for what is not finite.
fn text(element: ElementType, number: Number) -> String {
    let written = match number {
        Number::Integer(value) => return value.to_string(),
        Number::Real(value) if value.is_nan() => return "nan".to_owned(),
        Number::Real(value) if element == ElementType::F64 => format!("{value:?}"),
        // Narrower floats are exact in single precision.
        Number::Real(value) => format!("{:?}", value as f32),
    };
    written.strip_suffix(".0").map_or(written.clone(), str::to_owned)
}

#[cfg(test)]
mod tests;
