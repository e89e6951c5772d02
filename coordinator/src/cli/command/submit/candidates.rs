//! The candidates of a submission as read from files, and what their submitter should know of them.

use crate::cli::client::Client;
use crate::cli::operand;
use fleet_config::config::{
    CandidateDraft, Files, LoadedCandidate, assemble_candidate, lint_candidate, load, parse_candidates,
};
use fleet_config::domain::{BlobRef, Candidate, CandidateId, CellId, DeviceClass, SubmissionId, Task};
use fleet_config::refusal::Refusal;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Candidates that one warning names; the rest are counted.
const NAMED: usize = 5;

/// The path of a source that came as text.
const SOURCE_NAME: &str = "source.cu";

/// A candidate that is no file.
#[derive(Debug, Clone)]
pub(in crate::cli::command) struct CandidateText {
    /// What refusals call it.
    pub place: String,
    /// TOML, as in a candidate's sidecar.
    pub sidecar: String,
    pub source: String,
}

/// Candidates in the order that they were named in.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    read: Vec<Read>,
    pub warnings: Vec<Refusal>,
}

#[derive(Debug)]
struct Read {
    candidate: Candidate,
    id: CandidateId,
    /// The path as typed, or the place of a text; a file of several candidates has one path.
    path: String,
}

impl Candidates {
    /// Reads the files and hands their sources to the coordinator.
    pub(super) async fn read(client: &mut Client, task: &Task, paths: &[PathBuf]) -> Result<Self, Refusal> {
        let mut candidates = Self::default();
        let mut warnings = Vec::new();
        for path in paths {
            operand::exists(
                path,
                "candidate/missing-file",
                "correct the path of the candidate's source; nothing was submitted",
            )?;
            for one in load::candidates(path, &task.entry, task.limits.source).map_err(first)? {
                let path = path.display().to_string();
                warnings.extend(candidates.keep(client, task, path, one).await?);
            }
        }
        Ok(candidates.told(warnings))
    }

    /// Takes candidates that came as text and hands their sources to the coordinator.
    pub(super) async fn take(
        client: &mut Client,
        task: &Task,
        texts: Vec<CandidateText>,
    ) -> Result<Self, Refusal> {
        let mut candidates = Self::default();
        let mut warnings = Vec::new();
        for CandidateText { place, sidecar, source } in texts {
            let files = Files::from([(SOURCE_NAME.to_owned(), source.into_bytes())]);
            for draft in parse_candidates(&sidecar, &place, &task.entry)? {
                let draft = CandidateDraft { file: Some(SOURCE_NAME.to_owned()), ..draft };
                let one = assemble_candidate(&draft, &files, task.limits.source)?;
                warnings.extend(candidates.keep(client, task, place.clone(), one).await?);
            }
        }
        Ok(candidates.told(warnings))
    }

    /// Hands the sources of one candidate to the coordinator; answers with what is to be told of it.
    async fn keep(
        &mut self,
        client: &mut Client,
        task: &Task,
        path: String,
        one: LoadedCandidate,
    ) -> Result<Vec<Refusal>, Refusal> {
        let warnings = lint_candidate(task, &one.candidate).warnings;
        for (_, bytes) in one.blobs {
            let _stored: BlobRef = client.put("/v1/blobs", bytes).await?;
        }
        let id = one.candidate.id().map_err(|error| {
            Refusal::new("candidate/canonical", path.clone(), error.to_string(), "write smaller numbers")
        })?;
        self.read.push(Read { candidate: one.candidate, id, path });
        Ok(warnings)
    }

    /// These, with what their submitter should know of them.
    fn told(mut self, warnings: Vec<Refusal>) -> Self {
        self.warnings = self.repeats();
        self.warnings.extend(gathered(warnings));
        self
    }

    /// The documents, for the request.
    pub(super) fn documents(&self) -> Vec<Candidate> {
        self.read.iter().map(|read| read.candidate.clone()).collect()
    }

    /// What people call the cells: the candidate's name, or its path where two candidates have one name, and the
    /// class.
    pub(super) fn labels(&self, submission: SubmissionId, targets: &[String]) -> BTreeMap<String, String> {
        let mut ids_of: BTreeMap<&str, Vec<CandidateId>> = BTreeMap::new();
        for read in &self.read {
            let ids = ids_of.entry(&read.candidate.name).or_default();
            if !ids.contains(&read.id) {
                ids.push(read.id);
            }
        }
        let mut labels = BTreeMap::new();
        for read in &self.read {
            let is_alone = ids_of.get(read.candidate.name.as_str()).is_none_or(|ids| ids.len() == 1);
            let name = if is_alone { &read.candidate.name } else { &read.path };
            for class in targets.iter().filter_map(|text| text.parse::<DeviceClass>().ok()) {
                let class = class.to_string();
                let cell = CellId::of(submission, read.id, &class).to_string();
                labels.entry(cell).or_insert_with(|| format!("{name} on {class}"));
            }
        }
        labels
    }

    /// Files that say the same: one candidate twice makes one cell, one source under two names makes two.
    fn repeats(&self) -> Vec<Refusal> {
        let mut by_id: BTreeMap<CandidateId, &str> = BTreeMap::new();
        let mut by_source: BTreeMap<String, &str> = BTreeMap::new();
        let mut warnings = Vec::new();
        for read in &self.read {
            if let Some(before) = by_id.get(&read.id) {
                warnings.push(Refusal::new(
                    "candidate/same",
                    &read.path,
                    format!("this is the same candidate as {before}: one cell for both"),
                    "leave one of them out, or give it another name to measure it apart",
                ));
                continue;
            }
            by_id.insert(read.id, &read.path);
            let blobs: Vec<_> = read.candidate.source.files.iter().map(|file| file.blob).collect();
            // A plan is part of what runs: the same source launched otherwise is something else.
            let source = serde_json::to_string(&(blobs, &read.candidate.plan)).unwrap_or_default();
            if let Some(before) = by_source.get(&source) {
                warnings.push(Refusal::new(
                    "candidate/same-source",
                    &read.path,
                    format!("this is the same source as {before} under another name: measured apart"),
                    "leave one of them out unless that is what you want",
                ));
            } else {
                by_source.insert(source, &read.path);
            }
        }
        warnings
    }
}

/// One warning for all candidates of which the same is said.
fn gathered(warnings: Vec<Refusal>) -> Vec<Refusal> {
    let mut places: Vec<(Refusal, Vec<String>)> = Vec::new();
    for warning in warnings {
        let is_same = |one: &Refusal| {
            (&one.code, &one.cause, &one.next) == (&warning.code, &warning.cause, &warning.next)
        };
        match places.iter_mut().find(|(one, _)| is_same(one)) {
            Some((_, of_it)) => of_it.push(warning.place),
            None => {
                let place = warning.place.clone();
                places.push((warning, vec![place]));
            }
        }
    }
    let gather = |(warning, mut places): (Refusal, Vec<String>)| {
        let count = places.len();
        places.truncate(NAMED);
        let more = count - places.len();
        let further = if more > 0 { format!(" and {more} more") } else { String::new() };
        Refusal { place: format!("{}{further}", places.join(", ")), ..warning }
    };
    places.into_iter().map(gather).collect()
}

/// The first of several refusals; the others are printed before it.
fn first(mut refusals: Vec<Refusal>) -> Refusal {
    for other in refusals.split_off(1.min(refusals.len())) {
        crate::cli::output::note(&other.to_string());
    }
    refusals
        .pop()
        .unwrap_or_else(|| Refusal::new("internal/empty", "", "no refusal in an error", "report this"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::Bytes;

    fn read(file: &str, path: &str, source: &str) -> Read {
        let files = Files::from([(file.to_owned(), source.as_bytes().to_vec())]);
        let loaded = assemble_candidate(&CandidateDraft::bare(file), &files, Bytes(1 << 16)).unwrap();
        Read { id: loaded.candidate.id().unwrap(), candidate: loaded.candidate, path: path.to_owned() }
    }

    fn candidates(read: Vec<Read>) -> Candidates {
        Candidates { read, warnings: Vec::new() }
    }

    #[test]
    fn equal_candidates_and_equal_sources_are_told() {
        let all = candidates(vec![
            read("good.cu", "a/good.cu", "one"),
            read("good.cu", "b/good.cu", "one"),
            read("good-copy.cu", "good-copy.cu", "one"),
            read("other.cu", "other.cu", "two"),
        ]);
        let told: Vec<_> = all.repeats().into_iter().map(|w| (w.code.into_owned(), w.place)).collect();
        let expected = [("candidate/same", "b/good.cu"), ("candidate/same-source", "good-copy.cu")];
        assert_eq!(told, expected.map(|(code, place)| (code.to_owned(), place.to_owned())));
    }

    #[test]
    fn cells_are_called_by_name_and_class_and_by_path_where_names_repeat() {
        let all = candidates(vec![
            read("good.cu", "a/good.cu", "one"),
            read("good.cu", "b/good.cu", "two"),
            read("other.cu", "other.cu", "three"),
        ]);
        let targets = ["cpu:x86-64-v2".to_owned()];
        let labels: Vec<_> = all.labels(SubmissionId([1; 32]), &targets).into_values().collect();
        assert_eq!(labels.len(), 3);
        for label in ["a/good.cu", "b/good.cu", "other"] {
            assert!(labels.contains(&format!("{label} on cpu:x86-64-v2")), "{labels:?}");
        }
    }

    #[test]
    fn the_same_warning_about_many_candidates_is_one_line() {
        let warn =
            |place: usize, cause: &str| Refusal::new("candidate/no-licence", format!("c{place}"), cause, "n");
        let mut all: Vec<_> = (0..7).map(|place| warn(place, "no licence is stated")).collect();
        all.push(warn(9, "another cause"));
        let gathered = gathered(all);
        assert_eq!(gathered.len(), 2);
        assert_eq!(gathered[0].place, "c0, c1, c2, c3, c4 and 2 more");
        assert_eq!(gathered[1].place, "c9");
    }
}
