//! One connection with its tasks: dial, control stream, assignment streams, reports. Dropping it ends them all.

use super::identity::NodeIdentity;
use super::machine::AttemptKey;
use super::outbox::{Outbox, OutboxError};
use super::report::{self, ReportError};
use crate::transport::{self, ConnectError, Dialled, StreamError};
use fleet_config::domain::Sha256;
use fleet_config::wire::Version;
use fleet_config::wire::close::CloseCode;
use fleet_config::wire::v1::{self, Answer, FromCoordinator, FromNode, Hello, Recorded};
use fleet_config::wire::v2::Assign;
use quinn::{Connection, RecvStream, SendStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Messages that wait for the control stream: a coordinator that reads none of these is gone.
const CONTROL_MAX: usize = 64;

/// Answers that wait for one assignment stream; progress beyond is dropped.
const ANSWERS_MAX: usize = 64;

/// An assignment comes at once on its stream.
const ASSIGN_WITHIN: Duration = Duration::from_secs(30);

/// How long a last answer may take to be read before its stream is dropped.
const LAST_WORD_WITHIN: Duration = Duration::from_secs(30);

/// What a connection brings.
pub(super) enum LinkEvent {
    Connected(Box<Dialled>),
    ConnectFailed(ConnectError),
    Said(FromCoordinator),
    Assigned {
        stream: SendStream,
        assign: Box<Assign>,
    },
    /// The control stream or the connection ended. Said once.
    Closed {
        cause: String,
    },
    Acknowledged {
        attempt: AttemptKey,
        recorded: Recorded,
    },
    ReportFailed {
        attempt: AttemptKey,
    },
    ReportDamaged {
        attempt: AttemptKey,
    },
}

/// Which connection an event belongs to; what an old one says is not heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch(pub(super) u64);

/// Where a connection's tasks tell what happened.
#[derive(Clone)]
pub(super) struct Events {
    pub(super) epoch: Epoch,
    pub(super) sender: mpsc::Sender<(Epoch, LinkEvent)>,
}

impl Events {
    async fn tell(&self, event: LinkEvent) {
        // The driver has ended when nobody receives; then nobody needs to know.
        let _ended = self.sender.send((self.epoch, event)).await;
    }
}

/// The connection of one epoch.
pub(super) struct Link {
    events: Events,
    tasks: JoinSet<()>,
    dialled: Option<Box<Dialled>>,
    control: Option<mpsc::Sender<FromNode>>,
}

/// The coordinator takes nothing from the control stream.
#[derive(Debug)]
pub(super) struct Stuck;

impl Link {
    /// Starts to dial.
    pub(super) fn dial(events: Events, identity: Arc<NodeIdentity>, address: String, pin: Sha256) -> Self {
        let mut tasks = JoinSet::new();
        let teller = events.clone();
        tasks.spawn(async move {
            let event = match transport::dial(&identity, &address, pin).await {
                Ok(dialled) => LinkEvent::Connected(Box::new(dialled)),
                Err(error) => LinkEvent::ConnectFailed(error),
            };
            teller.tell(event).await;
        });
        Self { events, tasks, dialled: None, control: None }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.events.epoch
    }

    pub(super) fn connected(&mut self, dialled: Box<Dialled>) {
        self.dialled = Some(dialled);
    }

    pub(super) fn dialled(&self) -> Option<&Dialled> {
        self.dialled.as_deref()
    }

    /// Says hello and starts to listen.
    pub(super) fn greet(&mut self, hello: Hello) {
        let Some(dialled) = &self.dialled else { return };
        let (control, queue) = mpsc::channel(CONTROL_MAX);
        self.control = Some(control);
        let (connection, events) = (dialled.connection.clone(), self.events.clone());
        self.tasks.spawn(async move {
            let cause = match converse(&connection, &events, hello, queue).await {
                Ok(()) => "the coordinator ended the control stream".to_owned(),
                Err(error) => error.to_string(),
            };
            events.tell(LinkEvent::Closed { cause }).await;
        });
    }

    /// Starts to take assignments. Only after the welcome was dealt with: streams of one connection overtake each
    /// other, and a job needs to know whose ledger it works for. Until then they wait unread.
    pub(super) fn welcomed(&mut self) {
        if let Some(dialled) = &self.dialled {
            self.tasks.spawn(accept(dialled.connection.clone(), self.events.clone()));
        }
    }

    /// Puts a message on the control stream without waiting.
    pub(super) fn say(&self, message: FromNode) -> Result<(), Stuck> {
        match &self.control {
            Some(control) => control.try_send(message).map_err(|_| Stuck),
            None => Err(Stuck),
        }
    }

    /// Answers an assignment with `first` and then with whatever is sent; dropping the sender ends the stream.
    pub(super) fn answer(&mut self, mut stream: SendStream, first: Answer) -> mpsc::Sender<Answer> {
        let (sender, mut queue) = mpsc::channel(ANSWERS_MAX);
        self.tasks.spawn(async move {
            let mut next = Some(first);
            while let Some(answer) = next {
                if let Err(error) = transport::write(&mut stream, &answer).await {
                    tracing::debug!(%error, "an assignment stream ended early");
                    return;
                }
                next = queue.recv().await;
            }
            if stream.finish().is_ok() {
                // Whether the last word was read in time changes nothing here.
                let _read = tokio::time::timeout(LAST_WORD_WITHIN, stream.stopped()).await;
            }
        });
        sender
    }

    /// Sends a report and tells what became of it.
    pub(super) fn report(&mut self, outbox: Outbox, attempt: AttemptKey) {
        let Some(dialled) = &self.dialled else { return };
        let (connection, events) = (dialled.connection.clone(), self.events.clone());
        self.tasks.spawn(async move {
            let event = match report::send(&connection, &outbox, attempt).await {
                Ok(recorded) => LinkEvent::Acknowledged { attempt, recorded },
                Err(error) => {
                    tracing::warn!(?attempt, %error, "a report did not get through");
                    match error {
                        ReportError::Outbox(OutboxError::Damaged(..)) => LinkEvent::ReportDamaged { attempt },
                        ReportError::Outbox(_) | ReportError::Stream(_) | ReportError::NoSuchBlob(_) => {
                            LinkEvent::ReportFailed { attempt }
                        }
                    }
                }
            };
            events.tell(event).await;
        });
    }

    /// Forgets tasks that have ended.
    pub(super) fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(dialled) = &self.dialled {
            transport::close(&dialled.connection, CloseCode::Done);
        }
    }
}

/// The control stream, until one side ends it.
async fn converse(
    connection: &Connection,
    events: &Events,
    hello: Hello,
    mut queue: mpsc::Receiver<FromNode>,
) -> Result<(), StreamError> {
    let (mut send, mut receive) = connection.open_bi().await?;
    transport::write(&mut send, &FromNode::Hello(Box::new(hello))).await?;
    let speak = async {
        while let Some(message) = queue.recv().await {
            transport::write(&mut send, &message).await?;
        }
        Ok(())
    };
    let listen = async {
        while let Some(message) = transport::read::<FromCoordinator>(&mut receive).await? {
            events.tell(LinkEvent::Said(message)).await;
        }
        Ok(())
    };
    // Either half ends the conversation: a control stream of one direction is of no use.
    tokio::select! {
        ended = listen => ended,
        ended = speak => ended,
    }
}

/// Takes assignment streams until the connection ends.
async fn accept(connection: Connection, events: Events) {
    let mut streams = JoinSet::new();
    let version = transport::version(&connection);
    while let Ok((send, receive)) = connection.accept_bi().await {
        while streams.try_join_next().is_some() {}
        streams.spawn(assigned(version, send, receive, events.clone()));
    }
}

async fn read_assign(version: Version, receive: &mut RecvStream) -> Result<Option<Assign>, StreamError> {
    match version {
        Version::V1 => Ok(transport::read::<v1::Assign>(receive).await?.map(Assign::from)),
        Version::V2 => transport::read::<Assign>(receive).await,
    }
}

async fn assigned(version: Version, mut send: SendStream, mut receive: RecvStream, events: Events) {
    let assign = tokio::time::timeout(ASSIGN_WITHIN, read_assign(version, &mut receive)).await;
    match assign {
        Ok(Ok(Some(assign))) => {
            events.tell(LinkEvent::Assigned { stream: send, assign: Box::new(assign) }).await;
        }
        bad => {
            if let Ok(Err(error)) = bad {
                tracing::warn!(%error, "a stream of the coordinator broke the protocol");
            }
            let code = CloseCode::BadFrame.number().into();
            // Both halves may be closed already.
            let _closed = send.reset(code);
            let _closed = receive.stop(code);
        }
    }
}
