//! One number for many devices: performance portability, and shares of tasks above a threshold.

/// How a threshold is meant. Two benches of the trade differ in it, so it is part of every number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threshold {
    /// Strictly more than the threshold (KernelBench).
    Above,
    /// At least the threshold (AutoKernel).
    AtLeast,
}

/// Performance portability: the harmonic mean of a source's efficiencies over a set of targets, and zero where it fails on
/// any (Pennycook, Sewall and Lee, "Implications of a metric for performance portability", Future Generation Computer
/// Systems 92, 2019, equation 1). Efficiencies are above zero; `None` is a target on which it is not valid. `None` for no
/// target.
pub fn performance_portability(efficiencies: &[Option<f64>]) -> Option<f64> {
    if efficiencies.is_empty() {
        return None;
    }
    let mut sum = 0.0;
    for efficiency in efficiencies {
        match efficiency {
            Some(efficiency) if *efficiency > 0.0 => sum += 1.0 / efficiency,
            Some(_) | None => return Some(0.0),
        }
    }
    Some(efficiencies.len() as f64 / sum)
}

/// Which of these are on the Pareto front: no other is at least as efficient on every target and more so on one. Not valid
/// counts as zero. Rows have equal lengths.
pub fn pareto_front(rows: &[Vec<Option<f64>>]) -> Vec<bool> {
    let value = |cell: &Option<f64>| cell.unwrap_or(0.0);
    let dominates = |one: &[Option<f64>], other: &[Option<f64>]| {
        let pairs = || one.iter().map(value).zip(other.iter().map(value));
        pairs().all(|(one, other)| one >= other) && pairs().any(|(one, other)| one > other)
    };
    rows.iter()
        .map(|row| {
            row.iter().any(|cell| value(cell) > 0.0) && !rows.iter().any(|other| dominates(other, row))
        })
        .collect()
}

/// fast_p: how many of these tasks have a right answer that is so much faster; `None` is a task without one, which counts
/// in the denominator (Ouyang et al., "KernelBench", 2025, §3).
pub fn fast_count(speed_ups: &[Option<f64>], p: f64, threshold: Threshold) -> u64 {
    let passes = |speed_up: &&Option<f64>| match (speed_up, threshold) {
        (Some(speed_up), Threshold::Above) => *speed_up > p,
        (Some(speed_up), Threshold::AtLeast) => *speed_up >= p,
        (None, _) => false,
    };
    speed_ups.iter().filter(passes).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portability_is_that_of_tables_computed_by_hand() {
        // 2 / (1/1 + 1/0.5) = 2/3; 3 / (1/0.9 + 1/0.6 + 1/0.3) = 3 / 6.111… = 27/55.
        for (efficiencies, expected) in [
            (vec![Some(1.0), Some(0.5)], 2.0 / 3.0),
            (vec![Some(0.9), Some(0.6), Some(0.3)], 27.0 / 55.0),
            (vec![Some(1.0); 4], 1.0),
            (vec![Some(0.25)], 0.25),
            (vec![Some(1.0), None, Some(1.0)], 0.0),
        ] {
            let found = performance_portability(&efficiencies).unwrap();
            assert!((found - expected).abs() < 1e-12, "{efficiencies:?}: {found}");
        }
        assert_eq!(performance_portability(&[]), None);
    }

    #[test]
    fn the_front_holds_what_nothing_beats_everywhere() {
        let rows = [
            vec![Some(1.0), Some(0.2)],
            vec![Some(0.5), Some(0.9)],
            vec![Some(0.4), Some(0.9)],
            vec![Some(1.0), None],
            vec![None, None],
            vec![Some(0.5), Some(0.9)],
        ];
        assert_eq!(pareto_front(&rows), [true, true, false, false, false, true]);
        assert!(pareto_front(&[]).is_empty());
    }

    #[test]
    fn a_threshold_says_whether_it_is_part_of_itself() {
        let speed_ups = [Some(1.0), Some(1.5), None, Some(0.9)];
        assert_eq!(fast_count(&speed_ups, 1.0, Threshold::Above), 1);
        assert_eq!(fast_count(&speed_ups, 1.0, Threshold::AtLeast), 2);
        assert_eq!(fast_count(&speed_ups, 0.0, Threshold::Above), 3, "the wrong one is never counted");
    }
}
