//! Ways of measuring by the names that people know them by, ours and those of other harnesses: each a versioned, hashed
//! description, and the policy that runs it where a device can honour all of it.
//!
//! The figures of the others are theirs (agentic-cuda-optimizer, CUDA Agent, KernelBench 423217d, AutoKernel 7843582). What
//! they do not state is `None`. A preset that no device honours is described and refused, so that numbers of another way
//! never stand under its name.

use super::canonical::{CanonicalError, Document};
use super::{DeviceKind, MeasurementPolicy};
use serde::Serialize;

/// A way of measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preset {
    Paired,
    Cold,
    Hot,
    Graph,
    Steady,
    Screen,
    Events,
    CudaAgent,
    KernelBench,
    AutoKernel,
}

/// What it is, as a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Always [`Description::FORMAT`].
    pub format: &'static str,
    /// Name and version.
    pub name: &'static str,
    /// Whose way it is.
    pub origin: &'static str,
    pub clock: &'static str,
    /// How the two sides share the device.
    pub sides: &'static str,
    pub warmups: Option<&'static str>,
    pub samples: Option<&'static str>,
    /// Timed launches at the start that are thrown away.
    pub discarded: Option<u32>,
    pub statistic: Option<&'static str>,
    pub cache: Option<&'static str>,
    pub inputs: Option<&'static str>,
    /// Over several cases.
    pub score: Option<&'static str>,
}

impl Description {
    pub const FORMAT: &str = "muster.preset/1";

    /// Canonical bytes and digests.
    pub fn document(&self) -> Result<Document, CanonicalError> {
        Document::of(self)
    }

    /// Its fields by name, for tables; what is not stated is told so.
    pub fn rows(&self) -> [(&'static str, String); 11] {
        let Self {
            format: _,
            name,
            origin,
            clock,
            sides,
            warmups,
            samples,
            discarded,
            statistic,
            cache,
            inputs,
            score,
        } = self;
        let stated = |text: &Option<&'static str>| text.unwrap_or("not stated").to_owned();
        let discarded = discarded.map_or_else(|| "not stated".to_owned(), |count| count.to_string());
        [
            ("name", (*name).to_owned()),
            ("origin", (*origin).to_owned()),
            ("clock", (*clock).to_owned()),
            ("sides", (*sides).to_owned()),
            ("warmups", stated(warmups)),
            ("samples", stated(samples)),
            ("discarded", discarded),
            ("statistic", stated(statistic)),
            ("cache", stated(cache)),
            ("inputs", stated(inputs)),
            ("score", stated(score)),
        ]
    }
}

const OURS: &str = "muster";
const PAIRED: &str = "interleaved in pairs, A B B A";
const APART: &str = "one after the other";
const LOG_RATIO: &str = "median over pairs of log(baseline / candidate)";
const FRESH: &str = "fresh for each pair";
const OVER_CASES: &str = "geometric mean over performance cases";
const EVENTS: &str = "CUDA events";

impl Preset {
    /// Ours, then those of other harnesses.
    pub const ALL: [Self; 10] = [
        Self::Paired,
        Self::Cold,
        Self::Hot,
        Self::Graph,
        Self::Steady,
        Self::Screen,
        Self::Events,
        Self::CudaAgent,
        Self::KernelBench,
        Self::AutoKernel,
    ];

    /// The word that names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paired => "paired",
            Self::Cold => "cold",
            Self::Hot => "hot",
            Self::Graph => "graph",
            Self::Steady => "steady",
            Self::Screen => "screen",
            Self::Events => "events-10-100",
            Self::CudaAgent => "cuda-agent",
            Self::KernelBench => "kernelbench",
            Self::AutoKernel => "autokernel",
        }
    }

    /// The preset of this name, with or without its version.
    pub fn named(text: &str) -> Option<Self> {
        let name = text.strip_suffix("/1").unwrap_or(text);
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// What it is.
    pub fn description(self) -> Description {
        let ours = Description {
            format: Description::FORMAT,
            name: "paired/1",
            origin: OURS,
            clock: "that of the device: CUDA events, or the supervisor's clock on a CPU",
            sides: PAIRED,
            warmups: Some("3 launches of each side on a CPU, 10 on a GPU"),
            samples: Some("10 to 200 pairs within 2 s on a CPU, 100 pairs on a GPU"),
            discarded: Some(0),
            statistic: Some(LOG_RATIO),
            cache: Some("overwritten before each launch on a GPU, as left on a CPU"),
            inputs: Some(FRESH),
            score: Some(OVER_CASES),
        };
        let gpu = Description {
            clock: EVENTS,
            warmups: Some("10 launches of each side"),
            samples: Some("100 pairs"),
            cache: Some("twice the L2 overwritten before each launch"),
            ..ours.clone()
        };
        match self {
            Self::Paired => ours,
            Self::Cold => Description { name: "cold/1", ..gpu },
            Self::Hot => Description { name: "hot/1", cache: Some("as the copies before left it"), ..gpu },
            Self::Graph => Description {
                name: "graph/1",
                samples: Some("100 pairs of CUDA graphs or batches, so that launching is not in the sample"),
                cache: Some("as the launch before left it"),
                ..gpu
            },
            Self::Steady => Description {
                name: "steady/1",
                warmups: Some("until clock and temperature stand still"),
                samples: Some("pairs until the interval is narrower than asked"),
                ..gpu
            },
            Self::Screen => Description {
                name: "screen/1",
                samples: Some("pairs until the candidate is clearly slower, or to the end; never ranked"),
                ..gpu
            },
            Self::Events | Self::CudaAgent | Self::KernelBench | Self::AutoKernel => self.of_others(gpu),
        }
    }

    /// What a preset of another harness is; of `gpu` it has what all have.
    fn of_others(self, gpu: Description) -> Description {
        match self {
            Self::Events => Description {
                name: "events-10-100/1",
                origin: "agentic-cuda-optimizer",
                sides: APART,
                warmups: Some("10 launches"),
                samples: Some("100 launches of each timed case"),
                discarded: None,
                statistic: None,
                cache: None,
                inputs: Some("fixed"),
                score: Some("geometric mean of latencies over performance cases, lower is better"),
                ..gpu
            },
            Self::CudaAgent => Description {
                name: "cuda-agent/1",
                origin: "CUDA Agent, arXiv 2602.24286v1",
                clock: "device times of a profiler, summed over kernels",
                sides: "candidate, eager, compiled, one after the other",
                warmups: Some("5 launches"),
                samples: Some("10 launches"),
                statistic: Some("mean: sum of kernel times ÷ launches, in microseconds"),
                cache: Some("warm"),
                inputs: Some("one set for all launches"),
                score: None,
                ..gpu
            },
            Self::KernelBench => Description {
                name: "kernelbench/1",
                origin: "KernelBench 423217d, cuda_event",
                sides: APART,
                warmups: Some("3 launches; 5 of the reference"),
                samples: Some("100 launches"),
                discarded: Some(1),
                statistic: Some("mean, rounded to 3 significant digits"),
                cache: Some("256 MiB overwritten before each launch"),
                inputs: Some("one set for all launches"),
                score: Some("fast_p, strictly above p in 0, 0.5, 0.8, 1, 1.5, 2"),
                ..gpu
            },
            Self::AutoKernel => Description {
                name: "autokernel/1",
                origin: "AutoKernel 7843582, bench.py",
                sides: APART,
                warmups: Some("25 ms"),
                samples: Some("100 ms"),
                statistic: Some("mean"),
                cache: Some("256 MB overwritten before each launch"),
                inputs: Some("one set for all launches, seed 42"),
                score: Some("throughput of the size `large` at the first element type"),
                ..gpu
            },
            Self::Paired | Self::Cold | Self::Hot | Self::Graph | Self::Steady | Self::Screen => gpu,
        }
    }

    /// The policy that honours all of it on devices of this kind, or what cannot be honoured.
    pub fn policy(self, kind: DeviceKind) -> Result<MeasurementPolicy, &'static str> {
        match (self, kind) {
            (Self::Paired, DeviceKind::Cpu) => Ok(MeasurementPolicy::cpu_paired()),
            (Self::Paired | Self::Cold, DeviceKind::Gpu | DeviceKind::Compile) => {
                Ok(MeasurementPolicy::gpu_paired())
            }
            (Self::Hot, DeviceKind::Gpu | DeviceKind::Compile) => Ok(MeasurementPolicy::gpu_paired_hot()),
            (Self::Cold | Self::Hot, DeviceKind::Cpu) => {
                Err("a CPU's caches are neither emptied nor filled before a launch")
            }
            (Self::Graph, _) => Err("no device times CUDA graphs or batches of launches"),
            (Self::Steady, _) => {
                Err("no device waits for steady clocks or stops by the width of an interval")
            }
            (Self::Screen, _) => Err("no device stops early, and every result would be ranked"),
            (Self::Events, _) => Err("sides are not timed one after the other, and it states no statistic"),
            (Self::CudaAgent, _) => Err("no device reads a profiler's times or takes one set of inputs"),
            (Self::KernelBench | Self::AutoKernel, _) => {
                Err("no device times the sides one after the other on one set of inputs, or takes means")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_found_by_its_name_and_has_a_hash_of_its_own() {
        let mut digests = Vec::new();
        for preset in Preset::ALL {
            let described = preset.description();
            assert_eq!(described.name, format!("{}/1", preset.name()));
            assert_eq!(Preset::named(preset.name()), Some(preset));
            assert_eq!(Preset::named(described.name), Some(preset));
            digests.push(described.document().unwrap().digest());
        }
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), Preset::ALL.len());
        assert_eq!(Preset::named("paired/2"), None);
        assert_eq!(Preset::named("gpu-paired/1"), None, "that is a policy");
    }

    #[test]
    fn what_a_device_cannot_honour_has_a_reason_and_no_policy() {
        for preset in
            [Preset::Events, Preset::CudaAgent, Preset::KernelBench, Preset::AutoKernel, Preset::Graph]
        {
            for kind in [DeviceKind::Cpu, DeviceKind::Gpu, DeviceKind::Compile] {
                assert!(preset.policy(kind).is_err(), "{preset:?} on {kind:?}");
            }
        }
        let paired = |kind| Preset::Paired.policy(kind).unwrap().name;
        assert_eq!(
            (paired(DeviceKind::Cpu), paired(DeviceKind::Gpu)),
            ("cpu-paired/1".into(), "gpu-paired/1".into())
        );
        assert!(Preset::Cold.policy(DeviceKind::Cpu).is_err());
        let kernelbench = Preset::KernelBench.description();
        assert_eq!((kernelbench.discarded, kernelbench.samples), (Some(1), Some("100 launches")));
    }
}
