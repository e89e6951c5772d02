//! Keys and pinned fingerprints as types. Secret bytes are wiped when dropped and never printed.

use crate::domain::{NodeId, Sha256};
use data_encoding::HEXLOWER;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use std::fmt;
use zeroize::Zeroizing;

/// An Ed25519 key that signs entries or checkpoints.
pub struct SecretKey(SigningKey);

impl SecretKey {
    /// From 32 random bytes.
    pub fn from_seed(seed: &Zeroizing<[u8; 32]>) -> Self {
        Self(SigningKey::from_bytes(seed))
    }
    /// The 32 bytes to be kept in a 0600 file.
    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }
    /// The other half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }
    /// Ed25519 signature over `message`.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {})", self.public().to_hex())
    }
}

/// An Ed25519 public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

/// Bytes that are no Ed25519 public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an Ed25519 public key")]
pub struct KeyError;

impl PublicKey {
    /// From the 32 bytes of the key; weak points are refused.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| KeyError)?;
        if key.is_weak() { Err(KeyError) } else { Ok(Self(key)) }
    }
    /// From 64 lower-case hex digits.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| KeyError)?;
        Self::from_bytes(&bytes.try_into().map_err(|_| KeyError)?)
    }
    /// The 32 bytes.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }
    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        HEXLOWER.encode(self.0.as_bytes())
    }
    /// SHA-256 of the key: the `keyid` of envelopes and the id of nodes.
    pub fn key_id(&self) -> Sha256 {
        Sha256::of(self.0.as_bytes())
    }
    /// The id of the node that signs with this key.
    pub fn node_id(&self) -> NodeId {
        NodeId(self.key_id().0)
    }
    /// Whether `signature` over `message` was made by this key (RFC 8032, strict).
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature).is_ok_and(|s| self.0.verify_strict(message, &s).is_ok())
    }
}
