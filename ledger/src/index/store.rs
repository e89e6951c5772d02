//! Where rows lie: in sled or in memory.

use super::IndexError;
use super::codec::{decode, encode};
use super::row::{FORMAT, Meta, add_row};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Key of the cursor; no family has this byte.
const META_KEY: &[u8] = b"\0meta";

/// Bytes of sled's page cache. Far below what a rebuild reads, since the index is written more than read.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// Rows that go in together.
pub(super) type Batch = Vec<(Vec<u8>, Vec<u8>)>;

/// Sorted rows.
#[derive(Debug)]
pub(super) enum Rows {
    Memory(BTreeMap<Vec<u8>, Vec<u8>>),
    Disk(sled::Db),
}

impl Rows {
    pub(super) fn memory() -> Self {
        Self::Memory(BTreeMap::new())
    }

    /// Writes rows and cursor at once.
    pub(super) fn write(&mut self, batch: Batch, meta: &Meta) -> Result<(), IndexError> {
        match self {
            Self::Memory(rows) => rows.extend(batch),
            Self::Disk(db) => {
                let mut disk = sled::Batch::default();
                for (key, value) in batch {
                    disk.insert(key, value);
                }
                disk.insert(META_KEY, encode(meta)?);
                db.apply_batch(disk)?;
            }
        }
        Ok(())
    }

    pub(super) fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        Ok(match self {
            Self::Memory(rows) => rows.get(key).cloned(),
            Self::Disk(db) => db.get(key)?.map(|value| value.to_vec()),
        })
    }

    /// Keys that start with `prefix`, in order.
    pub(super) fn keys<'a>(
        &'a self,
        prefix: &'a [u8],
    ) -> Box<dyn Iterator<Item = Result<Vec<u8>, IndexError>> + 'a> {
        match self {
            Self::Memory(rows) => Box::new(
                rows.range(prefix.to_vec()..)
                    .map(|(key, _)| key)
                    .take_while(move |key| key.starts_with(prefix))
                    .map(|key| Ok(key.clone())),
            ),
            Self::Disk(db) => {
                Box::new(db.scan_prefix(prefix).keys().map(|key| Ok(key.map(|key| key.to_vec())?)))
            }
        }
    }

    pub(super) fn flush(&self) -> Result<(), IndexError> {
        match self {
            Self::Memory(_) => {}
            Self::Disk(db) => {
                db.flush()?;
            }
        }
        Ok(())
    }
}

/// Opens the store in `folder`. The inner error says why what is there is no usable index; the outer one is for
/// what deleting would not cure.
pub(super) fn open(folder: &Path) -> Result<Result<(Rows, Meta), String>, IndexError> {
    // sled meets some kinds of damage with a panic, also while rows are read.
    match catch_unwind(AssertUnwindSafe(|| open_checked(folder))) {
        Ok(opened) => opened,
        Err(_) => Ok(Err("the store panicked while it was read".to_owned())),
    }
}

/// Removes what is in `folder` and opens an empty store there.
pub(super) fn recreate(folder: &Path) -> Result<Rows, IndexError> {
    let found = std::fs::symlink_metadata(folder);
    match found {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(folder)?,
        Ok(_) => std::fs::remove_file(folder)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    Ok(Rows::Disk(sled_at(folder)?))
}

fn sled_at(folder: &Path) -> Result<sled::Db, sled::Error> {
    sled::Config::new().path(folder).cache_capacity(CACHE_BYTES).open()
}

fn open_checked(folder: &Path) -> Result<Result<(Rows, Meta), String>, IndexError> {
    if !folder.is_dir() {
        return Ok(Err("there is none yet".to_owned()));
    }
    let db = match sled_at(folder) {
        Ok(db) => db,
        Err(sled::Error::Io(error)) if error.to_string().contains("could not acquire lock") => {
            return Err(IndexError::Locked);
        }
        Err(error) => return Ok(Err(format!("the store does not open: {error}"))),
    };
    Ok(read_meta(&db).map(|meta| (Rows::Disk(db), meta)))
}

/// The cursor, once every row was found as it was written.
fn read_meta(db: &sled::Db) -> Result<Meta, String> {
    let bytes = db.get(META_KEY).map_err(|error| error.to_string())?;
    let bytes = bytes.ok_or_else(|| "it has no cursor".to_owned())?;
    let meta: Meta = decode(&bytes).map_err(|error| format!("its cursor {error}"))?;
    if meta.format != FORMAT {
        return Err(format!("it has format {}, this version has {FORMAT}", meta.format));
    }
    let mut checksum = [0; 32];
    for row in db.iter() {
        let (key, value) = row.map_err(|error| error.to_string())?;
        if key != META_KEY {
            add_row(&mut checksum, &key, &value);
        }
    }
    if checksum == meta.checksum { Ok(meta) } else { Err("its rows do not have their checksum".to_owned()) }
}
