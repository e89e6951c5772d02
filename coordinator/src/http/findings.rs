//! Findings of detectors: record.

use super::body::{FindingBody, FindingView};
use super::error::HttpRefusal;
use crate::desk::Desk;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

/// `POST /v1/findings`
pub(super) async fn record(
    State(desk): State<Arc<Desk>>,
    Json(body): Json<FindingBody>,
) -> Result<Json<FindingView>, HttpRefusal> {
    Ok(Json(desk.record_finding(body).await?))
}
