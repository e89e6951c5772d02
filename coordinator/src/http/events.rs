//! Server-sent events of one submission, resumable by the sequence number.

use super::error::HttpRefusal;
use crate::desk::Desk;
use crate::driver::watch::{Tail, WatchEvent};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use fleet_config::domain::SubmissionId;
use serde::Deserialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use tokio_stream::Stream;

/// Events fetched from the log at once.
const BATCH: usize = 256;

#[derive(Debug, Deserialize)]
pub(super) struct After {
    after: Option<u64>,
}

/// `GET /v1/submissions/{id}/events?after=N`; `Last-Event-ID` works too. After a restart of the coordinator the log
/// begins with where the submission stands, so that an event may be told twice, and none is missed.
pub(super) async fn stream(
    State(desk): State<Arc<Desk>>,
    Path(id): Path<String>,
    Query(query): Query<After>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, HttpRefusal> {
    let submission = desk.follow(&id).await?;
    let resumed = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let after = desk.watch().resume(submission, query.after.or(resumed).unwrap_or(0));
    Ok(Sse::new(follow(desk, submission, after)).keep_alive(KeepAlive::default()))
}

/// Yields what the log holds, then waits for more, until the submission is done.
fn follow(
    desk: Arc<Desk>,
    submission: SubmissionId,
    after: u64,
) -> impl Stream<Item = Result<Event, Infallible>> {
    struct Cursor {
        desk: Arc<Desk>,
        wake: tokio::sync::watch::Receiver<u64>,
        pending: VecDeque<WatchEvent>,
        after: u64,
        finished: bool,
    }
    let wake = desk.watch().subscribe();
    let cursor = Cursor { desk, wake, pending: VecDeque::new(), after, finished: false };
    futures_unfold(cursor, move |mut cursor| async move {
        loop {
            if cursor.finished {
                return None;
            }
            if let Some(event) = cursor.pending.pop_front() {
                cursor.after = event.sequence;
                cursor.finished = event.kind == "done";
                let data = serde_json::to_string(&event).unwrap_or_default();
                let line = Event::default().id(event.sequence.to_string()).event(event.kind).data(data);
                return Some((Ok(line), cursor));
            }
            cursor.wake.mark_unchanged();
            let (events, tail) = cursor.desk.watch().after(submission, cursor.after, BATCH);
            cursor.pending = events.into();
            if cursor.pending.is_empty() && (tail == Tail::Over || cursor.wake.changed().await.is_err()) {
                return None;
            }
        }
    })
}

/// A stream from a state and an asynchronous step, through a bounded channel of one.
fn futures_unfold<S, T, F, Fut>(state: S, step: F) -> impl Stream<Item = T>
where
    S: Send + 'static,
    T: Send + 'static,
    F: Fn(S) -> Fut + Send + 'static,
    Fut: Future<Output = Option<(T, S)>> + Send,
{
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        let mut state = Some(state);
        while let Some(current) = state.take() {
            match step(current).await {
                Some((item, next)) => {
                    if sender.send(item).await.is_err() {
                        return;
                    }
                    state = Some(next);
                }
                None => return,
            }
        }
    });
    tokio_stream::wrappers::ReceiverStream::new(receiver)
}
