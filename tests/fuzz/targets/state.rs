//! State folders of both sides: whatever lies in them is read or refused, and what is sound beside damage stays.

use super::repository::tagged;
use super::{Cursor, Target};
use agent_node::session::{AttemptKey, Outbox, Pin};
use fleet_config::domain::{BlobRef, CellId, DeviceId, Fence, Sha256};
use fleet_config::refusal::Refusal;
use fleet_config::state::{Format, TlsKey, read_private, signing_key, write_private};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

pub(crate) const STATE_FILE: Target = Target::new("state-file", file, file_seeds).length(4096);
pub(crate) const OUTBOX: Target = Target::new("outbox", outbox, outbox_seeds).length(256);

/// A folder that is gone when the input is done.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a folder")
}

fn shown<T>(result: Result<T, Refusal>) -> Option<T> {
    result
        .inspect_err(|refusal| {
            assert!(refusal.code.contains('/') && !refusal.next.is_empty(), "{refusal:?}");
            assert!(refusal.cause.len() < 4096, "a refusal quotes a whole file");
        })
        .ok()
}

fn file(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    let folder = folder();
    let path = folder.path().join("file");
    write_private(&path, bytes).expect("a file can be written");
    if kind & 128 != 0 {
        // A mode that other users may read or write.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("the file is ours");
    }
    match kind % 4 {
        0 => {
            if let Some(Some(pin)) = shown(Pin::load(&path)) {
                pin.save(&path).expect("what was read can be written");
                assert_eq!(shown(Pin::load(&path)), Some(Some(pin)));
            }
        }
        1 => {
            let key = shown(signing_key(&path, "restore it"));
            assert!(
                kind & 128 == 0 || key.is_none() || bytes.is_empty(),
                "a key that others may read is used"
            );
        }
        2 => {
            let name = folder.path().join("tls.key.der");
            std::fs::rename(&path, &name).expect("a file can be renamed");
            shown(TlsKey::open(folder.path(), "muster", "restore it"));
        }
        _ => {
            drop(shown(read_private(&path)));
            std::fs::rename(&path, folder.path().join("version")).expect("a file can be renamed");
            let format = Format { version: "muster state 1\n", holds: "state of a test", brought: &[] };
            let _ = shown(format.age(folder.path()));
        }
    }
}

fn file_seeds() -> Vec<Vec<u8>> {
    let pin = Pin {
        addresses: vec!["127.0.0.1:7421".to_owned(), "host.example:1".to_owned()],
        tls_key: Sha256([3; 32]),
        origin: "muster.invalid/00".to_owned(),
        log_vkey: "muster.invalid/00+00112233+AQID".to_owned(),
    };
    let pin = {
        let folder = folder();
        let path = folder.path().join("pin");
        pin.save(&path).expect("a pin can be written");
        std::fs::read(&path).expect("the pin is there")
    };
    vec![
        tagged(0, &pin),
        tagged(1, &[7; 32]),
        tagged(129, &[7; 32]),
        tagged(2, b"-----BEGIN"),
        tagged(3, b"muster state 1\n"),
    ]
}

/// One result is damaged, the other one is still sent as it was signed.
fn outbox(data: &[u8]) {
    let folder = folder();
    let attempt = |fence| AttemptKey { cell: CellId([0xab; 32]), fence: Fence(fence) };
    let blobs: Vec<_> =
        [b"log".to_vec(), b"samples".to_vec()].map(|bytes| (BlobRef::of(&bytes), bytes)).into();
    let device = DeviceId("CPU-1".to_owned());
    let (outbox, waiting) = Outbox::open(folder.path()).expect("an empty outbox opens");
    assert!(waiting.is_empty());
    for fence in [3, 4] {
        outbox.put(attempt(fence), &device, b"envelope", &blobs).expect("a small result is kept");
    }
    let good = outbox.report(attempt(3)).expect("the result is sound");
    let bad = folder.path().join(format!("{}-4", attempt(4).cell));
    let mut cursor = Cursor::new(data);
    while !cursor.is_empty() {
        let names = ["device", "envelope", "blobs", "blobs/x"];
        let name = match cursor.byte() % 6 {
            4 => format!("blobs/{}", blobs[0].0.blake3),
            5 => format!("blobs/{}", blobs[1].0.blake3),
            other => names[usize::from(other)].to_owned(),
        };
        let path = bad.join(name);
        match cursor.byte() % 4 {
            0 => drop(std::fs::remove_file(&path)),
            1 => {
                let length = usize::from(cursor.byte());
                drop(std::fs::write(&path, cursor.bytes(length)));
            }
            2 => drop(std::fs::create_dir_all(&path)),
            _ => drop(std::fs::write(folder.path().join(format!("junk-{}", cursor.byte())), "x")),
        }
    }
    let (outbox, waiting) = Outbox::open(folder.path()).expect("an outbox with damage opens");
    assert!(waiting.contains(&(attempt(3), "CPU-1".to_owned())), "a sound result is forgotten");
    assert_eq!(outbox.report(attempt(3)).expect("it is still sound"), good);
    if let Ok(report) = outbox.report(attempt(4)) {
        for blob in report.blobs {
            let blob: BlobRef = blob.blob.into();
            let bytes = std::fs::read(outbox.blob(attempt(4), blob.blake3)).expect("a named blob is there");
            assert_eq!(BlobRef::of(&bytes), blob, "a blob is sent under another name");
        }
    }
}

fn outbox_seeds() -> Vec<Vec<u8>> {
    (0..6).flat_map(|name| (0..4).map(move |change| vec![name, change, 3, b'a', b'b', b'c'])).collect()
}
