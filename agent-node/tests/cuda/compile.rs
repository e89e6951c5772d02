//! Compiling for architectures that are not here: what is said of each kernel, of errors, and of the compilers themselves.

use super::{Bench, SAXPY, message, muster_node, with_compiler};
use agent_node::backend::{Backend as _, Interrupt};
use fleet_config::domain::{Digest, FpContract, Status, UnsupportedReason};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const FIVE: &str = "sm_80,sm_89,sm_90a,sm_100a,sm_120a";

/// A kernel with static and dynamic shared memory, a barrier and launch bounds, and one that must spill.
const KERNELS: &str = r#"
extern "C" __global__ void __launch_bounds__(128) tile(float* x) {
    __shared__ float fixed[2064];
    extern __shared__ float asked[];
    fixed[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    asked[threadIdx.x] = fixed[127 - threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = asked[(threadIdx.x + 1) % 128];
}
extern "C" __global__ void __launch_bounds__(1024, 2) spill(float* x, int n) {
    float v[96];
    #pragma unroll
    for (int i = 0; i < 96; ++i) v[i] = x[i * 1024 + threadIdx.x];
    for (int k = 0; k < n; ++k) {
        #pragma unroll
        for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i + 37) % 96] + v[(i + 11) % 96];
    }
    #pragma unroll
    for (int i = 0; i < 96; ++i) x[i * 1024 + threadIdx.x] = v[i];
}
"#;

impl Bench {
    /// What `muster-node compile --json` answers, with its exit code.
    fn offline(&self, name: &str, source: &str, more: &[&str]) -> (i32, Value) {
        let path = self.folder.path().join(name);
        std::fs::write(&path, source).unwrap();
        let mut arguments = vec!["compile", "--json"];
        if self.confinement == agent_node::sandbox::Confinement::UnsafeNone {
            arguments.push("--unsafe-no-sandbox");
        }
        arguments.extend(more);
        arguments.push(path.to_str().unwrap());
        let library = std::env::var_os("MUSTER_NVRTC").map(Into::into);
        let library = library.unwrap_or_else(|| self.backend.compiler().unwrap().to_owned());
        let output = muster_node(self.folder.path(), &library, &arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {text}"));
        (output.status.code().unwrap(), answer)
    }
}

fn kernel<'a>(row: &'a Value, symbol: &str) -> &'a Value {
    let kernels = row["kernels"].as_array().unwrap();
    kernels.iter().find(|kernel| kernel["usage"]["symbol"] == symbol).unwrap_or_else(|| panic!("{row:#}"))
}

#[test]
fn five_architectures_say_what_each_kernel_uses_under_every_toolchain_that_is_here() {
    let Some(bench) = with_compiler("five architectures") else { return };
    let (toolchains, _) = bench.backend.toolchains().unwrap();
    for facts in &toolchains {
        println!("{} {} {}", facts.name, facts.library.display(), facts.digest);
        let pin = facts.digest.to_string();
        let (code, answer) = bench.offline(
            "kernels.cu",
            KERNELS,
            &["--arch", FIVE, "--toolchain", &pin, "--dynamic-shared", "512"],
        );
        assert_eq!(code, 0, "{answer:#}");
        let rows = answer["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 5);
        for row in rows {
            assert_eq!(row["toolchain"], pin.as_str());
            assert!(row["compiler"].as_str().unwrap().starts_with(&facts.name), "{row:#}");
            let tile = kernel(row, "tile");
            let usage = &tile["usage"];
            assert_eq!(
                (&usage["shared_bytes"], &usage["threads_max"]),
                (&8256.into(), &128.into()),
                "{row:#}"
            );
            assert_eq!((&usage["barriers"], &usage["spill_store_bytes"]), (&1.into(), &0.into()), "{row:#}");
            assert_eq!((&tile["threads"], &tile["threads_from"]), (&128.into(), &"assumed".into()));
            assert_eq!(tile["dynamic_shared_bytes"], 512);
            assert!(tile["occupancy"]["permille"].as_u64().unwrap() > 0, "{row:#}");
            let spill = &kernel(row, "spill")["usage"];
            // 64 Ki registers for two blocks of 1024 threads leave 32 to each thread. Where a multiprocessor holds no
            // two such blocks, the compiler need not save.
            let registers = spill["registers"].as_u64().unwrap();
            assert!((16..=64).contains(&registers), "{row:#}");
            for what in ["spill_store_bytes", "spill_load_bytes", "stack_bytes"] {
                assert!(spill[what].as_u64().unwrap() > 0, "{what}: {row:#}");
            }
            for what in ["constant_bytes", "parameter_bytes", "code_bytes"] {
                assert!(spill[what].as_u64().unwrap() > 0, "{what}: {row:#}");
            }
            assert_eq!(row["resources"]["spill.registers"], registers);
            let cubin = std::fs::read(row["cubin"].as_str().unwrap()).unwrap();
            assert_eq!(row["cubin_digest"], blake3_text(&cubin).as_str());
            assert_eq!(row["cubin_bytes"], cubin.len() as u64);
        }
        let distinct =
            |what: &str| rows.iter().map(|row| row[what].to_string()).collect::<BTreeSet<_>>().len();
        assert_eq!((distinct("cubin_digest"), distinct("key")), (5, 5));
    }
}

fn blake3_text(bytes: &[u8]) -> String {
    fleet_config::domain::BlobRef::of(bytes).blake3.to_string()
}

#[test]
fn an_architecture_that_lacks_an_instruction_says_the_line_and_the_others_compile() {
    let Some(bench) = with_compiler("assembly") else { return };
    let source = "__device__ __forceinline__ void fence() {\n    asm volatile(\"wgmma.fence.sync.aligned;\");\n}\n\
                  extern \"C\" __global__ void f(float* x) {\n    x[0] = 1;\n    fence();\n}\n";
    let (code, answer) = bench.offline("wgmma.cu", source, &["--arch", "sm_80,sm_90a"]);
    assert_eq!(code, 1, "{answer:#}");
    let rows = answer["rows"].as_array().unwrap();
    let outcome = &rows[0]["outcome"];
    assert_eq!(outcome["status"], "compile_error", "{answer:#}");
    let place = &outcome["cause"]["source"];
    assert_eq!((&place["file"], &place["line"]), (&"wgmma.cu".into(), &2.into()), "{answer:#}");
    assert!(
        outcome["cause"]["message"]
            .as_str()
            .unwrap()
            .contains("wgmma.cu:2: ptxas: Instruction 'wgmma.fence'")
    );
    assert_eq!(rows[1]["outcome"], Value::Null, "{answer:#}");
    let (code, answer) =
        bench.offline("syntax.cu", "extern \"C\" __global__ void f() {\n  nothing = 1;\n}\n", &[]);
    assert_eq!((code, answer["rows"].as_array().unwrap().len()), (1, 5));
    for row in answer["rows"].as_array().unwrap() {
        assert_eq!(row["outcome"]["cause"]["source"]["line"], 2, "{row:#}");
    }
}

#[test]
fn headers_of_the_toolkit_compile_where_they_are_and_are_named_where_they_are_not() {
    let Some(bench) = with_compiler("headers") else { return };
    let (toolchains, _) = bench.backend.toolchains().unwrap();
    let sources: BTreeMap<&str, &str> = BTreeMap::from([
        (
            "cuda_fp16.h",
            "#include <cuda_fp16.h>\nextern \"C\" __global__ void f(__half* x) { x[0] = __hadd(x[0], x[1]); }\n",
        ),
        (
            "cuda_bf16.h",
            "#include <cuda_bf16.h>\nextern \"C\" __global__ void f(__nv_bfloat16* x) { x[0] = __hadd(x[0], x[1]); }\n",
        ),
        (
            "mma.h",
            "#include <mma.h>\nextern \"C\" __global__ void f(half* a, float* c) { using namespace nvcuda::wmma; fragment<matrix_a, 16, 16, 16, half, row_major> x; fragment<matrix_b, 16, 16, 16, half, col_major> y; fragment<accumulator, 16, 16, 16, float> z; fill_fragment(z, 0.f); load_matrix_sync(x, a, 16); load_matrix_sync(y, a, 16); mma_sync(z, x, y, z); store_matrix_sync(c, z, 16, mem_row_major); }\n",
        ),
        (
            "cuda/std",
            "#include <cuda/std/type_traits>\nextern \"C\" __global__ void f(int* x) { x[0] = cuda::std::is_same<int, int>::value; }\n",
        ),
        (
            "cooperative_groups.h",
            "#include <cooperative_groups.h>\nextern \"C\" __global__ void f(int* x) { x[0] = cooperative_groups::this_thread_block().size(); }\n",
        ),
    ]);
    for facts in &toolchains {
        for (header, source) in &sources {
            let mut request = bench.request("header", source, &[("f", None)], "nvidia:sm_90a");
            request.policy = request.policy.with_toolchain(facts.digest);
            let made = bench.backend.compile(&request);
            println!("{} {header}: {}", facts.name, if made.is_ok() { "compiles" } else { "does not" });
            if facts.headers.contains(header) {
                assert!(made.is_ok(), "{} {header}: {made:?}", facts.name);
            } else {
                let outcome = made.unwrap_err().outcome;
                assert_eq!(
                    outcome.status,
                    Status::UnsupportedOnDevice,
                    "{} {header}: {outcome:?}",
                    facts.name
                );
                assert_eq!(outcome.cause.unwrap().unsupported, Some(UnsupportedReason::Header));
            }
        }
    }
}

#[test]
fn whoever_asks_for_a_key_that_is_being_compiled_waits_for_it() {
    let Some(bench) = with_compiler("one compilation") else { return };
    // Enough work that all of them ask before the first is done.
    let slow: String = (0..60)
        .map(|at| {
            format!(
                "extern \"C\" __global__ void k{at}(float* x) {{ x[1] = powf(x[0], sinf(x[2])) + {at}; }}\n"
            )
        })
        .collect();
    let requests: Vec<_> = (0..4)
        .map(|at| bench.request(&format!("at-once-{at}"), &slow, &[("k0", None)], "nvidia:sm_90a"))
        .collect();
    let (bench, blobs) = (&bench, std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for request in &requests {
            let blobs = &blobs;
            scope.spawn(move || {
                blobs.lock().unwrap().push({
                    let made = bench.backend.compile(request).unwrap_or_else(|failure| panic!("{failure:?}"));
                    (made.key, made.blob)
                })
            });
        }
    });
    let mut blobs = blobs.into_inner().unwrap();
    blobs.dedup();
    assert_eq!(blobs.len(), 1, "all have the same");
    let compiled = requests.iter().filter(|request| request.folder.join("order.json").exists()).count();
    assert_eq!(compiled, 1, "and one made it");
}

#[test]
fn who_waits_for_another_compilation_can_be_called_off() {
    let Some(bench) = with_compiler("called off") else { return };
    let mut request = bench.request("waiting", SAXPY, &[("saxpy", None)], "nvidia:sm_90a");
    let key = bench.backend.compile(&request).unwrap().key;
    let cubins = bench.folder.path().join("cache/cuda/cubins");
    std::fs::remove_file(cubins.join(format!("{key}.cubin"))).unwrap();
    let lock = cubins.join(format!("compiling-{:02x}.lock", key.0[0]));
    let held = std::fs::File::open(lock).unwrap();
    held.lock().unwrap();
    request.interrupt = Interrupt::when(|| true);
    let failure = bench.backend.compile(&request).unwrap_err();
    assert!(message(&failure).contains("cancelled"), "{failure:?}");
}

#[test]
fn flags_are_whitelisted_and_a_toolchain_can_be_pinned() {
    let Some(bench) = with_compiler("flags") else { return };
    let entries = [("saxpy", None)];
    let with = |flags: &[&str]| {
        let mut request = bench.request("flags", SAXPY, &entries, "nvidia:sm_90a");
        request.policy = request.policy.with_flags(flags.iter().map(|flag| (*flag).to_owned()).collect());
        request
    };
    let plain = bench.backend.compile(&with(&[])).unwrap();
    for flags in
        [&["-std=c++20"][..], &["--use_fast_math"], &["-lineinfo"], &["--use_fast_math", "-lineinfo"]]
    {
        let made =
            bench.backend.compile(&with(flags)).unwrap_or_else(|failure| panic!("{flags:?}: {failure:?}"));
        assert!(flags.iter().all(|flag| made.flags.iter().any(|given| given == flag)), "{:?}", made.flags);
        assert_ne!(made.key, plain.key, "{flags:?}");
    }
    for flag in ["-I/etc", "--include-path=/", "-rdc=true", "--use_fast_math=x", "-maxrregcount=16", ""] {
        let outcome = bench.backend.compile(&with(&[flag])).unwrap_err().outcome;
        assert_eq!(
            (outcome.status, outcome.cause.unwrap().code.as_str()),
            (Status::Rejected, "compile/flag"),
            "{flag}"
        );
    }
    let mut exact = with(&["--use_fast_math"]);
    exact.policy.fp_contract = FpContract::Off;
    assert_eq!(bench.backend.compile(&exact).unwrap_err().outcome.status, Status::Rejected);

    let mut pinned = with(&[]);
    pinned.policy = pinned.policy.with_toolchain(Digest([7; 32]));
    let outcome = bench.backend.compile(&pinned).unwrap_err().outcome;
    assert_eq!(outcome.status, Status::UnsupportedOnDevice);
    let cause = outcome.cause.unwrap();
    assert_eq!(
        (cause.code.as_str(), cause.unsupported),
        ("compile/toolchain-pinned", Some(UnsupportedReason::Toolchain))
    );
    assert!(cause.message.contains("070707070707") && cause.message.contains("NVRTC 1"), "{}", cause.message);
}

#[test]
fn the_digest_of_the_code_does_not_see_line_numbers() {
    let Some(bench) = with_compiler("code digest") else { return };
    let digest = |more: &[&str]| {
        let (code, answer) = bench.offline("kernel.cu", SAXPY, &[&["--arch", "sm_90a"], more].concat());
        assert_eq!(code, 0, "{answer:#}");
        let row = &answer["rows"][0];
        (row["code_digest"].clone(), row["cubin_digest"].clone())
    };
    let (plain, with_lines) = (digest(&[]), digest(&["--flag", "-lineinfo"]));
    assert_eq!(plain.0, with_lines.0);
    assert_ne!(plain.1, with_lines.1);
    assert_eq!(digest(&[]), plain, "the same again");
    assert!(plain.0.is_string());
}

#[test]
fn a_task_is_compiled_with_the_blocks_of_its_plan() {
    let Some(bench) = with_compiler("task") else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/sample");
    let tiled = root.join("candidates/tiled.cu");
    let arguments = [
        "--arch",
        "sm_89",
        "--task",
        root.to_str().unwrap(),
        "--candidate",
        tiled.to_str().unwrap(),
        "--json",
    ];
    let mut all = vec!["compile"];
    if bench.confinement == agent_node::sandbox::Confinement::UnsafeNone {
        all.push("--unsafe-no-sandbox");
    }
    all.extend(arguments);
    let output = muster_node(bench.folder.path(), bench.backend.compiler().unwrap(), &all);
    assert!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = answer["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["source"].as_str().unwrap()).collect();
    assert_eq!(names, ["reference", "baseline", "tiled"]);
    for row in rows {
        assert_eq!(row["kernels"][0]["threads_from"], "plan", "{row:#}");
        assert!(row["kernels"][0]["occupancy"]["warps"].as_u64().unwrap() > 0, "{row:#}");
    }
}

#[test]
fn nothing_to_compile_with_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("kernel.cu");
    std::fs::write(&source, SAXPY).unwrap();
    let nowhere = folder.path().join("nowhere");
    let output =
        muster_node(folder.path(), &nowhere, &["compile", "--arch", "sm_90a", source.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("no NVRTC was found") && text.contains("MUSTER_NVRTC"), "{text}");
}
