//! Several kernels of one whole: which first, when to move on, what all of them gain (Amdahl, AFIPS 1967).

use serde::Serialize;
use std::time::Duration;

/// Speed-up of the whole if a part of this share took no time: infinite where it is all of it.
pub fn bound(share: f64) -> f64 {
    1.0 / (1.0 - share)
}

/// Speed-up of the whole: 1 / (1 − Σ f (1 − 1 / s)) over parts of share f that became s times as fast. Parts that did not
/// become faster count as they were: nobody integrates them.
pub fn whole(parts: &[(f64, f64)]) -> f64 {
    let saved: f64 = parts.iter().filter(|(_, s)| *s > 1.0).map(|(share, s)| share * (1.0 - 1.0 / s)).sum();
    1.0 / (1.0 - saved)
}

/// A kernel of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub name: String,
    /// Of the whole's device time, 0 to 1.
    pub share: f64,
    /// What is hoped for, where the profile or its reader says something.
    pub hoped: Option<f64>,
    /// What has been reached.
    pub reached: f64,
    /// The task that stands for it.
    pub task: Option<String>,
}

/// A profile in order of what the whole gains.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    pub kernels: Vec<Planned>,
    /// Shares of all of them together.
    pub covered: f64,
    /// Speed-up of the whole by what has been reached.
    pub reached: f64,
    /// Speed-up of the whole if each reaches what is hoped for it.
    pub hoped: f64,
    /// Speed-up of the whole if the first kernels each became so many times as fast.
    pub what_if: Vec<WhatIf>,
    /// The kernel to work on next.
    pub next: Option<String>,
}

/// One kernel of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Planned {
    pub name: String,
    pub share: f64,
    pub hoped: f64,
    pub reached: f64,
    /// Speed-up of the whole if this one alone reaches what is hoped.
    pub gain: f64,
    /// Speed-up of the whole if this one alone took no time.
    pub bound: f64,
    pub task: Option<String>,
}

/// One cell of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WhatIf {
    pub kernels: usize,
    pub speedup: f64,
    pub whole: f64,
}

const GRID_SPEEDUPS: [f64; 4] = [1.5, 2.0, 3.0, 5.0];
const GRID_KERNELS: [usize; 4] = [1, 3, 5, 10];

impl Plan {
    /// The `top` kernels by what the whole gains where each reaches what is hoped (`assumed` where nothing is said). The
    /// next one is the first that has not reached it.
    pub fn of(parts: &[Part], top: usize, assumed: f64) -> Self {
        let planned = |part: &Part| {
            let hoped = part.hoped.unwrap_or(assumed);
            Planned {
                name: part.name.clone(),
                share: part.share,
                hoped,
                reached: part.reached,
                gain: whole(&[(part.share, hoped)]),
                bound: bound(part.share),
                task: part.task.clone(),
            }
        };
        let mut kernels: Vec<Planned> = parts.iter().map(planned).collect();
        // A stable sort: what gains the same stays in the order of the profile.
        kernels.sort_by(|a, b| b.gain.total_cmp(&a.gain));
        kernels.truncate(top);
        let of = |speedup: &dyn Fn(&Planned) -> f64, count: usize| {
            let parts: Vec<(f64, f64)> =
                kernels.iter().take(count).map(|kernel| (kernel.share, speedup(kernel))).collect();
            whole(&parts)
        };
        let counts = GRID_KERNELS.into_iter().filter(|count| *count <= kernels.len());
        let what_if = counts
            .flat_map(|count| GRID_SPEEDUPS.map(|speedup| (count, speedup)))
            .map(|(count, speedup)| WhatIf { kernels: count, speedup, whole: of(&|_| speedup, count) })
            .collect();
        let next =
            kernels.iter().find(|kernel| kernel.reached < kernel.hoped).map(|kernel| kernel.name.clone());
        Self {
            covered: kernels.iter().map(|kernel| kernel.share).sum(),
            reached: of(&|kernel| kernel.reached, kernels.len()),
            hoped: of(&|kernel| kernel.hoped, kernels.len()),
            what_if,
            next,
            kernels,
        }
    }
}

/// How work on one kernel stands. Its time is its own: another kernel's hours are not counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    pub reverts_in_a_row: u32,
    /// Share of the device's peak, where somebody measured it.
    pub of_peak: Option<f64>,
    pub spent: Duration,
    pub speedup: f64,
}

/// Why to go on to the next kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveOn {
    Reverts,
    NearPeak,
    Time,
    Target,
}

/// Reverts in a row after which a kernel is left.
const REVERTS_MAX: u32 = 5;
/// Share of the peak beyond which little is left to gain.
const PEAK_SHARE: f64 = 0.9;
/// Time after which the next kernel has its turn.
const SPENT_MAX: Duration = Duration::from_secs(120 * 60);
/// Speed-up with which a kernel is done.
const SPEEDUP_DONE: f64 = 2.0;

/// The first rule that says to move on, in AutoKernel's order.
pub fn move_on(progress: &Progress) -> Option<MoveOn> {
    let Progress { reverts_in_a_row, of_peak, spent, speedup } = *progress;
    if reverts_in_a_row >= REVERTS_MAX {
        return Some(MoveOn::Reverts);
    }
    if of_peak.is_some_and(|share| share >= PEAK_SHARE) {
        return Some(MoveOn::NearPeak);
    }
    if spent >= SPENT_MAX {
        return Some(MoveOn::Time);
    }
    (speedup >= SPEEDUP_DONE).then_some(MoveOn::Target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, share: f64, hoped: Option<f64>, reached: f64) -> Part {
        Part { name: name.to_owned(), share, hoped, reached, task: None }
    }

    #[test]
    fn the_check_values_hold() {
        assert!((whole(&[(0.6, 1.5)]) - 1.25).abs() < 1e-12);
        assert!((whole(&[(0.05, 3.0)]) - 1.034).abs() < 0.001);
        assert!((whole(&[(0.6, 1.5), (0.05, 3.0)]) - 1.0 / (1.0 - 0.2 - 0.1 / 3.0)).abs() < 1e-12);
        assert_eq!(whole(&[]), 1.0);
        assert_eq!(whole(&[(0.5, 0.5), (0.5, 1.0)]), 1.0, "what became slower is not used");
        assert_eq!(bound(0.5), 2.0);
        assert!(bound(1.0).is_infinite());
    }

    #[test]
    fn a_small_gain_of_a_large_share_comes_before_a_large_gain_of_a_small_one() {
        let parts = [part("small", 0.05, Some(3.0), 1.0), part("large", 0.6, Some(1.5), 1.0)];
        let plan = Plan::of(&parts, 5, 2.0);
        let order: Vec<&str> = plan.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(order, ["large", "small"]);
        assert_eq!(plan.next.as_deref(), Some("large"));
        assert!((plan.covered - 0.65).abs() < 1e-12 && plan.reached == 1.0);
        assert_eq!(plan.what_if.len(), 4, "only for as many kernels as there are");
        assert!((plan.what_if[0].whole - 1.25).abs() < 1e-12);
    }

    #[test]
    fn what_has_reached_its_hope_is_passed_over_and_what_all_gain_is_told() {
        let parts = [part("a", 0.5, None, 2.0), part("b", 0.3, None, 1.2), part("c", 0.1, None, 1.0)];
        let plan = Plan::of(&parts, 2, 2.0);
        assert_eq!(plan.kernels.len(), 2);
        assert_eq!(plan.next.as_deref(), Some("b"));
        assert!((plan.reached - whole(&[(0.5, 2.0), (0.3, 1.2)])).abs() < 1e-12);
        let done = [part("a", 0.5, None, 3.0)];
        assert_eq!(Plan::of(&done, 5, 2.0).next, None);
    }

    #[test]
    fn each_rule_moves_on_by_itself_and_the_first_one_is_named() {
        let quiet = Progress {
            reverts_in_a_row: 4,
            of_peak: Some(0.89),
            spent: Duration::from_secs(7199),
            speedup: 1.99,
        };
        assert_eq!(move_on(&quiet), None);
        let cases = [
            (Progress { reverts_in_a_row: 5, ..quiet }, MoveOn::Reverts),
            (Progress { of_peak: Some(0.9), ..quiet }, MoveOn::NearPeak),
            (Progress { spent: Duration::from_secs(7200), ..quiet }, MoveOn::Time),
            (Progress { speedup: 2.0, ..quiet }, MoveOn::Target),
            (Progress { reverts_in_a_row: 9, speedup: 9.0, ..quiet }, MoveOn::Reverts),
        ];
        for (progress, expected) in cases {
            assert_eq!(move_on(&progress), Some(expected), "{progress:?}");
        }
        assert_eq!(move_on(&Progress { of_peak: None, ..quiet }), None);
    }
}
