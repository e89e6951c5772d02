//! `muster best` and `muster fast-p`: which candidate to use on a device class, and how many tasks have a fast one.

use super::insight::times;
use super::rank::{Answer, ask};
use crate::cli::output::table;
use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use clap::{Args, ValueEnum};
use fleet_config::domain::{CandidateId, ClassId, Decimal, PartsPerBillion, RecordId, SandboxLevel};
use fleet_config::refusal::Refusal;
use ledger::entry::{Body, Entry};
use ledger::rank::{Claim, Place, RankRow, Reach, Table};
use ledger::stats::{Threshold, fast_count};
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Debug, Args)]
pub(in crate::cli) struct BestArgs {
    /// Name, id or prefix of the id of the task
    task: String,
    /// An architecture, a device model, or the first digits of a comparability class, as `muster rank` prints them
    #[arg(long = "for", value_name = "CLASS")]
    class: String,
    /// As the ledger stood at this size
    #[arg(long, value_name = "SIZE")]
    as_of: Option<u64>,
    /// Leave out results of a weaker sandbox: full, kernel or none
    #[arg(long, value_name = "LEVEL", default_value = "none")]
    sandbox: SandboxLevel,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct FastArgs {
    /// An architecture, a device model, or the first digits of a comparability class
    #[arg(long = "for", value_name = "CLASS")]
    class: String,
    /// Thresholds of the speed-up over each task's baseline
    #[arg(long, value_delimiter = ',', default_value = "0,0.5,0.8,1,1.5,2", value_name = "P,…")]
    p: Vec<Decimal>,
    /// Whether a speed-up of exactly p passes
    #[arg(long, value_enum, default_value_t = Operator::Above)]
    operator: Operator,
    /// As the ledger stood at this size
    #[arg(long, value_name = "SIZE")]
    as_of: Option<u64>,
}

/// Part of every number of fast_p: two benches of the trade differ in it.
#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Operator {
    /// Strictly more, as KernelBench counts
    Above,
    /// That much or more, as AutoKernel counts
    AtLeast,
}

/// What to use in one class.
#[derive(Debug, Serialize)]
struct Best {
    architecture: String,
    device_model: String,
    policy: String,
    class: ClassId,
    /// None: the task's baseline.
    candidate: Option<CandidateId>,
    name: String,
    speed_up: PartsPerBillion,
    low: PartsPerBillion,
    high: PartsPerBillion,
    claim: Claim,
    reach: Reach,
    leases: u64,
    nodes: u64,
    record: Option<RecordId>,
    /// Others whose interval reaches that of the best.
    as_good: Vec<String>,
    notice: String,
}

#[derive(Debug, Serialize)]
struct Fast {
    class: String,
    operator: Operator,
    /// Tasks with an attempt in the class: the denominator.
    tasks: u64,
    shares: Vec<Share>,
}

#[derive(Debug, Serialize)]
struct Share {
    p: Decimal,
    count: u64,
}

/// Runs `muster best`.
pub(super) fn run(context: &Context, args: &BestArgs) -> Result<Ending, Refusal> {
    let Answer { ranking, .. } = ask(context, &args.task, args.as_of, args.sandbox)?;
    let tables = matching(&ranking.tables, &args.class);
    if tables.is_empty() {
        return Err(no_class(&args.class));
    }
    let found: Vec<Best> = tables.into_iter().filter_map(best).collect();
    if found.is_empty() {
        return Err(Refusal::new(
            "best/nothing-valid",
            &args.class,
            "no candidate of this task is valid in this class",
            "`muster rank` says why each failed",
        ));
    }
    context.output.print(&found, |found| text(found));
    Ok(Ending::Done)
}

fn no_class(class: &str) -> Refusal {
    Refusal::new(
        "best/unknown-class",
        class.chars().take(80).collect::<String>(),
        "nothing was measured in such a class",
        "name an architecture, a model or a class as `muster rank` prints them",
    )
}

/// Fewest digits that may stand for a class.
const DIGITS_MIN: usize = 8;

/// The tables that `class` names. A word that an architecture or model equals, never a part of one.
fn matching<'a>(tables: &'a [Table], class: &str) -> Vec<&'a Table> {
    let is_prefix = class.len() >= DIGITS_MIN && class.bytes().all(|byte| byte.is_ascii_hexdigit());
    let named = |table: &&Table| {
        table.architecture.as_str() == class
            || table.device_model == class
            || (is_prefix && table.class.to_string().starts_with(class))
    };
    tables.iter().filter(named).collect()
}

/// The first row of a table, the baseline included: where it stands first nothing is better.
fn best(table: &Table) -> Option<Best> {
    if !table.rows.iter().any(|row| row.record.is_some()) {
        return None;
    }
    let first = table.rows.first()?;
    let shares = |row: &&RankRow| {
        let ranked =
            matches!((&row.place, &first.place), (Place::Rank(one), Place::Rank(other)) if one == other);
        ranked && row.record != first.record
    };
    Some(Best {
        architecture: table.architecture.to_string(),
        device_model: table.device_model.clone(),
        policy: table.policy_name.clone(),
        class: table.class,
        candidate: first.candidate,
        name: first.name.clone(),
        speed_up: first.score,
        low: first.low,
        high: first.high,
        claim: first.claim,
        reach: first.reach,
        leases: first.leases,
        nodes: first.nodes,
        record: first.record,
        as_good: table.rows.iter().filter(shares).map(|row| row.name.clone()).collect(),
        notice: table.notice.clone(),
    })
}

fn text(found: &[Best]) -> String {
    let row = |best: &Best| {
        let doubt = match (best.candidate, best.claim, best.reach, best.nodes) {
            (None, ..) => "the baseline: nothing valid is faster",
            (_, Claim::NoDifference, ..) => "no difference from the baseline",
            (_, Claim::OneLeaseOnly, ..) | (_, _, Reach::SingleLease, _) => "single lease",
            (_, _, _, 1) => "single witness",
            _ => "",
        };
        let interval = format!("{} to {}", times(best.low), times(best.high));
        vec![
            format!("{}, {}, {}", best.architecture, best.device_model, best.policy),
            best.name.clone(),
            times(best.speed_up),
            if best.record.is_some() { interval } else { String::new() },
            best.record.map(|record| record.short()).unwrap_or_default(),
            best.as_good.join(", "),
            doubt.to_owned(),
        ]
    };
    let header = ["CLASS", "USE", "SPEED-UP", "95 % INTERVAL", "RECORD", "AS GOOD", "NOTE"];
    let body = table(&header, &found.iter().map(row).collect::<Vec<_>>());
    let notices: BTreeSet<&str> =
        found.iter().map(|best| best.notice.as_str()).filter(|n| !n.is_empty()).collect();
    std::iter::once(body.as_str()).chain(notices).collect::<Vec<_>>().join("\n")
}

/// Runs `muster fast-p`.
pub(super) fn fast(context: &Context, args: &FastArgs) -> Result<Ending, Refusal> {
    let reading = Reading::open(&context.state)?;
    let mut tasks = BTreeSet::new();
    for (_, bytes) in reading.entries(args.as_of.unwrap_or(reading.log.size()).min(reading.log.size()))? {
        if let Ok(Entry { body: Body::Task(added), .. }) = Entry::read(&bytes) {
            tasks.insert(added.task);
        }
    }
    let mut speed_ups = Vec::new();
    for task in tasks {
        let Answer { ranking, .. } = ask(context, &task.to_string(), args.as_of, SandboxLevel::None)?;
        let tables = matching(&ranking.tables, &args.class);
        if tables.is_empty() {
            continue;
        }
        let scores = tables.iter().flat_map(|table| &table.rows).filter(|row| row.record.is_some());
        speed_ups.push(scores.map(|row| row.score).max().map(PartsPerBillion::ratio));
    }
    if speed_ups.is_empty() {
        return Err(no_class(&args.class));
    }
    let threshold = match args.operator {
        Operator::Above => Threshold::Above,
        Operator::AtLeast => Threshold::AtLeast,
    };
    let share = |p: &Decimal| Share { count: fast_count(&speed_ups, p.value(), threshold), p: p.clone() };
    let shares = args.p.iter().map(share).collect();
    let class = args.class.clone();
    let fast = Fast { class, operator: args.operator, tasks: speed_ups.len() as u64, shares };
    context.output.print(&fast, shares_text);
    Ok(Ending::Done)
}

fn shares_text(fast: &Fast) -> String {
    let sign = match fast.operator {
        Operator::Above => ">",
        Operator::AtLeast => "≥",
    };
    let row = |share: &Share| {
        let percentage = 100.0 * share.count as f64 / fast.tasks.max(1) as f64;
        let told = format!("{} of {}", share.count, fast.tasks);
        vec![format!("speed-up {sign} {}", share.p), told, format!("{percentage:.1} %")]
    };
    let rows: Vec<Vec<String>> = fast.shares.iter().map(row).collect();
    table(&["FAST_P", "TASKS", "SHARE"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::DeviceKind;
    use ledger::rank::Floor;

    fn table_of(architecture: &str, model: &str, class: u8) -> Table {
        Table {
            class: ClassId([class; 32]),
            policy: fleet_config::domain::PolicyId([1; 32]),
            policy_name: "cpu-paired/1".to_owned(),
            left_out: Vec::new(),
            device_kind: DeviceKind::Cpu,
            architecture: architecture.parse().unwrap(),
            device_model: model.to_owned(),
            noise_floor: None::<Floor>,
            rows: Vec::new(),
            rejected: Vec::new(),
            fallen: Vec::new(),
            fleet_faults: Vec::new(),
            attempts: 0,
            weakest_sandbox: SandboxLevel::None,
            notice: String::new(),
        }
    }

    #[test]
    fn a_class_is_named_whole_or_by_enough_digits() {
        let tables =
            [table_of("cpu:x86-64-v3", "Some CPU", 0xab), table_of("nvidia:sm_90a", "NVIDIA H200", 0xcd)];
        let count = |class: &str| matching(&tables, class).len();
        assert_eq!(count("nvidia:sm_90a"), 1);
        assert_eq!(count("NVIDIA H200"), 1);
        assert_eq!((count("abababab"), count("ababab")), (1, 0));
        assert_eq!((count("H200"), count("nvidia:sm_90"), count("")), (0, 0, 0), "never a part of a name");
        assert!(best(&tables[0]).is_none());
    }
}
