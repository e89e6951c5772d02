//! `muster policy`: the ways of taking time, what each fixes, and what differs between two.

use crate::cli::output::table;
use crate::cli::{Context, Ending};
use clap::Subcommand;
use fleet_config::domain::{DeviceKind, MeasurementPolicy, Preset};
use fleet_config::refusal::Refusal;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum PolicyCommand {
    /// List policies, and presets with the policies that run them or the reason why nothing does
    #[command(after_help = "Example:\n  muster policy list --json")]
    List,
    /// Show every field of a policy or preset, with its hash
    #[command(after_help = "Examples:\n  muster policy show gpu-paired/1\n  muster policy show kernelbench")]
    Show { name: String },
    /// Show the fields in which two policies, or two presets, differ
    #[command(
        after_help = "Examples:\n  muster policy diff gpu-paired/1 gpu-paired/2\n  muster policy diff kernelbench cold\n\nExit codes: 0 equal, 1 they differ, or refused."
    )]
    Diff { one: String, other: String },
}

/// A policy or preset with its fields as text.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    kind: &'static str,
    /// blake3 of its canonical form; results under it carry that of the policy.
    hash: String,
    fields: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct Line {
    name: String,
    kind: &'static str,
    origin: String,
    hash: String,
    /// For presets: the policy that runs it, by kind of device, or why none does.
    runs_as: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
struct Difference {
    field: String,
    one: String,
    other: String,
}

/// Runs the subcommand.
pub(super) fn run(context: &Context, command: &PolicyCommand) -> Result<Ending, Refusal> {
    match command {
        PolicyCommand::List => {
            context.output.print(&list()?, |lines| listed(lines));
            Ok(Ending::Done)
        }
        PolicyCommand::Show { name } => {
            context.output.print(&shown(name)?, |shown| {
                let rows: Vec<Vec<String>> =
                    shown.fields.iter().map(|(field, value)| vec![field.clone(), value.clone()]).collect();
                format!(
                    "{} {}, {}\n{}",
                    shown.kind,
                    shown.name,
                    shown.hash,
                    table(&["FIELD", "VALUE"], &rows)
                )
            });
            Ok(Ending::Done)
        }
        PolicyCommand::Diff { one, other } => {
            let differences = differences(&shown(one)?, &shown(other)?)?;
            let same = differences.is_empty();
            context.output.print(&differences, |differences| {
                let row = |one: &Difference| vec![one.field.clone(), one.one.clone(), one.other.clone()];
                let rows: Vec<Vec<String>> = differences.iter().map(row).collect();
                if rows.is_empty() {
                    "no difference".to_owned()
                } else {
                    table(&["FIELD", one, other], &rows)
                }
            });
            Ok(if same { Ending::Done } else { Ending::Failed })
        }
    }
}

fn internal(name: &str, error: &dyn std::fmt::Display) -> Refusal {
    Refusal::new("internal/policy", name, error.to_string(), "report this")
}

fn list() -> Result<Vec<Line>, Refusal> {
    let mut lines = Vec::new();
    for policy in MeasurementPolicy::built_in() {
        let hash = policy.id().map_err(|error| internal(&policy.name, &error))?.to_string();
        let (name, origin) = (policy.name, "muster".to_owned());
        lines.push(Line { name, kind: "policy", origin, hash, runs_as: BTreeMap::new() });
    }
    for preset in Preset::ALL {
        let described = preset.description();
        let document = described.document().map_err(|error| internal(described.name, &error))?;
        let runs = |kind: DeviceKind| match preset.policy(kind) {
            Ok(policy) => policy.name,
            Err(unmet) => format!("refused: {unmet}"),
        };
        let runs_as = [DeviceKind::Gpu, DeviceKind::Cpu].map(|kind| (kind.name(), runs(kind)));
        lines.push(Line {
            name: described.name.to_owned(),
            kind: "preset",
            origin: described.origin.to_owned(),
            hash: document.digest().to_string(),
            runs_as: BTreeMap::from(runs_as),
        });
    }
    Ok(lines)
}

fn listed(lines: &[Line]) -> String {
    let row = |line: &Line| {
        let gpu = line.runs_as.get("gpu").cloned().unwrap_or_default();
        let cpu = line.runs_as.get("cpu").cloned().unwrap_or_default();
        let runs = if gpu == cpu { gpu } else { format!("GPU: {gpu}; CPU: {cpu}") };
        let hash = line.hash.get(..12).unwrap_or(&line.hash).to_owned();
        vec![line.name.clone(), line.kind.to_owned(), line.origin.clone(), hash, runs]
    };
    table(&["NAME", "KIND", "ORIGIN", "HASH", "RUNS AS"], &lines.iter().map(row).collect::<Vec<_>>())
}

fn shown(name: &str) -> Result<Shown, Refusal> {
    if let Some(preset) = Preset::named(name) {
        let described = preset.description();
        let document = described.document().map_err(|error| internal(name, &error))?;
        let rows = described.rows().into_iter().map(|(field, value)| (field.to_owned(), value));
        return Ok(Shown {
            name: described.name.to_owned(),
            kind: "preset",
            hash: document.digest().to_string(),
            fields: rows.collect(),
        });
    }
    let policy = MeasurementPolicy::built_in().into_iter().find(|policy| policy.name == name);
    let policy = policy.ok_or_else(|| {
        let next = "`muster policy list` shows them; variants with +screens, +stages or +flags are those of a submission";
        Refusal::new("policy/unknown", name.chars().take(80).collect::<String>(), "there is no such policy or preset", next)
    })?;
    let document = policy.document().map_err(|error| internal(name, &error))?;
    let value: Value = serde_json::from_slice(&document.bytes).map_err(|error| internal(name, &error))?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = value.as_object().into_iter().flatten().map(|(field, value)| (field.clone(), text(value)));
    let fields = fields.collect();
    Ok(Shown { name: policy.name, kind: "policy", hash: document.digest().to_string(), fields })
}

fn differences(one: &Shown, other: &Shown) -> Result<Vec<Difference>, Refusal> {
    if one.kind != other.kind {
        return Err(Refusal::new(
            "policy/unlike",
            format!("{} and {}", one.name, other.name),
            "one is a policy and the other a preset, which have other fields",
            "compare two of a kind; `muster policy list` says which policy runs a preset",
        ));
    }
    let names: std::collections::BTreeSet<&String> = one.fields.keys().chain(other.fields.keys()).collect();
    let value =
        |shown: &Shown, name: &str| shown.fields.get(name).cloned().unwrap_or_else(|| "absent".to_owned());
    let both = names.into_iter().map(|name| (name, value(one, name), value(other, name)));
    let differing = both.filter(|(_, one, other)| one != other);
    Ok(differing.map(|(field, one, other)| Difference { field: field.clone(), one, other }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_and_presets_are_listed_shown_and_told_apart() {
        let lines = list().unwrap();
        let bench = lines.iter().find(|line| line.name == "kernelbench/1").unwrap();
        assert!(bench.runs_as["gpu"].starts_with("refused: "), "{bench:?}");
        assert_eq!(lines.iter().find(|line| line.name == "paired/1").unwrap().runs_as["cpu"], "cpu-paired/1");
        let differing =
            differences(&shown("gpu-paired/1").unwrap(), &shown("gpu-paired/2").unwrap()).unwrap();
        let fields: Vec<&str> = differing.iter().map(|one| one.field.as_str()).collect();
        assert!(fields.contains(&"placement") && fields.contains(&"name") && !fields.contains(&"warmups"));
        assert_eq!(shown("kernelbench").unwrap().fields["discarded"], "1");
        assert_eq!(shown("events-10-100/1").unwrap().fields["statistic"], "not stated");
        assert_eq!(shown("no such").unwrap_err().code, "policy/unknown");
        let unlike = differences(&shown("paired").unwrap(), &shown("gpu-paired/1").unwrap()).unwrap_err();
        assert_eq!(unlike.code, "policy/unlike");
    }
}
