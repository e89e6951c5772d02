//! `best-case-N.json`: what runs the best candidate on one case, in the form of the guide's harness, and which launch a plan
//! comes to.

use super::Story;
use fleet_config::domain::{
    Case, Expression, LaunchPlan, MeasurementPolicy, Param, ParamKind, Role, Seed, Step, Task,
};
use serde_json::{Value, json};

/// Grid, block and dynamic shared memory of a plan of one kernel in a case; `null` where the plan has more steps, or asks the
/// device.
pub fn launch(plan: &LaunchPlan, case: &Case) -> Value {
    let [Step::Kernel(kernel)] = plan.steps.as_slice() else { return Value::Null };
    let scope = case.scope();
    let side = |expression: &Expression| expression.evaluate(&scope).ok();
    let three = |sides: &[Expression; 3]| sides.iter().map(side).collect::<Option<Vec<i64>>>();
    match (three(&kernel.grid), three(&kernel.block), side(&kernel.shared_bytes)) {
        (Some(grid), Some(block), Some(shared)) => {
            json!({ "grid": grid, "block": block, "shared_memory_bytes": shared })
        }
        (_, _, _) => Value::Null,
    }
}

/// What a replay needs beside task and case.
#[derive(Debug, Clone, Copy)]
pub struct Chosen<'a> {
    pub plan: &'a LaunchPlan,
    pub policy: Option<&'a MeasurementPolicy>,
    /// The draws that the record was made with.
    pub seeds: &'a [Seed],
    /// The record that a replay is compared with.
    pub record: &'a str,
    /// Median of the candidate in that record.
    pub latency_ms: Option<f64>,
}

/// The request of the guide's harness for `case`. Inputs are not files but draws: `draw` and `seeds` name their elements to
/// the bit (docs/ARCHITECTURE.md, generator).
pub fn replay(story: &Story<'_>, task: &Task, case: &Case, chosen: &Chosen<'_>) -> Value {
    let launch = launch(chosen.plan, case);
    let arguments: Vec<Value> = task.params.iter().map(|param| argument(task, case, param)).collect();
    json!({
        "schema": "muster.replay/1",
        "id": format!("best-{}", case.name),
        "results_dir": format!("replay-{}", case.name),
        "source": "best.cu",
        "kernel": task.entry,
        "mode": "benchmark",
        "device": story.settings.class,
        "grid": launch["grid"],
        "block": launch["block"],
        "shared_memory_bytes": launch["shared_memory_bytes"],
        "warmup": chosen.policy.map(|policy| policy.warmups),
        "iterations": chosen.policy.map(|policy| policy.pairs_max),
        "arguments": arguments,
        "task": story.settings.task,
        "case": case.name,
        "record": chosen.record,
        "latency_ms": chosen.latency_ms,
        "generator": fleet_config::generator::VERSION,
        "seeds": chosen.seeds,
    })
}

fn argument(task: &Task, case: &Case, param: &Param) -> Value {
    let scope = case.scope();
    match &param.kind {
        ParamKind::Buffer { role, shape: _ } => {
            let direction = match role {
                Role::In => "input",
                Role::Out => "output",
                Role::Inout => "inout",
            };
            let draw = case.inputs.get(&param.name).or_else(|| task.inputs.get(&param.name));
            json!({
                "kind": "buffer",
                "name": param.name,
                "direction": direction,
                "dtype": param.element.to_string(),
                "bytes": param.buffer_bytes(&scope).ok().flatten(),
                "draw": draw,
            })
        }
        ParamKind::Integer { value } => json!({
            "kind": "scalar",
            "name": param.name,
            "type": param.element.to_string(),
            "value": value.evaluate(&scope).ok(),
        }),
        ParamKind::Float { value } => json!({
            "kind": "scalar",
            "name": param.name,
            "type": param.element.to_string(),
            "value": case.scalar(&param.name).unwrap_or(value),
        }),
    }
}
