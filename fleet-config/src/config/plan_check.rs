//! Whether a launch plan fits a task: geometry, arguments and memory, for every case.

use super::TaskDraft;
use crate::domain::{
    Bytes, Expression, KernelStep, LaunchPlan, Param, ParamKind, Role, Scope, Step, Task, shape,
};
use crate::refusal::Refusal;
use std::collections::{BTreeMap, BTreeSet};

/// Most threads of a block on any device that is known.
const BLOCK_THREADS_MAX: i64 = 1024;
/// Most threads of a block in z.
const BLOCK_Z_MAX: i64 = 64;
/// Most blocks of a grid in x, and in y or z.
const GRID_MAX: [i64; 3] = [i32::MAX as i64, 65_535, 65_535];
/// Most dynamic shared memory of a block on any device that is known (228 KiB), rounded up.
const SHARED_MAX: i64 = 256 * 1024;
/// Most blocks of a cluster.
const CLUSTER_MAX: u32 = 16;

/// What a plan is checked against.
#[derive(Debug)]
pub struct PlanFrame<'a> {
    params: Vec<&'a Param>,
    /// A label for people, and the dimensions.
    cases: Vec<(String, &'a BTreeMap<String, i64>)>,
    memory: Bytes,
}

impl<'a> PlanFrame<'a> {
    /// The frame of a task, its sealed cases left out.
    pub fn of(task: &'a Task) -> Self {
        Self {
            params: task.params.iter().collect(),
            cases: task.cases.iter().map(|case| (format!("case `{}`", case.name), &case.dims)).collect(),
            memory: task.limits.memory,
        }
    }

    /// The frame of a draft, its sealed cases included by number alone.
    pub(super) fn of_draft(draft: &'a TaskDraft) -> Self {
        let open = draft.cases.iter().map(|case| (format!("case `{}`", case.name), &case.dims));
        let sealed = draft.holdout.iter().zip(1..).map(|(case, n)| (format!("sealed case {n}"), &case.dims));
        Self {
            params: draft.params.iter().map(|param| &param.value).collect(),
            cases: open.chain(sealed).collect(),
            memory: draft.limits.memory,
        }
    }
}

/// Everything that is wrong with `plan`, each with `place` and the code `code` (`task/launch` or
/// `candidate/launch`). Names that begin with `device.` stand for 1: what a real device has is checked before
/// the launch. An empty list means that the plan fits.
pub fn check_plan(plan: &LaunchPlan, frame: &PlanFrame<'_>, code: &'static str, place: &str) -> Vec<Refusal> {
    let mut causes = Causes::default();
    structure(plan, frame, &mut causes);
    for (label, dims) in &frame.cases {
        numbers(plan, frame, label, dims, &mut causes);
    }
    causes.list.into_iter().map(|cause| Refusal::new(code, place, cause, "Correct the launch.")).collect()
}

/// Causes in the order found, each once: a fault that every case has is told for the first.
#[derive(Default)]
struct Causes {
    list: Vec<String>,
    seen: BTreeSet<String>,
}

impl Causes {
    fn add(&mut self, key: &str, cause: impl Into<String>) {
        if self.seen.insert(key.to_owned()) {
            self.list.push(cause.into());
        }
    }
}

fn structure(plan: &LaunchPlan, frame: &PlanFrame<'_>, causes: &mut Causes) {
    let mut scratch = BTreeSet::new();
    for buffer in &plan.scratch {
        let name = &buffer.name;
        if !is_identifier(name) {
            causes.add(name, format!("the scratch name `{name}` is no C identifier"));
        }
        if frame.params.iter().any(|param| param.name == *name) || !scratch.insert(name.as_str()) {
            causes.add(name, format!("the name `{name}` is given twice"));
        }
        if buffer.element.bytes().is_none() {
            causes.add(name, format!("scratch `{name}` is of a type that has no size in bytes"));
        }
    }
    if !plan.steps.iter().any(|step| matches!(step, Step::Kernel(_))) {
        causes.add("kernel", "the launch has no kernel");
    }
    for step in &plan.steps {
        match step {
            Step::Kernel(kernel) => {
                if !KernelStep::is_name(&kernel.entry) {
                    causes.add(&kernel.entry, format!("the entry `{}` is no name of a kernel", kernel.entry));
                }
                for argument in &kernel.arguments {
                    let known = scratch.contains(argument.as_str())
                        || frame.params.iter().any(|param| param.name == *argument);
                    if !known {
                        causes.add(
                            argument,
                            format!("the argument `{argument}` is no parameter and no scratch"),
                        );
                    }
                }
            }
            Step::Memset(memset) => {
                let name = &memset.buffer;
                if !scratch.contains(name.as_str()) && !is_writable(frame, name) {
                    causes
                        .add(name, format!("a memset cannot write `{name}`: it is no scratch and no output"));
                }
            }
        }
    }
}

fn is_writable(frame: &PlanFrame<'_>, name: &str) -> bool {
    frame.params.iter().any(|param| {
        param.name == *name
            && match &param.kind {
                ParamKind::Buffer { role, shape: _ } => *role != Role::In,
                ParamKind::Integer { value: _ } | ParamKind::Float { value: _ } => false,
            }
    })
}

fn numbers(
    plan: &LaunchPlan,
    frame: &PlanFrame<'_>,
    label: &str,
    dims: &BTreeMap<String, i64>,
    causes: &mut Causes,
) {
    let mut bytes: u64 = 0;
    for param in &frame.params {
        // A shape without a size is the lint's to refuse, once.
        bytes = bytes.saturating_add(param.buffer_bytes(dims).ok().flatten().unwrap_or(0));
    }
    for buffer in &plan.scratch {
        match evaluate(&buffer.count, dims).map(u64::try_from) {
            Ok(Ok(count)) if count > 0 => {
                bytes = bytes.saturating_add(shape::byte_count(buffer.element, count).unwrap_or(u64::MAX));
            }
            Ok(_) => causes
                .add(&format!("s{}", buffer.name), format!("scratch `{}` is empty in {label}", buffer.name)),
            Err(cause) => causes.add(&cause, format!("scratch `{}` in {label}: {cause}", buffer.name)),
        }
    }
    if bytes > frame.memory.0 {
        causes.add(
            "memory",
            format!(
                "buffers and scratch of {label} take {bytes} bytes, above the limit of {}",
                frame.memory.0
            ),
        );
    }
    for step in &plan.steps {
        match step {
            Step::Kernel(kernel) => geometry(kernel, label, dims, causes),
            Step::Memset(_) => {}
        }
    }
}

fn geometry(kernel: &KernelStep, label: &str, dims: &BTreeMap<String, i64>, causes: &mut Causes) {
    let entry = &kernel.entry;
    let mut sides = |what: &str, expressions: &[Expression; 3], most: [i64; 3]| {
        let mut product: i64 = 1;
        for (axis, (expression, most)) in ["x", "y", "z"].into_iter().zip(expressions.iter().zip(most)) {
            match evaluate(expression, dims) {
                Ok(side) if (1..=most).contains(&side) => product = product.saturating_mul(side),
                Ok(_) => causes.add(
                    &format!("{entry} {what} {axis}"),
                    format!("{what} {axis} of `{entry}` is not from 1 to {most} in {label}"),
                ),
                Err(cause) => causes.add(&cause, format!("{what} {axis} of `{entry}` in {label}: {cause}")),
            }
        }
        product
    };
    sides("grid", &kernel.grid, GRID_MAX);
    let threads = sides("block", &kernel.block, [BLOCK_THREADS_MAX, BLOCK_THREADS_MAX, BLOCK_Z_MAX]);
    if threads > BLOCK_THREADS_MAX {
        causes.add(
            &format!("{entry} threads"),
            format!("the block of `{entry}` has more than {BLOCK_THREADS_MAX} threads in {label}"),
        );
    }
    match evaluate(&kernel.shared_bytes, dims) {
        Ok(shared) if (0..=SHARED_MAX).contains(&shared) => {}
        Ok(_) => causes.add(
            &format!("{entry} shared"),
            format!("shared_bytes of `{entry}` is not from 0 to {SHARED_MAX} in {label}"),
        ),
        Err(cause) => causes.add(&cause, format!("shared_bytes of `{entry}` in {label}: {cause}")),
    }
    if let Some(cluster) = kernel.attributes.cluster {
        let blocks = cluster.into_iter().fold(1_u32, u32::saturating_mul);
        if !(1..=CLUSTER_MAX).contains(&blocks) {
            causes.add("cluster", format!("a cluster of `{entry}` has not from 1 to {CLUSTER_MAX} blocks"));
        }
    }
}

/// The value with every `device.` name standing for 1.
fn evaluate(expression: &Expression, dims: &BTreeMap<String, i64>) -> Result<i64, String> {
    let mut scope: Scope = dims.clone();
    for name in expression.names().into_iter().filter(|name| name.starts_with("device.")) {
        scope.insert(name.to_owned(), 1);
    }
    expression.evaluate(&scope).map_err(|error| error.to_string())
}

/// Whether `name` is a C identifier of reasonable length.
pub(super) fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    name.len() <= 128
        && chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && chars.all(|next| next.is_ascii_alphanumeric() || next == '_')
}
