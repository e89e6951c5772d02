//! How the machine is set up.

use super::host::{Host, not_on_cpu, text};
use fleet_config::domain::{Fact, Facts, field};
use std::collections::BTreeSet;

pub(super) fn read(host: &Host) -> Facts {
    let mut facts = Facts::new();
    let mut put = |name: &str, fact| facts.insert(name.to_owned(), fact);
    put(field::CLOCK_POLICY, text(clock_policy(host)));
    put(field::SMT, smt(host));
    put(field::OS, text(system(host)));
    put(field::KERNEL_RELEASE, text(host.text("/proc/sys/kernel/osrelease")));
    put(field::LIBC, libc());
    put(field::HYPERVISOR, text(hypervisor(host)));
    put(field::DRIVER, not_on_cpu("driver"));
    put(field::MIG, not_on_cpu("MIG"));
    put(field::POWER_LIMIT, Fact::Unknown("a CPU's power limit is not read".to_owned()));
    put(field::ECC, Fact::Unknown("ECC of host memory is not read".to_owned()));
    facts
}

/// Governors of all CPUs and whether they may exceed their base clock.
fn clock_policy(host: &Host) -> Result<String, String> {
    let cpus = host.cpus();
    let governor = |cpu: &String| host.text(&format!("{cpu}/cpufreq/scaling_governor")).ok();
    let governors: BTreeSet<String> = cpus.iter().filter_map(governor).collect();
    if governors.is_empty() {
        return Err("the kernel offers no clock control (no cpufreq, as in most virtual machines)".to_owned());
    }
    let driver = host.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver").unwrap_or_default();
    let intel = host.text("/sys/devices/system/cpu/intel_pstate/no_turbo").ok();
    let others = host.text("/sys/devices/system/cpu/cpufreq/boost").ok();
    let boost = match (intel.as_deref(), others.as_deref()) {
        (Some("0"), _) | (None, Some("1")) => "boost on",
        (Some("1"), _) | (None, Some("0")) => "boost off",
        (Some(_) | None, _) => "boost unknown",
    };
    let governors: Vec<String> = governors.into_iter().collect();
    Ok(format!("{driver} {} {boost}", governors.join("+")).trim().to_owned())
}

fn smt(host: &Host) -> Fact {
    match host.text("/sys/devices/system/cpu/smt/active").as_deref() {
        Ok("1") => Fact::Flag(true),
        Ok("0") => Fact::Flag(false),
        Ok(other) => Fact::Unknown(format!("smt/active is `{other}`")),
        Err(reason) => Fact::Unknown(reason.clone()),
    }
}

fn system(host: &Host) -> Result<String, String> {
    let release = host.text("/etc/os-release").or_else(|_| host.text("/usr/lib/os-release"))?;
    let value = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(line.trim_matches(['"', '\'']).to_owned())
    };
    value("PRETTY_NAME").or_else(|| value("NAME")).ok_or_else(|| "os-release has no name".to_owned())
}

#[cfg(target_env = "gnu")]
fn libc() -> Fact {
    // SAFETY: the C library returns a pointer to a constant string of its own.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    Fact::Text(format!("glibc {}", version.to_string_lossy()))
}

#[cfg(not(target_env = "gnu"))]
fn libc() -> Fact {
    Fact::Unknown("only glibc tells its version".to_owned())
}

/// The hypervisor's own name, or `none`.
fn hypervisor(host: &Host) -> Result<String, String> {
    let xen = host.text("/sys/hypervisor/type");
    if xen.is_ok() {
        return xen;
    }
    let flags = host.line("/proc/cpuinfo", "flags");
    match flags {
        Ok(flags) if !flags.split_whitespace().any(|flag| flag == "hypervisor") => Ok("none".to_owned()),
        Ok(_) => vendor().ok_or_else(|| "a hypervisor that does not tell its name".to_owned()),
        Err(_) => host
            .text("/sys/firmware/devicetree/base/hypervisor/compatible")
            .map(|name| name.trim_end_matches('\0').to_owned())
            .map_err(|_| "this architecture does not tell whether it runs on a hypervisor".to_owned()),
    }
}

/// The name that a hypervisor leaves in CPUID leaf 0x4000_0000, twelve bytes in EBX, ECX and EDX.
#[cfg(target_arch = "x86_64")]
fn vendor() -> Option<String> {
    let leaf = std::arch::x86_64::__cpuid(0x4000_0000);
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
    let name: String = String::from_utf8_lossy(&bytes).chars().filter(char::is_ascii_graphic).collect();
    if name.is_empty() { None } else { Some(name) }
}

#[cfg(not(target_arch = "x86_64"))]
fn vendor() -> Option<String> {
    None
}
