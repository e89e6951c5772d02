//! What the fuzzer found stays mended: every kept input, the seeds, and seeds with a little damage, through the targets.

#![expect(clippy::unwrap_used, reason = "a test's helper fails the test by panicking")]

mod targets;

use ledger::stats::generator::SplitMix64;
use std::path::{Path, PathBuf};
use targets::{TARGETS, Target};

/// Seeds of one target that are run here; the fuzzer takes all of them.
const SEEDS_MAX: usize = 32;
/// Damaged copies of each; `$MUSTER_FUZZ_COPIES` asks for more, other ones each time with `$MUSTER_FUZZ_SEED`.
const COPIES: u64 = 4;

/// A number from the environment.
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("${name} is no number")))
}

fn regressions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/regressions")
}

/// Kept inputs of a target with their names.
fn kept(target: &Target) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(regressions().join(target.name)) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
}

/// At most [`SEEDS_MAX`] of the seeds, spread over all of them.
fn some_seeds(target: &Target) -> Vec<Vec<u8>> {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has nothing to start from", target.name);
    let step = seeds.len().div_ceil(SEEDS_MAX);
    seeds.into_iter().step_by(step).collect()
}

#[test]
fn kept_inputs_hold_every_property() {
    for target in TARGETS {
        (target.run)(&[]);
        for (name, input) in kept(target) {
            println!("{name}");
            assert!(input.len() <= target.length_max, "{name} is longer than its target takes");
            target.check(&input);
        }
    }
}

#[test]
fn kept_inputs_belong_to_a_target_and_are_small() {
    let mut total = 0;
    for entry in std::fs::read_dir(regressions()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(TARGETS.iter().any(|target| target.name == name), "{name} is no target");
        for file in std::fs::read_dir(&path).unwrap() {
            total += file.unwrap().metadata().unwrap().len();
        }
    }
    assert!(total <= 300_000, "{total} bytes of kept inputs");
}

#[test]
fn seeds_and_damaged_seeds_hold_every_property() {
    let (copies, seed) = (setting("MUSTER_FUZZ_COPIES", COPIES), setting("MUSTER_FUZZ_SEED", 7));
    println!("seed {seed}");
    let mut generator = SplitMix64::new(seed);
    for target in TARGETS {
        println!("{}", target.name);
        (target.run)(&[]);
        let seeds = some_seeds(target);
        for seed in &seeds {
            target.check(seed);
            for _ in 0..copies {
                let mut damaged = seed.clone();
                for _ in 0..=generator.below(3) {
                    damage(&mut damaged, &seeds, &mut generator);
                }
                damaged.truncate(target.length_max);
                if std::panic::catch_unwind(|| target.check(&damaged)).is_err() {
                    panic!("{}: {}", target.name, data_encoding::HEXLOWER.encode(&damaged));
                }
            }
        }
    }
}

/// One small change.
fn damage(input: &mut Vec<u8>, seeds: &[Vec<u8>], generator: &mut SplitMix64) {
    let mut draw = |below: usize| generator.below(below.max(1) as u64) as usize;
    let at = draw(input.len());
    match draw(6) {
        0 => input.truncate(at),
        1 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << draw(8)),
        2 => drop(input.splice(at..at, [draw(256) as u8; 3])),
        3 => {
            let end = (at + draw(16)).min(input.len());
            drop(input.drain(at..end));
        }
        4 => {
            let value = [0, 1, 0x7f, 0x80, 0xff][draw(5)];
            input.iter_mut().skip(at).take(1 + draw(8)).for_each(|byte| *byte = value);
        }
        _ => {
            // A piece of another seed.
            let other = &seeds[draw(seeds.len())];
            let from = draw(other.len());
            let piece = other[from..].iter().take(draw(64)).copied().collect::<Vec<u8>>();
            drop(input.splice(at..at, piece));
        }
    }
}
