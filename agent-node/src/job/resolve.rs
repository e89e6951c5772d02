//! From plan to numbers: a launch plan resolved for one case on one device. Pure.
//!
//! What is wrong with shapes is the task's fault; what is wrong with a plan is the fault of whoever wrote it.

use super::fault::{Party, cause, unsupported};
use super::scalar;
use crate::backend::{Argument, Buffer, BufferUse, EntryPoint, Evaluation, Failure, ResolvedStep};
use fleet_config::domain::{
    Blame, Case, Cause, Decimal, ElementType, Expression, ExpressionError, KernelStep, LaunchPlan,
    MemsetStep, Outcome, Param, ParamKind, Role, Scope, Stage, Status, Step, Task, UnsupportedReason, shape,
};
use std::collections::BTreeMap;

/// Largest grid: x as CUDA has it; y and z share a 16-bit limit there.
const GRID_MAX: [u64; 3] = [(1 << 31) - 1, 65_535, 65_535];

/// Largest block per dimension, as every CUDA device has it.
const BLOCK_MAX: [u64; 3] = [1024, 1024, 64];

/// Threads of a block where the device does not say otherwise.
const THREADS_MAX: u64 = 1024;

/// Attribute by which a device says how many threads a block may have.
const THREADS_ATTRIBUTE: &str = "device.threads_per_block_max";

/// What a plan is resolved for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting<'a> {
    pub task: &'a Task,
    pub case: &'a Case,
    /// Names that launch expressions may use beside dimensions, such as `device.multiprocessors`.
    pub attributes: &'a BTreeMap<String, i64>,
    /// Whose plan it is.
    pub party: Party,
}

/// The kernels that `plan` launches, each once, in the order of their first launch. The task's own entry must
/// match the task's signature; helpers of a candidate are its own business.
pub(crate) fn entries(task: &Task, plan: &LaunchPlan) -> Vec<EntryPoint> {
    let mut entries: Vec<EntryPoint> = Vec::new();
    for step in &plan.steps {
        if let Step::Kernel(kernel) = step
            && !entries.iter().any(|entry| entry.name == kernel.entry)
        {
            let signature = (kernel.entry == task.entry).then(|| task.signature.clone());
            entries.push(EntryPoint { name: kernel.entry.clone(), signature });
        }
    }
    entries
}

/// The shape of every buffer parameter in `case`, by name; dimensions alone decide, so that a task means the
/// same on every device.
pub(super) fn shapes(task: &Task, case: &Case) -> Result<BTreeMap<String, Vec<u64>>, Failure> {
    let mut shapes = BTreeMap::new();
    for param in &task.params {
        let ParamKind::Buffer { role: _, shape } = &param.kind else { continue };
        let sides = shape::sides(shape, &case.scope())
            .map_err(|error| task_fault(case, &param.name, &error.to_string()))?;
        shapes.insert(param.name.clone(), sides);
    }
    Ok(shapes)
}

/// A candidate's plan as numbers, for whoever compiles without a device.
pub(crate) fn resolved(
    task: &Task,
    case: &Case,
    attributes: &BTreeMap<String, i64>,
    plan: &LaunchPlan,
) -> Result<Evaluation, Failure> {
    resolve(Setting { task, case, attributes, party: Party::Candidate }, plan)
}

/// `plan` as numbers: buffers with sizes, geometry, scalar bytes, argument order.
pub(super) fn resolve(setting: Setting<'_>, plan: &LaunchPlan) -> Result<Evaluation, Failure> {
    let Setting { task, case, attributes, party } = setting;
    if plan.steps.len() > LaunchPlan::STEPS_MAX || plan.scratch.len() > LaunchPlan::SCRATCH_MAX {
        let message = format!(
            "{} steps and {} scratch buffers; at most {} and {} are allowed",
            plan.steps.len(),
            plan.scratch.len(),
            LaunchPlan::STEPS_MAX,
            LaunchPlan::SCRATCH_MAX
        );
        return Err(plan_fault(setting, "resolve/plan-size", message));
    }
    if !plan.steps.iter().any(|step| matches!(step, Step::Kernel(_))) {
        return Err(plan_fault(setting, "resolve/no-kernel", "the launch plan launches no kernel"));
    }
    let shapes = shapes(task, case)?;
    let mut scope: Scope = attributes.clone();
    let mut scalars: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for param in &task.params {
        if let Some(bytes) = scalar_of(setting, param, &mut scope)? {
            scalars.insert(&param.name, bytes);
        }
    }
    // Dimensions come last: no attribute and no scalar may hide one.
    scope.extend(case.dims.clone());
    let buffers = buffers(setting, plan, &shapes, &scope)?;
    let entries = entries(task, plan);
    let names = Names { buffers: &buffers, scalars: &scalars };
    let mut steps = Vec::with_capacity(plan.steps.len());
    for step in &plan.steps {
        steps.push(match step {
            Step::Kernel(kernel) => {
                let entry = entries
                    .iter()
                    .position(|entry| entry.name == kernel.entry)
                    .expect("invariant: entries holds every kernel of this plan");
                kernel_step(setting, kernel, entry, &scope, &names)?
            }
            Step::Memset(memset) => memset_step(setting, memset, &buffers)?,
        });
    }
    let evaluation = Evaluation { case: case.name.clone(), buffers, steps };
    check_memory(task, case, party, &evaluation)?;
    Ok(evaluation)
}

/// What a name in an argument list can stand for.
struct Names<'a> {
    buffers: &'a [Buffer],
    scalars: &'a BTreeMap<&'a str, Vec<u8>>,
}

fn scalar_of(setting: Setting<'_>, param: &Param, scope: &mut Scope) -> Result<Option<Vec<u8>>, Failure> {
    let case = setting.case;
    let fault = |error: &dyn std::fmt::Display| task_fault(case, &param.name, &error.to_string());
    match &param.kind {
        ParamKind::Buffer { role: _, shape: _ } => Ok(None),
        ParamKind::Integer { value } => {
            let number = match case.scalar(&param.name) {
                Some(own) => whole(own).ok_or_else(|| fault(&"its value in this case is no integer"))?,
                None => value.evaluate(&case.dims).map_err(|error| fault(&error))?,
            };
            scope.insert(param.name.clone(), number);
            scalar::integer(param.element, number).map(Some).map_err(|error| fault(&error))
        }
        ParamKind::Float { value } => {
            let value = case.scalar(&param.name).unwrap_or(value);
            scalar::float(param.element, value).map(Some).map_err(|error| fault(&error))
        }
    }
}

/// A decimal as an integer, where it is one that a double holds exactly.
fn whole(value: &Decimal) -> Option<i64> {
    let value = value.value();
    (value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0).then_some(value as i64)
}

fn buffers(
    setting: Setting<'_>,
    plan: &LaunchPlan,
    shapes: &BTreeMap<String, Vec<u64>>,
    scope: &Scope,
) -> Result<Vec<Buffer>, Failure> {
    let Setting { task, case, .. } = setting;
    let mut buffers: Vec<Buffer> = Vec::new();
    for param in &task.params {
        let ParamKind::Buffer { role, shape: _ } = &param.kind else { continue };
        let count = shapes[&param.name].iter().try_fold(1_u64, |count, size| count.checked_mul(*size));
        let bytes = size_in_bytes(setting, param.element, count)?
            .ok_or_else(|| task_fault(case, &param.name, "its size does not fit 64 bits"))?;
        let use_ = BufferUse::Parameter(*role);
        buffers.push(Buffer { name: param.name.clone(), use_, element: param.element, bytes });
    }
    for scratch in &plan.scratch {
        if task.params.iter().any(|param| param.name == scratch.name)
            || buffers.iter().any(|buffer| buffer.name == scratch.name)
        {
            let message =
                format!("the scratch buffer `{}` has the name of another buffer or parameter", scratch.name);
            return Err(plan_fault(setting, "resolve/scratch-name", message));
        }
        let count = evaluate(setting, &scratch.count, scope)?;
        let count = u64::try_from(count).map_err(|_| {
            let message = format!("the scratch buffer `{}` has {count} elements", scratch.name);
            plan_fault(setting, "resolve/scratch-size", message)
        })?;
        let bytes = size_in_bytes(setting, scratch.element, Some(count))?.ok_or_else(|| {
            let message = format!("the size of the scratch buffer `{}` does not fit 64 bits", scratch.name);
            plan_fault(setting, "resolve/scratch-size", message)
        })?;
        let (name, element) = (scratch.name.clone(), scratch.element);
        buffers.push(Buffer { name, use_: BufferUse::Scratch, element, bytes });
    }
    Ok(buffers)
}

fn size_in_bytes(
    setting: Setting<'_>,
    element: ElementType,
    count: Option<u64>,
) -> Result<Option<u64>, Failure> {
    if element.is_reserved() {
        let message = format!("elements of type {element} are reserved; no backend runs them yet");
        return Err(setting.party.charge(unsupported(
            Stage::Prepare,
            UnsupportedReason::ElementType,
            message,
        )));
    }
    let width = element.bytes().expect("invariant: only reserved types have no whole number of bytes");
    Ok(count.and_then(|count| count.checked_mul(width)))
}

fn kernel_step(
    setting: Setting<'_>,
    kernel: &KernelStep,
    entry: usize,
    scope: &Scope,
    names: &Names<'_>,
) -> Result<ResolvedStep, Failure> {
    let grid = geometry(setting, kernel, "grid", &kernel.grid, GRID_MAX, scope)?;
    let block = geometry(setting, kernel, "block", &kernel.block, BLOCK_MAX, scope)?;
    let threads: u64 = block.iter().product();
    let limit = setting.attributes.get(THREADS_ATTRIBUTE).and_then(|limit| u64::try_from(*limit).ok());
    let limit = limit.unwrap_or(THREADS_MAX);
    if threads > limit {
        let message = format!("`{}`: {threads} threads per block, limit {limit}", kernel.entry);
        return Err(launch_fault(setting, "launch/threads-per-block", message));
    }
    let shared = evaluate(setting, &kernel.shared_bytes, scope)?;
    let shared_bytes = u64::try_from(shared).map_err(|_| {
        let message = format!("`{}`: {shared} bytes of dynamic shared memory", kernel.entry);
        launch_fault(setting, "launch/shared-memory", message)
    })?;
    if let Some(cluster) = kernel.attributes.cluster {
        let divides =
            cluster.iter().zip(&grid).all(|(size, blocks)| *size > 0 && blocks % u64::from(*size) == 0);
        if !divides {
            let message =
                format!("`{}`: clusters of {cluster:?} blocks do not divide the grid {grid:?}", kernel.entry);
            return Err(launch_fault(setting, "launch/cluster", message));
        }
    }
    let arguments = if kernel.arguments.is_empty() {
        let own = setting.task.params.iter().map(|param| param.name.as_str());
        own.map(|name| argument(setting, kernel, name, names)).collect::<Result<_, _>>()?
    } else {
        kernel
            .arguments
            .iter()
            .map(|name| argument(setting, kernel, name, names))
            .collect::<Result<_, _>>()?
    };
    Ok(ResolvedStep::Kernel {
        entry,
        name: kernel.entry.clone(),
        grid,
        block,
        shared_bytes,
        arguments,
        cooperative: kernel.attributes.cooperative,
        cluster: kernel.attributes.cluster,
    })
}

fn geometry(
    setting: Setting<'_>,
    kernel: &KernelStep,
    what: &str,
    sizes: &[Expression; 3],
    limits: [u64; 3],
    scope: &Scope,
) -> Result<[u64; 3], Failure> {
    let mut resolved = [0_u64; 3];
    for (axis, ((size, limit), slot)) in sizes.iter().zip(limits).zip(&mut resolved).enumerate() {
        let value = evaluate(setting, size, scope)?;
        let legal = u64::try_from(value).ok().filter(|value| *value >= 1);
        let letter = ["x", "y", "z"][axis];
        let Some(value) = legal else {
            let message = format!("`{}`: {what}.{letter} is {value}, at least 1 is needed", kernel.entry);
            return Err(launch_fault(setting, "launch/geometry", message));
        };
        if value > limit {
            let unit = if what == "block" { "threads per block" } else { "blocks" };
            let message = format!("`{}`: {what}.{letter} is {value} {unit}, limit {limit}", kernel.entry);
            return Err(launch_fault(setting, "launch/geometry", message));
        }
        *slot = value;
    }
    Ok(resolved)
}

fn argument(
    setting: Setting<'_>,
    kernel: &KernelStep,
    name: &str,
    names: &Names<'_>,
) -> Result<Argument, Failure> {
    if let Some(index) = names.buffers.iter().position(|buffer| buffer.name == name) {
        return Ok(Argument::Buffer(index));
    }
    names.scalars.get(name).map(|bytes| Argument::Scalar(bytes.clone())).ok_or_else(|| {
        let message =
            format!("`{}`: the argument `{name}` is no parameter and no scratch buffer", kernel.entry);
        plan_fault(setting, "resolve/unknown-argument", message)
    })
}

fn memset_step(
    setting: Setting<'_>,
    memset: &MemsetStep,
    buffers: &[Buffer],
) -> Result<ResolvedStep, Failure> {
    let index = buffers.iter().position(|buffer| buffer.name == memset.buffer).ok_or_else(|| {
        let message = format!("the memset names `{}`, which is no buffer", memset.buffer);
        plan_fault(setting, "resolve/unknown-buffer", message)
    })?;
    match buffers[index].use_ {
        BufferUse::Parameter(Role::In) => {
            let message = format!("the memset would change the input `{}`", memset.buffer);
            Err(plan_fault(setting, "resolve/memset-input", message))
        }
        BufferUse::Parameter(Role::Out | Role::Inout) | BufferUse::Scratch => {
            Ok(ResolvedStep::Memset { buffer: index, byte: memset.byte })
        }
    }
}

fn check_memory(task: &Task, case: &Case, party: Party, evaluation: &Evaluation) -> Result<(), Failure> {
    let total = |wanted: fn(BufferUse) -> bool| {
        let sizes = evaluation.buffers.iter().filter(|buffer| wanted(buffer.use_)).map(|buffer| buffer.bytes);
        sizes.fold(0_u64, u64::saturating_add)
    };
    let own = total(|use_| matches!(use_, BufferUse::Parameter(_)));
    let limit = task.limits.memory.0;
    if own > limit {
        return Err(task_fault(
            case,
            "limits.memory",
            &format!("its buffers take {own} bytes, limit {limit}"),
        ));
    }
    let with_scratch = own.saturating_add(total(|use_| matches!(use_, BufferUse::Scratch)));
    if with_scratch <= limit {
        return Ok(());
    }
    let message = format!("buffers and scratch take {with_scratch} bytes, limit {limit} (`limits.memory`)");
    let cause = Cause { case: Some(case.name.clone()), ..cause("resolve/memory-limit", message) };
    let hint = "use less scratch memory";
    let outcome = Outcome::failed(Status::OutOfMemory, Stage::Prepare, party.blame(), cause, hint);
    Err(party.charge(Failure::new(outcome)))
}

fn evaluate(setting: Setting<'_>, expression: &Expression, scope: &Scope) -> Result<i64, Failure> {
    expression
        .evaluate(scope)
        .map_err(|error: ExpressionError| plan_fault(setting, "resolve/expression", error.to_string()))
}

fn plan_fault(setting: Setting<'_>, code: &str, message: impl Into<String>) -> Failure {
    let hint = "correct the launch plan";
    failure(setting, Status::Rejected, code, message.into(), hint)
}

fn launch_fault(setting: Setting<'_>, code: &str, message: impl Into<String>) -> Failure {
    let hint = "choose a launch shape within the limits";
    failure(setting, Status::LaunchError, code, message.into(), hint)
}

fn failure(setting: Setting<'_>, status: Status, code: &str, message: String, hint: &str) -> Failure {
    let cause = Cause { case: Some(setting.case.name.clone()), ..cause(code, message) };
    let outcome = Outcome::failed(status, Stage::Prepare, setting.party.blame(), cause, hint);
    setting.party.charge(Failure::new(outcome))
}

fn task_fault(case: &Case, place: &str, message: &str) -> Failure {
    let message = format!("`{place}` of the task: {message}");
    let cause = Cause { case: Some(case.name.clone()), ..cause("resolve/task", message) };
    let hint = "mend the task; `muster task lint` finds this";
    Failure::new(Outcome::failed(Status::Rejected, Stage::Prepare, Blame::Task, cause, hint))
}
