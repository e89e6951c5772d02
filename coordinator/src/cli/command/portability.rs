//! `muster portability`: how far candidates and families carry, as a table, JSON or CSV.

use super::insight::{QuestionArgs, csv, percent, times};
use super::rank::ask;
use crate::cli::output::{line, table};
use crate::cli::{Context, Ending};
use fleet_config::domain::PartsPerBillion;
use fleet_config::refusal::Refusal;
use ledger::rank::matrix::matrix;
use ledger::rank::portability::{Portability, Score, Target, Unit, portability};

/// Runs the subcommand.
pub(super) fn run(context: &Context, args: &QuestionArgs) -> Result<Ending, Refusal> {
    let answer = ask(context, &args.task, args.as_of, args.sandbox)?;
    let scores = portability(&matrix(&answer.task, &answer.ranking, &answer.results));
    if args.csv {
        line(&rows(&scores));
    } else {
        context.output.print(&scores, text);
    }
    Ok(Ending::Done)
}

fn word(unit: Unit) -> &'static str {
    match unit {
        Unit::Source => "source",
        Unit::Family => "family",
    }
}

fn text(scores: &Portability) -> String {
    let head = format!("{} as of {} entries", scores.task_name, scores.as_of);
    if scores.targets.is_empty() {
        return format!("{head}\n\nno class has a valid candidate yet");
    }
    let row = |score: &Score| {
        let worst = score.worst.map(percent).unwrap_or_default();
        let place = score.worst_target.and_then(|class| scores.targets.iter().position(|t| t.class == class));
        let worst = place.map_or(worst.clone(), |place| format!("{worst} on {}", place + 1));
        vec![
            word(score.unit).to_owned(),
            score.name.clone(),
            percent(score.portability),
            format!("{} of {}", score.valid_on, score.of),
            score.where_valid.map(percent).unwrap_or_default(),
            worst,
            if score.is_on_front { "yes" } else { "" }.to_owned(),
        ]
    };
    let header = ["UNIT", "NAME", "PORTABILITY", "VALID ON", "WHERE VALID", "WORST", "ON PARETO FRONT"];
    let body: Vec<Vec<String>> = scores.rows.iter().map(row).collect();
    let mut lines =
        vec![head, String::new(), table(&header, &body), String::new(), "over these classes:".to_owned()];
    for (place, target) in scores.targets.iter().enumerate() {
        let Target { architecture, device_model, policy_name, class, best, best_speed_up, device_kind: _ } =
            target;
        let (class, best_speed_up) = (class.short(), times(*best_speed_up));
        lines.push(format!(
            "{}: {architecture}, {device_model}, {policy_name}, class {class}; best: {best} {best_speed_up}",
            place + 1
        ));
    }
    if !scores.left_aside.is_empty() {
        let aside: Vec<String> = scores.left_aside.iter().map(|class| class.short()).collect();
        lines.push(format!("left aside, another class of the same device has more: {}", aside.join(", ")));
    }
    lines.push(format!("efficiency is the {}", scores.denominator));
    if !scores.notice.is_empty() {
        lines.push(scores.notice.clone());
    }
    lines.join("\n")
}

fn rows(scores: &Portability) -> String {
    let header = [
        "unit",
        "name",
        "id",
        "portability",
        "valid_on",
        "of",
        "where_valid",
        "worst",
        "worst_class",
        "pareto",
        "architecture",
        "device_model",
        "class",
        "efficiency",
    ];
    let ratio = |value: PartsPerBillion| format!("{:.9}", value.ratio());
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for score in &scores.rows {
        for (target, efficiency) in scores.targets.iter().zip(&score.efficiencies) {
            let candidate = score.candidate.map(|id| id.to_string());
            lines.push(vec![
                word(score.unit).to_owned(),
                score.name.clone(),
                candidate.or_else(|| score.family.map(|id| id.to_string())).unwrap_or_default(),
                ratio(score.portability),
                score.valid_on.to_string(),
                score.of.to_string(),
                score.where_valid.map(ratio).unwrap_or_default(),
                score.worst.map(ratio).unwrap_or_default(),
                score.worst_target.map(|class| class.to_string()).unwrap_or_default(),
                score.is_on_front.to_string(),
                target.architecture.to_string(),
                target.device_model.clone(),
                target.class.to_string(),
                efficiency.map(ratio).unwrap_or_default(),
            ]);
        }
    }
    csv(&lines)
}
