//! The Python client: its wheel, and what it does on a fleet.

use crate::CLASS;
use fleet_tests::fleet::{Fleet, checkout};
use fleet_tests::process::binaries;
use fleet_tests::saxpy;
use fleet_tests::skip::skipped;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs Python, if this machine has one that is new enough.
#[expect(clippy::disallowed_methods, reason = "the harness starts real processes")]
pub(crate) fn python(arguments: &[&str], environment: &[(&str, &Path)]) -> Option<Output> {
    let mut command = Command::new("python3");
    command.args(arguments).envs(environment.iter().copied()).stdin(Stdio::null());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("python3 does not start: {error}"),
    }
}

fn succeeded(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_python_client_submits_waits_rewards_and_is_refused_with_codes() {
    let fleet = Fleet::with_nodes(&[CLASS]);
    let folder = saxpy::task_with(&fleet, "client-saxpy", &[]);
    fleet.json(&["task", "add", folder.to_str().expect("UTF-8")]);
    let wheels = fleet.path("wheels");
    std::fs::create_dir(&wheels).expect("a folder can be made");
    let wheels_text = wheels.to_str().expect("UTF-8");
    let backend = checkout().join("clients/python/build_backend");
    let build = format!("import wheel_of_files; print(wheel_of_files.build_wheel({wheels_text:?}))");
    let Some(built) = python(&["-c", &build], &[("PYTHONPATH", backend.as_path())]) else {
        skipped("the Python client: this machine has no python3");
        return;
    };
    let wheel = wheels.join(succeeded(&built).trim());
    assert!(wheel.is_file(), "{}", wheel.display());

    // A wheel of pure Python can be imported as it is; with pip it is installed, which also checks its list of files.
    let site = fleet.path("site");
    let (wheel_text, site_text) = (wheel.to_str().expect("UTF-8"), site.to_str().expect("UTF-8"));
    let pip = [
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--no-index",
        "--target",
        site_text,
        wheel_text,
    ];
    let has_pip = python(&["-m", "pip", "--version"], &[]).is_some_and(|output| output.status.success());
    let library = if has_pip {
        let _said = succeeded(&python(&pip, &[]).expect("it was there before"));
        site.as_path()
    } else {
        skipped("installing the Python client's wheel: this python3 has no pip");
        wheel.as_path()
    };
    let (state, binary) = (fleet.state(), binaries().join("muster"));
    let environment = [
        ("PYTHONPATH", library),
        ("MUSTER_STATE", state.as_path()),
        ("MUSTER_BINARY", binary.as_path()),
        ("MUSTER_CLASS", Path::new(CLASS)),
    ];
    for (script, said) in
        [("check_client.py", "the client is right"), ("check_chat.py", "the chat proposer is right")]
    {
        let script = checkout().join("tests/python").join(script);
        let output = python(&[script.to_str().expect("UTF-8")], &environment).expect("it was there before");
        assert!(succeeded(&output).contains(said), "{said}");
    }
    fleet.verify();
}
