//! One case after another through the running fleet, with a known-good job after each.

use super::forbidden::{Snapshot, mentions};
use super::judge::{excerpt, incomparable, judge, verdict};
use super::observe::{Observed, observe};
use super::setup::Setup;
use super::{Report, Verdict, known_good, list};
use crate::cli::Context;
use crate::cli::args::SubmitArgs;
use crate::cli::client::Client;
use crate::cli::command::{submit, task};
use crate::clock::Clock;
use crate::driver::request::NodeView;
use crate::http::body::CountView;
use fleet_config::config::case_folder::{CaseFolder, Expected, Hidden, Language, TaskFolder, translate};
use fleet_config::config::{Files, load};
use fleet_config::refusal::Refusal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A known-good job may take so many times its usual time on a machine that others use too; what a broken worker or a
/// kernel that still runs does to it is far more.
const USUAL_TIMES: u32 = 10;

/// How often a known-good job may miss that: a neighbour's work passes, what a candidate left behind stays.
const NEXT_TRIES: usize = 3;

/// What a verdict may take beside the budgets of its task: queue, transfers, the baseline, a busy machine.
const WALL_SLACK: Duration = Duration::from_secs(120);

/// How often the known-good job runs at the start: the longest time is the usual one.
const REHEARSALS: usize = 2;

/// Runs cases on one device class.
#[derive(Debug)]
pub(super) struct Runner<'a> {
    context: &'a Context,
    class: String,
    scratch: Scratch,
    clock: Clock,
    good: Good,
}

/// The known-good job and how it went before the first case.
#[derive(Debug, Default)]
struct Good {
    name: String,
    job: Job,
    node: String,
    picoseconds: u64,
    /// Its baseline over it.
    speedup: Option<f64>,
}

/// A task folder and the candidate in it.
#[derive(Debug, Clone, Default)]
struct Job {
    folder: PathBuf,
    candidate: PathBuf,
    limit: Duration,
}

/// A folder that goes with its owner.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies in the folder for temporary files.
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

impl<'a> Runner<'a> {
    /// Finds a known-good job, among `folders` where it can, and runs it on `class`.
    pub(super) async fn start(
        context: &'a Context,
        class: &str,
        folders: &[PathBuf],
    ) -> Result<Self, Refusal> {
        let folder = std::env::temp_dir().join(format!(
            "muster-cases-{}-{}",
            std::process::id(),
            crate::clock::wall_unix_ms()
        ));
        std::fs::create_dir(&folder)
            .map_err(|error| crate::state::io(&folder.display().to_string(), &error))?;
        let mut runner = Self {
            context,
            class: class.to_owned(),
            scratch: Scratch(folder),
            clock: Clock::start(),
            good: Good::default(),
        };
        let mut choices = known_good::choices(folders);
        choices.push(("built in".to_owned(), known_good::built_in()?));
        let mut said = String::new();
        for (at, (name, made)) in choices.into_iter().enumerate() {
            let job = runner.write(&format!("good-{at}"), &made)?;
            match runner.rehearse(name, job).await {
                Ok(good) => {
                    runner.good = good;
                    return Ok(runner);
                }
                Err(cause) => said = cause,
            }
        }
        Err(Refusal::new(
            "case/known-good",
            class,
            said,
            "mend the fleet: not even a known-good job is ok on it",
        ))
    }

    /// Name and usual time of the known-good job.
    pub(super) fn known_good(&self) -> String {
        format!("{} ({} us)", self.good.name, self.good.picoseconds / 1_000_000)
    }

    async fn rehearse(&self, name: String, job: Job) -> Result<Good, String> {
        let mut good = Good { name, job, ..Good::default() };
        for _ in 0..REHEARSALS {
            let seen = self.run(&good.job).await.map_err(|refusal| refusal.to_string())?;
            if seen.status != "ok" {
                return Err(format!("{}: {}", good.name, excerpt(&seen.message)));
            }
            good.picoseconds = good.picoseconds.max(seen.picoseconds);
            good.node = seen.node;
            good.speedup = seen.speedup;
        }
        Ok(good)
    }

    /// Runs the case in `folder`; whatever is wrong with it is in the report.
    pub(super) async fn case(&mut self, folder: &Path) -> Report {
        let start = self.clock.now();
        let name = list::name(folder);
        let mut report = Report {
            case: name,
            verdict: Verdict::Failed,
            observed: String::new(),
            message: String::new(),
            faults: Vec::new(),
            milliseconds: 0,
        };
        self.judge_case(folder, &mut report).await;
        report.milliseconds = u64::try_from((self.clock.now() - start).as_millis()).unwrap_or(u64::MAX);
        report
    }

    async fn judge_case(&mut self, folder: &Path, report: &mut Report) {
        let expected = match load::case_expected(folder) {
            Ok(expected) => expected,
            Err(refusal) => return report.faults.push(refusal.to_string()),
        };
        let read = load::case_folder(folder);
        if let Some(reason) = read.as_ref().ok().and_then(|(case, _)| self.unfit(case)) {
            (report.verdict, report.message) = (Verdict::Skipped, reason);
            return;
        }
        let before = Snapshot::of(&self.context.state);
        let seen = match &read {
            Ok((case, sources)) => match self.submit(&report.case, case, sources).await {
                Ok(seen) => seen,
                Err(fault) => {
                    report.faults.push(fault);
                    report.faults.extend(self.next_job(&expected).await);
                    return;
                }
            },
            Err(refusal) => Observed::refused(refusal),
        };
        let after = Snapshot::of(&self.context.state);
        report.observed.clone_from(&seen.status);
        report.message = if seen.status == "ok" { speedup(&seen) } else { excerpt(&seen.message) };
        let requires = read.as_ref().map(|(case, _)| case.requires.clone()).unwrap_or_default();
        let sources = read.map(|(_, sources)| sources).unwrap_or_default();
        let skipped = incomparable(&requires, &expected, &seen, &self.class);
        if skipped.is_none() {
            report.faults = judge(&expected, &seen);
        }
        report.faults.extend(mentions(&expected, &seen, &sources, &before, &after));
        report.faults.extend(self.next_job(&expected).await);
        report.verdict = verdict(&report.faults);
        if let (Some(reason), Verdict::Passed) = (skipped, report.verdict) {
            (report.verdict, report.message) = (Verdict::Skipped, reason);
        }
    }

    /// Why a class cannot host a case at all.
    fn unfit(&self, case: &CaseFolder) -> Option<String> {
        match case.language {
            Language::Python => return Some(format!("the device class {} hosts no Python", self.class)),
            Language::Cuda => {}
        }
        // A compute capability is a thing of NVIDIA's; the CPU device runs the same language without one.
        let have = self.class.strip_prefix("nvidia:sm_")?;
        let have: i64 = have.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()?;
        let need = case.requires.min_sm.filter(|need| have < *need)?;
        Some(format!("it needs compute capability sm_{need}; {} has sm_{have}", self.class))
    }

    /// Translates, adds and submits a case. Errors: the fleet's own faults; what is wrong with the case is its verdict.
    async fn submit(&self, name: &str, case: &CaseFolder, sources: &Files) -> Result<Observed, String> {
        let made = match translate(case, sources, Hidden::Open) {
            Ok(made) => made,
            Err(refusal) => return Ok(Observed::refused(&refusal)),
        };
        let job = self.write(name, &made).map_err(|refusal| refusal.to_string())?;
        let base = job.folder.join("candidates");
        let setup = Setup::write(&case.setup, &base).map_err(|refusal| refusal.to_string())?;
        let seen = self.run(&job).await;
        drop(setup);
        match seen {
            Err(refusal) if is_of_the_fleet(&refusal) => Err(refusal.to_string()),
            Err(refusal) => Ok(Observed::refused(&refusal)),
            Ok(seen) => Ok(seen),
        }
    }

    fn write(&self, name: &str, made: &TaskFolder) -> Result<Job, Refusal> {
        let folder = self.scratch.0.join(name);
        task::write_task(made, &folder)?;
        let candidate = made.candidates.first().ok_or_else(|| {
            Refusal::new("case/no-candidate", "case.json: candidates", "no candidate is named", "name one")
        })?;
        // The file was made from a case that was read; a default stands in for what would be refused later.
        let limits = load::task_draft(&folder.join("task.toml")).ok().map(|draft| draft.limits);
        let budget =
            limits.map_or(0, |limits| limits.compile.0.saturating_mul(3).saturating_add(limits.run.0));
        let limit = Duration::from_millis(budget).saturating_add(WALL_SLACK);
        Ok(Job { candidate: folder.join(candidate), folder, limit })
    }

    /// Adds the task, submits the candidate and waits for the verdict.
    async fn run(&self, job: &Job) -> Result<Observed, Refusal> {
        let (view, _warnings) = task::add_folder(self.context, &job.folder).await?;
        let mut client = Client::connect(&self.context.state).await?;
        let arguments = SubmitArgs {
            task: view.task.to_string(),
            candidates: vec![job.candidate.clone()],
            on: vec![self.class.clone()],
            wait: true,
            reconnect: 0,
            fresh: true,
            screens: None,
            stages: None,
            policy: None,
            toolchain: None,
            flag: Vec::new(),
            nonce: None,
            receipt: None,
        };
        let receipt = submit::send(&mut client, &arguments).await?;
        let cancel = format!("/v1/submissions/{}/cancel", receipt.submission);
        if let Some(warning) = receipt.warnings.first() {
            // The class is there, so what is missing is a device of it that is large enough: the cell would wait for ever.
            let _count: CountView = client.post(&cancel, &serde_json::json!({})).await?;
            let status = "unsupported_on_device".to_owned();
            return match self.is_ready().await {
                Ok(()) => Ok(Observed { status, message: warning.to_string(), ..Observed::default() }),
                Err(_) => {
                    Err(Refusal::new("case/no-record", &self.class, warning.to_string(), "start a node"))
                }
            };
        }
        let waiting = submit::wait(self.context, receipt.submission);
        match tokio::time::timeout(job.limit, waiting).await {
            Ok(cells) => observe(self.context, view.task, &cells?).await,
            Err(_) => {
                let mut client = Client::connect(&self.context.state).await?;
                let _count: CountView = client.post(&cancel, &serde_json::json!({})).await?;
                let cause = format!("no verdict within {} s", job.limit.as_secs());
                Err(Refusal::new("case/wall-limit", &self.class, cause, "see coordinator.log and node.log"))
            }
        }
    }

    /// Whether a known-good job takes longer than `most`. On a CPU that others use too, its baseline tells a busy machine,
    /// which slows both sides, from what slows it alone.
    fn is_slowed(&self, seen: &Observed, most: u64) -> bool {
        let is_shared = self.class.starts_with("cpu:");
        let ratio = |speedup: Option<f64>| speedup.unwrap_or(1.0);
        let keeps_pace = ratio(seen.speedup) * f64::from(USUAL_TIMES) >= ratio(self.good.speedup);
        seen.picoseconds > most && !(is_shared && keeps_pace)
    }

    /// Whether the same worker answers a known-good job as before.
    async fn next_job(&self, expected: &Expected) -> Vec<String> {
        let mut faults = Vec::new();
        let most = self.good.picoseconds.saturating_mul(u64::from(USUAL_TIMES));
        let mut seen = Observed::default();
        for _ in 0..NEXT_TRIES {
            seen = match self.run(&self.good.job).await {
                Ok(seen) => seen,
                Err(refusal) => return vec![format!("expected the next job to be ok, got: {refusal}")],
            };
            if seen.status != "ok" || !self.is_slowed(&seen, most) {
                break;
            }
        }
        if expected.next_job_ok {
            if seen.status != "ok" {
                faults.push(format!(
                    "expected the next job to be ok, got {}: {}",
                    seen.status,
                    excerpt(&seen.message)
                ));
            } else if self.is_slowed(&seen, most) {
                let (got, usual) = (seen.picoseconds / 1_000_000, self.good.picoseconds / 1_000_000);
                faults.push(format!("expected the next job in about {usual} us, got {got} us"));
            }
        }
        if expected.worker_survives && seen.node != self.good.node {
            faults.push(format!("expected node {} to answer, got {}", self.good.node, seen.node));
        }
        if expected.worker_survives
            && let Err(fault) = self.is_ready().await
        {
            faults.push(fault);
        }
        faults
    }

    async fn is_ready(&self) -> Result<(), String> {
        let nodes: Result<Vec<NodeView>, Refusal> =
            async { Client::connect(&self.context.state).await?.get("/v1/nodes").await }.await;
        let nodes = nodes.map_err(|refusal| refusal.to_string())?;
        match nodes.iter().find(|node| node.node == self.good.node) {
            Some(node) if node.state == "ready" => Ok(()),
            Some(node) => Err(format!("expected the node to be ready, got {}", node.state)),
            None => Err("expected the node to be there, got no such node".to_owned()),
        }
    }
}

fn speedup(seen: &Observed) -> String {
    seen.speedup.map(|speedup| format!("{speedup:.3} times as fast as the reference")).unwrap_or_default()
}

/// Whether a refusal says something of the fleet and nothing of what was handed in.
fn is_of_the_fleet(refusal: &Refusal) -> bool {
    let rooms = ["coordinator/", "internal/", "ledger/", "state/", "spawn/"];
    let codes = ["case/no-record", "case/wall-limit", "case/rank"];
    rooms.iter().any(|room| refusal.code.starts_with(room)) || codes.contains(&refusal.code.as_ref())
}
