//! Simulated measurements with known truth: whether intervals cover, winners are found and copies stay copies.
//!
//! Each launch of a side takes the task's time times what the machine does to both sides (heat that rises to 17 %, as seen
//! on an H200, and a slow wander), what this side does by itself (white noise, and a wander that neighbouring pairs share)
//! and now and then a spike. The ratio of a lease is off by what its placement and its board add. Nothing here is a
//! measurement of anything: it shows what the statistics do where the truth is known.

use super::claim::NoiseFloor;
use super::conclusion::{Claim, Conclusion, claims, conclude};
use super::estimate::{Estimate, median_estimate};
use super::estimator::log_ratios;
use super::generator::SplitMix64;
use super::hierarchy::{Lease, over_leases};
use super::resolution::log_resolution;
use super::{bootstrap, estimator};
use fleet_config::domain::{Picoseconds, SampleSeries};

/// What disturbs a measurement; standard deviations of logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Heat adds up to this to both sides.
    pub drift: f64,
    /// The wander of the machine that both sides share, and what of it is left at the next launch.
    pub shared: f64,
    pub shared_memory: f64,
    /// What each launch of a side adds by itself.
    pub white: f64,
    /// The wander of a side, and what of it is left at the next pair.
    pub own: f64,
    pub own_memory: f64,
    /// Share of launches with a spike, and its mean size.
    pub spikes: f64,
    pub spike: f64,
    /// What a lease and a board add to a ratio.
    pub lease: f64,
    pub board: f64,
}

impl Noise {
    /// All of it at once.
    pub const REALISTIC: Self = Self {
        drift: 0.17,
        shared: 0.01,
        shared_memory: 0.9,
        white: 0.01,
        own: 0.007,
        own_memory: 0.5,
        spikes: 0.03,
        spike: 0.2,
        lease: 0.003,
        board: 0.002,
    };
    /// The same without anything that neighbouring pairs share.
    pub const INDEPENDENT: Self = Self { own: 0.0, ..Self::REALISTIC };
    /// The same with more of it.
    pub const STICKY: Self = Self { own: 0.01, own_memory: 0.7, ..Self::REALISTIC };
}

/// The time of a launch where nothing disturbs it.
const TIME: f64 = 1e9;

/// A drawn world: its numbers come from one seed.
#[derive(Debug, Clone)]
pub struct World {
    generator: SplitMix64,
    noise: Noise,
}

impl World {
    /// The world of `seed`.
    pub fn new(noise: Noise, seed: u64) -> Self {
        Self { generator: SplitMix64::new(seed), noise }
    }

    fn uniform(&mut self) -> f64 {
        ((self.generator.draw() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Box and Muller, "A note on the generation of random normal deviates", 1958.
    fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.uniform()));
        radius * libm::cos(2.0 * core::f64::consts::PI * self.uniform())
    }

    /// `count` steps of a wander of this size that keeps the share `memory` from step to step.
    fn wander(&mut self, count: usize, size: f64, memory: f64) -> Vec<f64> {
        let fresh = libm::sqrt(1.0 - memory * memory);
        let mut now = self.normal();
        let mut steps = Vec::with_capacity(count);
        for _ in 0..count {
            now = memory * now + fresh * self.normal();
            steps.push(size * now);
        }
        steps
    }

    /// The samples of one lease whose true logarithm of baseline / candidate is `log`.
    pub fn series(&mut self, pairs: usize, log: f64) -> SampleSeries {
        let noise = self.noise;
        let heat = noise.drift * self.uniform();
        let constant = 0.05 + 0.45 * self.uniform();
        let shared = self.wander(2 * pairs, noise.shared, noise.shared_memory);
        let [left, right] = [0, 1].map(|_| self.wander(pairs, noise.own, noise.own_memory));
        let mut sides = [Vec::with_capacity(pairs), Vec::with_capacity(pairs)];
        for (pair, (left, right)) in left.into_iter().zip(right).enumerate() {
            let own = [left, right];
            for (side, times) in sides.iter_mut().enumerate() {
                // Even pairs run the baseline first.
                let slot = 2 * pair + (side + pair) % 2;
                let warmth = 1.0 - libm::exp(-(slot as f64 / (2 * pairs) as f64) / constant);
                let mut total = heat * warmth + shared[slot] + own[side] + noise.white * self.normal();
                if self.uniform() < noise.spikes {
                    total -= noise.spike * libm::log(self.uniform());
                }
                let truth = if side == 0 { log } else { 0.0 };
                times.push(Picoseconds(libm::round(TIME * libm::exp(total + truth)) as u64));
            }
        }
        let [baseline, candidate] = sides;
        let format = SampleSeries::FORMAT.to_owned();
        SampleSeries { format, case: "case".to_owned(), baseline, candidate, warmups: 0 }
    }

    /// A lease of a candidate on `board`, which adds `on_board` to its ratio.
    fn lease(&mut self, pairs: usize, log: f64, board: usize, on_board: f64) -> Option<Lease<usize>> {
        let log = log + on_board + self.noise.lease * self.normal();
        let series = self.series(pairs, log);
        let estimate = median_estimate(&log_ratios(&series))?.with_open(log_resolution(&series));
        Some(Lease { board, estimate })
    }

    /// Leases of a candidate spread over boards, and what the boards add on average.
    fn leases(&mut self, pairs: usize, log: f64, leases: usize, boards: usize) -> (Vec<Lease<usize>>, f64) {
        let added: Vec<f64> = (0..boards).map(|_| self.noise.board * self.normal()).collect();
        let taken = (0..leases).filter_map(|lease| {
            let board = lease % boards.max(1);
            self.lease(pairs, log, board, added.get(board).copied().unwrap_or(0.0))
        });
        (taken.collect(), estimator::mean(&added).unwrap_or(0.0))
    }
}

/// How often something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub hits: u64,
    pub trials: u64,
}

impl Count {
    /// The share of hits.
    pub fn share(self) -> f64 {
        self.hits as f64 / self.trials.max(1) as f64
    }
}

fn count(trials: u64, mut hit: impl FnMut(u64) -> bool) -> Count {
    let hits = (0..trials).filter(|&trial| hit(trial)).count() as u64;
    Count { hits, trials }
}

/// Ways to the interval of one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// [`super::METHOD`].
    Batches,
    /// The percentile bootstrap of pairs that the first rankings had; slow.
    Pairs,
}

/// Intervals of one lease that hold its ratio.
pub fn coverage_of_one_lease(noise: Noise, pairs: usize, way: Way, trials: u64, seed: u64) -> Count {
    let mut world = World::new(noise, seed);
    count(trials, |trial| {
        let log = 0.1 * world.normal();
        let logs = log_ratios(&world.series(pairs, log));
        let interval = match way {
            Way::Batches => median_estimate(&logs).map(|estimate| estimate.interval()),
            Way::Pairs => bootstrap::median_interval(&logs, trial),
        };
        let truth = libm::exp(log);
        interval.is_some_and(|interval| interval.low <= truth && truth <= interval.high)
    })
}

/// Intervals over several leases that hold the ratio: of the class where they speak for its boards, else of the boards
/// that were measured.
pub fn coverage_of_leases(
    noise: Noise,
    (leases, boards): (usize, usize),
    pairs: usize,
    trials: u64,
    seed: u64,
) -> Count {
    let mut world = World::new(noise, seed);
    count(trials, |trial| {
        let log = 0.1 * world.normal();
        let (taken, on_boards) = world.leases(pairs, log, leases, boards);
        let Some((estimate, reach)) = over_leases(&taken, trial) else { return false };
        let truth = match reach {
            super::Reach::Boards => log,
            super::Reach::Leases | super::Reach::SingleLease => log + on_boards,
        };
        let interval = estimate.log_interval(bootstrap::CONFIDENCE);
        interval.low <= truth && truth <= interval.high
    })
}

/// How the candidates of a league are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub pairs: usize,
    pub leases: usize,
    pub boards: usize,
    /// Copies of the baseline in the ledger, each measured in a lease of its own.
    pub copies: usize,
}

/// One league of candidates with these true logarithms: what is concluded and claimed of each.
fn league(world: &mut World, plan: Plan, truths: &[f64], seed: u64) -> (Vec<Conclusion>, Vec<Claim>) {
    let copies: Vec<f64> = (0..plan.copies)
        .filter_map(|copy| {
            let on_board = world.noise.board * world.normal();
            world.lease(plan.pairs, 0.0, copy, on_board).map(|lease| lease.estimate.log)
        })
        .collect();
    let floor = NoiseFloor::of(&copies);
    let conclusions: Vec<Conclusion> = truths
        .iter()
        .filter_map(|&truth| {
            let (leases, _) = world.leases(plan.pairs, truth, plan.leases, plan.boards);
            conclude(&leases, floor.as_ref(), seed)
        })
        .collect();
    let claimed = claims(&conclusions, floor.as_ref());
    (conclusions, claimed)
}

/// Leagues whose true winner is among those that share the first rank. Each has eight candidates, the best of them by
/// 0.2 to 2 %.
pub fn leagues_won(noise: Noise, plan: Plan, trials: u64, seed: u64) -> Count {
    let mut world = World::new(noise, seed);
    count(trials, |trial| {
        let margin = 0.002 + 0.018 * world.uniform();
        let mut truths: Vec<f64> = (0..7).map(|_| -0.1 * world.uniform()).collect();
        truths.push(margin);
        let (conclusions, _) = league(&mut world, plan, &truths, trial);
        let interval = |one: &Estimate| one.log_interval(bootstrap::CONFIDENCE);
        let best = conclusions.iter().max_by(|one, other| one.estimate.log.total_cmp(&other.estimate.log));
        let (Some(best), Some(winner)) = (best, conclusions.last()) else { return false };
        interval(&winner.estimate).high >= interval(&best.estimate).low
    })
}

/// Leagues of eight copies of the baseline in which any is called faster; then, those in which any is called faster or
/// slower.
pub fn leagues_of_copies(noise: Noise, plan: Plan, trials: u64, seed: u64) -> [Count; 2] {
    let mut world = World::new(noise, seed);
    let mut different = 0;
    let faster = count(trials, |trial| {
        let (_, claimed) = league(&mut world, plan, &[0.0; 8], trial);
        different += u64::from(claimed.iter().any(|claim| matches!(claim, Claim::Faster | Claim::Slower)));
        claimed.contains(&Claim::Faster)
    });
    [faster, Count { hits: different, trials }]
}
