//! The subcommand `check-cuda`, as text and as JSON.

use agent_node::backend::conformance::{AgainstItself, Verdict};
use agent_node::backend::cuda::{Beside, SelfCheck, self_check};
use agent_node::backend::pair::{Cache, Setting};
use agent_node::sandbox::Confinement;
use clap::Args;
use fleet_config::domain::Fact;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// A check failed.
const FAILED: u8 = 1;
/// Nothing could be tried.
const UNUSABLE: u8 = 2;

/// Arguments of `check-cuda`.
#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// A folder for artefacts and work; made where it is missing.
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    sandbox: Sandbox,
    /// One JSON document instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Sandbox {
    /// Runs compilers and candidates unconfined. Anything that they contain can then read and change what you can.
    #[arg(long)]
    unsafe_no_sandbox: bool,
}

impl Sandbox {
    pub(super) fn confinement(&self) -> Confinement {
        if self.unsafe_no_sandbox { Confinement::UnsafeNone } else { Confinement::Kernel }
    }
}

/// `muster-node check-cuda`.
pub(crate) fn check_cuda(arguments: &CheckArguments) -> ExitCode {
    let prepared = std::fs::create_dir_all(&arguments.folder).and_then(|()| arguments.folder.canonicalize());
    let found = prepared.and_then(|folder| self_check(&folder, arguments.sandbox.confinement()));
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            eprintln!("muster-node check-cuda: {}: {error}", arguments.folder.display());
            return ExitCode::from(UNUSABLE);
        }
    };
    if arguments.json {
        println!("{}", document(&found));
    } else {
        print!("{}", report(&found));
    }
    match (found.devices.is_empty(), found.passed()) {
        (true, _) => ExitCode::from(UNUSABLE),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(FAILED),
    }
}

fn verdict(verdict: &Verdict) -> (&'static str, &str) {
    match verdict {
        Verdict::Passed => ("passed", ""),
        Verdict::Unsupported(text) => ("unsupported", text),
        Verdict::Failed(text) => ("failed", text),
    }
}

fn document(found: &SelfCheck) -> Value {
    let findings: Vec<Value> = found
        .findings
        .iter()
        .flat_map(|(device, findings)| findings.iter().map(move |finding| (device, finding)))
        .map(|(device, finding)| {
            let (word, text) = verdict(&finding.verdict);
            json!({ "device": device, "check": finding.check, "verdict": word, "text": text })
        })
        .collect();
    json!({
        "absence": found.absence,
        "compiler": found.compiler.as_ref().ok(),
        "compiler_absence": found.compiler.as_ref().err(),
        "devices": found.devices,
        "volatile": found.volatile,
        "findings": findings,
        "pairs": found.pairs.iter().map(|(_, pair)| pair_document(pair)).collect::<Vec<Value>>(),
        "company": company(found),
        "passed": found.passed(),
    })
}

/// One kernel against itself, and what stood beside it.
fn company(found: &SelfCheck) -> Vec<Value> {
    let row = |((device, beside, pair), (_, _, took)): (&(_, Beside, _), &(_, _, u64))| {
        let mut row = pair_document(pair);
        row["device"] = json!(device);
        row["standby_contexts"] = json!(beside.contexts);
        row["sampled"] = json!(beside.is_sampled);
        row["took_us"] = json!(took);
        row
    };
    found.company.iter().zip(&found.took_us).map(row).collect()
}

fn setting(setting: Setting) -> &'static str {
    match setting {
        Setting::Apart => "two processes",
        Setting::Together(Cache::Flushed) => "one context, L2 flushed",
        Setting::Together(Cache::AsLeft) => "one context, L2 as left",
    }
}

fn pair_document(pair: &Result<AgainstItself, String>) -> Value {
    match pair {
        Ok(AgainstItself { setting: how, elements, baseline, candidate, ratio, facts }) => json!({
            "setting": setting(*how),
            "elements": elements,
            "baseline_ps": baseline,
            "candidate_ps": candidate,
            "ratio_ppm_p10_p50_p90": ratio,
            "facts": facts,
        }),
        Err(cause) => json!({ "failed": cause }),
    }
}

fn pair_text(pair: &Result<AgainstItself, String>) -> String {
    match pair {
        Ok(AgainstItself {
            setting: how,
            elements,
            baseline,
            candidate,
            ratio: [low, middle, high],
            facts,
        }) => {
            let facts: Vec<String> = facts
                .iter()
                .map(|(name, fact)| match fact {
                    Fact::Count(count) => format!("{name}={count}"),
                    Fact::Text(_) | Fact::Flag(_) | Fact::Unknown(_) => name.clone(),
                })
                .collect();
            format!(
                "{:<24} {elements:>8} elements  {baseline} against {candidate}  ratio {low} {middle} {high} ppm  {}",
                setting(*how),
                facts.join(" ")
            )
        }
        Err(cause) => format!("not timed: {cause}"),
    }
}

fn report(found: &SelfCheck) -> String {
    let mut text = String::new();
    match &found.compiler {
        Ok(path) => drop(writeln!(text, "compiler  {path}")),
        Err(reason) => drop(writeln!(text, "compiler  none: {reason}")),
    }
    if let Some(reason) = &found.absence {
        let _ = writeln!(text, "devices   none: {reason}");
    }
    for device in &found.devices {
        let _ = writeln!(text, "device    {} {} {} bytes", device.id, device.architecture, device.memory);
        let now = found.volatile.iter().filter(|(id, _)| *id == device.id).flat_map(|(_, facts)| facts);
        for (name, fact) in device.identity.iter().chain(&device.configuration).chain(now) {
            let value = match fact {
                Fact::Text(text) => text.clone(),
                Fact::Count(count) => count.to_string(),
                Fact::Flag(flag) => flag.to_string(),
                Fact::Unknown(reason) => format!("unknown ({reason})"),
            };
            let _ = writeln!(text, "          {name} = {value}");
        }
    }
    for (_, findings) in &found.findings {
        for finding in findings {
            let (word, detail) = verdict(&finding.verdict);
            let _ = writeln!(text, "{word:<12}{} {detail}", finding.check);
        }
    }
    for (_, pair) in &found.pairs {
        let _ = writeln!(text, "pair        {}", pair_text(pair));
    }
    for (_, Beside { contexts, is_sampled }, pair) in &found.company {
        let sampled = if *is_sampled { "sampled" } else { "not sampled" };
        let _ = writeln!(text, "beside {contexts} contexts, {sampled}  {}", pair_text(pair));
    }
    text
}
