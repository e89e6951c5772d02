//! Which architectures the CPU runs, and how the CPU device is named.

use super::host::Host;
use fleet_config::domain::{Architecture, DeviceId};

/// Levels that this CPU and system can run, the best last; plain `cpu:x86-64` only where it runs nothing better. Levels as in the x86-64 psABI, section
/// "micro-architecture levels"; detection includes what the system must save on a task switch.
pub fn cpu_levels() -> Vec<Architecture> {
    let names = level_names();
    names.iter().map(|name| name.parse().expect("invariant: the names below are architectures")).collect()
}

#[cfg(target_arch = "x86_64")]
fn level_names() -> Vec<&'static str> {
    use std::arch::is_x86_feature_detected as has;
    let mut names = Vec::new();
    let v2 = has!("cmpxchg16b")
        && has!("popcnt")
        && has!("sse3")
        && has!("sse4.1")
        && has!("sse4.2")
        && has!("ssse3");
    let v3 = has!("avx")
        && has!("avx2")
        && has!("bmi1")
        && has!("bmi2")
        && has!("f16c")
        && has!("fma")
        && has!("lzcnt")
        && has!("movbe")
        && has!("xsave");
    let v4 = has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq") && has!("avx512vl");
    for (name, present) in
        [("cpu:x86-64-v2", v2), ("cpu:x86-64-v3", v2 && v3), ("cpu:x86-64-v4", v2 && v3 && v4)]
    {
        if present {
            names.push(name);
        }
    }
    if names.is_empty() { vec!["cpu:x86-64"] } else { names }
}

#[cfg(target_arch = "aarch64")]
fn level_names() -> Vec<&'static str> {
    vec!["cpu:aarch64"]
}

/// The name of the CPU device that a node offers at one level: the same after a restart, and another for each node,
/// level and machine. `node_key` is the node's public signing key.
pub fn cpu_device_id(host: &Host, node_key: &[u8; 32], level: &Architecture) -> DeviceId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"muster.cpu-device/1\0");
    let machine = machine(host);
    hasher.update(&(machine.len() as u64).to_le_bytes());
    hasher.update(machine.as_bytes());
    hasher.update(node_key);
    hasher.update(level.as_str().as_bytes());
    let hex = hasher.finalize().to_hex();
    DeviceId(format!("CPU-{}", hex.get(..32).expect("invariant: a blake3 hash has 64 digits")))
}

/// What tells machines apart. A container may have none of it; the node's key then tells devices apart alone.
fn machine(host: &Host) -> String {
    let files = ["/etc/machine-id", "/var/lib/dbus/machine-id", "/sys/class/dmi/id/product_uuid"];
    let found = files.iter().find_map(|file| host.text(file).ok().filter(|text| !text.is_empty()));
    found.unwrap_or_else(|| "no machine id".to_owned())
}
