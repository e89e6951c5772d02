//! `muster down`: ends the nodes that `up` started here and the coordinator of the folder, and says what it ended.

use crate::cli::client::Client;
use crate::cli::output::counted;
use crate::cli::own_node::OwnNode;
use crate::cli::process::Process;
use crate::cli::{Context, Ending, turn};
use crate::http::body::{SummaryView, TextView};
use fleet_config::refusal::Refusal;
use serde::Serialize;
use std::time::Duration;

/// How long a stopped process may take to leave.
const LEAVE: Duration = Duration::from_secs(20);

const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Serialize)]
struct Down {
    /// Whether a coordinator ran here and was stopped.
    coordinator: bool,
    /// How many nodes were stopped: one that had ended before is not among them.
    nodes: usize,
}

/// Stops the nodes and the coordinator of this folder.
pub(crate) async fn down(context: &Context) -> Result<Ending, Refusal> {
    let _turn = turn::take(&context.state).await?;
    let mut lingering = Vec::new();
    let nodes = stop_nodes(context, &mut lingering).await;
    let coordinator = match Client::connect(&context.state).await {
        Ok(client) => stop_coordinator(client, &mut lingering).await?,
        Err(_) if nodes > 0 || !lingering.is_empty() => false,
        Err(refusal) => return Err(refusal),
    };
    if !lingering.is_empty() {
        return Err(Refusal::new(
            "down/lingers",
            context.state.display().to_string(),
            format!("did not end within {} s: {}", LEAVE.as_secs(), lingering.join(", ")),
            "run `muster down` again in a while, or end them with `kill -9`",
        ));
    }
    context.output.print(&Down { coordinator, nodes }, |down| {
        let nodes = counted(down.nodes, "node");
        if down.coordinator {
            format!("stopped the coordinator and {nodes}; the state folder keeps everything")
        } else {
            format!("stopped {nodes}; no coordinator was running")
        }
    });
    Ok(Ending::Done)
}

/// Asks every node of this folder to end, then waits for each; answers how many there were.
async fn stop_nodes(context: &Context, lingering: &mut Vec<String>) -> usize {
    let mut asked = Vec::new();
    for node in OwnNode::all(&context.state) {
        match node.process().filter(Process::terminate) {
            Some(process) => asked.push((node, process)),
            // A file that is gone already is what we want.
            None => drop(std::fs::remove_file(node.pid())),
        }
    }
    let mut stopped = 0;
    for (node, process) in asked {
        if has_gone(process).await {
            let _gone = std::fs::remove_file(node.pid());
            stopped += 1;
        } else {
            lingering.push(format!("node {} (process {})", node.name, process.id()));
        }
    }
    stopped
}

/// Whether the coordinator has ended.
async fn stop_coordinator(mut client: Client, lingering: &mut Vec<String>) -> Result<bool, Refusal> {
    let summary: SummaryView = client.get("/v1/summary").await?;
    let process = Process::of(summary.process);
    let _stopping: TextView = client.post("/v1/stop", &serde_json::json!({})).await?;
    match process {
        Some(process) if !has_gone(process).await => {
            lingering.push(format!("the coordinator (process {})", process.id()));
            Ok(false)
        }
        Some(_) | None => Ok(true),
    }
}

async fn has_gone(process: Process) -> bool {
    let mut waited = Duration::ZERO;
    while process.is_alive() {
        if waited >= LEAVE {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
        waited += PAUSE;
    }
    true
}
