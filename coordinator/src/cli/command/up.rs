//! `muster up`: a coordinator and this machine's nodes as processes of their own.

use crate::cli::args::UpArgs;
use crate::cli::client::Client;
use crate::cli::output::counted;
use crate::cli::own_node::{OwnNode, noted_levels};
use crate::cli::process::Process;
use crate::cli::{Context, Ending, spawn, turn};
use crate::driver::request::NodeView;
use crate::http::body::{InviteBody, SummaryView, TextView};
use crate::state::{Layout, io, make_folder};
use fleet_config::refusal::Refusal;
use serde::Serialize;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// How long a coordinator may take to answer, and a node to join: both include a cold disk.
const START: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(50);

/// Where a coordinator listens that was told nothing: nodes of this machine alone, the port of the last start.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

#[derive(Debug, Serialize)]
struct Up {
    summary: SummaryView,
    /// Every node of the fleet.
    nodes: Vec<NodeView>,
    coordinator: Begun,
    /// The nodes of this folder that `up` answers for.
    own: Vec<OwnView>,
}

/// Whether `up` had to do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Begun {
    Started,
    Found,
}

#[derive(Debug, Serialize)]
struct OwnView {
    name: String,
    node: String,
    process: Option<u32>,
    begun: Begun,
}

/// Starts what is not running yet and waits until it is ready.
pub(crate) async fn up(context: &Context, args: &UpArgs) -> Result<Ending, Refusal> {
    let state = std::path::absolute(&context.state).map_err(|error| io("state", &error))?;
    make_folder(&state).map_err(|error| io(&state.display().to_string(), &error))?;
    let _turn = turn::take(&state).await?;
    crate::state::prepare(&state)?;
    let coordinator = match Client::connect(&state).await {
        Ok(mut client) => {
            check_address(&client.get("/v1/summary").await?, args)?;
            Begun::Found
        }
        Err(_) => {
            start_coordinator(&state, args).await?;
            Begun::Started
        }
    };
    let mut client = Client::connect(&state).await?;
    let mut own = Vec::new();
    if !args.no_node {
        for level in levels(&state, args) {
            let node = OwnNode::of_level(&state, &level);
            let begun = match node.running() {
                Some(_) => Begun::Found,
                None => {
                    start_node(&node, &mut client, &level, args).await?;
                    Begun::Started
                }
            };
            own.push((node, begun));
        }
        wait_for_nodes(&mut client, &own).await?;
    }
    let summary: SummaryView = client.get("/v1/summary").await?;
    let nodes: Vec<NodeView> = client.get("/v1/nodes").await?;
    let own = own.into_iter().map(|(node, begun)| OwnView {
        node: node.id().unwrap_or_default(),
        process: node.process().map(|process| process.id()),
        name: node.name,
        begun,
    });
    let own = own.collect();
    context.output.print(&Up { summary, nodes, coordinator, own }, render);
    Ok(Ending::Done)
}

fn render(up: &Up) -> String {
    let word = |begun: Begun| match begun {
        Begun::Started => "started",
        Begun::Found => "runs already",
    };
    let mut lines = vec![format!(
        "coordinator {}: process {}, nodes connect to {}",
        word(up.coordinator),
        up.summary.process,
        up.summary.listening
    )];
    for own in &up.own {
        let view = up.nodes.iter().find(|node| node.node == own.node);
        let devices = view.into_iter().flat_map(|node| node.devices.iter());
        let named = devices.filter(|device| !device.architecture.is_empty());
        let devices: Vec<_> =
            named.map(|device| format!("{} ({})", device.architecture, device.kind)).collect();
        let process = own.process.map_or_else(String::new, |process| format!(": process {process}"));
        lines.push(format!("node {} {}{process}, {}", own.name, word(own.begun), devices.join(", ")));
    }
    let is_stranger = |node: &&NodeView| up.own.iter().all(|own| own.node != node.node);
    let strangers = up.nodes.iter().filter(is_stranger).filter(|node| node.state == "ready").count();
    if strangers > 0 {
        lines.push(format!("{} of this fleet ready beside them", counted(strangers, "further node")));
    }
    lines.push(format!("verifier key of the ledger: {}", up.summary.vkey));
    lines.join("\n")
}

/// A running coordinator keeps its addresses; asking for other ones is not obeyed silently.
fn check_address(summary: &SummaryView, args: &UpArgs) -> Result<(), Refusal> {
    let bound: Option<SocketAddr> = summary.bound.parse().ok();
    let is_bound = |wanted: SocketAddr| {
        bound.is_some_and(|b| b.ip() == wanted.ip() && (wanted.port() == 0 || wanted.port() == b.port()))
    };
    let refuse = |asked: String| {
        Err(Refusal::new(
            "up/listens-elsewhere",
            asked,
            format!(
                "the coordinator of this folder runs already, listens on {} and is dialled at {}",
                summary.bound, summary.listening
            ),
            "run `muster down` first, or leave --listen and --advertise out",
        ))
    };
    if let Some(asked) = args.listen.filter(|asked| !is_bound(*asked)) {
        return refuse(asked.to_string());
    }
    let is_told = |address: &&String| summary.listening.split(", ").any(|told| told == address.as_str());
    match args.advertise.iter().find(|address| !is_told(address)) {
        Some(asked) => refuse(asked.clone()),
        None => Ok(()),
    }
}

/// The levels asked for; else those of the nodes that were started here before; else the machine's best one, which
/// is written as the empty text.
fn levels(state: &Path, args: &UpArgs) -> Vec<String> {
    if !args.level.is_empty() {
        let mut levels = args.level.clone();
        levels.sort();
        levels.dedup();
        return levels;
    }
    let noted = noted_levels(state);
    if noted.is_empty() { vec![String::new()] } else { noted }
}

async fn start_coordinator(state: &Path, args: &UpArgs) -> Result<(), Refusal> {
    let log = Layout::of(state).log();
    let mut arguments = vec![
        "--state".to_owned(),
        state.display().to_string(),
        "--listen".to_owned(),
        args.listen.unwrap_or(LISTEN).to_string(),
    ];
    for address in &args.advertise {
        arguments.extend(["--advertise".to_owned(), address.clone()]);
    }
    let mut child = spawn::start("muster-coordinator", &arguments, &log, None)?;
    let mut waited = Duration::ZERO;
    loop {
        if Client::connect(state).await.is_ok() {
            return Ok(());
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(Refusal::new(
                "up/coordinator",
                log.display().to_string(),
                format!("the coordinator ended ({status}): {}", last_line(&log)),
                "correct what its log names and run `muster up` again",
            ));
        }
        if waited > START {
            return Err(Refusal::new(
                "up/coordinator",
                log.display().to_string(),
                "the coordinator does not answer",
                "read its log",
            ));
        }
        tokio::time::sleep(PAUSE).await;
        waited += PAUSE;
    }
}

/// Starts the node of `level`.
async fn start_node(node: &OwnNode, client: &mut Client, level: &str, args: &UpArgs) -> Result<(), Refusal> {
    let folder = node.folder();
    std::fs::create_dir_all(&folder).map_err(|error| io(&folder.display().to_string(), &error))?;
    let body = InviteBody { valid_seconds: 600, uses: 1, class: None };
    let invite: TextView = client.post("/v1/invites", &body).await?;
    let mut arguments: Vec<String> =
        ["run", "--state", &folder.display().to_string(), "--name", &node.name, "--invite-file", "-"]
            .map(str::to_owned)
            .into();
    if !level.is_empty() {
        arguments.extend(["--level".to_owned(), level.to_owned()]);
    }
    if args.unsafe_no_sandbox {
        arguments.push("--unsafe-no-sandbox".to_owned());
    }
    let child = spawn::start("muster-node", &arguments, &node.log(), Some(&invite.text))?;
    // One that has ended already is found by its log, not by its id.
    Process::of(child.id())
        .map_or(Ok(()), |process| process.write(&node.pid()))
        .map_err(|error| io("pid", &error))?;
    node.note_level(level).map_err(|error| io(&folder.display().to_string(), &error))
}

/// Waits until every node of `own` is ready, or one of them has ended. They are known by their keys: that a node of
/// another folder has the same name, or is ready, says nothing of them.
async fn wait_for_nodes(client: &mut Client, own: &[(OwnNode, Begun)]) -> Result<(), Refusal> {
    let mut waited = Duration::ZERO;
    loop {
        let nodes: Vec<NodeView> = client.get("/v1/nodes").await?;
        let takes_part = |state: &str| state == "ready" || state == "draining";
        let is_there = |own: &OwnNode| {
            own.id().is_some_and(|id| nodes.iter().any(|node| node.node == id && takes_part(&node.state)))
        };
        if let Some((node, _)) = own.iter().find(|(node, _)| node.running().is_none()) {
            let log = node.log();
            return Err(Refusal::new(
                "up/node",
                log.display().to_string(),
                format!("the node ended: {}", last_line(&log)),
                "correct what its log names; `muster doctor` shows what this machine lacks",
            ));
        }
        let Some((missing, _)) = own.iter().find(|(node, _)| !is_there(node)) else { return Ok(()) };
        if waited > START {
            let log = missing.log();
            return Err(Refusal::new(
                "up/node",
                log.display().to_string(),
                format!("node {} does not join: {}", missing.name, last_line(&log)),
                "correct what its log names; `muster node list` shows how the coordinator sees it",
            ));
        }
        tokio::time::sleep(PAUSE).await;
        waited += PAUSE;
    }
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("its log is empty")
        .chars()
        .take(400)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::request::Summary;

    fn summary(bound: &str, listening: &str) -> SummaryView {
        SummaryView {
            origin: String::new(),
            vkey: String::new(),
            process: 1,
            bound: bound.to_owned(),
            listening: listening.to_owned(),
            version: String::new(),
            ledger_size: 0,
            totals: Summary::default(),
            recent: Vec::new(),
        }
    }

    fn args(listen: Option<&str>, advertise: &[&str]) -> UpArgs {
        UpArgs {
            listen: listen.map(|text| text.parse().unwrap()),
            advertise: advertise.iter().map(|text| (*text).to_owned()).collect(),
            level: Vec::new(),
            no_node: true,
            unsafe_no_sandbox: false,
        }
    }

    #[test]
    fn a_running_coordinator_is_asked_for_no_other_address() {
        let everywhere = summary("0.0.0.0:4460", "lab.example:4460");
        let here = summary("127.0.0.1:4460", "127.0.0.1:4460");
        for (running, listen, advertise) in [
            (&here, None, &[][..]),
            (&here, Some("127.0.0.1:4460"), &[]),
            (&here, Some("127.0.0.1:0"), &[]),
            (&everywhere, None, &[]),
            (&everywhere, Some("0.0.0.0:4460"), &["lab.example:4460"]),
        ] {
            check_address(running, &args(listen, advertise)).unwrap();
        }
        for (running, listen, advertise) in [
            (&here, Some("127.0.0.1:446"), &[][..]),
            (&here, Some("192.0.2.1:0"), &[]),
            (&everywhere, Some("127.0.0.1:4460"), &[]),
            (&here, None, &["lab.example:4460"]),
        ] {
            let refusal = check_address(running, &args(listen, advertise)).unwrap_err();
            assert_eq!(refusal.code, "up/listens-elsewhere", "{listen:?} {advertise:?}");
        }
    }
}
