//! `muster ledger`: verify, vkey, signers, checkpoint; proofs are in rooms of their own.

mod consistency;
mod mirror;
mod prove;

pub(super) use prove::proven_reading;

use crate::cli::client::Client;
use crate::cli::ledger_args::{LedgerCommand, LedgerSource};
use crate::cli::reading::{Reading, verifier_key};
use crate::cli::{Context, Ending};
use crate::http::body::TextView;
use crate::state::Layout;
use fleet_config::refusal::Refusal;
use ledger::entry::{Signers, check};
use ledger::verify::semantic::Severity;
use ledger::verify::{Report, verify_ledger};
use serde::Serialize;
use std::path::Path;

/// Runs the subcommand.
pub(crate) async fn run(context: &Context, command: LedgerCommand) -> Result<Ending, Refusal> {
    match command {
        LedgerCommand::Verify(source) => verify(context, &source),
        LedgerCommand::Vkey => {
            let key = verifier_key(&context.state, None)?.to_string();
            context.output.print(&serde_json::json!({ "vkey": key }), |_| key.clone());
            Ok(Ending::Done)
        }
        LedgerCommand::Signers => signers(context),
        LedgerCommand::Checkpoint => checkpoint(context).await,
        LedgerCommand::Prove(args) => prove::prove(context, &args).await,
        LedgerCommand::VerifyProof(args) => prove::verify_proof(context, &args),
        LedgerCommand::Consistency(args) => consistency::run(context, &args),
        LedgerCommand::Mirror(args) => mirror::run(context, args).await,
    }
}

#[derive(Debug, Serialize)]
struct Verification {
    verified: bool,
    folder: String,
    vkey: String,
    report: Report,
}

fn verify(context: &Context, source: &LedgerSource) -> Result<Ending, Refusal> {
    let vkey = verifier_key(&context.state, source.vkey.as_deref())?.to_string();
    let folder =
        source.folder.as_deref().map_or_else(|| Layout::of(&context.state).ledger(), Path::to_path_buf);
    if !folder.is_dir() {
        return Err(Refusal::new(
            "ledger/no-folder",
            folder.display().to_string(),
            "there is no ledger folder",
            "name the state folder with --state or the ledger with --folder",
        ));
    }
    let (report, _) = verify_ledger(&folder, &vkey).map_err(|error| {
        Refusal::new("ledger/bad-key", &vkey, error.to_string(), "write it as `muster ledger vkey` prints it")
    })?;
    let verified = report.passes();
    let answer = Verification { verified, folder: folder.display().to_string(), vkey, report };
    context.output.print(&answer, render);
    Ok(if verified { Ending::Done } else { Ending::Unverified })
}

fn render(answer: &Verification) -> String {
    let report = &answer.report;
    let line = |finding: &ledger::verify::ReportFinding| match finding.severity {
        Severity::Error => format!("FAULT    {finding}"),
        Severity::Warning => format!("warning  {finding}"),
    };
    let mut lines: Vec<String> = report.findings.iter().map(line).collect();
    let under = report.checkpoint_size.map_or_else(|| "none".to_owned(), |size| size.to_string());
    lines.push(format!(
        "{}: {} entries ({under} under the checkpoint), {} bundles and tiles, {} blobs, {} cells closed and {} open, trusting {} alone",
        if answer.verified { "verified" } else { "NOT VERIFIED" },
        report.size,
        report.files,
        report.blobs,
        report.cells_closed,
        report.cells_open,
        answer.vkey
    ));
    lines.join("\n")
}

#[derive(Debug, Serialize)]
struct SignerLine {
    keyid: String,
    public_key: String,
    role: &'static str,
}

fn signers(context: &Context) -> Result<Ending, Refusal> {
    let reading = Reading::open(&context.state)?;
    let mut signers = Signers::new();
    for (leaf, bytes) in reading.entries(reading.log.size())? {
        if let Ok(checked) = check(&bytes, &signers) {
            signers.fold(leaf, &checked);
        }
    }
    let operator = signers.operator().map(|key| (key, "operator"));
    let nodes = signers.nodes().map(|(_, node)| (&node.key, "node"));
    let lines: Vec<SignerLine> = operator
        .into_iter()
        .chain(nodes)
        .map(|(key, role)| SignerLine { keyid: key.key_id().to_string(), public_key: key.to_hex(), role })
        .collect();
    context.output.print(&lines, |lines| {
        let text: Vec<_> = lines.iter().map(|line| format!("{} {}", line.keyid, line.public_key)).collect();
        text.join("\n")
    });
    Ok(Ending::Done)
}

async fn checkpoint(context: &Context) -> Result<Ending, Refusal> {
    let text = match Client::connect(&context.state).await {
        Ok(mut client) => {
            let view: TextView = client.post("/v1/checkpoint", &serde_json::json!({})).await?;
            view.text
        }
        // With none running the newest published one is the answer.
        Err(_) => Reading::open(&context.state)?.log.checkpoint_note().to_owned(),
    };
    context.output.print(&TextView { text }, |view| view.text.clone());
    Ok(Ending::Done)
}
