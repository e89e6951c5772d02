//! A typed HTTP client on the Unix socket of the state folder.

use crate::state::Layout;
use fleet_config::refusal::Refusal;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;

/// How long one answer may take; long work is followed through events instead.
const ANSWER: Duration = Duration::from_secs(60);

/// `text` as one segment of a path (RFC 3986, section 3.3), whatever somebody typed.
pub(super) fn segment(text: &str) -> String {
    // An empty segment would be another path; a blank names nothing either.
    let text = if text.is_empty() { " " } else { text };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~');
    let mut segment = String::new();
    for byte in text.bytes() {
        if is_plain(byte) {
            segment.push(char::from(byte));
        } else {
            segment.push_str(&format!("%{byte:02X}"));
        }
    }
    segment
}

/// One connection to the coordinator that runs on a state folder.
#[derive(Debug)]
pub(super) struct Client {
    socket: PathBuf,
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    /// Connects to the coordinator that runs on `state`.
    pub(super) async fn connect(state: &Path) -> Result<Self, Refusal> {
        let socket = Layout::of(state).socket();
        let absent = |cause: String| {
            Refusal::new(
                "coordinator/not-running",
                socket.display().to_string(),
                cause,
                "start one with `muster up`, or name its folder with --state",
            )
        };
        let stream = UnixStream::connect(&socket).await.map_err(|error| absent(error.to_string()))?;
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| absent(error.to_string()))?;
        tokio::spawn(async move {
            // The error of a broken connection reaches the request that waits on it.
            let _reported_by_the_request = connection.await;
        });
        Ok(Self { socket, sender })
    }

    /// GET with a JSON answer.
    pub(super) async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, Refusal> {
        self.json(Method::GET, path, Bytes::new()).await
    }

    /// POST of JSON with a JSON answer.
    pub(super) async fn post<B: Serialize, T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &B,
    ) -> Result<T, Refusal> {
        let bytes = serde_json::to_vec(body).map_err(|error| self.broken(error.to_string()))?;
        self.json(Method::POST, path, bytes.into()).await
    }

    /// PUT of bytes with a JSON answer.
    pub(super) async fn put<T: DeserializeOwned>(
        &mut self,
        path: &str,
        bytes: Vec<u8>,
    ) -> Result<T, Refusal> {
        self.json(Method::PUT, path, bytes.into()).await
    }

    /// GET whose body is read piece by piece: server-sent events.
    pub(super) async fn stream(&mut self, path: &str) -> Result<Incoming, Refusal> {
        let head = tokio::time::timeout(ANSWER, self.send(Method::GET, path, Bytes::new())).await;
        let response = head.unwrap_or_else(|_| Err(self.late()))?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let bytes = self.collect(response).await?;
        Err(serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| self.broken("an error without a body".to_owned())))
    }

    async fn json<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, Refusal> {
        let answer = tokio::time::timeout(ANSWER, async {
            let response = self.send(method, path, body).await?;
            let status = response.status();
            let bytes = self.collect(response).await?;
            if status.is_success() {
                return serde_json::from_slice(&bytes).map_err(|error| self.broken(error.to_string()));
            }
            let text = || String::from_utf8_lossy(&bytes).chars().take(300).collect::<String>();
            Err(serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| self.broken(format!("{status}: {}", text()))))
        });
        answer.await.unwrap_or_else(|_| Err(self.late()))
    }

    fn late(&self) -> Refusal {
        self.broken(format!("no answer within {} s", ANSWER.as_secs()))
    }

    async fn send(&mut self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>, Refusal> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "muster")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| self.broken(error.to_string()))?;
        self.sender.ready().await.map_err(|error| self.broken(error.to_string()))?;
        self.sender.send_request(request).await.map_err(|error| self.broken(error.to_string()))
    }

    async fn collect(&self, response: Response<Incoming>) -> Result<Bytes, Refusal> {
        let collected = response.into_body().collect().await;
        collected.map(|body| body.to_bytes()).map_err(|error| self.broken(error.to_string()))
    }

    fn broken(&self, cause: String) -> Refusal {
        Refusal::new(
            "coordinator/no-answer",
            self.socket.display().to_string(),
            cause,
            "see coordinator.log in the state folder",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::segment;

    #[test]
    fn what_was_typed_stays_one_segment() {
        for (typed, expected) in
            [("matmul-f32", "matmul-f32"), ("", "%20"), ("a/../b?c", "a%2F%2E%2E%2Fb%3Fc"), ("ä", "%C3%A4")]
        {
            assert_eq!(segment(typed), expected);
        }
    }
}
