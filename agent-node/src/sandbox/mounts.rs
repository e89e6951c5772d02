//! Builds the root folder of a child, and moves the child into it. In a mount namespace of its own.

use super::handover::Order;
use super::namespaces::Isolation;
use super::view::{Found, Part, View};
use rustix::fs::{CWD, FileType, lstat, symlink};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change,
    move_mount, open_tree, unmount,
};
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The root itself holds folders and links only; it is made read-only once it stands.
const ROOT_OPTIONS: &str = "size=1m,nr_inodes=4096,mode=755";
/// Files in `/tmp`. A compiler makes a handful for each source.
const TMP_FILES_MAX: u32 = 4096;
/// Files in `/tmp` of the largest size that are allowed at once: what a compiler hands to the assembler, and that on.
const TMP_LARGE_FILES: u64 = 2;
/// Processes that the namespace may have beyond those of the order: the kernel accepts no number below 301.
const PROCESSES_ROOM: u64 = 301;

#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub(super) struct MountError {
    pub(super) layer: Isolation,
    what: String,
    source: io::Error,
}

/// Names what failed.
fn at<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> MountError {
    let what = what.into();
    move |source| MountError { layer: Isolation::View, what, source: source.into() }
}

/// Replaces everything that this process sees by the order's view; ends in its root. The order's folder keeps its path.
pub(super) fn enter(order: &Order) -> Result<(), MountError> {
    let view = View::plan(order, &look);
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(at("/"))?;
    // Taken before the new root stands, which covers the order's folder until it moves.
    let mut trees = Vec::with_capacity(view.parts.len());
    for (path, (part, is_folder)) in &view.parts {
        trees.push((path, *is_folder, tree(path, *part)?));
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let root = Path::new(&order.folder);
    mount("tmpfs", root, "tmpfs", flags, Some(&*text(ROOT_OPTIONS))).map_err(at("the new root"))?;
    rustix::process::chdir(root).map_err(at("the new root"))?;
    fs::create_dir("proc").map_err(at("/proc"))?;
    for (path, target) in &view.links {
        let place = inside(path);
        make_parent(&place)?;
        symlink(target, &place).map_err(at(path.display().to_string()))?;
    }
    for (path, is_folder, tree) in trees {
        let place = inside(path);
        make_parent(&place)?;
        match &tree {
            Some(tree) => {
                make_target(&place, is_folder)?;
                let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
                move_mount(tree, "", CWD, &place, how).map_err(at(path.display().to_string()))?;
            }
            None => {
                make_target(&place, true)?;
                let size = order.limits.file_size.saturating_mul(TMP_LARGE_FILES);
                let options = text(&format!("size={size},nr_inodes={TMP_FILES_MAX},mode=700"));
                mount("tmpfs", &place, "tmpfs", flags, Some(&*options))
                    .map_err(at(path.display().to_string()))?;
            }
        }
    }
    // A new /proc is granted to those only who see a whole one already: before the old root goes.
    own_proc(order.limits.processes).map_err(|error| MountError { layer: Isolation::Proc, ..error })?;
    // pivot_root(2), "pivot_root(".", ".")": the old root lies on the new one and is taken off.
    rustix::process::pivot_root(".", ".").map_err(at("pivot_root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(at("the old root"))?;
    rustix::process::chdir("/").map_err(at("/"))?;
    let root = File::open("/").map_err(at("/"))?;
    set_attributes(root.as_fd(), libc::MOUNT_ATTR_RDONLY, 0).map_err(at("/"))
}

/// Mounts `/proc` of this process's namespace, processes only, and bounds their number where the kernel can (6.14).
/// Called inside the namespace, in its new root.
fn own_proc(processes: u64) -> Result<(), MountError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if counts_per_namespace(rustix::system::uname().release().to_str().unwrap_or_default()) {
        mount("proc", "proc", "proc", flags, None::<&CStr>).map_err(at("/proc"))?;
        let most = PROCESSES_ROOM.saturating_add(processes).to_string();
        fs::write("proc/sys/kernel/pid_max", most).map_err(at("pid_max"))?;
        unmount("proc", UnmountFlags::DETACH).map_err(at("/proc"))?;
    }
    let processes_only = text("subset=pid,hidepid=invisible");
    mount("proc", "proc", "proc", flags, Some(&*processes_only)).map_err(at("/proc"))
}

/// Whether this release of Linux has a `pid_max` for each process namespace (6.14). Before, a node run by root would
/// change that of the whole machine.
fn counts_per_namespace(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 14),
        _ => false,
    }
}

fn look(path: &Path) -> Found {
    let Ok(status) = lstat(path) else { return Found::Nothing };
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Symlink => fs::read_link(path).map_or(Found::Nothing, Found::Link),
        FileType::Directory => Found::Folder,
        FileType::RegularFile
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Fifo
        | FileType::Socket
        | FileType::Unknown => Found::File,
    }
}

/// A copy of the mounts at `path`, attached nowhere yet, with the rights of its part; `None` for a folder in memory.
fn tree(path: &Path, part: Part) -> Result<Option<OwnedFd>, MountError> {
    let attributes = match part {
        Part::ReadOnly => libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        Part::Writable => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        Part::Device => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC,
        Part::Private => return Ok(None),
    };
    // With what is mounted below: the kernel lets nobody uncover what lies under such a mount.
    let how = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, path, how).map_err(at(path.display().to_string()))?;
    set_attributes(tree.as_fd(), attributes, libc::AT_RECURSIVE).map_err(at(path.display().to_string()))?;
    Ok(Some(tree))
}

/// mount_setattr(2) on the mount that a descriptor stands for; adds rights' losses and takes nothing away.
fn set_attributes(of: BorrowedFd<'_>, attributes: u64, flags: i32) -> io::Result<()> {
    let change = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = flags | libc::AT_EMPTY_PATH;
    // SAFETY: the path is an empty string and the structure lives through the call, which is told its size.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            of.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn inside(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_owned()
}

fn make_parent(place: &Path) -> Result<(), MountError> {
    let Some(parent) = place.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    fs::create_dir_all(parent).map_err(at(parent.display().to_string()))
}

/// Something to mount on. It is there already where it lies inside another part.
fn make_target(place: &Path, is_folder: bool) -> Result<(), MountError> {
    let made = if is_folder {
        rustix::fs::mkdir(place, 0o755.into())
    } else {
        rustix::fs::mknodat(CWD, place, FileType::RegularFile, 0o600.into(), 0)
    };
    match made {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(at(place.display().to_string())(error)),
    }
}

fn text(options: &str) -> CString {
    CString::new(options).expect("invariant: options are built above, without zero bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernels_that_count_for_each_namespace_are_told_a_number() {
        for (release, expected) in [
            ("6.14.0", true),
            ("6.18.44-fc-v657", true),
            ("7.0-rc1", true),
            ("6.13.9", false),
            ("5.15.0-1050-aws", false),
            ("6", false),
            ("", false),
            ("x.y", false),
        ] {
            assert_eq!(counts_per_namespace(release), expected, "{release}");
        }
    }
}
