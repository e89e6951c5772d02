//! Wrong kernels at run time: each has its status, its place and its words.

use crate::bench::{Bench, Given, Launch, bench, input, launch, output, ramp};
use fleet_config::domain::{Cause, FaultKind, Status};

const LOOP: &str = "int i = blockIdx.x * blockDim.x + threadIdx.x;";

fn fails(bench: &Bench, body: &str, shape: &Launch, status: Status) -> Cause {
    let source =
        format!("extern \"C\" __global__ void f(const float* x, float* y, int n) {{\n{LOOP}\n{body}\n}}\n");
    let failure = bench.run(&source, "f", shape).unwrap_err();
    let cause = failure.outcome.cause.clone().unwrap();
    assert_eq!(failure.outcome.status, status, "{cause:?}");
    cause
}

/// 100 elements: the slack of their page is guarded by canaries.
fn small() -> Launch {
    launch(1, 101, vec![input(&ramp(100)), output(100), Given::Int(100)])
}

#[test]
fn an_overrun_by_one_is_found_by_a_canary_and_then_located() {
    let Some(bench) = bench() else { return };
    let cause = fails(&bench, "y[i] = 2.f;", &small(), Status::ContractViolation);
    let memory = cause.memory.unwrap();
    assert_eq!((memory.buffer.as_str(), memory.offset, memory.size), ("b1", 400, 400));
    assert_eq!(memory.place.unwrap().thread, [100, 0, 0]);
    let source = cause.source.unwrap();
    assert_eq!((source.file.as_str(), source.line), ("kernels/cand.cu", 3));
    assert!(cause.message.contains("past the end of"), "{}", cause.message);
}

#[test]
fn a_far_overrun_and_an_underrun_fault_at_once() {
    let Some(bench) = bench() else { return };
    let cause = fails(&bench, "y[i + 5000] = 2.f;", &small(), Status::ContractViolation);
    assert_eq!(cause.memory.unwrap().offset, 20000);
    assert!(cause.message.contains("out of bounds: write"), "{}", cause.message);
    let cause = fails(&bench, "y[i - 1] = 2.f;", &small(), Status::ContractViolation);
    assert_eq!(cause.memory.unwrap().offset, -4);
    assert!(cause.message.contains("before the start of"), "{}", cause.message);
    let cause = fails(&bench, "if (i < n) y[i] = x[i * 4000];", &small(), Status::ContractViolation);
    assert!(cause.message.contains("out of bounds: read"), "{}", cause.message);
    assert_eq!(cause.memory.unwrap().place.unwrap().thread, [1, 0, 0]);
}

#[test]
fn a_write_to_an_input_is_a_contract_violation() {
    let Some(bench) = bench() else { return };
    let body = "if (i == 7) const_cast<float*>(x)[i] = 0.f;";
    let cause = fails(&bench, body, &small(), Status::ContractViolation);
    assert!(cause.message.contains("modified"), "{}", cause.message);
    let memory = cause.memory.unwrap();
    assert_eq!((memory.buffer.as_str(), memory.offset), ("b0", 28));
}

#[test]
fn an_address_in_no_buffer_is_an_illegal_address() {
    let Some(bench) = bench() else { return };
    for body in ["*(volatile float*)0 = 1.f;", "if (i == 3) *reinterpret_cast<volatile float*>(0x10) = 1.f;"]
    {
        let cause = fails(&bench, body, &small(), Status::RuntimeError);
        assert_eq!(cause.fault, Some(FaultKind::IllegalAddress));
        assert!(cause.message.contains("illegal address"), "{}", cause.message);
        assert_eq!(cause.source.unwrap().line, 3);
    }
}

#[test]
fn an_endless_kernel_is_ended_at_its_limit() {
    let Some(bench) = bench() else { return };
    let mut shape = small();
    shape.limit = 300;
    let cause = fails(&bench, "volatile int go = 1; while (go) {}", &shape, Status::Timeout);
    assert!(cause.message.contains("time limit"), "{}", cause.message);
}

#[test]
fn divergent_barriers_are_reported_with_counts_and_line() {
    let Some(bench) = bench() else { return };
    let body = "if (i % 2) { __syncthreads(); } else {\n__syncthreads(); }\nif (i < n) y[i] = 1.f;";
    let cause = fails(&bench, body, &small(), Status::RuntimeError);
    assert_eq!(cause.fault, Some(FaultKind::BarrierDivergence));
    assert!(cause.message.contains("101 of 101"), "{}", cause.message);
    let body = "if (i < 40) __syncthreads(); else __shfl_sync(0xffffffffu, 1, 0);\nif (i < n) y[i] = 1.f;";
    let cause = fails(&bench, body, &small(), Status::RuntimeError);
    assert!(cause.message.contains("deadlock"), "{}", cause.message);
    assert_eq!(cause.source.unwrap().line, 3);
}

#[test]
fn reading_shared_memory_before_writing_gives_poison() {
    let Some(bench) = bench() else { return };
    let source = "extern \"C\" __global__ void f(float* y) { __shared__ float s[256]; y[threadIdx.x] = s[255 - threadIdx.x] + y[threadIdx.x] * 0.f; s[threadIdx.x] = 1.f; }";
    let given = vec![Given::Inout(vec![0; 1024])];
    let out = bench.run(source, "f", &launch(1, 256, given)).unwrap();
    let values = crate::bench::floats(&out[0]);
    assert!(values[..128].iter().all(|v| v.is_nan()), "{values:?}");
}

#[test]
fn an_overrun_of_dynamic_shared_memory_is_named() {
    let Some(bench) = bench() else { return };
    let source = "extern \"C\" __global__ void f(float* y) {\nextern __shared__ float s[];\ns[threadIdx.x] = 1.f;\ny[threadIdx.x] = s[threadIdx.x]; }";
    let mut shape = launch(1, 65, vec![output(65)]);
    shape.shared_bytes = 256;
    let failure = bench.run(source, "f", &shape).unwrap_err();
    let cause = failure.outcome.cause.unwrap();
    assert!(cause.message.contains("dynamic shared memory of 256 bytes"), "{}", cause.message);
    assert_eq!(cause.source.unwrap().line, 3);
}

#[test]
fn other_faults_have_their_names() {
    let Some(bench) = bench() else { return };
    let cases = [
        ("y[0] = n / (n - 100);", FaultKind::ArithmeticException),
        ("__trap();", FaultKind::Trap),
        ("exit(0);", FaultKind::ForbiddenCall),
        ("volatile char big[600000]; big[i] = 1; y[0] = big[i];", FaultKind::StackOverflow),
    ];
    for (body, fault) in cases {
        let cause = fails(&bench, body, &small(), Status::RuntimeError);
        assert_eq!(cause.fault, Some(fault), "{body}: {cause:?}");
    }
}

#[test]
fn launches_that_no_gpu_would_take_are_refused_before_they_run() {
    let Some(bench) = bench() else { return };
    let mut shape = small();
    shape.block = [2048, 1, 1];
    let cause = fails(&bench, "", &shape, Status::LaunchError);
    assert!(cause.message.contains("2048 threads") && cause.message.contains("1024"), "{}", cause.message);
    let mut shape = small();
    shape.grid = [0, 1, 1];
    fails(&bench, "", &shape, Status::LaunchError);
    let mut shape = small();
    shape.shared_bytes = 1 << 20;
    let cause = fails(&bench, "", &shape, Status::UnsupportedOnDevice);
    assert!(cause.message.contains("1048576") && cause.message.contains("232448"), "{}", cause.message);
    let mut shape = small();
    shape.arguments.pop();
    let cause = fails(&bench, "", &shape, Status::LaunchError);
    assert!(cause.message.contains("3 parameters"), "{}", cause.message);
    let mut shape = small();
    shape.arguments[1] = Given::Out(65 << 20);
    fails(&bench, "", &shape, Status::OutOfMemory);
}

#[test]
fn an_overrun_by_a_vector_is_located_too() {
    let Some(bench) = bench() else { return };
    // 99 floats: the end of the buffer is no place for an aligned vector of four.
    let mut shape = launch(1, 26, vec![input(&ramp(99)), output(99), Given::Int(99)]);
    shape.limit = 10_000;
    let body = "((float4*)y)[i] = make_float4(1, 2, 3, x[i]);";
    let cause = fails(&bench, body, &shape, Status::ContractViolation);
    let memory = cause.memory.unwrap();
    assert!((396..416).contains(&memory.offset), "{memory:?}");
}

#[test]
fn every_checked_launch_sees_its_own_buffers_and_a_worker_can_be_prepared_again() {
    let Some(bench) = bench() else { return };
    let source = "extern \"C\" __global__ void f(const float* x, float* y, int n) { int i = threadIdx.x; if (i < n) y[i] = 2.f * x[i]; }";
    let artefact = bench.compile(source, "f", None).unwrap();
    let mut worker = bench.worker(&artefact, 10_000).unwrap();
    for size in [10usize, 1000, 5] {
        let values = ramp(size);
        let shape = launch(1, 1000, vec![input(&values), output(size), Given::Int(size as i32)]);
        let out = crate::bench::evaluate(worker.as_mut(), "f", &shape).unwrap();
        let expected: Vec<f32> = values.iter().map(|v| v * 2.0).collect();
        assert_eq!(crate::bench::floats(&out[1]), expected);
    }
    worker.finish();
}
