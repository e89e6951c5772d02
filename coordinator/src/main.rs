//! The daemon `muster-coordinator`: settings, log, run.

use clap::Parser;
use coordinator::start::{Options, run};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// The coordinator of a Muster fleet. `muster up` starts one for you.
#[derive(Debug, Parser)]
#[command(
    name = "muster-coordinator",
    version,
    max_term_width = 110,
    after_help = "\
Example:
  muster-coordinator --state /var/lib/muster --listen 0.0.0.0:4460 --advertise coordinator.lab.example:4460"
)]
struct Arguments {
    /// State folder; made if it does not exist
    #[arg(long, env = "MUSTER_STATE", value_name = "DIR")]
    state: PathBuf,
    /// Address that nodes connect to over QUIC; port 0 takes that of the last start, or a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Further addresses to write into invites, such as a public name
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Vec<String>,
    /// Log filter, such as `info` or `coordinator=debug`
    #[arg(long, default_value = "info", env = "MUSTER_LOG")]
    log: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = tracing_subscriber::EnvFilter::new(&arguments.log);
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let options =
        Options { state: arguments.state, listen: arguments.listen, advertise: arguments.advertise };
    match run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("muster-coordinator: {refusal}");
            ExitCode::FAILURE
        }
    }
}
