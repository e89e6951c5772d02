//! Durable appends against a raw append and sync loop of equal bytes, on the same disk, in turns.

use super::Row;
use crate::clock::Clock;
use crate::state::io;
use fleet_config::refusal::Refusal;
use ledger::log::{LogSigner, LogWriter};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Bytes of one entry: what the ledger aims at.
const ENTRY: usize = 2048;

/// Runs both sides in turns for each batch size and answers with rates and their ratio.
pub(super) fn run(folder: &Path, seconds: u64) -> Result<Vec<Row>, Refusal> {
    let place = folder.display().to_string();
    std::fs::create_dir_all(folder).map_err(|error| io(&place, &error))?;
    if std::fs::read_dir(folder).map_err(|error| io(&place, &error))?.next().is_some() {
        return Err(Refusal::new(
            "bench/not-empty",
            place,
            "the folder holds files already, and the benchmark writes into it",
            "name an empty or new folder on the disk to be measured",
        ));
    }
    let measured = measure(folder, &place, seconds);
    // Hundreds of megabytes of zeros are of no use to anybody afterwards.
    for (part, is_folder) in [("ledger", true), ("raw", false)] {
        let path = folder.join(part);
        let _gone = if is_folder { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    }
    measured
}

fn measure(folder: &Path, place: &str, seconds: u64) -> Result<Vec<Row>, Refusal> {
    let failed = |error: &dyn std::fmt::Display| {
        Refusal::new(
            "bench/ledger",
            place,
            error.to_string(),
            "name an empty folder on the disk to be measured",
        )
    };
    let key = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
    let signer = LogSigner::new("muster.invalid/bench", key).map_err(|error| failed(&error))?;
    let mut log = LogWriter::create(&folder.join("ledger"), signer).map_err(|error| failed(&error))?;
    let mut raw = File::create(folder.join("raw")).map_err(|error| io(place, &error))?;
    let mut rows = Vec::new();
    for batch in [1usize, 10, 100, 1000] {
        let entries: Vec<Vec<u8>> =
            (0..batch).map(|n| vec![u8::try_from(n % 251).unwrap_or(0); ENTRY]).collect();
        let bytes = entries.concat();
        let (mut ours, mut theirs, mut rounds) = (0.0, 0.0, 0u32);
        let clock = Clock::start();
        while clock.now().as_secs() < seconds {
            let start = clock.now();
            log.append_batch(&entries).map_err(|error| failed(&error))?;
            let middle = clock.now();
            raw.write_all(&bytes).and_then(|()| raw.sync_data()).map_err(|error| io(place, &error))?;
            ours += (middle - start).as_secs_f64();
            theirs += (clock.now() - middle).as_secs_f64();
            rounds += 1;
        }
        log.integrate().map_err(|error| failed(&error))?;
        let total = f64::from(rounds) * batch as f64;
        rows.push(Row::new(
            format!("durable appends of {ENTRY} bytes, batches of {batch}, {rounds} rounds"),
            format!("{:.0}/s, raw {:.0}/s, ratio {:.2}", total / ours, total / theirs, theirs / ours),
        ));
    }
    Ok(rows)
}
