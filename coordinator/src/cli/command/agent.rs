//! The commands for loops that propose candidates: campaigns, feedback, rewards, plans, costs.

use super::{economics, explain, mcp, optimize, reward};
use crate::cli::{Context, Ending};
use clap::Subcommand;
use fleet_config::refusal::Refusal;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum AgentCommand {
    /// Search for a faster candidate: propose, measure, keep or revert, stop by rules; resumable, with a result folder
    Optimize(Box<optimize::OptimizeArgs>),
    /// One result as feedback: cause with source line, pattern, ratios with intervals, next step (no coordinator needed)
    Explain(explain::ExplainArgs),
    /// Results as numbers for training, by named, versioned functions (no coordinator needed)
    Reward(reward::RewardArgs),
    /// Which kernels of a profile to work on, in what order, and what the whole gains (needs nothing but the file)
    Plan(economics::PlanArgs),
    /// What an optimisation costs, when it pays, and whether it can be seen at all (needs nothing but numbers)
    #[command(subcommand)]
    Economics(economics::EconomicsCommand),
    /// Serve agents over the Model Context Protocol on standard input and output: list tasks, submit, wait, explain, rank
    #[command(after_help = mcp::HELP)]
    Mcp,
}

/// Runs the subcommand.
pub(in crate::cli) async fn run(context: &Context, command: AgentCommand) -> Result<Ending, Refusal> {
    match command {
        AgentCommand::Optimize(args) => optimize::run(context, &args).await,
        AgentCommand::Explain(args) => explain::run(context, &args),
        AgentCommand::Reward(args) => reward::run(context, &args),
        AgentCommand::Plan(args) => economics::plan(context, &args),
        AgentCommand::Economics(command) => economics::run(context, &command),
        AgentCommand::Mcp => mcp::run(context).await,
    }
}
