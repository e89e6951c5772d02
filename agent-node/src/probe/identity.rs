//! What the machine's CPU is.

use super::host::{Host, count, text};
use fleet_config::domain::{Facts, field};
use std::collections::BTreeSet;

/// Prefixes of x86 flags that decide which code can run or how fast; the other hundred (power management, mitigations)
/// would fill half of a record.
const X86_FEATURES: [&str; 20] = [
    "sse", "ssse3", "pni", "avx", "fma", "f16c", "bmi", "abm", "amx", "sha_ni", "aes", "vaes", "vpclmul",
    "pclmul", "popcnt", "movbe", "gfni", "cx16", "lahf_lm", "xsave",
];

pub(super) fn read(host: &Host) -> Facts {
    let mut facts = Facts::new();
    let mut put = |name: &str, fact| facts.insert(name.to_owned(), fact);
    put(field::DEVICE_MODEL, text(model(host)));
    put(field::DEVICE_MEMORY, count(memory(host)));
    put(field::MULTIPROCESSORS, count(usable_cpus()));
    put(field::CORES_PHYSICAL, count(physical_cores(host)));
    put(field::CORES_LOGICAL, count(logical_cores(host)));
    put(field::CPU_FEATURES, text(features(host)));
    put(field::CACHE_L2, count(cache(host, 2)));
    put(field::CACHE_L3, count(cache(host, 3)));
    facts
}

/// The marketing name; Arm kernels tell the designer's and the part's number instead.
fn model(host: &Host) -> Result<String, String> {
    let named = host.line("/proc/cpuinfo", "model name");
    if named.is_ok() {
        return named;
    }
    let implementer = host.line("/proc/cpuinfo", "CPU implementer")?;
    let part = host.line("/proc/cpuinfo", "CPU part")?;
    Ok(format!("implementer {implementer} part {part}"))
}

fn memory(host: &Host) -> Result<u64, String> {
    let line = host.line("/proc/meminfo", "MemTotal")?;
    let kibibytes = line.strip_suffix("kB").and_then(|number| number.trim().parse::<u64>().ok());
    Ok(kibibytes.ok_or_else(|| format!("MemTotal is `{line}`"))?.saturating_mul(1024))
}

/// CPUs that this process may run on: what plays the part of multiprocessors for launch expressions.
fn usable_cpus() -> Result<u64, String> {
    let cpus = std::thread::available_parallelism().map_err(|error| error.to_string())?;
    Ok(cpus.get() as u64)
}

fn physical_cores(host: &Host) -> Result<u64, String> {
    let mut cores = BTreeSet::new();
    for cpu in host.cpus() {
        // A CPU that is switched off has no topology.
        let Ok(core) = host.number(&format!("{cpu}/topology/core_id")) else { continue };
        let package = host.text(&format!("{cpu}/topology/physical_package_id")).unwrap_or_default();
        cores.insert((package, core));
    }
    if cores.is_empty() { Err("no CPU topology in /sys".to_owned()) } else { Ok(cores.len() as u64) }
}

/// CPUs that are switched on, from a list such as `0-3,8`.
fn logical_cores(host: &Host) -> Result<u64, String> {
    let list = host.text("/sys/devices/system/cpu/online")?;
    let bad = || format!("/sys/devices/system/cpu/online is `{list}`");
    let mut cores = 0u64;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.parse().map_err(|_| bad())?, last.parse().map_err(|_| bad())?);
        cores = cores.saturating_add(last.checked_sub(first).ok_or_else(bad)?.saturating_add(1));
    }
    Ok(cores)
}

fn features(host: &Host) -> Result<String, String> {
    let x86 = host.line("/proc/cpuinfo", "flags").map(|flags| {
        let wanted = |flag: &&str| X86_FEATURES.iter().any(|prefix| flag.starts_with(prefix));
        flags.split_whitespace().filter(wanted).map(str::to_owned).collect::<BTreeSet<_>>()
    });
    let arm = || -> Result<BTreeSet<String>, String> {
        let flags = host.line("/proc/cpuinfo", "Features")?;
        Ok(flags.split_whitespace().map(str::to_owned).collect())
    };
    let features: BTreeSet<String> = x86.or_else(|_: String| arm())?;
    Ok(features.into_iter().collect::<Vec<_>>().join(" "))
}

/// Size of the first CPU's cache of one level.
fn cache(host: &Host, level: u64) -> Result<u64, String> {
    let folder = "/sys/devices/system/cpu/cpu0/cache";
    for name in host.names(folder) {
        let cache = format!("{folder}/{name}");
        if host.number(&format!("{cache}/level")) == Ok(level) {
            return size(&host.text(&format!("{cache}/size"))?);
        }
    }
    Err(format!("{folder} names no cache of level {level}"))
}

/// Bytes of a size such as `512K`.
fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes() {
        [.., b'K'] => (text.trim_end_matches('K'), 1 << 10),
        [.., b'M'] => (text.trim_end_matches('M'), 1 << 20),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| format!("cache size is `{text}`"))?;
    Ok(number.saturating_mul(unit))
}
