//! Tests of this binary once more, as an ordinary user: what holds for root alone must not be what makes them pass.

use crate::fleet::{CHECKOUT_VARIABLE, checkout};
use crate::process::binaries;
use crate::saxpy;
use crate::skip::skipped;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `nobody` on every Linux: a user without powers and without files.
const NOBODY: &str = "65534";
/// Asks for what the tests print, as with `--nocapture`.
const TABLE_VARIABLE: &str = "MUSTER_TABLE";
/// Changes the user and gives up every power before it starts a program; part of util-linux.
const CHANGER: &str = "/usr/bin/setpriv";

/// Runs the tests of these names (`module::test`) in a process of user `nobody`, with copies of everything that they
/// need. Only root can become another user; any other has run them as an ordinary user already.
pub fn again(tests: &[&str]) {
    if !rustix::process::geteuid().is_root() {
        return skipped("as another user: this user is an ordinary one already");
    }
    if !Path::new(CHANGER).exists() {
        return skipped(format!("as an ordinary user: {CHANGER} is absent"));
    }
    // Below a folder that everybody can reach, and not in /tmp, of which a child may have one of its own.
    let place = tempfile::tempdir_in("/var/tmp").expect("a folder can be made");
    open(place.path());
    let names = ["muster", "muster-coordinator", "muster-node"];
    names.iter().for_each(|name| drop(copy(&binaries().join(name), &place.path().join(name))));
    let own = copy(&std::env::current_exe().expect("a test knows its own path"), &place.path().join("again"));
    copy_folder(&checkout().join(saxpy::TASK), place.path(), saxpy::TASK);
    let output = run(place.path(), &own, tests);
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    if std::env::var_os(TABLE_VARIABLE).is_some() {
        println!("as an ordinary user:\n{said}");
    }
    let passed = format!("test result: ok. {} passed", tests.len());
    assert!(said.contains(&passed), "{said}\n{errors}");
    for line in errors.lines().filter_map(|line| line.strip_prefix("SKIPPED: ")) {
        skipped(format!("as an ordinary user: {line}"));
    }
}

#[expect(clippy::disallowed_methods, reason = "the harness starts real processes")]
fn run(place: &Path, program: &Path, tests: &[&str]) -> Output {
    let mut command = Command::new(CHANGER);
    command
        .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"])
        .arg(program)
        .arg("--exact")
        .args(tests)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("MUSTER_BIN", place)
        .env(CHECKOUT_VARIABLE, place)
        .current_dir("/");
    if let Some(value) = std::env::var_os(TABLE_VARIABLE) {
        command.env(TABLE_VARIABLE, value).arg("--nocapture");
    }
    command.output().expect("setpriv starts")
}

/// Everybody may read and execute it.
fn open(path: &Path) {
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, all).expect("its mode can be set");
}

/// By a program of its own: a descriptor open for writing here would be inherited by processes that other tests start
/// meanwhile, and the kernel runs no file that somebody still has open for writing.
#[expect(clippy::disallowed_methods, reason = "the harness starts real programs")]
fn copy(from: &Path, to: &Path) -> PathBuf {
    let copied = Command::new("/bin/cp").arg(from).arg(to).status().expect("cp starts");
    assert!(copied.success(), "{} cannot be copied", from.display());
    open(to);
    to.to_owned()
}

/// A folder of files to `place`/`below`, with the folders between; `place` itself and what leads to it stay as they are.
fn copy_folder(from: &Path, place: &Path, below: &str) {
    let to = place.join(below);
    std::fs::create_dir_all(&to).expect("a folder can be made");
    to.ancestors().take_while(|folder| *folder != place).for_each(open);
    for entry in std::fs::read_dir(from).expect("the folder is there").flatten() {
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_copy_opens_what_it_made_and_nothing_above() {
        let all = tempfile::tempdir().unwrap();
        let (from, place) = (all.path().join("from"), all.path().join("place"));
        for folder in [&from, &place] {
            std::fs::create_dir(folder).unwrap();
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o1777)).unwrap();
        }
        std::fs::set_permissions(all.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        std::fs::write(from.join("file"), "text").unwrap();
        copy_folder(&from, &place, "a/b");
        assert_eq!(std::fs::read_to_string(place.join("a/b/file")).unwrap(), "text");
        assert_eq!([mode(&place.join("a/b")), mode(&place.join("a"))], [0o755, 0o755]);
        assert_eq!([mode(&place), mode(&from), mode(all.path())], [0o1777, 0o1777, 0o711]);
    }
}
