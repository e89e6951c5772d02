//! The router and the socket that it listens on.

use super::{error, events, findings, nodes, submissions, tasks, verifications};
use crate::desk::Desk;
use crate::state::io;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::map_response;
use axum::routing::{get, post, put};
use fleet_config::refusal::Refusal;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

/// Largest blob: an input file of a task.
const BLOB_MAX: usize = 256 * 1024 * 1024;

/// Largest JSON body: a submission of the most cells, whose candidates have some kilobytes each. A parsed document takes a
/// multiple of its text.
const JSON_MAX: usize = 64 * 1024 * 1024;

/// The routes of the API.
pub fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/v1/summary", get(nodes::summary))
        .route("/v1/blobs", put(tasks::put_blob).layer(DefaultBodyLimit::max(BLOB_MAX)))
        .route("/v1/tasks", get(tasks::list).post(tasks::add))
        .route("/v1/tasks/{id}", get(tasks::show))
        .route("/v1/submissions", get(submissions::list).post(submissions::submit))
        .route("/v1/submissions/{id}", get(submissions::cells))
        .route("/v1/submissions/{id}/events", get(events::stream))
        .route("/v1/submissions/{id}/cancel", post(submissions::cancel))
        .route("/v1/verifications", post(verifications::verify))
        .route("/v1/findings", post(findings::record))
        .route("/v1/nodes", get(nodes::list))
        .route("/v1/nodes/{id}/drain", post(nodes::drain))
        .route("/v1/nodes/{id}/revoke", post(nodes::revoke))
        .route("/v1/invites", post(nodes::invite))
        .route("/v1/checkpoint", post(nodes::checkpoint))
        .route("/v1/stop", post(nodes::stop))
        .layer(DefaultBodyLimit::max(JSON_MAX))
        .layer(map_response(error::as_refusal))
        .with_state(desk)
}

/// Longest path of a Unix socket (`sun_path` in unix(7), less the zero byte at its end).
const SOCKET_PATH_MAX: usize = 107;

/// Listens on `socket` (0600). The state folder's lock makes sure that no other coordinator owns a socket found
/// there, so a left-over one is replaced.
pub fn bind(socket: &Path) -> Result<UnixListener, Refusal> {
    let place = socket.display().to_string();
    if socket.as_os_str().len() > SOCKET_PATH_MAX {
        return Err(Refusal::new(
            "state/path-too-long",
            place,
            format!("the path of a socket has at most {SOCKET_PATH_MAX} bytes"),
            "name a state folder with a shorter path",
        ));
    }
    match std::fs::remove_file(socket) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(io(&place, &error)),
    }
    // The folder is 0700, so nobody else can connect before the mode of the socket itself is set.
    let listener = UnixListener::bind(socket).map_err(|error| io(&place, &error))?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))
        .map_err(|error| io(&place, &error))?;
    Ok(listener)
}

/// Serves the API until `stop` is cancelled.
pub async fn serve(desk: Arc<Desk>, listener: UnixListener, stop: CancellationToken) -> Result<(), Refusal> {
    let served = axum::serve(listener, router(desk)).with_graceful_shutdown(stop.cancelled_owned());
    served.await.map_err(|error| io("api.sock", &error))
}
