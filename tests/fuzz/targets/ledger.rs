//! Envelopes, entries of every kind, and the blobs that verification reads: what is accepted is canonical.

use super::repository::{files, tagged};
use super::{Cursor, Target};
use fleet_config::domain::canonical::{from_bytes, to_bytes};
use fleet_config::domain::{BlobRef, LeafIndex, RecordId};
use fleet_config::identity::SecretKey;
use ledger::dossier::{Files, archive, check as check_dossier};
use ledger::entry::predicate::{AttemptGranted, Grant};
use ledger::entry::{
    Entry, Envelope, Signers, case_timing, check, decode_samples, encode_samples, read_grants, seal_grants,
};
use ledger::log::VerifierKey;
use ledger::stats;
use std::sync::OnceLock;
use zeroize::Zeroizing;

pub(crate) const ENVELOPE: Target = Target::new("envelope", envelope, envelope_seeds);
pub(crate) const ENTRY: Target = Target::new("entry", entry, entry_seeds);
/// The decompressor makes room for the largest series that a frame may claim, and the series is then decoded.
pub(crate) const SAMPLES: Target = Target::new("samples", samples, sample_seeds).memory(64 << 20);

/// Both forms are held at once: as files and as an archive.
pub(crate) const DOSSIER: Target = Target::new("dossier", dossier, dossier_seeds).length(16384);

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&Zeroizing::new([seed; 32]))
}

/// The signers of the vectors' ledger: their operator has the seed 1, their node the seed 2.
fn signers() -> &'static Signers {
    static SIGNERS: OnceLock<Signers> = OnceLock::new();
    SIGNERS.get_or_init(|| {
        let mut signers = Signers::new();
        for (leaf, name) in ["genesis", "node-enrol"].iter().enumerate() {
            let bytes = super::repository::file(&format!("tests/vectors/entries/{name}.json"));
            signers.take_in(LeafIndex(leaf as u64), bytes.trim_ascii()).expect("the vector is sound");
        }
        signers
    })
}

fn envelope(data: &[u8]) {
    let parsed = Envelope::parse(data);
    let Ok(canonical) = Envelope::parse_canonical(data) else {
        assert!(check(data, signers()).is_err(), "an entry that is not canonical is accepted");
        return;
    };
    assert_eq!(parsed.expect("what is canonical parses"), canonical);
    assert_eq!(canonical.to_bytes().expect("it has a form"), data);
    if let Ok(checked) = check(data, signers()) {
        assert!(canonical.is_signed_by(&checked.signer), "an entry without a signature is accepted");
    }
}

fn envelope_seeds() -> Vec<Vec<u8>> {
    files("tests/vectors/entries", ".json").iter().map(|entry| entry.trim_ascii().to_vec()).collect()
}

/// The input is a payload, signed here by a key that its first byte chooses, so that what lies behind the signature
/// is reached.
fn entry(data: &[u8]) {
    let Some((choice, payload)) = data.split_first() else { return };
    let signer = key(1 + choice % 3);
    let Ok(bytes) = Envelope::sign(payload.to_vec(), &signer).to_bytes() else { return };
    let fresh = Signers::new();
    let signers = if choice & 128 == 0 { signers() } else { &fresh };
    let read = Entry::read(&bytes);
    match check(&bytes, signers) {
        Ok(checked) => {
            assert_eq!(checked.entry, read.expect("what passes the check can be read"));
            assert_eq!(checked.record(), RecordId(BlobRef::of(payload).blake3.0));
            assert_eq!(checked.signer, signer.public());
            checked.entry.body.blobs();
            let mut signers = signers.clone();
            signers.fold(LeafIndex(9), &checked);
        }
        Err(error) => {
            let refusal = error.refusal();
            assert!(refusal.code.starts_with("entry/") && refusal.cause.len() < 8192, "{refusal:?}");
        }
    }
}

fn entry_seeds() -> Vec<Vec<u8>> {
    let entries = envelope_seeds();
    let mut seeds = Vec::new();
    for bytes in &entries {
        let payload = Envelope::parse(bytes).expect("the vector is an envelope").payload;
        seeds.extend([0, 1, 128].map(|choice| tagged(choice, &payload)));
    }
    seeds
}

fn samples(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    match cursor.byte() % 3 {
        0 => series(cursor.rest()),
        1 => {
            let text = cursor.rest();
            let Ok(value) = from_bytes(text) else { return };
            if let Ok(blob) = encode_samples(&value) {
                series(&blob);
            }
        }
        _ => grants(cursor.rest()),
    }
}

fn series(blob: &[u8]) {
    let Ok(series) = decode_samples(blob) else { return };
    let again = encode_samples(&series).expect("what was read can be written");
    assert_eq!(decode_samples(&again).expect("what was written can be read"), series);
    let timing = case_timing(&series, BlobRef::of(blob));
    to_bytes(&timing).expect("a summary has a canonical form");
    let logarithms = stats::log_ratios(&series);
    assert!(logarithms.iter().all(|logarithm| logarithm.is_finite()), "{logarithms:?}");
    // Resampling is two thousand times the pairs: bounded by the policy, and slow for a fuzzer.
    if logarithms.len() <= 16 {
        let interval = stats::median_interval(&logarithms, 7).expect("there are pairs");
        assert!(interval.low <= interval.high);
        assert!(stats::median_absolute_deviation(&logarithms).is_some_and(|deviation| deviation >= 0.0));
    }
}

/// A batch of grants is read under the entry that was made of it, and under no other.
fn grants(text: &[u8]) {
    let Ok(grants) = from_bytes::<Vec<Grant>>(text) else { return };
    let Ok((granted, document)) = seal_grants(&grants, "2026-11-30T12:00:00Z".to_owned()) else { return };
    assert_eq!(read_grants(&granted, &document.bytes).expect("what was written can be read"), grants);
    let other = AttemptGranted { count: granted.count + 1, ..granted };
    assert!(read_grants(&other, &document.bytes).is_err());
}

fn sample_seeds() -> Vec<Vec<u8>> {
    let series = br#"{"baseline":[2000,2001],"candidate":[1000,1001],"case":"small","format":"muster.samples/1","warmups":3}"#;
    let value = from_bytes(series).expect("the series is canonical");
    let blob = encode_samples(&value).expect("the series has a blob");
    let grant = format!(
        r#"[{{"candidate":"{0}","cell":"{0}","device":"CPU-0","fence":3,"node":"{0}","nonce":"{0}","policy":"{0}","seeds":["11"],"submission":"{0}","task":"{0}"}}]"#,
        "0a".repeat(32)
    );
    vec![tagged(0, &blob), tagged(1, series), tagged(2, grant.as_bytes())]
}

/// What is unpacked is packed again as the same files, and names nothing outside; whatever a bundle holds, nothing in it
/// vouches for itself.
fn dossier(data: &[u8]) {
    let Ok(files) = archive::unpack(data) else { return };
    assert!(files.keys().all(|name| archive::is_legal(name)));
    let packed = archive::pack(&files).expect("legal names are packed");
    assert_eq!(archive::unpack(&packed).as_ref(), Ok(&files));
    assert!(!check_dossier(&files, stranger()).verified, "nobody holds the key that is believed here");
}

/// A key that signed nothing.
fn stranger() -> &'static VerifierKey {
    static KEY: OnceLock<VerifierKey> = OnceLock::new();
    KEY.get_or_init(|| {
        let key = ed25519_dalek::SigningKey::from_bytes(&[3; 32]).verifying_key();
        VerifierKey::new("example.com/nobody", key).expect("a name")
    })
}

fn dossier_seeds() -> Vec<Vec<u8>> {
    let entries = files("tests/vectors/entries", ".json").concat();
    let list = br#"{"entries":[],"format":"muster.bundle/1"}"#.to_vec();
    let contents = Files::from([
        ("bundle.json".to_owned(), list),
        (
            "checkpoint".to_owned(),
            b"example.com/nobody\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n".to_vec(),
        ),
        ("entries.intoto.jsonl".to_owned(), entries),
        ("proofs/0.tlog-proof".to_owned(), b"c2sp.org/tlog-proof@v1\nindex 0\n\n".to_vec()),
    ]);
    vec![archive::pack(&contents).expect("legal names"), archive::pack(&Files::new()).expect("no names")]
}
