//! `muster task new|lint|add|show|list`; `strength` has a room of its own.

use super::strength;
use crate::cli::args::{HiddenConfigs, ImportCommand, TaskCommand};
use crate::cli::client::{Client, segment};
use crate::cli::output::{note, short, table};
use crate::cli::{Context, Ending};
use crate::cli::{operand, spawn};
use crate::http::body::{SealedBody, TaskBody, TaskView};
use crate::state::io;
use data_encoding::HEXLOWER;
use fleet_config::config::case_folder::{Hidden, TaskFolder, translate};
use fleet_config::config::{Findings, load, scaffold};
use fleet_config::domain::{BlobRef, HoldoutSection, Task, canonical};
use fleet_config::refusal::Refusal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Runs the subcommand.
pub(crate) async fn run(context: &Context, command: TaskCommand) -> Result<Ending, Refusal> {
    match command {
        TaskCommand::New { folder, signature, reference, initial_kernel } => {
            new(context, &folder, &signature, &reference, &initial_kernel)
        }
        TaskCommand::Lint { folder, no_run } => lint(context, &folder, no_run),
        TaskCommand::Strength { folder, mutants } => strength::run(context, &folder, mutants),
        TaskCommand::Add { folder } => add(context, &folder).await,
        TaskCommand::Import(ImportCommand::CaseFolder { folder, out, hidden }) => {
            let hidden = match hidden {
                HiddenConfigs::Sealed => Hidden::Sealed,
                HiddenConfigs::Open => Hidden::Open,
            };
            import(context, &folder, &out, hidden)
        }
        TaskCommand::Show { task } => {
            let mut client = Client::connect(&context.state).await?;
            let task: Task = client.get(&format!("/v1/tasks/{}", segment(&task))).await?;
            context.output.print(&task, |task| serde_json::to_string_pretty(task).unwrap_or_default());
            Ok(Ending::Done)
        }
        TaskCommand::List => {
            let mut client = Client::connect(&context.state).await?;
            let tasks: Vec<TaskView> = client.get("/v1/tasks").await?;
            context.output.print(&tasks, |tasks| {
                let row = |view: &TaskView| {
                    vec![
                        short(&view.task.to_string()).to_owned(),
                        view.name.clone(),
                        view.index.to_string(),
                        view.summary.clone(),
                    ]
                };
                table(&["TASK", "NAME", "LEAF", "SUMMARY"], &tasks.iter().map(row).collect::<Vec<_>>())
            });
            Ok(Ending::Done)
        }
    }
}

fn new(
    context: &Context,
    folder: &Path,
    signature: &str,
    reference: &Path,
    initial_kernel: &Path,
) -> Result<Ending, Refusal> {
    let file = folder.join("task.toml");
    if file.exists() {
        return Err(Refusal::new(
            "task/exists",
            file.display().to_string(),
            "this folder holds a task already",
            "name another folder",
        ));
    }
    for (from, argument) in [(reference, "--reference"), (initial_kernel, "--initial-kernel")] {
        let next = format!("give the path of the kernel's source after {argument}; nothing was written");
        operand::exists(from, "task/missing-file", next)?;
    }
    let text = scaffold(signature, "reference.cu", "baseline.cu")?;
    std::fs::create_dir_all(folder).map_err(|error| io(&folder.display().to_string(), &error))?;
    for (from, to) in [(reference, "reference.cu"), (initial_kernel, "baseline.cu")] {
        std::fs::copy(from, folder.join(to)).map_err(|error| io(&from.display().to_string(), &error))?;
    }
    std::fs::write(&file, text).map_err(|error| io(&file.display().to_string(), &error))?;
    context.output.print(&json!({ "file": file }), |_| {
        format!(
            "wrote {}\nedit the lines marked `# edit:`, then run: muster task lint {}",
            file.display(),
            folder.display()
        )
    });
    Ok(Ending::Done)
}

fn lint(context: &Context, folder: &Path, no_run: bool) -> Result<Ending, Refusal> {
    let file = task_file(folder);
    let findings = load::lint_task(&file);
    let ran = if findings.refusals.is_empty() && !no_run { check_by_running(folder)? } else { Value::Null };
    let answer = json!({ "refusals": findings.refusals, "warnings": findings.warnings, "run": ran });
    context.output.print(&answer, |_| render_lint(&findings, &ran));
    let refuse = |code, cause: &str| {
        Err(Refusal::new(code, file.display().to_string(), cause, "correct what is listed above"))
    };
    if !findings.refusals.is_empty() {
        return refuse("task/lint", "the task has faults");
    }
    match ran["status"].as_str() {
        None | Some("ok") => Ok(Ending::Done),
        Some("task_weak") => refuse("task/weak", "an output that takes no work would pass"),
        Some(other) => refuse("task/run", &format!("reference and baseline do not pass: {other}")),
    }
}

fn render_lint(findings: &Findings, ran: &Value) -> String {
    let mut lines: Vec<String> =
        findings.refusals.iter().map(|refusal| format!("refused: {refusal}")).collect();
    lines.extend(findings.warnings.iter().map(|warning| format!("warning: {warning}")));
    if let Some(detail) = ran["detail"].as_str() {
        lines.push(format!("run on this CPU: {detail}"));
    }
    if lines.is_empty() {
        lines.push("nothing to complain about".to_owned());
    }
    lines.join("\n")
}

/// The task file of a folder, or the file itself.
fn task_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("task.toml") } else { path.to_owned() }
}

/// Lets the node binary compile and run reference and baseline on this machine's CPU device.
fn check_by_running(folder: &Path) -> Result<Value, Refusal> {
    let arguments = ["check-task".to_owned(), folder.display().to_string(), "--json".to_owned()];
    let output = spawn::run("muster-node", &arguments)?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr).chars().take(300).collect::<String>();
        Refusal::new(
            "task/run",
            "muster-node check-task",
            format!("{error}: {said}"),
            "run it by hand to see more",
        )
    })
}

/// Makes a task folder from a case folder.
fn import(context: &Context, folder: &Path, out: &Path, hidden: Hidden) -> Result<Ending, Refusal> {
    let (case, sources) = load::case_folder(folder)?;
    let made = translate(&case, &sources, hidden)?;
    write_task(&made, out)?;
    for warning in &made.warnings {
        note(&format!("warning: {warning}"));
    }
    let answer = json!({
        "folder": out, "task": made.name, "candidates": made.candidates,
        "timed": made.timed, "gating": made.gating, "sealed": made.sealed, "warnings": made.warnings,
    });
    context.output.print(&answer, |_| {
        let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        format!(
            "wrote {}: task {}\ntimed    {}\ngating   {}\nsealed   {}\ncandidates {}\nnext: muster task lint {}",
            out.display(),
            made.name,
            list(&made.timed),
            list(&made.gating),
            list(&made.sealed),
            list(&made.candidates),
            out.display()
        )
    });
    Ok(Ending::Done)
}

/// Writes the files of a task folder; an existing task is not touched.
pub(super) fn write_task(made: &TaskFolder, out: &Path) -> Result<(), Refusal> {
    let file = out.join("task.toml");
    if file.exists() {
        let cause = "this folder holds a task already";
        return Err(Refusal::new("task/exists", file.display().to_string(), cause, "name another folder"));
    }
    for (path, bytes) in &made.files {
        let path = out.join(path);
        let place = path.display().to_string();
        let parent = path.parent().unwrap_or(out);
        std::fs::create_dir_all(parent).map_err(|error| io(&parent.display().to_string(), &error))?;
        std::fs::write(&path, bytes).map_err(|error| io(&place, &error))?;
    }
    Ok(())
}

async fn add(context: &Context, folder: &Path) -> Result<Ending, Refusal> {
    let (view, warnings) = add_folder(context, folder).await?;
    for warning in &warnings {
        note(&format!("warning: {warning}"));
    }
    context.output.print(&view, |view| {
        let word = if view.added { "added" } else { "already in the ledger:" };
        let note =
            if view.added { "\nnot compiled or run yet: `muster task lint FOLDER` does that" } else { "" };
        format!("{word} {} {} at leaf {}{note}", view.name, view.task, view.index)
    });
    Ok(Ending::Done)
}

/// Adds the task in `folder`; answers with the lint's warnings too.
pub(super) async fn add_folder(
    context: &Context,
    folder: &Path,
) -> Result<(TaskView, Vec<Refusal>), Refusal> {
    let mut salt = Zeroizing::new([0u8; 32]);
    getrandom::fill(salt.as_mut()).map_err(|error| {
        Refusal::new("state/randomness", "", error.to_string(), "check the machine's random source")
    })?;
    let loaded = load::task(&task_file(folder), &salt).map_err(|findings| {
        let mut refusals = findings.refusals;
        for other in refusals.split_off(1.min(refusals.len())) {
            note(&other.to_string());
        }
        refusals
            .pop()
            .unwrap_or_else(|| Refusal::new("internal/empty", "", "no refusal in an error", "report this"))
    })?;
    let mut client = Client::connect(&context.state).await?;
    for (_, bytes) in loaded.blobs {
        let _stored: BlobRef = client.put("/v1/blobs", bytes).await?;
    }
    let holdout = loaded.holdout.map(|section| sealed(&section, &salt)).transpose()?;
    let view = client.post("/v1/tasks", &TaskBody { task: loaded.task, holdout }).await?;
    Ok((view, loaded.warnings))
}

fn sealed(section: &HoldoutSection, salt: &[u8; 32]) -> Result<SealedBody, Refusal> {
    let bytes = canonical::to_bytes(section).map_err(|error| {
        Refusal::new("task/holdout", "", error.to_string(), "write integers and decimal strings only")
    })?;
    let section = String::from_utf8_lossy(&bytes).into_owned();
    Ok(SealedBody { salt: HEXLOWER.encode(salt), section })
}
