//! Invites: the token that lets a node join once, as text and as its parts.
//!
//! ```text
//! muster-invite-1:<base64url without padding of>
//!   secret                32 bytes
//!   coordinator           32 bytes   SHA-256 of the SubjectPublicKeyInfo of the coordinator's TLS key
//!   expiry                 8 bytes   milliseconds since 1970, big-endian
//!   id                     8 bytes   names the invite in the journal and in node-enrol records
//!   addresses              1 byte    how many follow, at least one
//!     length, text         1 + n     `host:port` in ASCII
//!   checksum               4 bytes   first bytes of blake3 over all before: catches a token cut by a terminal
//! ```
//!
//! The coordinator keeps [`Invite::secret_hash`] and never the secret. A token is read from standard input or a
//! file, never from a command line.

use crate::domain::{Digest, Sha256};
use crate::refusal::Refusal;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use std::fmt;
use zeroize::Zeroizing;

/// What every token of this version starts with.
pub const PREFIX: &str = "muster-invite-1:";

/// Longest token: one line that a person can still copy.
pub const TEXT_MAX: usize = 2048;

/// More addresses than a coordinator has networks.
pub const ADDRESSES_MAX: usize = 8;

/// Its length is one byte in the token.
pub const ADDRESS_MAX: usize = 255;

const FIXED: usize = 32 + 32 + 8 + 8 + 1;
const CHECKSUM: usize = 4;

/// Names an invite; not secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InviteId(pub [u8; 8]);

impl fmt::Display for InviteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for InviteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InviteId({self})")
    }
}

/// The 256 bits that open the door; wiped when dropped and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct InviteSecret(Zeroizing<[u8; 32]>);

impl InviteSecret {
    /// From 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }
    /// The bytes, to be sent inside TLS and nowhere else.
    pub fn expose(&self) -> [u8; 32] {
        *self.0
    }
    /// What the coordinator keeps.
    pub fn hash(&self) -> Digest {
        secret_hash(&self.0)
    }
}

impl fmt::Debug for InviteSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InviteSecret(…)")
    }
}

/// The stored form of a secret: blake3 of its bytes. 256 random bits need no slow hash.
pub fn secret_hash(secret: &[u8; 32]) -> Digest {
    Digest::of(secret)
}

/// Everything that a node needs to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invite {
    pub secret: InviteSecret,
    /// The only TLS key that the node will talk to.
    pub coordinator: Sha256,
    pub expires_unix_ms: u64,
    pub id: InviteId,
    /// Where the coordinator listens, `host:port`, tried in order.
    pub addresses: Vec<String>,
}

impl Invite {
    /// The token as text. Refuses addresses that the format cannot hold.
    pub fn to_text(&self) -> Result<Zeroizing<String>, Refusal> {
        if self.addresses.is_empty() || self.addresses.len() > ADDRESSES_MAX {
            return Err(bad_addresses(format!("{} addresses", self.addresses.len())));
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(FIXED + CHECKSUM + 64));
        bytes.extend_from_slice(&self.secret.expose());
        bytes.extend_from_slice(self.coordinator.as_bytes());
        bytes.extend_from_slice(&self.expires_unix_ms.to_be_bytes());
        bytes.extend_from_slice(&self.id.0);
        bytes.push(u8::try_from(self.addresses.len()).map_err(|_| bad_addresses("too many"))?);
        for address in &self.addresses {
            check_address(address)?;
            bytes.push(u8::try_from(address.len()).map_err(|_| bad_addresses("an address is too long"))?);
            bytes.extend_from_slice(address.as_bytes());
        }
        let checksum = checksum(&bytes);
        bytes.extend_from_slice(&checksum);
        let text = Zeroizing::new(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes)));
        if text.len() > TEXT_MAX {
            return Err(bad_addresses("the addresses are too long together"));
        }
        Ok(text)
    }

    /// Parses a token; white space around it is accepted. Whether it has expired is the coordinator's business.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let text = text.trim();
        if text.len() > TEXT_MAX {
            return Err(malformed("it is longer than any invite"));
        }
        let Some(encoded) = text.strip_prefix(PREFIX) else {
            return Err(if text.starts_with("muster-invite-") {
                Refusal::new(
                    "join/invite-version",
                    "invite",
                    "this invite is of another version",
                    "use the version of muster-node that belongs to the coordinator",
                )
            } else {
                malformed("it does not start with `muster-invite-1:`")
            });
        };
        let bytes = Zeroizing::new(
            BASE64URL_NOPAD
                .decode(encoded.as_bytes())
                .map_err(|_| malformed("it is not base64url; part of it may be missing"))?,
        );
        let Some((body, sum)) = bytes.split_at_checked(bytes.len().saturating_sub(CHECKSUM)) else {
            return Err(malformed("it is cut short"));
        };
        if body.len() < FIXED || checksum(body) != sum {
            return Err(malformed("its checksum is wrong: part of it is missing or changed"));
        }
        parse_body(body)
    }

    /// What the coordinator keeps of the secret.
    pub fn secret_hash(&self) -> Digest {
        self.secret.hash()
    }
}

fn parse_body(body: &[u8]) -> Result<Invite, Refusal> {
    let mut rest = body;
    let secret = InviteSecret::new(take(&mut rest)?);
    let coordinator = Sha256(take(&mut rest)?);
    let expires_unix_ms = u64::from_be_bytes(take(&mut rest)?);
    let id = InviteId(take(&mut rest)?);
    let [count] = take(&mut rest)?;
    if count == 0 || usize::from(count) > ADDRESSES_MAX {
        return Err(malformed("it names no address or too many"));
    }
    let mut addresses = Vec::new();
    for _ in 0..count {
        let [length] = take(&mut rest)?;
        let (text, after) =
            rest.split_at_checked(usize::from(length)).ok_or_else(|| malformed("it is cut short"))?;
        rest = after;
        let text = std::str::from_utf8(text).map_err(|_| malformed("an address is not text"))?;
        check_address(text)?;
        addresses.push(text.to_owned());
    }
    if !rest.is_empty() {
        return Err(malformed("something follows its end"));
    }
    Ok(Invite { secret, coordinator, expires_unix_ms, id, addresses })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Refusal> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or_else(|| malformed("it is cut short"))?;
    *rest = tail;
    Ok(*head)
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let [a, b, c, d, ..] = Digest::of(bytes).0;
    [a, b, c, d]
}

/// Whether `address` is `host:port` in printable ASCII with a port that can be dialled.
pub fn check_address(address: &str) -> Result<(), Refusal> {
    let shape = address
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0));
    let printable = address.bytes().all(|byte| byte.is_ascii_graphic());
    if shape && printable && address.len() <= ADDRESS_MAX {
        Ok(())
    } else {
        Err(bad_addresses(format!(
            "`{}` is not host:port",
            address.escape_default().take(80).collect::<String>()
        )))
    }
}

fn malformed(cause: &'static str) -> Refusal {
    Refusal::new(
        "join/invite-format",
        "invite",
        cause,
        "copy the whole line that `muster node invite` printed, or ask for a new invite",
    )
}

fn bad_addresses(cause: impl Into<String>) -> Refusal {
    Refusal::new("join/invite-address", "invite", cause, "give one to eight addresses as host:port")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn invite() -> Invite {
        Invite {
            secret: InviteSecret::new([7; 32]),
            coordinator: Sha256([9; 32]),
            expires_unix_ms: 1_796_000_000_000,
            id: InviteId([1, 2, 3, 4, 5, 6, 7, 8]),
            addresses: vec!["192.0.2.1:7421".to_owned(), "[2001:db8::1]:7421".to_owned(), "lab:1".to_owned()],
        }
    }

    #[test]
    fn a_token_comes_back_as_it_was() {
        let text = invite().to_text().unwrap();
        assert!(text.starts_with(PREFIX) && text.is_ascii());
        assert_eq!(Invite::parse(&format!("  {}\r\n", *text)).unwrap(), invite());
        assert_eq!(invite().secret_hash(), Digest::of(&[7; 32]));
        assert_eq!(invite().id.to_string(), "0102030405060708");
    }

    #[test]
    fn the_secret_is_never_printed() {
        let text = format!("{:?}", invite());
        assert!(!text.contains("7, 7") && !text.contains("0707"), "{text}");
    }

    #[test]
    fn the_token_is_frozen() {
        let text = invite().to_text().unwrap();
        assert_eq!(
            Digest::of(text.as_bytes()).to_string(),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/wire-v1/invite-1.blake3"))
                .trim()
        );
    }

    #[test]
    fn every_truncation_and_every_changed_letter_is_refused() {
        let text = invite().to_text().unwrap();
        for end in 0..text.len() {
            assert!(Invite::parse(&text[..end]).is_err(), "cut to {end}");
        }
        for at in PREFIX.len()..text.len() {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(Invite::parse(&changed).unwrap_err().code, "join/invite-format", "changed at {at}");
        }
    }

    #[test]
    fn refusals_name_what_is_wrong() {
        let check =
            |text: &str, code: &str| assert_eq!(Invite::parse(text).unwrap_err().code, code, "{text}");
        check("", "join/invite-format");
        check("hunter2", "join/invite-format");
        check("muster-invite-2:AAAA", "join/invite-version");
        check("muster-invite-1:", "join/invite-format");
        check("muster-invite-1:AA=", "join/invite-format");
        check(&format!("muster-invite-1:{}", "A".repeat(TEXT_MAX)), "join/invite-format");
        for addresses in [
            vec![],
            vec!["x:1".to_owned(); 9],
            vec!["nowhere".to_owned()],
            vec!["a b:1".to_owned()],
            vec!["h:0".to_owned()],
            vec![":1".to_owned()],
            vec![format!("{}:1", "h".repeat(300))],
        ] {
            let bad = Invite { addresses, ..invite() };
            assert_eq!(bad.to_text().unwrap_err().code, "join/invite-address");
        }
    }

    proptest! {
        #[test]
        fn random_text_never_panics(text in "\\PC{0,200}", tail in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Invite::parse(&text);
            let _ = Invite::parse(&format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&tail)));
            let mut summed = tail.clone();
            summed.extend_from_slice(&checksum(&tail));
            let _ = Invite::parse(&format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&summed)));
        }
    }
}
