//! Probing: the environment fingerprint of this machine and its devices.
//!
//! What cannot be read is a fact of its own, with the reason; nothing is guessed. Read in this order: [`Host`] (where the
//! kernel tells it), `identity` (what the machine is), `configuration` (what somebody set), `volatile` (what it is doing),
//! `level` (which architectures its CPU runs, and the name of the CPU device).

mod configuration;
mod host;
mod identity;
mod level;
pub mod nvidia;
mod volatile;

#[cfg(test)]
mod tests;

pub use host::Host;
pub use level::{cpu_device_id, cpu_levels};

use fleet_config::domain::Facts;

/// What this machine's CPU is. The caller adds architecture and UUID of the device that it offers.
pub fn host_identity() -> Facts {
    identity::read(&Host::this())
}

/// How this machine is set up. The caller adds compiler, flags, sandbox level and harness.
pub fn host_configuration() -> Facts {
    configuration::read(&Host::this())
}

/// What this machine is doing now.
pub fn host_volatile() -> Facts {
    volatile::read(&Host::this())
}
