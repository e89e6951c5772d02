//! What nodes do, as inputs of the scheduler; reports go to the ledger's writer.

use super::{Driver, Internal, Session};
use crate::commit::IncomingReport;
use crate::scheduler::input::{HeldAttempt, Input, SessionId, Stop};
use crate::transport::admit::{goodbye, parse_devices};
use crate::transport::{AssignmentEvent, ConnectionId, NodeCommand, TransportEvent};
use fleet_config::domain::{CellId, DeviceId, Fence, NodeId, Stage};
use fleet_config::wire::v1::{Device, RecordVerdict, Recorded, Report, Running};
use std::collections::BTreeSet;
use tokio::sync::oneshot;

impl Driver {
    /// Turns one event of the transport into inputs.
    pub(super) fn on_transport(&mut self, event: TransportEvent, inputs: &mut Vec<Input>) {
        match event {
            TransportEvent::Joining { hello, peer, reply } => self.on_joining(&hello, &peer, reply, inputs),
            TransportEvent::Joined { node, connection, hello, peer: _ } => {
                let Ok(devices) = parse_devices(&hello.devices) else { return };
                let id = SessionId(connection.id().0);
                self.names.insert(node, hello.name.clone());
                let note = self.checkpoints.borrow().clone();
                if !note.is_empty() {
                    // A connection that is gone already needs no checkpoint.
                    let _gone = connection.send(NodeCommand::Checkpoint { note });
                }
                self.sessions.insert(node, Session { connection, id, stopping: BTreeSet::new() });
                inputs.push(Input::NodeHello { node, session: id, devices, held: held(&hello.running) });
            }
            TransportEvent::Heartbeat { node, connection, heartbeat } => {
                let session = SessionId(connection.0);
                inputs.push(Input::Heartbeat { node, session });
                self.settle_stopping(node, session, &heartbeat.running, inputs);
            }
            TransportEvent::Capacity { node, connection, capacity } => {
                self.on_capacity(node, SessionId(connection.0), &capacity.devices, inputs);
            }
            TransportEvent::Answer { node, connection, cell, fence, answer } => {
                self.on_answer(node, SessionId(connection.0), cell, fence, answer, inputs);
            }
            TransportEvent::Report { node, connection, report, reply } => {
                self.on_report(node, connection, *report, reply);
            }
            TransportEvent::Lost { node, connection, cause } => {
                let session = SessionId(connection.0);
                if self.sessions.get(&node).is_some_and(|known| known.id == session) {
                    self.sessions.remove(&node);
                }
                tracing::info!(node = %self.name_of(node), %cause, "connection lost");
                inputs.push(Input::NodeDisconnected { node, session });
            }
        }
    }

    /// What the loop's own tasks report.
    pub(super) fn on_internal(&mut self, event: Internal, inputs: &mut Vec<Input>) {
        match event {
            Internal::Enrolled { pending, result } => self.on_enrolled(pending, result),
            Internal::Reported { node, connection, cell, fence, how } => {
                let session = SessionId(connection.0);
                inputs.push(Input::AttemptStopped { node, session, cell, fence, how });
            }
        }
    }

    /// The node offers other devices now. What it may not offer ends the connection.
    fn on_capacity(&mut self, node: NodeId, session: SessionId, devices: &[Device], inputs: &mut Vec<Input>) {
        let parsed = parse_devices(devices);
        let checked =
            parsed.and_then(|devices| self.register.check_devices(node, &devices).map(|()| devices));
        match checked {
            Ok(devices) => inputs.push(Input::DevicesChanged { node, session, devices }),
            Err(refusal) => {
                tracing::warn!(node = %self.name_of(node), %refusal, "devices refused");
                if let Some(known) = self.sessions.get(&node).filter(|known| known.id == session) {
                    // A connection that is gone already needs no goodbye.
                    let _gone = known.connection.send(NodeCommand::Goodbye(goodbye(refusal)));
                }
            }
        }
    }

    fn on_answer(
        &mut self,
        node: NodeId,
        session: SessionId,
        cell: CellId,
        fence: Fence,
        answer: AssignmentEvent,
        inputs: &mut Vec<Input>,
    ) {
        match answer {
            AssignmentEvent::Taken => {}
            AssignmentEvent::Progress(progress) => {
                if let Some(stage) = Stage::named(&progress.stage) {
                    inputs.push(Input::Progress { node, session, cell, fence, stage });
                }
            }
            AssignmentEvent::Declined { code, cause } => {
                let known = self.sessions.get_mut(&node);
                let asked = known.is_some_and(|known| known.stopping.remove(&(cell, fence)));
                let how = if asked { Stop::Cancelled } else { Stop::Abandoned };
                tracing::info!(node = %self.name_of(node), cell = %cell.short(), code, cause, "attempt declined");
                inputs.push(Input::AttemptStopped { node, session, cell, fence, how });
            }
            AssignmentEvent::StreamLost { cause } => {
                tracing::debug!(cell = %cell.short(), cause, "assignment stream lost; heartbeats tell what runs");
            }
        }
    }

    /// A cancelled attempt that a heartbeat no longer names has stopped.
    fn settle_stopping(
        &mut self,
        node: NodeId,
        session: SessionId,
        running: &[Running],
        inputs: &mut Vec<Input>,
    ) {
        let Some(known) = self.sessions.get_mut(&node).filter(|known| known.id == session) else { return };
        let running: BTreeSet<_> = running.iter().map(|r| (CellId(r.cell), Fence(r.fence))).collect();
        let stopped: Vec<_> = known.stopping.difference(&running).copied().collect();
        for (cell, fence) in stopped {
            known.stopping.remove(&(cell, fence));
            inputs.push(Input::AttemptStopped { node, session, cell, fence, how: Stop::Cancelled });
        }
    }

    fn on_report(
        &mut self,
        node: NodeId,
        connection: ConnectionId,
        report: Report,
        reply: oneshot::Sender<Recorded>,
    ) {
        let (cell, fence) = (CellId(report.cell), Fence(report.fence));
        let incoming = IncomingReport { peer: node, cell, fence, envelope: report.envelope };
        let (commit, internal) = (self.commit.clone(), self.internal.clone());
        tokio::spawn(async move {
            let recorded = commit.report(incoming).await;
            let settled = match &recorded.verdict {
                RecordVerdict::Accepted { .. } | RecordVerdict::Refused { .. } => Some(Stop::Reported),
                // No result of this attempt will come: the cell need not wait for its lease to run out.
                RecordVerdict::Invalid { code, cause } => {
                    tracing::warn!(cell = %cell.short(), code, cause, "a report is no valid result");
                    Some(Stop::Abandoned)
                }
                RecordVerdict::Later { .. } => None,
            };
            // A node that has left sends the report again and gets the same answer.
            drop(reply.send(recorded));
            if let Some(how) = settled {
                let _ended = internal.send(Internal::Reported { node, connection, cell, fence, how }).await;
            }
        });
    }
}

fn held(running: &[Running]) -> Vec<HeldAttempt> {
    let attempt = |r: &Running| HeldAttempt {
        cell: CellId(r.cell),
        fence: Fence(r.fence),
        device: DeviceId(r.device.clone()),
    };
    running.iter().map(attempt).collect()
}
