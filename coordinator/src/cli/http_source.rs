//! A ledger's published files over plain HTTP, as any server of static files gives them.
//!
//! What comes is checked against signatures and hashes and needs no trust in the way it came, so there is no TLS here; who
//! must hide what is read goes through a tunnel.

use fleet_config::refusal::Refusal;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use ledger::mirror::{Source, SourceError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// How long one file may take.
const ANSWER: Duration = Duration::from_secs(60);

/// One server, over one connection that is made again when it breaks.
#[derive(Debug)]
pub(super) struct HttpSource {
    /// Host and port, as they stand in the address.
    authority: String,
    /// Before each path; empty or `/…` without a slash at its end.
    prefix: String,
    runtime: Handle,
    connection: Option<SendRequest<Empty<Bytes>>>,
}

impl HttpSource {
    /// The server at `address`, such as `http://ledger.example:8080/log`.
    pub(super) fn at(address: &str, runtime: Handle) -> Result<Self, Refusal> {
        let refuse = |cause: &str| {
            Refusal::new(
                "mirror/address",
                address,
                cause,
                "write http://HOST[:PORT][/PATH], or name a folder",
            )
        };
        let rest = address.strip_prefix("http://");
        let rest = rest
            .ok_or_else(|| refuse("only http:// is spoken here; what comes is verified by its signatures"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        let path = path.trim_matches('/');
        let legal_path = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/%".contains(&byte);
        if authority.is_empty() || !authority.bytes().all(legal) || !path.bytes().all(legal_path) {
            return Err(refuse("the address has a host and a path of plain letters, and no question"));
        }
        let prefix = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { authority: authority.to_owned(), prefix, runtime, connection: None })
    }

    async fn connect(&self) -> Result<SendRequest<Empty<Bytes>>, String> {
        let has_port = self.authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { self.authority.clone() } else { format!("{}:80", self.authority) };
        let stream = TcpStream::connect(address.as_str()).await.map_err(|error| error.to_string())?;
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        tokio::spawn(async move {
            // The error of a broken connection reaches the request that waits on it.
            let _reported_by_the_request = connection.await;
        });
        Ok(sender)
    }

    async fn file(&mut self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, String> {
        let mut sender = match self.connection.take() {
            Some(sender) if sender.is_ready() => sender,
            Some(_) | None => self.connect().await?,
        };
        sender.ready().await.map_err(|error| error.to_string())?;
        let request = Request::builder()
            .method(Method::GET)
            .uri(format!("{}/{path}", self.prefix))
            .header("host", &self.authority)
            .header("accept-encoding", "identity")
            .body(Empty::new())
            .map_err(|error| error.to_string())?;
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let found = match answer.status() {
            StatusCode::OK => true,
            StatusCode::NOT_FOUND => false,
            status => return Err(format!("the server answers {status}")),
        };
        // The body of a 404 is read too, so that the connection can be used again.
        let limit = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let body =
            Limited::new(answer.into_body(), limit).collect().await.map_err(|error| error.to_string())?;
        self.connection = Some(sender);
        Ok(found.then(|| body.to_bytes().to_vec()))
    }
}

impl Source for HttpSource {
    fn fetch(&mut self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, SourceError> {
        let runtime = self.runtime.clone();
        let answer = runtime.block_on(async {
            match tokio::time::timeout(ANSWER, self.file(path, bytes_max)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs())),
            }
        });
        answer.map_err(|cause| {
            self.connection = None;
            SourceError::Unreachable {
                place: format!("http://{}{}/{path}", self.authority, self.prefix),
                cause,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn addresses_that_are_none_are_refused() {
        for wrong in
            ["https://a/b", "ftp://a", "http://", "http:///x", "http://a/?q", "http://a b/", "http://a/é"]
        {
            let refusal = HttpSource::at(wrong, Handle::current()).unwrap_err();
            assert_eq!(refusal.code, "mirror/address", "{wrong}");
        }
        let source = HttpSource::at("http://host:81/a/b/", Handle::current()).unwrap();
        assert_eq!((source.authority.as_str(), source.prefix.as_str()), ("host:81", "/a/b"));
    }

    /// A server that answers each request by its path.
    async fn serve(listener: TcpListener) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                let head = String::from_utf8_lossy(&bytes[..count]).into_owned();
                let answer = match head.split(' ').nth(1).unwrap_or_default() {
                    "/log/here" => "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
                    "/log/error" => "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
                    _ => "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone",
                };
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    break;
                }
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn files_are_there_or_not_and_everything_else_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/log", listener.local_addr().unwrap());
        let server = tokio::spawn(serve(listener));
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || {
            let mut source = HttpSource::at(&address, runtime).unwrap();
            assert_eq!(source.fetch("here", 100).unwrap(), Some(b"hello".to_vec()));
            assert_eq!(source.fetch("none", 100).unwrap(), None);
            assert_eq!(source.fetch("here", 100).unwrap(), Some(b"hello".to_vec()));
            assert!(source.fetch("here", 4).is_err(), "more than was asked for");
            assert!(source.fetch("error", 100).is_err());
            assert_eq!(source.fetch("here", 100).unwrap(), Some(b"hello".to_vec()));
        })
        .await
        .unwrap();
        server.abort();
    }
}
