//! Requests of the front desk: commands become inputs, questions are answered from the scheduler's views.

use super::perform::ending_words;
use super::request::{CellView, DeviceView, NodeView, Request, Summary};
use super::{Driver, Waiting};
use crate::scheduler::effect::{Ending, Reply};
use crate::scheduler::explain::{Explanation, Obstacle};
use crate::scheduler::input::{EndReason, Input, SubmitRequest};
use crate::scheduler::node_state::NodeState;
use crate::scheduler::view;
use fleet_config::domain::{
    Candidate, CandidateId, DeviceDescription, Digest, Fact, NodeId, SubmissionId, canonical, field,
};
use fleet_config::refusal::Refusal;
use std::collections::BTreeSet;
use tokio::sync::oneshot;

/// Largest document of a candidate that is read for its name.
const CANDIDATE_MAX: u64 = 1 << 20;

impl Driver {
    /// Takes one request.
    pub(super) fn on_request(&mut self, request: Request, inputs: &mut Vec<Input>) {
        match request {
            Request::Submit { submission, terms, reused, reply } => {
                let Some(entropy) = entropy() else {
                    let refusal = Refusal::new(
                        "state/randomness",
                        "",
                        "no random bytes",
                        "check the machine's random source",
                    );
                    return drop(reply.send(Reply::Refused(refusal)));
                };
                let request = self.await_reply(reply);
                let submit = SubmitRequest { request, submission: *submission, terms, entropy, reused };
                inputs.push(Input::Submit(Box::new(submit)));
            }
            Request::Cancel { target, reply } => {
                let request = self.await_reply(reply);
                inputs.push(Input::Cancel { request, target });
            }
            Request::Drain { node, intent, reply } => {
                let request = self.await_reply(reply);
                inputs.push(Input::Drain { request, node, intent });
            }
            Request::Revoked { node, reply } => {
                self.revoked(node);
                // As below: a client that went away needs no answer.
                let _unheard = reply.send(());
            }
            Request::CreateInvite { invite, reply } => {
                let request = self.await_reply(reply);
                inputs.push(Input::CreateInvite { request, invite });
            }
            // A client that went away does not need its answer.
            Request::Cells { submission, reply } => drop(reply.send(self.cell_views(submission))),
            Request::Recent { limit, reply } => drop(reply.send(self.recent(limit))),
            Request::Named { prefix, reply } => drop(reply.send(self.named(&prefix))),
            Request::Follow { submission, reply } => drop(reply.send(self.ensure_log(submission))),
            Request::Nodes { reply } => drop(reply.send(self.node_views())),
            Request::Devices { reply } => drop(reply.send(self.devices())),
            Request::Summary { reply } => drop(reply.send(self.summary())),
            Request::Stop => self.stop = true,
        }
    }

    fn await_reply(&mut self, reply: oneshot::Sender<Reply>) -> crate::scheduler::input::RequestId {
        let request = self.request_id();
        self.replies.insert(request, Waiting::Desk(reply));
        request
    }

    fn cell_views(&self, submission: SubmissionId) -> Result<Vec<CellView>, Refusal> {
        if self.scheduler.submission(submission).is_none() {
            return Err(unknown_submission(submission));
        }
        Ok(self.scheduler.cells(submission).iter().map(|cell| self.cell_view(cell)).collect())
    }

    fn cell_view(&self, cell: &view::CellView) -> CellView {
        let explanation = self.scheduler.explain(cell.id);
        let (state, detail, index, reused) = match &cell.standing {
            view::Standing::Finished(ending) => {
                let (detail, index) = ending_words(ending);
                let (state, reused) = match ending {
                    Ending::Result { .. } => ("finished", false),
                    Ending::Reused { .. } => ("finished", true),
                    Ending::Ended { .. } => ("ended", false),
                };
                (state, detail, Some(index), reused)
            }
            view::Standing::Queued => ("queued", waiting(explanation.as_ref()), None, false),
            view::Standing::Backoff => ("queued", "waits before the next attempt".to_owned(), None, false),
            view::Standing::Leased { fence: _ } => ("running", stage(explanation.as_ref()), None, false),
            view::Standing::Ending => ("ending", String::new(), None, false),
        };
        CellView {
            cell: cell.id,
            candidate: cell.candidate.to_string(),
            name: self.candidate_name(cell.candidate),
            class: cell.class.to_string(),
            state: state.to_owned(),
            detail,
            node: self.node_of(explanation.as_ref()),
            attempts: cell.attempts,
            index,
            reused,
        }
    }

    /// The name of a candidate, from its document where an earlier process took it in.
    pub(super) fn candidate_name(&self, id: CandidateId) -> String {
        self.documents.candidate_name(id).unwrap_or_else(|| {
            let bytes = self.blobs.read_unchecked(&Digest(id.0), CANDIDATE_MAX).ok().flatten();
            let read = bytes.and_then(|bytes| canonical::from_bytes::<Candidate>(&bytes).ok());
            let name = read.map(|candidate| candidate.name).unwrap_or_default();
            self.documents.name_candidate(id, &name);
            name
        })
    }

    /// The name of the node at work on a cell; empty where there is none.
    pub(super) fn node_of(&self, explanation: Option<&Explanation>) -> String {
        match explanation {
            Some(Explanation::Granted { node, .. } | Explanation::Running { node, .. }) => {
                self.name_of(*node)
            }
            Some(
                Explanation::Finished(_)
                | Explanation::Ending { .. }
                | Explanation::Losing { .. }
                | Explanation::Backoff { .. }
                | Explanation::Waiting { .. },
            )
            | None => String::new(),
        }
    }

    fn node_views(&self) -> Vec<NodeView> {
        let nodes = self.scheduler.nodes();
        let view = |node: &view::NodeView| NodeView {
            node: node.id.to_string(),
            name: self.name_of(node.id),
            state: match node.link {
                _ if self.is_revoked(node.id) => "revoked".to_owned(),
                view::Link::Connected => node.state.name().to_owned(),
                view::Link::Away => format!("{}, away", node.state.name()),
            },
            devices: node.devices.iter().map(device_view).collect(),
        };
        // Those that enrolled once and were not heard of since this coordinator started are nodes too: they can be revoked.
        let seen: BTreeSet<NodeId> = nodes.iter().map(|node| node.id).collect();
        let unseen = self.register.nodes.keys().filter(|node| !seen.contains(node)).map(|node| NodeView {
            node: node.to_string(),
            name: self.name_of(*node),
            state: if self.is_revoked(*node) { "revoked" } else { "away" }.to_owned(),
            devices: Vec::new(),
        });
        nodes.iter().map(view).chain(unseen).collect()
    }

    fn devices(&self) -> Vec<DeviceDescription> {
        let nodes = self.scheduler.nodes();
        let connected = nodes.iter().filter(|node| node.link == view::Link::Connected);
        connected.flat_map(|node| node.devices.iter().filter_map(|device| device.offer.clone())).collect()
    }

    fn summary(&self) -> Summary {
        let totals = self.scheduler.totals();
        let nodes = self.scheduler.nodes();
        let submissions = self.scheduler.submissions();
        let all: usize = submissions.iter().map(|submission| submission.cells).sum();
        let open: usize = submissions.iter().map(|submission| submission.open).sum();
        let ready = nodes.iter().filter(|n| n.state == NodeState::Ready && n.link == view::Link::Connected);
        Summary {
            nodes_ready: ready.count() as u64,
            nodes: totals.nodes as u64,
            cells_queued: (totals.queued + totals.backoff) as u64,
            cells_running: (totals.leased + totals.ending) as u64,
            cells_finished: (all - open) as u64,
            submissions_open: totals.submissions_open as u64,
            pace: self.pace.view(self.clock.now()),
        }
    }
}

/// The refusal of a question about a submission that nobody made here, or long ago.
pub(super) fn unknown_submission(submission: SubmissionId) -> Refusal {
    Refusal::new(
        "submit/unknown-submission",
        submission.to_string(),
        "no open or lately finished submission has this id",
        "older ones are in the ledger: see `muster rank` and `muster show`",
    )
}

fn device_view(device: &view::DeviceView) -> DeviceView {
    let offer = device.offer.as_ref();
    let text = |fact: Option<&Fact>| match fact {
        Some(Fact::Text(text)) => text.clone(),
        Some(Fact::Count(_) | Fact::Flag(_) | Fact::Unknown(_)) | None => String::new(),
    };
    let told = |name: &str| text(offer.and_then(|offer| offer.configuration.get(name)));
    let kind = offer.map_or("", |offer| offer.kind.name());
    DeviceView {
        id: device.id.to_string(),
        kind: kind.to_owned(),
        architecture: offer.map_or_else(String::new, |offer| offer.architecture.to_string()),
        model: text(offer.and_then(|offer| offer.identity.get(field::DEVICE_MODEL))),
        health: told(field::HEALTH),
        health_cause: told(field::HEALTH_CAUSE),
        drift_ppm: told(field::DRIFT),
        running: device.running.map_or_else(String::new, |(cell, _)| cell.to_string()),
    }
}

/// Why a cell waits, in words.
fn waiting(explanation: Option<&Explanation>) -> String {
    let Some(Explanation::Waiting { ahead, submissions_in_class: _, obstacles }) = explanation else {
        return String::new();
    };
    let words = obstacles.iter().map(|obstacle| match obstacle {
        Obstacle::Recovering => "the coordinator reads its history".to_owned(),
        Obstacle::NoDeviceOfClass => "no node has offered a device of this class".to_owned(),
        Obstacle::MemoryTooSmall { devices, need, largest } => {
            format!("{devices} devices are too small: {need} wanted, {largest} the largest")
        }
        Obstacle::Busy { devices } => format!("{devices} busy"),
        Obstacle::Draining { devices } => format!("{devices} draining"),
        Obstacle::Disconnected { devices } => format!("{devices} not connected"),
        Obstacle::Stopping { devices } => format!("{devices} stopping a cancelled attempt"),
        Obstacle::BehindOthers { devices } => format!("behind others for {devices}"),
    });
    let mut parts: Vec<String> = words.collect();
    if *ahead > 0 {
        parts.insert(0, format!("{ahead} ahead"));
    }
    parts.join(", ")
}

fn stage(explanation: Option<&Explanation>) -> String {
    match explanation {
        Some(Explanation::Running { stage: Some(stage), .. }) => stage.name().to_owned(),
        Some(Explanation::Running { stage: None, .. }) => "sent".to_owned(),
        Some(Explanation::Granted { .. }) => "granted".to_owned(),
        Some(Explanation::Losing { .. }) => "lost".to_owned(),
        Some(
            Explanation::Finished(_)
            | Explanation::Ending { .. }
            | Explanation::Backoff { .. }
            | Explanation::Waiting { .. },
        )
        | None => String::new(),
    }
}

/// Why a cell ended without a result, in words.
pub(super) fn end_word(reason: EndReason) -> &'static str {
    match reason {
        EndReason::AttemptsExhausted => "infrastructure: the fleet failed too often",
        EndReason::QueueBudgetSpent => "infrastructure: no device in time",
        EndReason::Cancelled => "cancelled",
    }
}

fn entropy() -> Option<Digest> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).ok().map(|()| Digest(bytes))
}
