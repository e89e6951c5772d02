//! The subcommands `compile` and `check-cuda`, as text and as JSON.

use agent_node::backend::conformance::{AgainstItself, Verdict};
use agent_node::backend::cuda::{Beside, OfflineArguments, Row, SelfCheck, compile_offline, self_check};
use agent_node::backend::pair::{Cache, Setting};
use agent_node::sandbox::Confinement;
use clap::Args;
use fleet_config::domain::Fact;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// A source did not compile, or a check failed.
const FAILED: u8 = 1;
/// Nothing could be tried.
const UNUSABLE: u8 = 2;

/// Arguments of `compile`.
#[derive(Debug, Args)]
#[command(after_help = "Example: muster-node compile kernel.cu --arch sm_90a,sm_100a --kernel saxpy")]
pub(crate) struct CompileArguments {
    /// The CUDA C++ source.
    #[arg(required_unless_present = "task", conflicts_with = "task")]
    file: Option<PathBuf>,
    /// A task's folder or file: compiles its reference and baseline, and the candidates named by `--candidate`.
    #[arg(long, value_name = "DIR")]
    task: Option<PathBuf>,
    /// A candidate of the task, as `muster submit` takes it; may be repeated.
    #[arg(long, value_name = "FILE", requires = "task")]
    candidate: Vec<PathBuf>,
    /// Architectures, such as `sm_90a`; more than one are separated by commas.
    #[arg(long, value_delimiter = ',', required = true, value_name = "ARCH")]
    arch: Vec<String>,
    /// Kernels that the file must define; templates with their arguments.
    #[arg(long, value_name = "NAME", conflicts_with = "task")]
    kernel: Vec<String>,
    /// Where cubins are kept; by default below the user's cache folder.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    #[command(flatten)]
    sandbox: Sandbox,
    /// One JSON document instead of text.
    #[arg(long)]
    json: bool,
}

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
struct Sandbox {
    /// Runs compilers and candidates unconfined. Anything that they contain can then read and change what you can.
    #[arg(long)]
    unsafe_no_sandbox: bool,
}

impl Sandbox {
    fn confinement(&self) -> Confinement {
        if self.unsafe_no_sandbox { Confinement::UnsafeNone } else { Confinement::Kernel }
    }
}

/// `muster-node compile`.
pub(crate) fn compile(arguments: &CompileArguments) -> ExitCode {
    let offline = OfflineArguments {
        file: arguments.file.clone(),
        task: arguments.task.clone(),
        candidates: arguments.candidate.clone(),
        kernels: arguments.kernel.clone(),
        architectures: arguments.arch.clone(),
        cache: arguments.cache.clone(),
        confinement: arguments.sandbox.confinement(),
    };
    let rows = match compile_offline(&offline) {
        Ok(rows) => rows,
        Err(error) => {
            eprintln!("muster-node compile: {error}");
            return ExitCode::from(UNUSABLE);
        }
    };
    if arguments.json {
        println!("{}", json!({ "rows": rows }));
    } else {
        rows.iter().for_each(|row| println!("{}", text(row)));
    }
    if rows.iter().all(|row| row.outcome.is_none()) { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

fn text(row: &Row) -> String {
    let Row { source, architecture, compiler, key, cubin: _, resources, log, outcome } = row;
    let mut line = format!("{source} {architecture}: ");
    match outcome {
        None => {
            let number = |name: &str| resources.get(name).copied().unwrap_or(0);
            let _ = write!(
                line,
                "{} registers, {} + {} bytes spilled, {} bytes shared, {} bytes of cubin, {compiler}, key {}",
                number("registers"),
                number("spill_store_bytes"),
                number("spill_load_bytes"),
                number("shared_bytes"),
                number("artefact_bytes"),
                key.as_deref().unwrap_or("none"),
            );
        }
        Some(outcome) => {
            let message = outcome.cause.as_ref().map_or("", |cause| cause.message.as_str());
            let _ = write!(line, "{} {message}\n{log}", outcome.status);
        }
    }
    line
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
