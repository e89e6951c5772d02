//! What may become an entry and what may not; the bytes of each kind.

use super::fixture::{World, key, mismatch, node, operator, series, source};
use super::predicate::*;
use super::*;
use fleet_config::domain::canonical::to_bytes;
use fleet_config::domain::*;
use fleet_config::identity::SecretKey;
use serde_json::{Value, json};

/// One entry of each kind that this version writes, in an order that a ledger may have.
fn one_of_each() -> Vec<(Kind, Sealed)> {
    let mut world = World::new();
    let candidate = world.candidate("twice as fast");
    let first = world.grant(&candidate, 4);
    let second = world.grant(&candidate, 9);
    let record = world.result(&second, Outcome::ok(), &[series("small", 2000, 1000, 10)]);
    // The digest of compressed bytes depends on the compressor's version; the format of entries does not.
    let mut record = record;
    record.timings[0].samples = BlobRef::of(b"samples");
    let late = world.result(&first, mismatch(), &[]);
    let late = world.sealed_result(&candidate, late);
    let mut entries = world.opening();
    entries.push(world.granted(&[first.clone(), second]));
    entries.push(world.lost(&candidate, &first, Consequence::Retried));
    entries.push(world.sealed_result(&candidate, record));
    entries.push(world.refused(&first, &late));
    let (chosen, third) = (entries[6].record, world.grant(&candidate, 12));
    entries.push(world.opened(&candidate, &third, chosen, 1));
    let verified = world.result(&third, mismatch(), &[]);
    entries.push(world.verified(&candidate, verified, chosen, 1));
    let record = Entry::read(&entries[6].bytes).unwrap().body.result().unwrap().clone();
    let falls = (FindingJudgement::Falls, FindingScope::Candidate);
    entries.push(world.finding(&candidate, (chosen, &record), "text", falls));
    entries.push(world.revoked(5));
    entries
        .into_iter()
        .map(|sealed| (Entry::read(&sealed.bytes).unwrap().body.kind().unwrap(), sealed))
        .collect()
}

fn signers() -> Signers {
    let mut signers = Signers::new();
    for (leaf, sealed) in World::new().opening().iter().enumerate() {
        let checked = check(&sealed.bytes, &signers).unwrap();
        signers.fold(LeafIndex(leaf as u64), &checked);
    }
    signers
}

fn result_entry() -> (World, Candidate, ResultRecord, Grant) {
    let mut world = World::new();
    let candidate = world.candidate("fast");
    let grant = world.grant(&candidate, 5);
    let record = world.result(&grant, mismatch(), &[]);
    (world, candidate, record, grant)
}

fn resign(bytes: &[u8], key: &SecretKey, edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(&Envelope::parse(bytes).unwrap().payload).unwrap();
    edit(&mut value);
    Envelope::sign(to_bytes(&value).unwrap(), key).to_bytes().unwrap()
}

#[test]
fn the_bytes_of_each_kind_are_those_of_the_vectors() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/entries");
    let entries = one_of_each();
    assert_eq!(entries.len(), Kind::ALL.len());
    for (kind, sealed) in entries {
        let path = folder.join(format!("{}.json", kind.word()));
        if std::env::var_os("MUSTER_WRITE_VECTORS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &sealed.bytes).unwrap();
        }
        let golden = std::fs::read(&path).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&golden),
            String::from_utf8_lossy(&sealed.bytes),
            "{} changed its bytes: old ledgers would not read the same",
            kind.word()
        );
    }
}

#[test]
fn entries_of_every_kind_pass_in_order_and_keep_their_record_id() {
    let mut signers = Signers::new();
    for (leaf, (kind, sealed)) in one_of_each().into_iter().enumerate() {
        let checked = check(&sealed.bytes, &signers).unwrap();
        assert_eq!((checked.kind, checked.record()), (kind, sealed.record));
        signers.fold(LeafIndex(leaf as u64), &checked);
    }
    assert_eq!(signers.origin(), Some(fixture::ORIGIN));
    assert_eq!(signers.node(&node().public().node_id()).unwrap().leaf, LeafIndex(3));
}

#[test]
fn pre_authentication_encoding_is_that_of_the_dsse_specification() {
    // secure-systems-lab/dsse, protocol.md, "Test Vectors".
    assert_eq!(
        pae("http://example.com/HelloWorld", b"hello world"),
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    );
}

#[test]
fn a_device_that_only_compiles_has_no_times() {
    let mut world = World::new();
    let candidate = world.candidate("fast");
    let grant = world.grant(&candidate, 5);
    let mut record = world.result(&grant, Outcome::ok(), &[series("small", 2000, 1000, 10)]);
    let checked = |world: &World, record: ResultRecord| {
        let sealed = world.sealed_result(&candidate, record);
        check(&sealed.bytes, &signers()).map(|_| ())
    };
    assert!(checked(&world, record.clone()).is_ok());
    record.device_kind = DeviceKind::Compile;
    let refused = checked(&world, record.clone()).unwrap_err();
    assert!(matches!(refused, EntryError::Field { field: "timings", .. }), "{refused:?}");
    record.timings.clear();
    assert!(checked(&world, record).is_ok());
}

#[test]
fn a_flipped_byte_anywhere_in_an_envelope_is_refused() {
    let (world, candidate, record, _) = result_entry();
    let sealed = world.sealed_result(&candidate, record);
    let signers = signers();
    check(&sealed.bytes, &signers).unwrap();
    for at in (0..sealed.bytes.len()).step_by(7) {
        let mut bytes = sealed.bytes.clone();
        bytes[at] ^= 1;
        assert!(check(&bytes, &signers).is_err(), "byte {at}");
        assert!(check(&sealed.bytes[..at], &signers).is_err(), "cut at {at}");
    }
}

#[test]
fn envelopes_that_are_not_canonical_are_read_but_not_taken_in() {
    // What base64 writes with `+` or `/` has a second spelling; whether a record's text has one is chance, so look for it.
    let mut world = World::new();
    let sealed = (0..100)
        .map(|number| {
            let candidate = world.candidate(&format!("fast-{number}"));
            let grant = world.grant(&candidate, 5 + number);
            let record = world.result(&grant, mismatch(), &[]);
            world.sealed_result(&candidate, record)
        })
        .find(|sealed| {
            let value: Value = serde_json::from_slice(&sealed.bytes).unwrap();
            let has = |text: &Value| text.as_str().unwrap().contains(['+', '/']);
            has(&value["payload"]) || has(&value["signatures"][0]["sig"])
        })
        .expect("one of them has a letter that is written in two ways");
    let text = String::from_utf8(sealed.bytes.clone()).unwrap();
    let spaced = text.replacen(',', ", ", 1);
    let url = {
        let value: Value = serde_json::from_slice(&sealed.bytes).unwrap();
        let safe = |text: &str| text.replace('+', "-").replace('/', "_");
        let signature = &value["signatures"][0];
        json!({"payload": safe(value["payload"].as_str().unwrap()), "payloadType": value["payloadType"],
            "signatures": [{"keyid": signature["keyid"], "sig": safe(signature["sig"].as_str().unwrap())}]})
    };
    for other in [spaced.into_bytes(), to_bytes(&url).unwrap()] {
        assert_ne!(other, sealed.bytes);
        assert_eq!(Envelope::parse(&other).unwrap(), Envelope::parse(&sealed.bytes).unwrap());
        assert_eq!(check(&other, &signers()).unwrap_err().code(), "entry/not-canonical");
    }
    for signatures in [json!([]), json!([{"keyid": "", "sig": ""}, {"keyid": "", "sig": ""}])] {
        let bytes = to_bytes(&json!({"payload": "", "payloadType": PAYLOAD_TYPE, "signatures": signatures}));
        let error = Envelope::parse(&bytes.unwrap()).unwrap_err();
        assert!(matches!(error, EnvelopeError::SignatureCount { .. }));
    }
    let large = vec![b' '; ENTRY_BYTES_MAX + 1];
    assert!(matches!(Envelope::parse(&large), Err(EnvelopeError::TooLarge { .. })));
}

#[test]
fn a_payload_with_spaces_is_refused_though_its_signature_holds() {
    let (world, candidate, record, _) = result_entry();
    let sealed = world.sealed_result(&candidate, record);
    let mut payload = Envelope::parse(&sealed.bytes).unwrap().payload;
    payload.push(b' ');
    let bytes = Envelope::sign(payload, &node()).to_bytes().unwrap();
    assert_eq!(check(&bytes, &signers()).unwrap_err().code(), "entry/not-canonical");
}

#[test]
fn a_signer_outside_its_kind_is_refused() {
    let signers = signers();
    for (kind, sealed) in one_of_each() {
        for wrong in [operator(), node(), key(77)] {
            let bytes = resign(&sealed.bytes, &wrong, |_| {});
            let allowed = match kind.signer() {
                SignerRole::Operator => operator(),
                SignerRole::Node => node(),
            };
            let answer = check(&bytes, &signers).map_err(|e| e.code());
            match answer {
                Ok(_) => assert_eq!(wrong.public(), allowed.public(), "{}", kind.word()),
                Err(code) if kind == Kind::Genesis => assert_eq!(code, "entry/genesis"),
                Err(code) => {
                    assert_eq!(code, "entry/signer");
                    assert_ne!(wrong.public(), allowed.public(), "{}", kind.word());
                }
            }
        }
    }
}

#[test]
fn a_hint_at_another_key_does_not_help() {
    let (world, candidate, record, _) = result_entry();
    let sealed = world.sealed_result(&candidate, record);
    let mut envelope = Envelope::parse(&sealed.bytes).unwrap();
    envelope.signature = Envelope::sign(envelope.payload.clone(), &operator()).signature;
    let error = check(&envelope.to_bytes().unwrap(), &signers()).unwrap_err();
    assert_eq!(error.code(), "entry/signature");
}

#[test]
fn nothing_comes_before_genesis_and_no_second_one_after() {
    let entries = one_of_each();
    for (kind, sealed) in &entries[1..] {
        assert!(matches!(check(&sealed.bytes, &Signers::new()), Err(EntryError::NoGenesis)), "{kind:?}");
    }
    assert!(matches!(check(&entries[0].1.bytes, &signers()), Err(EntryError::SecondGenesis)));
    let other = resign(&entries[0].1.bytes, &operator(), |value| value["predicate"]["format"] = json!(2));
    assert_eq!(check(&other, &Signers::new()).unwrap_err().code(), "entry/field");
}

#[test]
fn unknown_kinds_are_read_and_refused_at_ingest() {
    let (_, sealed) = one_of_each().remove(1);
    let bytes = resign(&sealed.bytes, &operator(), |value| {
        value["predicateType"] = json!("urn:muster:predicate:weather:v1");
    });
    assert!(matches!(Entry::read(&bytes).unwrap().body, Body::Unknown { .. }));
    assert_eq!(check(&bytes, &signers()).unwrap_err().code(), "entry/unknown-kind");
}

#[test]
fn a_subject_of_something_else_is_refused() {
    for (kind, sealed) in one_of_each() {
        let (key, known) = match kind {
            Kind::Genesis => (operator(), Signers::new()),
            Kind::Result | Kind::Verification => continue,
            _ => (operator(), signers()),
        };
        let zeros = "0".repeat(64);
        let bytes = resign(&sealed.bytes, &key, |value| {
            value["subject"][0]["digest"] = json!({"blake3": zeros, "sha256": zeros});
        });
        assert_eq!(check(&bytes, &known).unwrap_err().code(), "entry/subject", "{}", kind.word());
        let bytes = resign(&sealed.bytes, &key, |value| value["subject"] = json!([]));
        assert_eq!(check(&bytes, &known).unwrap_err().code(), "entry/subject", "{}", kind.word());
    }
}

#[test]
fn an_enrolment_under_a_foreign_id_is_refused() {
    let sealed = World::new().opening().pop().unwrap();
    let bytes = resign(&sealed.bytes, &operator(), |value| {
        value["predicate"]["node"] = json!("ab".repeat(32));
    });
    assert!(matches!(check(&bytes, &signers()), Err(EntryError::Field { field: "node", .. })));
}

#[test]
fn a_result_for_another_ledger_or_by_another_node_is_refused_with_the_field() {
    let (world, candidate, record, _) = result_entry();
    let other = ResultRecord { origin: "muster.invalid/other".to_owned(), ..record.clone() };
    let error = check(&world.sealed_result(&candidate, other).bytes, &signers()).unwrap_err();
    assert!(matches!(error, EntryError::Field { field: "origin", .. }));
    let stolen = ResultRecord { node: NodeId([5; 32]), ..record.clone() };
    let error = check(&world.sealed_result(&candidate, stolen).bytes, &signers()).unwrap_err();
    assert!(matches!(error, EntryError::Field { field: "node", .. }));
    let bare = ResultRecord { outcome: Outcome { cause: None, ..mismatch() }, ..record };
    let error = check(&world.sealed_result(&candidate, bare).bytes, &signers()).unwrap_err();
    assert!(matches!(error, EntryError::Field { field: "outcome", .. }));
}

#[test]
fn a_result_that_differs_from_its_grant_is_refused_with_the_field() {
    let (_, _, record, grant) = result_entry();
    let peer = grant.node;
    let field = |record: &ResultRecord, grant: &Grant, origin: &str, peer| {
        check_result_binding(record, &Expected { origin, grant, peer }).map_err(|e| e.field)
    };
    assert_eq!(field(&record, &grant, fixture::ORIGIN, peer), Ok(()));
    assert_eq!(field(&record, &grant, "elsewhere", peer), Err("origin"));
    assert_eq!(field(&record, &grant, fixture::ORIGIN, NodeId([1; 32])), Err("node"));
    type Edit = fn(&mut Grant);
    let edits: [(&str, Edit); 10] = [
        ("submission", |g| g.submission.0[0] ^= 1),
        ("cell", |g| g.cell.0[0] ^= 1),
        ("fence", |g| g.fence.0 += 1),
        ("nonce", |g| g.nonce.0[0] ^= 1),
        ("task", |g| g.task.0[0] ^= 1),
        ("candidate", |g| g.candidate.0[0] ^= 1),
        ("policy", |g| g.policy.0[0] ^= 1),
        ("node", |g| g.node.0[0] ^= 1),
        ("device", |g| g.device.0.push('x')),
        ("seeds", |g| g.seeds.truncate(1)),
    ];
    for (name, edit) in edits {
        let mut other = grant.clone();
        edit(&mut other);
        assert_eq!(field(&record, &other, fixture::ORIGIN, peer), Err(name));
    }
}

#[test]
fn grants_are_bound_by_count_order_and_root() {
    let mut world = World::new();
    let candidate = world.candidate("fast");
    let grants: Vec<Grant> = (1..=7).map(|fence| world.grant(&candidate, fence)).collect();
    let (granted, document) = seal_grants(&grants, String::new()).unwrap();
    assert_eq!(read_grants(&granted, &document.bytes).unwrap(), grants);
    let (_, fewer) = seal_grants(&grants[1..], String::new()).unwrap();
    assert!(matches!(read_grants(&granted, &fewer.bytes), Err(GrantsError::Differs { field: "count" })));
    let mut other = grants.clone();
    other[3].nonce.0[0] ^= 1;
    let other = to_bytes(&other).unwrap();
    assert!(matches!(read_grants(&granted, &other), Err(GrantsError::Differs { field: "root" })));
    let twice = [grants[0].clone(), grants[0].clone()];
    assert!(matches!(seal_grants(&twice, String::new()), Err(GrantsError::Order)));
    assert!(matches!(seal_grants(&[], String::new()), Err(GrantsError::Count { count: 0 })));
}

#[test]
fn samples_come_back_and_bombs_do_not_go_off() {
    let series = series("small", 3000, 1500, 50);
    let blob = encode_samples(&series).unwrap();
    assert_eq!(decode_samples(&blob).unwrap(), series);
    let bomb = zstd::bulk::compress(&vec![b' '; 64 << 20], 3).unwrap();
    assert!(matches!(decode_samples(&bomb), Err(SamplesError::Compression(_))));
    for cut in 0..blob.len() {
        assert!(decode_samples(&blob[..cut]).is_err());
    }
    let mut uneven = series.clone();
    uneven.candidate.pop();
    assert!(matches!(encode_samples(&uneven), Err(SamplesError::Pairs { .. })));
    let mut zero = series;
    zero.baseline[3] = Picoseconds(0);
    assert!(matches!(encode_samples(&zero), Err(SamplesError::Zero)));
}

#[test]
fn an_entry_that_is_too_large_cannot_be_sealed() {
    let (_, candidate, mut record, _) = result_entry();
    record.outcome.hint = "x".repeat(ENTRY_BYTES_MAX);
    assert!(matches!(seal(record, source(&candidate), &node()), Err(SealError::TooLarge { .. })));
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    let payload = [vec![b'['; 20_000], vec![b']'; 20_000]].concat();
    let bytes = Envelope::sign(payload, &operator()).to_bytes().unwrap();
    assert!(check(&bytes[..ENTRY_BYTES_MAX.min(bytes.len())], &signers()).is_err());
    let payload = [vec![b'['; 10_000], vec![b']'; 10_000]].concat();
    let bytes = Envelope::sign(payload, &operator()).to_bytes().unwrap();
    assert!(matches!(Entry::read(&bytes), Err(ReadError::Statement(_))));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
        proptest::prop_assert!(Entry::read(&bytes).is_err());
        proptest::prop_assert!(decode_samples(&bytes).is_err());
        let payload = Envelope::sign(bytes, &node()).to_bytes().unwrap();
        proptest::prop_assert!(Entry::read(&payload).is_err());
    }
}

/// Evidence as it was written before stages had names: bytes of an old record, kept as they were.
#[test]
fn evidence_of_records_before_named_stages_is_still_read() {
    let zeros = "0".repeat(64);
    let old = format!(
        r#"{{"cases":[{{"absolute_error_max":"0","case":"odd","expected":{{"y":"{zeros}"}},"inputs":{{"x":"{zeros}"}},"outputs":{{"y":"{zeros}"}},"seed":11}}]}}"#
    );
    let evidence: Evidence = canonical::from_bytes(old.as_bytes()).unwrap();
    assert_eq!((evidence.cases.len(), evidence.cases[0].case.as_str()), (1, "odd"));
    assert!(evidence.checks.is_empty(), "nothing is made up for them");
    let now = String::from_utf8(to_bytes(&evidence).unwrap()).unwrap();
    assert!(now.ends_with(r#"}],"checks":[]}"#), "{now}");
}

#[test]
fn a_verification_that_is_ok_though_its_holdout_failed_is_refused() {
    let (_, candidate, record, _) = result_entry();
    let holdout = OpenedHoldout { commitment: fixture::SEALED, opening: 1, record: RecordId([1; 32]) };
    let sealed = |verdict, outcome| {
        let result = ResultRecord { outcome, ..record.clone() };
        seal(Verification { holdout, verdict, result }, source(&candidate), &node()).unwrap().bytes
    };
    for verdict in [HoldoutVerdict::Failed, HoldoutVerdict::NotReached] {
        let error = check(&sealed(verdict, Outcome::ok()), &signers()).unwrap_err();
        assert!(matches!(error, EntryError::Field { field: "verdict", .. }), "{error}");
        check(&sealed(verdict, mismatch()), &signers()).unwrap();
    }
    check(&sealed(HoldoutVerdict::Passed, Outcome::ok()), &signers()).unwrap();
    check(&sealed(HoldoutVerdict::Passed, mismatch()), &signers()).unwrap();
}

#[test]
fn a_detector_without_a_proper_name_or_version_finds_nothing() {
    let (mut world, candidate, record, _) = result_entry();
    let sealed = world.sealed_result(&candidate, record.clone());
    let about = (sealed.record, &record);
    let falls = (FindingJudgement::Falls, FindingScope::Record);
    check(&world.finding(&candidate, about, "floor", falls).bytes, &signers()).unwrap();
    for name in ["", "Floor", "a b", &"x".repeat(33)] {
        let error = check(&world.finding(&candidate, about, name, falls).bytes, &signers()).unwrap_err();
        assert!(matches!(error, EntryError::Field { field: "detector", .. }), "{error}");
    }
}

#[test]
fn a_revoked_node_signs_no_result_and_does_not_come_back_under_its_key() {
    let (world, candidate, record, _) = result_entry();
    let mut signers = signers();
    let revoked = world.revoked(4);
    let checked = check(&revoked.bytes, &signers).unwrap();
    signers.fold(LeafIndex(9), &checked);
    assert_eq!(signers.node(&node().public().node_id()).unwrap().revoked, Some(LeafIndex(9)));
    let result = world.sealed_result(&candidate, record);
    let enrol = world.opening().pop().unwrap();
    for bytes in [&result.bytes, &enrol.bytes, &revoked.bytes] {
        let error = check(bytes, &signers).unwrap_err();
        assert!(
            matches!(&error, EntryError::Field { field: "node", cause } if cause.contains("entry 9")),
            "{error}"
        );
    }
    let unknown = resign(&revoked.bytes, &operator(), |value| {
        value["predicate"]["node"] = json!(key(9).public().node_id().to_string());
        value["subject"] = json!([Subject::of_key("signing-key", &key(9).public())]);
    });
    let error = check(&unknown, &signers).unwrap_err();
    assert!(error.to_string().contains("no node of this id"), "{error}");
}
