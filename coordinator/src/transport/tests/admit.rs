//! Every way into the fleet and every way to be kept out.

use super::*;
use fleet_config::identity::SecretKey;
use zeroize::Zeroizing;

const NOW: u64 = 1_796_000_000_000;
const SECRET: [u8; 32] = [5; 32];

fn key(tag: u8) -> SecretKey {
    SecretKey::from_seed(&Zeroizing::new([tag; 32]))
}

fn peer(tls: u8) -> PeerFacts {
    PeerFacts {
        tls_key: Sha256([tls; 32]),
        exporter: [tls ^ 0x55; 32],
        address: "192.0.2.7:4000".parse().unwrap(),
    }
}

fn hello(signer: u8, tls: u8) -> Hello {
    Hello {
        name: "bench".to_owned(),
        signing_key: key(signer).public().to_bytes(),
        proof: key(signer).sign(&proof_message(&peer(tls).exporter)).to_vec(),
        invite: Some(SECRET),
        harness_version: "0.1.0".to_owned(),
        devices: vec![],
        running: vec![],
        checkpoint: String::new(),
    }
}

fn register(uses: u32, used_by: &[(u8, u8)]) -> Register {
    let used_by = used_by
        .iter()
        .map(|(signer, tls)| joining_key(&key(*signer).public().to_bytes(), Sha256([*tls; 32])))
        .collect();
    let invite = OpenInvite { id: "i1".to_owned(), expires_unix_ms: NOW + 1, uses, used_by, class: None };
    Register { nodes: BTreeMap::new(), invites: BTreeMap::from([(secret_hash(&SECRET), invite)]) }
}

fn enrolled(mut register: Register, signer: u8, tls: u8, standing: Standing) -> Register {
    let node = key(signer).public().node_id();
    register.nodes.insert(node, EnrolledNode { node, tls_key: Sha256([tls; 32]), standing, class: None });
    register
}

#[track_caller]
fn refused(hello: &Hello, peer: &PeerFacts, register: &Register, now: u64, code: &str) {
    match admit(hello, peer, register, now) {
        Admission::Refused(goodbye) => {
            assert_eq!(goodbye.code, code);
            assert!(!goodbye.retry && !goodbye.cause.is_empty() && !goodbye.next.is_empty());
        }
        other => panic!("admitted: {other:?}"),
    }
}

#[track_caller]
fn enrols(hello: &Hello, peer: &PeerFacts, register: &Register, now: u64) {
    match admit(hello, peer, register, now) {
        Admission::Enrol(enrolment) => {
            assert_eq!(enrolment.node.0, Sha256::of(&hello.signing_key).0);
            assert_eq!((enrolment.invite.as_str(), enrolment.tls_key), ("i1", peer.tls_key));
            assert_eq!(enrolment.key, joining_key(&hello.signing_key, peer.tls_key));
        }
        other => panic!("not enrolled: {other:?}"),
    }
}

#[test]
fn an_open_invite_enrols() {
    enrols(&hello(1, 1), &peer(1), &register(1, &[]), NOW);
}

#[test]
fn the_same_keys_may_retry_even_late() {
    enrols(&hello(1, 1), &peer(1), &register(1, &[(1, 1)]), NOW);
    enrols(&hello(1, 1), &peer(1), &register(1, &[(1, 1)]), NOW + 1_000_000);
}

#[test]
fn a_stolen_invite_is_refused() {
    refused(&hello(2, 2), &peer(2), &register(1, &[(1, 1)]), NOW, "join/invite-other-key");
    refused(&hello(1, 2), &peer(2), &register(1, &[(1, 1)]), NOW, "join/invite-other-key");
    refused(&hello(3, 3), &peer(3), &register(2, &[(1, 1), (2, 2)]), NOW, "join/invite-used");
    enrols(&hello(2, 2), &peer(2), &register(2, &[(1, 1)]), NOW);
}

#[test]
fn expired_unknown_and_missing_invites_are_refused() {
    refused(&hello(1, 1), &peer(1), &register(1, &[]), NOW + 1, "join/invite-expired");
    let other = Hello { invite: Some([6; 32]), ..hello(1, 1) };
    refused(&other, &peer(1), &register(1, &[]), NOW, "join/invite-unknown");
    let none = Hello { invite: None, ..hello(1, 1) };
    refused(&none, &peer(1), &register(1, &[]), NOW, "join/unknown-node");
}

#[test]
fn an_enrolled_node_needs_its_own_tls_key_and_no_invite() {
    let register = enrolled(register(1, &[]), 1, 1, Standing::Trusted);
    let plain = Hello { invite: None, ..hello(1, 1) };
    let node = key(1).public().node_id();
    assert_eq!(admit(&plain, &peer(1), &register, NOW), Admission::Known { node, devices: vec![] });
    assert_eq!(admit(&hello(1, 1), &peer(1), &register, NOW), Admission::Known { node, devices: vec![] });
    refused(&hello(1, 2), &peer(2), &register, NOW, "join/other-tls-key");
    refused(&hello(2, 1), &peer(1), &register, NOW, "join/duplicate-tls-key");
}

#[test]
fn a_revoked_node_stays_out() {
    let register = enrolled(register(1, &[]), 1, 1, Standing::Revoked);
    refused(&hello(1, 1), &peer(1), &register, NOW, "join/revoked");
}

#[test]
fn a_proof_of_another_session_or_key_is_refused() {
    refused(&hello(1, 1), &PeerFacts { exporter: [0; 32], ..peer(1) }, &register(1, &[]), NOW, "join/proof");
    let forged = Hello { signing_key: key(2).public().to_bytes(), ..hello(1, 1) };
    refused(&forged, &peer(1), &register(1, &[]), NOW, "join/proof");
    for proof in [vec![], vec![0; 63], vec![0; 64], vec![0; 65]] {
        refused(&Hello { proof, ..hello(1, 1) }, &peer(1), &register(1, &[]), NOW, "join/proof");
    }
}

#[test]
fn malformed_hellos_are_refused() {
    let register = register(1, &[]);
    let check = |hello: Hello| refused(&hello, &peer(1), &register, NOW, "join/hello");
    check(Hello { name: String::new(), ..hello(1, 1) });
    check(Hello { name: "x".repeat(65), ..hello(1, 1) });
    check(Hello { name: "two\nlines".to_owned(), ..hello(1, 1) });
    check(Hello { signing_key: [0; 32], ..hello(1, 1) });
    check(Hello { checkpoint: "x".repeat(CHECKPOINT_MAX + 1), ..hello(1, 1) });
    let bad = Device { id: "CPU-1".to_owned(), description: b"{}".to_vec() };
    check(Hello { devices: vec![bad.clone()], ..hello(1, 1) });
    check(Hello { devices: vec![bad; DEVICES_MAX + 1], ..hello(1, 1) });
}

fn cpu(id: &str, level: &str) -> Device {
    let description = DeviceDescription {
        id: fleet_config::domain::DeviceId(id.to_owned()),
        kind: fleet_config::domain::DeviceKind::Cpu,
        architecture: level.parse().unwrap(),
        memory: 1,
        identity: BTreeMap::new(),
        configuration: BTreeMap::new(),
        attributes: BTreeMap::new(),
    };
    Device { id: id.to_owned(), description: canonical::to_bytes(&description).unwrap() }
}

#[test]
fn devices_outside_the_class_of_the_invite_are_refused_before_its_use_and_ever_after() {
    let class: DeviceClass = "cpu:x86-64-v3".parse().unwrap();
    let mut register = register(1, &[]);
    register.invites.values_mut().for_each(|open| open.class = Some(class.clone()));
    let with = |levels: &[&str]| {
        let devices = levels.iter().enumerate().map(|(index, level)| cpu(&format!("CPU-{index}"), level));
        Hello { devices: devices.collect(), ..hello(1, 1) }
    };
    refused(&with(&["cpu:x86-64-v2"]), &peer(1), &register, NOW, "join/invite-class");
    refused(&with(&["cpu:x86-64-v3", "cpu:x86-64-v2"]), &peer(1), &register, NOW, "join/invite-class");
    enrols(&with(&["cpu:x86-64-v3"]), &peer(1), &register, NOW);
    let mut register = enrolled(register, 1, 1, Standing::Trusted);
    register
        .nodes
        .values_mut()
        .for_each(|node| node.class = register.invites.values().next().unwrap().class.clone());
    refused(&with(&["cpu:x86-64-v2"]), &peer(1), &register, NOW, "join/device-class");
    assert!(matches!(admit(&with(&["cpu:x86-64-v3"]), &peer(1), &register, NOW), Admission::Known { .. }));
}
