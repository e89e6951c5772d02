//! What happens to attempts: assigned, cancelled, finished, reported, acknowledged.

use super::{
    Attempt, AttemptKey, AttemptState, EARLY_CANCELS_MAX, Effect, HELD_MAX, Intake, Link, Machine, Moment,
    REPORTS_IN_FLIGHT, ReportState, StreamKey, backoff,
};
use fleet_config::wire::v1::{RecordVerdict, Recorded};
use fleet_config::wire::v2::Assign;

impl Machine {
    pub(super) fn on_assigned(&mut self, stream: StreamKey, assign: Box<Assign>, effects: &mut Vec<Effect>) {
        let attempt = AttemptKey::of(&assign);
        match self.place(attempt, &assign) {
            Ok(Placed::Now) => {
                let state = AttemptState::Running;
                self.attempts.insert(attempt, Attempt { device: assign.device.clone(), state });
                effects.push(Effect::Take { stream, attempt });
                effects.push(Effect::StartJob { assign });
            }
            Ok(Placed::Later) => {
                let device = assign.device.clone();
                self.attempts.insert(attempt, Attempt { device, state: AttemptState::Waiting(assign) });
                effects.push(Effect::Take { stream, attempt });
            }
            Ok(Placed::Already) => effects.push(Effect::Take { stream, attempt }),
            Err((code, cause)) => {
                effects.push(Effect::Decline { stream, code, cause: cause.to_owned() });
            }
        }
    }

    fn place(
        &mut self,
        attempt: AttemptKey,
        assign: &Assign,
    ) -> Result<Placed, (&'static str, &'static str)> {
        let Link::Ready { .. } = self.link else {
            return Err(("node/not-welcomed", "this node has not been welcomed on this connection"));
        };
        if self.early_cancels.remove(&attempt) {
            return Err(("node/cancelled", "it was cancelled before it came"));
        }
        match self.state(attempt) {
            Some(AttemptState::Waiting(_) | AttemptState::Running | AttemptState::Signed { .. }) => {
                return Ok(Placed::Already);
            }
            Some(AttemptState::Cancelling) => {
                return Err(("node/cancelled", "this attempt was cancelled and is ending"));
            }
            None => {}
        }
        if self.intake == Intake::Draining {
            return Err(("node/draining", "this node finishes what runs and takes no more"));
        }
        if !self.devices.iter().any(|device| device.id == assign.device) {
            return Err(("node/unknown-device", "this node offers no such device"));
        }
        if self.attempts.len() >= HELD_MAX {
            return Err(("node/outbox-full", "too many results wait to be acknowledged"));
        }
        let mut placed = Placed::Now;
        for other in self.attempts.values().filter(|other| other.device == assign.device) {
            match other.state {
                AttemptState::Waiting(_) | AttemptState::Running => {
                    return Err(("node/device-busy", "another attempt holds this device"));
                }
                AttemptState::Cancelling => placed = Placed::Later,
                AttemptState::Signed { .. } => {}
            }
        }
        Ok(placed)
    }

    pub(super) fn on_cancelled(&mut self, attempt: AttemptKey, effects: &mut Vec<Effect>) {
        match self.state(attempt) {
            Some(AttemptState::Waiting(_)) => {
                self.attempts.remove(&attempt);
                effects.push(cancelled(attempt));
            }
            Some(AttemptState::Running) => {
                self.set(attempt, AttemptState::Cancelling);
                effects.push(Effect::CancelJob { attempt });
            }
            // A signed result is reported all the same: the ledger says what becomes of it.
            Some(AttemptState::Cancelling | AttemptState::Signed { .. }) => {}
            None => {
                // The control stream overtook the assignment stream.
                if self.early_cancels.len() < EARLY_CANCELS_MAX {
                    self.early_cancels.insert(attempt);
                }
            }
        }
    }

    pub(super) fn on_finished(&mut self, now: Moment, attempt: AttemptKey, effects: &mut Vec<Effect>) {
        match self.state(attempt) {
            Some(AttemptState::Running | AttemptState::Cancelling) => {}
            Some(AttemptState::Waiting(_) | AttemptState::Signed { .. }) | None => return,
        }
        self.set(attempt, AttemptState::Signed { report: ReportState::Unsent, tries: 0 });
        effects.push(Effect::CloseAnswers { attempt });
        self.start_waiting(attempt, effects);
        self.send_reports(now, effects);
    }

    pub(super) fn on_abandoned(
        &mut self,
        attempt: AttemptKey,
        code: String,
        cause: String,
        effects: &mut Vec<Effect>,
    ) {
        match self.state(attempt) {
            Some(AttemptState::Running) => effects.push(Effect::GiveUp { attempt, code, cause }),
            Some(AttemptState::Cancelling) => effects.push(cancelled(attempt)),
            Some(AttemptState::Waiting(_) | AttemptState::Signed { .. }) | None => return,
        }
        self.start_waiting(attempt, effects);
        self.attempts.remove(&attempt);
    }

    /// Starts what waited for the device that `ended` held.
    fn start_waiting(&mut self, ended: AttemptKey, effects: &mut Vec<Effect>) {
        let Some(device) = self.attempts.get(&ended).map(|attempt| attempt.device.clone()) else { return };
        let held = |attempt: &Attempt| match attempt.state {
            AttemptState::Running | AttemptState::Cancelling => true,
            AttemptState::Waiting(_) | AttemptState::Signed { .. } => false,
        };
        let others = self.attempts.iter().filter(|(key, attempt)| **key != ended && attempt.device == device);
        if others.clone().any(|(_, attempt)| held(attempt)) {
            return;
        }
        let next = others.into_iter().find_map(|(key, attempt)| match &attempt.state {
            AttemptState::Waiting(assign) => Some((*key, assign.clone())),
            AttemptState::Running | AttemptState::Cancelling | AttemptState::Signed { .. } => None,
        });
        if let Some((key, assign)) = next {
            self.set(key, AttemptState::Running);
            effects.push(Effect::StartJob { assign });
        }
    }

    pub(super) fn on_acknowledged(
        &mut self,
        now: Moment,
        attempt: AttemptKey,
        recorded: Recorded,
        entropy: u64,
        effects: &mut Vec<Effect>,
    ) {
        if !matches!(self.state(attempt), Some(AttemptState::Signed { .. })) {
            return;
        }
        match recorded.verdict {
            RecordVerdict::Later { .. } => self.retry_report(now, attempt, entropy),
            RecordVerdict::Accepted { .. }
            | RecordVerdict::Refused { .. }
            | RecordVerdict::Invalid { .. } => {
                self.attempts.remove(&attempt);
                effects.push(Effect::Settle { attempt, recorded });
            }
        }
        self.send_reports(now, effects);
    }

    pub(super) fn retry_report(&mut self, now: Moment, attempt: AttemptKey, entropy: u64) {
        if let Some(Attempt { state: AttemptState::Signed { report, tries }, .. }) =
            self.attempts.get_mut(&attempt)
        {
            *report = ReportState::At(now.after(backoff(*tries, entropy)));
            *tries = tries.saturating_add(1);
        }
    }

    /// Sends what is due, oldest fence of the lowest cell first, within the window.
    pub(super) fn send_reports(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let Link::Ready { .. } = self.link else { return };
        let mut room = self.room();
        for (key, attempt) in &mut self.attempts {
            if room == 0 {
                return;
            }
            let AttemptState::Signed { report, .. } = &mut attempt.state else { continue };
            let due = match *report {
                ReportState::Unsent => true,
                ReportState::InFlight => false,
                ReportState::At(at) => now >= at,
            };
            if due {
                *report = ReportState::InFlight;
                room -= 1;
                effects.push(Effect::SendReport { attempt: *key });
            }
        }
    }

    /// How many more reports may be on their way.
    pub(super) fn room(&self) -> usize {
        let in_flight = |attempt: &&Attempt| {
            matches!(attempt.state, AttemptState::Signed { report: ReportState::InFlight, .. })
        };
        REPORTS_IN_FLIGHT.saturating_sub(self.attempts.values().filter(in_flight).count())
    }

    fn set(&mut self, attempt: AttemptKey, state: AttemptState) {
        if let Some(entry) = self.attempts.get_mut(&attempt) {
            entry.state = state;
        }
    }
}

/// Where a new assignment goes.
enum Placed {
    Now,
    /// Once the cancelled job before it has ended.
    Later,
    /// It is here already; the coordinator said it again.
    Already,
}

fn cancelled(attempt: AttemptKey) -> Effect {
    Effect::GiveUp { attempt, code: "node/cancelled".to_owned(), cause: "it was cancelled".to_owned() }
}
