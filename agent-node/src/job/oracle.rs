//! What is right: inputs drawn, outputs compared. All of it in this process, which no candidate can reach.

use super::fault::{Party, cause, infrastructure};
use super::prepare::Prepared;
use crate::backend::Failure;
use fleet_config::compare::{Output, compare, max_errors};
use fleet_config::domain::{
    Blame, Case, CaseKind, Cause, Decimal, Digest, Input, Mismatch, Outcome, Param, ParamKind, Role, Seed,
    Stage, Status, Task,
};
use fleet_config::generator;
use std::collections::BTreeMap;

/// Bytes of what a launch reads, by parameter: `in` and `inout`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inputs(BTreeMap<String, Vec<u8>>);

impl Inputs {
    /// The bytes of the parameter `name`; empty for a name that is no input.
    pub(super) fn of(&self, name: &str) -> &[u8] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
    /// blake3 of each.
    pub(super) fn digests(&self) -> BTreeMap<String, Digest> {
        digests(&self.0)
    }
}

/// Bytes of what a launch wrote, by parameter: `out` and `inout`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outputs(BTreeMap<String, Vec<u8>>);

impl Outputs {
    /// Adds one output.
    pub(super) fn insert(&mut self, name: &str, bytes: Vec<u8>) {
        self.0.insert(name.to_owned(), bytes);
    }
    /// blake3 of each.
    pub(super) fn digests(&self) -> BTreeMap<String, Digest> {
        digests(&self.0)
    }
}

fn digests(buffers: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Digest> {
    buffers.iter().map(|(name, bytes)| (name.clone(), Digest::of(bytes))).collect()
}

/// One draw of the inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Draw {
    pub seed: Seed,
    /// Counts redraws of one seed, where the policy asks for more draws than there are seeds.
    pub redraw: u32,
}

/// The draws that `count` asks for: every seed once, then every seed again with the next redraw.
pub(super) fn draws(seeds: &[Seed], count: u32) -> Vec<Draw> {
    let rounds = (0_u32..).flat_map(|redraw| seeds.iter().map(move |seed| Draw { seed: *seed, redraw }));
    let wanted = usize::try_from(count.max(1)).unwrap_or(usize::MAX);
    if seeds.is_empty() { Vec::new() } else { rounds.take(wanted).collect() }
}

/// A case with the shape of each of its buffers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub prepared: &'a Prepared,
    pub case: &'a Case,
    pub shapes: &'a BTreeMap<String, Vec<u64>>,
    pub stage: Stage,
}

impl Question<'_> {
    /// Draws every input of the case.
    pub(super) fn inputs(&self, draw: Draw) -> Result<Inputs, Failure> {
        let mut inputs = Inputs::default();
        for (param, role) in buffers(&self.prepared.task) {
            match role {
                Role::Out => {}
                Role::In | Role::Inout => {
                    inputs.0.insert(param.name.clone(), self.input(param, draw)?);
                }
            }
        }
        Ok(inputs)
    }

    fn input(&self, param: &Param, draw: Draw) -> Result<Vec<u8>, Failure> {
        let fault =
            |message: String| self.task_fault("prepare/input", format!("input `{}`: {message}", param.name));
        let input = self.case.inputs.get(&param.name).or_else(|| self.prepared.task.inputs.get(&param.name));
        let input = input.ok_or_else(|| fault("the task does not say how it is drawn".to_owned()))?;
        let count = self.count(&param.name);
        if let Input::File { blob } = input {
            let bytes = self.prepared.files.get(&blob.blake3).cloned().unwrap_or_default();
            let wanted = param.element.bytes().and_then(|width| count.checked_mul(width));
            return if wanted == Some(bytes.len() as u64) {
                Ok(bytes)
            } else {
                Err(fault(format!("its file has {} bytes where its shape needs another size", bytes.len())))
            };
        }
        let Draw { seed, redraw } = draw;
        generator::draw(input, param.element, count, seed, &self.case.name, &param.name, redraw).map_err(
            |error| match error {
                generator::GeneratorError::Memory(_) => {
                    infrastructure(self.stage, "prepare/memory", error.to_string())
                }
                generator::GeneratorError::Reserved(_)
                | generator::GeneratorError::Size(_)
                | generator::GeneratorError::Range(_, _)
                | generator::GeneratorError::Deviation(_)
                | generator::GeneratorError::NotExact(_, _)
                | generator::GeneratorError::NoSpecials(_)
                | generator::GeneratorError::SpecialIndex { .. }
                | generator::GeneratorError::File => fault(error.to_string()),
            },
        )
    }

    fn count(&self, name: &str) -> u64 {
        self.shapes
            .get(name)
            .map_or(0, |shape| shape.iter().fold(1, |count: u64, side| count.saturating_mul(*side)))
    }

    /// The first output of `got` that is not what was expected.
    pub(super) fn mismatch(&self, expected: &Outputs, got: &Outputs) -> Result<Option<Mismatch>, Failure> {
        for (param, output) in self.outputs() {
            let (left, right) = (side(expected, param), side(got, param));
            let found = compare(&output, left, right).map_err(|error| {
                infrastructure(self.stage, "validate/compare", format!("output `{}`: {error}", param.name))
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The largest absolute error over all outputs, as evidence.
    pub(super) fn largest_error(&self, expected: &Outputs, got: &Outputs) -> Result<String, Failure> {
        let mut largest: Option<Decimal> = None;
        for (param, output) in self.outputs() {
            let errors = max_errors(&output, side(expected, param), side(got, param)).map_err(|error| {
                infrastructure(self.stage, "validate/compare", format!("output `{}`: {error}", param.name))
            })?;
            if largest.as_ref().is_none_or(|largest| errors.absolute.value() > largest.value()) {
                largest = Some(errors.absolute);
            }
        }
        Ok(largest.map_or_else(|| "0".to_owned(), |largest| largest.to_string()))
    }

    /// Whether an implementation that writes nothing, or zeros, would pass: then the task says nothing about
    /// candidates. Asked of every case that is timed: a candidate could do the work of the others and fake this one.
    pub(super) fn check_strength(
        &self,
        inputs: &Inputs,
        expected: &Outputs,
        poison: u8,
    ) -> Result<(), Failure> {
        match self.case.kind {
            CaseKind::Correctness => return Ok(()),
            CaseKind::Performance => {}
        }
        let tolerance = &self.prepared.task.tolerance;
        let bounds = format!("absolute {}, relative {}", tolerance.absolute, tolerance.relative);
        for (what, fakes) in
            [("zero", self.fake(expected, |_, _| 0)), ("untouched", self.untouched(inputs, expected, poison))]
        {
            if self.mismatch(expected, &fakes)?.is_none() {
                let message = format!(
                    "case `{}`: an output that is {what} everywhere passes under the tolerance ({bounds}): the task is too weak to tell right from wrong",
                    self.case.name
                );
                let cause =
                    Cause { case: Some(self.case.name.clone()), ..cause("validate/task-weak", message) };
                let hint = "tighten the tolerance or choose inputs that give larger outputs";
                let outcome = Outcome::failed(Status::TaskWeak, self.stage, Blame::Task, cause, hint);
                return Err(Failure::new(outcome));
            }
        }
        Ok(())
    }

    fn fake(&self, expected: &Outputs, byte: impl Fn(&str, usize) -> u8) -> Outputs {
        let fill = |(name, bytes): (&String, &Vec<u8>)| {
            (name.clone(), (0..bytes.len()).map(|index| byte(name, index)).collect())
        };
        Outputs(expected.0.iter().map(fill).collect())
    }

    /// What the buffers hold when nothing is written: poison, or for `inout` what it held before.
    fn untouched(&self, inputs: &Inputs, expected: &Outputs, poison: u8) -> Outputs {
        self.fake(expected, |name, index| {
            inputs.0.get(name).and_then(|bytes| bytes.get(index)).copied().unwrap_or(poison)
        })
    }

    /// `mismatch` as the outcome of `party`.
    pub(super) fn wrong_result(&self, party: Party, mismatch: Mismatch) -> Failure {
        let pattern =
            if mismatch.pattern.is_empty() { String::new() } else { format!(" ({})", mismatch.pattern) };
        let message = format!(
            "case `{}`: output `{}` differs in {} of {} elements{pattern}; first at index {} {:?}: expected {}, got {}",
            self.case.name,
            mismatch.output,
            mismatch.count,
            mismatch.total,
            mismatch.index,
            mismatch.coordinates,
            mismatch.expected,
            mismatch.got
        );
        let code = match self.stage {
            Stage::Time => "time/mismatch",
            Stage::Submit
            | Stage::Queue
            | Stage::Prepare
            | Stage::Compile
            | Stage::Validate
            | Stage::Sign
            | Stage::Record => "validate/mismatch",
        };
        let cause =
            Cause { case: Some(self.case.name.clone()), mismatch: Some(mismatch), ..cause(code, message) };
        let hint = match self.stage {
            Stage::Time => {
                "a timed launch gave another result than validation: look for races and kept state"
            }
            Stage::Submit
            | Stage::Queue
            | Stage::Prepare
            | Stage::Compile
            | Stage::Validate
            | Stage::Sign
            | Stage::Record => "compare with the reference on this case; look at edges and rounding",
        };
        let outcome = Outcome::failed(Status::WrongResult, self.stage, party.blame(), cause, hint);
        party.charge(Failure::new(outcome))
    }

    fn outputs(&self) -> impl Iterator<Item = (&Param, Output<'_>)> {
        buffers(&self.prepared.task).filter_map(|(param, role)| match role {
            Role::In => None,
            Role::Out | Role::Inout => {
                let shape = self.shapes.get(&param.name).map_or(&[][..], Vec::as_slice);
                let tolerance = &self.prepared.task.tolerance;
                Some((param, Output { name: &param.name, element: param.element, shape, tolerance }))
            }
        })
    }

    fn task_fault(&self, code: &str, message: String) -> Failure {
        let cause = Cause { case: Some(self.case.name.clone()), ..cause(code, message) };
        let hint = "mend the task; `muster task lint` finds this";
        Failure::new(Outcome::failed(Status::Rejected, self.stage, Blame::Task, cause, hint))
    }
}

fn side<'a>(outputs: &'a Outputs, param: &Param) -> &'a [u8] {
    outputs.0.get(&param.name).map_or(&[], Vec::as_slice)
}

fn buffers(task: &Task) -> impl Iterator<Item = (&Param, Role)> {
    task.params.iter().filter_map(|param| match &param.kind {
        ParamKind::Buffer { role, shape: _ } => Some((param, *role)),
        ParamKind::Integer { value: _ } | ParamKind::Float { value: _ } => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_use_every_seed_before_any_is_drawn_again() {
        let seeds = [Seed(5), Seed(6)];
        let pairs: Vec<(u64, u32)> = draws(&seeds, 3).iter().map(|draw| (draw.seed.0, draw.redraw)).collect();
        assert_eq!(pairs, [(5, 0), (6, 0), (5, 1)]);
        assert_eq!(draws(&seeds, 0).len(), 1);
        assert!(draws(&[], 2).is_empty());
    }
}
