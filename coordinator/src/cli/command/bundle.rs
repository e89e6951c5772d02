//! `muster bundle` and `muster verify-bundle`: everything that belongs to one result in one file, and its offline check.

use super::ledger::proven_reading;
use crate::cli::ledger_args::{BundleArgs, VerifyBundleArgs};
use crate::cli::output::counted;
use crate::cli::reading::{Reading, verifier_key};
use crate::cli::{Context, Ending};
use fleet_config::domain::Digest;
use fleet_config::refusal::Refusal;
use ledger::disk::read_limited;
use ledger::dossier::archive::{ARCHIVE_BYTES_MAX, is_legal, pack, unpack};
use ledger::dossier::{CheckReport, CollectError, Files, check, collect};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Serialize)]
struct Made {
    file: String,
    record: String,
    leaf: u64,
    origin: String,
    tree_size: u64,
    root: String,
    entries: usize,
    files: usize,
    bytes: usize,
    missing: Vec<String>,
}

/// Makes a bundle.
pub(crate) async fn make(context: &Context, args: &BundleArgs) -> Result<Ending, Refusal> {
    let (reading, leaf, _) = proven_reading(context, &args.source, &args.record).await?;
    let (files, manifest) = collect(&reading.log, leaf, &mut |digest: &Digest| reading.blob(digest))
        .map_err(|error| refusal(&reading, &args.record, &error))?;
    let bytes = write(&args.out, &files)?;
    let made = Made {
        file: args.out.display().to_string(),
        record: manifest.record.to_string(),
        leaf: leaf.0,
        origin: manifest.origin,
        tree_size: manifest.tree_size,
        root: manifest.root.to_string(),
        entries: manifest.entries.len(),
        files: files.len(),
        bytes,
        missing: manifest.missing,
    };
    context.output.print(&made, render_made);
    Ok(if made.missing.is_empty() { Ending::Done } else { Ending::Unverified })
}

fn refusal(reading: &Reading, record: &str, error: &CollectError) -> Refusal {
    match error {
        CollectError::Log(error) => reading.unreadable(error),
        CollectError::NotAResult { .. } => Refusal::new(
            "bundle/not-a-result",
            record,
            error.to_string(),
            "name a result; `muster ledger prove` proves entries of every kind",
        ),
        CollectError::NotIntegrated { .. } => Refusal::new(
            "ledger/not-integrated",
            record,
            error.to_string(),
            "start the coordinator, which signs a checkpoint over it, and ask again",
        ),
        CollectError::TooLarge => {
            Refusal::new("bundle/too-large", record, error.to_string(), "mirror the ledger instead")
        }
        CollectError::Unreadable { .. } | CollectError::Canonical(_) => {
            Refusal::new("bundle/unreadable", record, error.to_string(), "run `muster ledger verify`")
        }
    }
}

/// Writes a `.tar` in one piece, or the files into a new folder; answers with how many bytes.
fn write(out: &Path, files: &Files) -> Result<usize, Refusal> {
    let bad = |path: &Path, cause: String| {
        Refusal::new(
            "bundle/write",
            path.display().to_string(),
            cause,
            "name a new file that ends in .tar, or a new folder",
        )
    };
    if out.extension().is_some_and(|extension| extension == "tar") {
        let bytes = pack(files).map_err(|error| bad(out, error.to_string()))?;
        let mut part = out.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        fs::write(&part, &bytes).map_err(|error| bad(&part, error.to_string()))?;
        fs::rename(&part, out).map_err(|error| bad(out, error.to_string()))?;
        return Ok(bytes.len());
    }
    fs::create_dir(out).map_err(|error| bad(out, error.to_string()))?;
    for (name, content) in files {
        let path = out.join(name);
        let folder = path.parent().unwrap_or(out);
        fs::create_dir_all(folder).map_err(|error| bad(folder, error.to_string()))?;
        fs::write(&path, content).map_err(|error| bad(&path, error.to_string()))?;
    }
    Ok(files.values().map(Vec::len).sum())
}

fn render_made(made: &Made) -> String {
    let mut lines = vec![
        format!("{}: result {}, entry {} of {}", made.file, made.record, made.leaf, made.tree_size),
        format!(
            "{} entries with their proofs in {}, {} bytes; root {}, log {}",
            made.entries,
            counted(made.files, "file"),
            made.bytes,
            made.root,
            made.origin
        ),
    ];
    lines.extend(
        made.missing
            .iter()
            .map(|name| format!("MISSING from the ledger: blob {name}; the bundle will not verify")),
    );
    lines.push(format!("check it with: muster verify-bundle {} --vkey KEY", made.file));
    lines.join("\n")
}

/// Checks a bundle offline.
pub(crate) fn verify(context: &Context, args: &VerifyBundleArgs) -> Result<Ending, Refusal> {
    let vkey = verifier_key(&context.state, args.vkey.as_deref())?;
    let files = if args.file.is_dir() { from_folder(&args.file)? } else { from_file(&args.file)? };
    let report = check(&files, &vkey);
    context.output.print(&report, render_report);
    Ok(if report.verified { Ending::Done } else { Ending::Unverified })
}

fn from_file(path: &Path) -> Result<Files, Refusal> {
    let refuse = |cause: String| {
        let next = "name a bundle that `muster bundle` wrote, as .tar or unpacked";
        Refusal::new("bundle/unreadable", path.display().to_string(), cause, next)
    };
    let bytes = read_limited(path, ARCHIVE_BYTES_MAX).map_err(|error| refuse(error.source.to_string()))?;
    unpack(&bytes).map_err(|error| refuse(error.to_string()))
}

/// The files of an unpacked bundle.
fn from_folder(root: &Path) -> Result<Files, Refusal> {
    let refuse = |path: &Path, cause: String| {
        let next = "name a bundle that `muster bundle` wrote, as .tar or unpacked";
        Refusal::new("bundle/unreadable", path.display().to_string(), cause, next)
    };
    let (mut files, mut total, mut folders) = (Files::new(), 0_u64, vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| refuse(&folder, error.to_string()))?;
        for entry in entries {
            let path = entry.map_err(|error| refuse(&folder, error.to_string()))?.path();
            // Not followed: a link could lead anywhere.
            let kind =
                fs::symlink_metadata(&path).map_err(|error| refuse(&path, error.to_string()))?.file_type();
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if !kind.is_file() || !is_legal(&name) {
                return Err(refuse(&path, "no file of a bundle".to_owned()));
            }
            let left = ARCHIVE_BYTES_MAX.saturating_sub(total);
            let bytes = read_limited(&path, left).map_err(|error| refuse(&path, error.source.to_string()))?;
            total += bytes.len() as u64;
            files.insert(name, bytes);
        }
    }
    Ok(files)
}

fn render_report(report: &CheckReport) -> String {
    let mut lines: Vec<String> =
        report.faults.iter().map(|fault| format!("FAULT    {}: {}", fault.place, fault.cause)).collect();
    let text = |value: Option<String>| value.unwrap_or_else(|| "?".to_owned());
    lines.push(format!(
        "{}: result {} ({}), entry {} of {}, root {}; {} entries and {} blobs, trusting {} alone",
        if report.verified { "verified" } else { "NOT VERIFIED" },
        text(report.record.map(|record| record.to_string())),
        text(report.status.map(|status| status.to_string())),
        text(report.leaf.map(|leaf| leaf.to_string())),
        text(report.tree_size.map(|size| size.to_string())),
        text(report.root.map(|root| root.to_string())),
        report.entries,
        report.blobs,
        report.vkey
    ));
    if report.verified {
        lines.push("whether later entries judge it, only the log itself says".to_owned());
    }
    lines.join("\n")
}
