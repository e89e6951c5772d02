//! Command line over settings file over defaults.

use super::DeviceArguments;
use agent_node::harness::harness;
use agent_node::inventory::{self, Wish};
use agent_node::sandbox::Confinement;
use anyhow::Context as _;
use std::path::Path;

/// The confinement that the flag asks for.
pub(super) fn confinement(unsafe_no_sandbox: bool) -> Confinement {
    if unsafe_no_sandbox { Confinement::UnsafeNone } else { Confinement::Required }
}

/// What a command without a state folder wishes for; the key that names its devices is nobody's.
pub(super) fn passing_wish(arguments: &DeviceArguments, folder: &Path) -> anyhow::Result<Wish> {
    let confinement = confinement(arguments.unsafe_no_sandbox);
    inventory::check_sandbox(confinement)?;
    Ok(Wish {
        levels: arguments.levels.clone(),
        compiler: arguments.compiler.clone(),
        confinement,
        node_key: [0; 32],
        harness: harness().context("cannot read this executable")?,
        cache: folder.join("cache"),
        folder: folder.join("ask"),
    })
}
