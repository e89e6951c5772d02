//! One kernel timed against itself: what two equal sides differ by is what cannot be told apart.

use super::{Bed, SUM, describe, vectors};
use crate::backend::Failure;
use crate::backend::pair::Setting;
use fleet_config::domain::{Facts, Picoseconds};

/// Pairs before the ones that count.
const WARM: usize = 10;
/// Pairs that count.
const PAIRS: usize = 100;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgainstItself {
    pub setting: Setting,
    pub elements: u32,
    pub baseline: Picoseconds,
    pub candidate: Picoseconds,
    /// Ratio of the sides over pairs in parts per million: tenth, middle and ninetieth of a hundred in order.
    pub ratio: [u64; 3],
    /// What the workers tell beside their times.
    pub facts: Facts,
}

/// A sum of vectors of `elements` against itself, in A B B A order.
pub fn against_itself(bed: &Bed<'_>, setting: Setting, elements: u32) -> Result<AgainstItself, String> {
    measure(bed, setting, elements).map_err(|failure| describe(&failure))
}

fn measure(bed: &Bed<'_>, setting: Setting, elements: u32) -> Result<AgainstItself, Failure> {
    let artefact = bed.compile("against-itself", SUM, &["sum"])?;
    let mut workers = bed.open_pair([&artefact, &artefact], setting)?;
    let bytes = vec![0; elements as usize * 4];
    for worker in &mut workers {
        worker.prepare(&vectors(elements))?;
        worker.write(0, &bytes)?;
        worker.write(1, &bytes)?;
    }
    let mut times: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
    for pair in 0..WARM + PAIRS {
        for side in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            // As before a timed launch: inputs, then poison.
            workers[side].write(0, &bytes)?;
            workers[side].write(1, &bytes)?;
            workers[side].fill(2, 0xff)?;
            let time = workers[side].launch()?;
            if pair >= WARM {
                times[side].push(time.0);
            }
        }
    }
    let mut ratios: Vec<u64> =
        times[0].iter().zip(&times[1]).map(|(left, right)| left * 1_000_000 / (*right).max(1)).collect();
    let facts = workers[0].facts();
    for worker in workers {
        worker.finish();
    }
    let [left, right] = &mut times;
    let mut at = |part| percentile(&mut ratios, part);
    Ok(AgainstItself {
        setting,
        elements,
        baseline: Picoseconds(percentile(left, 50)),
        candidate: Picoseconds(percentile(right, 50)),
        ratio: [at(10), at(50), at(90)],
        facts,
    })
}

fn percentile(numbers: &mut [u64], part: usize) -> u64 {
    numbers.sort_unstable();
    numbers.get(numbers.len() * part / 100).copied().unwrap_or(0)
}
