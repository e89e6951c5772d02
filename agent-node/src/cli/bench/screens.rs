//! `muster-node bench screens`: every kernel of a folder, right ones and wrong ones, under all screens.

use super::super::{BenchArguments, FAILED};
use super::{Device, Subject, header, median, row, subjects, told};
use agent_node::job::tryout::{Crowded, Tried, Tryout};
use anyhow::Context as _;
use fleet_config::config::LoadedCandidate;
use fleet_config::domain::{
    Blame, CheckEvidence, CheckFinding, MeasurementPolicy, Milliseconds, Screen, Status,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// What a kernel of the folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Right,
    Wrong,
}

/// One kernel under all screens.
#[derive(Debug, Serialize)]
struct Line {
    kernel: String,
    kind: Kind,
    verdict: Status,
    /// Stages and screens that found a fault, in the order in which they did.
    found_by: Vec<String>,
    /// The verdict's first cause.
    cause: String,
    /// From the source to the verdict of validation, screens left out, in milliseconds.
    plain_ms: u64,
    /// Each screen that ran, in milliseconds.
    screens_ms: BTreeMap<String, u64>,
    /// Screens that were not run.
    not_run: Vec<String>,
    /// Whether task or machine failed and not the kernel: no verdict about it.
    no_verdict: bool,
}

#[derive(Debug, Serialize)]
struct Table {
    compiler: String,
    architecture: String,
    lines: Vec<Line>,
    wrong: usize,
    caught: usize,
    right: usize,
    false_alarms: usize,
    /// Kernels of either kind whose task or machine failed.
    no_verdict: usize,
}

pub(super) fn run(arguments: &BenchArguments) -> anyhow::Result<ExitCode> {
    let device = Device::of(arguments)?;
    let policy = policy();
    let mut table = Table {
        compiler: compiler(&device),
        architecture: device.offer.description.architecture.to_string(),
        lines: Vec::new(),
        wrong: 0,
        caught: 0,
        right: 0,
        false_alarms: 0,
        no_verdict: 0,
    };
    if !arguments.json {
        println!("{} for {}", table.compiler, table.architecture);
        for (screen, cause) in device.missing_screens() {
            println!("{screen} is not run: {cause}");
        }
        println!(
            "\n{}",
            header(&["kernel", "", "verdict", "found by", "without screens, ms", "screens, ms", "cost"])
        );
    }
    for subject in subjects(&arguments.folder, &arguments.only)? {
        let right = subject.candidate(&subject.home.join("candidate.cu"))?;
        table.add(arguments, line(&device, &subject, &policy, Kind::Right, &subject.name, &right)?);
        for path in subject.wrong()? {
            let bug = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let wrong = subject.candidate(&path)?;
            let name = format!("{}/{bug}", subject.name);
            table.add(arguments, line(&device, &subject, &policy, Kind::Wrong, &name, &wrong)?);
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&table)?);
    } else {
        print_costs(&table);
        let Table { caught, wrong, false_alarms, right, no_verdict, .. } = table;
        if no_verdict > 0 {
            println!("\n{no_verdict} kernels have no verdict: task or machine failed");
        }
        println!("\n{caught} wrong kernels caught of {wrong}, {false_alarms} false alarms of {right}");
    }
    let is_clean = table.caught == table.wrong && table.false_alarms + table.no_verdict == 0;
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// All screens, and as little timing as a verdict needs.
fn policy() -> MeasurementPolicy {
    let short = MeasurementPolicy {
        name: "bench-screens/1".to_owned(),
        warmups: 0,
        pairs_min: 1,
        pairs_max: 1,
        budget: Milliseconds(1),
        checked_launches: 1,
        ..MeasurementPolicy::cpu_paired()
    };
    short.with_screens(Screen::ALL.to_vec())
}

pub(super) fn compiler(device: &Device) -> String {
    let fact = device.offer.description.configuration.get(fleet_config::domain::field::COMPILER);
    super::super::doctor::text(fact)
}

fn line(
    device: &Device,
    subject: &Subject,
    policy: &MeasurementPolicy,
    kind: Kind,
    name: &str,
    candidate: &LoadedCandidate,
) -> anyhow::Result<Line> {
    let folder = device.folder(name)?;
    let tryout = Tryout {
        task: &subject.task,
        candidate,
        policy,
        offer: &device.offer,
        wish: &device.wish,
        machine: &Crowded,
        folder: &folder,
    };
    let Tried { record, checks, log: _ } = tryout.run().with_context(told(name, &tryout))?;
    let _ = std::fs::remove_dir_all(&folder);
    let is_screen = |check: &&CheckEvidence| Screen::ALL.iter().any(|screen| screen.check() == check.check);
    let named = |finding: CheckFinding| {
        checks.iter().filter(move |check| check.finding == finding).map(|check| check.check.name().to_owned())
    };
    let ran = checks.iter().filter(is_screen).filter(|check| check.finding != CheckFinding::NotRun);
    let mut screens_ms: BTreeMap<String, u64> = BTreeMap::new();
    for check in ran {
        *screens_ms.entry(check.check.name().to_owned()).or_default() += check.took.0;
    }
    let screens: u64 = screens_ms.values().sum();
    let times = record.stage_times;
    let cause = record.outcome.cause.as_ref();
    Ok(Line {
        kernel: name.to_owned(),
        kind,
        verdict: record.outcome.status,
        found_by: named(CheckFinding::FaultFound).collect(),
        cause: cause.map(|cause| format!("{}: {}", cause.code, cause.message)).unwrap_or_default(),
        plain_ms: (times.transfer.0 + times.compile.0 + times.validate.0).saturating_sub(screens),
        screens_ms,
        not_run: checks
            .iter()
            .filter(is_screen)
            .filter(|check| check.finding == CheckFinding::NotRun)
            .map(|check| check.check.name().to_owned())
            .collect(),
        no_verdict: record.outcome.status != Status::Ok && record.outcome.blame != Blame::Candidate,
    })
}

impl Line {
    /// Whether the verdict is bad, and for a fault of the kernel.
    fn is_refused(&self) -> bool {
        !self.no_verdict && (self.verdict != Status::Ok || !self.found_by.is_empty())
    }

    fn print(&self) {
        let screens: u64 = self.screens_ms.values().sum();
        let kind = match self.kind {
            Kind::Right => "right",
            Kind::Wrong => "wrong",
        };
        // A ratio of two times for people: rounding is of no concern.
        let cost = (self.plain_ms + screens) as f64 / self.plain_ms.max(1) as f64;
        let cells = [
            self.kernel.clone(),
            kind.to_owned(),
            self.verdict.to_string(),
            self.found_by.join(", "),
            self.plain_ms.to_string(),
            screens.to_string(),
            format!("{cost:.1}x"),
        ];
        println!("{}", row(&cells));
    }
}

impl Table {
    fn add(&mut self, arguments: &BenchArguments, line: Line) {
        self.no_verdict += usize::from(line.no_verdict);
        match line.kind {
            Kind::Right => {
                self.right += 1;
                self.false_alarms += usize::from(line.is_refused());
            }
            Kind::Wrong => {
                self.wrong += 1;
                self.caught += usize::from(line.is_refused());
            }
        }
        if !arguments.json {
            line.print();
            let is_expected = line.is_refused() == (line.kind == Kind::Wrong);
            if line.no_verdict || !is_expected {
                println!(
                    "  {}: {}",
                    line.kernel,
                    if line.cause.is_empty() { "nothing was found" } else { &line.cause }
                );
            }
        }
        self.lines.push(line);
    }
}

/// What each screen cost over the right kernels.
fn print_costs(table: &Table) {
    println!("\n{}", header(&["screen", "right kernels", "median, ms", "most, ms"]));
    for screen in Screen::ALL {
        let right = table.lines.iter().filter(|line| line.kind == Kind::Right);
        let costs: Vec<u64> = right.filter_map(|line| line.screens_ms.get(screen.name()).copied()).collect();
        let text = |cost: Option<u64>| cost.map_or_else(|| "not run".to_owned(), |cost| cost.to_string());
        let most = costs.iter().max().copied();
        let count = costs.len().to_string();
        println!("{}", row(&[screen.name().to_owned(), count, text(median(costs)), text(most)]));
    }
}
