//! Who proposes: a search over a template, or a command of the user's.

mod command;
mod search;

use super::folder::{Files, Folder};
use crate::optimizer::attempt::{Attempt, Usage};
use crate::optimizer::campaign::StopReason;
use crate::optimizer::feedback::Feedback;
use crate::optimizer::search::Rung;
use crate::optimizer::settings::{ProposerSettings, Settings};
use fleet_config::domain::Task;
use fleet_config::refusal::Refusal;
use std::collections::BTreeMap;

pub(super) use search::keep_template;

/// Longest words of a proposer that are kept, in characters.
const WORDS_MAX: usize = 4000;

/// One of them.
#[derive(Debug)]
pub(super) enum Proposer {
    Search(search::Search),
    Command(Box<command::Conversation>),
}

/// What a proposer is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) settings: &'a Settings,
    pub(super) task: &'a Task,
    pub(super) folder: &'a Folder,
    pub(super) attempts: &'a [Attempt],
    /// On the newest attempt that has some.
    pub(super) feedback: Option<&'a Feedback>,
    /// Of the proposal that is asked for.
    pub(super) iteration: u32,
}

/// What it answers.
#[derive(Debug)]
pub(super) enum Proposed {
    Draft(Box<Draft>),
    /// Verdicts that are under way decide.
    Wait,
    Stop(StopReason),
}

/// A proposal before it has a number.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) point: BTreeMap<String, String>,
    pub(super) rung: Option<Rung>,
    pub(super) words: String,
    pub(super) model: String,
    pub(super) usage: Usage,
    /// Why there is no source.
    pub(super) failure: Option<String>,
    /// The source first.
    pub(super) files: Files,
}

impl Draft {
    /// What is kept of a proposer that failed.
    fn failed(cause: impl Into<String>) -> Self {
        Self { name: "no proposal".to_owned(), failure: Some(bounded(&cause.into())), ..Self::default() }
    }
}

impl Proposer {
    /// The proposer of a campaign that was begun.
    pub(super) fn of(settings: &Settings, folder: &Folder) -> Result<Self, Refusal> {
        match &settings.proposer {
            ProposerSettings::Search { strategy } => {
                Ok(Self::Search(search::Search::open(folder, *strategy)?))
            }
            ProposerSettings::Command { command, timeout_seconds } => {
                let log = folder.path().join("proposer.log");
                Ok(Self::Command(Box::new(command::Conversation::new(command, *timeout_seconds, log))))
            }
        }
    }

    /// The next proposal.
    pub(super) async fn propose(&mut self, view: &View<'_>) -> Result<Proposed, Refusal> {
        match self {
            Self::Search(search) => Ok(search.propose(view)),
            Self::Command(conversation) => conversation.propose(view).await,
        }
    }
}

/// Words as they are kept: bounded, and nothing in them that a terminal obeys.
fn bounded(text: &str) -> String {
    let printable = fleet_config::domain::words::printable(text.as_bytes());
    printable.chars().take(WORDS_MAX).collect()
}
