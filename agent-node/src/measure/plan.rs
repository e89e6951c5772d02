//! Which launch comes next and when it is enough: the paired plan of `cpu-paired/1`. Pure.
//!
//! Pairs run A B B A …: even pairs baseline first, odd ones candidate first, so that linear drift cancels
//! within two pairs. Warm-ups alternate in the same way.

use fleet_config::domain::{MeasurementPolicy, Nonce, Picoseconds, Placement};

/// Which of the two timed implementations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Baseline,
    Candidate,
}

/// Both sides in the order in which they run.
pub type Order = [Side; 2];

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Launch each side once, untimed.
    WarmUp(Order),
    /// Launch each side once and keep both times.
    Pair { index: u32, order: Order, seats: Seats },
    /// Enough pairs, or the budget is spent.
    Done,
}

/// Whose buffers each side uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seats {
    Own,
    /// The other side's.
    Traded,
}

/// The plan of one case.
#[derive(Debug, Clone)]
pub struct PairPlan {
    placement: Placement,
    warmups: u32,
    pairs_min: u32,
    pairs_max: u32,
    budget: Picoseconds,
    warmed: u32,
    paired: u32,
}

impl PairPlan {
    /// The plan that `policy` asks for.
    pub fn of(policy: &MeasurementPolicy) -> Self {
        Self {
            placement: policy.placement,
            warmups: policy.warmups,
            pairs_min: policy.pairs_min,
            pairs_max: policy.pairs_max.max(policy.pairs_min),
            budget: Picoseconds(policy.budget.0.saturating_mul(1_000_000_000)),
            warmed: 0,
            paired: 0,
        }
    }

    /// The next step, `elapsed` after the first one began. Each call counts as done what it answered before.
    pub fn next(&mut self, elapsed: Picoseconds) -> Next {
        if self.warmed < self.warmups {
            self.warmed += 1;
            return Next::WarmUp(order(self.warmed - 1));
        }
        let spent = elapsed >= self.budget;
        if self.paired >= self.pairs_max || (spent && self.paired >= self.pairs_min) {
            return Next::Done;
        }
        self.paired += 1;
        let index = self.paired - 1;
        Next::Pair { index, order: order(index), seats: seats(self.placement, index) }
    }
}

/// Two pairs of either order, then two with the buffers of the other side: in four pairs each order meets each placement.
fn seats(placement: Placement, index: u32) -> Seats {
    match placement {
        Placement::Traded if index % 4 >= 2 => Seats::Traded,
        Placement::Traded | Placement::Fixed => Seats::Own,
    }
}

fn order(index: u32) -> Order {
    if index.is_multiple_of(2) {
        [Side::Baseline, Side::Candidate]
    } else {
        [Side::Candidate, Side::Baseline]
    }
}

/// Picks the timed launches whose outputs are checked, after each has run and without knowing how many will:
/// algorithm R of Vitter, "Random sampling with a reservoir", ACM TOMS 11(1), 1985. The draws come from
/// blake3(nonce ‖ case ‖ pair), which no candidate can read, so that none can know when it is watched.
#[derive(Debug, Clone)]
pub struct Picks {
    nonce: Nonce,
    case: String,
    size: u32,
}

impl Picks {
    /// Picks `size` launches of `case`.
    pub fn new(nonce: Nonce, case: &str, size: u32) -> Self {
        Self { nonce, case: case.to_owned(), size }
    }

    /// The place in which the outputs of pair `index` are kept, replacing what was kept there; `None`: not kept.
    pub fn slot(&self, index: u32) -> Option<usize> {
        if index < self.size {
            return usize::try_from(index).ok();
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"muster.pick/1\0");
        hasher.update(self.nonce.as_bytes());
        hasher.update(self.case.as_bytes());
        hasher.update(&[0]);
        hasher.update(&index.to_le_bytes());
        let mut word = [0_u8; 8];
        hasher.finalize_xof().fill(&mut word);
        // The high half of a 64 × 32 bit product maps the word onto 0..=index; the bias is below 2^-32.
        let drawn = (u128::from(u64::from_le_bytes(word)) * (u128::from(index) + 1)) >> 64;
        let slot = usize::try_from(drawn).ok()?;
        (slot < usize::try_from(self.size).ok()?).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: &MeasurementPolicy, step: Picoseconds) -> (u32, Vec<Order>) {
        let mut plan = PairPlan::of(policy);
        let (mut elapsed, mut warmups, mut pairs) = (Picoseconds(0), 0, Vec::new());
        loop {
            match plan.next(elapsed) {
                Next::WarmUp(_) => warmups += 1,
                Next::Pair { index, order, seats } => {
                    assert_eq!(index as usize, pairs.len());
                    assert!(policy.placement == Placement::Traded || seats == Seats::Own);
                    pairs.push(order);
                }
                Next::Done => return (warmups, pairs),
            }
            elapsed = Picoseconds(elapsed.0 + step.0);
        }
    }

    #[test]
    fn pairs_run_in_the_order_a_b_b_a() {
        let (warmups, pairs) = run(&MeasurementPolicy::cpu_paired(), Picoseconds(1));
        assert_eq!(warmups, 3);
        assert_eq!(pairs.len(), 200);
        assert_eq!(pairs[0], [Side::Baseline, Side::Candidate]);
        assert_eq!(pairs[1], [Side::Candidate, Side::Baseline]);
        assert_eq!(pairs[2], pairs[0]);
    }

    #[test]
    fn each_order_meets_each_placement_equally_often() {
        let mut plan = PairPlan::of(&MeasurementPolicy::gpu_paired_traded());
        let mut met = Vec::new();
        loop {
            match plan.next(Picoseconds(0)) {
                Next::WarmUp(_) => {}
                Next::Pair { order, seats, .. } => met.push((order[0], seats)),
                Next::Done => break,
            }
        }
        assert_eq!(met.len(), 100);
        for first in [Side::Baseline, Side::Candidate] {
            for seats in [Seats::Own, Seats::Traded] {
                assert_eq!(
                    met.iter().filter(|one| **one == (first, seats)).count(),
                    25,
                    "{first:?} {seats:?}"
                );
            }
        }
    }

    #[test]
    fn the_least_number_of_pairs_is_reached_even_when_the_budget_is_spent() {
        let (warmups, pairs) = run(&MeasurementPolicy::cpu_paired(), Picoseconds(10_000_000_000_000));
        assert_eq!((warmups, pairs.len()), (3, 10));
    }

    #[test]
    fn the_budget_counts_the_warm_ups_and_ends_the_pairs() {
        // 100 ms a step: 20 steps fit into 2 s, three of them warm-ups.
        let (_, pairs) = run(&MeasurementPolicy::cpu_paired(), Picoseconds(100_000_000_000));
        assert_eq!(pairs.len(), 17);
    }

    #[test]
    fn picks_are_spread_over_all_launches() {
        let mut kept_late = 0;
        for nonce in 0..200_u8 {
            let picks = Picks::new(Nonce([nonce; 32]), "case", 2);
            let mut kept = [0, 0];
            for index in 0..100 {
                if let Some(slot) = picks.slot(index) {
                    kept[slot] = index;
                }
            }
            kept_late += kept.iter().filter(|index| **index >= 50).count();
        }
        // 400 picks, each late with probability one half: 200 ± 10; five deviations to either side.
        assert!((150..=250).contains(&kept_late), "{kept_late}");
    }

    #[test]
    fn another_nonce_or_case_picks_other_launches() {
        let slots = |nonce: u8, case: &str| -> Vec<Option<usize>> {
            let picks = Picks::new(Nonce([nonce; 32]), case, 4);
            (0..64).map(|index| picks.slot(index)).collect()
        };
        assert_eq!(slots(1, "a"), slots(1, "a"));
        assert_ne!(slots(1, "a"), slots(2, "a"));
        assert_ne!(slots(1, "a"), slots(1, "b"));
    }
}
