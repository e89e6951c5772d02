//! Nodes as people ask about them: list, drain, invite.

use super::Desk;
use super::submit::unexpected;
use crate::driver::request::{NodeView, Request};
use crate::http::body::{DrainBody, InviteBody, RevokeBody, RevokeView};
use crate::scheduler::effect::Reply;
use crate::scheduler::fact::{Invite, InviteId};
use crate::scheduler::input::DrainIntent;
use data_encoding::HEXLOWER;
use fleet_config::domain::{DeviceClass, Digest, LeafIndex, NodeId};
use fleet_config::invite::{InviteId as TokenId, InviteSecret};
use fleet_config::refusal::Refusal;
use ledger::entry::predicate::NodeRevoke;
use zeroize::Zeroizing;

/// Longest life of an invite: a month.
const INVITE_SECONDS_MAX: u64 = 31 * 24 * 3600;

/// Longest reason of a revocation.
const REASON_MAX: usize = 400;

impl Desk {
    /// The nodes and what they run.
    pub async fn nodes(&self) -> Result<Vec<NodeView>, Refusal> {
        self.ask(|reply| Request::Nodes { reply }).await
    }

    /// Drains or resumes a node, named by id, by a unique prefix, or by its name.
    pub async fn drain(&self, text: &str, body: &DrainBody) -> Result<u64, Refusal> {
        let node = self.node_named(text).await?;
        let intent = if body.resume { DrainIntent::Resume } else { DrainIntent::Drain };
        match self.ask(|reply| Request::Drain { node, intent, reply }).await? {
            Reply::Drained { running } => Ok(running as u64),
            other => Err(unexpected(other)),
        }
    }

    /// Trusts a node no more: it gets no further work, its session ends, what it signs from here on is refused, and what it
    /// signed from the suspected entry on falls.
    pub async fn revoke(&self, text: &str, body: &RevokeBody) -> Result<RevokeView, Refusal> {
        let reason: String = body.reason.chars().filter(|c| !c.is_control()).take(REASON_MAX).collect();
        if reason.trim().is_empty() {
            let next =
                "say with --reason why the node is trusted no more; it stands in the ledger and in rankings";
            return Err(Refusal::new("node/revoke-reason", "reason", "no reason is given", next));
        }
        let node = self.node_named(text).await?;
        // Drained first, so that no lease is granted between the entry and the end of its session; a node that the
        // scheduler does not know has none.
        let _drained = self.ask(|reply| Request::Drain { node, intent: DrainIntent::Drain, reply }).await?;
        let suspect_from = body.suspect_from.unwrap_or(LeafIndex(u64::MAX));
        let revoked_on = crate::clock::wall_rfc3339();
        let index = self.commit.revoke(NodeRevoke { node, suspect_from, reason, revoked_on }).await?;
        self.ask(|reply| Request::Revoked { node, reply }).await?;
        Ok(RevokeView { node, index, suspect_from: suspect_from.min(index) })
    }

    /// The node that `text` names: an id, a unique prefix, or a name.
    async fn node_named(&self, text: &str) -> Result<NodeId, Refusal> {
        let nodes = self.nodes().await?;
        let matching: Vec<_> =
            nodes.iter().filter(|node| node.name == text || node.node.starts_with(text)).collect();
        let [only] = matching.as_slice() else {
            return Err(Refusal::new(
                "node/unknown-node",
                text.chars().take(80).collect::<String>(),
                format!("{} nodes have this name or begin with these digits", matching.len()),
                "see `muster node list`",
            ));
        };
        only.node.parse().map_err(|_| {
            Refusal::new(
                "internal/node-id",
                &only.node,
                "not an id",
                "report this with the coordinator's log",
            )
        })
    }

    /// Makes an invite; its text is shown once and stored hashed.
    pub async fn invite(&self, body: &InviteBody) -> Result<String, Refusal> {
        let class = body.class.as_deref().map(str::parse::<DeviceClass>).transpose().map_err(|error| {
            Refusal::new(
                "node/device-class",
                "",
                error.to_string(),
                "write an architecture such as cpu:x86-64-v3",
            )
        })?;
        if body.uses == 0 || body.valid_seconds == 0 || body.valid_seconds > INVITE_SECONDS_MAX {
            return Err(Refusal::new(
                "node/invite-terms",
                "",
                "an invite has at least one use and lives between a second and 31 days",
                "change --uses or --valid",
            ));
        }
        let mut secret = Zeroizing::new([0u8; 32]);
        let mut id = [0u8; 8];
        getrandom::fill(secret.as_mut()).and_then(|()| getrandom::fill(&mut id)).map_err(|error| {
            Refusal::new("state/randomness", "", error.to_string(), "check the machine's random source")
        })?;
        let token_id = TokenId(id);
        let id = HEXLOWER.encode(&id);
        let expires_unix_ms = crate::clock::wall_unix_ms() + body.valid_seconds * 1000;
        let invite = Invite {
            id: InviteId(id),
            secret_hash: Digest::of(secret.as_ref()),
            expires_unix_ms,
            uses: body.uses,
            class,
        };
        match self.ask(|reply| Request::CreateInvite { invite, reply }).await? {
            Reply::InviteCreated => {}
            other => return Err(unexpected(other)),
        }
        let token = fleet_config::invite::Invite {
            secret: InviteSecret::new(*secret),
            coordinator: self.facts.tls_key,
            expires_unix_ms,
            id: token_id,
            addresses: self.facts.addresses.clone(),
        };
        token.to_text().map(|text| text.to_string())
    }
}
