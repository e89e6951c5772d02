//! `muster-node check-task`: does a task hold together on this machine's CPU device?

use super::settings::passing_wish;
use super::{CheckTaskArguments, TASK_AT_FAULT};
use agent_node::inventory::cpu_offers;
use agent_node::job::rehearsal::{Rehearsal, rehearse_task};
use agent_node::scratch::Scratch;
use anyhow::{Context as _, bail};
use fleet_config::config::{LoadedTask, load};
use fleet_config::domain::Status;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn check_task(arguments: &CheckTaskArguments) -> anyhow::Result<ExitCode> {
    let loaded = loaded(&arguments.task)?;
    let folder = Scratch::make()?;
    let wish = passing_wish(&arguments.devices, folder.path())?;
    let offers = cpu_offers(&wish)?;
    let Some(offer) = offers.first() else { bail!("this machine has no CPU device") };
    let rehearsal = rehearse_task(loaded, offer, &wish, folder.path()).context("the check itself failed")?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&rehearsal)?);
    } else {
        print(&rehearsal);
    }
    let holds = rehearsal.status == Status::Ok;
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(TASK_AT_FAULT) })
}

/// A task that is only run here: its folder or its file. Every refusal is told, the last one as the error.
pub(super) fn loaded(task: &Path) -> anyhow::Result<LoadedTask> {
    let path = if task.is_dir() { task.join("task.toml") } else { task.to_owned() };
    // The salt seals nothing here.
    load::task(&path, &[0; 32]).map_err(|findings| {
        for refusal in findings.refusals.iter().skip(1) {
            eprintln!("{refusal}");
        }
        let first = findings.refusals.into_iter().next();
        first.map_or_else(|| anyhow::anyhow!("the task file is refused"), anyhow::Error::from)
    })
}

fn print(rehearsal: &Rehearsal) {
    println!("task {} on {}", rehearsal.task, rehearsal.architecture);
    for case in &rehearsal.cases {
        println!("  {case}: reference and baseline agree");
    }
    for warning in &rehearsal.warnings {
        println!("warning: {warning}");
    }
    println!("{}", rehearsal.detail);
    if !rehearsal.outcome.hint.is_empty() {
        println!("  {}", rehearsal.outcome.hint);
    }
    if let Some(log) = &rehearsal.log {
        println!("{log}");
    }
}
