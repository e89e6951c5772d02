//! What an optimisation costs and when it pays, and whether it can be seen at all.
//!
//! Formulas as in the guide of agentic-cuda-optimizer: pilot cost = engineering + model + GPU time; GPU hours saved a
//! month = end-to-end milliseconds saved by an invocation × invocations a month / 3 600 000; payback = pilot cost / money
//! saved a month, and "never" where nothing is saved. The bound of the whole is Amdahl's (AFIPS 1967).

use super::amdahl;
use serde::Serialize;

/// Milliseconds of an hour.
const HOUR_MS: f64 = 3_600_000.0;

/// What was paid before anything was saved, in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PilotCost {
    pub engineer: f64,
    pub model: f64,
    pub gpu: f64,
}

impl PilotCost {
    pub fn total(&self) -> f64 {
        self.engineer + self.model + self.gpu
    }
}

/// Where the use of the optimised code saves time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Use {
    /// End to end, after integration; a kernel's own latency says nothing here. Below zero where it got slower.
    pub saved_ms: f64,
    pub invocations_per_month: f64,
    pub price_per_gpu_hour: f64,
}

/// What comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Payback {
    pub pilot_cost: f64,
    pub saved_gpu_hours_per_month: f64,
    pub saved_per_month: f64,
    pub months: Months,
}

/// How long it takes to pay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Months {
    After(f64),
    Never,
}

impl Payback {
    /// The three formulas. Arguments are finite and costs and counts not negative; the border sees to that.
    pub fn of(cost: &PilotCost, saving: &Use) -> Self {
        let hours = saving.saved_ms * saving.invocations_per_month / HOUR_MS;
        let saved_per_month = hours * saving.price_per_gpu_hour;
        let months =
            if saved_per_month > 0.0 { Months::After(cost.total() / saved_per_month) } else { Months::Never };
        Self { pilot_cost: cost.total(), saved_gpu_hours_per_month: hours, saved_per_month, months }
    }

    /// Whether it pays within `months`.
    pub fn within(&self, months: f64) -> bool {
        match self.months {
            Months::After(needed) => needed <= months,
            Months::Never => false,
        }
    }
}

/// What is known of the whole before any device time is spent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Whole {
    /// Part of the whole's time that the kernel takes, 0 to 1.
    pub share: f64,
    /// Time of the whole in seconds, with its scatter from run to run (standard deviation); none where not known.
    pub seconds: Option<Scatter>,
}

/// A time with its scatter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Scatter {
    pub mean: f64,
    pub deviation: f64,
}

/// Whether it is worth trying.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Feasibility {
    /// Speed-up of the whole if the kernel took no time at all.
    pub speedup_max: f64,
    /// Speed-up of the whole if the kernel reached the speed-up that is hoped for.
    pub speedup_hoped: f64,
    /// Seconds that can be saved at most.
    pub saved_seconds_max: Option<f64>,
    /// The smallest change of the whole that two runs can show: two deviations.
    pub detectable_seconds: Option<f64>,
    pub verdict: Verdict,
}

/// Go or not, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Go,
    /// Even a kernel that takes no time changes the whole by less than can be measured.
    NoGoBelowNoise,
    /// Even a kernel that takes no time changes the whole by less than one in a hundred.
    NoGoShare,
}

/// Below this gain of the whole nobody should spend a device: one in a hundred.
const GAIN_MIN: f64 = 1.01;

/// Deviations that a change must exceed to be seen between two runs.
const DETECTABLE_DEVIATIONS: f64 = 2.0;

impl Feasibility {
    /// What can come of making the kernel `hoped` times as fast.
    pub fn of(whole: &Whole, hoped: f64) -> Self {
        let speedup_max = amdahl::bound(whole.share);
        let saved_seconds_max = whole.seconds.map(|seconds| seconds.mean * whole.share);
        let detectable_seconds = whole.seconds.map(|seconds| seconds.deviation * DETECTABLE_DEVIATIONS);
        let is_hidden =
            matches!((saved_seconds_max, detectable_seconds), (Some(saved), Some(seen)) if saved < seen);
        let verdict = match (is_hidden, speedup_max < GAIN_MIN) {
            (true, _) => Verdict::NoGoBelowNoise,
            (false, true) => Verdict::NoGoShare,
            (false, false) => Verdict::Go,
        };
        Self {
            speedup_max,
            speedup_hoped: amdahl::whole(&[(whole.share, hoped)]),
            saved_seconds_max,
            detectable_seconds,
            verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within, "{found} is not {expected}");
    }

    #[test]
    fn the_worked_example_pays_back_in_fifty_months() {
        let cost = PilotCost { engineer: 900.0, model: 40.0, gpu: 60.0 };
        let saving = Use { saved_ms: 0.9, invocations_per_month: 20_000_000.0, price_per_gpu_hour: 4.0 };
        let payback = Payback::of(&cost, &saving);
        near(payback.pilot_cost, 1000.0, 0.0);
        near(payback.saved_gpu_hours_per_month, 5.0, 1e-12);
        near(payback.saved_per_month, 20.0, 1e-12);
        let Months::After(months) = payback.months else { panic!("{payback:?}") };
        near(months, 50.0, 1e-9);
        assert!(payback.within(50.1) && !payback.within(49.9));
    }

    #[test]
    fn nothing_saved_never_pays() {
        let cost = PilotCost { engineer: 1.0, model: 0.0, gpu: 0.0 };
        for (saved_ms, price) in [(0.0, 4.0), (-0.5, 4.0), (0.9, 0.0)] {
            let saving = Use { saved_ms, invocations_per_month: 1e6, price_per_gpu_hour: price };
            let payback = Payback::of(&cost, &saving);
            assert_eq!(payback.months, Months::Never, "{saved_ms} ms at {price}");
            assert!(!payback.within(1e12));
        }
        let free = PilotCost { engineer: 0.0, model: 0.0, gpu: 0.0 };
        let saving = Use { saved_ms: 1.0, invocations_per_month: 1e6, price_per_gpu_hour: 1.0 };
        assert_eq!(Payback::of(&free, &saving).months, Months::After(0.0));
    }

    #[test]
    fn a_kernel_whose_whole_gain_drowns_in_the_noise_is_a_no_go() {
        // KingAlejandro/MotionCorr-standalone#77: 0.36 % and 0.86 % of 32.3 s, deviation 0.43 s and more.
        for (share, saved) in [(0.0036, 0.116), (0.0086, 0.278)] {
            let seconds = Some(Scatter { mean: 32.3, deviation: 0.43 });
            let found = Feasibility::of(&Whole { share, seconds }, 2.0);
            assert_eq!(found.verdict, Verdict::NoGoBelowNoise);
            near(found.saved_seconds_max.unwrap(), saved, 0.001);
            near(found.detectable_seconds.unwrap(), 0.86, 1e-12);
            near(found.speedup_max, 1.0 / (1.0 - share), 1e-12);
        }
        let share = |share| Feasibility::of(&Whole { share, seconds: None }, 2.0).verdict;
        assert_eq!((share(0.0036), share(0.6), share(1.0)), (Verdict::NoGoShare, Verdict::Go, Verdict::Go));
        let quiet = Some(Scatter { mean: 32.3, deviation: 0.01 });
        assert_eq!(Feasibility::of(&Whole { share: 0.1, seconds: quiet }, 2.0).verdict, Verdict::Go);
    }
}
