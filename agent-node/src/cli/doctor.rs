//! `muster-node doctor`: what this machine has and lacks, and what to do about it.

use super::settings::{confinement, passing_wish};
use super::{DoctorArguments, UNFIT};
use agent_node::backend::conformance::{self, Bed, Finding, Verdict};
use agent_node::inventory::{Offer, cpu_offers};
use agent_node::probe::cpu_levels;
use agent_node::sandbox::{self, Confinement, Layer};
use agent_node::scratch::Scratch;
use fleet_config::domain::{Fact, field};
use serde::Serialize;
use std::process::ExitCode;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// Works, with less than could be.
    Weak,
    /// A node does not run like this.
    Lacking,
}

#[derive(Debug, Serialize)]
struct Check {
    name: String,
    state: State,
    detail: String,
    /// What to do; empty when nothing is to be done.
    next: String,
}

#[derive(Debug, Serialize)]
struct Report {
    checks: Vec<Check>,
}

pub(crate) fn doctor(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let confinement = confinement(arguments.devices.unsafe_no_sandbox);
    let mut report = Report { checks: sandbox_checks(confinement) };
    let levels: Vec<String> = cpu_levels().iter().map(ToString::to_string).collect();
    report.put("CPU levels", State::Ok, levels.join(", "), "");
    let folder = Scratch::make()?;
    // Without a sandbox the compiler cannot be asked, and the checks above say so.
    if !report.checks.iter().any(|check| check.state == State::Lacking) {
        let wish = passing_wish(&arguments.devices, folder.path())?;
        match cpu_offers(&wish) {
            Ok(offers) => {
                if let Some(offer) = offers.first() {
                    let compiler = offer.description.configuration.get(field::COMPILER);
                    report.put("C++ compiler", State::Ok, text(compiler), "");
                    if arguments.full {
                        report.checks.extend(conformance_checks(offer, confinement, &folder));
                    }
                }
            }
            Err(refusal) => report.put("C++ compiler", State::Lacking, refusal.cause, &refusal.next),
        }
    }
    let fit = report.checks.iter().all(|check| check.state != State::Lacking);
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.checks.iter().for_each(print);
    }
    Ok(if fit { ExitCode::SUCCESS } else { ExitCode::from(UNFIT) })
}

impl Report {
    fn put(&mut self, name: &str, state: State, detail: impl Into<String>, next: &str) {
        let (name, detail, next) = (name.to_owned(), detail.into(), next.to_owned());
        self.checks.push(Check { name, state, detail, next });
    }
}

fn sandbox_checks(confinement: Confinement) -> Vec<Check> {
    let found = sandbox::probe();
    let mut report = Report { checks: Vec::new() };
    for (name, layer) in [("Landlock", found.landlock), ("seccomp", found.seccomp)] {
        match (layer, confinement) {
            (Layer::Present(version), _) => report.put(name, State::Ok, version, ""),
            (Layer::Absent { cause, next }, Confinement::Required) => {
                report.put(name, State::Lacking, cause, &next);
            }
            (Layer::Absent { cause, next }, Confinement::UnsafeNone) => {
                report.put(name, State::Weak, cause, &next);
            }
        }
    }
    for weakness in found.weaknesses {
        report.put("sandbox", State::Weak, weakness, "");
    }
    report.checks
}

fn conformance_checks(offer: &Offer, confinement: Confinement, folder: &Scratch) -> Vec<Check> {
    let path = folder.path().join("conformance");
    let bed = Bed { backend: offer.backend.as_ref(), device: &offer.description, folder: &path, confinement };
    let mut report = Report { checks: Vec::new() };
    for Finding { check, verdict } in conformance::check(&bed) {
        match verdict {
            Verdict::Passed => report.put(check, State::Ok, "", ""),
            Verdict::Unsupported(why) => report.put(check, State::Weak, why, ""),
            Verdict::Failed(why) => report.put(check, State::Lacking, why, "report this with the output"),
        }
    }
    report.checks
}

fn print(check: &Check) {
    let word = match check.state {
        State::Ok => "ok",
        State::Weak => "weak",
        State::Lacking => "lacking",
    };
    println!("{word:9}{}: {}", check.name, check.detail);
    if !check.next.is_empty() {
        println!("         -> {}", check.next);
    }
}

/// A fact for people.
pub(super) fn text(fact: Option<&Fact>) -> String {
    match fact {
        Some(Fact::Text(text)) => text.clone(),
        Some(Fact::Count(count)) => count.to_string(),
        Some(Fact::Flag(flag)) => flag.to_string(),
        Some(Fact::Unknown(why)) => format!("unknown ({why})"),
        None => "unknown".to_owned(),
    }
}
