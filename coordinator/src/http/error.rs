//! A refusal as an HTTP answer: the status follows from its code, the body is the refusal.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use fleet_config::refusal::Refusal;

/// What handlers answer with when they refuse.
#[derive(Debug)]
pub(super) struct HttpRefusal(pub Refusal);

impl From<Refusal> for HttpRefusal {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for HttpRefusal {
    fn into_response(self) -> Response {
        (status(&self.0.code), Json(self.0)).into_response()
    }
}

/// The status of a code: by its last word where that says it, else 400.
fn status(code: &str) -> StatusCode {
    let (room, word) = code.split_once('/').unwrap_or(("", code));
    match (room, word) {
        (_, "unknown" | "unknown-node" | "unknown-task" | "unknown-submission") => StatusCode::NOT_FOUND,
        (_, "queue-full" | "busy") => StatusCode::TOO_MANY_REQUESTS,
        (_, "too-large") => StatusCode::PAYLOAD_TOO_LARGE,
        ("ledger" | "state" | "internal", _) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    }
}
