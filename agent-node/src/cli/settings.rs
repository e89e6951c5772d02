//! Command line over settings file over defaults.

use super::{DeviceArguments, RunArguments};
use agent_node::harness::harness;
use agent_node::inventory::{self, Wish};
use agent_node::sandbox::Confinement;
use agent_node::session::HELD_MAX;
use anyhow::Context as _;
use fleet_config::config::{NodeSettings, SandboxWish, load};
use fleet_config::domain::Architecture;
use fleet_config::refusal::Refusal;
use std::path::{Path, PathBuf};

/// The settings of a run, with the command line's words put over those of the file.
pub(super) fn settings(arguments: &RunArguments) -> Result<NodeSettings, Refusal> {
    let mut settings = match &arguments.config {
        Some(path) => load::node_settings(path)?,
        None => NodeSettings::default(),
    };
    let text = |path: &Path| path.display().to_string();
    if let Some(state) = &arguments.state {
        settings.state = text(state);
    }
    if !arguments.coordinators.is_empty() {
        settings.coordinators.clone_from(&arguments.coordinators);
    }
    if let Some(file) = &arguments.invite_file {
        settings.invite_file = text(file);
    }
    if let Some(name) = &arguments.name {
        settings.name.clone_from(name);
    }
    if let Some(log) = &arguments.log {
        settings.log.clone_from(log);
    }
    if let Some(compiler) = &arguments.devices.compiler {
        settings.compiler = text(compiler);
    }
    if let Some(nvrtc) = &arguments.devices.nvrtc {
        settings.nvrtc = text(nvrtc);
    }
    if !arguments.devices.compile_only.is_empty() {
        settings.devices.compile.clone_from(&arguments.devices.compile_only);
    }
    if !arguments.devices.levels.is_empty() {
        settings.devices.levels = arguments.devices.levels.iter().map(ToString::to_string).collect();
    }
    if let Some(standby) = arguments.standby {
        settings.limits.standby_workers = standby;
    }
    settings.unsafe_no_sandbox |= arguments.devices.unsafe_no_sandbox;
    if let Some(wish) = arguments.devices.sandbox {
        settings.sandbox = wish;
    }
    check_obeyed(&settings)?;
    if settings.name.is_empty() {
        settings.name = host_name();
    }
    Ok(settings)
}

/// Refuses settings that this version reads and could not keep to.
fn check_obeyed(settings: &NodeSettings) -> Result<(), Refusal> {
    let (asked, known) = (&settings.limits, NodeSettings::default().limits);
    let refuse = |key: &str, what: String| {
        let next = "leave this key out of the file";
        Err(Refusal::new("node/setting-not-obeyed", key, what, next))
    };
    if asked.outbox_entries != known.outbox_entries {
        return refuse(
            "limits.outbox_entries",
            format!("this version always holds {HELD_MAX} attempts at most"),
        );
    }
    if asked.compilers != known.compilers {
        let what = "this version runs one compiler for each device at work, and no other number";
        return refuse("limits.compilers", what.to_owned());
    }
    Ok(())
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Where the node keeps its state when nobody says.
pub(super) fn state_folder(settings: &NodeSettings) -> Result<PathBuf, Refusal> {
    if !settings.state.is_empty() {
        return Ok(PathBuf::from(&settings.state));
    }
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")));
    data.map(|data| data.join("muster-node")).ok_or_else(|| {
        let cause = "neither --state nor MUSTER_NODE_STATE, XDG_DATA_HOME or HOME is set";
        Refusal::new("state/no-folder", "", cause, "name a folder with --state")
    })
}

/// Levels as the settings file writes them: with or without the vendor.
pub(super) fn levels(settings: &NodeSettings) -> Result<Vec<Architecture>, Refusal> {
    let parse = |text: &String| {
        let full = if text.contains(':') { text.clone() } else { format!("cpu:{text}") };
        full.parse().map_err(|error| {
            let next = "write a level such as cpu:x86-64-v2";
            Refusal::new("node/level", text.as_str(), format!("{error}"), next)
        })
    };
    settings.devices.levels.iter().map(parse).collect()
}

/// The architectures to compile for without running anything: none, `all`, or names such as `sm_90a`.
pub(super) fn compile_wish(names: &[String]) -> Result<Option<Vec<Architecture>>, Refusal> {
    let parse = |text: &String| {
        let full = if text.contains(':') { text.clone() } else { format!("nvidia:{text}") };
        full.parse().map_err(|error| {
            let next = "write an architecture such as sm_90a, or `all`";
            Refusal::new("node/compile-only", text.as_str(), format!("{error}"), next)
        })
    };
    match names {
        [] => Ok(None),
        [all] if all == "all" => Ok(Some(Vec::new())),
        names => names.iter().map(parse).collect::<Result<_, _>>().map(Some),
    }
}

/// The confinement that the settings ask for.
pub(super) fn confinement(settings: &NodeSettings) -> Result<Confinement, Refusal> {
    let (wish, is_unsafe) = (settings.sandbox, settings.unsafe_no_sandbox);
    confinement_of(wish, is_unsafe).ok_or_else(|| {
        let cause = "level `full` and no sandbox are both asked for";
        Refusal::new("node/sandbox-wish", "unsafe_no_sandbox", cause, "ask for one of them")
    })
}

/// The confinement that a command without settings is asked for.
pub(super) fn device_confinement(arguments: &DeviceArguments) -> Result<Confinement, Refusal> {
    let settings = NodeSettings {
        sandbox: arguments.sandbox.unwrap_or_default(),
        unsafe_no_sandbox: arguments.unsafe_no_sandbox,
        ..NodeSettings::default()
    };
    confinement(&settings)
}

fn confinement_of(wish: SandboxWish, is_unsafe: bool) -> Option<Confinement> {
    match (wish, is_unsafe) {
        (SandboxWish::Full, true) => None,
        (SandboxWish::Best | SandboxWish::Kernel, true) => Some(Confinement::UnsafeNone),
        (SandboxWish::Best, false) => Some(Confinement::Required),
        (SandboxWish::Full, false) => Some(Confinement::Full),
        (SandboxWish::Kernel, false) => Some(Confinement::Kernel),
    }
}

/// What a command without a state folder wishes for; the key that names its devices is nobody's.
pub(super) fn passing_wish(arguments: &DeviceArguments, folder: &Path) -> anyhow::Result<Wish> {
    let confinement = device_confinement(arguments)?;
    inventory::check_sandbox(confinement)?;
    Ok(Wish {
        levels: arguments.levels.clone(),
        compiler: arguments.compiler.clone(),
        nvrtc: arguments.nvrtc.clone(),
        compile: compile_wish(&arguments.compile_only)?,
        confinement,
        node_key: [0; 32],
        harness: harness().context("cannot read this executable")?,
        cache: folder.join("cache"),
        cache_bytes: NodeSettings::default().limits.artefact_cache_bytes,
        // A command that is over soon needs none.
        standby: 0,
        folder: folder.join("ask"),
    })
}
