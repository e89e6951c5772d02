//! Nodes, invites, the ledger's head, and stopping.

use super::body::{CountView, DrainBody, InviteBody, RevokeBody, RevokeView, SummaryView, TextView};
use super::error::HttpRefusal;
use crate::desk::Desk;
use crate::driver::request::NodeView;
use axum::Json;
use axum::extract::{Path, State};
use std::sync::Arc;

/// `GET /v1/summary`
pub(super) async fn summary(State(desk): State<Arc<Desk>>) -> Result<Json<SummaryView>, HttpRefusal> {
    Ok(Json(desk.summary().await?))
}

/// `GET /v1/nodes`
pub(super) async fn list(State(desk): State<Arc<Desk>>) -> Result<Json<Vec<NodeView>>, HttpRefusal> {
    Ok(Json(desk.nodes().await?))
}

/// `POST /v1/nodes/{id}/drain`
pub(super) async fn drain(
    State(desk): State<Arc<Desk>>,
    Path(id): Path<String>,
    Json(body): Json<DrainBody>,
) -> Result<Json<CountView>, HttpRefusal> {
    Ok(Json(CountView { count: desk.drain(&id, &body).await? }))
}

/// `POST /v1/nodes/{id}/revoke`
pub(super) async fn revoke(
    State(desk): State<Arc<Desk>>,
    Path(id): Path<String>,
    Json(body): Json<RevokeBody>,
) -> Result<Json<RevokeView>, HttpRefusal> {
    Ok(Json(desk.revoke(&id, &body).await?))
}

/// `POST /v1/invites`
pub(super) async fn invite(
    State(desk): State<Arc<Desk>>,
    Json(body): Json<InviteBody>,
) -> Result<Json<TextView>, HttpRefusal> {
    Ok(Json(TextView { text: desk.invite(&body).await? }))
}

/// `POST /v1/checkpoint`
pub(super) async fn checkpoint(State(desk): State<Arc<Desk>>) -> Result<Json<TextView>, HttpRefusal> {
    Ok(Json(TextView { text: desk.checkpoint().await? }))
}

/// `POST /v1/stop`
pub(super) async fn stop(State(desk): State<Arc<Desk>>) -> Json<TextView> {
    desk.stop();
    Json(TextView { text: "stopping".to_owned() })
}
