//! Lets nodes notice a restart at once: stateless resets under a key that outlives the process.
//!
//! A coordinator that was killed says no goodbye. The next one knows none of the old connections and answers their
//! packets with a stateless reset (RFC 9000 §10.3), which a node believes only if its token fits the one that the
//! old process gave it. So the token's key is derived from the TLS key of the state folder. Without it a node would wait
//! for the idle timeout. A connection id here is 8 bytes that any process of this coordinator takes for its own.

use quinn::crypto::{CryptoError, HmacKey};
use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a connection id; the same in every process, since a packet does not say it.
const ID_BYTES: usize = 8;

/// What the key is for, as blake3's key derivation wants it.
const CONTEXT: &str = "muster coordinator 1 QUIC stateless reset";

/// Settings of an endpoint whose resets are made with a key derived from `secret`. `seed` is random: connection ids
/// are drawn from it, so that none comes again in another process.
pub(super) fn endpoint_config(secret: &[u8], seed: [u8; 32]) -> EndpointConfig {
    let mut config = EndpointConfig::new(Arc::new(ResetKey(blake3::derive_key(CONTEXT, secret))));
    config.cid_generator(move || Box::new(Ids { seed, next: 0 }));
    config
}

struct ResetKey([u8; 32]);

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        blake3::Hasher::new_keyed(&self.0).update(data).finalize_xof().fill(signature_out);
    }
    fn signature_len(&self) -> usize {
        blake3::OUT_LEN
    }
    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let expected = blake3::keyed_hash(&self.0, data);
        // Comparing with blake3's own type takes the same time wherever the difference is.
        let given = blake3::Hash::from_slice(signature).map_err(|_| CryptoError)?;
        if expected == given { Ok(()) } else { Err(CryptoError) }
    }
}

struct Ids {
    seed: [u8; 32],
    next: u64,
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let drawn = blake3::keyed_hash(&self.seed, &self.next.to_le_bytes());
        self.next += 1;
        ConnectionId::new(&drawn.as_bytes()[..ID_BYTES])
    }
    fn cid_len(&self) -> usize {
        ID_BYTES
    }
    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_fits_its_data_and_its_key_alone() {
        let key = ResetKey(blake3::derive_key(CONTEXT, b"one"));
        let mut signature = [0; 32];
        key.sign(b"data", &mut signature);
        assert!(key.verify(b"data", &signature).is_ok());
        assert!(key.verify(b"date", &signature).is_err());
        assert!(key.verify(b"data", &signature[..16]).is_err());
        assert!(ResetKey(blake3::derive_key(CONTEXT, b"two")).verify(b"data", &signature).is_err());
    }

    #[test]
    fn connection_ids_differ_between_calls_and_processes() {
        let (mut first, mut second) = (Ids { seed: [1; 32], next: 0 }, Ids { seed: [2; 32], next: 0 });
        let drawn = [first.generate_cid(), first.generate_cid(), second.generate_cid()];
        assert!(drawn[0] != drawn[1] && drawn[0] != drawn[2] && drawn[1] != drawn[2]);
        assert!(drawn.iter().all(|id| id.len() == ID_BYTES));
    }
}
