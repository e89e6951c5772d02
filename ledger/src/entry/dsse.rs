//! The envelope: DSSE 1.0.2 with exactly one Ed25519 signature, in canonical form.
//!
//! Format: secure-systems-lab/dsse, `protocol.md` (pre-authentication encoding) and `envelope.md`. `keyid` is an
//! unauthenticated hint there; ours is the hex SHA-256 of the public key and ingest demands that it fits.

use data_encoding::{BASE64, BASE64URL};
use fleet_config::domain::canonical::{CanonicalError, to_bytes};
use fleet_config::domain::{RecordId, Sha256};
use fleet_config::identity::{PublicKey, SecretKey};
use serde::{Deserialize, Serialize};

/// The payloadType of in-toto statements.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// Most bytes of one entry. Bundles hold 65,535 (their length prefix has 16 bits); half of it leaves room for
/// envelopes that grow, and anything larger belongs into a blob.
pub const ENTRY_BYTES_MAX: usize = 32 * 1024;

/// One signed payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    pub payload_type: String,
    pub payload: Vec<u8>,
    /// As written in the envelope: a hint.
    pub key_id: String,
    pub signature: Vec<u8>,
}

/// Why bytes are no envelope.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    #[error("{size} bytes are more than the {ENTRY_BYTES_MAX} of an entry")]
    TooLarge { size: usize },
    #[error("no DSSE envelope: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{count} signatures; an entry has exactly one")]
    SignatureCount { count: usize },
    #[error("{field} is not base64")]
    Base64 { field: &'static str },
    #[error("the envelope is not in canonical form (RFC 8785, standard base64): its value has other bytes")]
    NotCanonical,
    #[error(transparent)]
    Canonical(#[from] CanonicalError),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvelopeText {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: Vec<SignatureText>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureText {
    #[serde(default)]
    keyid: String,
    sig: String,
}

/// The bytes that a DSSE signature covers: `DSSEv1 <len(type)> <type> <len(body)> <body>`.
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

impl Envelope {
    /// Signs `payload`.
    pub fn sign(payload: Vec<u8>, key: &SecretKey) -> Self {
        let signature = key.sign(&pae(PAYLOAD_TYPE, &payload)).to_vec();
        let key_id = key.public().key_id().to_string();
        Self { payload_type: PAYLOAD_TYPE.to_owned(), payload, key_id, signature }
    }

    /// Its canonical bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CanonicalError> {
        to_bytes(&EnvelopeText {
            payload: BASE64.encode(&self.payload),
            payload_type: self.payload_type.clone(),
            signatures: vec![SignatureText {
                keyid: self.key_id.clone(),
                sig: BASE64.encode(&self.signature),
            }],
        })
    }

    /// Reads any DSSE envelope with one signature, in either base64 alphabet, canonical or not.
    pub fn parse(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        if bytes.len() > ENTRY_BYTES_MAX {
            return Err(EnvelopeError::TooLarge { size: bytes.len() });
        }
        let text: EnvelopeText = serde_json::from_slice(bytes)?;
        let count = text.signatures.len();
        let [signature]: [SignatureText; 1] =
            text.signatures.try_into().map_err(|_| EnvelopeError::SignatureCount { count })?;
        Ok(Self {
            payload_type: text.payload_type,
            payload: decode("payload", &text.payload)?,
            key_id: signature.keyid,
            signature: decode("sig", &signature.sig)?,
        })
    }

    /// Reads an envelope that must be in canonical form.
    pub fn parse_canonical(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        let envelope = Self::parse(bytes)?;
        if envelope.to_bytes()? == bytes { Ok(envelope) } else { Err(EnvelopeError::NotCanonical) }
    }

    /// blake3 of the payload: the name of the record, whatever envelope carries it.
    pub fn record(&self) -> RecordId {
        RecordId(*blake3::hash(&self.payload).as_bytes())
    }

    /// The key id, where the hint is one.
    pub fn key_id(&self) -> Option<Sha256> {
        self.key_id.parse().ok()
    }

    /// Whether `key` signed the payload (RFC 8032, strict).
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        key.verifies(&pae(&self.payload_type, &self.payload), &self.signature)
    }
}

fn decode(field: &'static str, text: &str) -> Result<Vec<u8>, EnvelopeError> {
    let encoding = if text.contains(['-', '_']) { BASE64URL } else { BASE64 };
    encoding.decode(text.as_bytes()).map_err(|_| EnvelopeError::Base64 { field })
}
