//! `muster ledger mirror`: a verified copy of a log from a folder or from an HTTP server of static files.

use crate::cli::http_source::HttpSource;
use crate::cli::ledger_args::MirrorArgs;
use crate::cli::output::counted;
use crate::cli::reading::verifier_key;
use crate::cli::{Context, Ending};
use fleet_config::refusal::Refusal;
use indicatif::{ProgressBar, ProgressStyle};
use ledger::log::VerifierKey;
use ledger::mirror::{FolderSource, MirrorError, MirrorReport, Source, mirror};
use std::path::Path;

/// Runs the subcommand.
pub(crate) async fn run(context: &Context, args: MirrorArgs) -> Result<Ending, Refusal> {
    let vkey = verifier_key(&context.state, args.vkey.as_deref())?;
    let progress = match context.output.shows_progress() {
        true => ProgressBar::no_length().with_style(
            ProgressStyle::with_template("{spinner} {pos} entries, {per_sec}")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        ),
        false => ProgressBar::hidden(),
    };
    let from = args.from.clone();
    let source: Box<dyn Source + Send> = match from.split_once("://") {
        None => Box::new(FolderSource::at(Path::new(&from))),
        Some(_) => Box::new(HttpSource::at(&from, tokio::runtime::Handle::current())?),
    };
    // Disks and hashes block; they do it beside the runtime that carries the network.
    let work = tokio::task::spawn_blocking(move || copy(source, &args.to, &vkey, &progress)).await;
    let report = work.map_err(|error| {
        Refusal::new(
            "internal/mirror",
            &from,
            error.to_string(),
            "report this; the mirror is what it was before",
        )
    })?;
    let report = report.map_err(|error| refusal(&from, &error))?;
    let is_whole = report.blobs_damaged.is_empty();
    context.output.print(&report, render);
    Ok(if is_whole { Ending::Done } else { Ending::Unverified })
}

fn copy(
    mut source: Box<dyn Source + Send>,
    to: &Path,
    vkey: &VerifierKey,
    progress: &ProgressBar,
) -> Result<MirrorReport, MirrorError> {
    let report = mirror(source.as_mut(), to, vkey, &mut |entries| progress.set_position(entries));
    progress.finish_and_clear();
    report
}

fn refusal(from: &str, error: &MirrorError) -> Refusal {
    let (code, next) = match error {
        MirrorError::Forked { .. } => {
            ("mirror/forked", "keep both histories and ask the log's operator; the mirror is unchanged")
        }
        MirrorError::SetBack { .. } => {
            ("mirror/set-back", "mirror from the newest copy; the mirror is unchanged")
        }
        MirrorError::Checkpoint(_) | MirrorError::NoCheckpoint => {
            ("mirror/checkpoint", "name a ledger folder or its address, and give its key with --vkey")
        }
        MirrorError::Target(_) => ("mirror/target", "name an empty folder, or one that holds this mirror"),
        MirrorError::Disk(_) | MirrorError::Source(_) => {
            ("mirror/unreachable", "run it again: it goes on where it ended")
        }
        MirrorError::Mirrored(_) | MirrorError::Folder(_) => {
            ("mirror/damaged", "run `muster ledger verify` on the mirror, or begin a new one")
        }
        MirrorError::Proof(_)
        | MirrorError::Tile(_)
        | MirrorError::Bundle { .. }
        | MirrorError::Entry { .. }
        | MirrorError::Root { .. } => {
            ("mirror/source", "run `muster ledger verify` at the source; the mirror is unchanged")
        }
    };
    Refusal::new(code, from, error.to_string(), next)
}

fn render(report: &MirrorReport) -> String {
    let MirrorReport { origin, from, to, root, bundles, bundles_resumed, blobs, .. } = report;
    let root = root.map(|root| root.to_string()).unwrap_or_default();
    let mut lines = vec![
        format!("mirrored {origin}: {from} → {to} entries, root {root}"),
        format!(
            "{} and {} copied, {bundles_resumed} bundles left by an earlier run",
            counted(usize::try_from(*bundles).unwrap_or(usize::MAX), "bundle"),
            counted(usize::try_from(*blobs).unwrap_or(usize::MAX), "blob"),
        ),
    ];
    lines.extend(report.blobs_missing.iter().map(|name| format!("missing at the source: blob {name}")));
    lines.extend(
        report.blobs_damaged.iter().map(|name| format!("DAMAGED at the source and not copied: blob {name}")),
    );
    if report.blobs_unlisted > 0 {
        lines.push(format!("and {} more", report.blobs_unlisted));
    }
    lines.join("\n")
}
