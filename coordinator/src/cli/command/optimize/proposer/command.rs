//! A command of the user's that proposes: it is asked one JSON line at a time and answers with one.

use super::{Draft, Proposed, View, bounded};
use crate::cli::spawn;
use crate::optimizer::attempt::{Attempt, Usage};
use crate::optimizer::campaign::{ONE, StopReason, best};
use fleet_config::refusal::Refusal;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// Longest answer in bytes: the largest source of any task, written in JSON.
const LINE_MAX: u64 = 8 << 20;
/// Attempts that a request tells; older ones are in the campaign's folder, whose path it names.
const HISTORY_MAX: usize = 50;

/// A command with the process that it runs in, if it does.
#[derive(Debug)]
pub(in crate::cli::command::optimize) struct Conversation {
    command: String,
    timeout: Duration,
    log: PathBuf,
    talk: Option<Talk>,
}

/// A running command; killed when dropped.
#[derive(Debug)]
struct Talk {
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What it may answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerText {
    source: Option<String>,
    /// As in a candidate's sidecar; the baseline's where there is none.
    launch: Option<Value>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    words: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    licence: String,
    #[serde(default)]
    usage: Usage,
    /// Ends the campaign, for this reason.
    stop: Option<String>,
    /// There is no proposal this time, for this reason; what it cost is kept.
    failed: Option<String>,
}

impl Conversation {
    pub(super) fn new(command: &str, timeout_seconds: u64, log: PathBuf) -> Self {
        let timeout = Duration::from_secs(timeout_seconds);
        Self { command: command.to_owned(), timeout, log, talk: None }
    }

    /// Asks for the next proposal. What goes wrong at the command is a proposal that failed; it is started again for the next
    /// one.
    pub(super) async fn propose(&mut self, view: &View<'_>) -> Result<Proposed, Refusal> {
        let request = request(view);
        let line = match self.ask(&request).await {
            Ok(line) => line,
            Err(cause) => {
                self.talk = None;
                return Ok(Proposed::Draft(Box::new(Draft::failed(cause))));
            }
        };
        Ok(read(&line, view))
    }

    async fn ask(&mut self, request: &Value) -> Result<Vec<u8>, String> {
        if self.talk.is_none() {
            let mut child =
                spawn::converse(&self.command, &self.log).map_err(|refusal| refusal.to_string())?;
            let (input, output) = (child.stdin.take(), child.stdout.take());
            let (Some(input), Some(output)) = (input, output) else {
                return Err("the command has no input or output".to_owned());
            };
            self.talk = Some(Talk { _child: child, input, output: BufReader::new(output) });
        }
        let Some(talk) = &mut self.talk else { return Err("the command does not run".to_owned()) };
        let mut text = request.to_string();
        text.push('\n');
        let answer = async {
            talk.input.write_all(text.as_bytes()).await?;
            talk.input.flush().await?;
            let mut line = Vec::new();
            (&mut talk.output).take(LINE_MAX).read_until(b'\n', &mut line).await?;
            Ok::<_, std::io::Error>(line)
        };
        let line = match tokio::time::timeout(self.timeout, answer).await {
            Err(_) => return Err(format!("the command gave no answer within {} s", self.timeout.as_secs())),
            Ok(Err(error)) => return Err(format!("the command cannot be spoken to: {error}")),
            Ok(Ok(line)) => line,
        };
        match line.last() {
            Some(b'\n') => Ok(line),
            None => Err("the command ended without an answer; see proposer.log".to_owned()),
            Some(_) => Err(format!("the answer has no end within {LINE_MAX} bytes")),
        }
    }
}

/// What the command is told.
fn request(view: &View<'_>) -> Value {
    let View { settings, task, folder, attempts, feedback, iteration } = *view;
    let source_of = |attempt: &Attempt| {
        let file = attempt.proposal.file.as_ref()?;
        let name = format!("attempts/{:04}/{file}", attempt.proposal.iteration);
        let bytes = folder.read(&name).ok().flatten()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let best = best(attempts);
    let leader = best.map(|(attempt, _)| attempt).or_else(|| attempts.first());
    let history: Vec<Value> = attempts
        .iter()
        .rev()
        .take(HISTORY_MAX)
        .rev()
        .map(|attempt| {
            json!({
                "iteration": attempt.proposal.iteration,
                "name": attempt.proposal.name,
                "decision": attempt.measured.as_ref().map(|measured| measured.decision),
                "ratio": attempt.measured.as_ref().and_then(|measured| measured.ratio),
                "told": attempt.measured.as_ref().map(|measured| measured.told.as_str()),
            })
        })
        .collect();
    json!({
        "schema": "muster.propose/1",
        "iteration": iteration,
        "iterations": settings.budget.iterations,
        "task": {
            "id": settings.task, "name": task.name, "summary": task.summary, "entry": task.entry,
            "signature": task.signature, "dims": task.dims, "cases": task.cases, "tolerance": task.tolerance,
            "launch": task.baseline.plan,
        },
        "class": settings.class,
        "best": {
            "iteration": leader.map(|attempt| attempt.proposal.iteration),
            "source": leader.and_then(source_of),
            "ratio": best.and_then(|(_, measured)| measured.ratio).unwrap_or(ONE),
        },
        "last": feedback,
        "history": history,
        "folder": folder.path().canonicalize().ok(),
    })
}

/// What an answer proposes.
fn read(line: &[u8], view: &View<'_>) -> Proposed {
    let answer: AnswerText = match serde_json::from_slice(line) {
        Ok(answer) => answer,
        Err(error) => return failed(format!("the answer is no JSON object of the right shape: {error}")),
    };
    let AnswerText { source, launch, name, words, model, licence, usage, stop, failed: failure } = answer;
    let draft = match (source, stop, failure) {
        (None, Some(words), None) => return Proposed::Stop(StopReason::ProposerStopped(bounded(&words))),
        (None, None, Some(cause)) => {
            let draft = Draft { model: bounded(&model), usage, ..Draft::failed(cause) };
            return Proposed::Draft(Box::new(draft));
        }
        (Some(source), None, None) => source,
        (_, _, _) => {
            return failed("the answer has not exactly one of `source`, `stop` and `failed`".to_owned());
        }
    };
    let name = if name.is_empty() { format!("proposal {}", view.iteration) } else { name };
    let sidecar = match sidecar(view, &name, &model, &licence, &usage, launch) {
        Ok(sidecar) => sidecar,
        Err(cause) => return failed(cause),
    };
    Proposed::Draft(Box::new(Draft {
        name: bounded(&name),
        words: bounded(&words),
        model: bounded(&model),
        usage,
        files: vec![
            ("source.cu".to_owned(), draft.into_bytes()),
            ("source.toml".to_owned(), sidecar.into_bytes()),
            ("answer.json".to_owned(), line.to_vec()),
        ],
        ..Draft::default()
    }))
}

fn failed(cause: String) -> Proposed {
    Proposed::Draft(Box::new(Draft::failed(cause)))
}

/// The sidecar of a proposed source.
fn sidecar(
    view: &View<'_>,
    name: &str,
    model: &str,
    licence: &str,
    usage: &Usage,
    launch: Option<Value>,
) -> Result<String, String> {
    let parent = best(view.attempts).and_then(|(_, measured)| measured.candidate.clone());
    let mut table = toml::Table::new();
    let mut text = |key: &str, value: &str| {
        if !value.is_empty() {
            table.insert(key.to_owned(), toml::Value::String(value.to_owned()));
        }
    };
    text("name", name);
    text("agent", "muster optimize");
    text("model", model);
    text("licence", licence);
    text("parent", parent.as_deref().unwrap_or_default());
    if *usage != Usage::default() {
        let cost = toml::Value::try_from(usage).map_err(|error| format!("the usage: {error}"))?;
        table.insert("cost".to_owned(), cost);
    }
    if let Some(launch) = launch.filter(|launch| !launch.is_null()) {
        let launch = toml::Value::try_from(&launch).map_err(|error| format!("the launch: {error}"))?;
        table.insert("launch".to_owned(), launch);
    }
    Ok(table.to_string())
}
