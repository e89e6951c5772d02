//! Candidate files: a bare source, its sidecar, or a list of `[[candidate]]` tables.

use super::assemble::check_tree_size;
use super::document::{Room, line, parse};
use super::launch::{LaunchRoom, plan};
use super::text::{CandidateText, CandidatesText, CostText};
use super::{Files, Findings, PlanFrame, check_plan, check_source};
use crate::domain::{
    BlobRef, Bytes, Candidate, Cost, Digest, FamilyId, LaunchPlan, Provenance, SourceFile, SourceTree, Task,
};
use crate::refusal::Refusal;
use std::collections::BTreeSet;

/// Most `[[candidate]]` tables of a file.
const CANDIDATES_MAX: usize = 4096;
/// Longest name of a candidate in bytes.
const NAME_MAX: usize = 120;

/// A candidate with paths where it will hold blobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CandidateDraft {
    /// `file:line` of its table, or the source file for a bare one.
    pub place: String,
    /// `None`: the source file's name without its ending.
    pub name: Option<String>,
    /// The file that is compiled; `None` in a sidecar, which stands beside it.
    pub file: Option<String>,
    /// Further files that it includes.
    pub files: Vec<String>,
    /// `None`: launched as the task's baseline is.
    pub plan: Option<LaunchPlan>,
    pub family: Option<FamilyId>,
    pub provenance: Provenance,
    pub licence: String,
}

/// A candidate, ready to be submitted.
#[derive(Debug, Clone)]
pub struct LoadedCandidate {
    pub candidate: Candidate,
    /// Every blob of its source tree.
    pub blobs: Vec<(BlobRef, Vec<u8>)>,
}

impl CandidateDraft {
    /// The candidate that a bare source file is: the baseline's launch, no claim of origin.
    pub fn bare(path: &str) -> Self {
        Self {
            place: path.to_owned(),
            name: None,
            file: Some(path.to_owned()),
            files: Vec::new(),
            plan: None,
            family: None,
            provenance: Provenance::default(),
            licence: String::new(),
        }
    }
}

/// The candidates that a TOML text describes: its `[[candidate]]` tables, or itself (a sidecar). `entry` is
/// the task's entry, which launches take where they name none. Errors: `candidate/syntax`,
/// `candidate/unknown-key`, `candidate/missing-key`, `candidate/value`, `candidate/size`, `candidate/launch`,
/// `candidate/parent`.
pub fn parse_candidates(text: &str, file: &str, entry: &str) -> Result<Vec<CandidateDraft>, Refusal> {
    let table: toml::Table = parse(text, file, Room::Candidate)?;
    if !table.contains_key("candidate") {
        let sidecar: CandidateText = parse(text, file, Room::Candidate)?;
        return Ok(vec![draft(sidecar, file.to_owned(), entry)?]);
    }
    let list: CandidatesText = parse(text, file, Room::Candidate)?;
    if list.candidate.len() > CANDIDATES_MAX {
        let cause = format!("more than {CANDIDATES_MAX} candidates");
        return Err(Refusal::new("candidate/size", file, cause, "Split the file."));
    }
    list.candidate
        .into_iter()
        .map(|spanned| {
            let place = format!("{file}:{}", line(text, spanned.span().start));
            draft(spanned.into_inner(), place, entry)
        })
        .collect()
}

fn draft(text: CandidateText, place: String, entry: &str) -> Result<CandidateDraft, Refusal> {
    let parent = text.parent.as_deref().map(str::parse).transpose().map_err(|error| {
        Refusal::new("candidate/parent", place.clone(), format!("{error}"), "Give the candidate's full id.")
    })?;
    let plan = text.launch.map(|launch| plan(launch, entry, LaunchRoom::Candidate, &place)).transpose()?;
    let cost = text.cost.map(|CostText { calls, tokens_in, tokens_out, micros, currency }| Cost {
        calls,
        tokens_in,
        tokens_out,
        micros,
        currency,
    });
    Ok(CandidateDraft {
        name: text.name,
        file: text.file,
        files: text.files,
        plan,
        family: text.family.as_deref().map(family),
        provenance: Provenance {
            author: text.author,
            agent: text.agent,
            model: text.model,
            parent,
            cost,
            origin: text.origin,
        },
        licence: text.licence,
        place,
    })
}

/// A family is written as its id, or as any name, whose hash is then the id.
fn family(text: &str) -> FamilyId {
    text.parse().unwrap_or_else(|_| {
        let mut bytes = b"muster.family/1\0".to_vec();
        bytes.extend(text.as_bytes());
        FamilyId(Digest::of(&bytes).0)
    })
}

/// Joins a draft with its files. `limit` is the task's limit on sources. Errors: `candidate/missing-key` (no
/// file), `candidate/missing-file`, `candidate/name`, `candidate/canonical`, `source/…`.
pub fn assemble_candidate(
    draft: &CandidateDraft,
    files: &Files,
    limit: Bytes,
) -> Result<LoadedCandidate, Refusal> {
    let Some(main) = &draft.file else {
        let next = "Add `file` with the path of the source.";
        return Err(Refusal::new("candidate/missing-key", draft.place.clone(), "missing key `file`", next));
    };
    let paths: BTreeSet<&String> = [main].into_iter().chain(&draft.files).collect();
    let (mut tree, mut blobs) = (Vec::new(), Vec::new());
    for path in paths {
        let Some(bytes) = files.get(path) else {
            let cause = format!("the file `{path}` is missing");
            let next = "Correct the path, relative to this file.";
            return Err(Refusal::new("candidate/missing-file", draft.place.clone(), cause, next));
        };
        check_source(bytes, path, limit)?;
        let blob = BlobRef::of(bytes);
        tree.push(SourceFile { path: path.clone(), blob });
        blobs.push((blob, bytes.clone()));
    }
    let source = SourceTree { main: main.clone(), files: tree };
    if source.files.len() > SourceTree::FILES_MAX {
        let cause = format!("more than {} files", SourceTree::FILES_MAX);
        return Err(Refusal::new("source/size", draft.place.clone(), cause, "Send fewer files."));
    }
    check_tree_size(&source, limit)?;
    let stem = || main.rsplit('/').next().unwrap_or(main).trim_end_matches(".cu").to_owned();
    let name = draft.name.clone().unwrap_or_else(stem);
    check_name(&name, &draft.place)?;
    let candidate = Candidate {
        format: Candidate::FORMAT.to_owned(),
        name,
        source,
        plan: draft.plan.clone(),
        family: draft.family,
        provenance: draft.provenance.clone(),
        licence: draft.licence.clone(),
    };
    match candidate.document() {
        Ok(_) => Ok(LoadedCandidate { candidate, blobs }),
        Err(error) => {
            let next = "Write smaller numbers.";
            Err(Refusal::new("candidate/canonical", draft.place.clone(), error.to_string(), next))
        }
    }
}

/// A name stands in tables and on terminals, so nobody may hide anything in it.
fn check_name(name: &str, place: &str) -> Result<(), Refusal> {
    if !name.is_empty() && name.len() <= NAME_MAX && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let cause = format!("the name has not 1 to {NAME_MAX} bytes without control characters");
    Err(Refusal::new("candidate/name", place, cause, "Rename the candidate."))
}

/// Judges a candidate against its task; the bytes of its sources are [`check_source`]'s. Refusals:
/// `candidate/format`, `candidate/name`, `candidate/launch`, `source/path`, `source/size`. Warnings: `candidate/one-author` (as
/// the reference's), `candidate/no-licence`.
pub fn lint_candidate(task: &Task, candidate: &Candidate) -> Findings {
    let mut findings = Findings::default();
    let name: String = candidate.name.chars().filter(|c| !c.is_control()).take(NAME_MAX).collect();
    findings.refusals.extend(check_name(&candidate.name, &name).err());
    if candidate.format != Candidate::FORMAT {
        let cause = format!("the format is not {}", Candidate::FORMAT);
        findings.refusals.push(Refusal::new(
            "candidate/format",
            name.clone(),
            cause,
            "Use a matching client.",
        ));
    }
    if let Some(plan) = &candidate.plan {
        if plan.steps.len() > LaunchPlan::STEPS_MAX || plan.scratch.len() > LaunchPlan::SCRATCH_MAX {
            let cause = "more steps or scratch buffers than a plan may have";
            findings.refusals.push(Refusal::new(
                "candidate/launch",
                name.clone(),
                cause,
                "Shorten the plan.",
            ));
        } else {
            findings.refusals.extend(check_plan(plan, &PlanFrame::of(task), "candidate/launch", &name));
        }
    }
    let paths = candidate.source.files.iter().map(|file| file.path.as_str());
    findings.refusals.extend(paths.filter_map(|path| super::check_path(path).err()));
    let listed = candidate.source.files.iter().any(|file| file.path == candidate.source.main);
    if !listed || candidate.source.files.len() > SourceTree::FILES_MAX {
        let cause = "the main file is not in the tree, or the tree has too many files";
        findings.refusals.push(Refusal::new("source/path", name.clone(), cause, "Send the whole tree."));
    }
    findings.refusals.extend(check_tree_size(&candidate.source, task.limits.source).err());
    let author = &candidate.provenance.author;
    if !author.is_empty() && *author == task.reference.author {
        let cause = format!("candidate and reference are both by `{author}`: they may share a mistake");
        let next = "Have somebody else review the reference.";
        findings.warnings.push(Refusal::new("candidate/one-author", name.clone(), cause, next));
    }
    if candidate.licence.is_empty() {
        let next = "Add `licence` as an SPDX expression to the sidecar.";
        findings.warnings.push(Refusal::new("candidate/no-licence", name, "no licence is stated", next));
    }
    findings
}
