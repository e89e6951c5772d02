//! `floor/1`: no kernel moves bytes faster than the memory that they are in.
//!
//! A launch reads its inputs and writes its outputs. What does not fit into the last-level cache crosses the memory bus at
//! least once, so that a launch takes at least (bytes − cache) ÷ bandwidth. Bandwidths are the peaks of the vendors' data
//! sheets, which no launch reaches; the cache is taken off whole, whatever it held. A task whose baseline is below this
//! floor too does not touch all of its bytes, so that the floor says nothing there. Where the record does not name a
//! device of the table, or not its cache, nothing is said.

use super::{Evidenced, Seen};
use crate::entry::predicate::{FindingJudgement, FindingScope};
use fleet_config::domain::{Case, DeviceKind, Fact, ParamKind, Role, Task, field};
use serde_json::json;

/// What the times show.
pub(super) fn examine(case: &Evidenced<'_>) -> Option<Seen> {
    if case.record.device_kind != DeviceKind::Gpu {
        return None;
    }
    let identity = &case.environment?.identity;
    let Fact::Text(model) = identity.get(field::DEVICE_MODEL)? else { return None };
    let Fact::Count(cache) = identity.get(field::CACHE_L2)? else { return None };
    let bandwidth = &super::board::board_of(model)?.bandwidth;
    for timing in &case.record.timings {
        let Some(of) = case.task.cases.iter().find(|of| of.name == timing.case) else { continue };
        let Some(bytes) = moved(case.task, of) else { continue };
        let floor = picoseconds(bytes.saturating_sub(*cache), *bandwidth);
        let (took, baseline) = (timing.candidate_median.0, timing.baseline_median.0);
        if took >= floor || baseline < floor {
            continue;
        }
        return Some(Seen {
            judgement: FindingJudgement::Falls,
            scope: FindingScope::Record,
            code: "floor/bandwidth",
            cause: format!(
                "case `{}` took {took} ps, and the memory of {model} needs {floor} ps to move its {bytes} bytes beyond the cache",
                timing.case
            ),
            evidence: json!({
                "case": timing.case,
                "candidate_ps": took,
                "baseline_ps": baseline,
                "floor_ps": floor,
                "bytes": bytes,
                "cache_bytes": cache,
                "bandwidth_bytes_per_s": bandwidth,
                "model": model,
            }),
        });
    }
    None
}

/// Bytes that a launch reads and writes at least once: what is both read and written counts twice.
pub(crate) fn moved(task: &Task, case: &Case) -> Option<u64> {
    let scope = case.scope();
    let mut total = 0u64;
    for param in &task.params {
        let ParamKind::Buffer { role, shape: _ } = &param.kind else { continue };
        let bytes = param.buffer_bytes(&scope).ok()??;
        let times = match role {
            Role::In | Role::Out => 1,
            Role::Inout => 2,
        };
        total = total.checked_add(bytes.checked_mul(times)?)?;
    }
    Some(total)
}

/// How long `bytes` take at `bandwidth`, rounded down.
pub(crate) fn picoseconds(bytes: u64, bandwidth: u64) -> u64 {
    let exact = u128::from(bytes) * 1_000_000_000_000 / u128::from(bandwidth.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}
