//! Tests of claims: what a ledger bears out, what it does not, and that no changed byte passes.

use super::*;
use crate::entry::Sealed;
use crate::entry::fixture::{ORIGIN, World, series};
use crate::entry::predicate::{FindingJudgement, FindingScope};
use crate::log::tree::{Frontier, leaf_hash};
use ed25519_dalek::SigningKey;
use fleet_config::domain::{Digest, LeafIndex, Outcome, SandboxLevel, TaskId};

fn signer(seed: u8) -> LogSigner {
    LogSigner::new("ada.example", SigningKey::from_bytes(&[seed; 32])).unwrap()
}

/// A ledger with leases of one candidate that is twice as fast as the baseline.
struct Ledger {
    world: World,
    entries: Vec<(LeafIndex, Vec<u8>)>,
    question: Question,
}

impl Ledger {
    fn new(leases: u64) -> Self {
        let mut world = World::new();
        let mut sealed = world.opening();
        let fast = world.candidate("fast");
        let mut class = None;
        for fence in 1..=leases {
            let grant = world.grant(&fast, fence);
            sealed.push(world.granted(std::slice::from_ref(&grant)));
            // No two leases agree to the last digit.
            let cases = ["small", "large"].map(|case| series(case, 4_000_000 + fence * 1000, 2_000_000, 20));
            let record = world.result(&grant, Outcome::ok(), &cases);
            class = Some(record.class);
            sealed.push(world.sealed_result(&fast, record));
        }
        let question = Question {
            task: TaskId(world.task.digest().0),
            candidate: fast.id().unwrap(),
            class: class.unwrap(),
            case: None,
            least_sandbox: SandboxLevel::None,
        };
        let mut ledger = Self { world, entries: Vec::new(), question };
        sealed.into_iter().for_each(|entry| ledger.push(entry));
        ledger
    }

    fn push(&mut self, entry: Sealed) {
        self.entries.push((LeafIndex(self.entries.len() as u64), entry.bytes));
    }

    fn size(&self) -> u64 {
        self.entries.len() as u64
    }

    fn root(&self, size: u64) -> Option<Sha256> {
        let mut frontier = Frontier::default();
        self.entries.iter().take(size as usize).for_each(|(_, bytes)| frontier.push(leaf_hash(bytes)));
        (size <= self.size()).then(|| frontier.root())
    }

    fn ask(&self) -> Result<Answer, String> {
        let mut blob = |digest: &Digest| self.world.blobs.get(digest).cloned();
        ask(&self.question, &self.entries, self.size(), &mut blob)
    }

    fn claim(&self, at_least: &str) -> Claim {
        let size = self.size();
        let tree = Tree { origin: ORIGIN.to_owned(), size, root: self.root(size).unwrap() };
        Claim::of(self.question.clone(), parse_decimal(at_least).unwrap(), tree, &self.ask().unwrap())
    }

    fn check(&self, signed: &SignedClaim, trusted: Option<&VerifierKey>) -> Report {
        let root = self.root(signed.claim.tree.size);
        let grounds = Grounds { origin: ORIGIN, size: self.size(), root, entries: &self.entries };
        check(signed, trusted, &grounds, &mut |digest: &Digest| self.world.blobs.get(digest).cloned())
    }

    fn verdict(&self, claim: Claim) -> (Verdict, String) {
        let report = self.check(&SignedClaim::sign(claim, &signer(1)).unwrap(), None);
        (report.verdict, report.cause)
    }
}

#[test]
fn what_several_leases_show_is_supported_and_more_is_weaker() {
    let ledger = Ledger::new(4);
    let claim = ledger.claim("1.8");
    assert!(claim.sentence.starts_with("fast ("), "{}", claim.sentence);
    assert!(claim.sentence.contains("at least 1.8× as fast as the baseline of copy"), "{}", claim.sentence);
    let Denominators { attempts, task_candidates, class_results, retries, .. } = claim.denominators;
    assert_eq!((attempts, task_candidates, class_results, retries), (4, 1, 4, 0));
    assert_eq!((claim.found.leases, claim.found.boards), (4, 1));
    let (verdict, cause) = ledger.verdict(claim);
    assert_eq!(verdict, Verdict::Supported, "{cause}");
    let (verdict, cause) = ledger.verdict(ledger.claim("2.5"));
    assert_eq!(verdict, Verdict::Weaker);
    assert!(cause.contains("shows less") && cause.contains("interval"), "{cause}");
    let just_above = PartsPerBillion(ledger.claim("2").found.low.0 + 1);
    let (verdict, cause) = ledger.verdict(ledger.claim(&decimal(just_above)));
    assert_eq!(verdict, Verdict::Weaker, "{cause}");
    assert_eq!(ledger.verdict(ledger.claim("1")).0, Verdict::NotSupported, "a claim of nothing");
    assert_eq!(Ledger::new(1).verdict(Ledger::new(1).claim("1.5")).0, Verdict::Weaker, "one lease alone");
}

#[test]
fn one_case_is_another_question_and_an_unknown_one_has_no_answer() {
    let mut ledger = Ledger::new(3);
    ledger.question.case = Some("small".to_owned());
    let claim = ledger.claim("1.8");
    assert!(claim.sentence.contains("case small"), "{}", claim.sentence);
    assert_eq!(ledger.verdict(claim).0, Verdict::Supported);
    ledger.question.case = Some("odd".to_owned());
    assert!(ledger.ask().unwrap_err().contains("no performance case `odd`"));
}

#[test]
fn every_changed_byte_voids_a_claim() {
    let ledger = Ledger::new(3);
    let signed = SignedClaim::sign(ledger.claim("1.8"), &signer(1)).unwrap();
    let bytes = signed.to_bytes().unwrap();
    assert_eq!(SignedClaim::parse(&bytes).unwrap(), signed);
    for at in 0..bytes.len() - 1 {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let held = SignedClaim::parse(&changed).is_ok_and(|claim| claim.signed_by().is_ok());
        // The name of the key is covered by its id.
        assert!(!held, "byte {at}");
    }
    let other = signer(2);
    assert_eq!(ledger.check(&signed, Some(other.verifier())).verdict, Verdict::Void);
    let report = ledger.check(&signed, Some(signer(1).verifier()));
    assert_eq!((report.verdict, report.is_signer_known), (Verdict::Supported, true));
}

#[test]
fn another_tree_and_a_shorter_ledger_are_told() {
    let mut ledger = Ledger::new(3);
    let signed = SignedClaim::sign(ledger.claim("1.8"), &signer(1)).unwrap();
    let last = ledger.entries.pop().unwrap();
    let report = ledger.check(&signed, None);
    assert_eq!((report.verdict, report.then), (Verdict::Void, None));
    assert!(report.cause.contains("this ledger has 9 signed ones"), "{}", report.cause);
    ledger.entries.push(last);
    let grant = ledger.entries[4].1.clone();
    ledger.entries[6].1 = grant;
    let report = ledger.check(&signed, None);
    assert!(report.cause.contains("has the root"), "{}", report.cause);
    let mut elsewhere = signed.claim.clone();
    elsewhere.tree.origin = "example.com/other".to_owned();
    let (verdict, cause) = ledger.verdict(elsewhere);
    assert!(verdict == Verdict::Void && cause.contains("about the log example.com/other"), "{cause}");
}

#[test]
fn signed_lies_about_the_ledger_are_not_supported() {
    let ledger = Ledger::new(3);
    type Lie = fn(&mut Claim);
    let lies: [(&str, Lie); 3] = [
        ("what was found", |claim| claim.found.low.0 += 1),
        ("the denominators", |claim| claim.denominators.attempts = 1),
        ("the sentence", |claim| claim.sentence = claim.sentence.replace("1.8", "1.9")),
    ];
    for (part, lie) in lies {
        let mut claim = ledger.claim("1.8");
        lie(&mut claim);
        let (verdict, cause) = ledger.verdict(claim);
        assert!(verdict == Verdict::NotSupported && cause.starts_with(part), "{part}: {cause}");
    }
}

#[test]
fn a_claim_falls_with_its_result_and_says_when() {
    let mut ledger = Ledger::new(3);
    let signed = SignedClaim::sign(ledger.claim("1.8"), &signer(1)).unwrap();
    let crate::entry::Body::Result(result) = crate::entry::Entry::read(&ledger.entries[5].1).unwrap().body
    else {
        panic!("entry 5 is a result");
    };
    let fast = ledger.world.candidate("fast");
    let falls = (FindingJudgement::Falls, FindingScope::Candidate);
    let finding = ledger.world.finding(&fast, (signed.claim.found.record, &result), "floor", falls);
    ledger.push(finding);
    let report = ledger.check(&signed, None);
    let (then, now) = (report.then.unwrap(), report.now.unwrap());
    assert_eq!(
        (then.verdict, now.verdict, report.verdict),
        (Verdict::Supported, Verdict::NotSupported, Verdict::NotSupported)
    );
    assert!(report.cause.contains("fell by entry 10"), "{}", report.cause);
}

#[test]
fn samples_that_are_gone_or_changed_support_nothing() {
    let sound = Ledger::new(3);
    let signed = SignedClaim::sign(sound.claim("1.8"), &signer(1)).unwrap();
    let crate::entry::Body::Result(result) = crate::entry::Entry::read(&sound.entries[9].1).unwrap().body
    else {
        panic!("entry 9 is a result");
    };
    let samples = result.timings[0].samples.blake3;
    let faster = crate::entry::encode_samples(&series("small", 9_000_000, 1_000_000, 20)).unwrap();
    for content in [None, Some(faster)] {
        let mut ledger = Ledger::new(3);
        match content {
            None => ledger.world.blobs.remove(&samples),
            Some(bytes) => ledger.world.blobs.insert(samples, bytes),
        };
        let report = ledger.check(&signed, None);
        assert_eq!(report.verdict, Verdict::NotSupported, "{}", report.cause);
    }
}

#[test]
fn ratios_have_one_spelling() {
    for (text, ratio) in [("1.8", 1_800_000_000), ("2", 2_000_000_000), ("1.000000001", 1_000_000_001)] {
        assert_eq!(parse_decimal(text), Some(PartsPerBillion(ratio)));
        assert_eq!(decimal(PartsPerBillion(ratio)), text);
    }
    for wrong in ["", ".", "1.", ".5", "-1", "+1", "1e3", "1.0000000001", "1000000000", "1,8", "1.8.1"] {
        assert_eq!(parse_decimal(wrong), None, "{wrong}");
    }
}
