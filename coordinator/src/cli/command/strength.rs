//! `muster task strength`: the node's table of mutants, and what is left to do about those that lived.

use crate::cli::output::table;
use crate::cli::{Context, Ending, spawn};
use fleet_config::refusal::Refusal;
use serde_json::Value;
use std::path::Path;

/// Runs the subcommand: the node binary beside this one does the work on this machine's CPU device.
pub(super) fn run(context: &Context, folder: &Path, mutants: u16) -> Result<Ending, Refusal> {
    let folder = folder.display().to_string();
    let arguments =
        ["task-strength", &folder, "--mutants", &mutants.to_string(), "--json"].map(str::to_owned);
    let output = spawn::run_seen("muster-node", &arguments)?;
    let strength: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        let next = "read what stands above; run it by hand to see more";
        Refusal::new("task/strength", "muster-node task-strength", error.to_string(), next)
    })?;
    context.output.print(&strength, render);
    let cause = strength["outcome"]["cause"]["message"].as_str().unwrap_or("it does not hold together");
    match strength["outcome"]["status"].as_str() {
        Some("ok") => Ok(Ending::Done),
        Some("task_weak") => {
            Err(Refusal::new("task/weak", folder, plain(cause), "mend the task as the cause says"))
        }
        Some(_) | None => {
            Err(Refusal::new("task/run", folder, plain(cause), "run `muster task lint` until it is content"))
        }
    }
}

fn render(strength: &Value) -> String {
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let mut lines = vec![format!("task {} on {}", text(&strength["task"]), text(&strength["architecture"]))];
    for fake in array(&strength["fakes"]) {
        let words = if fake["finding"] == "fails" { "fails, as it must" } else { "allowed by the task" };
        lines.push(format!("  fake {}: {words}", text(&fake["fake"])));
    }
    let mutants = array(&strength["mutants"]);
    if mutants.is_empty() {
        lines.push("no mutant was tried".to_owned());
        return lines.join("\n");
    }
    let row = |mutant: &Value| {
        let by = text(&mutant["by"]);
        let fate = text(&mutant["fate"]).replace('-', " ");
        let fate = if by.is_empty() { fate } else { format!("{fate} by {by}") };
        vec![mutant["line"].to_string(), text(&mutant["operator"]), fate, text(&mutant["change"])]
    };
    let rows: Vec<Vec<String>> = mutants.iter().map(row).collect();
    let (file, made) = (text(&strength["file"]), &strength["made"]);
    lines.push(format!("\n{} of the {made} mutants of {file}\n", mutants.len()));
    lines.push(table(&["LINE", "FAULT", "FATE", "CHANGE"], &rows));
    let of = |field: &str| strength[field].as_u64().unwrap_or(0);
    let (killed, survived) = (of("killed"), of("survived"));
    let score = strength["score"].as_u64().map_or_else(
        || "no score: no mutant could be judged".to_owned(),
        |score| format!("score {}.{} %: {killed} of {} killed", score / 10, score % 10, killed + survived),
    );
    lines.push(format!(
        "\n{score}; left out: {} equivalent, {} that did not compile, {} not judged",
        of("equivalent"),
        of("did_not_compile"),
        of("not_judged")
    ));
    let lived: Vec<&Value> = mutants.iter().filter(|mutant| mutant["fate"] == "survived").collect();
    if !lived.is_empty() {
        lines.push("survivors: add a case that shows each, tighten the tolerance, or give sizes in [validation.sweep]".to_owned());
        let line = |mutant: &&Value| format!("  {file}:{}: {}", mutant["line"], text(&mutant["change"]));
        lines.extend(lived.iter().map(line));
        lines.push("  (one that changes no answer at all is no fault of the task)".to_owned());
    }
    lines.join("\n")
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// One line that cannot steer a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn survivors_are_listed_with_their_lines_and_nothing_steers_the_terminal() {
        let mutant = |line: u32, fate: &str, by: &str, change: &str| json!({ "line": line, "operator": "relation", "change": change, "fate": fate, "by": by, "detail": "" });
        let strength = json!({
            "task": "t", "architecture": "cpu:x86-64-v3", "file": "reference.cu", "made": 9, "score": 500,
            "killed": 1, "survived": 1, "equivalent": 1, "did_not_compile": 1, "not_judged": 0,
            "fakes": [{ "fake": "zeros", "finding": "fails" }, { "fake": "constant", "finding": "allowed" }],
            "mutants": [
                mutant(4, "killed", "smoke", "`<` to `<=`"),
                mutant(7, "survived", "", "drop `x;`\u{1b}[2J"),
                mutant(8, "did-not-compile", "", "`+` to `-`"),
                mutant(9, "equivalent", "", "`1` to `2`"),
            ],
        });
        let text = render(&strength);
        for part in [
            "score 50.0 %: 1 of 2 killed",
            "1 equivalent, 1 that did not compile",
            "reference.cu:7: drop",
            "constant: allowed",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'));
        assert!(!text.contains("reference.cu:8"), "what did not compile is no survivor");
    }
}
