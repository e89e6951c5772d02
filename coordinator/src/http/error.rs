//! A refusal as an HTTP answer: the status follows from its code, the body is the refusal.

use axum::Json;
use axum::body::to_bytes;
use axum::http::{StatusCode, header};
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

/// Longest text of the framework that is looked at; it quotes little of a request.
const TEXT_MAX: usize = 16 << 10;
/// Longest cause that is made of it, in characters.
const CAUSE_MAX: usize = 300;

/// Makes a refusal of what the framework answers by itself, before any handler of ours: a body that is no JSON of the
/// right shape, one that is too large, a path or method that there is not.
pub(super) async fn as_refusal(response: Response) -> Response {
    let status = response.status();
    let ours = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if ours || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (code, place, next) = match status {
        StatusCode::NOT_FOUND => ("http/unknown-path", "path", "use a path of /v1/ that the API has"),
        StatusCode::METHOD_NOT_ALLOWED => ("http/method", "method", "use the method that the path has"),
        StatusCode::PAYLOAD_TOO_LARGE => ("http/too-large", "body", "send less in one request"),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            ("http/content-type", "content-type", "send JSON as application/json")
        }
        _ => ("http/request", "request", "send a body of the form that the API documents"),
    };
    let text = to_bytes(response.into_body(), TEXT_MAX).await.unwrap_or_default();
    let text = unquoted(&String::from_utf8_lossy(&text));
    let cause = if text.is_empty() { status.to_string() } else { text };
    (status, Json(Refusal::new(code, place, cause, next))).into_response()
}

/// The text without the values of the request that it quotes: one of them may be a sealed section.
fn unquoted(text: &str) -> String {
    let cut = text.split_once("string \"").map_or_else(
        || text.to_owned(),
        |(before, after)| {
            format!("{before}a string{}", after.rsplit_once("\", expected").map_or("", |(_, rest)| rest))
        },
    );
    cut.chars().filter(|c| !c.is_control()).take(CAUSE_MAX).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(response: impl IntoResponse) -> (StatusCode, Refusal) {
        let response = as_refusal(response.into_response()).await;
        let status = response.status();
        let bytes = to_bytes(response.into_body(), TEXT_MAX).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn what_the_framework_says_becomes_a_refusal_with_a_stable_code() {
        for (status, code) in [
            (StatusCode::NOT_FOUND, "http/unknown-path"),
            (StatusCode::METHOD_NOT_ALLOWED, "http/method"),
            (StatusCode::PAYLOAD_TOO_LARGE, "http/too-large"),
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "http/content-type"),
            (StatusCode::UNPROCESSABLE_ENTITY, "http/request"),
            (StatusCode::BAD_REQUEST, "http/request"),
        ] {
            let (found, refusal) = refused((status, "it says\x1b[31m why".to_owned())).await;
            assert_eq!((found, &*refusal.code), (status, code));
            assert_eq!(refusal.cause, "it says[31m why");
        }
        assert!(!refused(StatusCode::NOT_FOUND).await.1.cause.is_empty());
    }

    #[tokio::test]
    async fn refusals_of_ours_and_good_answers_stay_as_they_are() {
        let ours = Refusal::new("task/unknown-task", "x", "no such task", "add it");
        assert_eq!(refused(HttpRefusal(ours.clone())).await.1, ours);
        let good = as_refusal((StatusCode::OK, "text").into_response()).await;
        assert_eq!(to_bytes(good.into_body(), 10).await.unwrap(), "text");
    }

    #[test]
    fn values_of_a_request_are_not_quoted() {
        let text =
            "Failed: holdout: invalid type: string \"the sealed \\\" section\", expected struct at line 1";
        assert_eq!(unquoted(text), "Failed: holdout: invalid type: a string struct at line 1");
        assert_eq!(unquoted("cut: string \"the sealed"), "cut: a string");
        assert_eq!(unquoted(&"x".repeat(1000)).len(), CAUSE_MAX);
    }
}
