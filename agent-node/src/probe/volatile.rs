//! What the machine is doing.

use super::host::{Host, count};
use fleet_config::domain::{Fact, Facts, field};

pub(super) fn read(host: &Host) -> Facts {
    let mut facts = Facts::new();
    let mut put = |name: &str, fact| facts.insert(name.to_owned(), fact);
    put(field::LOAD_1M, count(load(host)));
    put(field::CLOCK_MHZ, count(clock(host)));
    put(field::TEMPERATURE, count(temperature(host)));
    put(field::THROTTLE, throttle(host));
    put(field::CO_TENANTS, count(co_tenants(host)));
    put(field::POWER, Fact::Unknown("a CPU's power is not read".to_owned()));
    facts
}

/// Load average of the last minute in thousandths.
fn load(host: &Host) -> Result<u64, String> {
    let text = host.text("/proc/loadavg")?;
    let bad = || format!("/proc/loadavg is `{text}`");
    let (whole, part) =
        text.split_whitespace().next().and_then(|first| first.split_once('.')).ok_or_else(bad)?;
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let hundredths: u64 = part.parse().map_err(|_| bad())?;
    Ok(whole.saturating_mul(1000).saturating_add(hundredths.saturating_mul(10)))
}

/// Mean clock of all CPUs in MHz: from cpufreq, else from `/proc/cpuinfo`.
fn clock(host: &Host) -> Result<u64, String> {
    let current = |cpu: &String| host.number(&format!("{cpu}/cpufreq/scaling_cur_freq")).ok();
    let mut clocks: Vec<u64> =
        host.cpus().iter().filter_map(current).map(|kilohertz| kilohertz / 1000).collect();
    if clocks.is_empty() {
        let text = host.text("/proc/cpuinfo")?;
        let line = |line: &str| -> Option<u64> {
            let value = line.strip_prefix("cpu MHz")?.trim_start().strip_prefix(':')?.trim();
            value.split('.').next()?.parse().ok()
        };
        clocks = text.lines().filter_map(line).collect();
    }
    let sum: u64 = clocks.iter().sum();
    sum.checked_div(clocks.len() as u64)
        .ok_or_else(|| "neither cpufreq nor /proc/cpuinfo tells the clock".to_owned())
}

/// The CPU's own sensor in thousandths of a degree.
fn temperature(host: &Host) -> Result<u64, String> {
    let sensors = ["coretemp", "k10temp", "zenpower", "cpu_thermal"];
    for monitor in host.names("/sys/class/hwmon") {
        let folder = format!("/sys/class/hwmon/{monitor}");
        if host.text(&format!("{folder}/name")).is_ok_and(|name| sensors.contains(&name.as_str())) {
            return host.number(&format!("{folder}/temp1_input"));
        }
    }
    for zone in host.names("/sys/class/thermal") {
        let folder = format!("/sys/class/thermal/{zone}");
        let kind = host.text(&format!("{folder}/type"));
        if kind.is_ok_and(|kind| kind == "x86_pkg_temp" || kind.starts_with("cpu")) {
            return host.number(&format!("{folder}/temp"));
        }
    }
    Err("no sensor of the CPU in /sys".to_owned())
}

/// How often the cores were slowed for heat since the machine started: two readings that differ mean that they were.
fn throttle(host: &Host) -> Fact {
    let events = |cpu: &String| host.number(&format!("{cpu}/thermal_throttle/core_throttle_count")).ok();
    let counts: Vec<u64> = host.cpus().iter().filter_map(events).collect();
    if counts.is_empty() {
        return Fact::Unknown("the kernel counts no throttling here".to_owned());
    }
    Fact::Text(format!("throttled {} times since start", counts.iter().sum::<u64>()))
}

/// Threads of other processes that run or want to run at this moment.
fn co_tenants(host: &Host) -> Result<u64, String> {
    let text = host.text("/proc/stat")?;
    let running =
        text.lines().find_map(|line| line.strip_prefix("procs_running")?.trim().parse::<u64>().ok());
    let running = running.ok_or_else(|| "/proc/stat has no procs_running".to_owned())?;
    let own = host.names("/proc/self/task").into_iter().filter(|thread| {
        let status = host.text(&format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
        status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('R'))
    });
    Ok(running.saturating_sub(own.count() as u64))
}
