//! What a child process may do; the only room that starts children.
//!
//! ```text
//! node ── spawn(Request) ──► launcher (our own binary: `muster-node sandbox-launch`)
//!                              receives the order and descriptors over a socket, then on itself:
//!                              [new namespaces, own root] · own session · dies with the node · descriptors closed · resource limits ·
//!                              no_new_privs · Landlock · capabilities dropped · seccomp
//!                              └─ execve ──► compiler, or our own binary as a worker
//!                                             └─ lock_worker(): the narrow call list, before the candidate is loaded
//! ```
//!
//! A launcher instead of work between fork and exec: after fork in a threaded process only async-signal-safe calls
//! are allowed, and building rulesets allocates. At level `full` the launcher makes the child's processes in new
//! namespaces ([`family`]) and gives them a root folder of their own ([`mounts`]); `docs/SANDBOX.md` has the levels.

mod calls;
mod cgroup;
mod child;
mod family;
mod filesystem;
mod handover;
mod launcher;
mod level;
mod limits;
mod mounts;
mod namespaces;
mod report;
mod request;
mod spawn;
mod toolchain;
mod user;
mod view;
mod worker;

pub use cgroup::adopt_cgroup;
pub(crate) use child::threads_of;
pub use child::{Captured, Child, Exit, ExitHow, WaitError};
pub use launcher::launcher_main;
pub use namespaces::Isolation;
pub use report::{Layer, SandboxReport, probe};
pub use request::{Confinement, Level, Profile, Request, ResourceLimits};
pub use spawn::{SpawnError, open_own_binary, own_binary, set_launcher, spawn};
pub use toolchain::{Toolchain, system_toolchain};
pub use worker::{SandboxError, lock_cuda_worker, lock_worker};
