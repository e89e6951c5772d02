//! `muster comparable`: whether two results may be compared, and in which fields they differ where not.

use crate::cli::output::table;
use crate::cli::reading::Reading;
use crate::cli::{Context, Ending};
use fleet_config::domain::{ComparabilityClass, Fact, RecordId, canonical};
use fleet_config::refusal::Refusal;
use ledger::entry::Entry;
use ledger::entry::predicate::{Environment, ResultRecord};
use serde::Serialize;

#[derive(Debug, Serialize)]
struct Answer {
    one: String,
    other: String,
    /// Two times of the same task in the same class.
    times: Verdict,
    /// Two ratios to the same baseline: drivers and boards may differ.
    ratios: Verdict,
}

#[derive(Debug, Serialize)]
struct Verdict {
    comparable: bool,
    differences: Vec<Difference>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Difference {
    field: String,
    one: String,
    other: String,
}

/// A result with the class that it was measured in.
struct Measured {
    record: RecordId,
    result: ResultRecord,
    class: ComparabilityClass,
}

/// Runs the subcommand.
pub(super) fn run(context: &Context, one: &str, other: &str) -> Result<Ending, Refusal> {
    let reading = Reading::open(&context.state)?;
    let (one, other) = (measured(&reading, one)?, measured(&reading, other)?);
    let verdict = |fields: Vec<String>| {
        let mut differences: Vec<Difference> =
            fields.iter().map(|field| difference(field, &one.class, &other.class)).collect();
        if one.result.task != other.result.task {
            let (one, other) = (one.result.task.short(), other.result.task.short());
            differences.push(Difference { field: "task".to_owned(), one, other });
        }
        Verdict { comparable: differences.is_empty(), differences }
    };
    let answer = Answer {
        one: one.record.to_string(),
        other: other.record.to_string(),
        times: verdict(one.class.differences(&other.class)),
        ratios: verdict(one.class.ratio_differences(&other.class)),
    };
    context.output.print(&answer, text);
    Ok(if answer.ratios.comparable { Ending::Done } else { Ending::Failed })
}

fn measured(reading: &Reading, text: &str) -> Result<Measured, Refusal> {
    let (leaf, bytes) = reading.find(text)?;
    let refused = |code: &'static str, cause: String, next: &'static str| {
        Refusal::new(code, leaf.to_string(), cause, next)
    };
    let entry = Entry::read(&bytes)
        .map_err(|error| refused("show/entry", error.to_string(), "run `muster ledger verify`"))?;
    let Some(result) = entry.body.result().cloned() else {
        let next = "name a result; `muster rank TASK` shows them";
        return Err(refused("comparable/no-result", "this entry is no result".to_owned(), next));
    };
    let environment = reading
        .blob(&result.environment.blake3)
        .and_then(|bytes| canonical::from_bytes::<Environment>(&bytes).ok());
    let Some(environment) = environment else {
        let cause = "the blob that says what it was measured in is missing".to_owned();
        return Err(refused("comparable/no-environment", cause, "run `muster ledger verify`"));
    };
    Ok(Measured { record: entry.record, result, class: environment.class })
}

fn difference(field: &str, one: &ComparabilityClass, other: &ComparabilityClass) -> Difference {
    let value = |class: &ComparabilityClass| match field {
        "policy" => class.policy.short(),
        "measure_version" => class.measure_version.to_string(),
        field => match class.fields.get(field) {
            Some(Fact::Text(text)) => text.clone(),
            Some(Fact::Count(count)) => count.to_string(),
            Some(Fact::Flag(flag)) => flag.to_string(),
            Some(Fact::Unknown(why)) => format!("unknown: {why}"),
            None => "absent".to_owned(),
        },
    };
    Difference { field: field.to_owned(), one: value(one), other: value(other) }
}

fn text(answer: &Answer) -> String {
    let word = |verdict: &Verdict| if verdict.comparable { "yes" } else { "no" };
    let mut lines = vec![
        format!("times comparable:  {}", word(&answer.times)),
        format!("ratios comparable: {}", word(&answer.ratios)),
    ];
    if !answer.times.differences.is_empty() {
        let row = |one: &Difference| {
            let matters = if answer.ratios.differences.contains(one) { "times, ratios" } else { "times" };
            vec![one.field.clone(), one.one.clone(), one.other.clone(), matters.to_owned()]
        };
        let rows: Vec<Vec<String>> = answer.times.differences.iter().map(row).collect();
        lines.push(table(&["FIELD", "ONE", "OTHER", "MATTERS FOR"], &rows));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::{Facts, Fingerprint, PolicyId, field};

    fn class(driver: &str, compiler: &str, policy: u8) -> ComparabilityClass {
        let text = |text: &str| Fact::Text(text.to_owned());
        let configuration = Facts::from([
            (field::DRIVER.to_owned(), text(driver)),
            (field::COMPILER.to_owned(), text(compiler)),
        ]);
        let none = Facts::new;
        let fingerprint = Fingerprint {
            identity: none(),
            configuration,
            before: none(),
            during: Vec::new(),
            after: none(),
        };
        ComparabilityClass::of(&fingerprint, PolicyId([policy; 32]))
    }

    #[test]
    fn a_driver_matters_for_times_alone_a_compiler_and_a_policy_for_both() {
        let one = class("580.1", "nvrtc 13", 1);
        let newer = class("590.2", "nvrtc 13", 1);
        assert_eq!(one.differences(&newer), [field::DRIVER]);
        assert!(one.ratio_differences(&newer).is_empty());
        let other = class("580.1", "nvrtc 12", 2);
        assert_eq!(one.ratio_differences(&other), [field::COMPILER, "policy"]);
        let told = difference(field::DRIVER, &one, &newer);
        assert_eq!((told.one.as_str(), told.other.as_str()), ("580.1", "590.2"));
        assert!(difference(field::ECC, &one, &newer).one.starts_with("unknown: "));
    }
}
