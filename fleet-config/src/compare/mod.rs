//! Comparison of an output with the expected bytes: the one rule that decides whether a result is right.

use crate::domain::encoding::{Number, read};
use crate::domain::{Decimal, ElementType, Mismatch, NanRule, Tolerance, Worst};

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
    Ok(pattern.map(|pattern| pattern.mismatch(output)))
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

/// Got less expected.
fn difference(expected: Number, got: Number) -> Option<f64> {
    match (expected, got) {
        (Number::Integer(left), Number::Integer(right)) => Some((right - left) as f64),
        (Number::Real(left), Number::Real(right)) => Some(right - left),
        (Number::Integer(_), Number::Real(_)) | (Number::Real(_), Number::Integer(_)) => None,
    }
}

/// The greatest common divisor, by Euclid.
fn divisor(left: u64, right: u64) -> u64 {
    let (mut left, mut right) = (left, right);
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}

fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        (_, _) => "th",
    };
    format!("{number}{ending}")
}

/// What all mismatching elements have in common.
struct Pattern {
    first: u64,
    expected: Number,
    got: Number,
    count: u64,
    untouched: Option<u8>,
    last_row: bool,
    last_column: bool,
    last_row_or_column: bool,
    non_finite: bool,
    last: u64,
    /// Greatest common divisor of the distances of all indices from the first.
    stride: u64,
    /// Smallest and largest of got less expected, while all are finite.
    offsets: Option<(f64, f64)>,
    /// The largest finite error with its element.
    worst: Option<(f64, u64, Number, Number)>,
}

impl Pattern {
    fn starting(first: u64, expected: Number, got: Number) -> Self {
        Self {
            first,
            expected,
            got,
            count: 0,
            untouched: None,
            last_row: true,
            last_column: true,
            last_row_or_column: true,
            non_finite: true,
            last: first,
            stride: 0,
            offsets: Some((f64::INFINITY, f64::NEG_INFINITY)),
            worst: None,
        }
    }

    fn add(&mut self, index: u64, shape: &[u64], expected: Number, got: Number, bytes: &[u8]) {
        let poison = POISON
            .into_iter()
            .find(|poison| bytes.iter().all(|byte| byte == poison))
            .filter(|poison| self.count == 0 || self.untouched == Some(*poison));
        self.untouched = poison;
        self.count += 1;
        (self.last, self.stride) = (index, divisor(self.stride, index - self.first));
        let offset = difference(expected, got).filter(|offset| offset.is_finite());
        self.offsets = self.offsets.zip(offset).map(|((low, high), one)| (low.min(one), high.max(one)));
        if let Some(error) = offset.map(f64::abs)
            && self.worst.is_none_or(|(worst, ..)| error > worst)
        {
            self.worst = Some((error, index, expected, got));
        }
        let (row, column) = last_row_and_column(index, shape);
        self.last_row &= row;
        self.last_column &= column;
        self.last_row_or_column &= row || column;
        self.non_finite &= matches!((expected, got), (Number::Real(left), Number::Real(right))
            if left.is_finite() && !right.is_finite());
    }

    fn mismatch(self, output: &Output<'_>) -> Mismatch {
        let total = total(output.shape);
        let absolute = absolute_error(self.expected, self.got).filter(|error| error.is_finite());
        let magnitude = match self.expected {
            Number::Real(value) => value.abs(),
            Number::Integer(value) => value.unsigned_abs() as f64,
        };
        let relative = absolute.map(|error| error / magnitude).filter(|error| error.is_finite());
        Mismatch {
            output: output.name.to_owned(),
            index: self.first,
            coordinates: coordinates(self.first, output.shape),
            expected: text(output.element, self.expected),
            got: text(output.element, self.got),
            absolute_error: absolute.and_then(|error| Decimal::from_f64(error).ok()),
            relative_error: relative.and_then(|error| Decimal::from_f64(error).ok()),
            count: self.count,
            total,
            pattern: self.hints(output.shape, total).join(", "),
            worst: self.furthest(output),
        }
    }

    /// The element that is furthest off, unless it is the first.
    fn furthest(&self, output: &Output<'_>) -> Option<Worst> {
        let (error, index, expected, got) = self.worst.filter(|(_, index, ..)| *index != self.first)?;
        Some(Worst {
            index,
            coordinates: coordinates(index, output.shape),
            expected: text(output.element, expected),
            got: text(output.element, got),
            absolute_error: Decimal::from_f64(error).ok()?,
        })
    }

    /// What the places of the wrong elements have in common, where they are neither all nor a last row or column.
    fn places(&self, total: u64) -> Option<String> {
        let span = self.last - self.first + 1;
        if self.first == 1 && self.count == total - 1 {
            return Some("only the first element is right".to_owned());
        }
        if self.stride > 1 && self.count > 2 && self.count == (span - 1) / self.stride + 1 {
            return Some(format!("every {} from index {} on", ordinal(self.stride), self.first));
        }
        if self.count == span && self.count > 1 && self.last + 1 < total {
            return Some(format!("one block: indices {} to {}", self.first, self.last));
        }
        None
    }

    /// Whether all wrong elements are off by the same amount, to a thousandth.
    fn constant_offset(&self) -> Option<String> {
        let (low, high) = self.offsets.filter(|_| self.count > 2)?;
        let middle = f64::midpoint(low, high);
        let is_one = middle != 0.0 && (high - low).abs() <= middle.abs() / 1000.0;
        is_one.then(|| format!("constant offset of about {middle:.4e}"))
    }

    fn hints(&self, shape: &[u64], total: u64) -> Vec<String> {
        let mut hints = Vec::new();
        if let Some(poison) = self.untouched {
            // The poison spreads through arithmetic as a NaN with the same bits.
            hints.push(format!("untouched, or fed from uninitialised memory (the poison 0x{poison:02X})"));
        }
        if self.count == total {
            hints.push("every element".to_owned());
        } else if self.last_row && shape.len() > 1 {
            hints.push("last row".to_owned());
        } else if self.last_column && shape.len() > 1 {
            hints.push("last column".to_owned());
        } else if self.last_row_or_column && shape.len() > 1 {
            hints.push("last row and last column".to_owned());
        } else if let Some(places) = self.places(total) {
            hints.push(places);
        } else if self.count == total - self.first {
            // Few elements at the end are what a missing remainder loop leaves.
            let tail = if self.count <= total / 8 { "tail: " } else { "" };
            hints.push(format!("{tail}only from index {} on", self.first));
        }
        if let (Some(offset), None, true) = (self.constant_offset(), self.untouched, self.count == total) {
            hints.push(offset);
        }
        if self.non_finite && self.untouched.is_none() {
            hints.push("non-finite".to_owned());
        }
        hints
    }
}

/// Whether the element lies in the last row or column of its innermost matrix.
fn last_row_and_column(index: u64, shape: &[u64]) -> (bool, bool) {
    match shape {
        [.., rows, columns] => {
            let (row, column) = (index / columns.max(&1) % rows.max(&1), index % columns.max(&1));
            (row + 1 == *rows && *rows > 1, column + 1 == *columns && *columns > 1)
        }
        [] | [_] => (false, false),
    }
}

fn coordinates(index: u64, shape: &[u64]) -> Vec<u64> {
    let mut rest = index;
    let mut reversed: Vec<u64> = shape
        .iter()
        .rev()
        .map(|side| {
            let place = rest % side.max(&1);
            rest /= side.max(&1);
            place
        })
        .collect();
    reversed.reverse();
    reversed
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
