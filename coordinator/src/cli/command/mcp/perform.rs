//! What each tool does: the same calls as the command line makes, with the answer as one JSON object.

use super::arguments::{
    NoArguments, RankArguments, RecordArguments, SubmitArguments, TaskArguments, WaitArguments, read,
};
use super::tools::ToolKind;
use super::wait;
use crate::cli::Context;
use crate::cli::client::{Client, segment};
use crate::cli::command::{explain, rank, show, submit};
use crate::cli::reading::Reading;
use crate::http::body::TaskView;
use crate::optimizer::feedback::short;
use fleet_config::domain::{SandboxLevel, Task};
use fleet_config::refusal::Refusal;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use serde::Serialize;
use serde_json::{Value, json};

/// Who submits where a client does not say its name.
const NAMELESS: &str = "mcp client";

/// Performs one call.
pub(super) async fn perform(
    context: &Context,
    tool: ToolKind,
    arguments: Value,
    call: &RequestContext<RoleServer>,
) -> Result<Value, Refusal> {
    match tool {
        ToolKind::ListTasks => {
            let NoArguments {} = read(tool, arguments)?;
            let tasks: Vec<TaskView> = Client::connect(&context.state).await?.get("/v1/tasks").await?;
            Ok(json!({ "tasks": tasks }))
        }
        ToolKind::ShowTask => show_task(context, read(tool, arguments)?).await,
        ToolKind::Submit => submit(context, read(tool, arguments)?, call).await,
        ToolKind::Wait => {
            let arguments: WaitArguments = read(tool, arguments)?;
            wait::wait(context, &arguments, call).await
        }
        ToolKind::Explain => {
            let RecordArguments { record } = read(tool, arguments)?;
            from_ledger(context, move |reading| {
                let (leaf, bytes) = reading.find(&record)?;
                let (feedback, _) = explain::look(reading, leaf, &bytes)?;
                Ok(json!({ "told": short(&feedback), "feedback": value(&feedback)? }))
            })
            .await
        }
        ToolKind::Rank => {
            let RankArguments { task, as_of } = read(tool, arguments)?;
            from_ledger(context, move |reading| {
                value(&rank::ask_of(reading, &task, as_of, SandboxLevel::None)?.ranking)
            })
            .await
        }
        ToolKind::Record => {
            let RecordArguments { record } = read(tool, arguments)?;
            from_ledger(context, move |reading| Ok(show::look(reading, &record)?.1)).await
        }
    }
}

/// What a candidate is written from.
async fn show_task(context: &Context, arguments: TaskArguments) -> Result<Value, Refusal> {
    let path = format!("/v1/tasks/{}", segment(&arguments.task));
    let task: Task = Client::connect(&context.state).await?.get(&path).await?;
    let id = task.id().map_err(|error| {
        Refusal::new("task/not-canonical", arguments.task, error.to_string(), "add the task again")
    })?;
    from_ledger(context, move |reading| {
        let text = |file: &fleet_config::domain::SourceFile| {
            let bytes = reading.blob(&file.blob.blake3);
            json!({ "path": file.path, "text": bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()) })
        };
        let files: Vec<Value> = task.baseline.source.files.iter().map(text).collect();
        Ok(json!({
            "task": id, "name": task.name, "summary": task.summary, "entry": task.entry,
            "signature": task.signature, "dims": task.dims, "cases": task.cases, "tolerance": task.tolerance,
            "limits": task.limits,
            "baseline": { "main": task.baseline.source.main, "files": files, "launch": task.baseline.plan },
        }))
    })
    .await
}

async fn submit(
    context: &Context,
    arguments: SubmitArguments,
    call: &RequestContext<RoleServer>,
) -> Result<Value, Refusal> {
    let client = call.peer.peer_info();
    let agent = client.as_ref().map_or(NAMELESS, |client| client.client_info.name.as_str());
    let (texts, args) = arguments.into_parts(agent)?;
    let mut client = Client::connect(&context.state).await?;
    let (receipt, mut warnings) = submit::send_texts(&mut client, texts, &args).await?;
    warnings.extend(receipt.warnings.iter().cloned());
    Ok(json!({
        "submission": receipt.submission,
        "cells": receipt.cells,
        "reused": receipt.reused,
        "warnings": warnings,
        "receipt": { "body": receipt.body, "signature": receipt.signature, "keyid": receipt.keyid },
    }))
}

/// Reads the ledger's folder where it holds nobody up.
async fn from_ledger(
    context: &Context,
    look: impl FnOnce(&Reading) -> Result<Value, Refusal> + Send + 'static,
) -> Result<Value, Refusal> {
    let state = context.state.clone();
    let looked = tokio::task::spawn_blocking(move || look(&Reading::open(&state)?)).await;
    looked.unwrap_or_else(|error| {
        Err(Refusal::new("internal/mcp", "", error.to_string(), "report this, with the arguments"))
    })
}

fn value<T: Serialize>(answer: &T) -> Result<Value, Refusal> {
    serde_json::to_value(answer)
        .map_err(|error| Refusal::new("internal/mcp", "", error.to_string(), "report this"))
}
