//! `muster claim`: a signed sentence about a recorded number, and whether a ledger bears it out.

use super::ledger::proven_reading;
use crate::cli::ledger_args::LedgerSource;
use crate::cli::moment::AsOf;
use crate::cli::reading::{Reading, verifier_key};
use crate::cli::{Context, Ending};
use clap::{Args, Subcommand};
use ed25519_dalek::SigningKey;
use fleet_config::domain::{Digest, PartsPerBillion, SandboxLevel};
use fleet_config::refusal::Refusal;
use fleet_config::state::signing_key;
use ledger::claim::{
    Answer, CLAIM_BYTES_MAX, Claim, Denominators, Finding, Grounds, Question, Report, SignedClaim, Tree,
    Verdict, ask, check, decimal, judge, parse_decimal,
};
use ledger::disk::read_limited;
use ledger::entry::Entry;
use ledger::log::LogSigner;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ClaimCommand {
    /// Write and sign "at least so many times as fast as the baseline", if the ledger bears it out
    #[command(
        after_help = "Example:\n  muster claim make 3fa9c1d2b7e0 --at-least 1.8 --key ada.key --name ada.example --out fast.claim\n\nThe number is that of `muster rank` in the class of the record, under a signed checkpoint. The file holds the question, tree size, root, interval and denominators: attempts, retries, candidates, classes behind it."
    )]
    Make(MakeArgs),
    /// Check a claim offline, at the size that it names and now
    #[command(
        after_help = "Example:\n  muster claim check fast.claim --folder mirror --vkey KEY --signer ADA-KEY\n\nExit codes: 0 supported, 6 weaker, 1 not supported or refused, 4 void: not signed, or about another tree than this ledger's."
    )]
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct MakeArgs {
    /// Record id of a result, a unique prefix of at least eight digits, or a leaf index
    record: String,
    /// The ratio to the baseline, above one, such as 1.8
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    at_least: PartsPerBillion,
    /// One performance case [default: the geometric mean over all of them]
    #[arg(long, value_name = "CASE")]
    case: Option<String>,
    /// Leave out results of a weaker sandbox: full, kernel or none
    #[arg(long, value_name = "LEVEL", default_value = "none")]
    sandbox: SandboxLevel,
    /// As the ledger stood at this size [default: that of the newest signed checkpoint]
    #[arg(long, value_name = "SIZE")]
    as_of: Option<u64>,
    /// File of the signing key; made on first use, readable by its owner alone
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Name of the key, such as a domain of yours: no spaces, no `+`
    #[arg(long, value_name = "NAME")]
    name: String,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    source: LedgerSource,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CheckArgs {
    /// A claim that `muster claim make` wrote
    file: PathBuf,
    /// The verifier key that should have signed it [default: any; the name is then what the file says]
    #[arg(long, value_name = "KEY")]
    signer: Option<String>,
    #[command(flatten)]
    source: LedgerSource,
}

/// Runs the subcommand.
pub(crate) async fn run(context: &Context, command: &ClaimCommand) -> Result<Ending, Refusal> {
    match command {
        ClaimCommand::Make(args) => make(context, args).await,
        ClaimCommand::Check(args) => check_file(context, args),
    }
}

fn ratio(text: &str) -> Result<PartsPerBillion, String> {
    let above_one = |ratio: &PartsPerBillion| ratio.ratio() > 1.0;
    parse_decimal(text).filter(above_one).ok_or_else(|| "write a number above one, such as 1.8".to_owned())
}

#[derive(Debug, Serialize)]
struct Made {
    file: String,
    cause: String,
    signed: SignedClaim,
}

async fn make(context: &Context, args: &MakeArgs) -> Result<Ending, Refusal> {
    let (reading, leaf, bytes) = proven_reading(context, &args.source, &args.record).await?;
    let size = args.as_of.unwrap_or(reading.log.integrated_size());
    let moment = AsOf::of(&reading, Some(size))?;
    if moment.checkpoint_size.is_none() {
        let cause = format!("no signed checkpoint covers {size} entries yet");
        let next = "leave out --as-of, or run `muster ledger checkpoint` first";
        return Err(Refusal::new("ledger/not-integrated", size.to_string(), cause, next));
    }
    let entry = Entry::read(&bytes).ok().filter(|_| leaf.0 < size);
    let result = entry.as_ref().and_then(|entry| entry.body.result()).ok_or_else(|| {
        let cause = format!("entry {leaf} is no result of the first {size} entries");
        let next = "name a result; `muster rank TASK` and `muster query --kind result` list them";
        Refusal::new("claim/not-a-result", &args.record, cause, next)
    })?;
    let question = Question {
        task: result.task,
        candidate: result.candidate,
        class: result.class,
        case: args.case.clone(),
        least_sandbox: args.sandbox,
    };
    let (answer, cause) = supported(&reading, args, &question, size)?;
    let tree = Tree { origin: moment.origin, size, root: moment.root };
    let claim = Claim::of(question, args.at_least, tree, &answer);
    let signed = SignedClaim::sign(claim, &signer(&args.key, &args.name)?).map_err(|error| {
        Refusal::new("claim/form", &args.record, error.to_string(), "report this: it should not happen")
    })?;
    write(&args.out, &signed)?;
    let made = Made { file: args.out.display().to_string(), cause, signed };
    context.output.print(&made, render_made);
    Ok(Ending::Done)
}

/// The ledger's answer, if it bears the claim out: nobody signs here what a check would not confirm.
fn supported(
    reading: &Reading,
    args: &MakeArgs,
    question: &Question,
    size: u64,
) -> Result<(Answer, String), Refusal> {
    let entries = reading.entries(size)?;
    let refuse = |cause: String, next: String| Refusal::new("claim/not-supported", &args.record, cause, next);
    let answer = ask(question, &entries, size, &mut |digest: &Digest| reading.blob(digest))
        .map_err(|cause| refuse(cause, "see `muster rank TASK`".to_owned()))?;
    let (verdict, cause) = judge(args.at_least, &answer.found);
    let next = match verdict {
        Verdict::Supported => return Ok((answer, cause)),
        Verdict::Weaker if answer.found.low < args.at_least => {
            format!("claim at most {}, or measure more leases", decimal(answer.found.low))
        }
        Verdict::Weaker => "measure it in three leases or more (`muster submit --fresh`)".to_owned(),
        Verdict::NotSupported | Verdict::Void => {
            "see `muster rank TASK` and `muster audit RECORD`".to_owned()
        }
    };
    Err(refuse(cause, next))
}

fn signer(key: &Path, name: &str) -> Result<LogSigner, Refusal> {
    let secret = signing_key(key, "restore this key file from a backup, or name another file")?;
    LogSigner::new(name, SigningKey::from_bytes(&secret.seed())).map_err(|error| {
        Refusal::new(
            "claim/name",
            name,
            error.to_string(),
            "name the key as you would a domain, such as ada.example",
        )
    })
}

fn write(path: &Path, signed: &SignedClaim) -> Result<(), Refusal> {
    let refuse = |cause: String| {
        let next = "name a file in a folder that takes files";
        Refusal::new("claim/file", path.display().to_string(), cause, next)
    };
    let bytes = signed.to_bytes().map_err(|error| refuse(error.to_string()))?;
    std::fs::write(path, bytes).map_err(|error| refuse(error.to_string()))
}

fn render_made(made: &Made) -> String {
    let SignedClaim { claim, signer, .. } = &made.signed;
    let lines = [
        claim.sentence.clone(),
        made.cause.clone(),
        behind(&claim.denominators),
        format!("tree of {} entries, root {}, log {}", claim.tree.size, claim.tree.root, claim.tree.origin),
        format!("signed by {signer}; written to {}", made.file),
        format!("check it with: muster claim check {} --folder LEDGER --vkey KEY", made.file),
    ];
    lines.join("\n")
}

/// The denominators, for people.
fn behind(of: &Denominators) -> String {
    format!(
        "behind it: {} attempts in {} submissions ({} failed, {} lost, {} open, {} refused), {} retries; at the task {} attempts at {} candidates, {} policies, {} classes; in the class {} results of {} candidates, {} ok; {} near tasks, sealed cases opened {} times",
        of.attempts,
        of.submissions,
        of.failed,
        of.lost,
        of.open,
        of.refused,
        of.retries,
        of.task_attempts,
        of.task_candidates,
        of.task_policies,
        of.task_classes,
        of.class_results,
        of.class_candidates,
        of.class_candidates_ok,
        of.near_tasks,
        of.openings
    )
}

fn check_file(context: &Context, args: &CheckArgs) -> Result<Ending, Refusal> {
    let refuse = |cause: String| {
        let next = "name a file that `muster claim make` wrote";
        Refusal::new("claim/unreadable", args.file.display().to_string(), cause, next)
    };
    let bytes =
        read_limited(&args.file, CLAIM_BYTES_MAX).map_err(|error| refuse(error.source.to_string()))?;
    let signed = SignedClaim::parse(&bytes).map_err(|error| refuse(error.to_string()))?;
    let trusted = args.signer.as_deref().map(|key| verifier_key(&context.state, Some(key))).transpose()?;
    let reading = Reading::of(&context.state, &args.source)?;
    let size = reading.log.integrated_size();
    let claimed = signed.claim.tree.size;
    let root = match claimed <= size {
        true => Some(reading.log.root_at(claimed).map_err(|error| reading.unreadable(&error))?),
        false => None,
    };
    let entries = reading.entries(size)?;
    let origin = reading.log.checkpoint().origin.as_str();
    let grounds = Grounds { origin, size, root, entries: &entries };
    let report = check(&signed, trusted.as_ref(), &grounds, &mut |digest: &Digest| reading.blob(digest));
    context.output.print(&report, render_report);
    Ok(match report.verdict {
        Verdict::Supported => Ending::Done,
        Verdict::Weaker => Ending::Weaker,
        Verdict::NotSupported => Ending::Failed,
        Verdict::Void => Ending::Unverified,
    })
}

fn render_report(report: &Report) -> String {
    let word = match report.verdict {
        Verdict::Supported => "SUPPORTED",
        Verdict::Weaker => "WEAKER",
        Verdict::NotSupported => "NOT SUPPORTED",
        Verdict::Void => "VOID",
    };
    let known = if report.is_signer_known { "" } else { " (nobody here knows this key)" };
    let mut lines = vec![
        format!("{word}: {}", report.cause),
        format!("claimed: {}", report.sentence),
        format!("signed by {}{known}", report.signer),
    ];
    let line =
        |when: &str, finding: &Finding| format!("{when} ({} entries): {}", finding.tree_size, finding.cause);
    if let (Some(then), Some(now)) = (&report.then, &report.now) {
        lines.push(line("then", then));
        lines.push(line("now", now));
        lines.push(behind(&report.denominators));
    }
    lines.join("\n")
}
