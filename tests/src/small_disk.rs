//! A file system of a few MiB in memory, for tests that fill it. Needs root and mounts; where they are missing it says so.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Mounted until it is dropped.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Makes `folder` and mounts over it; the cause when that is not possible here.
    pub fn mount(folder: &Path, mebibytes: u32) -> Result<Self, String> {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let size = format!("size={mebibytes}m,mode=0700");
        mount(&["-t", "tmpfs", "-o", &size, "none"], folder)?;
        Ok(Self(folder.to_owned()))
    }

    /// Writing fails from now on.
    pub fn read_only(&self) {
        mount(&["-o", "remount,ro"], &self.0).expect("what was mounted can be mounted again");
    }

    /// Writing works again.
    pub fn writable(&self) {
        mount(&["-o", "remount,rw"], &self.0).expect("what was mounted can be mounted again");
    }
}

impl Drop for SmallDisk {
    #[expect(clippy::disallowed_methods, reason = "the harness starts real programs")]
    fn drop(&mut self) {
        // Lazily: a process of the test may still be on its way out.
        let ended = Command::new("umount").arg("--lazy").arg(&self.0).status();
        if !ended.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted", self.0.display());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the harness starts real programs")]
fn mount(options: &[&str], folder: &Path) -> Result<(), String> {
    let output = Command::new("mount").args(options).arg(folder).output();
    let output = output.map_err(|error| format!("mount does not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("no small file system here: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
