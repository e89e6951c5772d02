//! Measurement policies: how time is taken, as named, versioned, hashed objects.

use super::canonical::{CanonicalError, Document};
use super::{Milliseconds, PolicyId, Screen};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

/// Part of every record and of comparability; results of different policies are never ranked together.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasurementPolicy {
    /// [`MeasurementPolicy::format_for`] the screens.
    pub format: String,
    /// Name and version, such as `cpu-paired/1`.
    pub name: String,
    pub clock: ClockOfRecord,
    pub statistic: Statistic,
    pub order: CaseOrder,
    /// Untimed launches of each side before the first pair.
    pub warmups: u32,
    /// Pairs of one baseline and one candidate launch.
    pub pairs_min: u32,
    pub pairs_max: u32,
    /// Per case, warm-ups included; `pairs_min` is reached even when it is spent.
    pub budget: Milliseconds,
    /// Timed launches whose outputs are checked, picked after the fact.
    pub checked_launches: u32,
    /// Redraws of the inputs that each case is validated with.
    pub draws: u32,
    pub fp_contract: FpContract,
    /// Flags given to the compiler beside those of the architecture.
    pub compiler_flags: Vec<String>,
    /// Run after validation, in this order.
    #[serde(default)]
    pub screens: Vec<Screen>,
}

/// The fields in the order of their declaration; `screens` is a field of the second form alone, so that policies without
/// any keep their bytes.
impl Serialize for MeasurementPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            format,
            name,
            clock,
            statistic,
            order,
            warmups,
            pairs_min,
            pairs_max,
            budget,
            checked_launches,
            draws,
            fp_contract,
            compiler_flags,
            screens,
        } = self;
        let fields = 13 + usize::from(!screens.is_empty());
        let mut form = serializer.serialize_struct("MeasurementPolicy", fields)?;
        form.serialize_field("format", format)?;
        form.serialize_field("name", name)?;
        form.serialize_field("clock", clock)?;
        form.serialize_field("statistic", statistic)?;
        form.serialize_field("order", order)?;
        form.serialize_field("warmups", warmups)?;
        form.serialize_field("pairs_min", pairs_min)?;
        form.serialize_field("pairs_max", pairs_max)?;
        form.serialize_field("budget", budget)?;
        form.serialize_field("checked_launches", checked_launches)?;
        form.serialize_field("draws", draws)?;
        form.serialize_field("fp_contract", fp_contract)?;
        form.serialize_field("compiler_flags", compiler_flags)?;
        if !screens.is_empty() {
            form.serialize_field("screens", screens)?;
        }
        form.end()
    }
}

/// Which clock the recorded times come from, and in which state a launch finds the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockOfRecord {
    /// CLOCK_MONOTONIC of the supervisor, around the doorbell of the worker.
    SupervisorMonotonic,
    /// CUDA events in the worker, checked against the supervisor's bracket. A process for each side; the L2 is as the
    /// work before left it.
    DeviceEvents,
    /// The same events, both sides in one context. Before each launch all of the L2 is overwritten.
    DeviceEventsCold,
    /// The same events, both sides in one context. Before each launch only its inputs and the poison of its outputs are
    /// written, so that what fits into the L2 is there.
    DeviceEventsHot,
}

/// What stands for a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Median over pairs of log(baseline / candidate); absolute medians are shown beside it.
    MedianLogRatio,
}

/// In which order the two sides run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CaseOrder {
    /// baseline, candidate, candidate, baseline, …: linear drift cancels.
    Abba,
}

/// Whether the compiler may fuse a multiplication and an addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FpContract {
    Off,
    Fast,
}

impl MeasurementPolicy {
    /// The form of a policy without screens.
    pub const FORMAT: &str = "muster.policy/1";
    /// The form of a policy with some.
    pub const FORMAT_WITH_SCREENS: &str = "muster.policy/2";

    /// The form that a policy with these screens has.
    pub fn format_for(screens: &[Screen]) -> &'static str {
        if screens.is_empty() { Self::FORMAT } else { Self::FORMAT_WITH_SCREENS }
    }

    /// `cpu-paired/1`: the default of CPU devices.
    pub fn cpu_paired() -> Self {
        Self {
            format: Self::FORMAT.to_owned(),
            name: "cpu-paired/1".to_owned(),
            clock: ClockOfRecord::SupervisorMonotonic,
            statistic: Statistic::MedianLogRatio,
            order: CaseOrder::Abba,
            warmups: 3,
            pairs_min: 10,
            pairs_max: 200,
            budget: Milliseconds(2000),
            checked_launches: 2,
            draws: 2,
            fp_contract: FpContract::Off,
            compiler_flags: vec!["-O2".to_owned(), "-std=c++17".to_owned()],
            screens: Vec::new(),
        }
    }

    /// `gpu-paired/1`: the default of GPUs. Both sides in one context, each launch from a flushed L2.
    pub fn gpu_paired() -> Self {
        Self { name: "gpu-paired/1".to_owned(), clock: ClockOfRecord::DeviceEventsCold, ..Self::gpu_probe() }
    }

    /// `gpu-paired-hot/1`: the same without the flush, for kernels whose data is in the cache when they are called.
    pub fn gpu_paired_hot() -> Self {
        Self {
            name: "gpu-paired-hot/1".to_owned(),
            clock: ClockOfRecord::DeviceEventsHot,
            ..Self::gpu_probe()
        }
    }

    /// `gpu-probe/1`: event pairs of two processes on a GPU; what the first records were measured with.
    pub fn gpu_probe() -> Self {
        Self {
            format: Self::FORMAT.to_owned(),
            name: "gpu-probe/1".to_owned(),
            clock: ClockOfRecord::DeviceEvents,
            statistic: Statistic::MedianLogRatio,
            order: CaseOrder::Abba,
            warmups: 10,
            pairs_min: 100,
            pairs_max: 100,
            budget: Milliseconds(2000),
            checked_launches: 2,
            draws: 2,
            fp_contract: FpContract::Fast,
            compiler_flags: vec!["-std=c++17".to_owned()],
            screens: Vec::new(),
        }
    }

    /// The same with other screens, under a name that says so: records of it are ranked among themselves.
    #[must_use]
    pub fn with_screens(mut self, screens: Vec<Screen>) -> Self {
        if screens != self.screens {
            let words: Vec<&str> = screens.iter().map(|screen| screen.name()).collect();
            let words = match screens.as_slice() {
                [] => "none".to_owned(),
                all if all == Screen::ALL => "all".to_owned(),
                _ => words.join(","),
            };
            self.name = format!("{}+screens={words}", self.name);
            Self::format_for(&screens).clone_into(&mut self.format);
            self.screens = screens;
        }
        self
    }

    /// Canonical bytes and digests.
    pub fn document(&self) -> Result<Document, CanonicalError> {
        Document::of(self)
    }
    /// The name of this policy.
    pub fn id(&self) -> Result<PolicyId, CanonicalError> {
        Ok(PolicyId(self.document()?.digest().0))
    }
}
