//! `muster-node task-strength`: which faults in its own reference would a task let pass?

use super::check_task::loaded;
use super::settings::passing_wish;
use super::{TASK_AT_FAULT, TaskStrengthArguments};
use agent_node::inventory::cpu_offers;
use agent_node::job::score::{FakeFinding, Fate, MutantLine, Strength, task_strength as measure};
use agent_node::scratch::Scratch;
use anyhow::{Context as _, bail};
use fleet_config::domain::Status;
use std::io::IsTerminal as _;
use std::process::ExitCode;

pub(crate) fn task_strength(arguments: &TaskStrengthArguments) -> anyhow::Result<ExitCode> {
    // Sealed cases are not run.
    let loaded = loaded(&arguments.task)?;
    let folder = Scratch::make()?;
    let wish = passing_wish(&arguments.devices, folder.path())?;
    let offers = cpu_offers(&wish)?;
    let Some(offer) = offers.first() else { bail!("this machine has no CPU device") };
    let is_watched = std::io::stderr().is_terminal();
    let told = |done: usize, all: usize| {
        if is_watched {
            let end = if done == all { "\n" } else { "" };
            eprint!("\rmutants tried: {done} of {all}{end}");
        }
    };
    let most = usize::from(arguments.mutants);
    let strength =
        measure(loaded, offer, &wish, folder.path(), most, &told).context("the check itself failed")?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&strength)?);
    } else {
        print(&strength);
    }
    let holds = strength.outcome.status == Status::Ok;
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(TASK_AT_FAULT) })
}

fn print(strength: &Strength) {
    println!("task {} on {}", strength.task, strength.architecture);
    if let Some(cause) = &strength.outcome.cause {
        println!("no score: {}: {} [{}]", strength.outcome.status, cause.message, cause.code);
        return;
    }
    for line in &strength.fakes {
        let words = match line.finding {
            FakeFinding::Fails => "fails, as it must",
            FakeFinding::Allowed => "allowed by the task",
        };
        println!("  fake {}: {words}", line.fake.name());
    }
    println!("{} of {} mutants of {}", strength.mutants.len(), strength.made, strength.file);
    for MutantLine { line, operator: _, change, fate, by, detail } in &strength.mutants {
        let fate = match fate {
            Fate::Killed => format!("killed by {by}"),
            Fate::Survived => "SURVIVED".to_owned(),
            Fate::Equivalent => "equivalent".to_owned(),
            Fate::DidNotCompile => "did not compile".to_owned(),
            Fate::NotJudged => format!("not judged: {detail}"),
        };
        println!("  line {line}: {change}: {fate}");
    }
    let counted = strength.killed + strength.survived;
    match strength.score {
        Some(score) => {
            println!("score {}.{} %: {} of {counted} killed", score / 10, score % 10, strength.killed)
        }
        None => println!("no score: no mutant could be judged"),
    }
}
