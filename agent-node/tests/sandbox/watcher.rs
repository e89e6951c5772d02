//! The vendor's tool around a GPU worker: it may start programs and make pipes, and it is nobody's root.

use super::{Place, run};
use agent_node::sandbox::Profile;

/// Each line that it prints was possible.
const SCRIPT: &str = r#"
echo "user $(id -u)"
mkfifo pipe && echo "made a pipe"
echo name > /proc/$$/comm && echo "named a thread"
ln -s /etc/passwd link && echo "made a link"
mknod device c 1 3 && echo "made a device"
value=$(cat /proc/sys/vm/swappiness) && echo "$value" > /proc/sys/vm/swappiness && echo "set up the kernel"
cat "$SECRET" && echo "read the secret"
cat "/proc/$NODE/environ" && echo "read the node"
echo 0 > "/proc/$NODE/oom_score_adj" && echo "changed the node"
kill -0 "$NODE" && echo "reached the node"
echo done
"#;

#[test]
fn a_tool_around_a_worker_makes_pipes_and_owns_nothing_of_the_machine() {
    let place = Place::new();
    let mut request = place.request("/bin/sh", &["-c", SCRIPT]);
    request.profile = Profile::CudaScreen;
    request.limits.memory = None;
    request.environment = vec![
        ("PATH".into(), "/usr/bin:/bin".into()),
        ("SECRET".into(), place.secret().into_os_string()),
        ("NODE".into(), std::process::id().to_string().into()),
    ];
    let exit = run(request);
    let said = exit.output.text();
    let user = rustix::process::geteuid();
    // What an ordinary user may do to his own processes stays: docs/SANDBOX.md.
    let may = |line: &str| !user.is_root() && line == "changed the node";
    let is_told = |line: &&str| !line.is_empty() && !line.contains(": ") && !may(line);
    let said: Vec<&str> = said.lines().filter(is_told).collect();
    let user = if user.is_root() { 65_534 } else { user.as_raw() };
    let user = format!("user {user}");
    // A process that is not dumpable, as after a change of its user, could not name its threads: it was executed since.
    assert_eq!(said, [user.as_str(), "made a pipe", "named a thread", "done"], "{}", exit.output.text());
}
