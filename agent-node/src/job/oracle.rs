//! What is right: inputs drawn, outputs compared. All of it in this process, which no candidate can reach.

use super::fault::{Party, cause, infrastructure};
use super::prepare::Prepared;
use crate::backend::Failure;
use fleet_config::compare::{Output, compare, max_errors};
use fleet_config::domain::encoding::{Number, read};
use fleet_config::domain::{
    Blame, Case, Cause, Decimal, Digest, Fit, Input, Mismatch, NanRule, Nonce, Outcome, Param, ParamKind,
    Role, Seed, Stage, Status, Task, Tolerance, Worst,
};
use fleet_config::generator;
use std::collections::BTreeMap;

/// Bytes of what a launch reads, by parameter: `in` and `inout`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inputs(pub(super) BTreeMap<String, Vec<u8>>);

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
pub(super) struct Outputs(pub(super) BTreeMap<String, Vec<u8>>);

impl Inputs {
    /// Bytes of all buffers.
    pub(super) fn bytes(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

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

/// Redraws from here on belong to timed launches; those of validation count from zero.
const TIMED_REDRAWS: u32 = 1 << 30;
/// Elements drawn afresh for a timed pair in each buffer, at about 20 ns each.
const FRESH_MAX: u64 = 1 << 17;
/// Elements of each output that are looked at after every timed launch.
const SPOTS: u32 = 64;
/// Two values within a tolerance of a third are at most twice that apart, and a little more where the tolerance is
/// relative to the third.
const APART: f64 = 2.5;

/// Elements of each output, by parameter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Spots(BTreeMap<String, Vec<u64>>);

impl Spots {
    /// Those of the output `name`; `None` for what is no output.
    pub(super) fn of(&self, name: &str) -> Option<&[u64]> {
        self.0.get(name).map(Vec::as_slice)
    }
}

/// A number from 0 to `last` that no candidate can know.
fn drawn(nonce: Nonce, words: &[&str], number: u32, last: u64) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"muster.timed/1\0").update(nonce.as_bytes());
    for word in words {
        hasher.update(word.as_bytes()).update(&[0]);
    }
    hasher.update(&number.to_le_bytes());
    let mut word = [0_u8; 8];
    hasher.finalize_xof().fill(&mut word);
    let scaled = (u128::from(u64::from_le_bytes(word)) * (u128::from(last) + 1)) >> 64;
    u64::try_from(scaled).unwrap_or(last)
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
                | generator::GeneratorError::Adapted
                | generator::GeneratorError::File => fault(error.to_string()),
            },
        )
    }

    /// The inputs of timed pair `number`: like those of `base`, and never seen before, so that no candidate can answer
    /// with what an earlier launch had computed. In a large buffer a window of fresh elements at a drawn place stands
    /// for a fresh buffer, since drawing must not eat the time of measuring.
    pub(super) fn fresh(
        &self,
        base: &Inputs,
        nonce: Nonce,
        number: u32,
        seed: Seed,
    ) -> Result<Inputs, Failure> {
        let mut fresh = base.clone();
        let draw = Draw { seed, redraw: TIMED_REDRAWS.saturating_add(number) };
        for (param, role) in buffers(&self.prepared.task) {
            let input =
                self.case.inputs.get(&param.name).or_else(|| self.prepared.task.inputs.get(&param.name));
            let Some(input) = input.filter(|input| role != Role::Out && input.is_random()) else { continue };
            let count = self.count(&param.name);
            if count <= FRESH_MAX {
                fresh.0.insert(param.name.clone(), self.input(param, draw)?);
                continue;
            }
            let width = param.element.bytes().unwrap_or(1);
            let at = drawn(nonce, &["window", &self.case.name, &param.name], number, count - FRESH_MAX);
            let window = self.window(param, input, draw)?;
            let start = usize::try_from(at.saturating_mul(width)).unwrap_or(usize::MAX);
            if let Some(bytes) = fresh.0.get_mut(&param.name)
                && let Some(place) = bytes.get_mut(start..start.saturating_add(window.len()))
            {
                place.copy_from_slice(&window);
            }
        }
        Ok(fresh)
    }

    /// As many elements as are drawn afresh at once, without special ones, which have places of their own.
    fn window(&self, param: &Param, input: &Input, draw: Draw) -> Result<Vec<u8>, Failure> {
        let plain = match input.clone() {
            Input::Normal { mean, std, specials: _ } => Input::Normal { mean, std, specials: Vec::new() },
            Input::Uniform { low, high, specials: _ } => Input::Uniform { low, high, specials: Vec::new() },
            other @ (Input::Integers { .. }
            | Input::Arange { .. }
            | Input::Constant { .. }
            | Input::Poison
            | Input::File { .. }) => other,
            // A window holds values of the draw alone; an index that repeats is harmless, as arange is not random.
            Input::Adapted { draw, fit, specials: _ } => match fit {
                Fit::Exact => *draw,
                Fit::Cast => Input::Adapted { draw, fit, specials: Vec::new() },
            },
        };
        let Draw { seed, redraw } = draw;
        generator::draw(&plain, param.element, FRESH_MAX, seed, &self.case.name, &param.name, redraw)
            .map_err(|error| infrastructure(self.stage, "prepare/input", error.to_string()))
    }

    /// Elements of each output that are looked at after launch `number` of either side.
    pub(super) fn spots(&self, nonce: Nonce, number: u32) -> Spots {
        let spots = |(param, output): (&Param, Output<'_>)| {
            let count = output.shape.iter().fold(1, |count: u64, side| count.saturating_mul(*side));
            let one = |spot: u32| {
                let words = ["spot", &self.case.name, &param.name, &spot.to_string()];
                drawn(nonce, &words, number, count.saturating_sub(1))
            };
            let wanted = if count == 0 { 0 } else { SPOTS };
            (param.name.clone(), (0..wanted).map(one).collect())
        };
        Spots(self.outputs().map(spots).collect())
    }

    /// The same elements out of whole outputs.
    pub(super) fn pick(&self, outputs: &Outputs, spots: &Spots) -> Outputs {
        let mut picked = Outputs::default();
        for (param, _) in self.outputs() {
            let width = usize::try_from(param.element.bytes().unwrap_or(1)).unwrap_or(1);
            let whole = side(outputs, param);
            let element = |at: &u64| {
                let start = usize::try_from(*at).ok()?.checked_mul(width)?;
                whole.get(start..start.checked_add(width)?)
            };
            let bytes = spots.of(&param.name).unwrap_or(&[]).iter().filter_map(element).flatten().copied();
            picked.insert(&param.name, bytes.collect());
        }
        picked
    }

    /// Whether two sides' samples of one launch are further apart than two right ones can be, each being within the
    /// tolerance of the expected value. Which of the two is wrong is for the reference to say.
    pub(super) fn disagree(&self, baseline: &Outputs, candidate: &Outputs) -> Result<bool, Failure> {
        let tolerance = &self.prepared.task.tolerance;
        let widened =
            |bound: &Decimal| Decimal::from_f64(bound.value() * APART).unwrap_or_else(|_| bound.clone());
        let tolerance = Tolerance {
            absolute: widened(&tolerance.absolute),
            relative: widened(&tolerance.relative),
            nan: tolerance.nan,
        };
        for (param, output) in self.outputs() {
            let (left, right) = (side(baseline, param), side(candidate, param));
            let width = param.element.bytes().unwrap_or(1);
            let shape = [left.len() as u64 / width];
            let output = Output { shape: &shape, tolerance: &tolerance, ..output };
            let found = compare(&output, left, right).map_err(|error| {
                infrastructure(self.stage, "time/compare", format!("output `{}`: {error}", param.name))
            })?;
            if found.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The first of the sampled elements that is not what was expected, at its place in the whole output.
    pub(super) fn spot_mismatch(
        &self,
        expected: &Outputs,
        got: &Outputs,
        spots: &Spots,
        which: &str,
    ) -> Result<Option<Mismatch>, Failure> {
        for (param, output) in self.outputs() {
            let elements = spots.of(&param.name).unwrap_or(&[]);
            let shape = [elements.len() as u64];
            let sampled = Output { shape: &shape, ..output };
            let found = compare(&sampled, side(expected, param), side(got, param)).map_err(|error| {
                infrastructure(self.stage, "time/compare", format!("output `{}`: {error}", param.name))
            })?;
            if let Some(mut mismatch) = found {
                let at = usize::try_from(mismatch.index).ok().and_then(|at| elements.get(at)).copied();
                mismatch.index = at.unwrap_or(mismatch.index);
                mismatch.coordinates = coordinates(mismatch.index, output.shape);
                mismatch.worst = None;
                mismatch.pattern = which.to_owned();
                return Ok(Some(mismatch));
            }
        }
        Ok(None)
    }

    /// The elements of each output that the reference gives as a finite number, and how many there are of all: beside
    /// infinities and NaN of the reference nothing can be told right from wrong.
    pub(super) fn finite(&self, expected: &Outputs) -> (Spots, u64, u64) {
        let (mut spots, mut finite, mut total) = (Spots::default(), 0, 0);
        for (param, _) in self.outputs() {
            let width = usize::try_from(param.element.bytes().unwrap_or(1)).unwrap_or(1);
            let chunks = (0_u64..).zip(side(expected, param).chunks_exact(width));
            let is_finite = |chunk: &[u8]| !matches!(read(param.element, chunk), Some(Number::Real(value)) if !value.is_finite());
            let elements: Vec<u64> =
                chunks.filter(|(_, chunk)| is_finite(chunk)).map(|(index, _)| index).collect();
            finite += elements.len() as u64;
            total += (side(expected, param).len() / width) as u64;
            spots.0.insert(param.name.clone(), elements);
        }
        (spots, finite, total)
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

    /// The first element of `again` that is another number than in `first`; zeros of either sign and NaN of any bits
    /// are one.
    pub(super) fn exactly(&self, first: &Outputs, again: &Outputs) -> Result<Option<Mismatch>, Failure> {
        let zero = || Decimal::from_f64(0.0).expect("invariant: zero is finite");
        let tolerance = Tolerance { absolute: zero(), relative: zero(), nan: NanRule::Equal };
        for (param, output) in self.outputs() {
            let output = Output { tolerance: &tolerance, ..output };
            let found = compare(&output, side(first, param), side(again, param)).map_err(|error| {
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

    /// `mismatch` as the outcome of `party`.
    pub(super) fn wrong_result(&self, party: Party, mismatch: Mismatch) -> Failure {
        let pattern =
            if mismatch.pattern.is_empty() { String::new() } else { format!(" ({})", mismatch.pattern) };
        let mut errors = String::new();
        if let Some(error) = &mismatch.absolute_error {
            errors.push_str(&format!(", absolute error {error}"));
        }
        if let Some(error) = &mismatch.relative_error {
            errors.push_str(&format!(", relative error {error}"));
        }
        if let Some(Worst { index, coordinates, expected, got, absolute_error: _ }) = &mismatch.worst {
            errors.push_str(&format!(
                "; worst at index {index} {coordinates:?}: expected {expected}, got {got}"
            ));
        }
        let message = format!(
            "case `{}`: output `{}` differs in {} of {} elements{pattern}; first at index {} {:?}: expected {}, got {}{errors}",
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

    /// What a launch writes, as the task describes it.
    pub(super) fn outputs(&self) -> impl Iterator<Item = (&Param, Output<'_>)> {
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

/// Place of an element in a row-major shape.
fn coordinates(index: u64, shape: &[u64]) -> Vec<u64> {
    let mut rest = index;
    let mut places: Vec<u64> = shape
        .iter()
        .rev()
        .map(|side| {
            let place = rest % (*side).max(1);
            rest /= (*side).max(1);
            place
        })
        .collect();
    places.reverse();
    places
}

pub(super) fn side<'a>(outputs: &'a Outputs, param: &Param) -> &'a [u8] {
    outputs.0.get(&param.name).map_or(&[], Vec::as_slice)
}

/// The buffer parameters of the task.
pub(super) fn buffers(task: &Task) -> impl Iterator<Item = (&Param, Role)> {
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
