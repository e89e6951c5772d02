//! One implementation in one worker process: its buffers, its launches, and what is read back.

use super::context::Context;
use super::fault::{Party, cause};
use super::oracle::{Inputs, Outputs, Spots};
use crate::backend::pair::{Company, PairParty, PairRequest, Setting, Side, SideFailure};
use crate::backend::{Artefact, Buffer, BufferUse, Evaluation, Failure, Worker, WorkerOptions};
use fleet_config::domain::{
    Blame, Cause, Facts, MemoryPlace, Milliseconds, Outcome, Picoseconds, Role, Stage, Status,
};
use std::sync::Arc;

/// Poison of outputs on even and odd draws. All ones is NaN or −1; 0x7B… is huge and finite. With one value
/// alone an untouched element can look right.
pub(super) const POISON: [u8; 2] = [0xff, 0x7b];

/// The poison of `draw`.
pub(super) fn poison(draw: usize) -> u8 {
    POISON[draw % POISON.len()]
}

/// What a bench runs and in which stage.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub party: Party,
    pub stage: Stage,
    pub artefact: &'a Artefact,
    pub evaluation: &'a Evaluation,
    pub launch_limit: Milliseconds,
    pub memory: u64,
}

/// A worker with the buffers of one evaluation. Dropping it kills the process.
pub(super) struct Bench<'a> {
    run: Run<'a>,
    inputs: Arc<Inputs>,
    poison: u8,
    worker: Box<dyn Worker>,
}

impl<'a> Bench<'a> {
    /// Starts a worker and gives it fresh buffers, inputs written, everything else poisoned.
    pub(super) fn open(
        context: &Context<'_>,
        run: Run<'a>,
        inputs: Arc<Inputs>,
        poison: u8,
    ) -> Result<Self, Failure> {
        let options = options(context, run)?;
        let worker = context
            .backend
            .open(&context.device.id, run.artefact, &options)
            .map_err(|failure| dress(run, failure))?;
        Self::resume(worker, run, inputs, poison)
    }

    /// The same in a process that has answered before.
    pub(super) fn resume(
        worker: Box<dyn Worker>,
        run: Run<'a>,
        inputs: Arc<Inputs>,
        poison: u8,
    ) -> Result<Self, Failure> {
        let mut bench = Self { run, inputs, poison, worker };
        bench.load().map_err(|failure| dress(run, failure))?;
        Ok(bench)
    }

    /// The same for both sides of a timing, baseline first.
    pub(super) fn open_pair(
        context: &Context<'_>,
        runs: [Run<'a>; 2],
        inputs: &Arc<Inputs>,
        poison: u8,
        setting: Setting,
    ) -> Result<[Self; 2], SideFailure> {
        let [baseline, candidate] = runs;
        let run = |side: Side| match side {
            Side::Baseline => baseline,
            Side::Candidate => candidate,
        };
        let prepare =
            |side: Side| options(context, run(side)).map_err(|failure| SideFailure { side, failure });
        let (left, right) = (prepare(Side::Baseline)?, prepare(Side::Candidate)?);
        let request = PairRequest {
            baseline: PairParty { artefact: baseline.artefact, options: &left },
            candidate: PairParty { artefact: candidate.artefact, options: &right },
            setting,
        };
        let opened = context.backend.open_pair(&context.device.id, &request);
        let [left, right] = opened.map_err(|SideFailure { side, failure }| SideFailure {
            side,
            failure: dress(run(side), failure),
        })?;
        let load = |side: Side, worker: Box<dyn Worker>| {
            let mut bench = Self { run: run(side), inputs: Arc::clone(inputs), poison, worker };
            match bench.load() {
                Ok(()) => Ok(bench),
                Err(failure) => Err(SideFailure { side, failure: dress(run(side), failure) }),
            }
        };
        Ok([load(Side::Baseline, left)?, load(Side::Candidate, right)?])
    }

    /// Whether another party's kernels can reach this one's buffers.
    pub(super) fn company(&self) -> Company {
        self.worker.company()
    }

    /// What belongs beside the times of its worker.
    pub(super) fn facts(&self) -> Facts {
        self.worker.facts()
    }

    /// Fresh buffers for another draw or case in the same process.
    pub(super) fn reload(&mut self, run: Run<'a>, inputs: Arc<Inputs>, poison: u8) -> Result<(), Failure> {
        (self.run, self.inputs, self.poison) = (run, inputs, poison);
        self.load().map_err(|failure| dress(self.run, failure))
    }

    fn load(&mut self) -> Result<(), Failure> {
        self.worker.prepare(self.run.evaluation)?;
        self.write_inputs()?;
        self.restore_writable()
    }

    /// Other inputs in the same buffers, everything else poisoned: what stands before a timed launch.
    pub(super) fn present(&mut self, inputs: &Arc<Inputs>) -> Result<(), Failure> {
        self.inputs = Arc::clone(inputs);
        let written = self.write_inputs().and_then(|()| self.restore_writable());
        written.map_err(|failure| dress(self.run, failure))
    }

    /// What stands before a launch of the other side in the same address space: `inputs`, which the other has too, and
    /// poison where this side has an answer.
    pub(super) fn cover(&mut self, inputs: &Arc<Inputs>) -> Result<(), Failure> {
        if Arc::ptr_eq(&self.inputs, inputs) {
            self.restore_writable().map_err(|failure| dress(self.run, failure))
        } else {
            self.present(inputs)
        }
    }

    /// Trades the buffers of all parameters with the other side, which has the same ones. Nothing in them is of use
    /// afterwards: what stands before a launch is written anew.
    pub(super) fn trade(&mut self, other: &Bench<'_>) -> Result<(), Failure> {
        let theirs = &other.run.evaluation.buffers;
        let is_parameter = |buffer: &Buffer| matches!(buffer.use_, BufferUse::Parameter(_));
        let own = self.run.evaluation.buffers.iter().enumerate();
        let pairs: Vec<(usize, usize)> = own
            .filter(|(_, buffer)| is_parameter(buffer))
            .filter_map(|(index, buffer)| {
                let same = |other: &Buffer| is_parameter(other) && other.name == buffer.name;
                Some((index, theirs.iter().position(same)?))
            })
            .collect();
        self.worker.trade(&pairs).map_err(|failure| dress(self.run, failure))
    }

    fn write_inputs(&mut self) -> Result<(), Failure> {
        for (index, buffer) in self.run.evaluation.buffers.iter().enumerate() {
            if let BufferUse::Parameter(Role::In) = buffer.use_ {
                self.worker.write(index, self.inputs.of(&buffer.name))?;
            }
        }
        Ok(())
    }

    /// Poisons outputs and scratch, and restores what a launch changes in place.
    fn restore_writable(&mut self) -> Result<(), Failure> {
        for (index, buffer) in self.run.evaluation.buffers.iter().enumerate() {
            match buffer.use_ {
                BufferUse::Parameter(Role::In) => {}
                BufferUse::Parameter(Role::Inout) => {
                    self.worker.write(index, self.inputs.of(&buffer.name))?
                }
                BufferUse::Parameter(Role::Out) | BufferUse::Scratch => {
                    self.worker.fill(index, self.poison)?
                }
            }
        }
        Ok(())
    }

    /// One launch by the clock of record.
    pub(super) fn launch(&mut self) -> Result<Picoseconds, Failure> {
        self.worker.launch().map_err(|failure| dress(self.run, failure))
    }

    /// Copies every output out.
    pub(super) fn outputs(&mut self) -> Result<Outputs, Failure> {
        let mut outputs = Outputs::default();
        for (index, buffer) in self.run.evaluation.buffers.iter().enumerate() {
            match buffer.use_ {
                BufferUse::Parameter(Role::In) | BufferUse::Scratch => {}
                BufferUse::Parameter(Role::Out | Role::Inout) => {
                    let bytes = self.worker.read(index).map_err(|failure| dress(self.run, failure))?;
                    outputs.insert(&buffer.name, bytes);
                }
            }
        }
        Ok(outputs)
    }

    /// The elements of the outputs that `spots` names.
    pub(super) fn sample(&mut self, spots: &Spots) -> Result<Outputs, Failure> {
        let mut outputs = Outputs::default();
        for (index, buffer) in self.run.evaluation.buffers.iter().enumerate() {
            let (BufferUse::Parameter(_), Some(elements)) = (buffer.use_, spots.of(&buffer.name)) else {
                continue;
            };
            let width = buffer.element.bytes().unwrap_or(1);
            let bytes =
                self.worker.sample(index, elements, width).map_err(|failure| dress(self.run, failure))?;
            outputs.insert(&buffer.name, bytes);
        }
        Ok(outputs)
    }

    /// What must hold after any launch: fences whole, inputs as they were written.
    pub(super) fn check_contract(&mut self) -> Result<(), Failure> {
        self.worker.check_fences().map_err(|failure| dress(self.run, failure))?;
        for (index, buffer) in self.run.evaluation.buffers.iter().enumerate() {
            if buffer.use_ != BufferUse::Parameter(Role::In) {
                continue;
            }
            let now = self.worker.read(index).map_err(|failure| dress(self.run, failure))?;
            let written = self.inputs.of(&buffer.name);
            if now != written {
                let width = buffer.element.bytes().unwrap_or(1);
                return Err(self.changed_input(&buffer.name, width, written, &now));
            }
        }
        Ok(())
    }

    fn changed_input(&self, name: &str, width: u64, written: &[u8], now: &[u8]) -> Failure {
        let same = written.iter().zip(now).take_while(|(old, new)| old == new).count();
        let element = same as u64 / width;
        let message = format!("the input `{name}` was modified: first at element {element} (byte {same})");
        let memory = MemoryPlace {
            buffer: name.to_owned(),
            offset: i64::try_from(element * width).unwrap_or(i64::MAX),
            size: written.len() as u64,
            place: None,
        };
        let cause = Cause { memory: Some(memory), ..cause("contract/input-modified", message) };
        let hint = "inputs are read only; work on a scratch buffer";
        let outcome =
            Outcome::failed(Status::ContractViolation, self.run.stage, self.run.party.blame(), cause, hint);
        dress(self.run, Failure::new(outcome))
    }

    /// What the party has printed in this process.
    pub(super) fn printed(&mut self) -> Vec<u8> {
        self.worker.printed()
    }

    /// Lets the worker wait for another question, where its kind is kept; else ends it.
    pub(super) fn leave(self, context: &Context<'_>) {
        context.residents.put(&self.run, self.worker, context.clock.now());
    }

    /// Ends the worker's process; only after this are its outputs compared.
    pub(super) fn finish(self) {
        self.worker.finish();
    }
}

fn options(context: &Context<'_>, run: Run<'_>) -> Result<WorkerOptions, Failure> {
    Ok(WorkerOptions {
        folder: context.subfolder(&format!("run-{}", run.party.name()), run.stage)?,
        confinement: context.node.confinement,
        launch_limit: run.launch_limit,
        memory: run.memory,
        interrupt: context.interrupt.clone(),
    })
}

/// Says in which stage and case it happened and whose fault it is, which the worker cannot know.
fn dress(run: Run<'_>, mut failure: Failure) -> Failure {
    let outcome = failure.outcome.as_mut();
    outcome.stage = run.stage;
    if let Some(cause) = outcome.cause.as_mut() {
        cause.case.get_or_insert_with(|| run.evaluation.case.clone());
    }
    if outcome.blame == Blame::Nobody {
        outcome.blame = run.party.blame();
    }
    run.party.charge(failure)
}
