//! Whether the keys of a state folder are those of its ledger. A key file of the right size that holds other bytes
//! is a key too, and would otherwise look like a damaged ledger.

use crate::state::{Layout, io};
use fleet_config::refusal::Refusal;
use ledger::log::VerifierKey;
use ledger::log::note::{NOTE_BYTES_MAX, Note, NoteError};
use std::fs::File;
use std::io::{ErrorKind, Read};

/// Compares the keys with the newest checkpoint. A checkpoint that is absent or damaged says nothing of keys: the
/// ledger's own reader says what is wrong with it.
pub(crate) fn check(layout: &Layout, verifier: &VerifierKey) -> Result<(), Refusal> {
    let Some(origin) = stranger_of(layout, verifier)? else { return Ok(()) };
    let (file, cause) = if origin == verifier.name() {
        ("log", "the ledger's checkpoint was signed by another key than this one".to_owned())
    } else {
        let cause = format!("this key makes the origin {}, and the ledger's is {origin}", verifier.name());
        ("operator", cause)
    };
    Err(Refusal::new(
        "state/key-mismatch",
        layout.keys().join(file).display().to_string(),
        cause,
        "restore this key file from a backup: a ledger keeps its keys for life; if the key is right, the checkpoint was changed: restore both folders",
    ))
}

/// The same for the verifier key that lies in the folder for readers.
pub(crate) fn check_verifier(layout: &Layout, verifier: &VerifierKey) -> Result<(), Refusal> {
    match stranger_of(layout, verifier)? {
        None => Ok(()),
        Some(origin) => Err(Refusal::new(
            "state/key-mismatch",
            layout.keys().join("log.vkey").display().to_string(),
            format!("the checkpoint of the ledger {origin} was signed by another key than this one"),
            "start the coordinator, which writes this file again from keys/log; if that changes nothing, the checkpoint was changed",
        )),
    }
}

/// The origin that the checkpoint claims, if it is whole and has no signature by `verifier`.
fn stranger_of(layout: &Layout, verifier: &VerifierKey) -> Result<Option<String>, Refusal> {
    let path = layout.ledger().join("checkpoint");
    let refuse = |error| io(&path.display().to_string(), &error);
    let mut bytes = Vec::new();
    match File::open(&path) {
        Ok(file) => file.take(NOTE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(refuse)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refuse(error)),
    };
    let Ok(note) = Note::parse(&bytes) else { return Ok(None) };
    Ok(match note.verify(verifier) {
        Err(NoteError::NotSigned { name: _ }) => note.unverified_text().lines().next().map(str::to_owned),
        Ok(_)
        | Err(
            NoteError::Text
            | NoteError::Shape
            | NoteError::SignatureLine { line: _ }
            | NoteError::TooManySignatures
            | NoteError::BadSignature { name: _ },
        ) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::log::LogSigner;

    fn signer(origin: &str, seed: u8) -> LogSigner {
        LogSigner::new(origin, ed25519_dalek::SigningKey::from_bytes(&[seed; 32])).unwrap()
    }

    #[test]
    fn another_key_is_told_from_a_damaged_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::of(folder.path());
        let right = signer("muster.invalid/a", 1);
        check(&layout, right.verifier()).unwrap();
        std::fs::create_dir_all(layout.ledger()).unwrap();
        let note = right.sign("muster.invalid/a\n1\nAAAA\n");
        let write = |text: &str| std::fs::write(layout.ledger().join("checkpoint"), text).unwrap();
        write(&note);
        check(&layout, right.verifier()).unwrap();
        let place = |verifier: &VerifierKey| {
            let refusal = check(&layout, verifier).unwrap_err();
            assert_eq!(refusal.code, "state/key-mismatch");
            refusal.place.rsplit('/').next().unwrap().to_owned()
        };
        assert_eq!(place(signer("muster.invalid/a", 2).verifier()), "log");
        assert_eq!(place(signer("muster.invalid/b", 1).verifier()), "operator");
        let refusal = check_verifier(&layout, signer("muster.invalid/a", 2).verifier()).unwrap_err();
        assert!(refusal.place.ends_with("log.vkey"), "{refusal}");
        for damaged in [note.replace("\n1\n", "\n2\n"), "garbage\n".to_owned(), String::new()] {
            write(&damaged);
            check(&layout, right.verifier()).unwrap();
        }
    }
}
