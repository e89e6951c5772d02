//! How a campaign begins, and how it goes on.

use super::args::{OptimizeArgs, ProposerKind, StrategyKind};
use super::folder::{Files, Folder};
use super::{Campaign, number, proposer};
use crate::cli::Context;
use crate::cli::client::{Client, segment};
use crate::cli::command::submit;
use crate::cli::reading::Reading;
use crate::clock::Clock;
use crate::optimizer::campaign::Budget;
use crate::optimizer::economics::{Feasibility, Verdict, Whole};
use crate::optimizer::report;
use crate::optimizer::search::{Strategy, first_rung};
use crate::optimizer::settings::{ProposerSettings, Rule, Settings};
use fleet_config::domain::Task;
use fleet_config::refusal::Refusal;
use fleet_config::state::{Lock, lock};
use std::fs::File;
use std::path::Path;

/// The speed-up of the kernel that a feasibility looks at where no target was given.
const HOPED: f64 = 2.0;

impl Campaign {
    /// Checks what was asked for, fixes it in a new folder.
    pub(super) async fn begin(context: &Context, args: &OptimizeArgs) -> Result<Self, Refusal> {
        let named = args.task.as_deref().unwrap_or_default();
        let mut client = Client::connect(&context.state).await?;
        let task: Task = client.get(&format!("/v1/tasks/{}", segment(named))).await?;
        let id = task.id().map_err(|error| {
            Refusal::new("task/not-canonical", named, error.to_string(), "add the task again")
        })?;
        check_share(args)?;
        let (proposer, files) = proposer_of(args)?;
        let class = match &args.on {
            Some(class) => class.clone(),
            None => one_class(submit::fleet_classes(&mut client).await?)?,
        };
        let only = if args.beside { None } else { Some(only_one(context, &id.to_string())?) };
        let settings = Settings {
            format: Settings::FORMAT.to_owned(),
            campaign: random_key()?,
            task: id.to_string(),
            task_name: task.name.clone(),
            entry: task.entry.clone(),
            class,
            policy: args.policy.clone(),
            fresh: args.fresh,
            parallel: args.parallel,
            proposer,
            budget: Budget {
                iterations: args.iterations,
                device_seconds: args.device_seconds,
                wall_seconds: args.wall_seconds,
                target: args.target,
                plateau: args.plateau,
                gain_min: args.gain_min / 100.0,
            },
            rule: Rule { share: args.share, payback_months: args.payback_months, words: args.rule.clone() },
            started_on: crate::clock::wall_rfc3339(),
        };
        let folder = Folder::begin(&args.out, &settings, &files)?;
        Ok(Self {
            folder,
            settings,
            task,
            attempts: Vec::new(),
            feedback: None,
            stopped: None,
            ending: report::Ending::default(),
            before_ms: 0,
            clock: Clock::start(),
            _only: only,
        })
    }

    /// Takes up a campaign where its folder says that it was left.
    pub(super) async fn resume(context: &Context, path: &Path) -> Result<Self, Refusal> {
        let (folder, settings) = Folder::resume(path)?;
        let mut client = Client::connect(&context.state).await?;
        let task: Task = client.get(&format!("/v1/tasks/{}", segment(&settings.task))).await?;
        let attempts = folder.attempts()?;
        let stopped = folder.read_json("stopped.json")?;
        let ending = report::Ending {
            rerun: folder.read_json("final/rerun.json")?,
            holdout: folder.read_json("final/holdout.json")?,
        };
        let measured = attempts.iter().filter_map(|attempt| attempt.measured.as_ref());
        let before_ms = measured.map(|measured| measured.elapsed_ms).max().unwrap_or(0);
        let known = attempts.iter().filter(|attempt| attempt.measured.is_some()).map(number).count();
        crate::cli::output::note(&format!(
            "{known} attempts are known, {} under way",
            attempts.len() - known
        ));
        Ok(Self {
            folder,
            settings,
            task,
            attempts,
            feedback: None,
            stopped,
            ending,
            before_ms,
            clock: Clock::start(),
            _only: None,
        })
    }
}

/// A warning or a refusal before any device is used.
fn check_share(args: &OptimizeArgs) -> Result<(), Refusal> {
    let Some(share) = args.share else { return Ok(()) };
    let found = Feasibility::of(&Whole { share, seconds: None }, args.target.unwrap_or(HOPED));
    crate::cli::output::note(&format!(
        "the whole gains at most {:.4}× if the kernel took no time, {:.4}× as hoped",
        found.speedup_max, found.speedup_hoped
    ));
    match (found.verdict, args.despite_share) {
        (Verdict::Go, _) | (Verdict::NoGoShare | Verdict::NoGoBelowNoise, true) => Ok(()),
        (Verdict::NoGoShare | Verdict::NoGoBelowNoise, false) => Err(Refusal::new(
            "campaign/no-go",
            "--share",
            format!(
                "even a kernel that takes no time makes the whole only {:.4}× as fast",
                found.speedup_max
            ),
            "choose a kernel with a larger share (`muster plan`), or begin anyway with --despite-share",
        )),
    }
}

/// The proposer as it is fixed, and the files that it needs.
fn proposer_of(args: &OptimizeArgs) -> Result<(ProposerSettings, Files), Refusal> {
    let refuse = |place: &str, cause: &str, next: &str| Refusal::new("campaign/proposer", place, cause, next);
    match (args.proposer, &args.template, &args.command) {
        (ProposerKind::Search, Some(template), None) => {
            let (points, files) = proposer::keep_template(template)?;
            let seed = args.seed;
            let strategy = match args.strategy {
                StrategyKind::Exhaustive => Strategy::Exhaustive,
                StrategyKind::Random => Strategy::Random { seed },
                StrategyKind::Halving => Strategy::Halving { seed, first: first_rung(args.iterations) },
                StrategyKind::Auto if points <= args.iterations as usize => Strategy::Exhaustive,
                StrategyKind::Auto => Strategy::Random { seed },
            };
            Ok((ProposerSettings::Search { strategy }, files))
        }
        (ProposerKind::Command, None, Some(command)) => {
            let settings = ProposerSettings::Command {
                command: command.clone(),
                timeout_seconds: args.proposer_timeout,
            };
            Ok((settings, Vec::new()))
        }
        (ProposerKind::Search, None, _) => Err(refuse(
            "--template",
            "a search needs a template",
            "name one, such as scripts/sample/search/tiles.toml",
        )),
        (ProposerKind::Command, _, None) => {
            Err(refuse("--command", "the command is missing", "name it, such as --command './propose.py'"))
        }
        (ProposerKind::Search, Some(_), Some(_)) | (ProposerKind::Command, Some(_), Some(_)) => {
            Err(refuse("--proposer", "both --template and --command are given", "leave one of them out"))
        }
    }
}

/// The one class of a fleet that has no other.
fn one_class(classes: Vec<String>) -> Result<String, Refusal> {
    match <[String; 1]>::try_from(classes) {
        Ok([class]) => Ok(class),
        Err(classes) => Err(Refusal::new(
            "campaign/classes",
            "--on",
            format!("this fleet has several classes: {}", classes.join(", ")),
            "a campaign searches on one of them: name it with --on",
        )),
    }
}

/// Keeps other campaigns off this task, as far as they are driven from this state folder.
fn only_one(context: &Context, task: &str) -> Result<File, Refusal> {
    let path = context.state.join(format!("optimize-{}.lock", crate::cli::output::short(task)));
    match lock(&path)? {
        Lock::Taken(file) => Ok(file),
        Lock::Busy(_) => Err(Refusal::new(
            "campaign/another",
            task,
            "another campaign runs on this task",
            "wait for it, or begin beside it with --beside",
        )),
    }
}

fn random_key() -> Result<String, Refusal> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Refusal::new("internal/randomness", "", error.to_string(), "check the system's random source")
    })?;
    Ok(data_encoding::HEXLOWER.encode(&bytes))
}

/// The baseline's sources with a sidecar that launches them as the task does.
pub(super) fn baseline(context: &Context, task: &Task) -> Result<Files, Refusal> {
    let reading = Reading::open(&context.state)?;
    let tree = &task.baseline.source;
    let mut files = Vec::new();
    let main_first = tree.files.iter().filter(|file| file.path == tree.main);
    for file in main_first.chain(tree.files.iter().filter(|file| file.path != tree.main)) {
        let bytes = reading.blob(&file.blob.blake3).ok_or_else(|| {
            let cause = "the ledger's folder lacks the baseline's source";
            Refusal::new("campaign/baseline", &file.path, cause, "run `muster ledger verify`")
        })?;
        files.push((file.path.clone(), bytes));
    }
    let others: Vec<toml::Value> =
        files.iter().skip(1).map(|(path, _)| toml::Value::String(path.clone())).collect();
    let mut sidecar = toml::Table::new();
    sidecar.insert("name".to_owned(), toml::Value::String("baseline".to_owned()));
    sidecar.insert("agent".to_owned(), toml::Value::String("muster optimize".to_owned()));
    if !others.is_empty() {
        sidecar.insert("files".to_owned(), toml::Value::Array(others));
    }
    let stem = Path::new(&tree.main).with_extension("toml");
    files.push((stem.to_string_lossy().into_owned(), sidecar.to_string().into_bytes()));
    Ok(files)
}
