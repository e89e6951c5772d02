//! Parameter search: which point of a space is measured next, from what has been measured. The same history gives the same
//! answer, so that an interrupted search goes on as if nothing had happened.

use ledger::stats::generator::SplitMix64;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How a space is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Every point in order.
    Exhaustive,
    /// Points in an order that the seed fixes, none twice.
    Random { seed: u64 },
    /// `first` points by the seed's order with the fewest stages of validation, then the better half of them under the
    /// whole policy, then the better half of those in another lease, until one is left (Jamieson and Talwalkar,
    /// AISTATS 2016, with depth of validation and leases as the resource).
    Halving { seed: u64, first: u32 },
}

/// How deep an attempt of a halving search looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rung(pub u32);

impl Rung {
    /// Results of the first rung of a halving search choose who goes on, and nothing else.
    pub fn only_screens(self, strategy: Strategy) -> bool {
        match strategy {
            Strategy::Exhaustive | Strategy::Random { .. } => false,
            Strategy::Halving { .. } => self.0 == 0,
        }
    }
}

/// One attempt as the search sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tried {
    /// Place in the space.
    pub point: usize,
    pub rung: Rung,
    pub score: Score,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Score {
    /// No verdict yet.
    Pending,
    /// The ratio to the baseline.
    Timed(f64),
    Failed,
}

/// What the search wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Measure {
        point: usize,
        rung: Rung,
    },
    /// Verdicts of attempts that are under way decide.
    Wait,
    /// Nothing is left.
    Exhausted,
}

/// The largest first rung whose whole search fits `attempts`: n + ⌈n/2⌉ + … + 1.
pub fn first_rung(attempts: u32) -> u32 {
    let whole = |first: u32| {
        let (mut total, mut rung) = (first, first);
        while rung > 1 {
            rung = rung.div_ceil(2);
            total = total.saturating_add(rung);
        }
        total
    };
    (1..=attempts).take_while(|first| whole(*first) <= attempts).last().unwrap_or(1)
}

/// The next point of a space of `size` points.
pub fn next(strategy: Strategy, size: usize, tried: &[Tried]) -> Next {
    match strategy {
        Strategy::Exhaustive => untried(0..size, tried, Rung(0)),
        Strategy::Random { seed } => untried(order(size, seed).into_iter(), tried, Rung(0)),
        Strategy::Halving { seed, first } => {
            let chosen: Vec<usize> = order(size, seed).into_iter().take(first as usize).collect();
            halve(chosen, Rung(0), tried)
        }
    }
}

fn untried(points: impl Iterator<Item = usize>, tried: &[Tried], rung: Rung) -> Next {
    let known: BTreeSet<usize> = tried.iter().filter(|one| one.rung == rung).map(|one| one.point).collect();
    let mut points = points;
    points.find(|point| !known.contains(point)).map_or(Next::Exhausted, |point| Next::Measure { point, rung })
}

/// Goes through the rungs from `rung` on, which `points` have reached.
fn halve(points: Vec<usize>, rung: Rung, tried: &[Tried]) -> Next {
    match untried(points.iter().copied(), tried, rung) {
        Next::Exhausted => {}
        found @ (Next::Measure { .. } | Next::Wait) => return found,
    }
    let of_rung = |point: &usize| tried.iter().rev().find(|one| one.rung == rung && one.point == *point);
    let mut passed: Vec<(usize, f64)> = Vec::new();
    for point in &points {
        match of_rung(point).map(|one| one.score) {
            Some(Score::Pending) | None => return Next::Wait,
            Some(Score::Timed(ratio)) => passed.push((*point, ratio)),
            Some(Score::Failed) => {}
        }
    }
    // The one that is left was measured in its last rung; a single point of the first rung still needs the whole policy.
    if passed.is_empty() || (points.len() == 1 && rung.0 > 0) {
        return Next::Exhausted;
    }
    passed.sort_by(|a, b| b.1.total_cmp(&a.1));
    passed.truncate(points.len().div_ceil(2));
    halve(passed.into_iter().map(|(point, _)| point).collect(), Rung(rung.0 + 1), tried)
}

/// The numbers below `size` in an order that the seed fixes (Fisher and Yates, Durstenfeld's form).
fn order(size: usize, seed: u64) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..size).collect();
    let mut generator = SplitMix64::new(seed);
    for last in (1..size).rev() {
        let other = usize::try_from(generator.below(last as u64 + 1)).unwrap_or(last);
        numbers.swap(last, other);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search to its end; `score` is what a point is worth.
    fn run(strategy: Strategy, size: usize, score: &dyn Fn(usize) -> Score) -> Vec<(usize, u32)> {
        let mut tried: Vec<Tried> = Vec::new();
        while let Next::Measure { point, rung } = next(strategy, size, &tried) {
            tried.push(Tried { point, rung, score: score(point) });
            assert!(tried.len() <= 1000, "a search ends");
        }
        tried.into_iter().map(|one| (one.point, one.rung.0)).collect()
    }

    #[test]
    fn exhaustive_and_random_searches_measure_every_point_once() {
        let timed = |_: usize| Score::Timed(1.0);
        assert_eq!(run(Strategy::Exhaustive, 3, &timed), [(0, 0), (1, 0), (2, 0)]);
        let mut random = run(Strategy::Random { seed: 7 }, 50, &timed);
        assert_ne!(random, run(Strategy::Random { seed: 8 }, 50, &timed));
        assert_eq!(random, run(Strategy::Random { seed: 7 }, 50, &timed), "the seed fixes the order");
        random.sort_unstable();
        let all: Vec<(usize, u32)> = (0..50).map(|point| (point, 0)).collect();
        assert_eq!(random, all);
    }

    #[test]
    fn halving_keeps_the_better_half_of_each_rung_and_fits_its_budget() {
        let worth = |point: usize| Score::Timed(1.0 + point as f64);
        let strategy = Strategy::Halving { seed: 3, first: 4 };
        let tried = run(strategy, 100, &worth);
        let rung =
            |rung: u32| -> Vec<usize> { tried.iter().filter(|one| one.1 == rung).map(|one| one.0).collect() };
        assert_eq!((rung(0).len(), rung(1).len(), rung(2).len(), tried.len()), (4, 2, 1, 7));
        let best = rung(0).into_iter().max().unwrap();
        assert_eq!(rung(2), [best]);
        assert!(Rung(0).only_screens(strategy) && !Rung(1).only_screens(strategy));
        assert!(!Rung(0).only_screens(Strategy::Exhaustive));
        for (attempts, first) in [(1, 1), (2, 1), (3, 2), (6, 3), (7, 4), (15, 8), (100, 48)] {
            assert_eq!(first_rung(attempts), first, "{attempts}");
        }
    }

    #[test]
    fn one_point_is_measured_under_the_whole_policy_too() {
        let timed = |_: usize| Score::Timed(1.0);
        assert_eq!(run(Strategy::Halving { seed: 3, first: 1 }, 9, &timed).len(), 2);
    }

    #[test]
    fn what_fails_in_a_rung_goes_no_further_and_all_failing_ends_the_search() {
        let odd_fails = |point: usize| if point % 2 == 1 { Score::Failed } else { Score::Timed(1.0) };
        let tried = run(Strategy::Halving { seed: 3, first: 8 }, 8, &odd_fails);
        assert!(tried.iter().all(|(point, rung)| *rung == 0 || point % 2 == 0), "{tried:?}");
        assert!(tried.iter().any(|(_, rung)| *rung == 1));
        let tried = run(Strategy::Halving { seed: 3, first: 8 }, 8, &|_| Score::Failed);
        assert_eq!(tried.len(), 8);
    }

    #[test]
    fn a_rung_waits_for_its_verdicts() {
        let strategy = Strategy::Halving { seed: 3, first: 2 };
        let mut tried = Vec::new();
        for _ in 0..2 {
            let Next::Measure { point, rung } = next(strategy, 9, &tried) else { panic!("{tried:?}") };
            tried.push(Tried { point, rung, score: Score::Pending });
        }
        assert_eq!(next(strategy, 9, &tried), Next::Wait);
        tried[0].score = Score::Timed(2.0);
        tried[1].score = Score::Timed(1.0);
        assert_eq!(next(strategy, 9, &tried), Next::Measure { point: tried[0].point, rung: Rung(1) });
    }

    #[test]
    fn an_empty_space_is_exhausted() {
        for strategy in
            [Strategy::Exhaustive, Strategy::Random { seed: 1 }, Strategy::Halving { seed: 1, first: 4 }]
        {
            assert_eq!(next(strategy, 0, &[]), Next::Exhausted);
        }
    }
}
