//! `muster case run`: case folders through the running fleet, each compared with its answer.

mod forbidden;
mod judge;
mod known_good;
mod list;
mod observe;
mod runner;
mod setup;

use crate::cli::args::CaseCommand;
use crate::cli::client::Client;
use crate::cli::output;
use crate::cli::{Context, Ending};
use fleet_config::refusal::Refusal;
use runner::Runner;
use serde::Serialize;

/// How one case went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Passed,
    Failed,
    Skipped,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Passed => "PASS",
            Self::Failed => "FAIL",
            Self::Skipped => "SKIP",
        }
    }
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub case: String,
    pub verdict: Verdict,
    /// The status that was seen; empty where nothing ran.
    pub observed: String,
    /// The first words of what was said; for a skipped case the reason.
    pub message: String,
    /// What was expected and what came, for each thing that differs.
    pub faults: Vec<String>,
    pub milliseconds: u64,
}

/// Runs the subcommand. A case that fails ends it with exit code 1, after all of them have run.
pub(crate) async fn run(context: &Context, command: CaseCommand) -> Result<Ending, Refusal> {
    let CaseCommand::Run { folder, on, only } = command;
    let folders = list::folders(&folder, only.as_deref())?;
    let all = list::folders(&folder, None)?;
    let mut client = Client::connect(&context.state).await?;
    let class = match on {
        Some(class) => class,
        None => one_class(&mut client).await?,
    };
    let mut runner = Runner::start(context, &class, &all).await?;
    say(context, &format!("{} cases on {class}; known-good job: {}", folders.len(), runner.known_good()));
    let mut reports = Vec::new();
    for (at, folder) in folders.iter().enumerate() {
        let report = runner.case(folder).await;
        say(context, &line(at + 1, folders.len(), &report));
        reports.push(report);
    }
    let count = |wanted: Verdict| reports.iter().filter(|report| report.verdict == wanted).count();
    let (passed, failed, skipped) = (count(Verdict::Passed), count(Verdict::Failed), count(Verdict::Skipped));
    let answer = serde_json::json!({
        "class": class, "cases": reports, "passed": passed, "failed": failed, "skipped": skipped,
    });
    context.output.print(&answer, |_| format!("{passed} passed, {failed} failed, {skipped} skipped"));
    Ok(if failed == 0 { Ending::Done } else { Ending::Failed })
}

/// The class of a fleet that has one.
async fn one_class(client: &mut Client) -> Result<String, Refusal> {
    let classes = super::submit::fleet_classes(client).await?;
    match classes.as_slice() {
        [only] => Ok(only.clone()),
        several => {
            let cause = format!("this fleet has several classes: {}", several.join(", "));
            Err(Refusal::new("case/class", "--on", cause, "name one with --on"))
        }
    }
}

/// Progress: on standard output for people, nothing where JSON was asked for.
fn say(context: &Context, text: &str) {
    if context.output == output::Output::Text {
        output::line(text);
    }
}

fn line(at: usize, of: usize, report: &Report) -> String {
    let seconds = report.milliseconds as f64 / 1000.0;
    let Report { case, verdict, observed, message, faults, milliseconds: _ } = report;
    let what = if observed.is_empty() { "-" } else { observed };
    let mut text = format!("[{at}/{of}] {} {case}  {what}  {seconds:.1} s", verdict.word());
    if !message.is_empty() {
        text.push_str(&format!("\n      {message}"));
    }
    for fault in faults {
        text.push_str(&format!("\n      {fault}"));
    }
    text
}
