//! Tells the node which commit it was built from and whether the tree had changes beyond it.

use std::path::Path;
use std::process::Command;

/// What the node's behaviour depends on; changes elsewhere do not make it another harness.
const INPUTS: [&str; 7] = [
    "agent-node/src",
    "agent-node/build.rs",
    "agent-node/Cargo.toml",
    "ledger/src",
    "fleet-config/src",
    "Cargo.toml",
    "Cargo.lock",
];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    println!("cargo::rerun-if-env-changed=MUSTER_COMMIT");
    // For packagers, who build from an archive without history and vouch for it.
    if let Ok(commit) = std::env::var("MUSTER_COMMIT") {
        return report(&commit, false);
    }
    let Some(commit) = git(&root, &["rev-parse", "HEAD"]) else {
        // Nothing vouches for a tree without history: its results answer nobody else's question.
        return report("", true);
    };
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&root, &["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={}", root.join(path).display());
        }
    }
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(INPUTS);
    report(&commit, git(&root, &status).is_none_or(|changes| !changes.is_empty()));
}

fn report(commit: &str, dirty: bool) {
    println!("cargo::rustc-env=MUSTER_COMMIT={commit}");
    println!("cargo::rustc-env=MUSTER_DIRTY={dirty}");
}

/// Output of a git command in `root`, or `None` if there is no git or no repository.
#[expect(clippy::disallowed_methods, reason = "a build script has no sandbox; it asks git alone")]
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    // Builds run as another user than the tree's owner in containers; only this call trusts the folder.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "--no-optional-locks"])
        .args(arguments)
        .current_dir(root)
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
