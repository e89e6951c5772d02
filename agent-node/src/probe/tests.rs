//! Probing on fixed files and on the machine that runs the tests.

use super::{
    Host, configuration, cpu_device_id, cpu_levels, host_configuration, host_identity, host_volatile,
    identity, volatile,
};
use fleet_config::domain::{Fact, Facts, field};
use std::fs;
use tempfile::TempDir;

/// A machine made of files.
fn machine(files: &[(&str, &str)]) -> (TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let host = Host::at(root.path());
    (root, host)
}

const CPU: &str = "/sys/devices/system/cpu";

fn full_machine() -> (TempDir, Host) {
    let cpu = |rest: &str| format!("{CPU}/{rest}");
    let names = [
        (cpu("cpu0/topology/core_id"), "0"),
        (cpu("cpu0/topology/physical_package_id"), "0"),
        (cpu("cpu1/topology/core_id"), "0"),
        (cpu("cpu1/topology/physical_package_id"), "0"),
        (cpu("cpu10/topology/core_id"), "0"),
        (cpu("cpu10/topology/physical_package_id"), "1"),
        (cpu("online"), "0-1,10\n"),
        (cpu("smt/active"), "1\n"),
        (cpu("cpu0/cache/index0/level"), "1"),
        (cpu("cpu0/cache/index2/level"), "2"),
        (cpu("cpu0/cache/index2/size"), "512K\n"),
        (cpu("cpu0/cache/index3/level"), "3"),
        (cpu("cpu0/cache/index3/size"), "32M\n"),
        (cpu("cpu0/cpufreq/scaling_governor"), "performance\n"),
        (cpu("cpu1/cpufreq/scaling_governor"), "powersave\n"),
        (cpu("cpu0/cpufreq/scaling_driver"), "acpi-cpufreq\n"),
        (cpu("cpu0/cpufreq/scaling_cur_freq"), "2000000\n"),
        (cpu("cpu1/cpufreq/scaling_cur_freq"), "3000000\n"),
        (cpu("cpufreq/boost"), "1\n"),
        (cpu("cpu0/thermal_throttle/core_throttle_count"), "4\n"),
        (
            "/proc/cpuinfo".to_owned(),
            "processor\t: 0\nmodel name\t: Test CPU 9\nflags\t\t: fpu avx2 sse4_2 nx avx\n",
        ),
        ("/proc/meminfo".to_owned(), "MemTotal:       1024 kB\nMemFree: 1 kB\n"),
        ("/proc/loadavg".to_owned(), "1.25 0.50 0.25 1/100 1234\n"),
        ("/proc/stat".to_owned(), "cpu 1 2 3\nprocs_running 3\n"),
        ("/proc/self/task/7/stat".to_owned(), "7 (a) b) R 1 2 3\n"),
        ("/proc/self/task/8/stat".to_owned(), "8 (a) S 1 2 3\n"),
        ("/proc/sys/kernel/osrelease".to_owned(), "6.1.0-test\n"),
        ("/etc/os-release".to_owned(), "ID=test\nPRETTY_NAME=\"Test Linux 1\"\n"),
        ("/etc/machine-id".to_owned(), "0123456789abcdef0123456789abcdef\n"),
        ("/sys/class/hwmon/hwmon0/name".to_owned(), "nvme\n"),
        ("/sys/class/hwmon/hwmon1/name".to_owned(), "k10temp\n"),
        ("/sys/class/hwmon/hwmon1/temp1_input".to_owned(), "51250\n"),
    ];
    let files: Vec<(&str, &str)> = names.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    machine(&files)
}

fn text(value: &str) -> Fact {
    Fact::Text(value.to_owned())
}

fn count(value: u64) -> Fact {
    Fact::Count(value)
}

#[test]
fn everything_that_the_files_tell_is_read() {
    let (_root, host) = full_machine();
    let identity = identity::read(&host);
    let expected = [
        (field::DEVICE_MODEL, text("Test CPU 9")),
        (field::DEVICE_MEMORY, count(1 << 20)),
        (field::CORES_PHYSICAL, count(2)),
        (field::CORES_LOGICAL, count(3)),
        (field::CPU_FEATURES, text("avx avx2 sse4_2")),
        (field::CACHE_L2, count(512 << 10)),
        (field::CACHE_L3, count(32 << 20)),
    ];
    for (name, fact) in expected {
        assert_eq!(identity.get(name), Some(&fact), "{name}");
    }
    let configuration = configuration::read(&host);
    let expected = [
        (field::CLOCK_POLICY, text("acpi-cpufreq performance+powersave boost on")),
        (field::SMT, Fact::Flag(true)),
        (field::OS, text("Test Linux 1")),
        (field::KERNEL_RELEASE, text("6.1.0-test")),
        (field::HYPERVISOR, text("none")),
    ];
    for (name, fact) in expected {
        assert_eq!(configuration.get(name), Some(&fact), "{name}");
    }
    let volatile = volatile::read(&host);
    let expected = [
        (field::LOAD_1M, count(1250)),
        (field::CLOCK_MHZ, count(2500)),
        (field::TEMPERATURE, count(51250)),
        (field::THROTTLE, text("throttled 4 times since start")),
        (field::CO_TENANTS, count(2)),
    ];
    for (name, fact) in expected {
        assert_eq!(volatile.get(name), Some(&fact), "{name}");
    }
}

#[test]
fn what_cannot_be_read_says_why() {
    let (_root, host) = machine(&[]);
    let of_this_process = [field::MULTIPROCESSORS, field::LIBC];
    for facts in [identity::read(&host), configuration::read(&host), volatile::read(&host)] {
        for (name, fact) in facts {
            let explained = matches!(&fact, Fact::Unknown(reason) if !reason.is_empty());
            assert!(explained || of_this_process.contains(&name.as_str()), "{name}: {fact:?}");
        }
    }
}

#[test]
fn nonsense_in_the_files_is_unknown_and_never_a_number() {
    let online = format!("{CPU}/online");
    let (level, size) = (format!("{CPU}/cpu0/cache/index2/level"), format!("{CPU}/cpu0/cache/index2/size"));
    let files = [
        ("/proc/meminfo", "MemTotal: many kB\n"),
        (online.as_str(), "3-1\n"),
        (level.as_str(), "2\n"),
        (size.as_str(), "-5K\n"),
        ("/proc/loadavg", "high\n"),
        ("/proc/stat", "procs_running x\n"),
        ("/proc/cpuinfo", "cpu MHz : fast\n"),
    ];
    let (_root, host) = machine(&files);
    let mut facts: Facts = identity::read(&host);
    facts.extend(volatile::read(&host));
    for name in [
        field::DEVICE_MEMORY,
        field::CORES_LOGICAL,
        field::CACHE_L2,
        field::LOAD_1M,
        field::CO_TENANTS,
        field::CLOCK_MHZ,
    ] {
        assert!(matches!(facts.get(name), Some(Fact::Unknown(_))), "{name}: {:?}", facts.get(name));
    }
}

#[test]
fn this_machine_tells_its_cores_memory_and_kernel() {
    let (identity, configuration, volatile) = (host_identity(), host_configuration(), host_volatile());
    for (facts, name) in [
        (&identity, field::DEVICE_MODEL),
        (&identity, field::DEVICE_MEMORY),
        (&identity, field::CORES_LOGICAL),
        (&configuration, field::KERNEL_RELEASE),
        (&volatile, field::LOAD_1M),
        (&volatile, field::CO_TENANTS),
    ] {
        assert!(!matches!(facts.get(name), None | Some(Fact::Unknown(_))), "{name}: {:?}", facts.get(name));
    }
}

#[test]
fn levels_of_this_cpu_grow_and_are_architectures() {
    let levels = cpu_levels();
    assert!(!levels.is_empty());
    let mut sorted = levels.clone();
    sorted.sort();
    assert_eq!(levels, sorted);
}

#[test]
fn the_cpu_device_is_named_by_machine_key_and_level() {
    let (_root, host) = full_machine();
    let (v2, v3) = ("cpu:x86-64-v2".parse().unwrap(), "cpu:x86-64-v3".parse().unwrap());
    let id = cpu_device_id(&host, &[1; 32], &v2);
    assert_eq!(id, cpu_device_id(&host, &[1; 32], &v2));
    assert_eq!(id.0.len(), "CPU-".len() + 32);
    assert!(id.0.starts_with("CPU-"));
    let (_other_root, other) = machine(&[("/etc/machine-id", "other\n")]);
    let (_bare_root, bare) = machine(&[]);
    let others = [
        cpu_device_id(&host, &[2; 32], &v2),
        cpu_device_id(&host, &[1; 32], &v3),
        cpu_device_id(&other, &[1; 32], &v2),
        cpu_device_id(&bare, &[1; 32], &v2),
    ];
    assert!(others.iter().all(|other| *other != id), "{id} {others:?}");
}
