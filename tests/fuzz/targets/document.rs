//! Canonical documents: what is accepted is written back byte for byte, and what a document says can be evaluated.

use super::Target;
use super::repository::{file, files, tagged};
use fleet_config::config::check_task;
use fleet_config::domain::canonical::{from_bytes, to_bytes};
use fleet_config::domain::{
    Candidate, CheckEvidence, ComparabilityClass, DeviceClass, DeviceDescription, Fingerprint, Holdout,
    HoldoutSection, MeasurementPolicy, Outcome, SampleSeries, SourceTree, Submission, Task,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) const DOCUMENT: Target = Target::new("document", run, seeds).length(16_384);

fn run(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 14 {
        0 => drop(document::<Value>(bytes)),
        1 => {
            if let Some(task) = document::<Task>(bytes) {
                let findings = check_task(&task);
                for refusal in findings.refusals.iter().chain(&findings.warnings) {
                    assert!(!refusal.code.is_empty());
                }
                task.blobs();
            }
        }
        2 => drop(document::<Candidate>(bytes).map(|candidate| candidate.id())),
        3 => drop(document::<MeasurementPolicy>(bytes).map(|policy| policy.id())),
        4 => {
            if let Some(submission) = document::<Submission>(bytes) {
                submission.id().map(|id| submission.cells(id).len()).ok();
            }
        }
        5 => {
            let devices = (document::<DeviceDescription>(bytes), "device.model=x".parse::<DeviceClass>());
            if let (Some(device), Ok(class)) = devices {
                class.matches(&device);
            }
        }
        6 => drop(document::<Fingerprint>(bytes)),
        7 => drop(document::<Outcome>(bytes)),
        8 => drop(document::<CheckEvidence>(bytes)),
        9 => drop(document::<ComparabilityClass>(bytes)),
        10 => drop(document::<SourceTree>(bytes)),
        11 => drop(document::<Vec<SampleSeries>>(bytes)),
        12 => {
            document::<Holdout>(bytes);
        }
        _ => sealed(bytes),
    }
}

/// Reads the document; what is accepted has the one form that the same value has.
fn document<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let value: T = from_bytes(bytes).ok()?;
    let written = to_bytes(&value).expect("what was read can be written");
    // Types may ignore fields they do not know, and then write fewer; what they write is a fixed point.
    let again: T = from_bytes(&written).expect("what was written can be read");
    assert_eq!(to_bytes(&again).expect("what was read can be written"), written);
    Some(value)
}

/// A sealed section is opened under its own commitment alone.
fn sealed(bytes: &[u8]) {
    let Ok(section) = from_bytes::<HoldoutSection>(bytes) else { return };
    let Ok(holdout) = section.holdout(&[5; 32]) else { return };
    let Ok(document) = section.document() else { return };
    let opened = HoldoutSection::open(&document.bytes, &[5; 32], &holdout);
    assert_eq!(opened.is_ok(), section.format == HoldoutSection::FORMAT);
    assert!(HoldoutSection::open(&document.bytes, &[6; 32], &holdout).is_err());
}

fn seeds() -> Vec<Vec<u8>> {
    let documents = [
        (1, "task.json"),
        (1, "task-2.json"),
        (2, "candidate.json"),
        (3, "policy-cpu-paired-1.json"),
        (3, "policy-gpu-probe-1.json"),
        (13, "holdout.json"),
    ];
    let mut seeds: Vec<Vec<u8>> = documents
        .iter()
        .map(|(tag, name)| tagged(*tag, &file(&format!("tests/vectors/domain/{name}"))))
        .collect();
    seeds.extend(files("tests/vectors/entries", ".json").iter().map(|entry| tagged(0, entry)));
    let outcome = Outcome::failed(
        fleet_config::domain::Status::WrongResult,
        fleet_config::domain::Stage::Validate,
        fleet_config::domain::Blame::Candidate,
        fleet_config::domain::Cause::default(),
        "look at the last row",
    );
    seeds.push(tagged(7, &to_bytes(&outcome).expect("an outcome has a form")));
    seeds.push(tagged(9, br#"{"fields":{},"policy":"00"}"#));
    seeds.push(tagged(
        11,
        br#"[{"baseline":[2000,2001],"candidate":[1000,1001],"case":"small","format":"muster.samples/1","warmups":3}]"#,
    ));
    seeds
}
