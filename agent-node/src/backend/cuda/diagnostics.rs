//! What NVRTC's and ptxas' log says: the first error with its place, and the resources of each kernel.

use crate::backend::signature::{GLUE_FILE, SIGNATURE_MARK};
use fleet_config::domain::{SourcePlace, UnsupportedReason};
use std::collections::BTreeMap;

/// What went wrong, as far as the log tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Diagnosis {
    Signature { kernel: String },
    EntryMissing { message: String },
    Unsupported { reason: UnsupportedReason, message: String, hint: &'static str, place: Option<SourcePlace> },
    Error { message: String, place: Option<SourcePlace> },
}

/// The name that NVRTC gives to the lines in which it looks name expressions up.
const NAME_FILE: &str = "__nv_name_map";

/// Headers that come with the toolkit and not with NVRTC: their absence is the node's, not the candidate's.
const TOOLKIT_HEADERS: [&str; 17] = [
    "cuda_fp16.h",
    "cuda_bf16.h",
    "cuda_fp8.h",
    "cuda_fp6.h",
    "cuda_fp4.h",
    "cuda_pipeline.h",
    "cuda_runtime.h",
    "mma.h",
    "cooperative_groups.h",
    "cooperative_groups/",
    "cuda/",
    "crt/",
    "cub/",
    "nv/",
    "thrust/",
    "cuda.h",
    "cuda_awbarrier.h",
];

/// The first error of a failed compilation.
pub(super) fn diagnose(log: &str) -> Diagnosis {
    for line in log.lines() {
        let Some((place, message)) = error_line(line) else { continue };
        if let Some((_, rest)) = message.split_once(SIGNATURE_MARK) {
            let kernel = rest.split('|').next().unwrap_or("").to_owned();
            return Diagnosis::Signature { kernel };
        }
        if place.as_ref().is_some_and(|place| place.file == GLUE_FILE || place.file == NAME_FILE)
            || is_name_expression(message)
        {
            return Diagnosis::EntryMissing { message: message.to_owned() };
        }
        return classify(message, place);
    }
    let first = log.lines().map(str::trim).find(|line| !line.is_empty());
    let message = first.unwrap_or("the compiler gave no message").to_owned();
    if is_name_expression(&message) {
        return Diagnosis::EntryMissing { message };
    }
    Diagnosis::Error { message, place: None }
}

fn is_name_expression(message: &str) -> bool {
    message.contains("name expression")
}

fn classify(message: &str, place: Option<SourcePlace>) -> Diagnosis {
    if message.contains("uses too much shared data") {
        return Diagnosis::Unsupported {
            reason: UnsupportedReason::SharedMemory,
            message: message.to_owned(),
            hint: "use less static shared memory, or ask for dynamic shared memory in the launch plan",
            place,
        };
    }
    let header = message
        .split_once("could not open source file")
        .or_else(|| message.split_once("cannot open source file"));
    if let Some((_, rest)) = header {
        let name = rest.split('"').nth(1).unwrap_or("");
        if TOOLKIT_HEADERS
            .iter()
            .any(|known| name == *known || (known.ends_with('/') && name.starts_with(known)))
        {
            return Diagnosis::Unsupported {
                reason: UnsupportedReason::Header,
                message: format!("this node has no headers of the CUDA toolkit beside NVRTC: `{name}`"),
                hint: "install the toolkit's headers on the compiling node",
                place,
            };
        }
    }
    Diagnosis::Error { message: message.to_owned(), place }
}

/// Place and message of `file(line): error: message`, with an error number or the word `catastrophic` in between; also
/// `ptxas error   : message`.
fn error_line(line: &str) -> Option<(Option<SourcePlace>, &str)> {
    // What ptxas says about errors is indented in some versions.
    if let Some(rest) = line.trim_start().strip_prefix("ptxas ") {
        let (head, message) = rest.split_once(':')?;
        // `application ptx input, line 23; error`: that line is one of the PTX, which nobody sees.
        let kind = head.rsplit(';').next().unwrap_or(head).trim();
        let is_error = matches!(kind, "error" | "fatal");
        return is_error.then(|| (None, message.trim()));
    }
    let at = ["): error", "): catastrophic error"].iter().filter_map(|mark| line.find(mark)).min();
    let Some(at) = at else {
        let message = line.strip_prefix("nvrtc: error:").or_else(|| line.strip_prefix("error:"))?;
        return Some((None, message.trim()));
    };
    let (head, rest) = (line.get(..at)?, line.get(at + 3..)?);
    let (file, number) = head.rsplit_once('(')?;
    let (_, message) = rest.split_once(": ").unwrap_or(("", rest));
    let place = number.parse().ok().map(|line| SourcePlace { file: file.to_owned(), line, column: 0 });
    Some((place, message.trim()))
}

/// What ptxas says that each function uses (`--ptxas-options=-v`): registers, bytes of spills, stack and static shared
/// memory, barriers. Names are `<symbol>.<what>`; the plain name is the largest of all.
pub(super) fn said(log: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let (mut entry, mut function) = (String::new(), String::new());
    let mut put = |owner: &str, what: &str, value: u64| {
        let largest = found.entry(what.to_owned()).or_insert(0);
        *largest = value.max(*largest);
        if !owner.is_empty() {
            found.insert(format!("{owner}.{what}"), value);
        }
    };
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            entry = rest.split('\'').next().unwrap_or("").to_owned();
        } else if let Some((_, rest)) = line.split_once("Function properties for ") {
            function = rest.trim().to_owned();
        } else if line.contains("bytes stack frame") {
            for part in line.split(',') {
                let value = number(part);
                for (text, what) in [
                    ("bytes stack frame", "stack_bytes"),
                    ("bytes spill stores", "spill_store_bytes"),
                    ("bytes spill loads", "spill_load_bytes"),
                ] {
                    if let (true, Some(value)) = (part.contains(text), value) {
                        put(&function, what, value);
                    }
                }
            }
        } else if let Some((_, rest)) = line.split_once(": Used ") {
            for part in rest.split(',') {
                let value = number(part.trim_start_matches(" used"));
                for (text, what) in
                    [("registers", "registers"), ("barriers", "barriers"), ("bytes smem", "shared_bytes")]
                {
                    if let (true, Some(value)) = (part.contains(text), value) {
                        put(&entry, what, value);
                    }
                }
            }
        }
    }
    found
}

/// The first number of a text.
fn number(text: &str) -> Option<u64> {
    text.split_whitespace().find_map(|word| word.parse().ok())
}

/// The log without what differs between two runs.
pub(super) fn steady(log: &str) -> String {
    let kept: Vec<&str> = log.lines().filter(|line| !line.contains("Compile time = ")).collect();
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VERBOSE: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'tiled' for 'sm_90a'
ptxas info    : Function properties for tiled
    512 bytes stack frame, 932 bytes spill stores, 1072 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 8256 bytes smem
ptxas info    : Compile time = 293.112 ms
ptxas info    : Compiling entry function 'plain' for 'sm_90a'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers";

    #[test]
    fn resources_are_read_per_kernel_and_as_the_largest() {
        let found = said(VERBOSE);
        for (name, value) in [
            ("tiled.registers", 64),
            ("tiled.spill_store_bytes", 932),
            ("tiled.spill_load_bytes", 1072),
            ("tiled.stack_bytes", 512),
            ("tiled.shared_bytes", 8256),
            ("plain.registers", 12),
            ("plain.spill_store_bytes", 0),
            ("registers", 64),
        ] {
            assert_eq!(found.get(name), Some(&value), "{name} in {found:?}");
        }
        assert_eq!(found.get("plain.shared_bytes"), None);
        assert!(!steady(VERBOSE).contains("Compile time"));
    }

    #[test]
    fn errors_carry_file_and_line() {
        let log = "kernel.cu(2): warning #177-D: variable unused\n\nkernel.cu(3): error: identifier \"x\" is undefined\n";
        let place = SourcePlace { file: "kernel.cu".to_owned(), line: 3, column: 0 };
        let message = "identifier \"x\" is undefined".to_owned();
        assert_eq!(diagnose(log), Diagnosis::Error { message, place: Some(place) });
        let numbered = "a/b.cuh(7): error #20: expected a \";\"";
        assert!(
            matches!(diagnose(numbered), Diagnosis::Error { place: Some(place), .. } if place.file == "a/b.cuh" && place.line == 7)
        );
        assert!(matches!(diagnose(""), Diagnosis::Error { place: None, .. }));
        let assembler = "ptxas application ptx input, line 49; error   : Unknown modifier '.x'\n";
        let message = "Unknown modifier '.x'".to_owned();
        assert_eq!(diagnose(assembler), Diagnosis::Error { message, place: None });
    }

    #[test]
    fn signature_entry_header_and_shared_memory_are_told_apart() {
        let signature = "muster-glue(3): error: static assertion failed with \"muster-signature|sum|\"";
        assert_eq!(diagnose(signature), Diagnosis::Signature { kernel: "sum".to_owned() });
        let missing = "muster-glue(3): error: identifier \"sum\" is undefined";
        assert!(matches!(diagnose(missing), Diagnosis::EntryMissing { .. }));
        let header = "k.cu(1): catastrophic error: cannot open source file \"cuda_fp16.h\"";
        assert!(matches!(diagnose(header), Diagnosis::Unsupported { reason: UnsupportedReason::Header, .. }));
        let own = "k.cu(1): catastrophic error: cannot open source file \"mine.h\"";
        assert!(matches!(diagnose(own), Diagnosis::Error { place: Some(_), .. }));
        let shared =
            " ptxas error   : Entry function 'f' uses too much shared data (0x20000 bytes, 0xc000 max)";
        assert!(matches!(
            diagnose(shared),
            Diagnosis::Unsupported { reason: UnsupportedReason::SharedMemory, .. }
        ));
    }

    proptest! {
        #[test]
        fn no_log_makes_the_reading_panic(log in ".{0,400}", cut in "(ptxas |a\\(|\\): error|Used |, ){0,12}") {
            for text in [&log, &cut] {
                let _ = (diagnose(text), said(text), steady(text));
            }
        }
    }
}
