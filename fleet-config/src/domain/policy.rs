//! Measurement policies: how time is taken, as named, versioned, hashed objects.

use super::canonical::{CanonicalError, Document};
use super::{Digest, GPU_FLAGS, HOST_FLAGS, Milliseconds, OptionalStage, PolicyId, Screen};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

/// Part of every record and of comparability; results of different policies are never ranked together.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasurementPolicy {
    /// The [`MeasurementPolicy::form`] of its other fields.
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
    /// Stages of validation that do not run, in their order.
    #[serde(default)]
    pub left_out: Vec<OptionalStage>,
    /// The one toolchain that may compile for GPUs, by the digest of all that it reads beside a candidate; `None` lets
    /// each node take its own. A cell whose node or architecture it lacks is `unsupported_on_device`.
    #[serde(default)]
    pub toolchain: Option<Digest>,
    /// Whether the sides keep their buffers.
    #[serde(default)]
    pub placement: Placement,
}

/// The fields in the order of their declaration; each form has those of the one before and one more, `screens` from the
/// second, `left_out` from the third, `toolchain` from the fourth and `placement` in the fifth, so that policies without any
/// keep their bytes.
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
            left_out,
            toolchain,
            placement,
        } = self;
        let places = *placement != Placement::Fixed;
        let pins = places || toolchain.is_some();
        let leaves_out = pins || !left_out.is_empty();
        let has_screens = leaves_out || !screens.is_empty();
        let fields = 13 + usize::from(has_screens) + usize::from(leaves_out) + usize::from(pins);
        let fields = fields + usize::from(places);
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
        if has_screens {
            form.serialize_field("screens", screens)?;
        }
        if leaves_out {
            form.serialize_field("left_out", left_out)?;
        }
        if pins {
            form.serialize_field("toolchain", toolchain)?;
        }
        if places {
            form.serialize_field("placement", placement)?;
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

/// Which buffers the two sides of a pair use, where they share an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Each side its own throughout: where its buffers happen to lie is in every ratio.
    #[default]
    Fixed,
    /// The sides trade inputs and outputs after every second pair, so that each order of launching meets either placement
    /// equally often, and what a placement is worth cancels.
    Traded,
}

/// Whether the compiler may fuse a multiplication and an addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FpContract {
    Off,
    Fast,
}

impl MeasurementPolicy {
    /// The form of a policy with every stage and without screens.
    pub const FORMAT: &str = "muster.policy/1";
    /// The form of a policy with every stage and some screens.
    pub const FORMAT_WITH_SCREENS: &str = "muster.policy/2";
    /// The form of a policy that leaves out stages.
    pub const FORMAT_WITH_STAGES: &str = "muster.policy/3";

    /// The form of a policy that pins a toolchain.
    pub const FORMAT_WITH_TOOLCHAIN: &str = "muster.policy/4";

    /// The form of a policy that trades buffers.
    pub const FORMAT_WITH_PLACEMENT: &str = "muster.policy/5";

    /// The form that a policy with these fields has.
    pub fn form(&self) -> &'static str {
        match (self.screens.as_slice(), self.left_out.as_slice(), self.toolchain, self.placement) {
            (_, _, _, Placement::Traded) => Self::FORMAT_WITH_PLACEMENT,
            (_, _, Some(_), Placement::Fixed) => Self::FORMAT_WITH_TOOLCHAIN,
            ([], [], None, Placement::Fixed) => Self::FORMAT,
            (_, [], None, Placement::Fixed) => Self::FORMAT_WITH_SCREENS,
            (_, _, None, Placement::Fixed) => Self::FORMAT_WITH_STAGES,
        }
    }

    /// The same with its form as its fields want it.
    fn in_form(mut self) -> Self {
        self.form().clone_into(&mut self.format);
        self
    }

    /// Whether validation has this stage.
    pub fn runs(&self, stage: OptionalStage) -> bool {
        !self.left_out.contains(&stage)
    }

    /// Every policy that this version can run, under its own name.
    pub fn built_in() -> [Self; 5] {
        [
            Self::cpu_paired(),
            Self::gpu_paired(),
            Self::gpu_paired_traded(),
            Self::gpu_paired_hot(),
            Self::gpu_probe(),
        ]
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
            left_out: Vec::new(),
            toolchain: None,
            placement: Placement::Fixed,
        }
    }

    /// `gpu-paired/2`: as `gpu-paired/1`, and the sides trade their buffers, so that where these lie is in no ratio.
    pub fn gpu_paired_traded() -> Self {
        let placed =
            Self { name: "gpu-paired/2".to_owned(), placement: Placement::Traded, ..Self::gpu_paired() };
        placed.in_form()
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
            left_out: Vec::new(),
            toolchain: None,
            placement: Placement::Fixed,
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
            self.screens = screens;
        }
        self.in_form()
    }

    /// The same with these of the stages that may be left out and no others, under a name that says so.
    #[must_use]
    pub fn with_stages(mut self, stages: &[OptionalStage]) -> Self {
        let left_out: Vec<OptionalStage> =
            OptionalStage::ALL.into_iter().filter(|stage| !stages.contains(stage)).collect();
        if left_out != self.left_out {
            self.name = format!("{}+stages={}", self.name, OptionalStage::words(stages));
            self.left_out = left_out;
        }
        self.in_form()
    }

    /// The same with one toolchain for all GPU compilations, under a name that says so.
    #[must_use]
    pub fn with_toolchain(mut self, toolchain: Digest) -> Self {
        if self.toolchain != Some(toolchain) {
            self.name = format!("{}+toolchain={}", self.name, toolchain.short());
            self.toolchain = Some(toolchain);
        }
        self.in_form()
    }

    /// The compiler flags that a device which this policy measures may be given.
    pub fn possible_flags(&self) -> &'static [&'static str] {
        match self.clock {
            ClockOfRecord::SupervisorMonotonic => &HOST_FLAGS,
            ClockOfRecord::DeviceEvents
            | ClockOfRecord::DeviceEventsCold
            | ClockOfRecord::DeviceEventsHot => &GPU_FLAGS,
        }
    }

    /// The same with further compiler flags, under a name that says so. Which flags a device takes is its own matter.
    #[must_use]
    pub fn with_flags(mut self, flags: Vec<String>) -> Self {
        let flags: Vec<String> =
            flags.into_iter().filter(|flag| !self.compiler_flags.contains(flag)).collect();
        if !flags.is_empty() {
            let words: Vec<&str> = flags.iter().map(|flag| flag.trim_start_matches('-')).collect();
            self.name = format!("{}+flags={}", self.name, words.join(","));
            // A later language standard stands in the place of the policy's own.
            if flags.iter().any(|flag| flag.starts_with("-std=")) {
                self.compiler_flags.retain(|flag| !flag.starts_with("-std="));
            }
            self.compiler_flags.extend(flags);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::canonical;

    #[test]
    fn a_policy_that_leaves_out_nothing_has_the_bytes_that_it_had_before_stages_could_be_chosen() {
        let text = |policy: &MeasurementPolicy| String::from_utf8(policy.document().unwrap().bytes).unwrap();
        let plain = MeasurementPolicy::cpu_paired();
        assert!(!text(&plain).contains("left_out") && !text(&plain).contains("screens"));
        assert_eq!(plain.clone().with_stages(&OptionalStage::ALL), plain);
        let screened = plain.clone().with_screens(vec![Screen::Orders]);
        assert!(text(&screened).contains("muster.policy/2") && !text(&screened).contains("left_out"));
        let fewer = plain.clone().with_stages(&[OptionalStage::Shapes]);
        assert_eq!(fewer.name, "cpu-paired/1+stages=shapes");
        assert!(text(&fewer).contains("muster.policy/3"));
        assert_ne!(
            fewer.id().unwrap(),
            plain.id().unwrap(),
            "records of it are never ranked with the others"
        );
        for policy in [plain.clone(), screened.clone(), fewer.clone(), screened.with_stages(&[])] {
            let bytes = policy.document().unwrap().bytes;
            assert_eq!(canonical::from_bytes::<MeasurementPolicy>(&bytes).unwrap(), policy);
        }
        assert!(fewer.runs(OptionalStage::Shapes) && !fewer.runs(OptionalStage::Determinism));
        assert_eq!(fewer.with_stages(&OptionalStage::ALL).format, MeasurementPolicy::FORMAT);
    }

    #[test]
    fn trading_buffers_makes_the_fifth_form_and_all_others_keep_theirs() {
        let traded = MeasurementPolicy::gpu_paired_traded();
        let text = String::from_utf8(traded.document().unwrap().bytes).unwrap();
        assert!(text.contains("muster.policy/5") && text.contains("\"placement\":\"traded\""), "{text}");
        let pinned = traded.clone().with_toolchain(Digest([7; 32])).with_stages(&[]);
        for policy in [traded, pinned] {
            assert_eq!(policy.format, "muster.policy/5");
            let bytes = policy.document().unwrap().bytes;
            assert_eq!(canonical::from_bytes::<MeasurementPolicy>(&bytes).unwrap(), policy);
        }
        let plain = String::from_utf8(MeasurementPolicy::gpu_paired().document().unwrap().bytes).unwrap();
        assert!(!plain.contains("placement"), "{plain}");
    }

    #[test]
    fn no_policy_leaves_out_a_stage_that_a_verdict_rests_on() {
        let fewer = MeasurementPolicy::cpu_paired().with_stages(&[]);
        let text = String::from_utf8(fewer.document().unwrap().bytes).unwrap();
        for stage in ["contract", "cases", "timed-launches", "post-run"] {
            let bad = text.replacen("\"smoke\"", &format!("\"{stage}\""), 1);
            assert!(canonical::from_bytes::<MeasurementPolicy>(bad.as_bytes()).is_err(), "{stage}");
        }
    }

    #[test]
    fn a_pinned_toolchain_and_flags_make_another_policy_and_the_first_keeps_its_bytes() {
        let plain = MeasurementPolicy::gpu_paired();
        let bytes = canonical::to_bytes(&plain).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("toolchain"));
        let pinned = plain.clone().with_toolchain(Digest([7; 32]));
        assert_eq!((pinned.format.as_str(), plain.format.as_str()), ("muster.policy/4", "muster.policy/1"));
        assert_eq!(pinned.name, "gpu-paired/1+toolchain=070707070707");
        assert_ne!(pinned.id().unwrap(), plain.id().unwrap());
        let read: MeasurementPolicy = canonical::from_bytes(&canonical::to_bytes(&pinned).unwrap()).unwrap();
        assert_eq!(read, pinned);
        let fast = plain.clone().with_flags(vec!["--use_fast_math".to_owned(), "-std=c++20".to_owned()]);
        assert_eq!(fast.compiler_flags, ["--use_fast_math", "-std=c++20"]);
        assert_eq!(fast.name, "gpu-paired/1+flags=use_fast_math,std=c++20");
        assert_eq!(plain.clone().with_flags(vec!["-std=c++17".to_owned()]), plain);
    }
}
