//! Which parts of the system a host compiler reads and executes.

use std::path::PathBuf;

/// Paths for a request with the compiler profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    pub readable: Vec<PathBuf>,
    pub executable: Vec<PathBuf>,
}

/// Headers, libraries and start files of a system compiler. No `/etc` beside the loader's cache, no home, no state.
const READABLE: [&str; 6] = ["/usr", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache"];
/// Where `g++`, `clang++`, `cc1plus`, `as`, `collect2`, `ld` and the dynamic loader live.
const EXECUTABLE: [&str; 6] =
    ["/usr/bin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/local/bin", "/lib64"];

/// The compiler that the distribution installs. A compiler elsewhere (`/opt`, a module tree) adds its own prefix to both
/// lists.
pub fn system_toolchain() -> Toolchain {
    let mut executable: Vec<PathBuf> = EXECUTABLE.iter().map(PathBuf::from).collect();
    executable.extend(LOADERS.iter().map(PathBuf::from));
    Toolchain { readable: READABLE.iter().map(PathBuf::from).collect(), executable }
}

/// Dynamic loaders: the kernel opens them for execution when it starts a dynamic program.
pub(super) const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];

/// What any dynamic program of ours reads to start, and its view of itself (`/proc/self/maps` is read by threads for
/// their stack bounds and by the sanitizers).
pub(super) const RUNTIME: [&str; 7] =
    ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/proc/self"];
