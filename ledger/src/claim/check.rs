//! Whether a ledger bears a claim out: at the size that it names, and now.

use super::answer::{Answer, Denominators, Found, ask};
use super::{Claim, ONE, SignedClaim, Tree, decimal};
use crate::log::VerifierKey;
use crate::rank;
use fleet_config::domain::{Digest, LeafIndex, PartsPerBillion, Sha256};
use serde::Serialize;

/// From good to bad; of several the worst counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Supported,
    /// The candidate is faster than the baseline, and less is shown than the claim says.
    Weaker,
    NotSupported,
    /// Nobody signed it, or it is about another tree than this ledger has: nothing was asked.
    Void,
}

/// What one tree says of the claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub tree_size: u64,
    pub verdict: Verdict,
    pub cause: String,
    /// The interval is in here; none where the ledger has no answer.
    pub found: Option<Found>,
}

/// What [`check`] found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The worst of the two findings.
    pub verdict: Verdict,
    pub cause: String,
    pub sentence: String,
    /// The verifier key in the file.
    pub signer: String,
    /// Whether it is one that the reader named. Otherwise the name is only what the file says.
    pub is_signer_known: bool,
    pub tree: Tree,
    /// As claimed: where the ledger counts otherwise, that is a cause.
    pub denominators: Denominators,
    /// At the size of the claim.
    pub then: Option<Finding>,
    /// At the newest signed size.
    pub now: Option<Finding>,
}

/// What is asked: the ledger as its signed checkpoint shows it.
#[derive(Debug)]
pub struct Grounds<'a> {
    pub origin: &'a str,
    /// Of the signed checkpoint.
    pub size: u64,
    /// The root at the size of the claim, shown to be consistent with the signed one; none where the ledger is shorter.
    pub root: Option<Sha256>,
    /// All below the signed size, from the first on.
    pub entries: &'a [(LeafIndex, Vec<u8>)],
}

/// Checks `signed` against a ledger. `trusted` is the key that should have signed it; none takes any.
pub fn check(
    signed: &SignedClaim,
    trusted: Option<&VerifierKey>,
    grounds: &Grounds<'_>,
    blob: &mut dyn FnMut(&Digest) -> Option<Vec<u8>>,
) -> Report {
    let claim = &signed.claim;
    let mut report = Report {
        verdict: Verdict::Void,
        cause: String::new(),
        sentence: claim.sentence.clone(),
        signer: signed.signer.clone(),
        is_signer_known: trusted.is_some(),
        tree: claim.tree.clone(),
        denominators: claim.denominators.clone(),
        then: None,
        now: None,
    };
    if let Err(cause) = concerned(signed, trusted, grounds) {
        report.is_signer_known = false;
        report.cause = cause;
        return report;
    }
    let then = finding(claim, grounds.entries, claim.tree.size, blob, Strictness::Exact);
    let now = finding(claim, grounds.entries, grounds.size, blob, Strictness::Bound);
    let worst = if now.verdict > then.verdict { &now } else { &then };
    report.verdict = worst.verdict;
    report.cause = worst.cause.clone();
    (report.then, report.now) = (Some(then), Some(now));
    report
}

/// Whether the claim is signed, and about this very ledger.
fn concerned(
    signed: &SignedClaim,
    trusted: Option<&VerifierKey>,
    grounds: &Grounds<'_>,
) -> Result<(), String> {
    let key = signed.signed_by()?;
    if let Some(trusted) = trusted.filter(|trusted| **trusted != key) {
        return Err(format!("it is signed by {key}, not by {trusted}"));
    }
    let Tree { origin, size, root } = &signed.claim.tree;
    if origin != grounds.origin {
        return Err(format!("it is about the log {origin}, this is {}", grounds.origin));
    }
    let Some(own) = grounds.root.filter(|_| *size <= grounds.size) else {
        return Err(format!("it is about {size} entries, this ledger has {} signed ones", grounds.size));
    };
    if own != *root {
        return Err(format!("the tree of {size} entries has the root {own} here, {root} in the claim"));
    }
    Ok(())
}

/// How much of a claim must be the ledger's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// Every number and word: the same question at the same size has the same answer.
    Exact,
    /// That the bound holds: later entries move the numbers.
    Bound,
}

fn finding(
    claim: &Claim,
    entries: &[(LeafIndex, Vec<u8>)],
    size: u64,
    blob: &mut dyn FnMut(&Digest) -> Option<Vec<u8>>,
    strictness: Strictness,
) -> Finding {
    let of = |verdict, cause, found| Finding { tree_size: size, verdict, cause, found };
    let answer = match ask(&claim.question, entries, size, blob) {
        Ok(answer) => answer,
        Err(cause) => return of(Verdict::NotSupported, cause, None),
    };
    let differs = if strictness == Strictness::Exact { difference(claim, &answer) } else { None };
    let (verdict, cause) = match differs {
        Some(cause) => (Verdict::NotSupported, cause),
        None => judge(claim.at_least, &answer.found),
    };
    of(verdict, cause, Some(answer.found))
}

/// What the claim says of its tree that the tree does not.
fn difference(claim: &Claim, answer: &Answer) -> Option<String> {
    let right = Claim::of(claim.question.clone(), claim.at_least, claim.tree.clone(), answer);
    let parts = [
        ("what was found", right.found == claim.found),
        ("the denominators", right.denominators == claim.denominators),
        ("the sentence", right.sentence == claim.sentence),
    ];
    let wrong: Vec<&str> = parts.iter().filter(|(_, is_equal)| !is_equal).map(|(name, _)| *name).collect();
    (!wrong.is_empty())
        .then(|| format!("{} differ from what the ledger says at that size", wrong.join(" and ")))
}

/// Whether what was found shows at least so much.
pub fn judge(at_least: PartsPerBillion, found: &Found) -> (Verdict, String) {
    let Found { score, low, high, says, .. } = found;
    let shown =
        format!("{}× with the 95 % interval {} to {}", decimal(*score), decimal(*low), decimal(*high));
    let verdict = match says {
        rank::Claim::Slower | rank::Claim::NoDifference => Verdict::NotSupported,
        rank::Claim::Faster | rank::Claim::OneLeaseOnly if *low <= ONE || at_least <= ONE => {
            Verdict::NotSupported
        }
        rank::Claim::OneLeaseOnly => Verdict::Weaker,
        rank::Claim::Faster if *low < at_least => Verdict::Weaker,
        rank::Claim::Faster => Verdict::Supported,
    };
    let cause = match (verdict, says) {
        (Verdict::Supported, _) => format!("the ledger shows {shown}"),
        (Verdict::Weaker, rank::Claim::OneLeaseOnly) => {
            format!("the ledger shows {shown} in a single lease, and nothing says what another would add")
        }
        (Verdict::Weaker, _) if *high < at_least => format!("the ledger shows less: {shown}"),
        (Verdict::Weaker, _) => format!("the ledger shows at least {}× alone: {shown}", decimal(*low)),
        (Verdict::NotSupported | Verdict::Void, _) => format!("the ledger shows no speed-up: {shown}"),
    };
    (verdict, cause)
}
