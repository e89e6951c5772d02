//! `muster node list|invite|drain`.

use crate::cli::args::NodeCommand;
use crate::cli::client::{Client, segment};
use crate::cli::output::{short, table};
use crate::cli::{Context, Ending};
use crate::driver::request::NodeView;
use crate::http::body::{CountView, DrainBody, InviteBody, TextView};
use fleet_config::refusal::Refusal;

/// Runs the subcommand.
pub(crate) async fn run(context: &Context, command: NodeCommand) -> Result<Ending, Refusal> {
    let mut client = Client::connect(&context.state).await?;
    match command {
        NodeCommand::List => {
            let nodes: Vec<NodeView> = client.get("/v1/nodes").await?;
            context.output.print(&nodes, |nodes| list(nodes));
        }
        NodeCommand::Invite { valid, uses, class } => {
            let body = InviteBody { valid_seconds: valid, uses, class };
            let invite: TextView = client.post("/v1/invites", &body).await?;
            context.output.print(&invite, |invite| invite.text.clone());
        }
        NodeCommand::Drain { node, resume } => {
            let path = format!("/v1/nodes/{}/drain", segment(&node));
            let count: CountView = client.post(&path, &DrainBody { resume }).await?;
            let word = if resume { "resumed" } else { "draining" };
            context.output.print(&count, |count| format!("{word}; {} attempts still run", count.count));
        }
    }
    Ok(Ending::Done)
}

fn list(nodes: &[NodeView]) -> String {
    let mut rows = Vec::new();
    for node in nodes {
        for device in &node.devices {
            let running = if device.running.is_empty() { "idle" } else { short(&device.running) };
            rows.push(vec![
                short(&node.node).to_owned(),
                node.name.clone(),
                node.state.clone(),
                device.kind.clone(),
                device.architecture.clone(),
                device.model.clone(),
                running.to_owned(),
            ]);
        }
        if node.devices.is_empty() {
            let state = format!("{}, no devices", node.state);
            rows.push(vec![short(&node.node).to_owned(), node.name.clone(), state]);
        }
    }
    if rows.is_empty() {
        return "no node has joined; make an invite with `muster node invite`".to_owned();
    }
    table(&["NODE", "NAME", "STATE", "KIND", "ARCHITECTURE", "MODEL", "RUNNING"], &rows)
}
