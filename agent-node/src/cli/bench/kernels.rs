//! `muster-node bench kernels`: from source to verdict, compilation with and without the precompiled header, run times.

use super::super::{BenchArguments, FAILED};
use super::{Device, Subject, header, median, row, subjects, told};
use agent_node::job::tryout::{Tried, Tryout};
use agent_node::machine_lock::MachineLock;
use anyhow::{Context as _, bail};
use fleet_config::domain::{
    CaseKind, CheckFinding, LaunchPlan, MeasurementPolicy, Scope, Screen, Status, Step,
};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Kernels of many styles at sizes of about a million elements, so that the numbers of one release can be held against
/// those of another.
const SIZES: [(&str, &[(&str, i64)]); 12] = [
    ("matmul-tiled", &[("m", 500), ("n", 500), ("k", 500)]),
    ("matmul-register", &[("m", 512), ("n", 512), ("k", 512)]),
    ("transpose-padded", &[("h", 1024), ("w", 1024)]),
    ("reduce-shuffle", &[("rows", 1024), ("n", 1024)]),
    ("softmax-template", &[("rows", 512), ("n", 1000)]),
    ("layer-norm", &[("rows", 512), ("n", 1000)]),
    ("histogram-shared", &[("n", 1 << 20)]),
    ("scan-blocks", &[("n", 1 << 20)]),
    ("stencil-constant", &[("n", 1 << 20)]),
    ("reduce-groups", &[("rows", 1024), ("n", 1024)]),
    ("compact-ballot", &[("rows", 1024), ("n", 1024)]),
    ("attention-online", &[("s", 256)]),
];

/// A kernel with its numbers.
#[derive(Debug, Serialize)]
struct Line {
    kernel: String,
    /// The case that is timed.
    dims: Scope,
    /// Threads that one launch of the plan starts.
    threads: u64,
    verdict: Status,
    /// Transfer, compilation of reference, baseline and candidate, and validation; screens and timing left out.
    source_to_verdict_ms: u64,
    compile_ms: u64,
    /// Absent where the compiler cannot do without the header.
    compile_without_header_ms: Option<u64>,
    /// Median of one evaluation of the plan.
    run_us: u64,
    baseline_us: u64,
    screens_ms: Vec<(String, u64)>,
    screens_not_run: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Table {
    compiler: String,
    architecture: String,
    commit: String,
    /// Making the shim's precompiled header and its compiled parts, once for each compiler and set of flags, with the
    /// first kernel's own compilation.
    first_compile_ms: u64,
    lines: Vec<Line>,
}

pub(super) fn run(arguments: &BenchArguments) -> anyhow::Result<ExitCode> {
    let device = Device::of(arguments)?;
    let mut chosen = subjects(&arguments.folder, &arguments.only)?;
    chosen.retain(|subject| SIZES.iter().any(|(name, _)| *name == subject.name));
    if chosen.is_empty() {
        let names: Vec<&str> = SIZES.iter().map(|(name, _)| *name).collect();
        bail!("{} has none of {}", arguments.folder.display(), names.join(", "));
    }
    chosen.iter_mut().for_each(enlarge);
    let plain = MeasurementPolicy::cpu_paired();
    let mut table = Table {
        compiler: super::screens::compiler(&device),
        architecture: device.offer.description.architecture.to_string(),
        commit: device.wish.harness.commit.clone(),
        first_compile_ms: 0,
        lines: Vec::new(),
    };
    for subject in &chosen {
        let compiled = |remark: &str| compile(&device, subject, &plain, remark);
        if table.lines.is_empty() {
            table.first_compile_ms = millis(compiled("first")?);
        }
        let mut with_header = Vec::new();
        for remark in ["one", "two", "three"] {
            with_header.push(millis(compiled(remark)?));
        }
        let mut line = measured(&device, subject, &plain)?;
        line.compile_ms = median(with_header).unwrap_or(0);
        table.lines.push(line);
    }
    if remove_header(&device.wish.cache)? {
        for (subject, line) in chosen.iter().zip(&mut table.lines) {
            line.compile_without_header_ms = Some(millis(compile(&device, subject, &plain, "bare")?));
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&table)?);
    } else {
        print(&table);
    }
    let is_right = table.lines.iter().all(|line| line.verdict == Status::Ok);
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// Gives the timed case the size of [`SIZES`].
fn enlarge(subject: &mut Subject) {
    let Some((_, sizes)) = SIZES.iter().find(|(name, _)| *name == subject.name) else { return };
    for case in &mut subject.task.task.cases {
        if case.kind == CaseKind::Performance {
            case.dims.extend(sizes.iter().map(|(name, size)| ((*name).to_owned(), *size)));
        }
    }
}

fn compile(
    device: &Device,
    subject: &Subject,
    policy: &MeasurementPolicy,
    remark: &str,
) -> anyhow::Result<Duration> {
    let candidate = subject.candidate(&subject.home.join("candidate.cu"))?;
    let folder = device.folder(&format!("{}-{remark}", subject.name))?;
    let lock = MachineLock::of_this_machine();
    let tryout = Tryout {
        task: &subject.task,
        candidate: &candidate,
        policy,
        offer: &device.offer,
        wish: &device.wish,
        machine: &lock,
        folder: &folder,
    };
    let failed = |failure: Box<agent_node::backend::Failure>| {
        let cause = failure.outcome.cause.map(|cause| cause.message).unwrap_or_default();
        anyhow::anyhow!("{} does not compile: {cause}", subject.name)
    };
    tryout.compile(remark).map_err(failed)
}

fn measured(device: &Device, subject: &Subject, plain: &MeasurementPolicy) -> anyhow::Result<Line> {
    let candidate = subject.candidate(&subject.home.join("candidate.cu"))?;
    let policy = plain.clone().with_screens(Screen::ALL.to_vec());
    let folder = device.folder(&subject.name)?;
    let lock = MachineLock::of_this_machine();
    let tryout = Tryout {
        task: &subject.task,
        candidate: &candidate,
        policy: &policy,
        offer: &device.offer,
        wish: &device.wish,
        machine: &lock,
        folder: &folder,
    };
    let Tried { record, checks, log: _ } = tryout.run().with_context(told(&subject.name, &tryout))?;
    let mut screens_ms = Vec::new();
    let mut screens_not_run = Vec::new();
    for check in checks.iter().filter(|check| Screen::ALL.iter().any(|one| one.check() == check.check)) {
        match check.finding {
            CheckFinding::NotRun => screens_not_run.push(check.check.name().to_owned()),
            CheckFinding::NoFaultFound | CheckFinding::FaultFound | CheckFinding::Labelled => {
                screens_ms.push((check.check.name().to_owned(), check.took.0));
            }
        }
    }
    let screens: u64 = screens_ms.iter().map(|(_, cost)| cost).sum();
    let times = record.stage_times;
    let timing = record.timings.first();
    let task = &subject.task.task;
    let case = task.cases.iter().find(|case| case.kind == CaseKind::Performance);
    let mut scope = case.map(|case| case.scope()).unwrap_or_default();
    let dims = scope.clone();
    scope.extend(device.offer.description.attributes.clone());
    let plan = candidate.candidate.plan.as_ref().unwrap_or(&task.baseline.plan);
    Ok(Line {
        kernel: subject.name.clone(),
        dims,
        threads: threads(plan, &scope),
        verdict: record.outcome.status,
        source_to_verdict_ms: (times.transfer.0 + times.compile.0 + times.validate.0).saturating_sub(screens),
        compile_ms: 0,
        compile_without_header_ms: None,
        run_us: timing.map_or(0, |timing| timing.candidate_median.0 / 1_000_000),
        baseline_us: timing.map_or(0, |timing| timing.baseline_median.0 / 1_000_000),
        screens_ms,
        screens_not_run,
    })
}

fn threads(plan: &LaunchPlan, scope: &Scope) -> u64 {
    let launched = |step: &Step| match step {
        Step::Memset(_) => 0,
        Step::Kernel(kernel) => kernel.grid.iter().chain(&kernel.block).fold(1_u64, |product, size| {
            let size = size.evaluate(scope).ok().and_then(|size| u64::try_from(size).ok());
            product.saturating_mul(size.unwrap_or(0))
        }),
    };
    plan.steps.iter().map(launched).sum()
}

/// Takes the precompiled headers out of the cache; says whether the compiler can go on without them, as `g++` does by
/// reading the header itself.
fn remove_header(cache: &Path) -> anyhow::Result<bool> {
    let mut removed = false;
    let mut open = vec![cache.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).context("cannot read the cache")? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "gch") {
                std::fs::remove_file(&path).context("cannot remove a precompiled header")?;
                removed = true;
            }
        }
    }
    Ok(removed)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn print(table: &Table) {
    println!("{} for {}, commit {}", table.compiler, table.architecture, table.commit);
    println!("first compilation, precompiled header included: {} ms\n", table.first_compile_ms);
    let columns = [
        "kernel",
        "size",
        "threads",
        "verdict",
        "source to verdict, ms",
        "compile, ms",
        "without header, ms",
        "run, us",
        "ns a thread",
        "all screens, ms",
    ];
    println!("{}", header(&columns));
    for line in &table.lines {
        let dims: Vec<String> = line.dims.iter().map(|(name, size)| format!("{name} {size}")).collect();
        let screens: u64 = line.screens_ms.iter().map(|(_, cost)| cost).sum();
        let bare = line.compile_without_header_ms;
        let cells = [
            line.kernel.clone(),
            dims.join(", "),
            line.threads.to_string(),
            line.verdict.to_string(),
            line.source_to_verdict_ms.to_string(),
            line.compile_ms.to_string(),
            bare.map_or_else(|| "not possible".to_owned(), |time| time.to_string()),
            line.run_us.to_string(),
            (line.run_us.saturating_mul(1000) / line.threads.max(1)).to_string(),
            screens.to_string(),
        ];
        println!("{}", row(&cells));
    }
    println!("\n{}", header(&["screen", "median, ms", "most, ms"]));
    for screen in Screen::ALL {
        let cost = |line: &Line| {
            line.screens_ms.iter().find(|(name, _)| name == screen.name()).map(|(_, cost)| *cost)
        };
        let costs: Vec<u64> = table.lines.iter().filter_map(cost).collect();
        let text = |cost: Option<u64>| cost.map_or_else(|| "not run".to_owned(), |cost| cost.to_string());
        let most = costs.iter().max().copied();
        println!("{}", row(&[screen.name().to_owned(), text(median(costs)), text(most)]));
    }
}
