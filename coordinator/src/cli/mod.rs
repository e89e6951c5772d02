//! The command line `muster`: subcommand to function, refusals to exit codes.
//!
//! Exit codes: 0 done; 1 refused (the code in brackets says why); 2 wrong usage; 3 no coordinator runs on the state
//! folder, or it does not answer; 4 the ledger does not verify; 5 a waited-for cell ended without a verdict; 6 the
//! ledger shows less than a claim says.

mod args;
mod client;
mod command;
mod http_source;
mod ledger_args;
mod moment;
mod operand;
mod output;
mod own_node;
mod process;
mod query_args;
mod reading;
mod spawn;
mod turn;

use args::{Cli, Command};
use clap::Parser;
use fleet_config::refusal::Refusal;
use output::Output;
use std::path::PathBuf;
use std::process::ExitCode;

/// What every command needs.
#[derive(Debug, Clone)]
pub struct Context {
    /// The state folder of the coordinator.
    pub state: PathBuf,
    pub output: Output,
}

/// How a command ended when it was not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Done,
    /// The ledger does not verify.
    Unverified,
    /// A waited-for cell ended without a verdict.
    Unanswered,
    /// What was put to the test failed it; the answer says where.
    Failed,
    /// The ledger shows less than a claim says.
    Weaker,
}

/// Parses the command line, runs the command, prints, and answers with the exit code.
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let state = match args::state_folder(cli.state.clone()) {
        Ok(state) => state,
        Err(refusal) => return refused(&refusal, cli.json),
    };
    let context = Context { state, output: Output::of(cli.json) };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let refusal =
                Refusal::new("internal/runtime", "", error.to_string(), "check the limits of this user");
            return refused(&refusal, cli.json);
        }
    };
    match runtime.block_on(dispatch(&context, cli.command)) {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Failed) => ExitCode::from(1),
        Ok(Ending::Unverified) => ExitCode::from(4),
        Ok(Ending::Unanswered) => ExitCode::from(5),
        Ok(Ending::Weaker) => ExitCode::from(6),
        Err(refusal) => refused(&refusal, cli.json),
    }
}

async fn dispatch(context: &Context, command: Command) -> Result<Ending, Refusal> {
    match command {
        Command::Up(args) => command::up::up(context, &args).await,
        Command::Down => command::down::down(context).await,
        Command::Task(args) => command::task::run(context, args).await,
        Command::Case(args) => command::case::run(context, args).await,
        Command::Submit(args) => command::submit::run(context, &args).await,
        Command::Status(args) => command::status::run(context, &args).await,
        Command::Cancel { submission } => command::status::cancel(context, &submission).await,
        Command::VerifyCandidate(args) => command::verify::run(context, &args).await,
        Command::Rejudge(args) => command::rejudge::run(context, &args).await,
        Command::Rank(args) => command::rank::run(context, &args),
        Command::Insight(args) => command::insight::run(context, &args),
        Command::Show(args) => command::show::run(context, &args),
        Command::Agent(command) => command::agent::run(context, command).await,
        Command::Query(args) => command::query::run(context, &args),
        Command::Export(args) => command::export::run(context, &args),
        Command::Audit(args) => command::audit::run(context, &args),
        Command::Claim(args) => command::claim::run(context, &args).await,
        Command::Bundle(args) => command::bundle::make(context, &args).await,
        Command::VerifyBundle(args) => command::bundle::verify(context, &args),
        Command::Node(args) => command::node::run(context, args).await,
        Command::Ledger(args) => command::ledger::run(context, args).await,
        Command::Compile(args) => command::compile::run(context, &args),
        Command::Doctor => command::doctor::run(context),
        Command::Bench(args) => command::bench::run(context, args).await,
    }
}

/// Prints a refusal: text for people on standard error, JSON on standard output where it was asked for.
fn refused(refusal: &Refusal, json: bool) -> ExitCode {
    if json {
        output::line(&serde_json::json!({ "error": refusal }).to_string());
    }
    output::note(&refusal.to_string());
    match refusal.code.as_ref() {
        "coordinator/not-running" | "coordinator/no-answer" => ExitCode::from(3),
        _ => ExitCode::from(1),
    }
}
