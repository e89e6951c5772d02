//! What children that hold a candidate say: frames, control pages, reports, logs, files. All of it may be made up.

use super::repository::tagged;
use super::{Cursor, Target};
use agent_node::backend::cpu::intake::{self as cpu, FaultWords};
use agent_node::backend::cuda::intake as cuda;
use agent_node::job::bounded;
use fleet_config::domain::canonical::to_bytes;
use fleet_config::domain::{Outcome, Status};
use std::path::PathBuf;
use std::sync::OnceLock;

/// A frame may carry as many raw bytes as were asked for; the reader grows by chunks of four mebibytes.
pub(crate) const WORKER_FRAME: Target = Target::new("worker-frame", frame, frame_seeds).memory(12 << 20);
pub(crate) const WORKER_FAULT: Target = Target::new("worker-fault", fault, fault_seeds).length(128);
pub(crate) const SANITIZER: Target = Target::new("sanitizer", sanitizer, sanitizer_seeds);
pub(crate) const COMPILER_LOG: Target = Target::new("compiler-log", compiler_log, log_seeds);
pub(crate) const CUBIN: Target = Target::new("cubin", cubin, cubin_seeds).length(4096).memory(40 << 20);
pub(crate) const LINES: Target = Target::new("line-table", lines, line_seeds).length(65_536).memory(64 << 20);

/// Most bytes of an outcome: it goes into a record, and a record into an entry of 32 KiB.
const OUTCOME_MAX: usize = 16 << 10;

/// No report makes a candidate pass, and whatever it says fits a record.
fn lowers(outcome: &Outcome) {
    assert_ne!(outcome.status, Status::Ok);
    let bytes = to_bytes(&bounded(outcome.clone())).expect("an outcome has a canonical form");
    assert!(bytes.len() <= OUTCOME_MAX, "an outcome of {} bytes", bytes.len());
}

fn frame(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let kind = cursor.byte();
    let raw_max = u64::from(cursor.short());
    match kind % 3 {
        0 => {
            if let Some((steady, outcome)) = cuda::answer(cursor.rest(), raw_max) {
                assert!(steady, "a frame is another one when it is sent again");
                outcome.iter().for_each(lowers);
            }
        }
        1 => assert_ne!(cuda::order(cursor.rest(), raw_max), Some(false)),
        _ => drop(cuda::compiled(cursor.rest())),
    }
}

fn frame_seeds() -> Vec<Vec<u8>> {
    let message = |json: &str, raw: &[u8]| {
        let head =
            [b"MCW2".as_slice(), &(json.len() as u32).to_le_bytes(), &(raw.len() as u64).to_le_bytes()];
        [head.concat().as_slice(), json.as_bytes(), raw].concat()
    };
    let answers = [
        r#""done""#,
        r#"{"opened":{"floor_picoseconds":1300000,"flush_bytes":104857600}}"#,
        r#"{"launched":{"picoseconds":5000000}}"#,
        r#"{"fence":{"hit":{"buffer":1,"offset":-4}}}"#,
        r#"{"failed":{"phase":"run","call":"cuStreamSynchronize","code":700,"name":"CUDA_ERROR_ILLEGAL_ADDRESS"}}"#,
    ];
    let orders = [
        r#"{"open":{"device":"GPU-1","cache":"flushed"}}"#,
        r#"{"prepare":{"seat":"first","buffers":[16],"steps":[{"memset":{"buffer":0,"byte":1}}],"seed":7}}"#,
        r#"{"gather":{"seat":"second","buffer":0,"pieces":[{"offset":8,"bytes":4}]}}"#,
    ];
    let with = |kind: u8, bytes: Vec<u8>| [&[kind, 255, 0][..], &bytes].concat();
    let mut seeds: Vec<Vec<u8>> = answers.iter().map(|json| with(0, message(json, b"raw"))).collect();
    seeds.extend(orders.iter().map(|json| with(1, message(json, b""))));
    seeds.push(with(2, br#"{"compiled":{"log":"ptxas info","symbols":["f"]}}"#.to_vec()));
    seeds
}

fn fault(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let choice = cursor.byte();
    let mut address = || match cursor.byte() % 4 {
        // Near an edge of the address space, or near another address.
        0 => u64::MAX - u64::from(cursor.byte()),
        1 => u64::from(cursor.short()),
        2 => (1 << 30) + u64::from(cursor.short()) * 64,
        _ => cursor.long(),
    };
    let (at, buffers, shared, stack, stack_pointer) =
        (address(), [address(), address()], [address(), address()], [address(), address()], address());
    let words = FaultWords {
        kind: if choice.is_multiple_of(2) { 100 } else { u32::from(choice / 2) },
        signal: *cursor.pick(&[11, 7, 8, 4, 5, 31, 6, 9, 0, -1, i32::MIN]),
        code: *cursor.pick(&[1, 0x80, 0, -1]),
        access: u32::from(cursor.byte() % 4),
        line: *cursor.pick(&[0, 1, u32::MAX]),
        detail: [*cursor.pick(&[0, 1, u32::MAX]), *cursor.pick(&[0, 1, u32::MAX])],
        address: at,
        buffers,
        shared,
        stack,
        stack_pointer,
    };
    lowers(&cpu::fault(words));
}

fn fault_seeds() -> Vec<Vec<u8>> {
    vec![
        vec![0; 40],
        vec![0, 2, 9, 0, 2, 8, 0, 2, 7, 0, 2, 1, 0, 2, 2, 0, 2, 3, 0, 2, 4, 0, 2, 5, 0],
        vec![1; 40],
    ]
}

fn sanitizer(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    cpu::report(&text).iter().for_each(lowers);
}

fn sanitizer_seeds() -> Vec<Vec<u8>> {
    let own = "muster-buffer 0 7f00 400\nmuster-buffer 1 9000 400\nmuster-place b1,0,0t2,3,0 shared 10 20\n";
    let reports = [
        "muster-stop 0 7 3 64\n",
        "==7==ERROR: AddressSanitizer: global-buffer-overflow on address 0x7f90 at pc 0x1 bp 0x2 sp 0x3\nWRITE of size 4 at 0x7f90 thread T0\n    #0 0x1 in f(int) /candidate/k.cu:3:4\n\n0x7f90 is located 4 bytes to the right of global variable 's' defined in 'k.cu:2:20' (0x5) of size 128\n",
        "==7==ERROR: AddressSanitizer: stack-buffer-overflow on address 0x1 at pc 0x1\nREAD of size 4\n    [32, 64) 'a' (line 2) <== Memory access at offset 64 overflows this variable\n",
        "==7==ERROR: AddressSanitizer: FPE on unknown address 0x5 (pc 0x5)\n    #0 0x5 in f headers0/k.cu:4\n",
        "/candidate/k.cu:3:34: runtime error: index 33 out of bounds for type 'float [33]'\n    #0 0x1 (/x/screen+0x12)\n",
        "==================\nWARNING: ThreadSanitizer: data race (pid=6)\n  Write of size 4 at 0x7f10 by thread T33:\n    #0 f(int) /candidate/k.cu:3:4 (screen+0x61)\n\n  Previous read of size 4 at 0x7f10 by thread T32:\n    #0 f(int) /candidate/k.cu:5 (screen+0x62)\n\n  Location is global 'f::s' of size 256 at 0x7f00 (screen+0x6170)\n\n  Thread T33 'b0,0,0t32,0,0' (tid=0, running) created by main thread at:\n  Thread T32 'b0,0,0t31,0,0' (tid=0, running) created by main thread at:\n==================\n",
    ];
    reports.iter().map(|report| format!("{own}{report}").into_bytes()).collect()
}

fn compiler_log(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    lowers(&cpu::log(&text));
    assert!(cuda::watched(&text).chars().all(|letter| !letter.is_control()), "a report is quoted");
    let (outcome, resources) = cuda::log(&text);
    lowers(&outcome);
    let bytes: usize = resources.keys().map(|name| name.len() + 20).sum();
    assert!(bytes <= 8 * text.len() + 400, "{bytes} bytes of resources from a log of {}", text.len());
}

fn log_seeds() -> Vec<Vec<u8>> {
    let logs = [
        "========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 4 bytes\n=========     at f+0x110 in k.cu:1\n=========     by thread (255,0,0) in block (0,0,0)\n=========     Access at 0x7f00 is out of bounds\n",
        "ptxas info    : Compiling entry function 'tiled' for 'sm_90a'\nptxas info    : Function properties for tiled\n    512 bytes stack frame, 932 bytes spill stores, 1072 bytes spill loads\nptxas info    : Used 64 registers, used 1 barriers, 8256 bytes smem\nptxas info    : Compile time = 293.112 ms\n",
        "k/a.cu(3): error #20: identifier \"x\" is undefined\nmuster-glue(3): error: static assertion failed with \"muster-signature|sum|\"\n",
        "k/a.cu(1): catastrophic error: cannot open source file \"cuda_fp16.h\"\n ptxas error   : Entry function 'f' uses too much shared data (0x20000 bytes, 0xc000 max)\n",
        "In file included from source/k/part.cuh:2,\n                 from source/k/cand.cu:1:\n/cache/shim/mma.h:1:2: error: #error muster-unsupported|matrix_unit|mma.h|elsewhere|\n",
        "/s/w.h: In instantiation of 'T x(T)':\nk/cand.cu:5:20:   required from here\n/s/w.h:9:3: error: static assertion failed: muster-unsupported|not_implemented_here|shuffle|h|\n",
        "k/cand.cu:3:28: error: expected ';' before '}' token\nmuster-glue:2:15: error: 'f' was not declared in this scope\n",
        "/tmp/ccX1.s: Assembler messages:\n/tmp/ccX1.s:12: Error: file not found: a.bin\nk.cu: undefined reference to `g'\n",
    ];
    logs.iter().map(|log| log.as_bytes().to_vec()).collect()
}

fn cubin(data: &[u8]) {
    let Ok(kernels) = cuda::kernels(data) else { return };
    assert!(kernels.iter().all(|(symbol, _)| symbol.len() <= data.len()));
}

/// A small cubin: header, a table of names, the attributes and the parameter bank of one kernel.
fn cubin_seeds() -> Vec<Vec<u8>> {
    let names = b"\0.shstrtab\0.nv.info.f\0.nv.constant0.f\0";
    let info = [0x04, 0x17, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0x03, 0x1b, 0xff, 0];
    let mut file = b"\x7fELF\x02\x01\x01\x33\x07\0\0\0\0\0\0\0".to_vec();
    file.extend([2, 0, 190, 0, 1, 0, 0, 0]);
    let start = 64 + names.len() as u64 + info.len() as u64;
    file.extend([0_u64, 0, start].map(u64::to_le_bytes).concat());
    file.extend([90, 5, 90, 0, 64, 0, 56, 0, 0, 0, 64, 0, 4, 0, 1, 0]);
    file.extend(names);
    file.extend(info);
    let section = |name: u32, kind: u32, offset: u64, size: u64| {
        [name.to_le_bytes(), kind.to_le_bytes()]
            .concat()
            .into_iter()
            .chain([0, 0, offset, size, 0, 1, 0].map(u64::to_le_bytes).concat())
            .collect::<Vec<u8>>()
    };
    file.extend(section(0, 0, 0, 0));
    file.extend(section(1, 3, 64, names.len() as u64));
    file.extend(section(11, 1, 64 + names.len() as u64, info.len() as u64));
    file.extend(section(22, 1, 64, 8));
    let mut later = file.clone();
    later[48..52].copy_from_slice(&[0, 90, 0, 8]);
    vec![file, later]
}

/// The file that line tables are read from: the artefact of a candidate, which its own initialisers cannot change but
/// its source decides.
fn lines(data: &[u8]) {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder"));
    let path: PathBuf = folder.path().join("artefact");
    std::fs::write(&path, data.get(2..).unwrap_or_default()).expect("a file can be written");
    let offset = data.iter().take(2).fold(0_u64, |offset, byte| offset * 256 + u64::from(*byte));
    for offset in [offset, 0x1eb, 0x1f0, u64::MAX] {
        if let Some((file, _)) = cpu::line(&path, offset) {
            assert!(file.len() <= data.len());
        }
    }
}

fn line_seeds() -> Vec<Vec<u8>> {
    vec![tagged(0, include_bytes!("../seeds/line-table"))]
}
