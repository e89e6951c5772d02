//! What a ledger of many records costs: taking in, proving, indexing, asking, verifying, memory. The records are signed in
//! their real form and say nothing true; each figure is of one run.

use super::synthetic::{self, Keys, OPENING, ORIGIN};
use super::{Goal, Row, percentile};
use crate::cli::output::note;
use crate::clock::Clock;
use fleet_config::domain::LeafIndex;
use fleet_config::refusal::Refusal;
use ledger::cores::{self, on_all_cores};
use ledger::entry::{Signers, check};
use ledger::index::{Index, IndexError, ReuseKey};
use ledger::log::{LogReader, LogSigner, LogWriter, VerifierKey};
use ledger::query::{Filter, Query};
use ledger::verify::verify_log;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

/// Entries that are made, checked and appended together.
const BATCH: u64 = 1000;
/// Most questions of each kind; never more than there are records.
const QUESTIONS_MAX: u64 = 1000;
/// Entries whose signatures are checked together while verifying: bounds memory.
const CHECKED_TOGETHER: usize = 4096;

/// How often, and how long after each other, a lock that is about to go is tried.
const LOCKED_TRIES: u32 = 500;
const LOCKED_WAIT: Duration = Duration::from_millis(10);

/// A step failed; the text says which and why.
type Failure = String;

/// For use with `map_err`.
fn at<E: Display>(step: &'static str) -> impl FnOnce(E) -> Failure {
    move |error| format!("{step}: {error}")
}

/// Builds a ledger of `records` results in `folder` and measures it.
pub(super) fn run(folder: &Path, records: u64) -> Result<Vec<Row>, Refusal> {
    let place = folder.display().to_string();
    measure(folder, records).map_err(|cause| {
        Refusal::new(
            "bench/ledger",
            place,
            cause,
            "name an empty folder on a disk with 6 KiB for each record",
        )
    })
}

fn measure(folder: &Path, records: u64) -> Result<Vec<Row>, Failure> {
    let key = ed25519_dalek::SigningKey::from_bytes(&[7; 32]);
    let signer = LogSigner::new(ORIGIN, key).map_err(at("key"))?;
    let verifier = signer.verifier().clone();
    let mut rows = take_in(folder, signer, records)?;
    let log = LogReader::open(folder, &verifier).map_err(at("open"))?;
    note("proving");
    rows.push(proofs(&log)?);
    note("indexing");
    rows.extend(questions(folder, &log, records)?);
    note("scanning");
    rows.push(scan(&log)?);
    note("verifying");
    rows.extend(verification(folder, &verifier)?);
    rows.push(Row::new("bytes of the folder", format!("{} MiB", bytes_of(folder) >> 20)));
    rows.push(Row::new("memory, peak of this process", peak_memory()));
    Ok(rows)
}

/// Makes entries on all cores and takes them in as the coordinator would: checked, then appended.
fn take_in(folder: &Path, signer: LogSigner, records: u64) -> Result<Vec<Row>, Failure> {
    let keys = Keys::new();
    let mut log = LogWriter::create(folder, signer).map_err(at("create"))?;
    let opening = keys.opening().map_err(at("entries"))?;
    let mut signers = Signers::new();
    for (leaf, bytes) in (0..).zip(&opening) {
        signers.take_in(LeafIndex(leaf), bytes).map_err(at("opening"))?;
    }
    log.append_batch(&opening).map_err(at("append"))?;
    let (mut checking, mut appending, mut bytes, mut next) = (0.0, 0.0, 0, 0);
    let clock = Clock::start();
    while next < records {
        let numbers: Vec<u64> = (next..records.min(next + BATCH)).collect();
        let entries = on_all_cores(&numbers, |number| keys.result(*number).map_err(at("entries")));
        let entries: Vec<Vec<u8>> = entries.into_iter().collect::<Result<_, Failure>>()?;
        let start = clock.now();
        check_all(&entries, &signers)?;
        let middle = clock.now();
        log.append_batch(&entries).map_err(at("append"))?;
        appending += (clock.now() - middle).as_secs_f64();
        checking += (middle - start).as_secs_f64();
        bytes += entries.iter().map(Vec::len).sum::<usize>();
        next += numbers.len() as u64;
        if next.is_multiple_of(100 * BATCH) {
            note(&format!("{next} of {records} records"));
        }
    }
    let start = clock.now();
    log.integrate().map_err(at("integrate"))?;
    appending += (clock.now() - start).as_secs_f64();
    let count = records as f64;
    let rate = count / (checking + appending);
    Ok(vec![
        Row::new("records, bytes of an entry", format!("{records}, {:.0}", bytes as f64 / count.max(1.0))),
        Row::new(
            format!("taken in, batches of {BATCH}: signature and form checked, appended, integrated"),
            format!(
                "{rate:.0}/s (checked {:.0}/s on {} cores, appended and integrated {:.0}/s)",
                count / checking,
                cores::count(),
                count / appending
            ),
        )
        .with_goal(Goal::at_least(rate, 10_000.0, "/s")),
    ])
}

/// Checks every entry as ingest does, on all cores; the first failure counts.
fn check_all(entries: &[Vec<u8>], signers: &Signers) -> Result<(), Failure> {
    let checked = on_all_cores(entries, |entry| check(entry, signers).map(|_| ()).map_err(at("check")));
    checked.into_iter().collect()
}

/// Numbers below a bound, the same ones each run (xorshift64*, Vigna 2016).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound.max(1)
    }
}

/// Times `ask` for drawn numbers below `bound`; sorted, in milliseconds.
fn timed(bound: u64, mut ask: impl FnMut(u64) -> Result<(), Failure>) -> Result<Vec<f64>, Failure> {
    let (clock, mut draw, mut times) = (Clock::start(), Draw(0x9e37_79b9_7f4a_7c15), Vec::new());
    for _ in 0..bound.min(QUESTIONS_MAX) {
        let number = draw.below(bound);
        let start = clock.now();
        ask(number)?;
        times.push((clock.now() - start).as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn proofs(log: &LogReader) -> Result<Row, Failure> {
    let times =
        timed(log.integrated_size(), |leaf| log.prove(LeafIndex(leaf)).map(|_| ()).map_err(at("prove")))?;
    let worst = percentile(&times, 0.99);
    let value = format!("p50 {:.2} ms, p99 {worst:.2} ms", percentile(&times, 0.5));
    let count = times.len();
    Ok(Row::new(format!("inclusion proof with its entry, checked, {count} of them"), value)
        .with_goal(Goal::at_most(worst, 5.0, " ms p99")))
}

/// Opens an index that this process has just closed. Its lock is a file's, which a program that another thread is about to
/// start holds too until it begins: that is waited for.
fn opened_again(path: &Path, log: &LogReader) -> Result<Index, Failure> {
    for _ in 0..LOCKED_TRIES {
        match Index::open(path, log) {
            Ok((index, _)) => return Ok(index),
            Err(IndexError::Locked) => std::thread::park_timeout(LOCKED_WAIT),
            Err(error) => return Err(at("index")(error)),
        }
    }
    Err(at("index")(IndexError::Locked))
}

fn questions(folder: &Path, log: &LogReader, records: u64) -> Result<Vec<Row>, Failure> {
    let path = folder.join("index");
    let clock = Clock::start();
    let (index, _) = Index::open(&path, log).map_err(at("index"))?;
    let rate = log.size() as f64 / clock.now().as_secs_f64();
    drop(index);
    let start = clock.now();
    let index = opened_again(&path, log)?;
    let again = log.size() as f64 / (clock.now() - start).as_secs_f64();
    let mut rows = vec![
        Row::new("index made from the log", format!("{rate:.0} records/s")).with_goal(Goal::at_least(
            rate,
            50_000.0,
            " records/s",
        )),
        Row::new("index opened again, all rows checked", format!("{again:.0} records/s")),
    ];
    let mut ask = |what: &str, times: Vec<f64>| {
        let slow = percentile(&times, 0.95);
        let value = format!("p50 {:.2} ms, p95 {slow:.2} ms", percentile(&times, 0.5));
        let goal = Goal::at_most(slow, 50.0, " ms p95");
        rows.push(Row::new(format!("indexed query by {what}"), value).with_goal(goal));
    };
    let by_record = timed(records, |number| {
        let entry = index.entry(LeafIndex(number + OPENING)).map_err(at("entry"))?.found;
        let record = entry.map(|entry| entry.record).ok_or("an entry has no row")?;
        index.record(record).map(|_| ()).map_err(at("record"))
    });
    ask("leaf, then record", by_record?);
    let by_task = timed(records, |number| {
        index.results_of_task(synthetic::task(number), None).map(|_| ()).map_err(at("task"))
    });
    ask(&format!("task ({} results)", synthetic::RESULTS_OF_TASK), by_task?);
    let by_candidate = timed(records, |number| {
        let (candidate, task) = (synthetic::candidate(number), synthetic::task(number));
        let (policy, class) = (synthetic::policy(), synthetic::class(number));
        index.reusable(&ReuseKey { candidate, task, policy, class }).map(|_| ()).map_err(at("candidate"))
    });
    ask("candidate, task, policy and class", by_candidate?);
    let by_submission = timed(records, |number| {
        index.entries_of_submission(synthetic::submission(number)).map(|_| ()).map_err(at("submission"))
    });
    ask("submission (20 results)", by_submission?);
    Ok(rows)
}

/// `muster query` reads the log and no index: by class, GPU, driver, time or number it takes one pass.
fn scan(log: &LogReader) -> Result<Row, Failure> {
    let classes = vec![synthetic::class(0).to_string()];
    let mut query = Query::new(Filter { classes, ..Filter::default() });
    let clock = Clock::start();
    let mut found = 0_u64;
    for entry in log.entries(0..log.size()) {
        let (leaf, bytes) = entry.map_err(at("scan"))?;
        found += u64::from(query.take(leaf, &bytes, &mut |_| None).is_some());
    }
    let seconds = clock.now().as_secs_f64();
    let value =
        format!("{:.0} ms, {:.0} records/s, {found} rows", seconds * 1e3, log.size() as f64 / seconds);
    Ok(Row::new("query by class, no index: one pass", value).with_goal(Goal::at_most(
        seconds * 1e3,
        50.0,
        " ms, one pass",
    )))
}

fn verification(folder: &Path, verifier: &VerifierKey) -> Result<Vec<Row>, Failure> {
    let clock = Clock::start();
    let report = verify_log(folder, verifier, &mut |_, _| {});
    let hashes = report.size as f64 / clock.now().as_secs_f64();
    if let Some(finding) = report.findings.first() {
        return Err(format!("the made-up ledger does not verify: {}: {}", finding.path, finding.fault));
    }
    let start = clock.now();
    let mut signers = Signers::new();
    let mut held: Vec<Vec<u8>> = Vec::new();
    let mut failure = None;
    let check_held = |held: &mut Vec<Vec<u8>>, signers: &Signers| {
        let checked = check_all(held, signers);
        held.clear();
        checked.err()
    };
    verify_log(folder, verifier, &mut |leaf, bytes| {
        if leaf.0 < OPENING {
            failure = signers.take_in(leaf, bytes).err().map(at("opening"));
            return;
        }
        held.push(bytes.to_vec());
        if held.len() == CHECKED_TOGETHER && failure.is_none() {
            failure = check_held(&mut held, &signers);
        }
    });
    let failure = failure.or_else(|| check_held(&mut held, &signers));
    if let Some(failure) = failure {
        return Err(failure);
    }
    let signatures = report.size as f64 / (clock.now() - start).as_secs_f64();
    Ok(vec![
        Row::new("verified: tree rebuilt, every file compared", format!("{hashes:.0} records/s"))
            .with_goal(Goal::at_least(hashes, 100_000.0, " records/s")),
        Row::new(
            format!("the same, signature and form of each entry on {} cores", cores::count()),
            format!("{signatures:.0} records/s"),
        )
        .with_goal(Goal::at_least(signatures, 30_000.0, " records/s")),
    ])
}

fn bytes_of(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// The kernel's own figure (proc_pid_status(5), `VmHWM`).
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".to_owned(), |value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_ledger_is_taken_in_proven_asked_and_verified() {
        let folder = tempfile::tempdir().unwrap();
        // More than one bundle, more than one task.
        let rows = run(&folder.path().join("ledger"), 300).unwrap();
        let goals = rows.iter().filter(|row| row.goal.is_some()).count();
        assert_eq!((rows.len(), goals), (14, 10), "{rows:#?}");
        let scanned = rows.iter().find(|row| row.what.starts_with("query by class")).unwrap();
        assert!(scanned.value.ends_with("100 rows"), "every result of one task of three: {}", scanned.value);
    }
}
