//! `muster economics` and `muster plan`: what is worth optimising, and when it pays.

use crate::cli::operand;
use crate::cli::output::table;
use crate::cli::{Context, Ending};
use crate::optimizer::amdahl::{Part, Plan};
use crate::optimizer::economics::{Feasibility, Months, Payback, PilotCost, Scatter, Use, Verdict, Whole};
use crate::optimizer::profile;
use clap::{Args, Subcommand, ValueEnum};
use fleet_config::refusal::Refusal;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum EconomicsCommand {
    /// Pilot cost, GPU hours saved a month, and after how many months it has paid
    #[command(
        after_help = "Example:\n  muster economics payback --engineer 900 --model 40 --gpu 60 \\\n    --saved-ms 0.9 --measured end-to-end --invocations 20000000 --gpu-hour 4 --within 12\n\nExit code 1: refused, or it does not pay within the period."
    )]
    Payback(PaybackArgs),
    /// Whether the gain can be seen at all: Amdahl's bound against the noise of the whole
    #[command(
        after_help = "Example:\n  muster economics feasibility --share 0.0036 --whole-seconds 32.3 --deviation-seconds 0.43\n\nExit code 1: a no-go."
    )]
    Feasibility(FeasibilityArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PaybackArgs {
    /// Setting up and reviewing, in your currency
    #[arg(long, value_parser = amount)]
    pub engineer: f64,
    /// Charges of the model
    #[arg(long, default_value_t = 0.0, value_parser = amount)]
    pub model: f64,
    /// GPU time of the pilot
    #[arg(long, value_parser = amount)]
    pub gpu: f64,
    /// Milliseconds that one invocation of the whole saves; below zero if it got slower
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    pub saved_ms: f64,
    /// Where these milliseconds were measured
    #[arg(long)]
    pub measured: Measured,
    /// Invocations a month
    #[arg(long, value_name = "COUNT", value_parser = amount)]
    pub invocations: f64,
    /// Uses of the kernel in each invocation are in --saved-ms already; requests that invoke it more than once count so often
    #[arg(long, value_name = "COUNT", default_value_t = 1.0, value_parser = amount)]
    pub invocations_per_request: f64,
    /// Price of one GPU hour
    #[arg(long, value_name = "PRICE", value_parser = amount)]
    pub gpu_hour: f64,
    /// The period, in months, that was fixed beforehand
    #[arg(long, value_name = "MONTHS", value_parser = amount)]
    pub within: Option<f64>,
}

/// Where a saving was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Measured {
    /// The whole application, after integration
    EndToEnd,
    /// The kernel alone: refused
    Kernel,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct FeasibilityArgs {
    /// Part of the whole's time that the kernel takes, 0 to 1
    #[arg(long, value_parser = share)]
    pub share: f64,
    /// Time of the whole
    #[arg(long, value_name = "SECONDS", requires = "deviation_seconds", value_parser = amount)]
    pub whole_seconds: Option<f64>,
    /// Standard deviation of that time from run to run
    #[arg(long, value_name = "SECONDS", requires = "whole_seconds", value_parser = amount)]
    pub deviation_seconds: Option<f64>,
    /// The speed-up of the kernel that is hoped for
    #[arg(long, value_name = "FACTOR", default_value_t = 2.0, value_parser = factor)]
    pub hoped: f64,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster plan profile_report.json --top 5\n  muster plan profile.json --hoped attention=3 --reached matmul=1.5 --json\n\nThe file: AutoKernel's profile_report.json, or {\"kernels\": [{\"name\": …, \"share\": …}]} (docs/AGENTS.md)."
)]
pub(in crate::cli) struct PlanArgs {
    /// The profile, in JSON
    pub profile: PathBuf,
    /// Kernels to plan for
    #[arg(long, default_value_t = 5, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub top: u16,
    /// The speed-up that is hoped for where nothing else is said
    #[arg(long, default_value_t = 2.0, value_name = "FACTOR", value_parser = factor)]
    pub assumed: f64,
    /// What is hoped for a kernel; may be repeated
    #[arg(long, value_name = "KERNEL=FACTOR", value_parser = named_factor)]
    pub hoped: Vec<(String, f64)>,
    /// What has been reached for a kernel; may be repeated
    #[arg(long, value_name = "KERNEL=FACTOR", value_parser = named_factor)]
    pub reached: Vec<(String, f64)>,
}

#[derive(Debug, Serialize)]
struct PaybackAnswer {
    payback: Payback,
    /// Whether it pays within the period; none where no period was given.
    pays: Option<bool>,
}

/// Runs `muster economics`.
pub(super) fn run(context: &Context, command: &EconomicsCommand) -> Result<Ending, Refusal> {
    match command {
        EconomicsCommand::Payback(args) => payback(context, args),
        EconomicsCommand::Feasibility(args) => Ok(feasibility(context, args)),
    }
}

fn payback(context: &Context, args: &PaybackArgs) -> Result<Ending, Refusal> {
    if args.measured == Measured::Kernel {
        return Err(Refusal::new(
            "economics/kernel-latency",
            "--measured",
            "the latency of a kernel says nothing about what the whole saves",
            "measure the whole application after integration, and give those milliseconds",
        ));
    }
    if !args.saved_ms.is_finite() {
        let next = "give a number of milliseconds";
        return Err(Refusal::new("economics/number", "--saved-ms", "it is no finite number", next));
    }
    let cost = PilotCost { engineer: args.engineer, model: args.model, gpu: args.gpu };
    let saving = Use {
        saved_ms: args.saved_ms,
        invocations_per_month: args.invocations * args.invocations_per_request,
        price_per_gpu_hour: args.gpu_hour,
    };
    let payback = Payback::of(&cost, &saving);
    let answer = PaybackAnswer { payback, pays: args.within.map(|months| payback.within(months)) };
    context.output.print(&answer, |answer| {
        let Payback { pilot_cost, saved_gpu_hours_per_month, saved_per_month, months } = answer.payback;
        let months = match months {
            Months::After(months) => format!("{months:.1} months"),
            Months::Never => "never: nothing is saved".to_owned(),
        };
        let verdict = match answer.pays {
            None => "",
            Some(true) => "\nverdict     go: within the period",
            Some(false) => "\nverdict     no-go: not within the period",
        };
        format!(
            "pilot cost  {pilot_cost:.2}\nsaves       {saved_gpu_hours_per_month:.3} GPU hours a month, {saved_per_month:.2} a month\npays after  {months}{verdict}"
        )
    });
    Ok(if answer.pays == Some(false) { Ending::Failed } else { Ending::Done })
}

fn feasibility(context: &Context, args: &FeasibilityArgs) -> Ending {
    let seconds = args.whole_seconds.zip(args.deviation_seconds);
    let seconds = seconds.map(|(mean, deviation)| Scatter { mean, deviation });
    let found = Feasibility::of(&Whole { share: args.share, seconds }, args.hoped);
    context.output.print(&found, render_feasibility);
    match found.verdict {
        Verdict::Go => Ending::Done,
        Verdict::NoGoBelowNoise | Verdict::NoGoShare => Ending::Failed,
    }
}

fn render_feasibility(found: &Feasibility) -> String {
    let mut lines = vec![
        format!("at most     {:.4}× of the whole, if the kernel took no time", found.speedup_max),
        format!("hoped       {:.4}× of the whole", found.speedup_hoped),
    ];
    if let (Some(saved), Some(seen)) = (found.saved_seconds_max, found.detectable_seconds) {
        lines.push(format!(
            "seconds     {saved:.3} can be saved at most; a change below {seen:.3} cannot be seen"
        ));
    }
    let verdict = match found.verdict {
        Verdict::Go => "go",
        Verdict::NoGoBelowNoise => "no-go: the largest gain is smaller than the noise of the whole",
        Verdict::NoGoShare => "no-go: the largest gain of the whole is below one in a hundred",
    };
    lines.push(format!("verdict     {verdict}"));
    lines.join("\n")
}

/// Runs `muster plan`.
pub(super) fn plan(context: &Context, args: &PlanArgs) -> Result<Ending, Refusal> {
    let place = args.profile.display().to_string();
    operand::exists(&args.profile, "profile/missing-file", "correct the path of the profile")?;
    let text = std::fs::read_to_string(&args.profile).map_err(|error| {
        Refusal::new("profile/unreadable-file", &place, error.to_string(), "make it readable UTF-8 text")
    })?;
    let mut parts = profile::parse(&text, &place)?;
    for (name, factor) in &args.hoped {
        part(&mut parts, name)?.hoped = Some(*factor);
    }
    for (name, factor) in &args.reached {
        part(&mut parts, name)?.reached = *factor;
    }
    let plan = Plan::of(&parts, usize::from(args.top), args.assumed);
    context.output.print(&plan, render_plan);
    Ok(Ending::Done)
}

fn part<'a>(parts: &'a mut [Part], name: &str) -> Result<&'a mut Part, Refusal> {
    parts.iter_mut().find(|part| part.name == name).ok_or_else(|| {
        let place: String = name.chars().take(80).collect();
        Refusal::new("profile/unknown-kernel", place, "the profile has no kernel of this name", "correct it")
    })
}

fn render_plan(plan: &Plan) -> String {
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let rows: Vec<Vec<String>> = plan
        .kernels
        .iter()
        .map(|kernel| {
            vec![
                kernel.name.clone(),
                percent(kernel.share),
                format!("{:.2}×", kernel.reached),
                format!("{:.2}×", kernel.hoped),
                format!("{:.3}×", kernel.gain),
                format!("{:.3}×", kernel.bound),
                kernel.task.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let mut lines =
        vec![table(&["KERNEL", "SHARE", "REACHED", "HOPED", "WHOLE GAINS", "AT MOST", "TASK"], &rows)];
    lines.push(String::new());
    lines.push(format!("the whole so far {:.3}×, hoped {:.3}×", plan.reached, plan.hoped));
    lines.extend(plan.what_if.iter().map(|cell| {
        format!("  the first {} each {}× as fast: the whole {:.3}×", cell.kernels, cell.speedup, cell.whole)
    }));
    lines.push(match &plan.next {
        Some(next) => format!("next: {next}"),
        None => "next: nothing; each has reached what was hoped for it".to_owned(),
    });
    lines.join("\n")
}

/// A number of at least zero.
fn amount(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    if number.is_finite() && number >= 0.0 {
        Ok(number)
    } else {
        Err("no finite number of at least 0".to_owned())
    }
}

/// A part of a whole.
fn share(text: &str) -> Result<f64, String> {
    amount(text)
        .and_then(|number| if number <= 1.0 { Ok(number) } else { Err("more than the whole".to_owned()) })
}

/// A speed-up.
fn factor(text: &str) -> Result<f64, String> {
    amount(text)
        .and_then(|number| if number > 0.0 { Ok(number) } else { Err("no factor above 0".to_owned()) })
}

/// `KERNEL=FACTOR`; the name may hold equal signs.
fn named_factor(text: &str) -> Result<(String, f64), String> {
    let (name, number) = text.rsplit_once('=').ok_or("write KERNEL=FACTOR")?;
    Ok((name.to_owned(), factor(number)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_command_line_are_finite_and_in_range() {
        assert_eq!(amount("4"), Ok(4.0));
        for bad in ["", "-1", "nan", "inf", "1e999", "four"] {
            assert!(amount(bad).is_err(), "{bad}");
        }
        assert!(share("1.1").is_err() && factor("0").is_err());
        assert_eq!(named_factor("a=b=2"), Ok(("a=b".to_owned(), 2.0)));
        assert!(named_factor("a").is_err());
    }
}
