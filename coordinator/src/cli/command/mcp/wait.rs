//! The tool `wait`: follows a submission for a bounded time, tells what happens, and ends early when nobody waits any more.

use super::arguments::WaitArguments;
use super::bounded;
use crate::cli::Context;
use crate::cli::command::submit;
use crate::driver::request::CellView;
use fleet_config::domain::SubmissionId;
use fleet_config::refusal::Refusal;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;

/// Lines of progress that may wait to be sent; the answer holds where everything stands anyway.
const TOLD_MAX: usize = 64;

/// Waits as `arguments` say.
pub(super) async fn wait(
    context: &Context,
    arguments: &WaitArguments,
    call: &RequestContext<RoleServer>,
) -> Result<Value, Refusal> {
    let limit = Duration::from_secs(arguments.seconds()?);
    let submission: SubmissionId = arguments.submission.parse().map_err(|_no_id| {
        let next = "give the whole id that `submit` answered with";
        Refusal::new("mcp/arguments", bounded(&arguments.submission), "this is no submission's id", next)
    })?;
    let (sender, mut told) = mpsc::channel(TOLD_MAX);
    let mut teller = Teller { token: call.meta.get_progress_token(), steps: 0 };
    let cells = submit::wait_within(context, submission, limit, sender);
    tokio::pin!(cells);
    loop {
        tokio::select! {
            cells = &mut cells => return Ok(answer(&arguments.submission, &cells?)),
            Some(line) = told.recv() => teller.tell(call, line).await,
            () = call.ct.cancelled() => {
                let next = "nothing is lost: call wait again, or cancel the submission with `muster cancel`";
                return Err(Refusal::new("mcp/cancelled", "wait", "the client waits no more", next));
            }
        }
    }
}

fn answer(submission: &str, cells: &[CellView]) -> Value {
    let open = cells.iter().filter(|cell| !cell.is_over()).count();
    json!({ "submission": submission, "over": open == 0, "open": open, "cells": cells })
}

/// Tells progress to a client that asked for it.
struct Teller {
    token: Option<ProgressToken>,
    /// The protocol wants a number that grows with every notification.
    steps: u32,
}

impl Teller {
    async fn tell(&mut self, call: &RequestContext<RoleServer>, line: String) {
        let Some(token) = self.token.clone() else { return };
        self.steps += 1;
        let progress = ProgressNotificationParam::new(token, f64::from(self.steps)).with_message(line);
        // Whether it arrives changes nothing: the answer follows, or the client has gone.
        drop(call.peer.notify_progress(progress).await);
    }
}
