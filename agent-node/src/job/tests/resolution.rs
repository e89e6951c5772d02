//! Plans as numbers, and whose fault it is when they are none.

use super::world::{decimal, device, expression, kernel, plan, task};
use crate::backend::{Argument, BufferUse, Evaluation, Failure, ResolvedStep};
use crate::job::fault::Party;
use crate::job::resolve::{Setting, entries, resolve};
use fleet_config::domain::{
    Blame, Bytes, ElementType, LaunchPlan, MemsetStep, ParamKind, Role, Scratch, Status, Step, Task,
};
use std::collections::BTreeMap;

fn run(task: &Task, plan: &LaunchPlan, party: Party) -> Result<Evaluation, Failure> {
    let attributes = device().attributes;
    resolve(Setting { task, case: &task.cases[0], attributes: &attributes, party }, plan)
}

fn check(plan: &LaunchPlan, status: Status, message: &str) {
    let task = task(&mut BTreeMap::new());
    let outcome = run(&task, plan, Party::Candidate).unwrap_err().outcome;
    let cause = outcome.cause.unwrap();
    assert_eq!((outcome.status, outcome.blame), (status, Blame::Candidate), "{}", cause.message);
    assert!(cause.message.contains(message), "`{}` has no `{message}`", cause.message);
    assert_eq!(cause.case.as_deref(), Some("odd"));
    // The same plan in the task's own hands is the task's fault.
    let outcome = run(&task, plan, Party::Baseline).unwrap_err().outcome;
    assert_eq!((outcome.status, outcome.blame), (status, Blame::Task));
}

#[test]
fn a_plan_becomes_buffers_geometry_and_arguments() {
    let task = task(&mut BTreeMap::new());
    let mut two = plan("ceil_div(n, 4) * device.multiprocessors", "4");
    two.scratch.push(Scratch {
        name: "partial".to_owned(),
        element: ElementType::F64,
        count: expression("n + 1"),
    });
    two.steps.insert(0, Step::Memset(MemsetStep { buffer: "partial".to_owned(), byte: 0 }));
    let mut second = kernel("finish", "1", "n");
    second.arguments = vec!["partial".to_owned(), "n".to_owned(), "y".to_owned()];
    two.steps.push(Step::Kernel(second));
    let evaluation = run(&task, &two, Party::Candidate).unwrap();
    let sizes: Vec<(&str, u64)> = evaluation.buffers.iter().map(|b| (b.name.as_str(), b.bytes)).collect();
    assert_eq!(sizes, [("x", 28), ("y", 28), ("partial", 64)]);
    assert_eq!(evaluation.buffers[1].use_, BufferUse::Parameter(Role::Out));
    assert_eq!(evaluation.steps[0], ResolvedStep::Memset { buffer: 2, byte: 0 });
    let ResolvedStep::Kernel { entry: 0, grid, block, arguments, .. } = &evaluation.steps[1] else {
        panic!()
    };
    assert_eq!((grid, block), (&[4, 1, 1], &[4, 1, 1]));
    let n = Argument::Scalar(7_i32.to_le_bytes().to_vec());
    assert_eq!(arguments, &[Argument::Buffer(0), Argument::Buffer(1), n.clone()]);
    let ResolvedStep::Kernel { entry: 1, arguments, .. } = &evaluation.steps[2] else { panic!() };
    assert_eq!(arguments, &[Argument::Buffer(2), n, Argument::Buffer(1)]);
    let entries = entries(&task, &two);
    assert_eq!(entries[0].signature.as_deref(), Some(task.signature.as_str()));
    assert_eq!((entries[1].name.as_str(), &entries[1].signature), ("finish", &None));
}

#[test]
fn expressions_without_a_value_and_unknown_names_are_rejected() {
    check(&plan("n / (n - 7)", "1"), Status::Rejected, "n / (n - 7)");
    check(&plan("q", "1"), Status::Rejected, "`q`");
    let mut unknown = plan("1", "1");
    let mut step = kernel("affine", "1", "1");
    step.arguments = vec!["z".to_owned()];
    unknown.steps = vec![Step::Kernel(step)];
    check(&unknown, Status::Rejected, "`z`");
    check(&LaunchPlan { scratch: Vec::new(), steps: Vec::new() }, Status::Rejected, "no kernel");
    let memset = |buffer: &str| {
        let mut with = plan("1", "1");
        with.steps.push(Step::Memset(MemsetStep { buffer: buffer.to_owned(), byte: 0 }));
        with
    };
    check(&memset("x"), Status::Rejected, "input `x`");
    check(&memset("n"), Status::Rejected, "`n`");
    let mut twice = plan("1", "1");
    twice.scratch = vec![Scratch { name: "y".to_owned(), element: ElementType::F32, count: expression("1") }];
    check(&twice, Status::Rejected, "`y`");
    let mut many = plan("1", "1");
    many.steps = vec![many.steps[0].clone(); LaunchPlan::STEPS_MAX + 1];
    check(&many, Status::Rejected, "65 steps");
}

#[test]
fn illegal_geometry_is_a_launch_error_with_its_numbers() {
    check(&plan("0", "1"), Status::LaunchError, "grid.x is 0");
    check(&plan("0 - 3", "1"), Status::LaunchError, "grid.x is -3");
    check(&plan("2147483648", "1"), Status::LaunchError, "limit 2147483647");
    check(&plan("1", "0"), Status::LaunchError, "block.x is 0");
    check(&plan("1", "2048"), Status::LaunchError, "2048 threads per block, limit 1024");
    let mut wide = plan("1", "64");
    let Step::Kernel(step) = &mut wide.steps[0] else { panic!() };
    step.block[1] = expression("32");
    check(&wide, Status::LaunchError, "2048 threads per block, limit 1024");
    let mut shared = plan("1", "1");
    let Step::Kernel(step) = &mut shared.steps[0] else { panic!() };
    step.shared_bytes = expression("0 - 1");
    check(&shared, Status::LaunchError, "shared memory");
    let mut cluster = plan("3", "1");
    let Step::Kernel(step) = &mut cluster.steps[0] else { panic!() };
    step.attributes.cluster = Some([2, 1, 1]);
    check(&cluster, Status::LaunchError, "clusters");
}

#[test]
fn too_much_scratch_is_out_of_memory_and_too_large_inputs_are_the_tasks_fault() {
    let mut greedy = plan("1", "1");
    greedy.scratch =
        vec![Scratch { name: "s".to_owned(), element: ElementType::F64, count: expression("1048576") }];
    check(&greedy, Status::OutOfMemory, "limit 1048576");
    greedy.scratch[0].count = expression("9223372036854775807");
    check(&greedy, Status::Rejected, "64 bits");
    let mut task = task(&mut BTreeMap::new());
    task.limits.memory = Bytes(10);
    let outcome = run(&task, &plan("1", "1"), Party::Candidate).unwrap_err().outcome;
    assert_eq!(outcome.blame, Blame::Task);
}

#[test]
fn shapes_and_scalars_that_do_not_fit_are_the_tasks_fault() {
    let fresh = || task(&mut BTreeMap::new());
    let mut negative = fresh();
    negative.params[0].kind = ParamKind::Buffer { role: Role::In, shape: vec![expression("n - 9")] };
    let mut device_dependent = fresh();
    device_dependent.params[0].kind =
        ParamKind::Buffer { role: Role::In, shape: vec![expression("device.multiprocessors")] };
    let mut large = fresh();
    large.params[2].element = ElementType::I8;
    large.params[2].kind = ParamKind::Integer { value: expression("n * 100") };
    let mut float = fresh();
    float.params[2].kind = ParamKind::Float { value: decimal("0.5") };
    for task in [negative, device_dependent, large, float] {
        let outcome = run(&task, &plan("1", "1"), Party::Candidate).unwrap_err().outcome;
        assert_eq!(outcome.blame, Blame::Task, "{outcome:?}");
    }
}

#[test]
fn a_dimension_is_never_hidden_by_an_attribute_or_scalar() {
    let mut task = task(&mut BTreeMap::new());
    task.params[2].kind = ParamKind::Integer { value: expression("n * 2") };
    let evaluation = run(&task, &plan("n", "1"), Party::Candidate).unwrap();
    let ResolvedStep::Kernel { grid, .. } = &evaluation.steps[0] else { panic!() };
    assert_eq!(grid[0], 7);
}
