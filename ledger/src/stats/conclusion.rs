//! From the leases of candidates to what may be claimed of them in one table.

use super::claim::{FAMILY_ERROR, NoiseFloor, holm};
use super::estimate::Estimate;
use super::hierarchy::{Lease, Reach, over_leases};
use std::collections::BTreeSet;

/// What the leases of one candidate say together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conclusion {
    /// With what leases add, as far as it is known.
    pub estimate: Estimate,
    pub reach: Reach,
    pub leases: u64,
    pub boards: u64,
}

/// What is said of a candidate beside the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    Faster,
    Slower,
    /// None was shown.
    NoDifference,
    /// It differs within its one lease, and nothing says what another lease would add.
    OneLeaseOnly,
}

/// Concludes from `leases`, oldest first. Fewer than three speak with the newest alone, widened by the floor where it is
/// known. `None` for none.
pub fn conclude<B: Ord + Copy>(
    leases: &[Lease<B>],
    floor: Option<&NoiseFloor>,
    seed: u64,
) -> Option<Conclusion> {
    let boards = leases.iter().map(|lease| lease.board).collect::<BTreeSet<B>>().len() as u64;
    let count = leases.len() as u64;
    if let Some((estimate, reach)) = over_leases(leases, seed) {
        return Some(Conclusion { estimate, reach, leases: count, boards });
    }
    let newest = leases.last()?.estimate;
    let estimate = floor.map_or(newest, |floor| floor.onto(newest));
    Some(Conclusion { estimate, reach: Reach::SingleLease, leases: count, boards })
}

/// What may be claimed of all candidates of a table together: the chance of any false "faster" or "slower" among them is at
/// most [`FAMILY_ERROR`]. In the order given.
pub fn claims(conclusions: &[Conclusion], floor: Option<&NoiseFloor>) -> Vec<Claim> {
    let p_values: Vec<f64> = conclusions.iter().map(|one| one.estimate.p_value()).collect();
    let claim = |(one, p): (&Conclusion, f64)| {
        let independent = match one.reach {
            Reach::SingleLease => 1.0,
            Reach::Leases => one.leases as f64,
            Reach::Boards => one.boards as f64,
        };
        let bound = floor.map_or(0.0, |floor| floor.bound() / libm::sqrt(independent));
        if p > FAMILY_ERROR || one.estimate.log.abs() <= bound {
            return Claim::NoDifference;
        }
        match (one.reach, floor) {
            (Reach::SingleLease, None) => Claim::OneLeaseOnly,
            _ if one.estimate.log > 0.0 => Claim::Faster,
            _ => Claim::Slower,
        }
    };
    conclusions.iter().zip(holm(&p_values)).map(claim).collect()
}
