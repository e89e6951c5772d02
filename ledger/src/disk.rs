//! Files made durable: synced temporaries, renames, and the directories that must be synced after them.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// What was being done to a path when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskAction {
    Open,
    Create,
    Read,
    Write,
    Sync,
    Rename,
    Remove,
    List,
    Lock,
}

impl fmt::Display for DiskAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Create => "create",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::List => "list",
            Self::Lock => "lock",
        })
    }
}

/// A failed file operation with its path.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`: {source}", path.display())]
pub struct DiskError {
    pub action: DiskAction,
    pub path: PathBuf,
    pub source: io::Error,
}

impl DiskError {
    /// For use with `map_err`.
    pub fn at(action: DiskAction, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { action, path: path.to_path_buf(), source }
    }

    /// Whether the path is not there.
    pub fn is_missing(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// Directories whose entries changed and are not yet synced: a renamed file survives a power cut only once its
/// directory is synced too.
#[derive(Debug, Default)]
pub struct DirtyDirectories(BTreeSet<PathBuf>);

impl DirtyDirectories {
    /// Remembers that an entry of `directory` changed.
    pub fn mark(&mut self, directory: &Path) {
        if !self.0.contains(directory) {
            self.0.insert(directory.to_path_buf());
        }
    }

    /// Remembers that the directory holding `path` changed.
    pub fn mark_parent(&mut self, path: &Path) {
        if let Some(parent) = path.parent() {
            self.mark(parent);
        }
    }

    /// Remembers every directory from the one holding `path` up to `root`. A process that died may have made some of
    /// them without syncing them, and nothing shows that.
    pub fn mark_up_to(&mut self, root: &Path, path: &Path) {
        path.ancestors().skip(1).take_while(|directory| directory.starts_with(root)).for_each(|directory| {
            self.mark(directory);
        });
    }

    /// Syncs each marked directory once. After an error the caller must stop writing: the kernel may have
    /// dropped what it could not write, and a second sync would report success.
    pub fn sync(&mut self) -> Result<(), DiskError> {
        for directory in std::mem::take(&mut self.0) {
            sync_directory(&directory)?;
        }
        Ok(())
    }

    /// Takes over the marks of `other`.
    pub fn take_from(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// Whether nothing waits for a sync.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Makes the entries of a directory durable; the empty path is the working directory, as the parent of a bare name is.
pub fn sync_directory(path: &Path) -> Result<(), DiskError> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let directory = File::open(path).map_err(DiskError::at(DiskAction::Open, path))?;
    directory.sync_all().map_err(DiskError::at(DiskAction::Sync, path))
}

/// Makes `path` and its missing ancestors, marking each directory that gained an entry.
pub fn create_directories(path: &Path, dirty: &mut DirtyDirectories) -> Result<(), DiskError> {
    match fs::create_dir(path) {
        Ok(()) => {
            dirty.mark_parent(path);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Some(parent) = path.parent() else {
                return Err(DiskError::at(DiskAction::Create, path)(error));
            };
            create_directories(parent, dirty)?;
            fs::create_dir(path).map_err(DiskError::at(DiskAction::Create, path))?;
            dirty.mark(parent);
            Ok(())
        }
        Err(error) => Err(DiskError::at(DiskAction::Create, path)(error)),
    }
}

/// Writes a new file and syncs its content. An older file of that name is replaced.
pub fn write_synced(path: &Path, bytes: &[u8]) -> Result<File, DiskError> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(path)
        .map_err(DiskError::at(DiskAction::Create, path))?;
    file.write_all(bytes).map_err(DiskError::at(DiskAction::Write, path))?;
    file.sync_all().map_err(DiskError::at(DiskAction::Sync, path))?;
    Ok(file)
}

/// Renames a synced file into its place. The caller syncs the directory.
pub fn rename(from: &Path, to: &Path) -> Result<(), DiskError> {
    fs::rename(from, to).map_err(DiskError::at(DiskAction::Rename, to))
}

/// Reads a whole file, refusing one larger than `bytes_max`: files of a ledger folder may come from elsewhere.
pub fn read_limited(path: &Path, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
    let file = File::open(path).map_err(DiskError::at(DiskAction::Open, path))?;
    read_file_limited(file, path, bytes_max)
}

/// Reads an open file to its end, refusing one larger than `bytes_max`.
pub fn read_file_limited(file: File, path: &Path, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(DiskError::at(DiskAction::Read, path))?;
    if bytes.len() as u64 > bytes_max {
        let error = io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {bytes_max} bytes"));
        return Err(DiskError::at(DiskAction::Read, path)(error));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_bare_name_is_the_working_directory() {
        sync_directory(Path::new("name").parent().unwrap()).unwrap();
        assert!(sync_directory(Path::new("absent/name").parent().unwrap()).is_err());
        let mut dirty = DirtyDirectories::default();
        dirty.mark_parent(Path::new("name"));
        dirty.sync().unwrap();
    }
}
