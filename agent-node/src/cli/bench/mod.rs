//! `muster-node bench`: what the CPU device of this machine does with a folder of kernels, as tables.
//!
//! A folder has a task in each of its folders: `task.toml`, `candidate.cu`, and wrong candidates under `wrong/`.

mod kernels;
mod screens;

use super::settings::passing_wish;
use super::{BenchArguments, BenchCommand};
use agent_node::inventory::{Offer, Wish, cpu_offers};
use agent_node::job::tryout::Tryout;
use agent_node::scratch::Scratch;
use anyhow::{Context as _, bail};
use fleet_config::config::{Findings, LoadedCandidate, LoadedTask, load};
use fleet_config::domain::{Milliseconds, Screen};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// No launch takes longer here: these kernels need milliseconds, and the endless ones among them should end.
const LAUNCH_MAX: Milliseconds = Milliseconds(5_000);

/// A task of the folder.
struct Subject {
    name: String,
    home: PathBuf,
    task: LoadedTask,
}

/// The device that is measured.
struct Device {
    offer: Offer,
    wish: Wish,
    scratch: Scratch,
}

pub(crate) fn bench(command: &BenchCommand) -> anyhow::Result<ExitCode> {
    match command {
        BenchCommand::Kernels(arguments) => kernels::run(arguments),
        BenchCommand::Screens(arguments) => screens::run(arguments),
    }
}

impl Device {
    fn of(arguments: &BenchArguments) -> anyhow::Result<Self> {
        let scratch = Scratch::make()?;
        let wish = passing_wish(&arguments.devices, scratch.path())?;
        let Some(offer) = cpu_offers(&wish)?.into_iter().next() else {
            bail!("this machine has no CPU device");
        };
        Ok(Self { offer, wish, scratch })
    }

    /// A fresh folder for one try.
    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.scratch.path().join("tries").join(name.replace('/', "-"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).context("cannot make a folder for a try")?;
        Ok(folder)
    }

    /// Why screens cannot be run here, by screen.
    fn missing_screens(&self) -> Vec<(Screen, String)> {
        let offers = self.offer.backend.screens().into_iter();
        offers.filter_map(|offer| Some((offer.screen, offer.missing?.cause))).collect()
    }
}

/// The tasks of `folder` by name, or those whose name contains one of `only`.
fn subjects(folder: &Path, only: &[String]) -> anyhow::Result<Vec<Subject>> {
    let listing = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut homes: Vec<PathBuf> = Vec::new();
    for entry in listing {
        homes.push(entry?.path());
    }
    homes.sort();
    let mut found = Vec::new();
    for home in homes.into_iter().filter(|home| home.join("task.toml").is_file()) {
        let name = home.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !only.is_empty() && !only.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        // The salt seals nothing here: the section is not run.
        let loaded = load::task(&home.join("task.toml"), &[0; 32]);
        let mut task = loaded.map_err(|findings| refused(&name, findings))?;
        task.task.limits.launch = task.task.limits.launch.min(LAUNCH_MAX);
        found.push(Subject { name, home, task });
    }
    if found.is_empty() {
        bail!("{} has no folder with a task.toml that is asked for", folder.display());
    }
    Ok(found)
}

impl Subject {
    /// The candidate in the file `path`.
    fn candidate(&self, path: &Path) -> anyhow::Result<LoadedCandidate> {
        let task = &self.task.task;
        let loaded = load::candidates(path, &task.entry, task.limits.source);
        let refused = |refusals: Vec<fleet_config::refusal::Refusal>| match refusals.into_iter().next() {
            Some(refusal) => anyhow::Error::from(refusal),
            None => anyhow::anyhow!("{} is refused", path.display()),
        };
        let mut candidates = loaded.map_err(refused)?;
        if candidates.is_empty() {
            bail!("{} is no candidate", path.display());
        }
        Ok(candidates.swap_remove(0))
    }

    /// The wrong candidates, by path.
    fn wrong(&self) -> anyhow::Result<Vec<PathBuf>> {
        let Ok(listing) = std::fs::read_dir(self.home.join("wrong")) else { return Ok(Vec::new()) };
        let mut files = Vec::new();
        for entry in listing {
            files.push(entry?.path());
        }
        files.retain(|path| path.extension().is_some_and(|extension| extension == "cu"));
        files.sort();
        Ok(files)
    }
}

fn refused(name: &str, findings: Findings) -> anyhow::Error {
    match findings.refusals.into_iter().next() {
        Some(refusal) => anyhow::Error::from(refusal).context(format!("the task {name}")),
        None => anyhow::anyhow!("the task {name} is refused"),
    }
}

/// A row of a table in Markdown.
fn row(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// The first two lines of one.
fn header(columns: &[&str]) -> String {
    format!("| {} |\n|{}", columns.join(" | "), " --- |".repeat(columns.len()))
}

/// The middle one of `values`, the lower of two.
fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// Names the try that failed for reasons of this machine.
fn told<'a>(name: &'a str, tryout: &'a Tryout<'_>) -> impl Fn() -> String + 'a {
    move || format!("{name} on {}", tryout.offer.description.architecture)
}
