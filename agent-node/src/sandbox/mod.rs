//! What a child process may do; the only room that starts children.
//!
//! ```text
//! node ── spawn(Request) ──► launcher (our own binary: `muster-node sandbox-launch`)
//!                              receives the order and descriptors over a socket, then on itself:
//!                              own session · dies with the node · descriptors closed · resource limits ·
//!                              capabilities dropped · no_new_privs · Landlock · seccomp
//!                              └─ execve ──► compiler, or our own binary as a worker
//!                                             └─ lock_worker(): the narrow call list, before the candidate is loaded
//! ```
//!
//! A launcher instead of work between fork and exec: after fork in a threaded process only async-signal-safe calls
//! are allowed, and building rulesets allocates. Level `kernel` of the design: Landlock and seccomp, no namespaces.
//! What it cannot do: hide file names and sizes (Landlock does not cover `stat`), stop an orphaned grandchild before
//! its CPU limit when the node itself is killed, and limit memory other than by address space.

mod calls;
mod child;
mod filesystem;
mod handover;
mod launcher;
mod limits;
mod report;
mod request;
mod spawn;
mod toolchain;
mod worker;

pub use child::{Captured, Child, Exit, ExitHow, WaitError};
pub use launcher::launcher_main;
pub use report::{Layer, SandboxReport, probe};
pub use request::{Confinement, Level, Profile, Request, ResourceLimits};
pub use spawn::{SpawnError, own_binary, set_launcher, spawn};
pub use toolchain::{Toolchain, system_toolchain};
pub use worker::{SandboxError, lock_cuda_worker, lock_worker};
