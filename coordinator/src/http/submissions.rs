//! Submissions: accept, look, cancel.

use super::body::{CountView, Receipt, SubmitBody};
use super::error::HttpRefusal;
use crate::desk::Desk;
use crate::driver::request::{CellView, SubmissionView};
use axum::Json;
use axum::extract::{Path, State};
use std::sync::Arc;

/// Most submissions of a list: what a person looks through.
const LISTED: usize = 100;

/// `POST /v1/submissions`
pub(super) async fn submit(
    State(desk): State<Arc<Desk>>,
    Json(body): Json<SubmitBody>,
) -> Result<Json<Receipt>, HttpRefusal> {
    Ok(Json(desk.submit(body).await?))
}

/// `GET /v1/submissions`
pub(super) async fn list(State(desk): State<Arc<Desk>>) -> Result<Json<Vec<SubmissionView>>, HttpRefusal> {
    Ok(Json(desk.recent(LISTED).await?))
}

/// `GET /v1/submissions/{id}`
pub(super) async fn cells(
    State(desk): State<Arc<Desk>>,
    Path(id): Path<String>,
) -> Result<Json<Vec<CellView>>, HttpRefusal> {
    Ok(Json(desk.cells(&id).await?))
}

/// `POST /v1/submissions/{id}/cancel`
pub(super) async fn cancel(
    State(desk): State<Arc<Desk>>,
    Path(id): Path<String>,
) -> Result<Json<CountView>, HttpRefusal> {
    Ok(Json(CountView { count: desk.cancel(&id).await? }))
}
