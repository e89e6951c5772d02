//! Performs the machine's effects: owns the connection, the jobs and the files.

use super::link::{Epoch, Events, Link, LinkEvent};
use super::machine::{AttemptKey, ConnectFailure, Effect, Input, Machine, Moment, SessionEnd, StreamKey};
use super::open::{CHECKPOINT_MAX, Session, describe};
use super::outbox::Outbox;
use super::pin::Pin;
use super::promise;
use super::runner::{FinishedJob, JobFailure, JobOrder, JobRunner, ProgressSender};
use super::witness::Log;
use fleet_config::domain::{CellId, DeviceDescription, DeviceId, Fence, NodeId};
use fleet_config::invite::InviteSecret;
use fleet_config::state;
use fleet_config::wire::close::proof_message;
use fleet_config::wire::v1::{
    Answer, Capacity, Device, FromCoordinator, FromNode, Heartbeat, Hello, Progress, Recorded, Running,
    Welcome,
};
use fleet_config::wire::v2::Assign;
use ledger::fault::{FaultPoint, reach};
use quinn::SendStream;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Events of connections that wait for the driver.
const EVENTS_MAX: usize = 256;

/// Progress that waits for the driver; more is dropped.
const PROGRESS_MAX: usize = 256;

/// How long cancelled jobs may take to end when the session does.
const JOBS_END_WITHIN: Duration = Duration::from_secs(20);

impl Session {
    /// Connects and works until `stop` or a refusal that trying again cannot change.
    pub async fn run(
        self,
        runner: Arc<dyn JobRunner>,
        devices: watch::Receiver<Vec<DeviceDescription>>,
        stop: CancellationToken,
    ) -> SessionEnd {
        let offered = match describe(&devices.borrow()) {
            Ok(offered) => offered,
            Err(refusal) => return SessionEnd::Refused(refusal),
        };
        let machine = Machine::new(offered, self.signed.clone());
        let (events, heard) = mpsc::channel(EVENTS_MAX);
        let (progress, progressed) = mpsc::channel(PROGRESS_MAX);
        let (checkpoints, written) = watch::channel(String::new());
        let mut chores = JoinSet::new();
        chores.spawn(keep_checkpoints(self.folder.checkpoint(), written));
        let driver = Driver {
            session: self,
            runner,
            machine,
            start: Instant::now(),
            events,
            progress,
            checkpoints,
            epoch: 0,
            link: None,
            welcome: None,
            streams: BTreeMap::new(),
            streams_seen: 0,
            answers: BTreeMap::new(),
            cancels: BTreeMap::new(),
            jobs: JoinSet::new(),
            chores,
        };
        driver.run(heard, progressed, devices, stop).await
    }
}

/// Writes the newest checkpoint whenever there is one; those that were overtaken are skipped.
async fn keep_checkpoints(path: PathBuf, mut notes: watch::Receiver<String>) {
    while notes.changed().await.is_ok() {
        let (note, path) = (notes.borrow_and_update().clone(), path.clone());
        let written = tokio::task::spawn_blocking(move || state::write_private(&path, note.as_bytes())).await;
        if !matches!(written, Ok(Ok(()))) {
            tracing::warn!(?written, "the checkpoint could not be kept");
        }
    }
}

/// A job that ended.
type Ended = (AttemptKey, Result<(), JobFailure>);

struct Driver {
    session: Session,
    runner: Arc<dyn JobRunner>,
    machine: Machine,
    start: Instant,
    events: mpsc::Sender<(Epoch, LinkEvent)>,
    progress: mpsc::Sender<(AttemptKey, Progress)>,
    checkpoints: watch::Sender<String>,
    epoch: u64,
    link: Option<Link>,
    welcome: Option<Welcome>,
    /// Assignment streams that the machine has not answered yet.
    streams: BTreeMap<StreamKey, SendStream>,
    streams_seen: u64,
    answers: BTreeMap<AttemptKey, mpsc::Sender<Answer>>,
    cancels: BTreeMap<AttemptKey, CancellationToken>,
    jobs: JoinSet<Ended>,
    chores: JoinSet<()>,
}

impl Driver {
    async fn run(
        mut self,
        mut heard: mpsc::Receiver<(Epoch, LinkEvent)>,
        mut progressed: mpsc::Receiver<(AttemptKey, Progress)>,
        mut devices: watch::Receiver<Vec<DeviceDescription>>,
        stop: CancellationToken,
    ) -> SessionEnd {
        let mut next = Some(Input::Begin);
        loop {
            if let Some(input) = next.take()
                && let Some(end) = self.apply(input)
            {
                return self.finish(end).await;
            }
            let wake = self.machine.wake_at();
            let wake = wake.map(|moment| self.start + Duration::from_millis(moment.0));
            next = tokio::select! {
                Some((epoch, event)) = heard.recv() => self.on_link(epoch, event),
                Some((attempt, progress)) = progressed.recv() => Some(Input::Progressed { attempt, progress }),
                Some(ended) = self.jobs.join_next() => ended.ok().map(|ended| self.on_ended(ended)),
                devices = changed(&mut devices) => match describe(&devices) {
                    Ok(devices) => Some(Input::DevicesChanged { devices }),
                    Err(refusal) => { tracing::error!(%refusal, "changed devices are not offered"); None }
                },
                () = sleep_until(wake) => Some(Input::Woken { entropy: entropy() }),
                () = stop.cancelled() => Some(Input::Stop),
            };
        }
    }

    fn now(&self) -> Moment {
        Moment(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Steps the machine and performs what it asks, and what follows from that.
    fn apply(&mut self, input: Input) -> Option<SessionEnd> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let now = self.now();
            for effect in self.machine.step(now, input) {
                if let Effect::End(end) = effect {
                    return Some(end);
                }
                inputs.extend(self.perform(effect));
            }
        }
        if let Some(link) = &mut self.link {
            link.reap();
        }
        while self.chores.try_join_next().is_some() {}
        None
    }

    fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Connect { dial } => self.connect(dial),
            Effect::Hello { running, devices } => self.greet(running, devices),
            Effect::Heartbeat { sequence, running } => {
                return self.say(FromNode::Heartbeat(Heartbeat { sequence, running }));
            }
            Effect::Capacity { devices } => return self.say(FromNode::Capacity(Capacity { devices })),
            Effect::Take { stream, attempt } => {
                if let Some(answers) = self.first_answer(stream, Answer::Taken) {
                    self.answers.insert(attempt, answers);
                }
            }
            Effect::Decline { stream, code, cause } => {
                self.first_answer(stream, Answer::Declined { code: code.to_owned(), cause });
            }
            Effect::StartJob { assign } => return self.start_job(assign),
            Effect::CancelJob { attempt } => {
                if let Some(cancel) = self.cancels.get(&attempt) {
                    cancel.cancel();
                }
            }
            Effect::Progress { attempt, progress } => self.tell(attempt, Answer::Progress(progress)),
            Effect::GiveUp { attempt, code, cause } => {
                self.tell(attempt, Answer::Declined { code, cause });
                self.answers.remove(&attempt);
            }
            Effect::CloseAnswers { attempt } => {
                self.answers.remove(&attempt);
            }
            Effect::SendReport { attempt } => {
                let outbox = self.session.outbox.clone();
                if let Some(link) = &mut self.link {
                    link.report(outbox, attempt);
                }
            }
            Effect::Settle { attempt, recorded } => self.settle(attempt, recorded),
            Effect::KeepCheckpoint { note } => {
                self.keep_checkpoint(note);
            }
            Effect::RememberCoordinator { welcome } => self.remember(welcome),
            Effect::Disconnect => self.disconnect(),
            Effect::End(_) => {}
        }
        None
    }

    fn connect(&mut self, dial: u64) {
        self.disconnect();
        self.epoch += 1;
        let pin = &self.session.pin;
        let count = pin.addresses.len().max(1) as u64;
        let index = usize::try_from(dial % count).unwrap_or(0);
        let address = pin.addresses.get(index).cloned().unwrap_or_default();
        tracing::info!(%address, "dialling the coordinator");
        let events = Events { epoch: Epoch(self.epoch), sender: self.events.clone() };
        self.link = Some(Link::dial(events, Arc::clone(&self.session.identity), address, pin.tls_key));
    }

    fn disconnect(&mut self) {
        self.link = None;
        self.session.links.send_replace(None);
        self.streams.clear();
        self.answers.clear();
    }

    fn greet(&mut self, running: Vec<Running>, devices: Vec<Device>) {
        let session = &self.session;
        let Some(link) = &mut self.link else { return };
        let Some(dialled) = link.dialled() else { return };
        let signing = session.identity.signing();
        let hello = Hello {
            name: session.name.clone(),
            signing_key: signing.public().to_bytes(),
            proof: signing.sign(&proof_message(&dialled.exporter)).to_vec(),
            invite: session.invite.as_ref().map(InviteSecret::expose),
            harness_version: session.harness_version.clone(),
            devices,
            running,
            checkpoint: session.checkpoint.clone(),
        };
        link.greet(hello);
    }

    fn say(&mut self, message: FromNode) -> Option<Input> {
        match self.link.as_ref().map(|link| link.say(message)) {
            Some(Ok(())) => None,
            Some(Err(_)) | None => {
                self.disconnect();
                Some(Input::Disconnected { entropy: entropy() })
            }
        }
    }

    fn first_answer(&mut self, stream: StreamKey, answer: Answer) -> Option<mpsc::Sender<Answer>> {
        let stream = self.streams.remove(&stream)?;
        Some(self.link.as_mut()?.answer(stream, answer))
    }

    /// Answers that find no stream or a full one are dropped: heartbeats and reports carry what matters.
    fn tell(&self, attempt: AttemptKey, answer: Answer) {
        if let Some(answers) = self.answers.get(&attempt)
            && answers.try_send(answer).is_err()
        {
            tracing::debug!(?attempt, "an answer was dropped");
        }
    }

    fn start_job(&mut self, assign: Box<Assign>) -> Option<Input> {
        let attempt = AttemptKey::of(&assign);
        let Some(welcome) = &self.welcome else {
            // The machine takes no assignment before a welcome; a result without an origin must never be signed.
            let (code, cause) = ("node/not-welcomed".to_owned(), "no ledger is known yet".to_owned());
            return Some(Input::JobAbandoned { attempt, code, cause });
        };
        let origin = welcome.origin.clone();
        let node = self.session.identity.node();
        let cancel = CancellationToken::new();
        self.cancels.insert(attempt, cancel.clone());
        let progress = ProgressSender { attempt, events: self.progress.clone() };
        let (runner, outbox) = (Arc::clone(&self.runner), self.session.outbox.clone());
        self.jobs.spawn(run_job(runner, outbox, JobOrder { assign, origin, node }, progress, cancel));
        None
    }

    fn on_ended(&mut self, (attempt, ended): Ended) -> Input {
        self.cancels.remove(&attempt);
        match ended {
            Ok(()) => Input::JobFinished { attempt },
            Err(JobFailure::Cancelled) => Input::JobAbandoned {
                attempt,
                code: "node/cancelled".to_owned(),
                cause: "it was cancelled".to_owned(),
            },
            Err(JobFailure::Failed { code, cause }) => {
                tracing::warn!(?attempt, %code, %cause, "an attempt ended without a result");
                Input::JobAbandoned { attempt, code, cause }
            }
        }
    }

    fn keep_checkpoint(&mut self, note: String) {
        let Pin { origin, log_vkey, .. } = &self.session.pin;
        let log = Log { origin, vkey: log_vkey };
        if note.len() > CHECKPOINT_MAX {
            tracing::error!(bytes = note.len(), "a checkpoint is too long to be one");
        } else if let Err(error) = log.follows(&self.session.checkpoint, &note) {
            tracing::error!(%error, seen = %self.session.checkpoint, now = %note, "a checkpoint is refused");
        } else {
            self.session.checkpoint.clone_from(&note);
            self.checkpoints.send_replace(note);
        }
    }

    /// The promise is checked and durable before the outbox entry goes; if it does not hold or cannot be kept, the entry
    /// stays and is sent again at the next start.
    fn settle(&mut self, attempt: AttemptKey, recorded: Recorded) {
        let (outbox, promises) = (self.session.outbox.clone(), self.session.folder.promises());
        let pin = self.session.pin.clone();
        self.chores.spawn_blocking(move || {
            reach(FaultPoint::NodeAfterAcknowledgement);
            promise::settle(&outbox, &promises, &pin, attempt, &recorded);
        });
    }

    fn remember(&mut self, welcome: Welcome) {
        let known = &self.session.pin;
        if !known.origin.is_empty() && known.origin != welcome.origin {
            tracing::warn!(before = %known.origin, now = %welcome.origin, "the coordinator keeps another ledger");
        }
        let (origin, mut log_vkey) = (welcome.origin.clone(), welcome.log_vkey.clone());
        if known.origin == origin && !known.log_vkey.is_empty() && known.log_vkey != log_vkey {
            tracing::error!(
                pinned = %known.log_vkey, now = %log_vkey,
                "the log has another key than when this node joined; the pinned one stays"
            );
            log_vkey.clone_from(&known.log_vkey);
        }
        let pin = Pin { origin, log_vkey, ..known.clone() };
        tracing::info!(node = %NodeId(welcome.node), origin = %welcome.origin, "welcomed");
        self.welcome = Some(welcome);
        self.session.pin = pin.clone();
        if let Some(link) = &mut self.link {
            link.welcomed();
        }
        // Written here and not by a chore: the pin must be durable before any work is taken, or a node that
        // crashes in its first job could not come back without its invite. It changes about once in a lifetime,
        // so the driver may wait for the disk.
        let path = self.session.folder.pin();
        match Pin::load(&path) {
            Ok(Some(saved)) if saved == pin => {}
            Ok(_) | Err(_) => {
                if let Err(error) = pin.save(&path) {
                    tracing::error!(%error, "the coordinator could not be pinned; keep the invite");
                }
            }
        }
    }

    /// What a connection brought, as an input of the machine. Old connections are not heard.
    fn on_link(&mut self, epoch: Epoch, event: LinkEvent) -> Option<Input> {
        let link = self.link.as_mut().filter(|link| link.epoch() == epoch)?;
        match event {
            LinkEvent::Connected(dialled) => {
                link.connected(dialled);
                Some(Input::Connected)
            }
            LinkEvent::ConnectFailed(error) => {
                tracing::info!(%error, "no connection");
                let failure = error.refusal().map_or(ConnectFailure::Unreachable, ConnectFailure::Wrong);
                Some(Input::ConnectFailed { failure, entropy: entropy() })
            }
            LinkEvent::Said(message) => Some(self.on_said(message)),
            LinkEvent::Assigned { stream, assign } => {
                let key = StreamKey(self.streams_seen);
                self.streams_seen += 1;
                self.streams.insert(key, stream);
                Some(Input::Assigned { stream: key, assign })
            }
            LinkEvent::Closed { cause } => {
                tracing::info!(%cause, "the connection ended");
                self.disconnect();
                Some(Input::Disconnected { entropy: entropy() })
            }
            LinkEvent::Acknowledged { attempt, recorded } => {
                Some(Input::Acknowledged { attempt, recorded, entropy: entropy() })
            }
            LinkEvent::ReportFailed { attempt } => Some(Input::ReportFailed { attempt, entropy: entropy() }),
            LinkEvent::ReportDamaged { attempt } => {
                if let Err(error) = self.session.outbox.set_aside(attempt) {
                    tracing::error!(?attempt, %error, "a damaged result could not be set aside");
                }
                Some(Input::ReportDamaged { attempt })
            }
        }
    }

    fn on_said(&mut self, message: FromCoordinator) -> Input {
        match message {
            FromCoordinator::Welcome(welcome) => {
                let dialled = self.link.as_ref().and_then(Link::dialled);
                let connection = dialled.map(|dialled| dialled.connection.clone());
                self.session.links.send_replace(connection);
                Input::Welcomed(welcome)
            }
            FromCoordinator::Goodbye(goodbye) => {
                tracing::warn!(code = %goodbye.code, cause = %goodbye.cause, "the coordinator said goodbye");
                Input::Dismissed { goodbye, entropy: entropy() }
            }
            FromCoordinator::Cancel { cell, fence } => {
                Input::Cancelled { attempt: AttemptKey { cell: CellId(cell), fence: Fence(fence) } }
            }
            FromCoordinator::Drain => Input::Drained,
            FromCoordinator::Undrain => Input::Undrained,
            FromCoordinator::Checkpoint { note } => Input::CheckpointSeen { note },
        }
    }

    /// Cancels what runs, keeps what was signed meanwhile, and writes what is still to be written.
    async fn finish(mut self, end: SessionEnd) -> SessionEnd {
        self.disconnect();
        for cancel in self.cancels.values() {
            cancel.cancel();
        }
        let jobs = async { while self.jobs.join_next().await.is_some() {} };
        if tokio::time::timeout(JOBS_END_WITHIN, jobs).await.is_err() {
            tracing::error!("some jobs did not end in time");
        }
        // The keeper of checkpoints ends with its channel.
        drop(self.checkpoints);
        while self.chores.join_next().await.is_some() {}
        end
    }
}

/// Runs a job and puts its result into the outbox. A panic of the job is the fleet's fault, not the candidate's.
async fn run_job(
    runner: Arc<dyn JobRunner>,
    outbox: Outbox,
    order: JobOrder,
    progress: ProgressSender,
    cancel: CancellationToken,
) -> Ended {
    let attempt = AttemptKey::of(&order.assign);
    let device = DeviceId(order.assign.device.clone());
    let failed = |code: &str, cause: String| JobFailure::Failed { code: code.to_owned(), cause };
    let job = tokio::spawn(async move { runner.start(order, progress, cancel).await });
    let finished = match job.await {
        Ok(Ok(finished)) => finished,
        Ok(Err(failure)) => return (attempt, Err(failure)),
        Err(error) => return (attempt, Err(failed("node/job-panicked", error.to_string()))),
    };
    let kept = tokio::task::spawn_blocking(move || {
        let FinishedJob { envelope, blobs } = finished;
        reach(FaultPoint::NodeBeforeOutbox);
        let kept = outbox.put(attempt, &device, &envelope, &blobs);
        reach(FaultPoint::NodeAfterOutbox);
        kept
    });
    let ended = match kept.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(failed("node/outbox", error.to_string())),
        Err(error) => Err(failed("node/outbox", error.to_string())),
    };
    (attempt, ended)
}

/// Random bits for jitter; a machine without randomness waits the shortest time.
fn entropy() -> u64 {
    getrandom::u64().unwrap_or(0)
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// The next set of devices; never, once nobody can change them any more.
async fn changed(devices: &mut watch::Receiver<Vec<DeviceDescription>>) -> Vec<DeviceDescription> {
    if devices.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    devices.borrow_and_update().clone()
}
