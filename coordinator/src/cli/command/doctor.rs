//! `muster doctor`: what this machine has and lacks, and what to do about it.

use crate::cli::spawn;
use crate::cli::{Context, Ending};
use fleet_config::refusal::Refusal;
use serde_json::Value;

/// Asks the node binary, which knows compilers, sandbox layers and devices.
pub(crate) fn run(context: &Context) -> Result<Ending, Refusal> {
    let output = spawn::run("muster-node", &["doctor".to_owned(), "--json".to_owned()])?;
    let report: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr).chars().take(300).collect::<String>();
        Refusal::new(
            "doctor/answer",
            "muster-node doctor",
            format!("{error}: {said}"),
            "install binaries of one version",
        )
    })?;
    context.output.print(&report, |report| {
        let checks = report["checks"].as_array().cloned().unwrap_or_default();
        let line = |check: &Value| {
            let word = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
            let next = word("next");
            let next = if next.is_empty() { String::new() } else { format!("\n           → {next}") };
            format!("{:9}  {}: {}{next}", word("state"), word("name"), word("detail"))
        };
        checks.iter().map(line).collect::<Vec<_>>().join("\n")
    });
    if output.status.success() {
        return Ok(Ending::Done);
    }
    Err(Refusal::new(
        "doctor/unfit",
        "",
        "this machine lacks something that a node needs",
        "do what the arrows above say",
    ))
}
