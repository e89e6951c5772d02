//! What measures: version, commit and digest of this executable.

use fleet_config::domain::Digest;
use ledger::entry::predicate::Harness;
use std::io::Read;

/// The running executable, even after an update replaced its file.
const OWN_BINARY: &str = "/proc/self/exe";

/// This build of the node. Reads the executable, so it is called once, at start.
pub fn harness() -> std::io::Result<Harness> {
    let mut file = std::fs::File::open(OWN_BINARY)?;
    let mut hasher = blake3::Hasher::new();
    let mut chunk = vec![0_u8; 1 << 20];
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            break;
        }
        hasher.update(&chunk[..count]);
    }
    Ok(Harness {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        digest: Digest(*hasher.finalize().as_bytes()),
        commit: env!("MUSTER_COMMIT").to_owned(),
        dirty: env!("MUSTER_DIRTY") == "true",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_of_this_executable() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let harness = harness().unwrap();
        assert_eq!(harness.digest, Digest::of(&bytes));
        assert!(harness.commit.is_empty() || harness.commit.len() == 40, "{}", harness.commit);
    }
}
