//! The leases of one candidate in one class, and what they say together.

use super::finding::fall;
use super::model::RankInput;
use crate::stats::{self, Conclusion, Estimate, Lease, NoiseFloor};
use fleet_config::domain::{DeviceId, NodeId, Status};
use std::collections::BTreeSet;

/// A candidate with an `ok` that stands.
pub(super) struct Standing<'a> {
    pub newest: &'a RankInput,
    /// Its attempts that were not the fleet's fault.
    pub attempts: &'a [&'a RankInput],
    /// Each standing `ok` with readable samples, oldest first; boards by the vendor's UUID.
    leases: Vec<Lease<&'a DeviceId>>,
    nodes: BTreeSet<NodeId>,
}

impl<'a> Standing<'a> {
    /// Of these attempts, in order of leaves. `None` where the newest `ok` that stands has not the samples of every
    /// performance case, or where none stands.
    pub(super) fn of(attempts: &'a [&'a RankInput], cases: &[&str]) -> Option<Self> {
        let stands = |input: &&&RankInput| {
            input.record.outcome.status == Status::Ok && fall(&input.findings, &input.judged()).is_none()
        };
        let newest = *attempts.iter().rev().find(stands)?;
        estimate(newest, cases)?;
        let mut leases = Vec::new();
        let mut nodes = BTreeSet::new();
        for input in attempts.iter().filter(stands) {
            let Some(estimate) = estimate(input, cases) else { continue };
            leases.push(Lease { board: &input.record.device, estimate });
            nodes.insert(input.record.node);
        }
        Some(Self { newest, attempts, leases, nodes })
    }

    /// Logarithms of the ratios of its leases.
    pub(super) fn logs(&self) -> impl Iterator<Item = f64> + '_ {
        self.leases.iter().map(|lease| lease.estimate.log)
    }

    /// What they say together.
    pub(super) fn conclude(&self, floor: Option<&NoiseFloor>) -> Option<Conclusion> {
        stats::conclude(&self.leases, floor, seed(self.newest))
    }

    /// Nodes that measured it.
    pub(super) fn nodes(&self) -> u64 {
        self.nodes.len() as u64
    }
}

/// The mean over performance cases of what one lease says of each. `None` when a case has no samples: a mean over fewer
/// cases would be another number under the same name.
pub(super) fn estimate(input: &RankInput, cases: &[&str]) -> Option<Estimate> {
    let of = |case: &&str| {
        let series = input.samples.iter().find(|series| series.case == **case)?;
        let estimate = stats::median_estimate(&stats::log_ratios(series))?;
        Some(estimate.with_open(stats::log_resolution(series)))
    };
    stats::mean_estimate(&cases.iter().map(of).collect::<Option<Vec<Estimate>>>()?)
}

/// Seed of the resampling: the first eight bytes of the record's name, so that it is fixed and nobody's choice.
fn seed(input: &RankInput) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&input.record_id.0[..8]);
    u64::from_be_bytes(bytes)
}
