//! Baseline and candidate side by side: one launch of each at a time, and what a failure in between means.
//!
//! On a GPU both share one context, since a change of context between two launches costs more than a short kernel takes.
//! The candidate's kernels can then reach the baseline's buffers. Therefore, before every launch of the candidate the
//! baseline's outputs and scratch are poisoned and its inputs are the candidate's own: no right answer lies in memory
//! while the candidate runs. And what goes wrong on the baseline's side is put to the proof (`blame.rs`) before anybody is
//! charged with it.

use super::bench::{Bench, poison};
use super::blame::{Incident, Ruling, against_candidate, rule, tries_alone};
use super::context::elapsed;
use super::fault::{Party, Stop, infrastructure};
use super::oracle::Inputs;
use super::validate::{Step, Work, evaluate};
use crate::backend::Failure;
use crate::backend::pair::{Cache, Company, Setting, SideFailure};
use crate::measure::plan::{Order, Seats, Side};
use fleet_config::domain::{ClockOfRecord, Facts, Picoseconds};
use std::sync::Arc;

/// Why a pair did not go on.
pub(super) enum Halt {
    Stopped(Stop),
    /// A failure that was seen on this side.
    Failed(SideFailure),
}

impl From<Stop> for Halt {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

impl From<SideFailure> for Halt {
    fn from(failure: SideFailure) -> Self {
        Self::Failed(failure)
    }
}

/// Where the policy wants the sides to live.
pub(super) fn setting(clock: ClockOfRecord) -> Setting {
    match clock {
        ClockOfRecord::SupervisorMonotonic | ClockOfRecord::DeviceEvents => Setting::Apart,
        ClockOfRecord::DeviceEventsCold => Setting::Together(Cache::Flushed),
        ClockOfRecord::DeviceEventsHot => Setting::Together(Cache::AsLeft),
    }
}

/// The two workers of a case.
pub(super) struct Benches<'a> {
    step: Step<'a>,
    place: usize,
    baseline: Bench<'a>,
    candidate: Bench<'a>,
    company: Company,
    seats: Seats,
    baseline_launches: u64,
    candidate_launches: u64,
}

impl<'a> Benches<'a> {
    /// Opens both sides. `as_candidate` is the candidate, or the baseline once more: then both sides are the task's.
    pub(super) fn open(
        step: Step<'a>,
        place: usize,
        as_candidate: Party,
        inputs: &Arc<Inputs>,
    ) -> Result<Self, Stop> {
        let runs = [step.run(Party::Baseline, place), step.run(as_candidate, place)];
        let setting = setting(step.prepared.policy.clock);
        // Nothing of the candidate has run: a failure is of the side that it was seen on.
        let [baseline, candidate] = Bench::open_pair(step.context, runs, inputs, poison(0), setting)
            .map_err(|SideFailure { side: _, failure }| failure)?;
        let company = baseline.company();
        let seats = Seats::Own;
        Ok(Self {
            step,
            place,
            baseline,
            candidate,
            company,
            seats,
            baseline_launches: 0,
            candidate_launches: 0,
        })
    }

    /// Whether the sides can reach each other.
    pub(super) fn company(&self) -> Company {
        self.company
    }

    /// What belongs beside the times.
    pub(super) fn facts(&self) -> Facts {
        let mut facts = self.candidate.facts();
        facts.extend(self.baseline.facts());
        facts
    }

    /// Times of `count` launches of the baseline, before the candidate's first.
    pub(super) fn baseline_alone(
        &mut self,
        inputs: &Arc<Inputs>,
        count: u32,
    ) -> Result<Vec<Picoseconds>, Halt> {
        (0..count).map(|_| self.one(Side::Baseline, inputs, |_| Ok(())).map(|(time, ())| time)).collect()
    }

    /// Lets the sides use their own buffers or each other's. Between pairs only: the next one has inputs of its own, so
    /// that either side writes all that it reads before it is launched.
    pub(super) fn sit(&mut self, seats: Seats) -> Result<(), Halt> {
        if self.seats != seats {
            let on = |failure: Failure| SideFailure { side: Side::Baseline, failure };
            self.baseline.trade(&self.candidate).map_err(on)?;
            self.seats = seats;
        }
        Ok(())
    }

    /// Launches each side once in `order` and looks at it: time and sight of the baseline, then of the candidate.
    pub(super) fn launch<T>(
        &mut self,
        order: Order,
        inputs: &Arc<Inputs>,
        mut look: impl FnMut(&mut Bench<'a>) -> Result<T, Failure>,
    ) -> Result<[(Picoseconds, T); 2], Halt> {
        let (mut baseline, mut candidate) = (None, None);
        for side in order {
            let seen = Some(self.one(side, inputs, &mut look)?);
            match side {
                Side::Baseline => baseline = seen,
                Side::Candidate => candidate = seen,
            }
        }
        let missing =
            || Stop::from(infrastructure(self.step.stage, "time/order", "a pair has one side twice"));
        Ok([baseline.ok_or_else(missing)?, candidate.ok_or_else(missing)?])
    }

    fn one<T>(
        &mut self,
        side: Side,
        inputs: &Arc<Inputs>,
        look: impl FnOnce(&mut Bench<'a>) -> Result<T, Failure>,
    ) -> Result<(Picoseconds, T), Halt> {
        let party = match side {
            Side::Baseline => Party::Baseline,
            Side::Candidate => Party::Candidate,
        };
        self.step.check(party, self.place)?;
        let on = |side: Side| move |failure: Failure| SideFailure { side, failure };
        if let (Side::Candidate, Company::Shared) = (side, self.company) {
            self.baseline.cover(inputs).map_err(on(Side::Baseline))?;
        }
        let bench = match side {
            Side::Baseline => {
                self.baseline_launches += 1;
                &mut self.baseline
            }
            Side::Candidate => {
                self.candidate_launches += 1;
                &mut self.candidate
            }
        };
        let from = self.step.context.clock.now();
        bench.present(inputs).map_err(on(side))?;
        let time = bench.launch().map_err(on(side))?;
        let seen = look(bench).map_err(on(side))?;
        self.step.budget.spend(party, elapsed(from, self.step.context.clock.now()));
        Ok((time, seen))
    }

    /// What must hold after the last launch. The candidate first: what it did to itself says more than what it did to the
    /// other.
    pub(super) fn check_contract(&mut self) -> Result<(), Halt> {
        let on = |side: Side| move |failure: Failure| SideFailure { side, failure };
        self.candidate.check_contract().map_err(on(Side::Candidate))?;
        Ok(self.baseline.check_contract().map_err(on(Side::Baseline))?)
    }

    /// Ends the workers; only after this are outputs compared.
    pub(super) fn finish(self) {
        self.baseline.finish();
        self.candidate.finish();
    }

    /// What `halt` means for the attempt. The workers are dead before the baseline is tried alone.
    pub(super) fn judged(self, halt: Halt, inputs: &Arc<Inputs>) -> Stop {
        let SideFailure { side, failure } = match halt {
            Halt::Stopped(stop) => return stop,
            Halt::Failed(failed) => failed,
        };
        let Self {
            step,
            place,
            baseline,
            candidate,
            company,
            seats: _,
            baseline_launches,
            candidate_launches,
        } = self;
        drop((baseline, candidate));
        let incident = Incident { side, status: failure.outcome.status, company, candidate_launches };
        match rule(incident) {
            Ruling::AsSaid => failure.into(),
            Ruling::TryAlone => {
                let work = alone(step, place, inputs, baseline_launches);
                match evaluate(step, Party::Baseline, &work) {
                    Ok(_) => against_candidate(failure, step.stage).into(),
                    Err(stop) => stop,
                }
            }
        }
    }
}

/// Work for the baseline alone, after `launches` in company: the same inputs again and again.
pub(super) fn alone(step: Step<'_>, place: usize, inputs: &Arc<Inputs>, launches: u64) -> [Work; 1] {
    let buffers = &step.run(Party::Baseline, place).evaluation.buffers;
    let bytes = buffers.iter().fold(0u64, |sum, buffer| sum.saturating_add(buffer.bytes));
    [(place, vec![Arc::clone(inputs); tries_alone(launches, bytes)])]
}
