//! The result folder, made anew from the attempts: history, summary, table, maps, the best source and its replay requests.

use super::Campaign;
use crate::cli::Context;
use crate::cli::reading::Reading;
use crate::optimizer::attempt::{Attempt, Measured, Usage};
use crate::optimizer::campaign::best;
use crate::optimizer::report::{self, Chosen, Condition, Story, Summary};
use fleet_config::config::load;
use fleet_config::domain::{CaseKind, Digest, LaunchPlan, LeafIndex, MeasurementPolicy, Seed, canonical};
use fleet_config::refusal::Refusal;
use ledger::entry::{Body, Entry};
use serde_json::{Value, json};

impl Campaign {
    /// Writes every file of the result folder and answers with the summary.
    pub(super) fn publish(&self, context: &Context) -> Result<Summary, Refusal> {
        let story = Story {
            settings: &self.settings,
            attempts: &self.attempts,
            termination: self.stopped.as_ref(),
            ending: &self.ending,
            elapsed_ms: self.elapsed_ms(),
        };
        let plans: Vec<LaunchPlan> = self.attempts.iter().map(|attempt| self.plan(attempt)).collect();
        let launch = |attempt: &Attempt, case: &str| {
            let case = self.task.cases.iter().find(|one| one.name == case);
            let plan = plans.get(attempt.proposal.iteration as usize);
            plan.zip(case).map_or(Value::Null, |(plan, case)| report::launch(plan, case))
        };
        let summary = Summary::of(&story);
        self.folder.write_json("history.json", &report::history(&story, &launch))?;
        self.folder.write("results.tsv", report::tsv(&story).as_bytes())?;
        self.folder.write("heatmap.svg", report::svg(&story).as_bytes())?;
        self.folder.write("heatmap.png", &report::png(&story))?;
        self.folder.write_json("summary.json", &summary)?;
        self.model_files()?;
        // What the best is is told once the search is over: before, each step forward would write all of it again.
        if self.stopped.is_some() {
            self.best_files(context, &story)?;
        }
        Ok(summary)
    }

    /// How an attempt is launched: as its sidecar says, else as the task's baseline is.
    fn plan(&self, attempt: &Attempt) -> LaunchPlan {
        let own = attempt.proposal.file.as_ref().and_then(|file| {
            let path = self.folder.attempt(attempt.proposal.iteration).join(file);
            let loaded = load::candidates(&path, &self.task.entry, self.task.limits.source).ok()?;
            loaded.into_iter().next()?.candidate.plan
        });
        own.unwrap_or_else(|| self.task.baseline.plan.clone())
    }

    /// One file for each proposal that a model was asked for, with the sum so far.
    fn model_files(&self) -> Result<(), Refusal> {
        let mut total = Usage::default();
        for attempt in &self.attempts {
            let proposal = &attempt.proposal;
            total.add(&proposal.usage);
            if proposal.model.is_empty() && proposal.usage == Usage::default() {
                continue;
            }
            let file = json!({
                "iteration": proposal.iteration,
                "model": proposal.model,
                "usage": proposal.usage,
                "total": total,
                "words": proposal.words,
            });
            self.folder.write_json(&format!("model-{:04}.json", proposal.iteration), &file)?;
        }
        Ok(())
    }

    /// The source of the best and a request for each performance case; the baseline's where nothing is better.
    fn best_files(&self, context: &Context, story: &Story<'_>) -> Result<(), Refusal> {
        let best = best(&self.attempts);
        let Some(attempt) = best.map(|(attempt, _)| attempt).or_else(|| self.attempts.first()) else {
            return Ok(());
        };
        if let Some(file) = &attempt.proposal.file {
            let name = format!("attempts/{:04}/{file}", attempt.proposal.iteration);
            if let Some(bytes) = self.folder.read(&name)? {
                self.folder.write("best.cu", &bytes)?;
            }
        }
        let Some((_, measured)) = best else { return Ok(()) };
        let (seeds, policy) =
            measured.leaf.map(|leaf| origin(context, leaf)).transpose()?.unwrap_or_default();
        let plan = self.plan(attempt);
        let performance = self.task.cases.iter().filter(|case| case.kind == CaseKind::Performance);
        for (number, case) in performance.enumerate() {
            let chosen = Chosen {
                plan: &plan,
                policy: policy.as_ref(),
                seeds: &seeds,
                record: measured.record.as_deref().unwrap_or_default(),
                latency_ms: latency_ms(measured, &case.name),
            };
            let request = report::replay(story, &self.task, case, &chosen);
            self.folder.write_json(&format!("best-case-{}.json", number + 1), &request)?;
        }
        Ok(())
    }
}

fn latency_ms(measured: &Measured, case: &str) -> Option<f64> {
    let case = measured.cases.iter().find(|one| one.case == case)?;
    case.timing.as_ref().map(|timing| timing.candidate_ns / 1e6)
}

/// The draws and the policy of the record at `leaf`.
fn origin(context: &Context, leaf: u64) -> Result<(Vec<Seed>, Option<MeasurementPolicy>), Refusal> {
    let reading = Reading::open(&context.state)?;
    let bytes = reading.log.entry(LeafIndex(leaf)).ok();
    let Some(Ok(Entry { body: Body::Result(record), .. })) = bytes.map(|bytes| Entry::read(&bytes)) else {
        return Ok((Vec::new(), None));
    };
    let policy = reading.blob(&Digest(record.policy.0));
    Ok((record.seeds, policy.and_then(|bytes| canonical::from_bytes(&bytes).ok())))
}

/// The end of a campaign for people.
pub(super) fn render(summary: &Summary, path: &str) -> String {
    let best = match summary.interval {
        None => "none better than the baseline".to_owned(),
        Some(ratio) => format!(
            "{} (iteration {}): {:.3}× [{:.3}, {:.3}] of the baseline",
            summary.best_name, summary.best_iteration, ratio.ratio, ratio.low, ratio.high
        ),
    };
    let mut lines = vec![format!("best      {best}")];
    for (name, case) in &summary.cases {
        lines.push(format!(
            "          {name}: {:.4} ms to {:.4} ms, {:.3}×",
            case.baseline_ms, case.best_ms, case.speedup
        ));
    }
    lines.push(format!("stopped   {}", summary.termination.as_deref().unwrap_or("not yet")));
    lines.push(format!(
        "attempts  {} proposals: {} valid, {} rejected, {} masked",
        summary.iterations, summary.valid, summary.rejected, summary.masked
    ));
    if let (Some(hour), Some(night)) = (summary.experiments_per_hour, summary.experiments_per_night) {
        lines.push(format!(
            "rate      {hour:.0} experiments an hour, {night:.0} a night of eight; {:.1} s on devices of {:.1} s",
            summary.device_seconds, summary.elapsed_seconds
        ));
    }
    if let Some(rerun) = &summary.rerun {
        let verdict = if rerun.confirms { "confirms it" } else { "does not confirm it" };
        lines.push(format!("again     {verdict}: {}", rerun.told));
    }
    if let Some(holdout) = &summary.holdout {
        let verdict = match holdout.passed {
            Some(true) => "passed".to_owned(),
            Some(false) => format!("failed: {}", holdout.cause),
            None => format!("not judged: {}", holdout.cause),
        };
        lines.push(format!("sealed    {verdict} (opened {} times so far)", holdout.openings));
    }
    lines.extend(summary.flags.iter().map(|flag| format!("look at   {flag}")));
    let open = summary.conditions.iter().filter(|(_, condition)| **condition == Condition::NotMeasured);
    let open: Vec<&str> = open.map(|(name, _)| *name).collect();
    let unmeasured =
        if open.is_empty() { String::new() } else { format!("; not measured: {}", open.join(", ")) };
    lines.push(format!("verdict   {}{unmeasured}", summary.verdict));
    lines.push(format!("folder    {path}"));
    lines.join("\n")
}
