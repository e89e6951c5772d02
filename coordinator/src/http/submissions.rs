//! Submissions: accept, look, cancel.

use super::body::{CountView, Receipt, SubmitBody};
use super::error::HttpRefusal;
use crate::desk::Desk;
use crate::driver::request::CellView;
use axum::Json;
use axum::extract::{Path, State};
use std::sync::Arc;

/// `POST /v1/submissions`
pub(super) async fn submit(
    State(desk): State<Arc<Desk>>,
    Json(body): Json<SubmitBody>,
) -> Result<Json<Receipt>, HttpRefusal> {
    Ok(Json(desk.submit(body).await?))
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
