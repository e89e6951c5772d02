//! Shapes that the task allows and no case has: odd and far from powers of two, where kernels break. Pure.

use fleet_config::domain::{Case, CaseKind, Nonce, SweepRange, Task, Validation};
use std::collections::BTreeMap;

/// Shapes of one attempt.
const SHAPES: u32 = 4;
/// Buffers of a shape together: it is there to be right, not to be long.
const BYTES_MAX: u64 = 16 << 20;
/// Halvings until a shape is given up: a range has fewer.
const HALVINGS_MAX: u32 = 64;
/// Neighbours of a drawn size that are looked at for an odd one.
const NEIGHBOURS: i64 = 8;

/// The shapes that this attempt is tried on, drawn from what no candidate can know.
pub(super) fn shapes(task: &Task, validation: &Validation, nonce: Nonce) -> Vec<Case> {
    let Some(base) = base(task).filter(|_| !validation.sweep.is_empty()) else { return Vec::new() };
    let mut found: Vec<Case> = Vec::new();
    for number in 0..SHAPES {
        let mut dims = base.dims.clone();
        for (dim, range) in &validation.sweep {
            dims.insert(dim.clone(), size(*range, nonce, dim, number));
        }
        if fit(task, validation, &mut dims) && task.cases.iter().chain(&found).all(|case| case.dims != dims) {
            found.push(Case {
                name: name(&dims),
                kind: CaseKind::Correctness,
                dims,
                inputs: base.inputs.clone(),
            });
        }
    }
    found
}

/// Sizes at which kernels begin to differ: warps, tiles and blocks, with their neighbours.
const TELLING: [i64; 16] = [1, 2, 3, 4, 31, 32, 33, 48, 63, 64, 65, 96, 100, 127, 128, 130];

/// Shapes that tell for which sizes a kernel is wrong: one swept dimension at a time, the others as in the first case
/// that only has to be right. At most `most` of them.
pub(super) fn survey(task: &Task, validation: &Validation, most: usize) -> Vec<Case> {
    let Some(base) = base(task) else { return Vec::new() };
    let each = most / validation.sweep.len().max(1);
    let mut found: Vec<Case> = Vec::new();
    for (dim, SweepRange { low, high, multiple_of }) in &validation.sweep {
        let step = (*multiple_of).max(1);
        let sizes = TELLING.into_iter().map(|size| size * step).filter(|size| (*low..=*high).contains(size));
        for size in sizes.take(each) {
            let mut dims = base.dims.clone();
            dims.insert(dim.clone(), size);
            if is_small(task, &dims) && task.cases.iter().chain(&found).all(|case| case.dims != dims) {
                let (kind, inputs) = (CaseKind::Correctness, base.inputs.clone());
                found.push(Case { name: name(&dims), kind, dims, inputs });
            }
        }
    }
    found
}

/// Whether the buffers of a shape are small enough to be run for its answer alone.
pub(super) fn is_small(task: &Task, dims: &BTreeMap<String, i64>) -> bool {
    bytes(task, dims).is_some_and(|bytes| bytes <= task.limits.memory.0.min(BYTES_MAX))
}

fn bytes(task: &Task, dims: &BTreeMap<String, i64>) -> Option<u64> {
    task.params
        .iter()
        .try_fold(0_u64, |total, param| total.checked_add(param.buffer_bytes(dims).ok()?.unwrap_or(0)))
}

/// The case whose inputs and unswept dimensions the shapes have: the first that only has to be right.
fn base(task: &Task) -> Option<&Case> {
    task.cases.iter().find(|case| case.kind == CaseKind::Correctness).or(task.cases.first())
}

fn name(dims: &BTreeMap<String, i64>) -> String {
    let sizes: Vec<String> = dims.iter().map(|(dim, size)| format!("{dim}={size}")).collect();
    format!("shape {}", sizes.join(" "))
}

/// The first shape is as small as may be, the second beside a power of two, the others anywhere.
fn size(range: SweepRange, nonce: Nonce, dim: &str, number: u32) -> i64 {
    let SweepRange { low, high, multiple_of } = range;
    let step = multiple_of.max(1);
    let first = low.max(1).saturating_add(step - 1) / step * step;
    let last = (high - high % step).max(first);
    let drawn = |span: i64| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"muster.sweep/1\0").update(nonce.as_bytes());
        hasher.update(dim.as_bytes()).update(&number.to_le_bytes());
        let mut word = [0_u8; 8];
        hasher.finalize_xof().fill(&mut word);
        let scaled = (u128::from(u64::from_le_bytes(word)) * (u128::from(span.unsigned_abs()) + 1)) >> 64;
        i64::try_from(scaled).unwrap_or(0)
    };
    let aligned = |value: i64| (value - value % step).clamp(first, last);
    match number {
        0 => first,
        1 => {
            let power =
                1_i64 << (62 - drawn(last - first).saturating_add(first).leading_zeros().min(62)).min(40);
            let above = power + step;
            awkward(aligned(if above <= last { above } else { power - 1 }), first, last, step)
        }
        2 => awkward(aligned(first + drawn((last - first) / 8)), first, last, step),
        _ => awkward(aligned(first + drawn(last - first)), first, last, step),
    }
}

/// The nearest size from `value` on that is odd and no power of two, or as near to that as the range allows.
fn awkward(value: i64, first: i64, last: i64, step: i64) -> i64 {
    let near = || {
        (0..NEIGHBOURS)
            .flat_map(move |away| [value + away * step, value - away * step])
            .filter(move |size| (first..=last).contains(size))
    };
    let is_power = |size: i64| size.count_ones() == 1;
    let odd = near().find(|size| size % 2 == 1 && !is_power(*size));
    odd.or_else(|| near().find(|size| !is_power(*size))).unwrap_or(value)
}

/// Halves the largest swept dimension until the buffers are small enough.
fn fit(task: &Task, validation: &Validation, dims: &mut BTreeMap<String, i64>) -> bool {
    let limit = task.limits.memory.0.min(BYTES_MAX);
    for _ in 0..HALVINGS_MAX {
        if bytes(task, dims).is_some_and(|bytes| bytes <= limit) {
            return true;
        }
        let shrunk = |dim: &String, range: &SweepRange| {
            let step = range.multiple_of.max(1);
            let first = range.low.max(1).saturating_add(step - 1) / step * step;
            let half = dims.get(dim).copied().unwrap_or(first) / 2;
            (half >= first).then(|| awkward(half - half % step, first, range.high, step).max(first))
        };
        let largest = validation
            .sweep
            .iter()
            .filter_map(|(dim, range)| Some((dims.get(dim).copied()?, dim.clone(), shrunk(dim, range)?)))
            .max();
        let Some((_, dim, size)) = largest else { return false };
        dims.insert(dim, size);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests_task;
    use fleet_config::domain::Bytes;

    fn swept(low: i64, high: i64, multiple_of: i64) -> Validation {
        let range = SweepRange { low, high, multiple_of };
        Validation { sweep: BTreeMap::from([("n".to_owned(), range)]), ..Validation::default() }
    }

    fn sizes(validation: &Validation, nonce: u8) -> Vec<i64> {
        let shapes = shapes(&tests_task(), validation, Nonce([nonce; 32]));
        shapes.iter().map(|case| case.dims["n"]).collect()
    }

    #[test]
    fn shapes_lie_in_their_range_and_are_odd_where_that_is_allowed() {
        for nonce in 0..50 {
            let found = sizes(&swept(1, 5000, 1), nonce);
            assert!(found.len() >= 3 && found[0] == 1, "{found:?}");
            assert!(found[1..].iter().all(|n| n % 2 == 1 && n.count_ones() > 1 && *n <= 5000), "{found:?}");
            let found = sizes(&swept(4, 4096, 4), nonce);
            assert!(found.iter().all(|n| n % 4 == 0 && (4..=4096).contains(n)), "{found:?}");
        }
        assert_ne!(sizes(&swept(1, 5000, 1), 1), sizes(&swept(1, 5000, 1), 2), "drawn from the nonce");
        assert_eq!(sizes(&swept(9, 9, 1), 1), [9], "one size is one shape");
        assert!(sizes(&swept(7, 7, 1), 1).is_empty(), "a case has it already");
        assert!(sizes(&Validation::default(), 1).is_empty());
    }

    #[test]
    fn a_shape_that_is_too_large_is_halved_until_it_fits() {
        let mut task = tests_task();
        task.limits.memory = Bytes(8_000);
        for nonce in 0..20 {
            let found = shapes(&task, &swept(1, 1 << 30, 1), Nonce([nonce; 32]));
            assert!(!found.is_empty() && found.iter().all(|case| case.dims["n"] <= 1000), "{found:?}");
        }
        let none = shapes(&task, &swept(1 << 20, 1 << 30, 1), Nonce([1; 32]));
        assert!(none.is_empty(), "nothing in the range fits");
    }
}
