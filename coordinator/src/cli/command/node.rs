//! `muster node list|invite|drain|revoke|remove`.

use crate::cli::args::NodeCommand;
use crate::cli::client::{Client, segment};
use crate::cli::output::{counted, short, table};
use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use crate::driver::request::{DeviceView, NodeView};
use crate::http::body::{CountView, DrainBody, InviteBody, RevokeBody, RevokeView, TextView};
use fleet_config::domain::{LeafIndex, NodeId, RecordId, Status};
use fleet_config::refusal::Refusal;
use ledger::entry::{Body, Entry};
use serde::Serialize;

/// Characters of a cause that fit a table.
const CAUSE_MAX: usize = 80;

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
        NodeCommand::Revoke { node, suspect_from, reason } => {
            let body = RevokeBody { suspect_from: Some(LeafIndex(suspect_from)), reason };
            revoke(context, &mut client, &node, &body).await?;
        }
        NodeCommand::Remove { node } => {
            let body = RevokeBody { suspect_from: None, reason: "removed".to_owned() };
            revoke(context, &mut client, &node, &body).await?;
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

/// What a revocation leads to.
#[derive(Debug, Serialize)]
struct Revocation {
    node: NodeId,
    /// Leaf of its entry: the ranking as of it is the last one with what falls.
    leaf: LeafIndex,
    suspect_from: LeafIndex,
    /// Passing results that fall.
    fallen: Vec<RecordId>,
}

async fn revoke(
    context: &Context,
    client: &mut Client,
    node: &str,
    body: &RevokeBody,
) -> Result<(), Refusal> {
    let view: RevokeView = client.post(&format!("/v1/nodes/{}/revoke", segment(node)), body).await?;
    let RevokeView { node, index, suspect_from } = view;
    let mut fallen = Vec::new();
    for (leaf, bytes) in Reading::open(&context.state)?.entries(index.0)? {
        let Ok(Entry { record, body: Body::Result(result), .. }) = Entry::read(&bytes) else { continue };
        if result.node == node && leaf >= suspect_from && result.outcome.status == Status::Ok {
            fallen.push(record);
        }
    }
    let revocation = Revocation { node, leaf: index, suspect_from, fallen };
    context.output.print(&revocation, |revocation| {
        let results = counted(revocation.fallen.len(), "passing result");
        let Revocation { node, leaf, suspect_from, fallen: _ } = revocation;
        format!(
            "revoked node {} in entry {leaf}; suspect from entry {suspect_from} on: {results} fall\nthe rankings before: muster rank TASK --as-of {leaf}",
            node.short()
        )
    });
    Ok(())
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
                health(device),
                drift(&device.drift_ppm),
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
    table(&["NODE", "NAME", "STATE", "KIND", "ARCHITECTURE", "MODEL", "HEALTH", "DRIFT", "RUNNING"], &rows)
}

/// How the device stands, with the cause of what is not well.
fn health(device: &DeviceView) -> String {
    let cause = match device.health_cause.as_str() {
        "" | "none" => String::new(),
        // The node says it; it is shown as words only.
        cause => {
            format!(": {}", cause.chars().filter(|c| !c.is_control()).take(CAUSE_MAX).collect::<String>())
        }
    };
    if device.health.is_empty() { "-".to_owned() } else { format!("{}{cause}", device.health) }
}

/// Parts per million as a share of a hundred, with its sign.
fn drift(ppm: &str) -> String {
    ppm.parse::<i64>().map_or_else(|_| "-".to_owned(), |ppm| format!("{:+.2} %", ppm as f64 / 1e4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(health: &str, cause: &str, drift: &str) -> DeviceView {
        DeviceView {
            id: "GPU-1".to_owned(),
            kind: "gpu".to_owned(),
            architecture: "nvidia:sm_90a".to_owned(),
            model: "H".to_owned(),
            running: String::new(),
            health: health.to_owned(),
            health_cause: cause.to_owned(),
            drift_ppm: drift.to_owned(),
        }
    }

    #[test]
    fn health_and_drift_are_shown_and_nothing_is_made_up_where_a_node_says_nothing() {
        assert_eq!(health(&device("healthy", "none", "")), "healthy");
        assert_eq!(health(&device("suspect", "Xid 94: a\u{1b}[31m", "")), "suspect: Xid 94: a[31m");
        assert_eq!(health(&device("", "", "")), "-");
        assert_eq!(
            (drift("-1234").as_str(), drift("").as_str(), drift("5000").as_str()),
            ("-0.12 %", "-", "+0.50 %")
        );
    }
}
