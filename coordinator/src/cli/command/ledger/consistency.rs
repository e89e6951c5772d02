//! `muster ledger consistency`: whether an older tree is the beginning of a newer one, with the proof.

use super::prove::read;
use crate::cli::ledger_args::ConsistencyArgs;
use crate::cli::reading::{Reading, verifier_key};
use crate::cli::{Context, Ending};
use data_encoding::BASE64;
use fleet_config::domain::Sha256;
use fleet_config::refusal::Refusal;
use ledger::log::note::NOTE_BYTES_MAX;
use ledger::log::{Checkpoint, ReadError};
use serde::Serialize;

/// How two trees of one log stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// The older is the beginning of the newer.
    Consistent,
    /// Both are signed, and they disagree about the same entries.
    Forked,
    /// The saved checkpoint has entries that this folder lacks: it was set back, or is an older copy.
    SetBack,
}

#[derive(Debug, Serialize)]
struct Tree {
    size: u64,
    root: Sha256,
}

#[derive(Debug, Serialize)]
struct Answer {
    verdict: Verdict,
    origin: String,
    vkey: String,
    from: Tree,
    to: Tree,
    /// RFC 6962, section 2.1.2; standard base64. Empty where nothing needs to be shown.
    proof: Vec<String>,
}

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &ConsistencyArgs) -> Result<Ending, Refusal> {
    let vkey = verifier_key(&context.state, args.source.vkey.as_deref())?;
    let saved = args.old.as_deref().map(|path| {
        Checkpoint::open(&read(path, NOTE_BYTES_MAX)?, &vkey).map_err(|error| {
            let next = "name a checkpoint of this log, as `muster ledger checkpoint` prints it, and the key that signed it";
            Refusal::new("ledger/old-checkpoint", path.display().to_string(), error.to_string(), next)
        })
    });
    let saved = saved.transpose()?;
    let reading = Reading::of(&context.state, &args.source)?;
    let unreadable = |error: ReadError| reading.unreadable(&error);
    let newest = reading.log.checkpoint().clone();
    let to = args.to.unwrap_or(newest.size);
    if to > newest.size {
        return Err(range(to, format!("the signed checkpoint has {} entries", newest.size)));
    }
    let from = saved.as_ref().map_or_else(|| args.from.unwrap_or_default(), |saved| saved.size);
    let answer = |verdict, from, to, proof: &[Sha256]| Answer {
        verdict,
        origin: newest.origin.clone(),
        vkey: vkey.to_string(),
        from,
        to,
        proof: proof.iter().map(|hash| BASE64.encode(hash.as_bytes())).collect(),
    };
    let newer = Tree { size: to, root: reading.log.root_at(to).map_err(unreadable)? };
    let answer = match saved {
        Some(saved) if saved.size > newest.size => {
            answer(Verdict::SetBack, Tree { size: saved.size, root: saved.root }, newer, &[])
        }
        _ if from > to => {
            return Err(range(from, format!("it is more than the {to} entries it is compared with")));
        }
        Some(saved) if reading.log.root_at(from).map_err(unreadable)? != saved.root => {
            answer(Verdict::Forked, Tree { size: saved.size, root: saved.root }, newer, &[])
        }
        Some(_) | None => {
            let proof = reading.log.consistency(from, to).map_err(unreadable)?;
            let older = Tree { size: from, root: reading.log.root_at(from).map_err(unreadable)? };
            answer(Verdict::Consistent, older, newer, &proof)
        }
    };
    context.output.print(&answer, render);
    Ok(if answer.verdict == Verdict::Consistent { Ending::Done } else { Ending::Unverified })
}

fn range(size: u64, cause: String) -> Refusal {
    Refusal::new(
        "ledger/size",
        size.to_string(),
        cause,
        "give sizes that the log has had, the older one first",
    )
}

fn render(answer: &Answer) -> String {
    let tree = |tree: &Tree| format!("{} entries (root {})", tree.size, tree.root);
    let (from, to) = (tree(&answer.from), tree(&answer.to));
    match answer.verdict {
        Verdict::Forked => format!(
            "FORKED: the saved checkpoint has {from}, and this log had another root at that size; its key signed both histories, keep both files: they prove it"
        ),
        Verdict::SetBack => format!(
            "SET BACK: the saved checkpoint has {from}, this folder only {to}; entries are missing here, so it is an older copy or was restored from one"
        ),
        Verdict::Consistent => {
            let mut lines = vec![format!("consistent: {from} are the beginning of {to}")];
            lines.extend(answer.proof.iter().cloned());
            lines.join("\n")
        }
    }
}
