//! `muster ledger prove` and `verify-proof`: inclusion proofs as files, made from the tiles and checked offline.

use crate::cli::client::Client;
use crate::cli::ledger_args::{LedgerSource, ProveArgs, VerifyProofArgs};
use crate::cli::reading::{Reading, verifier_key};
use crate::cli::{Context, Ending, output};
use crate::http::body::TextView;
use fleet_config::domain::LeafIndex;
use fleet_config::refusal::Refusal;
use ledger::disk::read_limited;
use ledger::entry::Entry;
use ledger::log::bundle::BUNDLE_ENTRY_BYTES_MAX;
use ledger::log::note::Note;
use ledger::log::proof_file::{PROOF_BYTES_MAX, ProofFileError, Proven};
use ledger::log::{ProofFile, VerifierKey};
use serde::Serialize;
use std::path::Path;

/// What was proven, in the same words by the one who proves and the one who checks.
#[derive(Debug, Serialize)]
struct Shown {
    verified: bool,
    /// Why it does not hold.
    cause: Option<String>,
    vkey: String,
    origin: Option<String>,
    leaf: u64,
    tree_size: Option<u64>,
    root: Option<String>,
    leaf_hash: Option<String>,
    record: Option<String>,
    kind: Option<String>,
    /// Signature lines by other keys than the trusted one. Nobody here knows those keys.
    other_signatures: usize,
    /// Where the file was written.
    file: Option<String>,
}

/// Writes the proof of one record.
pub(crate) async fn prove(context: &Context, args: &ProveArgs) -> Result<Ending, Refusal> {
    let (reading, leaf, bytes) = proven_reading(context, &args.source, &args.record).await?;
    let proof = reading.log.prove(leaf).map_err(|error| reading.unreadable(&error))?;
    let text = proof.to_string();
    let Some(file) = &args.out else {
        match context.output {
            output::Output::Text => output::line(text.trim_end_matches('\n')),
            output::Output::Json => {
                context.output.print(&serde_json::json!({ "leaf": leaf, "proof": text }), |_| String::new());
            }
        }
        return Ok(Ending::Done);
    };
    write(file, text.as_bytes())?;
    let vkey = verifier_key(&context.state, args.source.vkey.as_deref())?;
    let held = proof.verify(None, &vkey);
    let shown = Shown { file: Some(file.display().to_string()), ..shown(&proof, held, Some(&bytes), &vkey) };
    context.output.print(&shown, render);
    Ok(ending(&shown))
}

/// The ledger with the record in it, under a checkpoint: what is committed and under none yet is brought under one by the
/// running coordinator.
pub(in crate::cli::command) async fn proven_reading(
    context: &Context,
    source: &LedgerSource,
    record: &str,
) -> Result<(Reading, LeafIndex, Vec<u8>), Refusal> {
    let reading = Reading::of(&context.state, source)?;
    let (leaf, bytes) = reading.find(record)?;
    if leaf.0 < reading.log.integrated_size() {
        return Ok((reading, leaf, bytes));
    }
    integrate(context, source, record).await?;
    Ok((Reading::of(&context.state, source)?, leaf, bytes))
}

async fn integrate(context: &Context, source: &LedgerSource, record: &str) -> Result<(), Refusal> {
    let waiting = |cause: String| {
        let next = "start the coordinator, which signs a checkpoint over it, and ask again";
        Refusal::new("ledger/not-integrated", record, cause, next)
    };
    if source.folder.is_some() {
        return Err(waiting("no signed checkpoint of this folder covers the record".to_owned()));
    }
    let mut client = Client::connect(&context.state)
        .await
        .map_err(|_| waiting("no signed checkpoint covers the record yet".to_owned()))?;
    let _newest: TextView = client.post("/v1/checkpoint", &serde_json::json!({})).await?;
    Ok(())
}

/// Checks a proof file, believing the key alone.
pub(crate) fn verify_proof(context: &Context, args: &VerifyProofArgs) -> Result<Ending, Refusal> {
    let vkey = verifier_key(&context.state, args.vkey.as_deref())?;
    let proof = ProofFile::parse(&read(&args.file, PROOF_BYTES_MAX)?).map_err(|error| {
        let next = "name a file that `muster ledger prove` or another C2SP log wrote";
        Refusal::new("proof/unreadable", args.file.display().to_string(), error.to_string(), next)
    })?;
    let given = args.entry.as_deref().map(|path| read(path, BUNDLE_ENTRY_BYTES_MAX)).transpose()?;
    let held = proof.verify(given.as_deref(), &vkey);
    if held == Err(ProofFileError::NoEntry) {
        let next = "name the envelope's file with --entry";
        let cause = ProofFileError::NoEntry.to_string();
        return Err(Refusal::new("proof/no-entry", args.file.display().to_string(), cause, next));
    }
    let shown = shown(&proof, held, given.as_deref().or(proof.extra.as_deref()), &vkey);
    context.output.print(&shown, render);
    Ok(ending(&shown))
}

fn ending(shown: &Shown) -> Ending {
    if shown.verified { Ending::Done } else { Ending::Unverified }
}

fn shown(
    proof: &ProofFile,
    held: Result<Proven, ProofFileError>,
    entry: Option<&[u8]>,
    vkey: &VerifierKey,
) -> Shown {
    let read = entry.and_then(|bytes| Entry::read(bytes).ok());
    let lines = Note::parse(proof.checkpoint.as_bytes()).map_or(0, |note| note.signers().count());
    let (proven, cause) = match held {
        Ok(proven) => (Some(proven), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let checkpoint = proven.as_ref().map(|proven| &proven.checkpoint);
    Shown {
        verified: proven.is_some(),
        cause,
        vkey: vkey.to_string(),
        origin: checkpoint.map(|checkpoint| checkpoint.origin.clone()),
        leaf: proof.index,
        tree_size: checkpoint.map(|checkpoint| checkpoint.size),
        root: checkpoint.map(|checkpoint| checkpoint.root.to_string()),
        leaf_hash: proven.as_ref().map(|proven| proven.leaf.to_string()),
        record: read.as_ref().map(|entry| entry.record.to_string()),
        kind: read.as_ref().map(|entry| entry.body.predicate_type()),
        other_signatures: lines.saturating_sub(usize::from(proven.is_some())),
        file: None,
    }
}

fn render(shown: &Shown) -> String {
    let Some((size, root)) = shown.tree_size.zip(shown.root.as_deref()) else {
        return format!("NOT PROVEN: {}", shown.cause.as_deref().unwrap_or_default());
    };
    let what = match (&shown.kind, &shown.record) {
        (Some(kind), Some(record)) => format!("{kind}, record {record}"),
        (_, _) => "an entry that this version cannot read".to_owned(),
    };
    let mut lines = vec![
        format!("proven: entry {} of {size} is {what}", shown.leaf),
        format!("root {root}, signed by {}", shown.vkey),
        match shown.other_signatures {
            0 => "no outsider signed this checkpoint: it has no date that others can prove".to_owned(),
            count => format!("{count} more signature lines, by keys that nobody here knows"),
        },
    ];
    lines.extend(shown.file.as_ref().map(|file| format!("written to {file}")));
    lines.join("\n")
}

/// A file named on the command line.
pub(super) fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Refusal> {
    read_limited(path, bytes_max).map_err(|error| {
        Refusal::new("proof/file", path.display().to_string(), error.source.to_string(), "check the path")
    })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    std::fs::write(path, bytes).map_err(|error| {
        let next = "name a file in a folder that takes files";
        Refusal::new("proof/file", path.display().to_string(), error.to_string(), next)
    })
}
