//! Streams that a node opens: a report with its blobs, or a request for one blob.

use super::blob::{self, BlobError};
use super::event::TransportEvent;
use super::frame;
use super::limits;
use super::registry::Counters;
use super::session::Peer;
use fleet_config::domain::{BlobRef, Digest, RecordId};
use fleet_config::wire::BLOB_MAX;
use fleet_config::wire::close::CloseCode;
use fleet_config::wire::v1::{
    Blob, BlobReply, BlobRequest, Opening, RecordVerdict, Recorded, Report, ReportReply,
};
use quinn::{RecvStream, SendStream};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Why a node's stream was closed by us.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    #[error(transparent)]
    Read(#[from] frame::ReadError),
    #[error(transparent)]
    Send(#[from] frame::SendError),
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error("the report names too many blobs or too many bytes")]
    TooMuch,
    #[error("this side is busy or going down")]
    Unavailable,
}

impl StreamError {
    fn code(&self) -> CloseCode {
        match self {
            Self::Read(frame::ReadError::Silence) | Self::Send(frame::SendError::Silence) => {
                CloseCode::TooLate
            }
            Self::Blob(BlobError::Silence) => CloseCode::TooLate,
            Self::Read(_) => CloseCode::BadFrame,
            Self::Blob(BlobError::Cut | BlobError::Differs(_)) => CloseCode::BadBlob,
            Self::TooMuch => CloseCode::TooMuch,
            Self::Send(_) | Self::Blob(_) | Self::Unavailable => CloseCode::Internal,
        }
    }
    fn is_misbehaviour(&self) -> bool {
        match self {
            Self::Read(error) => error.is_misbehaviour(),
            Self::Blob(error) => error.is_misbehaviour(),
            Self::TooMuch => true,
            Self::Send(_) | Self::Unavailable => false,
        }
    }
}

/// Serves one stream that the node opened; closes it with a code where the node broke a rule.
pub(super) async fn serve(peer: Peer, mut send: SendStream, mut receive: RecvStream) {
    let result = dispatch(&peer, &mut send, &mut receive).await;
    if let Err(error) = &result {
        let code = error.code().number().into();
        if let StreamError::Blob(blob) = error
            && blob.is_misbehaviour()
        {
            Counters::add(&peer.shared.counters.bad_blobs);
        }
        if error.is_misbehaviour() {
            peer.bad_frame(error);
        } else {
            tracing::debug!(node = %peer.node, %error, "a stream ended early");
        }
        // Told last, so that a node which has heard of it finds it counted. Both halves may be closed already;
        // then the node knows.
        let _closed = receive.stop(code);
        let _closed = send.reset(code);
    } else if send.finish().is_ok() {
        // Wait until the answer is read, within reason: a stream that is dropped unread is reset.
        let _read = tokio::time::timeout(limits::STREAM_SILENCE, send.stopped()).await;
    }
}

async fn dispatch(peer: &Peer, send: &mut SendStream, receive: &mut RecvStream) -> Result<(), StreamError> {
    let opening: Option<Opening> = frame::read_within(receive, limits::STREAM_SILENCE).await?;
    match opening {
        None => Err(frame::ReadError::Cut.into()),
        Some(Opening::FetchBlob(BlobRequest { blob })) => fetch(peer, send, blob).await,
        Some(Opening::Report(report)) => accept(peer, send, receive, report).await,
    }
}

async fn fetch(peer: &Peer, send: &mut SendStream, wanted: Blob) -> Result<(), StreamError> {
    let _permit = peer.blobs.acquire().await.map_err(|_| StreamError::Unavailable)?;
    let source = Arc::clone(&peer.shared.stores.source);
    let reader = tokio::task::spawn_blocking(move || source.open(&BlobRef::from(wanted)))
        .await
        .map_err(BlobError::from)?
        .map_err(BlobError::from)?;
    let Some(reader) = reader else {
        return Ok(frame::write_within(send, &BlobReply::Missing, limits::STREAM_SILENCE).await?);
    };
    let follows = BlobReply::Follows { blob: wanted };
    frame::write_within(send, &follows, limits::STREAM_SILENCE).await?;
    blob::send(send, reader).await?;
    Counters::add(&peer.shared.counters.blobs_served);
    Ok(())
}

async fn accept(
    peer: &Peer,
    send: &mut SendStream,
    receive: &mut RecvStream,
    report: Box<Report>,
) -> Result<(), StreamError> {
    let _permit = peer.reports.acquire().await.map_err(|_| StreamError::Unavailable)?;
    check_sizes(&report)?;
    // The same blob may be named twice; it is asked for once.
    let mut asked = BTreeSet::new();
    let mut missing = Vec::new();
    for (index, named) in (0u32..).zip(&report.blobs) {
        let blob = BlobRef::from(named.blob);
        let sink = Arc::clone(&peer.shared.stores.sink);
        let held = tokio::task::spawn_blocking(move || sink.contains(&blob))
            .await
            .map_err(BlobError::from)?
            .map_err(BlobError::from)?;
        if !held && asked.insert(blob.blake3) {
            missing.push((index, blob));
        }
    }
    if !missing.is_empty() {
        let indices = missing.iter().map(|(index, _)| *index).collect();
        frame::write_within(send, &ReportReply::NeedBlobs { indices }, limits::STREAM_SILENCE).await?;
        for (_, blob) in missing {
            blob::receive(receive, blob, &peer.shared.stores.sink).await?;
        }
    }
    Counters::add(&peer.shared.counters.reports);
    let recorded = record(peer, report).await?;
    frame::write_within(send, &ReportReply::Recorded(recorded), limits::STREAM_SILENCE).await?;
    Ok(())
}

async fn record(peer: &Peer, report: Box<Report>) -> Result<Recorded, StreamError> {
    let unread = RecordId(Digest::of(&report.envelope).0);
    let (reply, answer) = oneshot::channel();
    let event = TransportEvent::Report { node: peer.node, connection: peer.id, report, reply };
    peer.shared.events.send(event).await.map_err(|_| StreamError::Unavailable)?;
    Ok(answer.await.unwrap_or_else(|_| Recorded {
        record: unread.0,
        verdict: RecordVerdict::Later {
            code: "report/not-now".to_owned(),
            cause: "the coordinator could not deal with the report".to_owned(),
        },
    }))
}

fn check_sizes(report: &Report) -> Result<(), StreamError> {
    let total = report.blobs.iter().try_fold(0u64, |sum, named| sum.checked_add(named.blob.size));
    let fits = total.is_some_and(|total| total <= limits::REPORT_BYTES_MAX.min(BLOB_MAX));
    if fits && report.blobs.len() <= limits::REPORT_BLOBS_MAX { Ok(()) } else { Err(StreamError::TooMuch) }
}
