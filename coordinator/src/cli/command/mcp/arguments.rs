//! What tools are called with, parsed once, and the sidecar of a candidate that came as text.

use super::bounded;
use super::tools::{CANDIDATES_MAX, ToolKind, WAIT_DEFAULT, WAIT_MAX};
use crate::cli::args::SubmitArgs;
use crate::cli::command::submit::CandidateText;
use fleet_config::refusal::Refusal;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArguments {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskArguments {
    pub task: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordArguments {
    pub record: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RankArguments {
    pub task: String,
    pub as_of: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitArguments {
    pub submission: String,
    seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubmitArguments {
    task: String,
    candidates: Vec<CandidateArguments>,
    #[serde(default)]
    on: Vec<String>,
    policy: Option<String>,
    #[serde(default)]
    fresh: bool,
    key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CandidateArguments {
    source: String,
    name: Option<String>,
    launch: Option<Value>,
    model: Option<String>,
    licence: Option<String>,
    parent: Option<String>,
}

/// The arguments of `tool` as its type has them.
pub(super) fn read<T: DeserializeOwned>(tool: ToolKind, arguments: Value) -> Result<T, Refusal> {
    serde_json::from_value(arguments).map_err(|error| refused(tool, bounded(&error.to_string())))
}

fn refused(tool: ToolKind, cause: impl Into<String>) -> Refusal {
    let next = format!("give {} what its inputSchema in tools/list asks for", tool.name());
    Refusal::new("mcp/arguments", tool.name(), cause, next)
}

impl WaitArguments {
    /// How long to wait, in seconds.
    pub(super) fn seconds(&self) -> Result<u64, Refusal> {
        let seconds = self.seconds.unwrap_or(WAIT_DEFAULT);
        if seconds > WAIT_MAX {
            return Err(refused(ToolKind::Wait, format!("seconds is {seconds}, at most {WAIT_MAX}")));
        }
        Ok(seconds)
    }
}

impl SubmitArguments {
    /// The candidates as texts, and the rest as the command line has it. `agent` is who submits.
    pub(super) fn into_parts(self, agent: &str) -> Result<(Vec<CandidateText>, SubmitArgs), Refusal> {
        let Self { task, candidates, on, policy, fresh, key } = self;
        if candidates.is_empty() || candidates.len() > CANDIDATES_MAX {
            let cause = format!("{} candidates, where 1 to {CANDIDATES_MAX} may be", candidates.len());
            return Err(refused(ToolKind::Submit, cause));
        }
        let texts = candidates.into_iter().enumerate();
        let texts = texts.map(|(number, one)| one.text(number, agent)).collect::<Result<Vec<_>, _>>()?;
        let args = SubmitArgs {
            task,
            candidates: Vec::new(),
            on,
            wait: false,
            reconnect: 0,
            fresh,
            policy,
            screens: None,
            stages: None,
            toolchain: None,
            flag: Vec::new(),
            nonce: key,
            receipt: None,
        };
        Ok((texts, args))
    }
}

impl CandidateArguments {
    fn text(self, number: usize, agent: &str) -> Result<CandidateText, Refusal> {
        let Self { source, name, launch, model, licence, parent } = self;
        let place = format!("candidates[{number}]");
        let hash = blake3::hash(source.as_bytes()).to_hex();
        let name = name.unwrap_or_else(|| format!("agent-{}", hash.chars().take(8).collect::<String>()));
        let mut sidecar = toml::Table::new();
        let texts = [
            ("name", Some(name)),
            ("agent", Some(bounded(agent))),
            ("model", model),
            ("licence", licence),
            ("parent", parent),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                sidecar.insert(key.to_owned(), toml::Value::String(text));
            }
        }
        if let Some(launch) = launch.filter(|launch| !launch.is_null()) {
            let launch = toml::Value::try_from(&launch)
                .map_err(|error| refused(ToolKind::Submit, format!("{place}.launch: {error}")))?;
            sidecar.insert("launch".to_owned(), launch);
        }
        Ok(CandidateText { place, sidecar: sidecar.to_string(), source })
    }
}
