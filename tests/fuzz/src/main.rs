//! The fuzzer: one binary with every target, chosen by `$MUSTER_FUZZ_TARGET`. `scripts/fuzz.sh` runs it.
#![no_main]

#[path = "../targets/mod.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::sync::OnceLock;
use targets::{TARGETS, Target};

static CHOSEN: OnceLock<&Target> = OnceLock::new();

/// Answers `$MUSTER_FUZZ_LIST` and `$MUSTER_FUZZ_SEEDS` and ends, or chooses the target.
fn choose() {
    if std::env::var_os("MUSTER_FUZZ_LIST").is_some() {
        TARGETS.iter().for_each(|target| println!("{} {}", target.name, target.length_max));
        std::process::exit(0);
    }
    let name = std::env::var("MUSTER_FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().copied().find(|target| target.name == name).unwrap_or_else(|| {
        eprintln!("$MUSTER_FUZZ_TARGET is `{name}`; targets are those that MUSTER_FUZZ_LIST=1 lists");
        std::process::exit(2)
    });
    if let Some(folder) = std::env::var_os("MUSTER_FUZZ_SEEDS") {
        let folder = Path::new(&folder);
        for (position, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{position:04}")), seed).expect("the folder takes files");
        }
        std::process::exit(0);
    }
    // What a target makes once is not charged to the input that comes first.
    (target.run)(&[]);
    CHOSEN.set(target).unwrap_or_else(|_| unreachable!("libFuzzer initialises once"));
}

fuzz_target!(init: choose(), |data: &[u8]| {
    CHOSEN.get().expect("libFuzzer initialises before it runs").check(data);
});
