//! Whether the statistics hold what they say: simulated measurements with known truth. No device and no ledger is used.

use crate::cli::output::table;
use crate::cli::{Context, Ending};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use ledger::stats::simulation::{
    Count, Noise, Plan, Way, coverage_of_leases, coverage_of_one_lease, leagues_of_copies, leagues_won,
};
use ledger::stats::{CONFIDENCE, LEASES_METHOD, METHOD};
use serde::Serialize;

/// Pairs of one case where nothing else is said: what GPU policies take.
const PAIRS: usize = 100;

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  muster bench coverage --trials 1000\n\nExit code 1: a figure misses its goal. Everything is simulated from the seed; nothing is measured. A release build takes one to two minutes\nfor 1000 trials, a debug build ten times as long."
)]
pub(in crate::cli) struct CoverageArgs {
    /// Trials, and leagues, of each row
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    trials: u64,
    /// Where the simulated worlds begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What a share has to be.
#[derive(Debug, Clone, Copy)]
enum Goal {
    Between(f64, f64),
    AtLeast(f64),
    AtMost(f64),
    /// Shown beside the others; a goal would be of another thing.
    Shown,
}

#[derive(Debug, Serialize)]
struct Figure {
    what: String,
    hits: u64,
    trials: u64,
    goal: String,
    /// None where there is no goal.
    met: Option<bool>,
}

/// Runs the subcommand.
pub(super) fn run(context: &Context, args: &CoverageArgs) -> Ending {
    let bar = if context.output.shows_progress() { ProgressBar::new(ROWS) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let mut figures = Vec::new();
    let mut note = |what: String, count: Count, goal: Goal| {
        bar.inc(1);
        bar.set_message(what.clone());
        figures.push(figure(what, count, goal));
    };
    intervals(args, &mut note);
    leagues(args, &mut note);
    bar.finish_and_clear();
    let missed = figures.iter().any(|figure| figure.met == Some(false));
    context.output.print(&figures, |figures| text(figures));
    if missed { Ending::Failed } else { Ending::Done }
}

/// Lines that [`intervals`] and [`leagues`] make, for the progress bar.
const ROWS: u64 = 27;

fn intervals(args: &CoverageArgs, note: &mut dyn FnMut(String, Count, Goal)) {
    let CoverageArgs { trials, seed } = *args;
    let cover = Goal::Between(CONFIDENCE - 0.02, CONFIDENCE + 0.02);
    for (noise, word, goal) in [
        (Noise::INDEPENDENT, "drift, spikes", cover),
        (Noise::REALISTIC, "drift, spikes, autocorrelation 0.5", cover),
        (Noise::STICKY, "drift, spikes, autocorrelation 0.7 (beyond the goal)", Goal::Shown),
    ] {
        for pairs in [20, 50, PAIRS, 200] {
            let found = coverage_of_one_lease(noise, pairs, Way::Batches, trials, seed);
            note(format!("{METHOD} holds the ratio of its lease, {pairs} pairs: {word}"), found, goal);
        }
    }
    let few = coverage_of_one_lease(Noise::REALISTIC, 10, Way::Batches, trials, seed);
    note("the same, 10 pairs (exact ranks: wide, and blind to autocorrelation)".to_owned(), few, Goal::Shown);
    let old = coverage_of_one_lease(Noise::REALISTIC, PAIRS, Way::Pairs, trials, seed);
    note("percentile bootstrap of pairs, 100 pairs: as before, shown beside".to_owned(), old, Goal::Shown);
    for (shape, truth) in [
        ((3, 1), "of its board"),
        ((4, 2), "of its two boards"),
        ((3, 3), "of the class"),
        ((6, 3), "of the class"),
        ((10, 5), "of the class"),
    ] {
        let (leases, boards) = shape;
        let found = coverage_of_leases(Noise::REALISTIC, shape, PAIRS, trials, seed + 1);
        note(format!("{LEASES_METHOD} holds the ratio {truth}, {leases} leases on {boards}"), found, cover);
    }
}

fn leagues(args: &CoverageArgs, note: &mut dyn FnMut(String, Count, Goal)) {
    let CoverageArgs { trials, seed } = *args;
    let plan = |leases, boards, copies| Plan { pairs: PAIRS, leases, boards, copies };
    for (plan, word) in [
        (plan(1, 1, 5), "one lease each, floor from 5 copies"),
        (plan(3, 1, 0), "three leases each on one board"),
        (plan(3, 3, 0), "three leases each on three boards"),
        (plan(6, 3, 5), "six leases each on three boards, floor from 5 copies"),
    ] {
        let won = leagues_won(Noise::REALISTIC, plan, trials, seed + 2);
        note(format!("true winner of eight in the top set: {word}"), won, Goal::AtLeast(0.95));
        let [faster, _] = leagues_of_copies(Noise::REALISTIC, plan, trials, seed + 3);
        note(format!("league of eight copies with a false \"faster\": {word}"), faster, Goal::AtMost(0.01));
    }
}

fn figure(what: String, Count { hits, trials }: Count, goal: Goal) -> Figure {
    let share = Count { hits, trials }.share();
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let (goal, met) = match goal {
        Goal::Between(low, high) => {
            (format!("{} to {}", percent(low), percent(high)), Some((low..=high).contains(&share)))
        }
        Goal::AtLeast(least) => (format!("at least {}", percent(least)), Some(share >= least)),
        Goal::AtMost(most) => (format!("at most {}", percent(most)), Some(share <= most)),
        Goal::Shown => (String::new(), None),
    };
    Figure { what, hits, trials, goal, met }
}

fn text(figures: &[Figure]) -> String {
    let row = |figure: &Figure| {
        let share = Count { hits: figure.hits, trials: figure.trials }.share();
        let met = match figure.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        vec![figure.what.clone(), format!("{:.1} %", 100.0 * share), figure.goal.clone(), met.to_owned()]
    };
    let rows: Vec<Vec<String>> = figures.iter().map(row).collect();
    let trials = figures.first().map_or(0, |figure| figure.trials);
    format!("simulated, {trials} trials a row\n{}", table(&["WHAT", "SHARE", "GOAL", ""], &rows))
}
