//! One assignment stream: sends the assignment and passes the answers on.

use super::event::AssignmentEvent;
use super::frame;
use super::limits;
use super::session::Peer;
use fleet_config::domain::{CellId, Fence};
use fleet_config::wire::Version;
use fleet_config::wire::close::CloseCode;
use fleet_config::wire::v1::Answer;
use fleet_config::wire::v2::Assign;
use quinn::crypto::rustls::HandshakeData;
use quinn::{Connection, RecvStream, SendStream};

/// Why an assignment stream ended before the node finished it.
#[derive(Debug, thiserror::Error)]
enum AssignError {
    #[error(transparent)]
    Open(#[from] quinn::ConnectionError),
    #[error(transparent)]
    Send(#[from] frame::SendError),
    #[error(transparent)]
    Read(#[from] frame::ReadError),
    #[error("the node answered out of order")]
    Order,
    #[error("the node ended the stream without an answer")]
    NoAnswer,
    #[error("the node sent too many answers")]
    TooMany,
    #[error("the node speaks muster/1, which has no words for a holdout; give it a newer muster-node")]
    Version,
}

/// Runs one assignment until the node has finished its stream.
pub(super) async fn run(peer: Peer, assign: Box<Assign>) {
    let (cell, fence) = (CellId(assign.cell), Fence(assign.fence));
    if let Err(error) = exchange(&peer, &assign).await {
        match &error {
            AssignError::Read(read) if !read.is_misbehaviour() => {}
            AssignError::Read(_) | AssignError::Order | AssignError::NoAnswer | AssignError::TooMany => {
                peer.bad_frame(&error);
            }
            AssignError::Open(_) | AssignError::Send(_) | AssignError::Version => {}
        }
        if peer.connection.close_reason().is_some() {
            // The stream went with its connection, which says so itself.
            return;
        }
        peer.answer(cell, fence, AssignmentEvent::StreamLost { cause: error.to_string() }).await;
    }
}

/// Writes the assignment in the version that the handshake agreed on.
async fn write(connection: &Connection, send: &mut SendStream, assign: &Assign) -> Result<(), AssignError> {
    let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    let agreed = data.and_then(|data| data.protocol).and_then(|alpn| Version::of(&alpn));
    match agreed.unwrap_or(Version::V1) {
        Version::V1 => {
            let assign = assign.to_v1().ok_or(AssignError::Version)?;
            frame::write_within(send, &assign, limits::STREAM_SILENCE).await?;
        }
        Version::V2 => frame::write_within(send, assign, limits::STREAM_SILENCE).await?,
    }
    Ok(())
}

async fn exchange(peer: &Peer, assign: &Assign) -> Result<(), AssignError> {
    let (mut send, mut receive) = peer.connection.open_bi().await?;
    write(&peer.connection, &mut send, assign).await?;
    // A stream that the node closed early has said all that it wants to say on its other half.
    if send.finish().is_err() {
        tracing::debug!("the node does not read its assignment stream to the end");
    }
    let result = answers(peer, assign, &mut receive).await;
    if let Err(AssignError::Read(_) | AssignError::Order | AssignError::TooMany) = &result {
        // Already closed is as good as stopped.
        let _closed = receive.stop(CloseCode::BadFrame.number().into());
    }
    result
}

async fn answers(peer: &Peer, assign: &Assign, receive: &mut RecvStream) -> Result<(), AssignError> {
    let (cell, fence) = (CellId(assign.cell), Fence(assign.fence));
    let first: Answer =
        frame::read_within(receive, limits::STREAM_SILENCE).await?.ok_or(AssignError::NoAnswer)?;
    let declined = match &first {
        Answer::Taken => false,
        Answer::Declined { .. } => true,
        Answer::Progress(_) => return Err(AssignError::Order),
    };
    peer.answer(cell, fence, first.into()).await;
    if declined {
        return Ok(());
    }
    // Minutes may pass between two answers: the connection's idle timeout and the lease are the limits here.
    for _ in 0..limits::ANSWERS_MAX {
        let Some(answer) = frame::read::<Answer>(receive).await? else { return Ok(()) };
        let ends = match &answer {
            Answer::Progress(_) => false,
            Answer::Declined { .. } => true,
            Answer::Taken => return Err(AssignError::Order),
        };
        peer.answer(cell, fence, answer.into()).await;
        if ends {
            return Ok(());
        }
    }
    Err(AssignError::TooMany)
}
