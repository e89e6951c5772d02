//! Would a fake pass? A task that outputs without the work satisfy says nothing about candidates.
//!
//! Zeros and untouched outputs are asked of each case that is timed: a candidate could do the work of the others and fake
//! this one. The other fakes must pass the whole task to count: a case that an input happens to answer is no fault while
//! another case sees through it.

use super::fault::cause;
use super::oracle::{Inputs, Outputs, Question, side};
use crate::backend::Failure;
use fleet_config::domain::encoding::{Number, push_real, read};
use fleet_config::domain::{
    Blame, CaseKind, Cause, ElementType, Fake, Outcome, Role, Stage, Status, Task, Tolerance, Validation,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The fakes that have passed everything so far, each with the input that it copies or nothing.
#[derive(Debug)]
pub(super) struct Fakes {
    /// Whether one was put to a test at all.
    left: BTreeMap<(Fake, String), Tried>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tried {
    NotYet,
    Passed,
}

impl Fakes {
    /// Every fake that the task does not allow.
    pub(super) fn of(task: &Task) -> Self {
        let mut left: Vec<(Fake, String)> =
            vec![(Fake::Constant, String::new()), (Fake::OtherSeed, String::new())];
        for (param, role) in super::oracle::buffers(task) {
            match role {
                Role::In | Role::Inout => left.push((Fake::CopiedInput, param.name.clone())),
                Role::Out => {}
            }
        }
        let allowed = |fake: &Fake| allows(task.validation.as_ref(), *fake);
        let left = left.into_iter().filter(|(fake, _)| !allowed(fake));
        Self { left: left.map(|fake| (fake, Tried::NotYet)).collect() }
    }

    /// Puts what is left to the test of one case with all its draws.
    pub(super) fn meet(
        &mut self,
        question: &Question<'_>,
        inputs: &[Arc<Inputs>],
        expected: &[Outputs],
    ) -> Result<(), Failure> {
        let mut left = BTreeMap::new();
        for ((fake, name), tried) in std::mem::take(&mut self.left) {
            match question.passes(fake, &name, inputs, expected)? {
                Some(true) => {
                    left.insert((fake, name), Tried::Passed);
                }
                Some(false) => {}
                None => {
                    left.insert((fake, name), tried);
                }
            }
        }
        self.left = left;
        Ok(())
    }

    /// After the last case: nothing may be left.
    pub(super) fn verdict(&self, stage: Stage, tolerance: &Tolerance) -> Result<(), Failure> {
        let Some(((fake, name), _)) = self.left.iter().find(|(_, tried)| **tried == Tried::Passed) else {
            return Ok(());
        };
        let (what, next) = match fake {
            Fake::Zeros => ("zero everywhere".to_owned(), "choose inputs that give larger outputs"),
            Fake::Untouched => ("untouched".to_owned(), "choose inputs that give larger outputs"),
            Fake::Constant => (
                "one constant everywhere".to_owned(),
                "tighten the tolerance or draw inputs that give outputs which differ",
            ),
            Fake::CopiedInput => (
                format!("a copy of the input `{name}`"),
                "add inputs on which the work changes something, or, if copying is the work, allow `copied-input` in `[validation]`",
            ),
            Fake::OtherSeed => (
                "the right one for another seed".to_owned(),
                "tighten the tolerance or draw inputs that the output depends on",
            ),
        };
        let message = format!(
            "in every case an output that is {what} passes under the tolerance (absolute {}, relative {}): the task is too weak to tell right from wrong (fake: {})",
            tolerance.absolute,
            tolerance.relative,
            fake.name()
        );
        Err(weak(stage, cause("validate/task-weak", message), next))
    }
}

fn allows(validation: Option<&Validation>, fake: Fake) -> bool {
    validation.is_some_and(|validation| validation.allow.contains(&fake))
}

fn weak(stage: Stage, cause: Cause, hint: &str) -> Failure {
    Failure::new(Outcome::failed(Status::TaskWeak, stage, Blame::Task, cause, hint))
}

impl Question<'_> {
    /// Whether an implementation that writes nothing, or zeros, would pass this case.
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
        let fakes = [
            (Fake::Zeros, "zero", filled(expected, |_, _| 0)),
            (Fake::Untouched, "untouched", untouched(inputs, expected, poison)),
        ];
        for (fake, what, outputs) in fakes {
            let allowed = allows(self.prepared.task.validation.as_ref(), fake);
            if !allowed && self.mismatch(expected, &outputs)?.is_none() {
                let message = format!(
                    "case `{}`: an output that is {what} everywhere passes under the tolerance ({bounds}): the task is too weak to tell right from wrong (fake: {})",
                    self.case.name,
                    fake.name()
                );
                let cause =
                    Cause { case: Some(self.case.name.clone()), ..cause("validate/task-weak", message) };
                let hint = "tighten the tolerance or choose inputs that give larger outputs";
                return Err(weak(self.stage, cause, hint));
            }
        }
        Ok(())
    }

    /// Whether `fake` passes every draw of this case; nothing where the case cannot tell.
    fn passes(
        &self,
        fake: Fake,
        name: &str,
        inputs: &[Arc<Inputs>],
        expected: &[Outputs],
    ) -> Result<Option<bool>, Failure> {
        let draws = inputs.len().min(expected.len());
        let mut is_tried = false;
        for number in 0..draws {
            let other = (number + 1) % draws;
            let differ = other != number && inputs[other] != inputs[number];
            let outputs = match fake {
                Fake::Zeros => Some(filled(&expected[number], |_, _| 0)),
                Fake::Untouched => Some(untouched(&inputs[number], &expected[number], 0xff)),
                Fake::Constant if differ => Some(self.constant(&expected[other])),
                Fake::Constant => self.is_wide().then(|| self.constant(&expected[number])),
                Fake::CopiedInput => self.copied(name, &inputs[number]),
                Fake::OtherSeed => differ.then(|| expected[other].clone()),
            };
            let Some(outputs) = outputs else {
                // A copy that does not fit is no fake of this task.
                if fake == Fake::CopiedInput {
                    return Ok(Some(false));
                }
                continue;
            };
            is_tried = true;
            if self.mismatch(&expected[number], &outputs)?.is_some() {
                return Ok(Some(false));
            }
        }
        Ok(is_tried.then_some(true))
    }

    /// Whether some output has more than one element.
    fn is_wide(&self) -> bool {
        self.outputs().any(|(_, output)| output.shape.iter().any(|side| *side > 1))
    }

    /// Every element of each output is one value: the mean of `answer`, or its first element where types are exact.
    fn constant(&self, answer: &Outputs) -> Outputs {
        let mut outputs = Outputs::default();
        for (param, _) in self.outputs() {
            let bytes = side(answer, param);
            let width = usize::try_from(param.element.bytes().unwrap_or(1)).unwrap_or(1);
            let one = mean(param.element, bytes, width);
            let one = one.as_deref().or_else(|| bytes.get(..width)).unwrap_or(&[0]);
            outputs.insert(&param.name, one.iter().copied().cycle().take(bytes.len()).collect());
        }
        outputs
    }

    /// The beginning of the input `name` as every output; nothing where types or sizes do not fit.
    fn copied(&self, name: &str, inputs: &Inputs) -> Option<Outputs> {
        let element = self.prepared.task.params.iter().find(|param| param.name == name)?.element;
        let mut outputs = Outputs::default();
        for (param, output) in self.outputs() {
            let count = output.shape.iter().try_fold(1_u64, |count, side| count.checked_mul(*side))?;
            let length = usize::try_from(count.checked_mul(param.element.bytes()?)?).ok()?;
            if param.name == name || param.element != element {
                return None;
            }
            outputs.insert(&param.name, inputs.of(name).get(..length)?.to_vec());
        }
        Some(outputs)
    }
}

/// The mean of float elements; nothing for other types or where it is not finite.
fn mean(element: ElementType, bytes: &[u8], width: usize) -> Option<Vec<u8>> {
    let (mut sum, mut count) = (0.0, 0.0);
    for chunk in bytes.chunks_exact(width) {
        match read(element, chunk)? {
            Number::Real(value) if value.is_finite() => (sum, count) = (sum + value, count + 1.0),
            Number::Real(_) => {}
            Number::Integer(_) => return None,
        }
    }
    let mean: f64 = sum / count;
    let mut one = Vec::new();
    if mean.is_finite() {
        push_real(&mut one, element, mean);
    }
    (!one.is_empty()).then_some(one)
}

fn filled(expected: &Outputs, byte: impl Fn(&str, usize) -> u8) -> Outputs {
    let fill = |(name, bytes): (&String, &Vec<u8>)| {
        (name.clone(), (0..bytes.len()).map(|index| byte(name, index)).collect())
    };
    Outputs(expected.0.iter().map(fill).collect())
}

/// What the buffers hold when nothing is written: poison, or for `inout` what it held before.
fn untouched(inputs: &Inputs, expected: &Outputs, poison: u8) -> Outputs {
    filled(expected, |name, index| inputs.of(name).get(index).copied().unwrap_or(poison))
}
