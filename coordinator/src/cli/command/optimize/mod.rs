//! `muster optimize`: a campaign from its first attempt to its result folder. It is driven from here, through the API that
//! everybody uses: the coordinator knows its submissions, the folder knows the campaign.

mod args;
mod finish;
mod folder;
mod measure;
mod proposer;
mod publish;
mod setup;

pub(in crate::cli) use args::OptimizeArgs;

use crate::cli::output::note;
use crate::cli::{Context, Ending};
use crate::clock::Clock;
use crate::optimizer::attempt::{Attempt, Decision, Measured, Origin, Proposal, Verdict};
use crate::optimizer::campaign::{self, ONE, StopReason, best};
use crate::optimizer::feedback::Feedback;
use crate::optimizer::report;
use crate::optimizer::search::Rung;
use crate::optimizer::settings::{ProposerSettings, Settings};
use fleet_config::domain::Task;
use fleet_config::refusal::Refusal;
use folder::Folder;
use measure::{Job, measure, unmeasured};
use proposer::{Draft, Proposed, Proposer, View};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use tokio::task::JoinSet;

/// Proposals in a row that may fail before the campaign ends.
const PROPOSER_FAILURES_MAX: usize = 3;

/// A campaign that this process runs.
#[derive(Debug)]
struct Campaign {
    folder: Folder,
    settings: Settings,
    task: Task,
    /// In order of iterations; 0 is the baseline.
    attempts: Vec<Attempt>,
    /// On the newest attempt that has some.
    feedback: Option<Box<Feedback>>,
    stopped: Option<StopReason>,
    ending: report::Ending,
    /// Of the sessions before this one.
    before_ms: u64,
    clock: Clock,
    /// Keeps a second campaign off the task, where there is one.
    _only: Option<File>,
}

/// Runs the subcommand.
pub(super) async fn run(context: &Context, args: &OptimizeArgs) -> Result<Ending, Refusal> {
    let mut campaign = match &args.resume {
        Some(path) => Campaign::resume(context, path).await?,
        None => Campaign::begin(context, args).await?,
    };
    note(&format!("campaign in {}", campaign.folder.path().display()));
    campaign.search(context).await?;
    campaign.finish(context, args.no_verify).await?;
    let summary = campaign.publish(context)?;
    let path = campaign.folder.path().display().to_string();
    context.output.print(&summary, |summary| publish::render(summary, &path));
    Ok(Ending::Done)
}

impl Campaign {
    /// Tries proposals until something says stop.
    async fn search(&mut self, context: &Context) -> Result<(), Refusal> {
        if self.stopped.is_some() {
            return Ok(());
        }
        // What was under way when an earlier session ended has its number and its key: it is asked for again, not repeated.
        let pending: Vec<u32> = self.attempts.iter().filter(|a| a.measured.is_none()).map(number).collect();
        self.measure(context, &pending).await?;
        if self.attempts.is_empty() {
            self.begin_with_baseline(context).await?;
        }
        let mut proposer = Proposer::of(&self.settings, &self.folder)?;
        loop {
            self.publish(context)?;
            if let Some(reason) = campaign::stop(&self.settings.budget, &self.attempts, self.elapsed_ms()) {
                return self.stop(reason);
            }
            if let Some(cause) = self.failing_proposer() {
                return self.stop(StopReason::ProposerFailed(cause));
            }
            let (batch, reason) = self.propose(&mut proposer).await?;
            if batch.is_empty() {
                return self.stop(reason.unwrap_or(StopReason::Exhausted));
            }
            self.measure(context, &batch).await?;
        }
    }

    /// The baseline as a candidate: its ratio to itself shows what one lease can tell apart.
    async fn begin_with_baseline(&mut self, context: &Context) -> Result<(), Refusal> {
        let files = setup::baseline(context, &self.task)?;
        let draft = Draft { name: "baseline".to_owned(), files, ..Draft::default() };
        self.add(draft, Origin::Initial)?;
        self.measure(context, &[0]).await?;
        let measured = self.attempts.first().and_then(|attempt| attempt.measured.as_ref());
        match measured {
            Some(Measured { verdict: Verdict::Passed, ratio: Some(ratio), .. }) => {
                let change = campaign::detectable(*ratio) * 100.0;
                note(&format!(
                    "the baseline against itself: a change below {change:.2} % does not show in one lease"
                ));
                Ok(())
            }
            Some(Measured { verdict: Verdict::Passed | Verdict::Masked, .. }) | None => {
                note("the baseline gave no time: what one lease can tell apart is not known");
                Ok(())
            }
            Some(Measured { verdict: Verdict::Failed, told, .. }) => Err(Refusal::new(
                "campaign/baseline",
                &self.settings.task_name,
                format!("the task's own baseline does not pass: {told}"),
                "mend the task: `muster task lint`",
            )),
        }
    }

    /// Up to as many proposals as may be under way; the reason to stop where there is none.
    async fn propose(&mut self, proposer: &mut Proposer) -> Result<(Vec<u32>, Option<StopReason>), Refusal> {
        let origin = match self.settings.proposer {
            ProposerSettings::Search { .. } => Origin::Search,
            ProposerSettings::Command { .. } => Origin::Command,
        };
        let mut batch = Vec::new();
        while batch.len() < self.settings.parallel as usize
            && self.attempts.len() <= self.settings.budget.iterations as usize
        {
            let view = View {
                settings: &self.settings,
                task: &self.task,
                folder: &self.folder,
                attempts: &self.attempts,
                feedback: self.feedback.as_deref(),
                iteration: u32::try_from(self.attempts.len()).unwrap_or(u32::MAX),
            };
            match proposer.propose(&view).await? {
                Proposed::Draft(draft) => {
                    let has_failed = draft.failure.is_some();
                    batch.push(self.add(*draft, origin)?);
                    if has_failed {
                        break;
                    }
                }
                Proposed::Wait => break,
                Proposed::Stop(reason) => return Ok((batch, Some(reason))),
            }
        }
        Ok((batch, None))
    }

    /// Keeps a proposal under the next number.
    fn add(&mut self, draft: Draft, origin: Origin) -> Result<u32, Refusal> {
        let Draft { name, point, rung, words, model, usage, failure, files } = draft;
        let iteration = u32::try_from(self.attempts.len()).unwrap_or(u32::MAX);
        let parent = best(&self.attempts).map(|(attempt, _)| number(attempt));
        let source = files.first();
        let proposal = Proposal {
            iteration,
            origin,
            name,
            parent: (iteration > 0).then(|| parent.unwrap_or(0)),
            point,
            rung: rung.unwrap_or(Rung(0)),
            words,
            model,
            usage,
            failure,
            file: source.map(|(name, _)| name.clone()),
            source_sha256: source.map(|(_, bytes)| data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))),
        };
        self.folder.propose(&proposal, &files)?;
        self.attempts.push(Attempt { proposal, measured: None });
        Ok(iteration)
    }

    /// Measures attempts at once, then decides about them in order of their numbers.
    async fn measure(&mut self, context: &Context, iterations: &[u32]) -> Result<(), Refusal> {
        let mut running = JoinSet::new();
        let mut seen: BTreeMap<u32, (Measured, Option<Feedback>)> = BTreeMap::new();
        for iteration in iterations {
            let Some(attempt) = self.attempts.get(*iteration as usize) else { continue };
            let proposal = &attempt.proposal;
            match (&proposal.failure, &proposal.file) {
                (None, Some(file)) => {
                    let source = self.folder.attempt(*iteration).join(file);
                    let job = Job::of(&self.settings, proposal, source);
                    let (context, iteration) = (context.clone(), *iteration);
                    running.spawn(async move { (iteration, measure(&context, &job).await) });
                }
                (failure, _) => {
                    let cause = failure.as_deref().unwrap_or("there is no source");
                    seen.insert(*iteration, (unmeasured(Verdict::Failed, "proposer/failed", cause), None));
                }
            }
        }
        let mut broken = None;
        while let Some(joined) = running.join_next().await {
            match joined {
                Ok((iteration, Ok(found))) => drop(seen.insert(iteration, found)),
                Ok((_, Err(refusal))) => broken = Some(refusal),
                Err(error) => {
                    broken = Some(Refusal::new("internal/attempt", "", error.to_string(), "report this"));
                }
            }
        }
        for (iteration, (measured, feedback)) in seen {
            self.decide(iteration, measured, feedback)?;
        }
        // What was decided is kept; the others are asked for again when the campaign goes on.
        broken.map_or(Ok(()), Err)
    }

    fn decide(&mut self, iteration: u32, seen: Measured, feedback: Option<Feedback>) -> Result<(), Refusal> {
        let elapsed_ms = self.elapsed_ms();
        let leader = best(&self.attempts).and_then(|(_, measured)| measured.ratio).unwrap_or(ONE);
        let Some(attempt) = self.attempts.get_mut(iteration as usize) else { return Ok(()) };
        let screens = match self.settings.proposer {
            ProposerSettings::Search { strategy } => attempt.proposal.rung.only_screens(strategy),
            ProposerSettings::Command { .. } => false,
        };
        let decision = if iteration == 0 {
            Decision::Baseline
        } else if screens && seen.verdict == Verdict::Passed {
            Decision::Screened
        } else {
            campaign::decide(leader, seen.verdict, seen.ratio, self.settings.budget.gain_min)
        };
        let measured = Measured { decision, elapsed_ms, ..seen };
        self.folder.finish(iteration, &measured)?;
        let ratio = measured.ratio.map_or_else(
            || measured.told.chars().take(100).collect::<String>(),
            |ratio| format!("{:.3}× [{:.3}, {:.3}]", ratio.ratio, ratio.low, ratio.high),
        );
        let (name, of) = (&attempt.proposal.name, self.settings.budget.iterations);
        note(&format!("{iteration}/{of} {name}: {}: {ratio}", decision.word()));
        attempt.measured = Some(measured);
        if let Some(feedback) = feedback {
            self.folder.write_json(&format!("attempts/{iteration:04}/feedback.json"), &feedback)?;
            self.feedback = Some(Box::new(feedback));
        }
        Ok(())
    }

    /// Why the proposer failed, if it did several times in a row.
    fn failing_proposer(&self) -> Option<String> {
        let last = self.attempts.iter().rev().take(PROPOSER_FAILURES_MAX);
        let failures: Vec<&String> = last.filter_map(|attempt| attempt.proposal.failure.as_ref()).collect();
        (failures.len() == PROPOSER_FAILURES_MAX).then(|| failures[0].clone())
    }

    fn stop(&mut self, reason: StopReason) -> Result<(), Refusal> {
        note(&format!("stopped: {reason}"));
        self.folder.write_json("stopped.json", &reason)?;
        self.stopped = Some(reason);
        Ok(())
    }

    /// Of all sessions.
    fn elapsed_ms(&self) -> u64 {
        let now = u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX);
        self.before_ms.saturating_add(now)
    }
}

fn number(attempt: &Attempt) -> u32 {
    attempt.proposal.iteration
}
