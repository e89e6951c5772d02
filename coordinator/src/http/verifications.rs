//! Final verifications: accept.

use super::body::{VerifyBody, VerifyView};
use super::error::HttpRefusal;
use crate::desk::Desk;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

/// `POST /v1/verifications`
pub(super) async fn verify(
    State(desk): State<Arc<Desk>>,
    Json(body): Json<VerifyBody>,
) -> Result<Json<VerifyView>, HttpRefusal> {
    Ok(Json(desk.verify(body).await?))
}
