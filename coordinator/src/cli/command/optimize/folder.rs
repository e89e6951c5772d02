//! The folder of one campaign. A kill at any moment leaves each file as it was or as it should be: what is finished is neither
//! lost nor done twice.
//!
//! ```text
//! run-NNN/lock                       held by the process that runs the campaign
//! run-NNN/campaign.json              written once, before the first attempt
//! run-NNN/template/                  what a search began with
//! run-NNN/attempts/NNNN/             proposal.json and sources, there at once; result.json when there is a verdict
//! run-NNN/stopped.json               why the search ended
//! run-NNN/final/                     rerun.json and holdout.json
//! run-NNN/history.json …             made anew from the above
//! ```

use crate::optimizer::attempt::{Attempt, Measured, Proposal};
use crate::optimizer::settings::Settings;
use fleet_config::refusal::Refusal;
use fleet_config::state::{Lock, lock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Files of an attempt or of a campaign, by their path in its folder.
pub(super) type Files = Vec<(String, Vec<u8>)>;

/// Runs that one folder of results may hold.
const RUNS_MAX: u32 = 100_000;
/// Largest file of a campaign that is read back, in bytes.
const FILE_MAX: u64 = 64 << 20;

/// A campaign's folder that this process owns.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the next free `run-NNN` in `out`, keeps `files` in it and fixes `settings` last: with them it is a campaign.
    pub(super) fn begin(
        out: &Path,
        settings: &Settings,
        files: &[(String, Vec<u8>)],
    ) -> Result<Self, Refusal> {
        std::fs::create_dir_all(out).map_err(at(out))?;
        for number in 1..RUNS_MAX {
            let path = out.join(format!("run-{number:03}"));
            match std::fs::create_dir(&path) {
                Ok(()) => {
                    let folder = Self::owned(path)?;
                    for part in ["attempts", "final", "template"] {
                        std::fs::create_dir(folder.path.join(part)).map_err(at(&folder.path))?;
                    }
                    for (name, bytes) in files {
                        folder.write(name, bytes)?;
                    }
                    folder.write_json("campaign.json", settings)?;
                    return Ok(folder);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(at(&path)(error)),
            }
        }
        let place = out.display().to_string();
        Err(Refusal::new("campaign/full", place, "the folder holds too many runs", "name another with --out"))
    }

    /// Opens the folder of a campaign that was begun.
    pub(super) fn resume(path: &Path) -> Result<(Self, Settings), Refusal> {
        if !path.join("campaign.json").is_file() {
            let cause = "there is no campaign.json: no campaign was begun here";
            let next = "name a run-NNN folder, or begin a new campaign";
            return Err(Refusal::new("campaign/no-campaign", path.display().to_string(), cause, next));
        }
        let folder = Self::owned(path.to_owned())?;
        let settings: Settings = folder.read_json("campaign.json")?.ok_or_else(|| missing(path))?;
        if settings.format != Settings::FORMAT {
            let place = path.join("campaign.json").display().to_string();
            let cause = format!("the format is not {}", Settings::FORMAT);
            return Err(Refusal::new(
                "campaign/format",
                place,
                cause,
                "resume it with the version that began it",
            ));
        }
        Ok((folder, settings))
    }

    fn owned(path: PathBuf) -> Result<Self, Refusal> {
        match lock(&path.join("lock"))? {
            Lock::Taken(file) => Ok(Self { path, _lock: file }),
            Lock::Busy(_) => Err(Refusal::new(
                "campaign/busy",
                path.display().to_string(),
                "another process runs this campaign",
                "wait for it, or stop it first",
            )),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of an attempt.
    pub(super) fn attempt(&self, iteration: u32) -> PathBuf {
        self.path.join("attempts").join(format!("{iteration:04}"))
    }

    /// Every attempt in order of iterations. A folder that was never finished is none: its proposal was told to nobody.
    pub(super) fn attempts(&self) -> Result<Vec<Attempt>, Refusal> {
        let mut attempts = Vec::new();
        for iteration in 0.. {
            let folder = format!("attempts/{iteration:04}");
            let Some(proposal) = self.read_json::<Proposal>(&format!("{folder}/proposal.json"))? else {
                break;
            };
            let measured = self.read_json::<Measured>(&format!("{folder}/result.json"))?;
            attempts.push(Attempt { proposal, measured });
        }
        Ok(attempts)
    }

    /// Keeps a proposal with its files: all of them, or nothing if this process is killed.
    pub(super) fn propose(&self, proposal: &Proposal, files: &[(String, Vec<u8>)]) -> Result<(), Refusal> {
        let (target, all) = (self.attempt(proposal.iteration), self.path.join("attempts"));
        let temporary = all.join(format!(".{:04}", proposal.iteration));
        match std::fs::remove_dir_all(&temporary) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(at(&temporary)(error)),
        }
        std::fs::create_dir_all(&temporary).map_err(at(&temporary))?;
        for (name, bytes) in files {
            let path = temporary.join(name);
            let folder = path.parent().unwrap_or(&temporary);
            std::fs::create_dir_all(folder).map_err(at(folder))?;
            write_synced(&path, bytes)?;
        }
        write_synced(&temporary.join("proposal.json"), &json(proposal)?)?;
        sync_folder(&temporary)?;
        std::fs::rename(&temporary, &target).map_err(at(&target))?;
        sync_folder(&all)
    }

    /// Keeps what became of an attempt.
    pub(super) fn finish(&self, iteration: u32, measured: &Measured) -> Result<(), Refusal> {
        self.write_json(&format!("attempts/{iteration:04}/result.json"), measured)
    }

    /// Replaces a file by `value` as JSON.
    pub(super) fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), Refusal> {
        self.write(name, &json(value)?)
    }

    /// Replaces a file: a kill leaves the old one or the new one.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Refusal> {
        let path = self.path.join(name);
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let temporary = path.with_file_name(format!(".{file}.new"));
        write_synced(&temporary, bytes)?;
        std::fs::rename(&temporary, &path).map_err(at(&path))?;
        sync_folder(path.parent().unwrap_or(&self.path))
    }

    /// The value in a file, or nothing where there is none.
    pub(super) fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            let place = self.path.join(name).display().to_string();
            let next = "restore the file; each was written whole, so something else has changed it";
            Refusal::new("campaign/damaged", place, error.to_string(), next)
        })
    }

    /// The bytes of a file, or nothing where there is none.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Refusal> {
        let path = self.path.join(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(&path)(error)),
        };
        let mut bytes = Vec::new();
        file.take(FILE_MAX).read_to_end(&mut bytes).map_err(at(&path))?;
        Ok(Some(bytes))
    }
}

fn missing(path: &Path) -> Refusal {
    let next = "begin a new campaign";
    Refusal::new("campaign/no-campaign", path.display().to_string(), "campaign.json is gone", next)
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|error| Refusal::new("internal/json", "campaign", error.to_string(), "report this"))?;
    text.push(b'\n');
    Ok(text)
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    let mut file = File::create(path).map_err(at(path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(at(path))
}

fn sync_folder(path: &Path) -> Result<(), Refusal> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(at(path))
}

/// The refusal that an error of the file system becomes.
pub(super) fn at(path: &Path) -> impl Fn(std::io::Error) -> Refusal + '_ {
    move |error| {
        let next = "check the folder's disk and rights; --resume goes on from what is written";
        Refusal::new("campaign/folder", path.display().to_string(), error.to_string(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::attempt::{Decision, Origin, Usage, Verdict};
    use crate::optimizer::campaign::Budget;
    use crate::optimizer::search::{Rung, Strategy};
    use crate::optimizer::settings::{ProposerSettings, Rule};
    use std::collections::BTreeMap;

    fn settings() -> Settings {
        Settings {
            format: Settings::FORMAT.to_owned(),
            campaign: "0".repeat(32),
            task: "1".repeat(64),
            task_name: "matmul-f32".to_owned(),
            entry: "matmul".to_owned(),
            class: "cpu:x86-64-v3".to_owned(),
            policy: None,
            fresh: false,
            parallel: 1,
            proposer: ProposerSettings::Search { strategy: Strategy::Halving { seed: 1, first: 4 } },
            budget: Budget {
                iterations: 7,
                device_seconds: None,
                wall_seconds: Some(60),
                target: Some(1.5),
                plateau: None,
                gain_min: 0.01,
            },
            rule: Rule::default(),
            started_on: "2026-11-30T12:00:00Z".to_owned(),
        }
    }

    fn proposal(iteration: u32) -> Proposal {
        Proposal {
            iteration,
            origin: Origin::Search,
            name: "tiles".to_owned(),
            parent: Some(0),
            point: BTreeMap::from([("rows".to_owned(), "4".to_owned())]),
            rung: Rung(0),
            words: String::new(),
            model: String::new(),
            usage: Usage::default(),
            failure: None,
            file: Some("source.cu".to_owned()),
            source_sha256: None,
        }
    }

    fn measured() -> Measured {
        Measured {
            submission: None,
            record: None,
            leaf: Some(3),
            candidate: None,
            status: None,
            verdict: Verdict::Masked,
            code: String::new(),
            cause: String::new(),
            ratio: None,
            cases: Vec::new(),
            device_ms: 0,
            reused: false,
            told: String::new(),
            decision: Decision::Masked,
            elapsed_ms: 7,
        }
    }

    #[test]
    fn what_was_written_is_there_after_a_kill_and_what_was_not_whole_is_not() {
        let out = tempfile::tempdir().unwrap();
        let folder = Folder::begin(out.path(), &settings(), &[]).unwrap();
        folder.propose(&proposal(0), &[("source.cu".to_owned(), b"kernel".to_vec())]).unwrap();
        folder.finish(0, &measured()).unwrap();
        folder.propose(&proposal(1), &[("inner/source.cu".to_owned(), b"kernel".to_vec())]).unwrap();
        let path = folder.path().to_owned();
        // As a kill in the middle of a proposal and of a replacement leaves it.
        std::fs::create_dir(path.join("attempts/.0002")).unwrap();
        std::fs::write(path.join("attempts/.0002/proposal.json"), b"{\"iter").unwrap();
        std::fs::write(path.join(".history.json.new"), b"[").unwrap();
        drop(folder);
        let (folder, read) = Folder::resume(&path).unwrap();
        assert_eq!(read, settings());
        let attempts = folder.attempts().unwrap();
        assert_eq!(attempts.len(), 2);
        assert_eq!((attempts[0].measured.clone(), attempts[1].measured.clone()), (Some(measured()), None));
        assert!(folder.attempt(1).join("inner/source.cu").is_file());
        folder.propose(&proposal(2), &[]).unwrap();
        assert_eq!(folder.attempts().unwrap().len(), 3, "what a kill left behind is in nobody's way");
    }

    #[test]
    fn a_folder_has_one_process_and_a_number_of_its_own() {
        let out = tempfile::tempdir().unwrap();
        let first = Folder::begin(out.path(), &settings(), &[]).unwrap();
        let second = Folder::begin(out.path(), &settings(), &[]).unwrap();
        assert!(first.path().ends_with("run-001") && second.path().ends_with("run-002"));
        assert_eq!(Folder::resume(first.path()).unwrap_err().code, "campaign/busy");
        assert_eq!(Folder::resume(out.path()).unwrap_err().code, "campaign/no-campaign");
        let path = second.path().to_owned();
        drop(second);
        std::fs::write(path.join("campaign.json"), b"{}").unwrap();
        assert_eq!(Folder::resume(&path).unwrap_err().code, "campaign/damaged");
    }
}
