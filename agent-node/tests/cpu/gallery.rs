//! The kernels of `tests/kernels`: many styles of CUDA, each task's reference and candidate against a computation of
//! this process in double precision, by every compiler that is installed.

use crate::bench::{Bench, PATIENT, bench_with};
use crate::expected;
use agent_node::backend::{
    Argument, Backend as _, Buffer, BufferUse, CompileRequest, EntryPoint, Evaluation, ResolvedStep, Sources,
};
use agent_node::sandbox::Confinement;
use fleet_config::config::{LoadedTask, load};
use fleet_config::domain::encoding::{self, Number};
use fleet_config::domain::shape::{byte_count, element_count};
use fleet_config::domain::{
    BlobRef, Case, ElementType, Expression, LaunchPlan, Milliseconds, Param, ParamKind, Role, Scope, Seed,
    SourceTree, Step, Task,
};
use fleet_config::generator;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kernels")
}

/// Buffers as numbers, by parameter.
pub(crate) type Values = BTreeMap<String, Vec<f64>>;

/// One case with its inputs drawn.
struct Drawn<'a> {
    task: &'a Task,
    case: &'a Case,
    scope: Scope,
    /// Every parameter's bytes before the launch; outputs hold poison.
    bytes: BTreeMap<String, Vec<u8>>,
}

fn numbers(element: ElementType, bytes: &[u8]) -> Vec<f64> {
    let width = usize::try_from(element.bytes().unwrap()).unwrap();
    let number = |chunk| match encoding::read(element, chunk).unwrap() {
        Number::Real(value) => value,
        // Integers of 32 bits and fewer are exact.
        Number::Integer(value) => value as f64,
    };
    bytes.chunks_exact(width).map(number).collect()
}

impl<'a> Drawn<'a> {
    fn new(task: &'a Task, case: &'a Case) -> Self {
        let scope = case.scope();
        let mut bytes = BTreeMap::new();
        for param in &task.params {
            let ParamKind::Buffer { role, shape } = &param.kind else { continue };
            let count = element_count(shape, &scope).unwrap();
            let content = match role {
                Role::Out => vec![0xff; usize::try_from(byte_count(param.element, count).unwrap()).unwrap()],
                Role::In | Role::Inout => {
                    let input = case.inputs.get(&param.name).unwrap_or(&task.inputs[&param.name]);
                    generator::draw(input, param.element, count, Seed(1), &case.name, &param.name, 0).unwrap()
                }
            };
            bytes.insert(param.name.clone(), content);
        }
        Self { task, case, scope, bytes }
    }

    fn values(&self) -> Values {
        let buffer = |param: &Param| {
            let bytes = self.bytes.get(&param.name)?;
            Some((param.name.clone(), numbers(param.element, bytes)))
        };
        self.task.params.iter().filter_map(buffer).collect()
    }

    fn evaluate(&self, text: &Expression, attributes: &BTreeMap<String, i64>) -> i64 {
        let mut scope = self.scope.clone();
        scope.extend(attributes.clone());
        text.evaluate(&scope).unwrap()
    }

    fn evaluation(
        &self,
        plan: &LaunchPlan,
        entries: &[EntryPoint],
        attributes: &BTreeMap<String, i64>,
    ) -> Evaluation {
        let number = |text: &Expression| u64::try_from(self.evaluate(text, attributes)).unwrap();
        let mut buffers = Vec::new();
        for param in &self.task.params {
            let ParamKind::Buffer { role, shape: _ } = &param.kind else { continue };
            let bytes = self.bytes[&param.name].len() as u64;
            buffers.push(Buffer {
                name: param.name.clone(),
                use_: BufferUse::Parameter(*role),
                element: param.element,
                bytes,
            });
        }
        for scratch in &plan.scratch {
            let bytes = byte_count(scratch.element, number(&scratch.count)).unwrap();
            buffers.push(Buffer {
                name: scratch.name.clone(),
                use_: BufferUse::Scratch,
                element: scratch.element,
                bytes,
            });
        }
        let index = |name: &str| buffers.iter().position(|buffer| buffer.name == name);
        let argument = |name: &String| {
            if let Some(index) = index(name) {
                return Argument::Buffer(index);
            }
            let param = self.task.params.iter().find(|param| param.name == *name).unwrap();
            let ParamKind::Integer { value } = &param.kind else { panic!("{name} is no integer") };
            let mut bytes = Vec::new();
            encoding::push_integer(&mut bytes, param.element, self.evaluate(value, attributes));
            Argument::Scalar(bytes)
        };
        let own: Vec<String> = self.task.params.iter().map(|param| param.name.clone()).collect();
        let step = |step: &Step| match step {
            Step::Memset(memset) => {
                ResolvedStep::Memset { buffer: index(&memset.buffer).unwrap(), byte: memset.byte }
            }
            Step::Kernel(kernel) => ResolvedStep::Kernel {
                entry: entries.iter().position(|entry| entry.name == kernel.entry).unwrap(),
                name: kernel.entry.clone(),
                grid: kernel.grid.each_ref().map(number),
                block: kernel.block.each_ref().map(number),
                shared_bytes: number(&kernel.shared_bytes),
                arguments: if kernel.arguments.is_empty() { &own } else { &kernel.arguments }
                    .iter()
                    .map(argument)
                    .collect(),
                cooperative: false,
                cluster: None,
            },
        };
        Evaluation { case: self.case.name.clone(), steps: plan.steps.iter().map(step).collect(), buffers }
    }
}

/// One implementation of a task.
struct Given<'a> {
    what: String,
    tree: &'a SourceTree,
    plan: &'a LaunchPlan,
}

fn entries(task: &Task, plan: &LaunchPlan) -> Vec<EntryPoint> {
    let mut entries: Vec<EntryPoint> = Vec::new();
    for step in &plan.steps {
        let Step::Kernel(kernel) = step else { continue };
        if entries.iter().all(|entry| entry.name != kernel.entry) {
            let signature = (kernel.entry == task.entry).then(|| task.signature.clone());
            entries.push(EntryPoint { name: kernel.entry.clone(), signature });
        }
    }
    entries
}

fn check(bench: &Bench, drawn: &Drawn<'_>, given: &Given<'_>, blobs: &[(BlobRef, Vec<u8>)], exact: &Values) {
    let what = &given.what;
    let text = |blob: &BlobRef| blobs.iter().find(|(found, _)| found == blob).unwrap().1.clone();
    let files = given.tree.files.iter().map(|file| (file.path.clone(), text(&file.blob))).collect();
    let entries = entries(drawn.task, given.plan);
    let request = CompileRequest {
        sources: Sources { main: given.tree.main.clone(), files },
        headers: Vec::new(),
        entries: entries.clone(),
        architecture: bench.architecture.clone(),
        policy: bench.policy.clone(),
        limit: Milliseconds(PATIENT),
        folder: bench.subfolder(),
        confinement: Confinement::Required,
        interrupt: bench.interrupt.clone(),
    };
    let artefact = bench.backend.compile(&request).unwrap_or_else(|failure| {
        panic!("{what}: {:?}\n{}", failure.outcome, String::from_utf8_lossy(&failure.log.unwrap_or_default()))
    });
    let mut worker = bench.worker(&artefact, PATIENT).unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
    let evaluation = drawn.evaluation(given.plan, &entries, &agent_node::backend::cpu::attributes(2));
    worker.prepare(&evaluation).unwrap();
    // Twice: variables of the source must begin anew, and so must everything else.
    for _ in 0..2 {
        for (index, buffer) in evaluation.buffers.iter().enumerate() {
            match drawn.bytes.get(&buffer.name) {
                Some(bytes) => worker.write(index, bytes).unwrap(),
                None => worker.fill(index, 0xff).unwrap(),
            }
        }
        worker.launch().unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
        worker.check_fences().unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
        for (index, buffer) in evaluation.buffers.iter().enumerate() {
            let got = numbers(buffer.element, &worker.read(index).unwrap());
            if let Some(exact) = exact.get(&buffer.name) {
                compare(drawn.task, &format!("{what}, {}", buffer.name), &got, exact);
            }
        }
    }
    worker.finish();
}

fn compare(task: &Task, what: &str, got: &[f64], exact: &[f64]) {
    assert_eq!(got.len(), exact.len(), "{what}");
    let (absolute, relative) = (task.tolerance.absolute.value(), task.tolerance.relative.value());
    for (at, (got, exact)) in got.iter().zip(exact).enumerate() {
        let bound = absolute + relative * exact.abs();
        assert!((got - exact).abs() <= bound, "{what}: element {at} is {got} instead of {exact}");
    }
}

/// Runs part `part` of `parts`, so that tests share the work.
fn run(part: usize, parts: usize) {
    let compilers = ["/usr/bin/g++", "/usr/bin/clang++", "/usr/bin/clang++-19"];
    let benches: Vec<Bench> =
        compilers.iter().filter_map(|path| bench_with(&[PathBuf::from(path)])).collect();
    for (name, compute) in expected::all().skip(part).step_by(parts) {
        let home = folder().join(name);
        let LoadedTask { task, mut blobs, .. } =
            load::task(&home.join("task.toml"), &[0; 32]).unwrap_or_else(|found| panic!("{name}: {found:?}"));
        let loaded = load::candidates(&home.join("candidate.cu"), &task.entry, task.limits.source)
            .unwrap_or_else(|found| panic!("{name}: {found:?}"))
            .remove(0);
        blobs.extend(loaded.blobs);
        let drawn = Drawn::new(&task, &task.cases[0]);
        let mut exact = drawn.values();
        compute(&drawn.scope, &mut exact);
        exact.retain(|name, _| {
            task.params.iter().any(|param| {
                param.name == *name
                    && matches!(param.kind, ParamKind::Buffer { role: Role::Out | Role::Inout, .. })
            })
        });
        for bench in &benches {
            let compiler = &bench.backend.toolchain().version;
            let sides = [
                ("reference", &task.reference.source, &task.reference.plan),
                ("candidate", &loaded.candidate.source, loaded.candidate.plan.as_ref().unwrap()),
            ];
            for (side, tree, plan) in sides {
                let given = Given { what: format!("{name}, {side}, {compiler}"), tree, plan };
                check(bench, &drawn, &given, &blobs, &exact);
            }
        }
    }
}

#[test]
fn every_kernel_of_the_collection_has_its_expected_values() {
    let mut listed: Vec<&str> = expected::all().map(|(name, _)| *name).collect();
    listed.sort_unstable();
    let mut found: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    found.sort_unstable();
    assert_eq!(listed, found);
    assert!(listed.len() >= 64);
}

#[test]
fn the_first_third_of_the_collection_is_right_under_every_compiler() {
    run(0, 3);
}

#[test]
fn the_second_third_of_the_collection_is_right_under_every_compiler() {
    run(1, 3);
}

#[test]
fn the_last_third_of_the_collection_is_right_under_every_compiler() {
    run(2, 3);
}
