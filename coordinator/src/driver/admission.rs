//! Admission of nodes: decide, journal the invite's use, record the enrolment, then welcome.

use super::{Driver, HEARTBEAT, Internal, Waiting};
use crate::clock::{wall_rfc3339, wall_unix_ms};
use crate::scheduler::effect::Reply;
use crate::scheduler::fact::InviteId;
use crate::scheduler::input::{Input, RequestId};
use crate::transport::admit::{Admission, EnrolledNode, Enrolment, Standing, admit, goodbye};
use crate::transport::{NodeCommand, PeerFacts};
use fleet_config::domain::NodeId;
use fleet_config::refusal::Refusal;
use fleet_config::wire::v1::{Goodbye, Hello, Welcome};
use ledger::entry::predicate::NodeEnrol;
use tokio::sync::oneshot;

/// An enrolment on its way.
#[derive(Debug)]
pub(super) struct Pending {
    enrolment: Enrolment,
    reply: oneshot::Sender<Result<Welcome, Goodbye>>,
}

impl Driver {
    /// Decides about a hello. A known node is welcomed at once; a new one after its invite and enrolment are
    /// durable. Crash in between: the same node with the same invite and keys is let in again.
    pub(super) fn on_joining(
        &mut self,
        hello: &Hello,
        peer: &PeerFacts,
        reply: oneshot::Sender<Result<Welcome, Goodbye>>,
        inputs: &mut Vec<Input>,
    ) {
        let now_unix_ms = wall_unix_ms();
        match admit(hello, peer, &self.register, now_unix_ms) {
            // A peer that has left does not need its answer; here and below.
            Admission::Known { node, devices: _ } => drop(reply.send(Ok(self.welcome(node)))),
            Admission::Refused(goodbye) => {
                tracing::info!(address = %peer.address, code = goodbye.code, "join refused");
                drop(reply.send(Err(goodbye)));
            }
            Admission::Enrol(enrolment) => {
                let secret_hash = hello.invite.as_ref().map(fleet_config::invite::secret_hash);
                let Some(secret_hash) = secret_hash else { return };
                let request = self.request_id();
                inputs.push(Input::ConsumeInvite {
                    request,
                    invite: InviteId(enrolment.invite.clone()),
                    secret_hash,
                    key: enrolment.key,
                    now_unix_ms,
                });
                let pending = Pending { enrolment: *enrolment, reply };
                self.replies.insert(request, Waiting::Enrolment(Box::new(pending)));
            }
        }
    }

    /// The invite's use is journalled, or it was refused.
    pub(super) fn on_invite_answer(&mut self, pending: Box<Pending>, reply: Reply) {
        match reply {
            // Admission has compared the class with the devices before the use was asked for.
            Reply::InviteConsumed { class: _ } => {}
            Reply::Refused(refusal) => return drop(pending.reply.send(Err(goodbye(refusal)))),
            Reply::Accepted { .. }
            | Reply::AlreadyAccepted { .. }
            | Reply::Cancelled { .. }
            | Reply::Drained { .. }
            | Reply::InviteCreated => return tracing::error!(?reply, "not an answer to an invite"),
        }
        let enrolment = &pending.enrolment;
        let entry = NodeEnrol {
            node: enrolment.node,
            name: enrolment.name.clone(),
            signing_key: enrolment.signing_key.to_hex(),
            tls_key: enrolment.tls_key,
            invite: enrolment.invite.clone(),
            enrolled_on: wall_rfc3339(),
        };
        let (commit, internal) = (self.commit.clone(), self.internal.clone());
        tokio::spawn(async move {
            let result = commit.enrol(entry).await.map(|_| ());
            // A loop that has ended welcomes nobody.
            let _ended = internal.send(Internal::Enrolled { pending, result }).await;
        });
    }

    /// The enrolment is in the ledger, or could not be recorded.
    pub(super) fn on_enrolled(&mut self, pending: Box<Pending>, result: Result<(), Refusal>) {
        let Pending { enrolment, reply } = *pending;
        if let Err(refusal) = result {
            let goodbye = Goodbye { retry: true, ..goodbye(refusal) };
            return drop(reply.send(Err(goodbye)));
        }
        let Enrolment { node, signing_key: _, tls_key, name, invite: _, key: _, devices: _, class } =
            enrolment;
        self.names.insert(node, name);
        let standing = Standing::Trusted;
        self.register.nodes.insert(node, EnrolledNode { node, tls_key, standing, class });
        drop(reply.send(Ok(self.welcome(node))));
    }

    /// The node's revocation is durable.
    pub(super) fn revoked(&mut self, node: NodeId) {
        if let Some(known) = self.register.nodes.get_mut(&node) {
            known.standing = Standing::Revoked;
        }
        if let Some(session) = self.sessions.get(&node) {
            let refusal = Refusal::new(
                "join/revoked",
                node.to_string(),
                "this node was revoked",
                "start a new node with a state folder of its own and a new invite",
            );
            // A connection that is gone needs no goodbye; its next hello is refused.
            let _gone = session.connection.send(NodeCommand::Goodbye(goodbye(refusal)));
        }
    }

    pub(super) fn is_revoked(&self, node: NodeId) -> bool {
        self.register.nodes.get(&node).is_some_and(|known| known.standing == Standing::Revoked)
    }

    fn welcome(&self, node: NodeId) -> Welcome {
        Welcome {
            node: node.0,
            origin: self.origin.clone(),
            log_vkey: self.vkey.clone(),
            heartbeat_ms: u64::try_from(HEARTBEAT.as_millis()).unwrap_or(u64::MAX),
            // What must stop is cancelled after the hello was taken in.
            stop: Vec::new(),
        }
    }

    /// A fresh request id.
    pub(super) fn request_id(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }
}
