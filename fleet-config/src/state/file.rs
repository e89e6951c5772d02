//! Private files of a state folder, and the refusals that errors of its file system become.

use crate::refusal::Refusal;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use zeroize::Zeroizing;

/// Reads a file that must be private to its owner; `None` if it does not exist.
pub fn read_private(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, Refusal> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(path)(error)),
    };
    let mode = file.metadata().map_err(at(path))?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Refusal::new(
            "state/secret-readable",
            path.display().to_string(),
            format!("this secret can be read by others (mode {:03o})", mode & 0o777),
            "run `chmod 600` on it and consider the key known to others",
        ));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.read_to_end(&mut bytes).map_err(at(path))?;
    Ok(Some(bytes))
}

/// Reads at most `limit` bytes of a file; `None` if it does not exist.
pub fn read_bounded(path: &Path, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut bytes)? as u64;
    if read > limit { Err(ErrorKind::FileTooLarge.into()) } else { Ok(Some(bytes)) }
}

/// Writes a new 0600 file and syncs it; its folder is the caller's to sync.
pub fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Replaces a 0600 file so that a crash leaves the old one or the new one.
pub fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension("new");
    write_new(&temporary, bytes)?;
    std::fs::rename(&temporary, path)?;
    match path.parent() {
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    }
}

/// Syncs the entries of a folder; the empty path is the working folder, as the parent of a bare name is.
pub fn sync_folder(path: &Path) -> std::io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path)?.sync_all()
}

/// For use with `map_err`: the refusal of an I/O error on `path`.
pub fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Refusal {
    move |error| io(&path.display().to_string(), &error)
}

/// The refusal that an I/O error on `place` becomes.
pub fn io(place: &str, error: &std::io::Error) -> Refusal {
    surroundings(place, error).unwrap_or_else(|| {
        Refusal::new("state/io", place, error.to_string(), "check the folder and its file system")
    })
}

/// The refusal of an error that lies in the file system and not in what is stored on it.
pub fn surroundings(place: &str, error: &std::io::Error) -> Option<Refusal> {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Some(Refusal::new(
            "state/not-writable",
            place,
            error.to_string(),
            "name a folder that this user may write with --state, or mount it writable",
        )),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(Refusal::new(
            "state/disk-full",
            place,
            error.to_string(),
            "free space on this file system, then start again; nothing that was acknowledged is lost",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_reads_refuse_what_is_longer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        assert_eq!(read_bounded(&path, 4).unwrap(), None);
        write_private(&path, b"four").unwrap();
        assert_eq!(read_bounded(&path, 4).unwrap(), Some(b"four".to_vec()));
        assert!(read_bounded(&path, 3).is_err());
    }

    #[test]
    fn what_is_written_is_private_and_what_others_can_read_is_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        assert!(read_private(&path).unwrap().is_none());
        write_private(&path, b"old").unwrap();
        write_private(&path, b"new").unwrap();
        assert_eq!(read_private(&path).unwrap().unwrap().as_slice(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary is left");
        for mode in [0o640, 0o604, 0o620] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_private(&path).unwrap_err().code, "state/secret-readable", "{mode:o}");
        }
    }

    #[test]
    fn the_folder_of_a_bare_name_is_the_working_folder() {
        sync_folder(Path::new("name").parent().unwrap()).unwrap();
        assert!(sync_folder(Path::new("absent/name").parent().unwrap()).is_err());
    }

    #[test]
    fn errors_of_the_file_system_are_told_from_the_rest() {
        let code = |kind: ErrorKind| io("x", &kind.into()).code.into_owned();
        assert_eq!(code(ErrorKind::ReadOnlyFilesystem), "state/not-writable");
        assert_eq!(code(ErrorKind::StorageFull), "state/disk-full");
        assert_eq!(code(ErrorKind::InvalidData), "state/io");
        assert_eq!(surroundings("x", &ErrorKind::NotFound.into()), None);
    }
}
