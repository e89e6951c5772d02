//! From a launch as it is written to a launch plan.

use super::text::{ExpressionText, LaunchText, StepText};
use crate::domain::{Attributes, Expression, KernelStep, LaunchPlan, MemsetStep, Scratch, Step};
use crate::refusal::Refusal;

/// Codes of the refusals, by file kind.
#[derive(Debug, Clone, Copy)]
pub(super) enum LaunchRoom {
    Task,
    Candidate,
}

/// The plan that `launch` writes down; `entry` is the task's. `place` is the file and line of its table.
pub(super) fn plan(
    launch: LaunchText,
    entry: &str,
    room: LaunchRoom,
    place: &str,
) -> Result<LaunchPlan, Refusal> {
    let code = match room {
        LaunchRoom::Task => "task/launch",
        LaunchRoom::Candidate => "candidate/launch",
    };
    let refuse = |cause: &'static str| Refusal::new(code, place, cause, "Correct the launch.");
    let LaunchText { entry: own, grid, block, shared_bytes, arguments, cooperative, cluster, scratch, step } =
        launch;
    let short = StepText {
        entry: own,
        grid,
        block,
        shared_bytes,
        arguments,
        cooperative,
        cluster,
        memset: None,
        byte: None,
    };
    let steps = if step.is_empty() {
        vec![one(short, entry).map_err(refuse)?]
    } else if is_empty(&short) {
        step.into_iter().map(|step| one(step, entry)).collect::<Result<_, _>>().map_err(refuse)?
    } else {
        return Err(refuse("a launch has either one kernel in short form or `step` tables, not both"));
    };
    if steps.len() > LaunchPlan::STEPS_MAX || scratch.len() > LaunchPlan::SCRATCH_MAX {
        return Err(refuse("more steps or scratch buffers than a plan may have"));
    }
    let scratch = scratch
        .into_iter()
        .map(|text| Scratch { name: text.name, element: text.element, count: text.count.0 })
        .collect();
    Ok(LaunchPlan { scratch, steps })
}

fn is_empty(step: &StepText) -> bool {
    let StepText { entry, grid, block, shared_bytes, arguments, cooperative, cluster, memset, byte } = step;
    entry.is_none()
        && grid.is_none()
        && block.is_none()
        && shared_bytes.is_none()
        && arguments.is_none()
        && cooperative.is_none()
        && cluster.is_none()
        && memset.is_none()
        && byte.is_none()
}

fn one(step: StepText, task_entry: &str) -> Result<Step, &'static str> {
    let StepText { entry, grid, block, shared_bytes, arguments, cooperative, cluster, memset, byte } = step;
    if let Some(buffer) = memset {
        let kernel = entry.is_some() || grid.is_some() || block.is_some() || arguments.is_some();
        if kernel || shared_bytes.is_some() || cooperative.is_some() || cluster.is_some() {
            return Err("a memset has `memset` and `byte` alone");
        }
        return Ok(Step::Memset(MemsetStep { buffer, byte: byte.unwrap_or(0) }));
    }
    if byte.is_some() {
        return Err("`byte` belongs to a memset");
    }
    Ok(Step::Kernel(KernelStep {
        entry: entry.unwrap_or_else(|| task_entry.to_owned()),
        grid: three(grid.ok_or("the launch has no `grid`")?).ok_or("`grid` needs one to three numbers")?,
        block: three(block.ok_or("the launch has no `block`")?)
            .ok_or("`block` needs one to three numbers")?,
        shared_bytes: shared_bytes.map_or_else(|| Expression::from_integer(0), |text| text.0),
        arguments: arguments.unwrap_or_default(),
        attributes: Attributes { cooperative: cooperative.unwrap_or(false), cluster },
    }))
}

/// x, y, z; what is not written is 1.
fn three(texts: Vec<ExpressionText>) -> Option<[Expression; 3]> {
    if texts.is_empty() || texts.len() > 3 {
        return None;
    }
    let mut sides = texts.into_iter().map(|text| text.0);
    let mut next = || sides.next().unwrap_or_else(|| Expression::from_integer(1));
    Some([next(), next(), next()])
}
