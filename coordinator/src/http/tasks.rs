//! Tasks and blobs.

use super::body::{TaskBody, TaskView};
use super::error::HttpRefusal;
use crate::desk::Desk;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use fleet_config::domain::{BlobRef, Task};
use std::sync::Arc;

/// `PUT /v1/blobs`
pub(super) async fn put_blob(
    State(desk): State<Arc<Desk>>,
    body: Bytes,
) -> Result<Json<BlobRef>, HttpRefusal> {
    Ok(Json(desk.put_blob(body).await?))
}

/// `POST /v1/tasks`
pub(super) async fn add(
    State(desk): State<Arc<Desk>>,
    Json(body): Json<TaskBody>,
) -> Result<Json<TaskView>, HttpRefusal> {
    Ok(Json(desk.add_task(body).await?))
}

/// `GET /v1/tasks`
pub(super) async fn list(State(desk): State<Arc<Desk>>) -> Json<Vec<TaskView>> {
    Json(desk.tasks())
}

/// `GET /v1/tasks/{id}`: a full id, a unique prefix or a name.
pub(super) async fn show(
    State(desk): State<Arc<Desk>>,
    Path(id): Path<String>,
) -> Result<Json<Task>, HttpRefusal> {
    Ok(Json(desk.task(&id)?))
}
