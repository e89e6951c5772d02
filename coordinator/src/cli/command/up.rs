//! `muster up` and `muster down`: a coordinator and this machine's nodes as processes of their own.

use crate::cli::args::UpArgs;
use crate::cli::client::Client;
use crate::cli::process::Process;
use crate::cli::spawn;
use crate::cli::{Context, Ending};
use crate::driver::request::NodeView;
use crate::http::body::{InviteBody, SummaryView, TextView};
use crate::state::{Layout, io};
use fleet_config::refusal::Refusal;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a coordinator may take to answer, and a node to join: both include a cold disk.
const START: Duration = Duration::from_secs(30);

/// How long a stopped process may take to leave.
const LEAVE: Duration = Duration::from_secs(20);

const PAUSE: Duration = Duration::from_millis(50);

/// Ending of the file beside a node's folder (which is the node's alone) that says with which level it was started.
const LEVEL: &str = "level";

#[derive(Debug, Serialize)]
struct Up {
    summary: SummaryView,
    nodes: Vec<NodeView>,
}

/// Starts what is not running yet and waits until it is ready.
pub(crate) async fn up(context: &Context, args: &UpArgs) -> Result<Ending, Refusal> {
    crate::state::prepare(&context.state)?;
    let state = std::path::absolute(&context.state).map_err(|error| io("state", &error))?;
    match Client::connect(&state).await {
        Ok(mut client) => check_address(&client.get("/v1/summary").await?, args)?,
        Err(_) => start_coordinator(&state, args).await?,
    }
    let mut client = Client::connect(&state).await?;
    if !args.no_node {
        let mut wanted = Vec::new();
        for level in levels(&state, args) {
            wanted.push(start_node(&state, &mut client, &level, args).await?);
        }
        wait_for_nodes(&state, &mut client, &wanted).await?;
    }
    let summary: SummaryView = client.get("/v1/summary").await?;
    let nodes: Vec<NodeView> = client.get("/v1/nodes").await?;
    context.output.print(&Up { summary, nodes }, |up| {
        let devices: Vec<_> = up.nodes.iter().flat_map(|node| node.devices.iter()).collect();
        let there = devices.iter().filter(|device| !device.architecture.is_empty());
        let names: Vec<_> = there.map(|d| format!("{} ({})", d.architecture, d.kind)).collect();
        format!(
            "coordinator runs as process {}, nodes connect to {}\ndevices: {}\nverifier key of the ledger: {}",
            up.summary.process,
            up.summary.listening,
            if names.is_empty() { "none yet".to_owned() } else { names.join(", ") },
            up.summary.vkey
        )
    });
    Ok(Ending::Done)
}

/// A running coordinator keeps its address; asking for another one is not obeyed silently.
fn check_address(summary: &SummaryView, args: &UpArgs) -> Result<(), Refusal> {
    if args.listen.port() == 0 || summary.listening.contains(&args.listen.to_string()) {
        return Ok(());
    }
    Err(Refusal::new(
        "up/listens-elsewhere",
        args.listen.to_string(),
        format!("the coordinator of this folder runs already and listens on {}", summary.listening),
        "run `muster down` first, or leave --listen out",
    ))
}

/// The levels asked for; else those of the nodes that were started here before; else the machine's best one, which
/// is written as the empty text.
fn levels(state: &Path, args: &UpArgs) -> Vec<String> {
    if !args.level.is_empty() {
        return args.level.clone();
    }
    let beside =
        std::fs::read_dir(state.join("nodes")).into_iter().flatten().flatten().map(|entry| entry.path());
    let noted = beside.filter(|path| path.extension().is_some_and(|ending| ending == LEVEL));
    let mut levels: Vec<String> = noted.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    levels.sort();
    if levels.is_empty() { vec![String::new()] } else { levels }
}

/// Stops the nodes and the coordinator of this folder.
pub(crate) async fn down(context: &Context) -> Result<Ending, Refusal> {
    let mut stopped = 0;
    for folder in node_folders(&context.state) {
        if let Some(process) = Process::read(&folder.join("pid"))
            && process.is_alive()
            && process.terminate()
        {
            wait_until_gone(process).await;
            stopped += 1;
        }
        // A file that is gone already is what we want.
        let _gone = std::fs::remove_file(folder.join("pid"));
    }
    let mut client = match Client::connect(&context.state).await {
        Ok(client) => client,
        Err(_) if stopped > 0 => {
            let answer = serde_json::json!({"coordinator": false, "nodes": stopped});
            context.output.print(&answer, |_| format!("stopped {stopped} nodes; no coordinator was running"));
            return Ok(Ending::Done);
        }
        Err(refusal) => return Err(refusal),
    };
    let summary: SummaryView = client.get("/v1/summary").await?;
    let process = Process::of(summary.process);
    let _stopping: TextView = client.post("/v1/stop", &serde_json::json!({})).await?;
    if let Some(process) = process {
        wait_until_gone(process).await;
    }
    context.output.print(&serde_json::json!({"coordinator": true, "nodes": stopped}), |_| {
        format!("stopped the coordinator and {stopped} nodes; the state folder keeps everything")
    });
    Ok(Ending::Done)
}

async fn start_coordinator(state: &Path, args: &UpArgs) -> Result<(), Refusal> {
    let log = Layout::of(state).log();
    let mut arguments = vec![
        "--state".to_owned(),
        state.display().to_string(),
        "--listen".to_owned(),
        args.listen.to_string(),
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

/// Starts the node of `level` unless it runs; answers with its name.
async fn start_node(
    state: &Path,
    client: &mut Client,
    level: &str,
    args: &UpArgs,
) -> Result<String, Refusal> {
    let name = if level.is_empty() { "local".to_owned() } else { level.replace(':', "-") };
    let folder = state.join("nodes").join(&name);
    std::fs::create_dir_all(&folder).map_err(|error| io(&folder.display().to_string(), &error))?;
    let pid = folder.join("pid");
    if Process::read(&pid).is_some_and(|process| process.is_alive()) {
        return Ok(name);
    }
    let body = InviteBody { valid_seconds: 600, uses: 1, class: None };
    let invite: TextView = client.post("/v1/invites", &body).await?;
    let mut arguments: Vec<String> =
        ["run", "--state", &folder.display().to_string(), "--name", &name, "--invite-file", "-"]
            .map(str::to_owned)
            .into();
    if !level.is_empty() {
        arguments.extend(["--level".to_owned(), level.to_owned()]);
    }
    if args.unsafe_no_sandbox {
        arguments.push("--unsafe-no-sandbox".to_owned());
    }
    let log = folder.join("node.log");
    let child = spawn::start("muster-node", &arguments, &log, Some(&invite.text))?;
    // One that has ended already is found by its log, not by its id.
    Process::of(child.id())
        .map_or(Ok(()), |process| process.write(&pid))
        .map_err(|error| io("pid", &error))?;
    let note = state.join("nodes").join(format!("{name}.{LEVEL}"));
    std::fs::write(note, level).map_err(|error| io(LEVEL, &error))?;
    Ok(name)
}

/// Waits until every node named in `wanted` is ready, or one of them has ended.
async fn wait_for_nodes(state: &Path, client: &mut Client, wanted: &[String]) -> Result<(), Refusal> {
    let mut waited = Duration::ZERO;
    loop {
        let nodes: Vec<NodeView> = client.get("/v1/nodes").await?;
        let takes_part = |state: &str| state == "ready" || state == "draining";
        let is_there = |name: &String| nodes.iter().any(|node| node.name == *name && takes_part(&node.state));
        if wanted.iter().all(is_there) {
            return Ok(());
        }
        let folders: Vec<PathBuf> = wanted.iter().map(|name| state.join("nodes").join(name)).collect();
        let ended = folders.iter().find(|f| Process::read(&f.join("pid")).is_some_and(|p| !p.is_alive()));
        if let Some(folder) = ended {
            let log = folder.join("node.log");
            return Err(Refusal::new(
                "up/node",
                log.display().to_string(),
                format!("the node ended: {}", last_line(&log)),
                "correct what its log names; `muster doctor` shows what this machine lacks",
            ));
        }
        if waited > START {
            return Err(Refusal::new(
                "up/node",
                state.display().to_string(),
                "the node does not join",
                "read nodes/*/node.log in the state folder",
            ));
        }
        tokio::time::sleep(PAUSE).await;
        waited += PAUSE;
    }
}

fn node_folders(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state.join("nodes")).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(|path| path.is_dir()).collect()
}

async fn wait_until_gone(process: Process) {
    let mut waited = Duration::ZERO;
    while process.is_alive() && waited < LEAVE {
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
