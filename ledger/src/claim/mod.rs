//! Claims: a signed sentence about how fast a candidate is, and whether a ledger bears it out.
//!
//! A claim names its question (task, candidate, class, case), the tree that answers it, what was found there and what
//! stands behind it: its denominators. [`Claim::of`] words one, [`SignedClaim::sign`] signs it with a named key,
//! `check` asks the ledger the same question again, at the claimed size and now. Pure: entries and roots come from
//! the caller, blobs through a function. `docs/LEDGER.md` has the format.

mod answer;
mod check;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Denominators, Found, Names, Question, ask};
pub use check::{Finding, Grounds, Report, Verdict, check, judge};

use crate::log::{LogSigner, VerifierKey};
use data_encoding::BASE64;
use fleet_config::domain::canonical::{CanonicalError, from_bytes, to_bytes};
use fleet_config::domain::{PartsPerBillion, Sha256};
use serde::{Deserialize, Serialize};

/// Of this version of the form; also the context of its signature.
pub const FORMAT: &str = "muster.claim/1";
/// Largest file that is read as a claim.
pub const CLAIM_BYTES_MAX: u64 = 64 * 1024;

/// The ratio of a candidate that is as fast as the baseline.
const ONE: PartsPerBillion = PartsPerBillion(1_000_000_000);

/// The tree that a claim is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    pub origin: String,
    pub size: u64,
    pub root: Sha256,
}

/// What somebody says of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Always [`FORMAT`].
    pub format: String,
    /// For people; it must be the one that follows from the other fields and the ledger.
    pub sentence: String,
    pub question: Question,
    /// The ratio to the baseline that the candidate reaches or exceeds, says the claim. Above one.
    pub at_least: PartsPerBillion,
    pub tree: Tree,
    pub found: Found,
    pub denominators: Denominators,
}

impl Claim {
    /// The claim that `answer` to `question` in `tree` shows at least so many times the speed of the baseline.
    pub fn of(question: Question, at_least: PartsPerBillion, tree: Tree, answer: &Answer) -> Self {
        let sentence = answer.names.sentence(&question, at_least, &tree, &answer.found);
        Self {
            format: FORMAT.to_owned(),
            sentence,
            question,
            at_least,
            tree,
            found: answer.found.clone(),
            denominators: answer.denominators.clone(),
        }
    }
}

/// A claim with the name and the signature of whoever makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedClaim {
    pub claim: Claim,
    /// C2SP verifier key: name, key id and Ed25519 key.
    pub signer: String,
    /// Standard base64, over `muster.claim/1` ‖ 0x00 ‖ the canonical bytes of `claim`.
    pub signature: String,
}

/// Why bytes are no claim.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("no claim in canonical form: {0}")]
    Canonical(#[from] CanonicalError),
    #[error("the form `{0}` is not known here, only {FORMAT} is")]
    Format(String),
    #[error("a claim of {size} bytes, at most {CLAIM_BYTES_MAX} are read")]
    TooLarge { size: usize },
}

impl SignedClaim {
    /// Signs `claim`.
    pub fn sign(claim: Claim, signer: &LogSigner) -> Result<Self, ClaimError> {
        let signature = BASE64.encode(&signer.sign_bytes(FORMAT, &to_bytes(&claim)?));
        Ok(Self { claim, signer: signer.verifier().to_string(), signature })
    }

    /// The bytes of the file: canonical JSON and a line break.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ClaimError> {
        let mut bytes = to_bytes(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Reads a file. Nothing of it is believed before [`SignedClaim::signed_by`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ClaimError> {
        if bytes.len() as u64 > CLAIM_BYTES_MAX {
            return Err(ClaimError::TooLarge { size: bytes.len() });
        }
        let signed: Self = from_bytes(bytes.strip_suffix(b"\n").unwrap_or(bytes))?;
        match signed.claim.format.as_str() {
            FORMAT => Ok(signed),
            other => Err(ClaimError::Format(other.chars().take(40).collect())),
        }
    }

    /// The key that signed it, or why none did.
    pub fn signed_by(&self) -> Result<VerifierKey, String> {
        let key: VerifierKey =
            self.signer.parse().map_err(|error| format!("the signer is no verifier key: {error}"))?;
        let signature = BASE64.decode(self.signature.as_bytes()).ok();
        let signature: Option<[u8; 64]> = signature.and_then(|bytes| bytes.try_into().ok());
        let signature = signature.ok_or("the signature is not 64 bytes in base64")?;
        let bytes = to_bytes(&self.claim).map_err(|error| error.to_string())?;
        key.verify_bytes(FORMAT, &bytes, &signature).map_err(|error| error.to_string())?;
        Ok(key)
    }
}

/// A ratio as people write it: `1.8`, without trailing zeros.
pub fn decimal(ratio: PartsPerBillion) -> String {
    let (whole, part) = (ratio.0 / ONE.0, ratio.0 % ONE.0);
    let text = format!("{whole}.{part:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reads such a ratio, exactly. `None` for other spellings, more than nine places, or a million and more.
pub fn parse_decimal(text: &str) -> Option<PartsPerBillion> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str, most: usize| {
        !digits.is_empty() && digits.len() <= most && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole, 6) || !is_number(part, 9) {
        return None;
    }
    let (whole, part): (u64, u64) = (whole.parse().ok()?, format!("{part:0<9}").parse().ok()?);
    Some(PartsPerBillion(whole * ONE.0 + part))
}
