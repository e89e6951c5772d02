//! Durable appends against a raw append and sync loop of equal bytes, on the same disk, in turns; then what a ledger of many
//! records costs.

use super::{Goal, Row, scale};
use crate::clock::Clock;
use crate::state::io;
use fleet_config::refusal::Refusal;
use ledger::log::{LogSigner, LogWriter};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Bytes of one entry: what the ledger aims at.
const ENTRY: usize = 2048;
/// Bytes after which entries are integrated: half of what the log lets wait.
const INTEGRATED_AFTER: usize = 32 << 20;

/// Runs both sides in turns for each batch size and answers with rates and their ratio; then measures a ledger of `records`.
pub(super) fn run(folder: &Path, seconds: u64, records: Option<u64>) -> Result<Vec<Row>, Refusal> {
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
    let measured = measure(folder, &place, seconds).and_then(|mut rows| {
        if let Some(records) = records {
            rows.extend(scale::run(&folder.join("scale"), records)?);
        }
        Ok(rows)
    });
    // What is left would be gigabytes of no use to anybody.
    for (part, is_folder) in [("ledger", true), ("scale", true), ("raw", false)] {
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
        let (mut ours, mut theirs, mut integrating, mut rounds, mut pending) = (0.0, 0.0, 0.0, 0u32, 0);
        let clock = Clock::start();
        while clock.now().as_secs() < seconds {
            let start = clock.now();
            log.append_batch(&entries).map_err(|error| failed(&error))?;
            let middle = clock.now();
            raw.write_all(&bytes).and_then(|()| raw.sync_data()).map_err(|error| io(place, &error))?;
            let end = clock.now();
            ours += (middle - start).as_secs_f64();
            theirs += (end - middle).as_secs_f64();
            rounds += 1;
            pending += bytes.len();
            // Before the log does it by itself, inside of an append.
            if pending > INTEGRATED_AFTER {
                log.integrate().map_err(|error| failed(&error))?;
                integrating += (clock.now() - end).as_secs_f64();
                pending = 0;
            }
        }
        let start = clock.now();
        log.integrate().map_err(|error| failed(&error))?;
        integrating += (clock.now() - start).as_secs_f64();
        let total = f64::from(rounds) * batch as f64;
        let sustained = theirs / (ours + integrating);
        rows.push(
            Row::new(
                format!("durable appends of {ENTRY} bytes, batches of {batch}, {rounds} rounds"),
                format!("{:.0}/s, raw {:.0}/s, ratio {:.2}", total / ours, total / theirs, theirs / ours),
            )
            .with_goal(Goal::at_least(theirs / ours, 0.7, " of raw")),
        );
        rows.push(
            Row::new(
                format!("the same with bundles, tiles and checkpoints, batches of {batch}"),
                format!("{:.0}/s, ratio {sustained:.2}", total / (ours + integrating)),
            )
            .with_goal(Goal::at_least(sustained, 0.7, " of raw")),
        );
    }
    Ok(rows)
}
