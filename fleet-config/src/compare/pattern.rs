//! What wrong elements have in common: places, sizes and signs, claimed only where every wrong element bears it out.

use super::{Output, POISON, Rule, absolute_error, text, total};
use crate::domain::encoding::{Number, read};
use crate::domain::{Decimal, Mismatch, Worst};

/// A ratio or an offset is one number if its extremes are this close, relative to it.
const LIKENESS: f64 = 1e-3;
/// Threads of a block: what a first block of one element a thread may cover.
const BLOCK_MAX: u64 = 1024;
/// Blocks are whole warps.
const WARP: u64 = 32;

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
pub(super) struct Pattern {
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
    /// Smallest and largest of got over expected, while all are finite and no expected one is zero.
    factors: Option<(f64, f64)>,
    /// Smallest and largest magnitude of what was expected.
    magnitudes: (f64, f64),
    zero: bool,
    /// The largest finite error with its element.
    worst: Option<(f64, u64, Number, Number)>,
}

impl Pattern {
    pub(super) fn starting(first: u64, expected: Number, got: Number) -> Self {
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
            factors: Some((f64::INFINITY, f64::NEG_INFINITY)),
            magnitudes: (f64::INFINITY, f64::NEG_INFINITY),
            zero: true,
            worst: None,
        }
    }

    pub(super) fn add(&mut self, index: u64, shape: &[u64], expected: Number, got: Number, bytes: &[u8]) {
        let poison = POISON
            .into_iter()
            .find(|poison| bytes.iter().all(|byte| byte == poison))
            .filter(|poison| self.count == 0 || self.untouched == Some(*poison));
        self.untouched = poison;
        self.count += 1;
        (self.last, self.stride) = (index, divisor(self.stride, index - self.first));
        let offset = difference(expected, got).filter(|offset| offset.is_finite());
        self.offsets = self.offsets.zip(offset).map(|((low, high), one)| (low.min(one), high.max(one)));
        let (left, right) = (real(expected), real(got));
        let factor = Some(right / left).filter(|factor| factor.is_finite());
        self.factors = self.factors.zip(factor).map(|((low, high), one)| (low.min(one), high.max(one)));
        self.magnitudes = (self.magnitudes.0.min(left.abs()), self.magnitudes.1.max(left.abs()));
        self.zero &= right == 0.0;
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

    /// The first of them with what all have in common; `transposed` if the whole output is right but for that.
    pub(super) fn mismatch(self, output: &Output<'_>, transposed: bool) -> Mismatch {
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
            pattern: self.hints(output.shape, total, transposed).join(", "),
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
        let is_one = middle != 0.0 && (high - low).abs() <= middle.abs() * LIKENESS;
        is_one.then(|| format!("constant offset of about {middle:.4e}"))
    }

    /// Whether all wrong elements are zero, or the expected ones times one factor. Values that hardly differ would bear out
    /// a factor by chance, and an offset explains them as well.
    fn constant_factor(&self) -> Option<String> {
        if self.count < 3 {
            return None;
        }
        if self.zero {
            return Some("zero where wrong".to_owned());
        }
        let (low, high) = self.factors?;
        let middle = f64::midpoint(low, high);
        let is_one = (high - low).abs() <= middle.abs() * LIKENESS;
        let (least, most) = self.magnitudes;
        let spreads = most > least * (1.0 + 10.0 * LIKENESS);
        (is_one && spreads).then(|| match middle {
            middle if (middle + 1.0).abs() <= LIKENESS => "sign flipped".to_owned(),
            middle => format!("off by a constant factor of about {middle:.4}"),
        })
    }

    /// Whether the beginning is right, as long as a block may be, and all after it is wrong.
    fn first_block(&self, total: u64) -> Option<String> {
        let is_block = self.first.is_multiple_of(WARP) && (WARP..=BLOCK_MAX).contains(&self.first);
        (is_block && self.count == total - self.first && total / 2 >= self.first).then(|| {
            format!(
                "the first {} elements right and all others wrong, as where only the first block works",
                self.first
            )
        })
    }

    fn hints(&self, shape: &[u64], total: u64, transposed: bool) -> Vec<String> {
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
        } else if let Some(block) = self.first_block(total) {
            hints.push(block);
        } else if let Some(places) = self.places(total) {
            hints.push(places);
        } else if self.count == total - self.first {
            // Few elements at the end are what a missing remainder loop leaves.
            let tail = if self.count <= total / 8 { "tail: " } else { "" };
            hints.push(format!("{tail}only from index {} on", self.first));
        }
        if transposed {
            hints.push("transposed: each element stands where its mirror image belongs".to_owned());
        } else if self.untouched.is_none() {
            let offset = self.constant_offset().filter(|_| self.count == total);
            hints.extend(offset.or_else(|| self.constant_factor()));
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

/// Whether `got` is `expected` with rows and columns of its innermost matrices exchanged, element for element within the
/// tolerance.
pub(super) fn is_transposed(
    output: &Output<'_>,
    rule: &Rule,
    expected: &[u8],
    got: &[u8],
    width: usize,
) -> bool {
    let [.., rows, columns] = output.shape else { return false };
    let narrow = |side: &u64| usize::try_from(*side).unwrap_or(0);
    let (rows, columns) = (narrow(rows), narrow(columns));
    let matrix = rows.saturating_mul(columns).saturating_mul(width);
    if rows < 2 || columns < 2 || matrix == 0 {
        return false;
    }
    let element = |bytes: &[u8], at: usize| {
        bytes.get(at * width..(at + 1) * width).and_then(|one| read(output.element, one))
    };
    expected.chunks_exact(matrix).zip(got.chunks_exact(matrix)).all(|(expected, got)| {
        (0..rows * columns).all(|at| {
            let (row, column) = (at / columns, at % columns);
            let (left, right) = (element(expected, at), element(got, column * rows + row));
            left.zip(right).is_some_and(|(left, right)| rule.accepts(left, right))
        })
    })
}

fn real(number: Number) -> f64 {
    match number {
        Number::Real(value) => value,
        Number::Integer(value) => value as f64,
    }
}
