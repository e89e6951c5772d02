//! What a coordinator reads: its journal, requests over HTTP, hellos of nodes.

use super::repository::tagged;
use super::{Cursor, Target};
use coordinator::http::body::{DrainBody, InviteBody, SubmitBody, TaskBody};
use coordinator::journal::Journal;
use coordinator::journal::frame::{HEADER, PREFIX, encode};
use coordinator::scheduler::{Fact, Scheduler};
use coordinator::transport::PeerFacts;
use coordinator::transport::admit::{Admission, Register, admit, parse_devices};
use fleet_config::config::{check_task, lint_candidate};
use fleet_config::domain::{DeviceClass, Digest, Screen, Sha256, SubmissionId, TaskId};
use fleet_config::identity::SecretKey;
use fleet_config::refusal::Refusal;
use fleet_config::wire::close::proof_message;
use fleet_config::wire::codec;
use fleet_config::wire::v1::{Device, FromNode, Hello};
use zeroize::Zeroizing;

pub(crate) const JOURNAL: Target = Target::new("journal", journal, journal_seeds);
pub(crate) const REQUEST: Target = Target::new("request", request, request_seeds).length(16_384);
pub(crate) const HELLO: Target = Target::new("hello", hello, hello_seeds).memory(4 << 20);

/// The input is a file, or the JSON of facts that become one, cut somewhere: what comes back is what was written.
fn journal(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    match cursor.byte() % 3 {
        0 => replay(&[&HEADER, cursor.rest()].concat()),
        1 => {
            // Frames with sound checksums around any JSON, so that what lies behind the checksum is reached.
            let mut file = HEADER.to_vec();
            for json in cursor.rest().split(|byte| *byte == b'\n') {
                let length = u32::try_from(json.len()).expect("inputs are small").to_le_bytes();
                let sum = crc32c::crc32c_append(crc32c::crc32c(&length), json);
                file.extend([&length[..], &sum.to_le_bytes(), json].concat());
            }
            replay(&file);
        }
        _ => {
            let cut = usize::from(cursor.short());
            let mut facts: Vec<Fact> = Vec::new();
            for json in cursor.rest().split(|byte| *byte == b'\n') {
                facts.extend(serde_json::from_slice::<Fact>(json));
            }
            let mut file = HEADER.to_vec();
            for (fact, sequence) in facts.iter().zip(1..) {
                encode(sequence, sequence - 1, fact, &mut file).expect("a small fact has a frame");
            }
            let (whole, report) = Journal::read(&file).expect("what was written can be read");
            assert!(report.torn.is_none() && whole.iter().map(|(_, fact)| fact).eq(&facts));
            let length = HEADER.len() + cut % (file.len() - HEADER.len() + 1);
            let (kept, _) = Journal::read(&file[..length]).expect("a cut is a torn tail");
            assert!(kept.iter().map(|(_, fact)| fact).eq(facts.iter().take(kept.len())));
        }
    }
}

fn replay(file: &[u8]) {
    let Ok((facts, report)) = Journal::read(file) else { return };
    assert!(report.length <= file.len() as u64 && report.facts == facts.len());
    let _ = Scheduler::replay(facts);
}

fn journal_seeds() -> Vec<Vec<u8>> {
    let id = "0a".repeat(32);
    let facts = [
        format!(r#"{{"node_drained":{{"node":"{id}"}}}}"#),
        format!(r#"{{"node_undrained":{{"node":"{id}"}}}}"#),
        format!(r#"{{"cancelled":{{"submission":"{id}"}}}}"#),
        format!(
            r#"{{"lease_granted":{{"fence":2,"cell":"{id}","node":"{id}","device":"CPU-0","nonce":"{id}","seeds":["1"]}}}}"#
        ),
        format!(
            r#"{{"submission_accepted":{{"id":"{id}","submission":{{"format":"muster.submission/1","task":"{id}","candidates":["{id}"],"targets":["cpu:x86-64-v3"],"policy":"{id}","reuse":"fresh","nonce":"n"}},"terms":{{"memory":1,"queue":null,"compile":1,"run":1,"seeds":2}},"entropy":"{id}","reused":{{}}}}}}"#
        ),
        format!(r#"{{"invite_consumed":{{"invite":"x","key":"{id}"}}}}"#),
    ];
    let framed: Vec<String> = facts
        .iter()
        .zip(1..)
        .map(|(fact, sequence)| format!(r#"{{"v":1,"seq":{sequence},"durable":0,"fact":{fact}}}"#))
        .collect();
    vec![
        tagged(1, framed.join("\n").as_bytes()),
        [&[2, 90, 0], facts.join("\n").as_bytes()].concat(),
        tagged(0, &[0; PREFIX + 4]),
        vec![0; PREFIX],
    ]
}

fn shown(refusal: &Refusal) {
    assert!(refusal.code.contains('/') && !refusal.cause.is_empty(), "{refusal:?}");
}

/// Bodies, and the words in paths and bodies that the desk parses.
fn request(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 5 {
        0 => {
            let Ok(body) = serde_json::from_slice::<TaskBody>(bytes) else { return };
            let findings = check_task(&body.task);
            findings.refusals.iter().chain(&findings.warnings).for_each(shown);
            if findings.refusals.is_empty() {
                body.task.id().map(|_| body.task.blobs().len()).ok();
            }
        }
        1 => {
            let Ok(body) = serde_json::from_slice::<SubmitBody>(bytes) else { return };
            let task = super::config::sample_task();
            for candidate in &body.candidates {
                let findings = lint_candidate(task, candidate);
                findings.refusals.iter().chain(&findings.warnings).for_each(shown);
                let plain = candidate.name.len() < 200 && !candidate.name.chars().any(char::is_control);
                assert!(plain || !findings.refusals.is_empty(), "a name that no terminal should show passes");
            }
            words(&body.targets.join(","));
            body.screens.as_deref().map(Screen::list).transpose().ok();
        }
        2 => drop(serde_json::from_slice::<DrainBody>(bytes)),
        3 => drop(serde_json::from_slice::<InviteBody>(bytes)),
        _ => words(&String::from_utf8_lossy(bytes)),
    }
}

fn words(text: &str) {
    if let Ok(class) = text.parse::<DeviceClass>() {
        assert_eq!(class.to_string().parse::<DeviceClass>().as_ref(), Ok(&class), "{text}");
    }
    if let Ok(id) = text.parse::<SubmissionId>() {
        assert_eq!(id.to_string(), text);
    }
    let _ = text.parse::<TaskId>();
    if let Ok(screens) = Screen::list(text) {
        assert!(screens.len() <= Screen::ALL.len());
    }
}

fn request_seeds() -> Vec<Vec<u8>> {
    let task =
        String::from_utf8(super::repository::file("tests/vectors/domain/task.json")).expect("it is text");
    let candidate = String::from_utf8(super::repository::file("tests/vectors/domain/candidate.json"))
        .expect("it is text");
    let id = "0a".repeat(32);
    let submit = format!(
        r#"{{"task":"{id}","candidates":[{candidate}],"targets":["cpu:x86-64-v3"],"policy":null,"screens":"cheap","reuse":"fresh","nonce":"n"}}"#
    );
    vec![
        tagged(0, format!(r#"{{"task":{task},"holdout":null}}"#).as_bytes()),
        tagged(1, submit.as_bytes()),
        tagged(2, br#"{"resume":true}"#),
        tagged(3, br#"{"valid_seconds":60,"uses":1,"class":null}"#),
        tagged(4, b"device.model=Example CPU,driver=580.1"),
        tagged(4, b"cpu:x86-64-v3"),
        tagged(4, b"fences,orders"),
    ]
}

/// Nobody gets in without an invite and a proof by the key that the hello names.
fn hello(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    let peer = PeerFacts { tls_key: Sha256([4; 32]), exporter: [6; 32], address: ([127, 0, 0, 1], 9).into() };
    let Ok(FromNode::Hello(mut hello)) = codec::decode::<FromNode>(bytes) else { return };
    if kind % 2 == 1 {
        // A node that holds the key it names; everything else is as it likes.
        let key = SecretKey::from_seed(&Zeroizing::new([3; 32]));
        hello.signing_key = key.public().to_bytes();
        hello.proof = key.sign(&proof_message(&peer.exporter)).to_vec();
    }
    match admit(&hello, &peer, &Register::default(), 1_700_000_000_000) {
        Admission::Refused(goodbye) => assert!(goodbye.code.contains('/') && !goodbye.next.is_empty()),
        Admission::Known { .. } | Admission::Enrol(_) => panic!("an empty register admits {hello:?}"),
    }
    if let Ok(devices) = parse_devices(&hello.devices) {
        assert_eq!(devices.len(), hello.devices.len());
    }
}

fn hello_seeds() -> Vec<Vec<u8>> {
    let hello = Hello {
        name: "bench-01".to_owned(),
        signing_key: [0x11; 32],
        proof: vec![0x22; 64],
        invite: Some(Digest([0x33; 32]).0),
        harness_version: "0.1.0".to_owned(),
        devices: vec![Device { id: "CPU-0".to_owned(), description: b"{}".to_vec() }],
        running: Vec::new(),
        checkpoint: String::new(),
    };
    let frame = codec::encode(&FromNode::Hello(Box::new(hello))).expect("a hello has a frame");
    vec![tagged(0, &frame[codec::PREFIX..]), tagged(1, &frame[codec::PREFIX..])]
}
