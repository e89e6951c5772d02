//! Golden bytes of assignments, and what bad bytes do.

use super::*;
use crate::domain::HoldoutSection;
use crate::wire::codec::{self, PREFIX};
use crate::wire::{FRAME_MAX, Version};
use data_encoding::HEXLOWER;
use proptest::prelude::*;

fn blob(tag: u8) -> Blob {
    Blob { blake3: [tag; 32], sha256: [tag ^ 0xff; 32], size: u64::from(tag) * 1000 }
}

fn searching() -> Assign {
    Assign {
        submission: [0x51; 32],
        cell: [0xc1; 32],
        fence: 70_000,
        task: blob(1),
        candidate: blob(2),
        policy: blob(3),
        device: "CPU-7f3a".to_owned(),
        nonce: [0x52; 32],
        seeds: vec![1, 250, 251, u64::from(u32::MAX) + 1],
        compile_ms: 60_000,
        run_ms: 120_000,
        queued_ms: 5,
        sealed: None,
    }
}

fn sealed(section: Vec<u8>) -> Sealed {
    Sealed { commitment: [0x71; 32], opening: 3, record: [0x72; 32], salt: [0x73; 32], section }
}

fn verifying() -> Assign {
    Assign { sealed: Some(sealed(br#"{"cases":[]}"#.to_vec())), ..searching() }
}

#[track_caller]
fn golden(message: &Assign, name: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/wire-v2");
    let path = folder.join(format!("{name}.hex"));
    let frame = codec::encode(message).unwrap();
    let hex = HEXLOWER.encode(&frame);
    if std::env::var_os("MUSTER_WRITE_VECTORS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, format!("{hex}\n")).unwrap();
    }
    assert_eq!(hex, std::fs::read_to_string(&path).unwrap().trim(), "golden bytes of {name}");
    let body = &frame[PREFIX..];
    assert_eq!(codec::decode::<Assign>(body).unwrap(), *message);
    for end in 0..body.len() {
        assert!(codec::decode::<Assign>(&body[..end]).is_err(), "{name} cut to {end} bytes decodes");
    }
}

#[test]
fn assignments_have_their_golden_bytes() {
    golden(&searching(), "assign_searching");
    golden(&verifying(), "assign_verifying");
}

#[test]
fn version_one_says_the_same_of_a_search_and_has_no_word_for_a_holdout() {
    let plain = searching().to_v1().unwrap();
    assert_eq!(Assign::from(plain), searching());
    assert_eq!(verifying().to_v1(), None, "an older node would run the open cases alone and not know");
}

#[test]
fn what_is_sealed_does_not_show_in_a_log() {
    let shown = format!("{:?}", Assign { sealed: Some(sealed(b"dims 123321".to_vec())), ..searching() });
    assert!(
        !shown.contains("123321") && !shown.contains("100, 105, 109") && !shown.contains("115, 115"),
        "{shown}"
    );
}

#[test]
fn the_largest_section_fits_into_a_frame() {
    let largest = Assign { sealed: Some(sealed(vec![0xff; HoldoutSection::BYTES_MAX])), ..searching() };
    assert!(codec::encode(&largest).unwrap().len() < FRAME_MAX);
}

#[test]
fn versions_are_known_by_their_alpn() {
    for version in Version::ALL {
        assert_eq!(Version::of(version.alpn()), Some(version));
    }
    assert_eq!(Version::of(b"muster/3"), None);
    assert_eq!(Version::offered()[0], b"muster/2", "the newest first");
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        let _ = codec::decode::<Assign>(&bytes);
    }
}
