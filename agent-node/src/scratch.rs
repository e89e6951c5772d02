//! A private folder for commands that keep nothing.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// How many names are tried; sixteen random digits collide once or never.
const TRIES: u32 = 8;

/// A 0700 folder below the system's temporary one; removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one.
    pub fn make() -> std::io::Result<Self> {
        let parent = std::env::temp_dir().canonicalize()?;
        let mut last = std::io::Error::other("no name was tried");
        for _ in 0..TRIES {
            let number = getrandom::u64().map_err(std::io::Error::other)?;
            let path = parent.join(format!("muster-{number:016x}"));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "a temporary folder stays behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_private_and_goes_with_everything_in_it() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = Scratch::make().unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(path.join("file"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
