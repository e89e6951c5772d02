//! Signed notes and verifier keys (c2sp.org/signed-note), Ed25519 alone.

use data_encoding::{BASE64, HEXLOWER};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use fleet_config::domain::Sha256;
use std::fmt;
use std::str::FromStr;

/// Signature type: Ed25519 over the note's text.
const ED25519: u8 = 0x01;
/// Largest note that is parsed; a checkpoint with sixteen post-quantum cosignatures stays below it.
pub const NOTE_BYTES_MAX: u64 = 128 * 1024;
/// Most signature lines that are looked at. The specification asks for at least 16.
const SIGNATURES_MAX: usize = 100;
/// Longest key name that is taken.
const NAME_BYTES_MAX: usize = 255;
const SIGNATURE_PREFIX: &str = "— ";

/// Why a key's name or text is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("a key name must be 1 to 255 bytes without space, control character or `+`")]
    Name,
    #[error("a verifier key is spelled `name+<8 hex digits>+<base64>`")]
    Spelling,
    #[error("signature type {kind:#04x} is not known here, only 0x01 (Ed25519) is")]
    Type { kind: u8 },
    #[error("the key id {written} does not belong to this name and key, which have {computed}")]
    Id { written: String, computed: String },
    #[error("the bytes are not an Ed25519 public key")]
    Point,
}

/// Why a note is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    #[error("a note must be UTF-8 of at most 128 KiB without control characters")]
    Text,
    #[error("a note needs its text, an empty line and at least one signature line, each ended by a newline")]
    Shape,
    #[error("signature line {line} is malformed")]
    SignatureLine { line: usize },
    #[error("more than 100 signature lines")]
    TooManySignatures,
    #[error("the signature by `{name}` does not match the text")]
    BadSignature { name: String },
    #[error("no signature by `{name}` with this key")]
    NotSigned { name: String },
}

/// The public half of a log's key with its name, printed as a C2SP verifier key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    id: [u8; 4],
    key: VerifyingKey,
}

impl VerifierKey {
    /// The verifier key of an Ed25519 public key under a name.
    pub fn new(name: &str, key: VerifyingKey) -> Result<Self, KeyError> {
        check_name(name)?;
        Ok(Self { name: name.to_owned(), id: key_id(name, key.as_bytes()), key })
    }

    /// The name; for a log its origin.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first four bytes of SHA-256(name ‖ newline ‖ type ‖ public key).
    pub fn id(&self) -> [u8; 4] {
        self.id
    }

    /// Whether this key made `signature` over `bytes` by [`LogSigner::sign_bytes`] in the same context.
    pub fn verify_bytes(
        &self,
        context: &'static str,
        bytes: &[u8],
        signature: &[u8; 64],
    ) -> Result<(), NoteError> {
        let signature = Signature::from_bytes(signature);
        self.key
            .verify_strict(&in_context(context, bytes), &signature)
            .map_err(|_| NoteError::BadSignature { name: self.name.clone() })
    }

    /// The Ed25519 public key itself.
    pub fn public_key(&self) -> &VerifyingKey {
        &self.key
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let typed = [&[ED25519][..], self.key.as_bytes()].concat();
        write!(f, "{}+{}+{}", self.name, HEXLOWER.encode(&self.id), BASE64.encode(&typed))
    }
}

impl FromStr for VerifierKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(KeyError::Spelling);
        };
        check_name(name)?;
        let typed = decode_base64(key).ok_or(KeyError::Spelling)?;
        let (kind, key) = typed.split_first().ok_or(KeyError::Spelling)?;
        if *kind != ED25519 {
            return Err(KeyError::Type { kind: *kind });
        }
        let key: &[u8; 32] = key.try_into().map_err(|_| KeyError::Point)?;
        let key = VerifyingKey::from_bytes(key).map_err(|_| KeyError::Point)?;
        let verifier = Self::new(name, key)?;
        let computed = HEXLOWER.encode(&verifier.id);
        if id != computed {
            let written = id.chars().take(16).collect();
            return Err(KeyError::Id { written, computed });
        }
        Ok(verifier)
    }
}

/// The log's signing key with its name.
#[derive(Clone)]
pub struct LogSigner {
    key: SigningKey,
    verifier: VerifierKey,
}

impl LogSigner {
    /// A signer named `origin`. The log key is not the operator key: it signs notes and promises alone.
    pub fn new(origin: &str, key: SigningKey) -> Result<Self, KeyError> {
        let verifier = VerifierKey::new(origin, key.verifying_key())?;
        Ok(Self { key, verifier })
    }

    /// The public half.
    pub fn verifier(&self) -> &VerifierKey {
        &self.verifier
    }

    /// The note of `text` (which ends in a newline) with this signer's line.
    pub fn sign(&self, text: &str) -> String {
        let signature = self.key.sign(text.as_bytes());
        let bytes = [&self.verifier.id[..], &signature.to_bytes()].concat();
        format!("{text}\n{SIGNATURE_PREFIX}{} {}\n", self.verifier.name, BASE64.encode(&bytes))
    }

    /// Ed25519 signature over bytes that are no note, such as the promise of an acknowledgement: over `context` ‖
    /// 0x00 ‖ `bytes`. No note's text has a zero byte, so neither can pass for the other.
    pub fn sign_bytes(&self, context: &'static str, bytes: &[u8]) -> [u8; 64] {
        self.key.sign(&in_context(context, bytes)).to_bytes()
    }
}

impl fmt::Debug for LogSigner {
    /// Shows the public half alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSigner").field("verifier", &self.verifier.to_string()).finish_non_exhaustive()
    }
}

/// One line below a note's text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SignatureLine<'a> {
    name: &'a str,
    id: [u8; 4],
    signature: Vec<u8>,
}

/// A parsed note. Its text is worth nothing before [`Note::verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note<'a> {
    text: &'a str,
    signatures: Vec<SignatureLine<'a>>,
}

impl<'a> Note<'a> {
    /// Splits a note at its last empty line.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NoteError> {
        if bytes.len() as u64 > NOTE_BYTES_MAX {
            return Err(NoteError::Text);
        }
        let note = str::from_utf8(bytes).map_err(|_| NoteError::Text)?;
        if note.chars().any(|character| character.is_control() && character != '\n') {
            return Err(NoteError::Text);
        }
        let (text, _) = note.rsplit_once("\n\n").ok_or(NoteError::Shape)?;
        let text = &note[..text.len() + 1];
        let lines = note[text.len() + 1..].strip_suffix('\n').ok_or(NoteError::Shape)?;
        let mut signatures = Vec::new();
        for (line, content) in lines.split('\n').enumerate() {
            if line == SIGNATURES_MAX {
                return Err(NoteError::TooManySignatures);
            }
            let signature = signature_line(content).ok_or(NoteError::SignatureLine { line: line + 1 })?;
            signatures.push(signature);
        }
        Ok(Self { text, signatures })
    }

    /// The text, once `verifier` is found to have signed it. Lines by other keys are ignored; a line by this
    /// key (name and id) that fails voids the note.
    pub fn verify(&self, verifier: &VerifierKey) -> Result<&'a str, NoteError> {
        let mut signed = false;
        for line in &self.signatures {
            if line.name != verifier.name || line.id != verifier.id {
                continue;
            }
            let bad = || NoteError::BadSignature { name: verifier.name.clone() };
            let signature = Signature::from_slice(&line.signature).map_err(|_| bad())?;
            verifier.key.verify_strict(self.text.as_bytes(), &signature).map_err(|_| bad())?;
            signed = true;
        }
        if signed { Ok(self.text) } else { Err(NoteError::NotSigned { name: verifier.name.clone() }) }
    }

    /// Names in the signature lines, in order. Only [`Self::verify`] says whether one of them signed.
    pub fn signers(&self) -> impl Iterator<Item = &'a str> {
        self.signatures.iter().map(|line| line.name)
    }

    /// The text as it stands, for showing what an unverified note claims.
    pub fn unverified_text(&self) -> &'a str {
        self.text
    }
}

fn signature_line(line: &str) -> Option<SignatureLine<'_>> {
    let (name, signature) = line.strip_prefix(SIGNATURE_PREFIX)?.split_once(' ')?;
    check_name(name).ok()?;
    let bytes = decode_base64(signature)?;
    let (id, signature) = bytes.split_first_chunk::<4>()?;
    (!signature.is_empty()).then(|| SignatureLine { name, id: *id, signature: signature.to_vec() })
}

/// Bytes in their one spelling. The decoder also takes blocks that are padded one by one, in which the same bytes could be
/// written in many ways.
pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.as_bytes()).ok().filter(|bytes| BASE64.encode(bytes) == text)
}

fn in_context(context: &'static str, bytes: &[u8]) -> Vec<u8> {
    [context.as_bytes(), &[0], bytes].concat()
}

fn check_name(name: &str) -> Result<(), KeyError> {
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || c == '+';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(forbidden) {
        return Err(KeyError::Name);
    }
    Ok(())
}

fn key_id(name: &str, key: &[u8; 32]) -> [u8; 4] {
    let named = [name.as_bytes(), b"\n", &[ED25519], key].concat();
    let hash = Sha256::of(&named);
    let [a, b, c, d, ..] = hash.0;
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of c2sp.org/signed-note.
    const PUBLISHED: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";

    fn signer(name: &str, seed: u8) -> LogSigner {
        LogSigner::new(name, SigningKey::from_bytes(&[seed; 32])).unwrap()
    }

    #[test]
    fn the_published_verifier_key_is_read_and_printed() {
        let key: VerifierKey = PUBLISHED.parse().unwrap();
        assert_eq!(key.name(), "example.com/foo");
        assert_eq!(key.id(), [0x53, 0x0d, 0x90, 0x3a]);
        assert_eq!(key.to_string(), PUBLISHED);
    }

    #[test]
    fn broken_verifier_keys_are_refused() {
        let wrong_id = PUBLISHED.replace("530d903a", "530d903b");
        assert!(matches!(wrong_id.parse::<VerifierKey>(), Err(KeyError::Id { .. })));
        assert_eq!("a+530d903a".parse::<VerifierKey>(), Err(KeyError::Spelling));
        assert_eq!("a b+530d903a+AA==".parse::<VerifierKey>(), Err(KeyError::Name));
        assert_eq!("+530d903a+AA==".parse::<VerifierKey>(), Err(KeyError::Name));
        assert_eq!("a+530d903a+BAAA".parse::<VerifierKey>(), Err(KeyError::Type { kind: 4 }));
        assert_eq!("a+530d903a+AQAA".parse::<VerifierKey>(), Err(KeyError::Point));
        assert_eq!("a+530d903a+AQ==AAAA".parse::<VerifierKey>(), Err(KeyError::Spelling));
    }

    #[test]
    fn a_signed_note_verifies_under_its_key_alone() {
        let signer = signer("muster.invalid/log", 7);
        let note = signer.sign("one\n\ntwo\n");
        let parsed = Note::parse(note.as_bytes()).unwrap();
        assert_eq!(parsed.verify(signer.verifier()), Ok("one\n\ntwo\n"));
        let same_name = self::signer("muster.invalid/log", 8);
        let not_signed = NoteError::NotSigned { name: "muster.invalid/log".to_owned() };
        assert_eq!(parsed.verify(same_name.verifier()), Err(not_signed));
        let same_key = self::signer("muster.invalid/other", 7);
        assert!(parsed.verify(same_key.verifier()).is_err());
    }

    #[test]
    fn unknown_signatures_are_ignored_and_a_failing_known_one_voids_the_note() {
        let signer = signer("a", 1);
        let note = signer.sign("text\n");
        let with_unknown = format!("{note}— stranger AAAAAAAAAAAAAAAA\n");
        assert!(Note::parse(with_unknown.as_bytes()).unwrap().verify(signer.verifier()).is_ok());

        let line = signer.sign("other\n").rsplit_once("\n\n").unwrap().1.to_owned();
        let with_failing = format!("{note}{line}");
        assert!(matches!(
            Note::parse(with_failing.as_bytes()).unwrap().verify(signer.verifier()),
            Err(NoteError::BadSignature { .. })
        ));
    }

    #[test]
    fn signatures_over_bytes_hold_in_their_context_alone() {
        let signer = signer("a", 1);
        let signature = signer.sign_bytes("promise/1", b"bytes");
        let verifier = signer.verifier();
        assert_eq!(verifier.verify_bytes("promise/1", b"bytes", &signature), Ok(()));
        assert!(verifier.verify_bytes("promise/2", b"bytes", &signature).is_err());
        assert!(verifier.verify_bytes("promise/1", b"other", &signature).is_err());
        assert!(self::signer("a", 2).verifier().verify_bytes("promise/1", b"bytes", &signature).is_err());
    }

    #[test]
    fn every_flipped_bit_of_a_note_is_noticed() {
        let signer = signer("muster.invalid/log", 3);
        let note = signer.sign("origin\n1\nroot\n").into_bytes();
        for bit in 0..note.len() * 8 {
            let mut flipped = note.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let verdict =
                Note::parse(&flipped).and_then(|note| note.verify(signer.verifier()).map(str::to_owned));
            assert!(verdict.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn shapes_that_are_no_note_are_refused() {
        for wrong in [
            "",
            "text\n",
            "text\n\n",
            "text\n\n— a AAAAAAAA",
            "text\n\nno dash\n",
            "te\txt\n\n— a AAAAAAAA\n",
        ] {
            assert!(Note::parse(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        assert_eq!(Note::parse(&[0xff, b'\n']), Err(NoteError::Text));
        let many = format!("text\n\n{}", "— a AAAAAAAA\n".repeat(SIGNATURES_MAX + 1));
        assert_eq!(Note::parse(many.as_bytes()), Err(NoteError::TooManySignatures));
    }
}
