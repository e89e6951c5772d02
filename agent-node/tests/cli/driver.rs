//! Machines whose CUDA driver is not there or is broken: the node stays up, offers no GPU, and the doctor says what to
//! do. The drivers are stubs that a C compiler makes here; each answers `cuInit` with the code of one trouble (cuda.h).

use super::{invite, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder with a `libcuda.so.1` whose `cuInit` answers `code`; without one, a file that is no library.
fn stub(folder: &Path, code: Option<u32>) -> PathBuf {
    let place = folder.join("driver");
    std::fs::create_dir_all(&place).unwrap();
    let library = place.join("libcuda.so.1");
    let Some(code) = code else {
        std::fs::write(&library, "this is no library\n").unwrap();
        return place;
    };
    let source = folder.join("stub.c");
    std::fs::write(&source, format!("int cuInit(unsigned flags) {{ (void)flags; return {code}; }}\n"))
        .unwrap();
    let real = place.join("libcuda.so.570.86.15");
    let compiler = ["cc", "gcc", "g++", "clang"].into_iter().find_map(|compiler| {
        let arguments = ["-shared", "-fPIC", "-o", text(&real), "-x", "c", text(&source)];
        let status = Command::new(compiler).args(arguments).status().ok()?;
        status.success().then_some(compiler)
    });
    assert!(compiler.is_some(), "these machines have a C compiler: the CPU device needs one");
    std::os::unix::fs::symlink("libcuda.so.570.86.15", &library).unwrap();
    place
}

fn command(driver: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster-node"));
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("LD_LIBRARY_PATH", driver);
    command.stdin(Stdio::null());
    command
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// What the doctor says of CUDA devices: state, detail, next step.
fn doctor(driver: &Path) -> (String, String, String) {
    let output = command(driver, &["doctor", "--json"]).output().unwrap();
    assert!(output.status.success(), "a machine without a usable GPU is fit: {output:?}");
    let answer = answer(&output);
    let checks = answer["checks"].as_array().unwrap();
    let check =
        checks.iter().find(|check| check["name"] == "CUDA device").unwrap_or_else(|| panic!("{answer:#}"));
    let word = |name: &str| check[name].as_str().unwrap().to_owned();
    (word("state"), word("detail"), word("next"))
}

/// Whether this machine has GPUs of its own, which a stub in front would hide only from what looks for it there.
fn has_gpu() -> bool {
    let here = Path::new("/dev/nvidiactl").exists();
    if here {
        println!("SKIPPED: this machine has a driver of its own");
    }
    here
}

#[test]
fn each_broken_driver_is_told_with_what_to_do() {
    if has_gpu() {
        return;
    }
    let troubles = [
        (Some(100), "CUDA_ERROR_NO_DEVICE (100)", "nvidia-smi -L"),
        (Some(803), "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "restart the machine"),
        (Some(802), "CUDA_ERROR_SYSTEM_NOT_READY (802)", "nvidia-fabricmanager"),
        (Some(999), "CUDA_ERROR_UNKNOWN (999)", "nvidia-smi"),
        (None, "no CUDA driver is installed", "install the NVIDIA driver"),
    ];
    for (code, cause, step) in troubles {
        let folder = tempfile::tempdir().unwrap();
        let driver = stub(folder.path(), code);
        let (state, detail, next) = doctor(&driver);
        assert_eq!(state, "weak", "{code:?}: {detail}");
        assert!(detail.contains(cause) && !detail.contains("panicked"), "{code:?}: {detail}");
        assert!(next.contains(step), "{code:?}: {next}");
        if code == Some(803) {
            assert!(detail.contains("libcuda 570.86.15"), "the version of the library: {detail}");
        }
        let output = command(&driver, &["devices", "--json"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let devices = answer(&output);
        let kinds: Vec<&Value> = devices.as_array().unwrap().iter().map(|device| &device["kind"]).collect();
        assert_eq!(kinds, ["cpu"], "{code:?}");
    }
}

#[test]
fn a_driver_that_lacks_a_function_is_told_and_nothing_dies() {
    if has_gpu() {
        return;
    }
    // `cuInit` succeeds, and then there is nothing to ask.
    let folder = tempfile::tempdir().unwrap();
    let driver = stub(folder.path(), Some(0));
    let (state, detail, _) = doctor(&driver);
    assert_eq!(state, "weak");
    assert!(detail.contains("cuDriverGetVersion"), "{detail}");
}

#[test]
fn a_node_starts_and_stays_up_without_a_driver_and_with_one_that_has_no_device() {
    if has_gpu() {
        return;
    }
    for code in [None, Some(100), Some(803)] {
        let folder = tempfile::tempdir().unwrap();
        let driver = stub(folder.path(), code);
        let (invite, state) = (invite(&folder), folder.path().join("state"));
        let arguments = ["run", "--state", text(&state), "--invite-file", text(&invite)];
        let mut child = command(&driver, &arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut seen = Vec::new();
        for line in BufReader::new(child.stderr.take().unwrap()).lines() {
            seen.push(line.unwrap());
            if seen.last().is_some_and(|line| line.contains("device on offer") && !line.contains("no CUDA")) {
                kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
            }
        }
        let status = child.wait().unwrap();
        assert!(status.success(), "{code:?}: {status:?} {seen:#?}");
        let offered = seen
            .iter()
            .filter(|line| line.contains("device on offer") && line.contains("architecture="))
            .count();
        assert_eq!(offered, 1, "{code:?}: the CPU alone: {seen:#?}");
        let reason = seen.iter().find(|line| line.contains("no CUDA device on offer"));
        assert!(reason.is_some_and(|line| !line.contains("panicked")), "{code:?}: {seen:#?}");
        assert!(seen.iter().any(|line| line.contains("SIGTERM")), "{code:?}: {seen:#?}");
    }
}
