//! The CUDA backend with a real NVRTC and, where there is one, a real device. `MUSTER_NVRTC` names the compiler; without
//! one, or without a device, a test says that it was skipped and why.

#![expect(clippy::unwrap_used, reason = "a test's helper fails the test by panicking")]

mod compile;

use agent_node::backend::conformance::{Bed, Verdict, check};
use agent_node::backend::cuda::{CudaBackend, STANDBY};
use agent_node::backend::{
    Artefact, Backend, CompileRequest, EntryPoint, Failure, Interrupt, Portability, Sources, WorkerOptions,
};
use agent_node::clock::monotonic;
use agent_node::sandbox::{Confinement, Level, probe, set_launcher};
use fleet_config::domain::{DeviceId, MeasurementPolicy, Milliseconds, Status, UnsupportedReason};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const SAXPY: &str = r#"
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"#;
const SIGNATURE: &str = "extern \"C\" __global__ void saxpy(float a, const float* x, float* y, int n)";

struct Bench {
    backend: CudaBackend,
    confinement: Confinement,
    folder: TempDir,
}

fn bench() -> Bench {
    set_launcher(env!("CARGO_BIN_EXE_muster-node").into());
    let confinement = match probe().missing(Level::Kernel) {
        None => Confinement::Required,
        Some(missing) => {
            println!("without a sandbox: {missing}");
            Confinement::UnsafeNone
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let backend = CudaBackend::discover(&folder.path().join("cache"), confinement, STANDBY);
    Bench { backend, confinement, folder }
}

/// The bench, if it has a compiler.
fn with_compiler(test: &str) -> Option<Bench> {
    let bench = bench();
    match bench.backend.compiler() {
        Ok(path) => println!("{test}: {}", path.display()),
        Err(reason) => {
            assert!(std::env::var_os("MUSTER_NVRTC").is_none(), "the named NVRTC cannot be used: {reason}");
            println!("SKIPPED {test}: {reason}");
            return None;
        }
    }
    Some(bench)
}

impl Bench {
    fn request(
        &self,
        name: &str,
        source: &str,
        entries: &[(&str, Option<&str>)],
        architecture: &str,
    ) -> CompileRequest {
        let folder = self.folder.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let entry = |(name, signature): &(&str, Option<&str>)| EntryPoint {
            name: (*name).to_owned(),
            signature: signature.map(str::to_owned),
        };
        CompileRequest {
            sources: Sources {
                main: "kernel.cu".to_owned(),
                files: BTreeMap::from([("kernel.cu".to_owned(), source.as_bytes().to_vec())]),
            },
            headers: Vec::new(),
            entries: entries.iter().map(entry).collect(),
            architecture: architecture.parse().unwrap(),
            policy: MeasurementPolicy::gpu_paired(),
            limit: Milliseconds(60_000),
            folder,
            confinement: self.confinement,
            interrupt: Interrupt::never(),
        }
    }
    fn compile(
        &self,
        name: &str,
        source: &str,
        entries: &[(&str, Option<&str>)],
    ) -> Result<Artefact, Failure> {
        self.backend.compile(&self.request(name, source, entries, "nvidia:sm_90a"))
    }
    fn status(&self, name: &str, source: &str, entries: &[(&str, Option<&str>)]) -> (Status, Failure) {
        let failure = self.compile(name, source, entries).unwrap_err();
        (failure.outcome.status, failure)
    }
}

fn message(failure: &Failure) -> &str {
    failure.outcome.cause.as_ref().map_or("", |cause| &cause.message)
}

#[test]
fn a_kernel_compiles_for_each_architecture_and_is_kept_by_key() {
    let Some(bench) = with_compiler("compile") else { return };
    let mut keys = Vec::new();
    for architecture in ["nvidia:sm_80", "nvidia:sm_90a", "nvidia:sm_100a", "nvidia:sm_120a"] {
        let request = bench.request(
            architecture.split_once(':').unwrap().1,
            SAXPY,
            &[("saxpy", Some(SIGNATURE))],
            architecture,
        );
        let artefact =
            bench.backend.compile(&request).unwrap_or_else(|failure| panic!("{architecture}: {failure:?}"));
        assert_eq!(artefact.portability, Portability::Architecture);
        assert!(artefact.compiler.starts_with("NVRTC 1"), "{}", artefact.compiler);
        assert!(artefact.resources["saxpy.registers"] > 0, "{:?}", artefact.resources);
        assert_eq!(artefact.resources["saxpy.spill_store_bytes"], 0);
        assert!(artefact.flags.contains(&format!("-arch={}", architecture.split_once(':').unwrap().1)));
        let bytes = std::fs::read(&artefact.path).unwrap();
        assert_eq!(bytes.len() as u64, artefact.blob.size);
        keys.push(artefact.key);
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 4);
}

#[test]
fn the_same_source_gives_the_same_bytes_in_another_folder_and_cache() {
    let (Some(one), Some(other)) = (with_compiler("repeat"), with_compiler("repeat")) else { return };
    let entries = [("saxpy", Some(SIGNATURE))];
    let (one, other) =
        (one.compile("a", SAXPY, &entries).unwrap(), other.compile("elsewhere", SAXPY, &entries).unwrap());
    assert_eq!((one.key, one.blob, &one.log), (other.key, other.blob, &other.log));
}

#[test]
fn what_is_wrong_with_a_source_is_told_by_its_status_and_place() {
    let Some(bench) = with_compiler("errors") else { return };
    let (status, failure) =
        bench.status("syntax", "extern \"C\" __global__ void f() {\n    nothing = 1;\n}\n", &[("f", None)]);
    assert_eq!(status, Status::CompileError, "{failure:?}");
    let place = failure.outcome.cause.as_ref().unwrap().source.clone().unwrap();
    assert_eq!((place.file.as_str(), place.line), ("kernel.cu", 2));
    assert!(!failure.log.unwrap().is_empty());

    let other = "extern \"C\" __global__ void saxpy(double a, const float* x, float* y, int n)";
    let (status, failure) = bench.status("signature", SAXPY, &[("saxpy", Some(other))]);
    assert_eq!(status, Status::Rejected, "{failure:?}");
    assert!(message(&failure).contains("signature of `saxpy`"), "{failure:?}");

    let qualified =
        "extern \"C\" __global__ void saxpy(float a, float* __restrict__ x, float* const y, const int n)";
    assert!(bench.compile("qualified", SAXPY, &[("saxpy", Some(qualified))]).is_ok());

    let (status, failure) = bench.status("missing", SAXPY, &[("product", None)]);
    assert_eq!(status, Status::Rejected, "{failure:?}");
    let (status, failure) =
        bench.status("device", "__device__ int helper(int x) { return x; }", &[("helper", None)]);
    assert_eq!(status, Status::Rejected, "{failure:?}");

    let huge = "extern \"C\" __global__ void f(float* y) { __shared__ float big[100000]; big[threadIdx.x] = y[0]; __syncthreads(); y[0] = big[threadIdx.x ^ 1]; }";
    let (status, failure) = bench.status("shared", huge, &[("f", None)]);
    assert_eq!(status, Status::UnsupportedOnDevice, "{failure:?}");
    assert_eq!(failure.outcome.cause.unwrap().unsupported, Some(UnsupportedReason::SharedMemory));

    let mut request = bench.request("nul", "int x;\0", &[("f", None)], "nvidia:sm_90a");
    assert_eq!(bench.backend.compile(&request).unwrap_err().outcome.status, Status::Rejected);
    request = bench.request("flag", SAXPY, &[("saxpy", None)], "nvidia:sm_90a");
    request.policy.compiler_flags.push("-I/etc".to_owned());
    assert_eq!(bench.backend.compile(&request).unwrap_err().outcome.status, Status::Rejected);
}

#[test]
fn an_architecture_that_the_compiler_does_not_know_is_unsupported() {
    let Some(bench) = with_compiler("architecture") else { return };
    for architecture in ["nvidia:sm_999", "nvidia:sm_90z", "amd:gfx942"] {
        let request = bench.request("unknown", SAXPY, &[("saxpy", None)], architecture);
        let outcome = bench.backend.compile(&request).unwrap_err().outcome;
        assert_eq!(outcome.status, Status::UnsupportedOnDevice, "{architecture}: {outcome:?}");
        assert_eq!(outcome.cause.unwrap().unsupported, Some(UnsupportedReason::Toolchain));
    }
}

#[test]
fn templates_byte_order_marks_and_included_files_compile() {
    let Some(bench) = with_compiler("sources") else { return };
    let source = "\u{feff}#include \"inner/scale.cuh\"\r\n#include \"given.cuh\"\r\ntemplate <class T> __global__ void twice(T* x) { x[threadIdx.x] *= scale() * GIVEN; }\r\n";
    let mut request = bench.request("template", source, &[("twice<float>", None)], "nvidia:sm_90a");
    request
        .sources
        .files
        .insert("inner/scale.cuh".to_owned(), b"__device__ inline float scale() { return 2; }".to_vec());
    let given = BTreeMap::from([("given.cuh".to_owned(), b"#define GIVEN 1.0f".to_vec())]);
    request.headers.push(Sources { main: "given.cuh".to_owned(), files: given });
    let artefact = bench.backend.compile(&request).unwrap_or_else(|failure| panic!("{failure:?}"));
    assert!(artefact.resources.keys().any(|name| name.ends_with(".registers")), "{:?}", artefact.resources);
}

#[test]
fn a_file_outside_the_tree_cannot_be_included() {
    let Some(bench) = with_compiler("secret") else { return };
    if bench.confinement == Confinement::UnsafeNone {
        println!("SKIPPED: there is no sandbox here");
        return;
    }
    let secret = bench.folder.path().join("secret.h");
    std::fs::write(&secret, "#define SECRET planted_word\n").unwrap();
    let source = format!(
        "#include \"{}\"\nextern \"C\" __global__ void f(int* y) {{ y[0] = SECRET; }}\n",
        secret.display()
    );
    let (status, failure) = bench.status("thief", &source, &[("f", None)]);
    assert_eq!(status, Status::CompileError, "{failure:?}");
    assert!(!String::from_utf8_lossy(&failure.log.clone().unwrap()).contains("planted_word"), "{failure:?}");
}

#[test]
fn a_compilation_that_does_not_end_is_stopped() {
    let Some(bench) = with_compiler("endless") else { return };
    let source = "template <int N> struct T { static const int v = T<N - 1>::v + T<N - 2>::v; };\n\
                  constexpr int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n\
                  extern \"C\" __global__ void g(int* y) { constexpr int x = f(60); y[0] = x; }\n";
    let mut request = bench.request("endless", source, &[("g", None)], "nvidia:sm_90a");
    request.limit = Milliseconds(500);
    let status = bench.backend.compile(&request).unwrap_err().outcome.status;
    // The compiler may give up by itself before the limit on a fast machine.
    assert!(matches!(status, Status::CompileTimeout | Status::CompileError), "{status}");
}

#[test]
fn a_broken_library_is_told_and_nothing_panics() {
    let bench = bench();
    let library = bench.folder.path().join("libnvrtc.so.13");
    std::fs::write(&library, b"not a library").unwrap();
    let arguments = ["compile", "--arch", "sm_90a", "--json"];
    let source = bench.folder.path().join("kernel.cu");
    std::fs::write(&source, SAXPY).unwrap();
    let output = muster_node(
        bench.folder.path(),
        &library,
        &[arguments.as_slice(), &[source.to_str().unwrap()]].concat(),
    );
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("libnvrtc.so.13") && !text.contains("panicked"), "{text}");
}

#[test]
fn offline_compiling_prints_a_row_for_each_architecture() {
    let Some(bench) = with_compiler("offline") else { return };
    let library = bench.backend.compiler().unwrap().to_owned();
    let source = bench.folder.path().join("kernel.cu");
    std::fs::write(&source, SAXPY).unwrap();
    let mut arguments = vec!["compile", source.to_str().unwrap(), "--arch", "sm_90a,sm_100a", "--json"];
    if bench.confinement == Confinement::UnsafeNone {
        arguments.push("--unsafe-no-sandbox");
    }
    let output = muster_node(bench.folder.path(), &library, &arguments);
    assert!(output.status.success(), "{output:?}");
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = rows["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["resources"]["saxpy.registers"].as_u64() > Some(0)), "{rows:?}");
    assert!(Path::new(rows[0]["cubin"].as_str().unwrap()).is_file());
}

#[expect(clippy::disallowed_methods, reason = "a test runs the binary as its user would")]
fn muster_node(cache: &Path, nvrtc: &Path, arguments: &[&str]) -> std::process::Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_muster-node"))
        .args(arguments)
        .env("MUSTER_NVRTC", nvrtc)
        .env("XDG_CACHE_HOME", cache)
        .output()
        .unwrap()
}

#[test]
fn a_cancelled_compilation_ends_at_once() {
    let Some(bench) = with_compiler("cancel") else { return };
    // The compiler's own digests are taken with the first compilation.
    bench.compile("warm", SAXPY, &[("saxpy", None)]).unwrap();
    // Thousands of kernels with long bodies: many seconds of honest work, on any machine.
    let slow: String = (0..4000)
        .map(|at| {
            format!(
                "extern \"C\" __global__ void k{at}(float* x) {{ x[1] = powf(x[0], sinf(x[2])) + {at}; }}\n"
            )
        })
        .collect();
    let mut request = bench.request("slow", &slow, &[("k0", None)], "nvidia:sm_90a");
    let start = monotonic();
    let after = Duration::from_millis(500);
    request.interrupt = Interrupt::when(move || monotonic().saturating_sub(start) > after);
    let failure = bench.backend.compile(&request).unwrap_err();
    let took = monotonic().saturating_sub(start);
    assert_eq!(failure.outcome.status, Status::Infrastructure, "{failure:?}");
    assert!(message(&failure).contains("cancelled"), "{failure:?}");
    assert!(took < after + Duration::from_secs(2), "{took:?}");
}

#[test]
fn without_a_driver_there_is_no_device_and_a_reason() {
    let bench = bench();
    if !bench.backend.devices().is_empty() {
        println!("SKIPPED: this machine has a device");
        return;
    }
    let reason = bench.backend.absence().unwrap();
    assert!(!reason.is_empty() && !reason.contains("panicked"), "{reason}");
    println!("{reason}");
    let artefact = Artefact {
        path: bench.folder.path().join("none.cubin"),
        blob: fleet_config::domain::BlobRef::of(b""),
        key: fleet_config::domain::Digest([0; 32]),
        compiler: String::new(),
        flags: Vec::new(),
        log: String::new(),
        resources: BTreeMap::new(),
        portability: Portability::Architecture,
        main: String::new(),
    };
    let options = WorkerOptions {
        folder: bench.folder.path().to_owned(),
        confinement: bench.confinement,
        launch_limit: Milliseconds(1000),
        memory: 1 << 20,
        interrupt: Interrupt::never(),
    };
    let failure = bench.backend.open(&DeviceId("GPU-none".to_owned()), &artefact, &options).err().unwrap();
    assert_eq!(failure.outcome.status, Status::Infrastructure);
    assert!(
        bench
            .backend
            .volatile(&DeviceId("GPU-none".to_owned()))
            .values()
            .all(|fact| !format!("{fact:?}").is_empty())
    );
}

#[test]
fn every_device_passes_the_conformance_suite() {
    let Some(bench) = with_compiler("conformance") else { return };
    if let Some(reason) = bench.backend.absence() {
        println!("SKIPPED: {reason}");
        return;
    }
    for device in bench.backend.devices() {
        let folder = bench.folder.path().join(device.id.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        let bed =
            Bed { backend: &bench.backend, device: &device, folder: &folder, confinement: bench.confinement };
        for finding in check(&bed) {
            println!("{}: {}: {:?}", device.id, finding.check, finding.verdict);
            assert!(!matches!(finding.verdict, Verdict::Failed(_)), "{finding:?}");
        }
    }
}
