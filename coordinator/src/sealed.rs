//! Sealed holdout sections in the state folder: read for a verification lease, and for nothing else.
//!
//! What is read here goes to the supervisor that holds the lease. Errors name the commitment and never what lies under it.

use crate::state::read_private;
use data_encoding::HEXLOWER;
use fleet_config::domain::{Commitment, Holdout, HoldoutSection};
use fleet_config::refusal::Refusal;
use std::path::Path;
use zeroize::Zeroizing;

/// A section with the salt that opens its commitment.
pub(crate) struct Opened {
    pub salt: [u8; 32],
    /// Canonical bytes.
    pub section: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opened(…)")
    }
}

/// Reads the section of `holdout` in the folder of sealed sections, and checks that it is the one committed to.
pub(crate) fn open(folder: &Path, holdout: &Holdout) -> Result<Opened, Refusal> {
    let refuse = |cause: &str| {
        let next = "restore the folder `sealed` of the state folder from a backup, or add the task again";
        Err(Refusal::new("verify/sealed-section", holdout.commitment.0.to_string(), cause, next))
    };
    let Some(bytes) = read_private(&folder.join(holdout.commitment.0.to_string()))? else {
        return refuse("the sealed section of this task is not here");
    };
    let Ok(sealed) = serde_json::from_slice::<crate::http::body::SealedBody>(&bytes) else {
        return refuse("the sealed section cannot be read");
    };
    let salt: Option<[u8; 32]> =
        HEXLOWER.decode(sealed.salt.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    let section = Zeroizing::new(sealed.section.into_bytes());
    match salt {
        _ if section.len() > HoldoutSection::BYTES_MAX => {
            refuse("the sealed section is too large to be opened")
        }
        Some(salt) if Commitment::of(&salt, &section) == holdout.commitment => Ok(Opened { salt, section }),
        Some(_) | None => refuse("the sealed section is not the one that the task commits to"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::write_private;

    #[test]
    fn a_section_opens_its_own_commitment_and_no_refusal_tells_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let (salt, secret) = ([7; 32], r#"{"dims":123321}"#);
        let holdout = Holdout { commitment: Commitment::of(&salt, secret.as_bytes()), cases: 1 };
        let path = folder.path().join(holdout.commitment.0.to_string());
        let write = |salt: &[u8], section: &str| {
            let text = serde_json::json!({"salt": HEXLOWER.encode(salt), "section": section}).to_string();
            write_private(&path, text.as_bytes()).unwrap();
        };
        assert_eq!(open(folder.path(), &holdout).unwrap_err().code, "verify/sealed-section");
        write(&salt, secret);
        let opened = open(folder.path(), &holdout).unwrap();
        assert_eq!((opened.salt, opened.section.as_slice()), (salt, secret.as_bytes()));
        assert!(!format!("{opened:?}").contains("123321"));
        for (salt, section) in
            [(&[8; 32][..], secret), (&salt[..], r#"{"dims":123322}"#), (&salt[..5], secret)]
        {
            write(salt, section);
            let refusal = open(folder.path(), &holdout).unwrap_err();
            assert!(!format!("{refusal:?}").contains("12332"), "{refusal}");
        }
        write(&salt, &"x".repeat(HoldoutSection::BYTES_MAX + 1));
        assert!(open(folder.path(), &holdout).unwrap_err().cause.contains("too large"));
    }
}
