//! The progress of a submission: a bar on a terminal, lines elsewhere, nothing with `--json`.

use crate::cli::Context;
use crate::cli::output::{Output, note, short};
use crate::driver::request::CellView;
use crate::driver::watch::WatchEvent;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// What was heard of the cells so far, and how it is shown.
#[derive(Debug)]
pub(super) struct Progress {
    show: Show,
    total: u64,
    /// What people call a cell, by its id.
    labels: BTreeMap<String, String>,
    /// Stages of the cells that run.
    stages: BTreeMap<String, String>,
    /// Cells that were told to be finished: a coordinator that was started again tells them once more.
    finished: BTreeSet<String>,
    /// The attempts that were told to be lost.
    retried: BTreeSet<(String, String)>,
    /// Whether a line was written since the last tick.
    has_spoken: bool,
    link: Link,
}

#[derive(Debug)]
enum Show {
    Bar(ProgressBar),
    Lines,
    /// To whoever asked for it; what they do not take in time is left out.
    Told(Sender<String>),
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    There,
    Away,
}

impl Progress {
    pub(super) fn new(context: &Context, total: u64, labels: BTreeMap<String, String>) -> Self {
        let show = match context.output {
            Output::Json => Show::Nothing,
            Output::Text if context.output.shows_progress() => Show::Bar(bar(total)),
            Output::Text => Show::Lines,
        };
        Self::shown_as(show, total, labels)
    }

    /// Shows nothing.
    pub(super) fn silent() -> Self {
        Self::shown_as(Show::Nothing, 0, BTreeMap::new())
    }

    /// Tells `to` what happens to `cells`.
    pub(super) fn told(cells: &[CellView], to: Sender<String>) -> Self {
        let label = |cell: &CellView| (cell.cell.to_string(), format!("{} on {}", cell.name, cell.class));
        Self::shown_as(Show::Told(to), cells.len() as u64, cells.iter().map(label).collect())
    }

    fn shown_as(show: Show, total: u64, labels: BTreeMap<String, String>) -> Self {
        Self {
            show,
            total,
            labels,
            stages: BTreeMap::new(),
            finished: BTreeSet::new(),
            retried: BTreeSet::new(),
            has_spoken: false,
            link: Link::There,
        }
    }

    /// Takes an event in, and shows it where it is news.
    pub(super) fn show(&mut self, event: &WatchEvent) {
        let line = self.take(event);
        match &self.show {
            Show::Bar(bar) => {
                bar.set_position(self.finished.len() as u64);
                bar.set_message(self.running());
            }
            Show::Told(_) if line.is_none() && event.kind == "stage" => {
                self.say(&format!("{}: {}", self.label(&event.cell), event.detail));
            }
            Show::Told(_) | Show::Lines | Show::Nothing => {}
        }
        if let Some(line) = line {
            self.say(&line);
        }
    }

    /// The line that an event is worth.
    fn take(&mut self, event: &WatchEvent) -> Option<String> {
        match event.kind.as_str() {
            "finished" => {
                self.stages.remove(&event.cell);
                let is_new = self.finished.insert(event.cell.clone());
                is_new.then(|| {
                    let (done, total) = (self.finished.len(), self.total);
                    format!("[{done}/{total}] {}: {}", self.label(&event.cell), event.detail)
                })
            }
            "retried" => {
                self.stages.remove(&event.cell);
                let is_new = self.retried.insert((event.cell.clone(), event.detail.clone()));
                is_new.then(|| format!("{} is tried again: {}", self.label(&event.cell), event.detail))
            }
            "leased" | "stage" => {
                self.stages.insert(event.cell.clone(), event.detail.clone());
                None
            }
            // Of a submission as a whole there is nothing to show, and a newer coordinator may tell more.
            _ => None,
        }
    }

    /// Some time has passed. A log without a line in it looks like a hang.
    pub(super) fn tick(&mut self) {
        if !std::mem::take(&mut self.has_spoken) {
            let running = self.running();
            let running = if running.is_empty() { "nothing runs".to_owned() } else { running };
            self.say(&format!("[{}/{}] {running}", self.finished.len(), self.total));
            self.has_spoken = false;
        }
    }

    /// The coordinator does not answer; it is waited for.
    pub(super) fn away(&mut self, limit: Duration) {
        if std::mem::replace(&mut self.link, Link::Away) == Link::There {
            self.say(&format!(
                "the coordinator does not answer; waiting for it, {} s at most (--reconnect)",
                limit.as_secs()
            ));
        }
    }

    /// It answers.
    pub(super) fn back(&mut self) {
        if std::mem::replace(&mut self.link, Link::There) == Link::Away {
            self.say("the coordinator is back");
        }
    }

    pub(super) fn finish(&self) {
        if let Show::Bar(bar) = &self.show {
            bar.finish_and_clear();
        }
    }

    fn say(&mut self, line: &str) {
        self.has_spoken = true;
        match &self.show {
            Show::Bar(bar) => bar.suspend(|| note(line)),
            Show::Lines => note(line),
            Show::Told(to) => drop(to.try_send(line.to_owned())),
            Show::Nothing => {}
        }
    }

    fn label(&self, cell: &str) -> String {
        self.labels.get(cell).cloned().unwrap_or_else(|| format!("cell {}", short(cell)))
    }

    /// What runs now, by stage.
    fn running(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for stage in self.stages.values().filter(|stage| !stage.is_empty()) {
            *counts.entry(stage).or_default() += 1;
        }
        let words = counts.into_iter().map(|(stage, count)| format!("{count} in {stage}"));
        words.collect::<Vec<_>>().join(", ")
    }
}

fn bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} cells  {elapsed}  {msg}") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, cell: &str, detail: &str) -> WatchEvent {
        WatchEvent {
            sequence: 0,
            kind: kind.to_owned(),
            cell: cell.to_owned(),
            detail: detail.to_owned(),
            node: String::new(),
            index: None,
        }
    }

    #[test]
    fn a_program_is_told_stages_too_and_one_that_does_not_listen_holds_nothing_up() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let labels = BTreeMap::from([("c1".to_owned(), "tiled on cpu:x86-64-v2".to_owned())]);
        let mut progress = Progress::shown_as(Show::Told(sender), 1, labels);
        progress.show(&event("stage", "c1", "timing"));
        progress.show(&event("finished", "c1", "ok"));
        assert_eq!(receiver.try_recv(), Ok("tiled on cpu:x86-64-v2: timing".to_owned()));
        assert!(receiver.try_recv().is_err(), "there was no room for more");
        progress.show(&event("finished", "c1", "ok"));
        assert!(receiver.try_recv().is_err(), "a restart tells it again");
    }

    #[test]
    fn a_cell_is_told_once_by_the_name_that_people_know() {
        let labels = BTreeMap::from([("c1".to_owned(), "tiled on cpu:x86-64-v2".to_owned())]);
        let mut progress = Progress::shown_as(Show::Nothing, 2, labels);
        assert_eq!(progress.take(&event("accepted", "", "2 cells")), None);
        assert_eq!(progress.take(&event("stage", "c1", "timing")), None);
        assert_eq!(progress.running(), "1 in timing");
        let told = progress.take(&event("finished", "c1", "ok"));
        assert_eq!(told.as_deref(), Some("[1/2] tiled on cpu:x86-64-v2: ok"));
        assert_eq!(progress.running(), "");
        assert_eq!(progress.take(&event("finished", "c1", "ok")), None, "a restart tells it again");
        let told = progress.take(&event("finished", "c2", "ok"));
        assert_eq!(told.as_deref(), Some("[2/2] cell c2: ok"), "a cell of nobody's keeps its id");
    }
}
