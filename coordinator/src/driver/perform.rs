//! Performs effects of the scheduler: writer, nodes, replies, watchers.

use super::watch::WatchEvent;
use super::{CHECKPOINT_EVERY, Driver, DriverError, Waiting};
use crate::commit::CommitRequest;
use crate::scheduler::effect::{Effect, Ending, Event, Grant, Reply};
use crate::scheduler::input::{DrainIntent, RequestId, SessionId};
use crate::stores::reference;
use crate::transport::NodeCommand;
use crate::transport::admit::goodbye;
use fleet_config::domain::{BlobRef, CellId, Digest, Fence, NodeId, Seed, SubmissionId};
use fleet_config::refusal::Refusal;
use fleet_config::wire::v1::Blob;
use fleet_config::wire::v2::{Assign, Sealed};
use std::time::Duration;

impl Driver {
    /// Performs one effect; facts are durable already.
    pub(super) fn perform(&mut self, effect: Effect) -> Result<(), DriverError> {
        match effect {
            Effect::Persist { sequence: _, fact: _ } => {}
            Effect::RecordGrants(grants) => self.overflow.push_back(CommitRequest::Grants(grants)),
            Effect::RecordLost { about, fence, node: _, device: _, reason } => {
                self.overflow.push_back(CommitRequest::Lost { about, fence, reason });
            }
            Effect::RecordEnd { about, fence, attempts: _, reason } => {
                self.overflow.push_back(CommitRequest::End { about, fence, reason });
            }
            Effect::Assign { session, grant } => self.assign(session, &grant),
            Effect::CancelOnNode { node, session, cell, fence } => self.cancel(node, session, cell, fence),
            Effect::Intake { node, session, intent } => {
                let command = match intent {
                    DrainIntent::Drain => NodeCommand::Drain,
                    DrainIntent::Resume => NodeCommand::Undrain,
                };
                if let Some(known) = self.sessions.get(&node).filter(|known| known.id == session) {
                    // A connection that is gone is followed by a hello, after which it is said again.
                    let _gone = known.connection.send(command);
                }
            }
            Effect::Disconnect { node, session, refusal } => {
                if let Some(known) = self.sessions.get(&node).filter(|known| known.id == session) {
                    // A connection that is gone already needs no goodbye.
                    let _gone = known.connection.send(NodeCommand::Goodbye(goodbye(refusal)));
                }
            }
            Effect::Reply { request, reply } => self.reply(request, reply),
            Effect::Publish(event) => self.publish(event),
            Effect::Halt { refusal } => return Err(DriverError::Halted(refusal)),
        }
        Ok(())
    }

    /// Hands the writer as much as its queue takes, in order.
    pub(super) fn flush_overflow(&mut self) {
        while let Some(request) = self.overflow.pop_front() {
            if let Err(back) = self.commit.try_send(request) {
                self.overflow.push_front(*back);
                return;
            }
        }
    }

    fn assign(&mut self, session: SessionId, grant: &Grant) {
        let Some(known) = self.sessions.get(&grant.node).filter(|known| known.id == session) else { return };
        let documents = (
            self.documents.task_blob(grant.task),
            reference(&self.blobs, &Digest(grant.candidate.0)),
            self.documents.policy_blob(grant.policy),
        );
        let (Some(task), Some(candidate), Some(policy)) = documents else {
            // The lease runs out and the cell ends as `infrastructure`, which is what this is.
            tracing::error!(cell = %grant.cell, "a document of this cell is missing from the store; check the disk");
            return;
        };
        let sealed = match self.sealed_for(grant) {
            Ok(sealed) => sealed,
            Err(refusal) => {
                // The lease runs out and counts as an opening all the same: better one too many than one unseen.
                tracing::error!(cell = %grant.cell, %refusal, "a verification lease cannot be sent");
                return;
            }
        };
        let assign = Assign {
            submission: grant.submission.0,
            cell: grant.cell.0,
            fence: grant.fence.0,
            task: wire(task),
            candidate: wire(candidate),
            policy: wire(policy),
            device: grant.device.0.clone(),
            nonce: grant.nonce.0,
            seeds: grant.seeds.iter().map(|Seed(seed)| *seed).collect(),
            compile_ms: grant.terms.compile.0,
            run_ms: grant.terms.run.0,
            queued_ms: grant.waited.0,
            sealed,
        };
        if let Err(error) = known.connection.send(NodeCommand::Assign(Box::new(assign))) {
            tracing::info!(node = %grant.node.short(), %error, "assignment not sent; the node will say hello again");
        }
    }

    /// The sealed section for a lease that opens one. Its opening is in the ledger by now: a grant is assigned only once
    /// its entry is durable, and the opening stands before it.
    fn sealed_for(&self, grant: &Grant) -> Result<Option<Sealed>, Refusal> {
        let Some(check) = grant.holdout else { return Ok(None) };
        let broken = |cause: &str| {
            Refusal::new(
                "verify/opening",
                grant.cell.to_string(),
                cause,
                "report this with the coordinator's log",
            )
        };
        let opened = self
            .commit
            .opened_for(grant.cell, grant.fence)
            .filter(|opened| (opened.commitment, opened.record) == (check.commitment, check.record))
            .ok_or_else(|| broken("no opening was counted for this attempt"))?;
        let task = self.documents.task(grant.task).ok_or_else(|| broken("the task is not known"))?;
        let holdout = task.value.holdout.as_ref().filter(|holdout| holdout.commitment == check.commitment);
        let holdout = holdout.ok_or_else(|| broken("the task seals another holdout"))?;
        let crate::sealed::Opened { salt, section } = crate::sealed::open(&self.sealed, holdout)?;
        Ok(Some(Sealed {
            commitment: check.commitment.0.0,
            opening: opened.opening,
            record: check.record.0,
            salt,
            section: section.to_vec(),
        }))
    }

    fn cancel(&mut self, node: NodeId, session: SessionId, cell: CellId, fence: Fence) {
        let Some(known) = self.sessions.get_mut(&node).filter(|known| known.id == session) else { return };
        known.stopping.insert((cell, fence));
        // A connection that is gone is followed by a hello, which tells what the node still holds.
        let _gone = known.connection.send(NodeCommand::Cancel { cell, fence });
    }

    fn reply(&mut self, request: RequestId, reply: Reply) {
        match self.replies.remove(&request) {
            // A client that went away does not need its answer.
            Some(Waiting::Desk(waiting)) => drop(waiting.send(reply)),
            Some(Waiting::Enrolment(pending)) => self.on_invite_answer(pending, reply),
            None => tracing::warn!(?request, "an answer without a question"),
        }
    }

    fn publish(&mut self, event: Event) {
        if matches!(event, Event::CellFinished { ending: Ending::Result { .. }, .. }) {
            self.pace.count(self.clock.now());
        }
        let line =
            |kind: &str, cell: Option<CellId>, detail: String, node: Option<NodeId>, index| WatchEvent {
                sequence: 0,
                kind: kind.to_owned(),
                cell: cell.map_or_else(String::new, |cell| cell.to_string()),
                detail,
                node: node.map_or_else(String::new, |node| self.name_of(node)),
                index,
            };
        let (submission, event): (SubmissionId, WatchEvent) = match event {
            Event::SubmissionAccepted { submission, cells } => {
                (submission, line("accepted", None, format!("{cells} cells"), None, None))
            }
            Event::CellLeased { submission, cell, fence: _, node, device: _, attempt } => {
                (submission, line("leased", Some(cell), format!("attempt {attempt}"), Some(node), None))
            }
            Event::CellStage { submission, cell, fence: _, stage } => {
                (submission, line("stage", Some(cell), stage.name().to_owned(), None, None))
            }
            Event::CellRetried { submission, cell, fence: _, attempts } => {
                (submission, line("retried", Some(cell), format!("after {attempts} attempts"), None, None))
            }
            Event::CellFinished { submission, cell, ending } => {
                let (detail, index) = ending_words(&ending);
                (submission, line("finished", Some(cell), detail, None, Some(index)))
            }
            Event::SubmissionFinished { submission } => {
                (submission, line("done", None, String::new(), None, None))
            }
            Event::NodeChanged { node, state } => {
                tracing::info!(node = %self.name_of(node), state = state.name(), "node");
                return;
            }
        };
        self.watch.publish(submission, event);
    }

    /// Tells every node the newest checkpoint, at most once in [`CHECKPOINT_EVERY`]: kept by many, it dates what
    /// the ledger held.
    pub(super) fn tell_checkpoint(&mut self, now: Duration) {
        if now < self.checkpoint_due || !self.checkpoints.has_changed().unwrap_or(false) {
            return;
        }
        self.checkpoint_due = now + CHECKPOINT_EVERY;
        let note = self.checkpoints.borrow_and_update().clone();
        for session in self.sessions.values() {
            // A connection that is gone gets it with its next hello.
            let _gone = session.connection.send(NodeCommand::Checkpoint { note: note.clone() });
        }
    }

    /// The name of a node for people.
    pub(super) fn name_of(&self, node: NodeId) -> String {
        self.names.get(&node).cloned().unwrap_or_else(|| node.short())
    }
}

/// How a cell ended, in words, with the leaf of its final entry.
pub(super) fn ending_words(ending: &Ending) -> (String, u64) {
    match ending {
        Ending::Result { status, fence: _, index } => (status.name().to_owned(), index.0),
        Ending::Reused { index } => ("answered by an earlier result".to_owned(), index.0),
        Ending::Ended { reason, index } => (super::views::end_word(*reason).to_owned(), index.0),
    }
}

fn wire(blob: BlobRef) -> Blob {
    Blob { blake3: blob.blake3.0, sha256: blob.sha256.0, size: blob.size }
}
