//! What a compiler's log means: a marker of the shim, the task's signature, or an error of the candidate.

use crate::backend::signature::{GLUE_FILE, SIGNATURE_MARK};
use fleet_config::domain::{SourcePlace, UnsupportedReason};

/// The verdict in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Diagnosis {
    /// The device lacks something; the candidate may be right.
    Unsupported { reason: UnsupportedReason, feature: String, hint: String, place: Option<SourcePlace> },
    /// The entry's type is not the task's.
    Signature { kernel: String },
    /// The plan names a kernel that the source lacks.
    EntryMissing { message: String },
    /// The first error.
    Error { message: String, place: Option<SourcePlace> },
}

/// How paths in a log turn into the paths that the submitter wrote.
pub(super) struct Names<'a> {
    /// The file that was compiled, as the submitter wrote it.
    pub main: &'a str,
    /// Last line of that file; errors beyond it are in the text appended here.
    pub main_lines: u32,
    /// The sources ask which GPU they are compiled for.
    pub asks_architecture: bool,
    /// Whether a relative path belongs to the source tree or to a header tree of the task.
    pub is_known: &'a dyn Fn(&str) -> bool,
}

/// Lines of a log that are read; compilers repeat themselves beyond.
const LINES_MAX: usize = 4000;
const MESSAGE_MAX: usize = 400;

/// The first cause in `log`. A marker wins over errors, which it may have caused.
pub(super) fn diagnose(log: &str, names: &Names<'_>) -> Diagnosis {
    let errors = errors(log, names);
    if let Some(found) = errors.iter().find_map(marker) {
        return found;
    }
    let first = errors.into_iter().next();
    let Some(first) = first else {
        // The assembler names a file of the compiler's own, by a name that is another one each time.
        let assembler =
            log.lines().find_map(|line| Some(line.split_once(".s:")?.1.split_once(": Error: ")?.1));
        let line =
            log.lines().find(|line| line.contains("undefined reference to")).or_else(|| log.lines().next());
        let text = match assembler {
            Some(error) => &format!("the assembler says: {error}"),
            None => line.map_or("the compiler failed without a message", linker_text),
        };
        return Diagnosis::Error { message: clip(text), place: None };
    };
    if let Some(found) = known_gap(&first) {
        return found;
    }
    if names.asks_architecture && first.message.starts_with("#error") {
        return Diagnosis::Unsupported {
            reason: UnsupportedReason::LaunchLimits,
            feature: clip(first.message.trim_start_matches("#error ").trim_matches('"')),
            hint: "the source refuses this architecture; offer it to an NVIDIA device class".to_owned(),
            place: first.place,
        };
    }
    if first.in_glue && first.place.is_none() && is_unknown_name(&first.message) {
        return Diagnosis::EntryMissing { message: clip(&first.message) };
    }
    let place = first.place.or_else(|| {
        first.in_glue.then(|| SourcePlace { file: names.main.to_owned(), line: names.main_lines, column: 0 })
    });
    Diagnosis::Error { message: clip(&first.message), place }
}

struct ErrorLine {
    message: String,
    place: Option<SourcePlace>,
    /// The place is that of an include, for want of a nearer one.
    included: bool,
    in_glue: bool,
}

/// Every error of the log with its place in the candidate, where it has one.
fn errors(log: &str, names: &Names<'_>) -> Vec<ErrorLine> {
    let mut errors: Vec<ErrorLine> = Vec::new();
    // The nearest place of the candidate in the chain of includes that leads to the next error, and in the chain of
    // templates, which is nearer.
    let (mut chain, mut required): (Option<SourcePlace>, Option<SourcePlace>) = (None, None);
    for line in log.lines().take(LINES_MAX) {
        if let Some(rest) =
            line.strip_prefix("In file included from ").or_else(|| line.trim_start().strip_prefix("from "))
        {
            let place = split_place(rest).and_then(|(path, line, column, _)| names.place(path, line, column));
            chain = if line.starts_with("In file") { place } else { chain.or(place) };
            continue;
        }
        let Some((path, number, column, rest)) = split_place(line) else { continue };
        let place = names.place(path, number, column);
        let rest = rest.trim_start();
        if let Some(message) = rest.strip_prefix("error: ").or_else(|| rest.strip_prefix("fatal error: ")) {
            let in_glue = path == GLUE_FILE;
            let near = place.or(required.take());
            let included = near.is_none();
            let place = near.or(chain.take());
            errors.push(ErrorLine { message: message.to_owned(), place, included, in_glue });
            (chain, required) = (None, None);
        } else if rest.contains("required from") || rest.contains("required by") {
            // GCC tells the chain of a template before the error, innermost first.
            required = required.or(place);
        } else if rest.starts_with("note: ")
            && let Some(last) = errors.last_mut()
            && !last.in_glue
            && place.is_some()
            && (last.place.is_none() || (last.included && rest.contains("in instantiation of")))
        {
            // clang tells it afterwards.
            last.place = place;
            last.included = false;
        }
    }
    errors
}

impl Names<'_> {
    fn place(&self, path: &str, line: u32, column: u32) -> Option<SourcePlace> {
        let mut file = path.trim_start_matches("./");
        // The folders that the compiler's input lies in; `headers` has a number behind it.
        if let Some(rest) = file.strip_prefix("source/") {
            file = rest;
        } else if let Some((_, rest)) = file.strip_prefix("headers").and_then(|rest| rest.split_once('/')) {
            file = rest;
        }
        (self.is_known)(file).then(|| SourcePlace { file: file.to_owned(), line, column })
    }
}

/// `path:line:column: rest` or `path:line: rest`.
fn split_place(line: &str) -> Option<(&str, u32, u32, &str)> {
    let (path, rest) = line.split_once(':')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number: u32 = rest.get(..digits)?.parse().ok()?;
    let rest = rest.get(digits..)?.trim_start_matches([':', ',']);
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    match rest.get(..digits)?.parse() {
        Ok(column) => Some((path, number, column, rest.get(digits..)?.trim_start_matches([':', ',']))),
        Err(_) => Some((path, number, 0, rest)),
    }
}

fn marker(error: &ErrorLine) -> Option<Diagnosis> {
    if let Some((_, rest)) = error.message.split_once(SIGNATURE_MARK) {
        let kernel = rest.split('|').next().unwrap_or("").to_owned();
        return Some(Diagnosis::Signature { kernel });
    }
    let (_, rest) = error.message.split_once("muster-unsupported|")?;
    let mut parts = rest.split('|');
    let reason = reason(parts.next()?);
    let feature = clip(parts.next()?);
    let hint = clip(parts.next().unwrap_or(""));
    Some(Diagnosis::Unsupported { reason, feature, hint, place: error.place.clone() })
}

/// The word in a marker; our own headers write them, an unknown one is only less exact.
fn reason(word: &str) -> UnsupportedReason {
    match word {
        "inline_assembly" => UnsupportedReason::InlineAssembly,
        "warp_width" => UnsupportedReason::WarpWidth,
        "matrix_unit" => UnsupportedReason::MatrixUnit,
        "shared_memory" => UnsupportedReason::SharedMemory,
        "launch_limits" => UnsupportedReason::LaunchLimits,
        "element_type" => UnsupportedReason::ElementType,
        "header" => UnsupportedReason::Header,
        "library" => UnsupportedReason::Library,
        "toolchain" => UnsupportedReason::Toolchain,
        _ => UnsupportedReason::NotImplementedHere,
    }
}

/// Names of CUDA that the shim does not define: the candidate is not wrong, the device is incomplete.
fn known_gap(error: &ErrorLine) -> Option<Diagnosis> {
    const HINT: &str = "offer this candidate to an NVIDIA device class";
    let found = |reason, feature: &str| {
        Some(Diagnosis::Unsupported {
            reason,
            feature: clip(feature),
            hint: HINT.to_owned(),
            place: error.place.clone(),
        })
    };
    let message = &error.message;
    if message.contains("No such file") || message.contains("file not found") {
        let name = quoted(message).unwrap_or_else(|| message.split(':').next().unwrap_or(""));
        let room = name.split('/').next().unwrap_or("");
        let library =
            ["cub", "thrust", "cutlass", "cute", "torch", "ATen", "c10", "hip", "pybind11", "nvshmem"];
        let libraries =
            ["cublas", "cudnn", "cufft", "curand", "cusolver", "cusparse", "cutensor", "nccl", "nvtx"];
        return match room {
            _ if libraries.iter().any(|begin| room.starts_with(begin)) => {
                found(UnsupportedReason::Library, name)
            }
            "cuda" | "cooperative_groups" | "nv" | "crt" => found(UnsupportedReason::Header, name),
            _ if library.contains(&room) => found(UnsupportedReason::Library, name),
            _ if name.starts_with("cuda") || name.starts_with("cu") => found(UnsupportedReason::Header, name),
            _ => None,
        };
    }
    if !is_unknown_name(message) {
        return None;
    }
    let name = quoted(message)?;
    match name {
        "nvcuda" | "wmma" => found(UnsupportedReason::MatrixUnit, name),
        // Defined by headers that the source left out, as on a GPU.
        "__half" | "__half2" | "__nv_bfloat16" | "__nv_bfloat162" => None,
        _ if name.starts_with("__nv_fp") => found(UnsupportedReason::ElementType, name),
        _ if name.starts_with("__") => found(UnsupportedReason::NotImplementedHere, name),
        _ => None,
    }
}

fn is_unknown_name(message: &str) -> bool {
    const WORDS: [&str; 8] = [
        "was not declared",
        "has not been declared",
        "does not name a type",
        "is not a member",
        "undeclared identifier",
        "unknown type name",
        "no member named",
        "no type named",
    ];
    WORDS.iter().any(|words| message.contains(words))
}

/// The first name in single quotes.
fn quoted(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once('\'')?;
    rest.split_once('\'').map(|(name, _)| name)
}

/// A linker's line without the path of the object file.
fn linker_text(line: &str) -> &str {
    line.find("undefined reference to").and_then(|at| line.get(at..)).unwrap_or(line)
}

fn clip(text: &str) -> String {
    text.chars().take(MESSAGE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(log: &str) -> Diagnosis {
        let is_known = |path: &str| matches!(path, "k/cand.cu" | "k/part.cuh" | "task.h");
        diagnose(
            log,
            &Names { main: "k/cand.cu", main_lines: 9, asks_architecture: true, is_known: &is_known },
        )
    }
    fn place(file: &str, line: u32, column: u32) -> Option<SourcePlace> {
        Some(SourcePlace { file: file.to_owned(), line, column })
    }

    #[test]
    fn the_first_error_has_its_place() {
        let log = "k/cand.cu: In function 'void f()':\nk/cand.cu:3:28: error: expected ';' before '}' token\n    3 |   x\nk/cand.cu:4:1: error: other\n";
        let message = "expected ';' before '}' token".to_owned();
        assert_eq!(check(log), Diagnosis::Error { message, place: place("k/cand.cu", 3, 28) });
    }

    #[test]
    fn a_marker_in_a_refused_header_points_to_the_include() {
        let log = "In file included from source/k/part.cuh:2,\n                 from source/k/cand.cu:1:\n/cache/shim/mma.h:1:2: error: #error muster-unsupported|matrix_unit|mma.h|elsewhere|\n";
        let expected = Diagnosis::Unsupported {
            reason: UnsupportedReason::MatrixUnit,
            feature: "mma.h".to_owned(),
            hint: "elsewhere".to_owned(),
            place: place("k/part.cuh", 2, 0),
        };
        assert_eq!(check(log), expected);
    }

    #[test]
    fn a_source_that_refuses_the_architecture_is_not_wrong() {
        let log = "k/cand.cu:2:2: error: #error \"this kernel needs sm_90\"\n";
        let Diagnosis::Unsupported { feature, .. } = check(log) else { panic!("{:?}", check(log)) };
        assert_eq!(feature, "this kernel needs sm_90");
    }

    #[test]
    fn a_marker_wins_over_errors_before_it() {
        let log = "k/cand.cu:3:1: error: 'x' was not declared in this scope\nk/cand.cu:4:2: error: static assertion failed: muster-unsupported|inline_assembly|inline assembly|h|\n";
        assert!(matches!(
            check(log),
            Diagnosis::Unsupported { reason: UnsupportedReason::InlineAssembly, .. }
        ));
    }

    #[test]
    fn errors_in_the_appended_text_are_the_signature_the_entry_or_the_end_of_the_source() {
        let log = "muster-glue:2:15: error: static assertion failed: muster-signature|f|\n";
        assert_eq!(check(log), Diagnosis::Signature { kernel: "f".to_owned() });
        let log = "muster-glue:2:15: error: 'f' was not declared in this scope\n";
        assert!(matches!(check(log), Diagnosis::EntryMissing { .. }));
        let log = "muster-glue:9:1: error: expected '}' at end of input\n";
        let Diagnosis::Error { place: found, .. } = check(log) else { panic!("{:?}", check(log)) };
        assert_eq!(found, place("k/cand.cu", 9, 0));
    }

    #[test]
    fn unknown_intrinsics_and_headers_of_cuda_are_gaps_of_the_device() {
        let log = "k/cand.cu:3:1: error: '__vadd4' was not declared in this scope\n";
        assert!(matches!(
            check(log),
            Diagnosis::Unsupported { reason: UnsupportedReason::NotImplementedHere, .. }
        ));
        let log = "k/cand.cu:1:10: fatal error: cub/warp/x.cuh: No such file or directory\n";
        assert!(matches!(check(log), Diagnosis::Unsupported { reason: UnsupportedReason::Library, .. }));
        let log = "k/cand.cu:3:1: error: 'vadd' was not declared in this scope\n";
        assert!(matches!(check(log), Diagnosis::Error { .. }));
    }

    #[test]
    fn errors_of_the_assembler_are_told_without_its_file() {
        let log = "/tmp/ccX1.s: Assembler messages:\n/tmp/ccX1.s:12: Error: file not found: a.bin\n";
        let Diagnosis::Error { message, place: None } = check(log) else { panic!("{:?}", check(log)) };
        assert_eq!(message, "the assembler says: file not found: a.bin");
    }

    #[test]
    fn errors_inside_the_shim_are_placed_where_the_template_was_used() {
        let gcc = "/s/muster_warp.h: In instantiation of 'T exchange(T) [with T = char]':\nk/cand.cu:5:20:   required from here\n/s/muster_warp.h:9:3: error: static assertion failed: muster-unsupported|not_implemented_here|shuffle|h|\n";
        let clang = "/s/muster_warp.h:9:3: error: static_assert failed \"muster-unsupported|not_implemented_here|shuffle|h|\"\n/s/muster_warp.h:20:3: note: in instantiation of x\nk/cand.cu:5:20: note: in instantiation of y\n";
        let under_include = "In file included from k/cand.cu:1:\n";
        for log in [gcc, clang, &format!("{under_include}{gcc}"), &format!("{under_include}{clang}")] {
            let Diagnosis::Unsupported { place: found, .. } = check(log) else { panic!("{log}") };
            assert_eq!(found, place("k/cand.cu", 5, 20));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_log_has_a_diagnosis(log in "([a-z/.]{0,9}:[0-9]{0,12}:?[0-9]{0,4}:? ?(error: )?[ -~]{0,40}\n){0,6}") {
            check(&log);
        }
    }
}
