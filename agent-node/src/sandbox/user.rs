//! Giving up root: for the one child that may write below `/proc`.

use rustix::fs::{Gid, Uid, chown};
use std::io;

/// `nobody` and `nogroup`: who owns nothing, on every Linux.
const NOBODY: u32 = 65_534;

/// Makes this process one of `nobody`, with the folder that it works in; whether it was root before. Root without
/// capabilities still owns the files through which the kernel is set up. There is no way back.
pub(super) fn give_up_root() -> io::Result<bool> {
    if !rustix::process::geteuid().is_root() {
        return Ok(false);
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    chown(".", Some(user), Some(group))?;
    let done = |code: libc::c_int| if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the list is empty, so that its pointer is not looked at.
    done(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: the call takes numbers.
    done(unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) })?;
    // SAFETY: the call takes numbers.
    done(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) })?;
    Ok(true)
}
