//! Checkpoints: origin, size and root of the log, signed as a note (c2sp.org/tlog-checkpoint).

use super::note::{LogSigner, Note, NoteError, VerifierKey, decode_base64};
use data_encoding::BASE64;
use fleet_config::domain::Sha256;

/// What a log says of itself at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Schemeless URL that names the log for life; equal to the name of its key.
    pub origin: String,
    /// Number of entries.
    pub size: u64,
    /// Root over these entries.
    pub root: Sha256,
}

/// Why a checkpoint is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    #[error(transparent)]
    Note(#[from] NoteError),
    #[error("a checkpoint has the lines origin, size and base64 root")]
    Text,
    #[error("the checkpoint is for the log `{found}`, not `{expected}`")]
    Origin { found: String, expected: String },
}

impl Checkpoint {
    /// The text that is signed.
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, BASE64.encode(self.root.as_bytes()))
    }

    /// The signed note.
    pub fn sign(&self, signer: &LogSigner) -> String {
        signer.sign(&self.text())
    }

    /// Reads a checkpoint's text. Extension lines are allowed and say nothing to us.
    pub fn parse_text(text: &str) -> Result<Self, CheckpointError> {
        let mut lines = text.strip_suffix('\n').ok_or(CheckpointError::Text)?.split('\n');
        let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next()) else {
            return Err(CheckpointError::Text);
        };
        if origin.is_empty() || lines.any(str::is_empty) {
            return Err(CheckpointError::Text);
        }
        let number: u64 = size.parse().map_err(|_| CheckpointError::Text)?;
        let root = decode_base64(root).ok_or(CheckpointError::Text)?;
        let root = Sha256(root.try_into().map_err(|_| CheckpointError::Text)?);
        // A size has one spelling: no sign, no leading zero.
        if number.to_string() != size {
            return Err(CheckpointError::Text);
        }
        Ok(Self { origin: origin.to_owned(), size: number, root })
    }

    /// Reads a signed note, believing `verifier` alone.
    pub fn open(note: &[u8], verifier: &VerifierKey) -> Result<Self, CheckpointError> {
        let checkpoint = Self::parse_text(Note::parse(note)?.verify(verifier)?)?;
        if checkpoint.origin != verifier.name() {
            let expected = verifier.name().to_owned();
            return Err(CheckpointError::Origin { found: checkpoint.origin, expected });
        }
        Ok(checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tree::empty_root;
    use ed25519_dalek::SigningKey;

    fn signer() -> LogSigner {
        LogSigner::new("muster.invalid/0011223344556677", SigningKey::from_bytes(&[5; 32])).unwrap()
    }

    #[test]
    fn the_text_is_three_lines() {
        let checkpoint = Checkpoint { origin: "example.com/log".to_owned(), size: 0, root: empty_root() };
        let text = "example.com/log\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n";
        assert_eq!(checkpoint.text(), text);
        assert_eq!(Checkpoint::parse_text(text), Ok(checkpoint.clone()));
        assert_eq!(Checkpoint::parse_text(&format!("{text}extension\n")), Ok(checkpoint));
    }

    #[test]
    fn other_texts_are_refused() {
        let root = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        let texts = [
            format!("a\n00\n{root}\n"),
            format!("a\n+1\n{root}\n"),
            format!("a\n-1\n{root}\n"),
            format!("a\n18446744073709551616\n{root}\n"),
            format!("\n1\n{root}\n"),
            format!("a\n1\n{root}"),
            format!("a\n1\n{root}\n\n"),
            "a\n1\nAAAA\n".to_owned(),
            "a\n1\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV=\n".to_owned(),
            "a\n1\n".to_owned(),
            // The same 32 bytes, padded in the middle.
            "a\n1\nBAQ=BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE\n".to_owned(),
        ];
        for text in texts {
            assert_eq!(Checkpoint::parse_text(&text), Err(CheckpointError::Text), "{text:?}");
        }
    }

    #[test]
    fn a_checkpoint_of_another_log_is_refused_even_if_signed() {
        let signer = signer();
        let origin = signer.verifier().name().to_owned();
        let good = Checkpoint { origin: origin.clone(), size: 3, root: empty_root() };
        assert_eq!(Checkpoint::open(good.sign(&signer).as_bytes(), signer.verifier()), Ok(good));
        let foreign = Checkpoint { origin: "other".to_owned(), size: 3, root: empty_root() };
        assert_eq!(
            Checkpoint::open(foreign.sign(&signer).as_bytes(), signer.verifier()),
            Err(CheckpointError::Origin { found: "other".to_owned(), expected: origin })
        );
    }
}
