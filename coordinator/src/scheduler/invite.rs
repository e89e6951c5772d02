//! Invites: who may join. A use is bound to the first key that took it, so that the same node may retry.

use super::Scheduler;
use super::effect::{Effect, Effects, Reply};
use super::fact::{Fact, Invite, InviteId};
use super::input::RequestId;
use super::limits::{INVITE_ID_MAX, INVITES_MAX};
use fleet_config::domain::Digest;
use fleet_config::refusal::Refusal;
use std::collections::BTreeSet;

/// An invite with the keys that used it.
#[derive(Debug, Clone)]
pub(super) struct InviteState {
    pub(super) invite: Invite,
    pub(super) keys: BTreeSet<Digest>,
}

impl Scheduler {
    pub(super) fn on_create_invite(&mut self, request: RequestId, invite: Invite, out: &mut Effects) {
        let reply = match self.check_invite(&invite) {
            Ok(()) => {
                self.persist(Fact::InviteCreated(invite), out);
                Reply::InviteCreated
            }
            Err(refusal) => Reply::Refused(refusal),
        };
        out.push(Effect::Reply { request, reply });
    }

    fn check_invite(&self, invite: &Invite) -> Result<(), Refusal> {
        let name = &invite.id.0;
        if name.is_empty() || name.len() > INVITE_ID_MAX || self.invites.contains_key(&invite.id) {
            let cause = format!("an invite needs a new name of 1 to {INVITE_ID_MAX} bytes");
            return Err(Refusal::new("invite/name", "invite.id", cause, "Choose another name."));
        }
        if invite.uses == 0 {
            let cause = "an invite without a use lets nobody in";
            return Err(Refusal::new("invite/uses", "invite.uses", cause, "Allow at least one use."));
        }
        let unused = self.invites.values().filter(|state| state.keys.len() < state.invite.uses as usize);
        if unused.count() >= INVITES_MAX {
            let cause = format!("{INVITES_MAX} invites are open");
            return Err(Refusal::new("invite/too-many", "invite", cause, "Use those first."));
        }
        Ok(())
    }

    pub(super) fn on_consume_invite(
        &mut self,
        id: &InviteId,
        secret_hash: Digest,
        key: Digest,
        now_unix_ms: u64,
        out: &mut Effects,
    ) -> Reply {
        let refuse = |code, cause: &str| {
            Reply::Refused(Refusal::new(code, "invite", cause, "Ask for a new one: `muster node invite`."))
        };
        // An unknown name and a wrong secret get one answer, so that names cannot be probed.
        let state = self.invites.get(id).filter(|state| state.invite.secret_hash == secret_hash);
        let Some(state) = state else { return refuse("invite/unknown", "no such invite") };
        let class = state.invite.class.clone();
        if state.keys.contains(&key) {
            return Reply::InviteConsumed { class };
        }
        if now_unix_ms >= state.invite.expires_unix_ms {
            return refuse("invite/expired", "the invite has expired");
        }
        if state.keys.len() >= state.invite.uses as usize {
            return refuse("invite/used", "the invite was used by another key");
        }
        self.persist(Fact::InviteConsumed { invite: id.clone(), key }, out);
        Reply::InviteConsumed { class }
    }
}
