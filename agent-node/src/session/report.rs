//! One report stream: the signed envelope, the blobs that are asked for, the acknowledgement.

use super::machine::AttemptKey;
use super::outbox::{Outbox, OutboxError};
use crate::transport::{self, StreamError};
use fleet_config::domain::Digest;
use fleet_config::wire::v1::{Opening, Recorded, Report, ReportReply};
use quinn::{Connection, SendStream};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

/// How long the coordinator may take for one answer: it may wait for its disk.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// Bytes read and sent at once.
const CHUNK: usize = 128 * 1024;

/// Why a report was not acknowledged.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReportError {
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("the coordinator asked for blob {0}, which the report does not name")]
    NoSuchBlob(u32),
}

/// Sends the report of `attempt` as it lies in the outbox, and waits for what becomes of it.
pub(super) async fn send(
    connection: &Connection,
    outbox: &Outbox,
    attempt: AttemptKey,
) -> Result<Recorded, ReportError> {
    let store = outbox.clone();
    let report =
        tokio::task::spawn_blocking(move || store.report(attempt)).await.map_err(StreamError::from)??;
    let opening = Opening::Report(Box::new(report.clone()));
    let (mut send, mut receive) = connection.open_bi().await.map_err(StreamError::from)?;
    transport::write(&mut send, &opening).await?;
    loop {
        let reply = tokio::time::timeout(ANSWER_WITHIN, transport::read::<ReportReply>(&mut receive));
        match reply.await.map_err(|_| StreamError::Silence)?? {
            None => return Err(StreamError::Early.into()),
            Some(ReportReply::NeedBlobs { indices }) => {
                for index in indices {
                    send_blob(&mut send, outbox.blob(attempt, named(&report, index)?)).await?;
                }
            }
            Some(ReportReply::Recorded(recorded)) => {
                // Everything is said; a stream that is closed already is as good.
                let _closed = send.finish();
                return Ok(recorded);
            }
        }
    }
}

fn named(report: &Report, index: u32) -> Result<Digest, ReportError> {
    let blob = usize::try_from(index).ok().and_then(|index| report.blobs.get(index));
    blob.map(|named| Digest(named.blob.blake3)).ok_or(ReportError::NoSuchBlob(index))
}

async fn send_blob(send: &mut SendStream, path: PathBuf) -> Result<(), StreamError> {
    let mut file = tokio::task::spawn_blocking(move || std::fs::File::open(path)).await??;
    loop {
        let (back, piece) = tokio::task::spawn_blocking(move || {
            let mut piece = Vec::with_capacity(CHUNK);
            file.by_ref().take(CHUNK as u64).read_to_end(&mut piece).map(|_| (file, piece))
        })
        .await??;
        if piece.is_empty() {
            return Ok(());
        }
        file = back;
        let written = tokio::time::timeout(ANSWER_WITHIN, send.write_all(&piece)).await;
        written.map_err(|_| StreamError::Silence)??;
    }
}
