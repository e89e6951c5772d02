//! Reads reports of AddressSanitizer and of its companion that checks indices of arrays.

use super::found;
use super::report::{View, hex, triple};
use crate::backend::Failure;
use crate::backend::cpu::control::access;
use fleet_config::domain::{FaultKind, LaunchPlace, MemoryPlace, Screen, SourcePlace};

/// The fault that `text` reports.
pub(super) fn read(text: &str, view: &View<'_>) -> Option<Failure> {
    index(text, view).or_else(|| address(text, view))
}

/// `k.cu:3:34: runtime error: index 33 out of bounds for type 'float [33]'`.
fn index(text: &str, view: &View<'_>) -> Option<Failure> {
    let mut lines = text.lines();
    let line = lines.find(|line| line.contains(": runtime error: "))?;
    let (place, said) = line.split_once(": runtime error: ")?;
    let source = view.source(lines).or_else(|| {
        let mut parts = place.trim_start_matches("/candidate/").split(':');
        let file = parts.next()?.to_owned();
        Some(SourcePlace { file, line: parts.next()?.parse().ok()?, column: parts.next()?.parse().ok()? })
    });
    let said: String = said.chars().take(200).collect();
    Some(fault(view, format!("out of bounds: {said}"), None, source))
}

fn address(text: &str, view: &View<'_>) -> Option<Failure> {
    let mut lines = text.lines();
    let line = lines.find(|line| line.contains("ERROR: AddressSanitizer: "))?;
    let (_, said) = line.split_once("ERROR: AddressSanitizer: ")?;
    let kind = said.split(' ').next()?;
    let after = said.split_once("address ").and_then(|(_, rest)| rest.split([' ', ')']).next());
    let address = after.and_then(hex).unwrap_or(0);
    let rest: Vec<&str> = lines.collect();
    let header = rest.iter().take(3);
    let access = if header.clone().any(|line| line.starts_with("WRITE") || line.contains("a WRITE memory")) {
        access::WRITE
    } else if header.clone().any(|line| line.starts_with("READ") || line.contains("a READ memory")) {
        access::READ
    } else {
        access::UNKNOWN
    };
    let source = view.source(rest.iter().copied());
    match kind {
        "FPE" => return Some(view.faulted(libc::SIGFPE, access, address, source)),
        "ILL" => return Some(view.faulted(libc::SIGILL, access, address, source)),
        _ => {}
    }
    let verb = match access {
        access::WRITE => "write",
        access::READ => "read",
        _ => "access",
    };
    if let Some(memory) = variable(&rest, view.facts.place) {
        return Some(overrun(view, verb, memory, source));
    }
    match view.memory(address, view.facts.place) {
        Some(memory) if memory.buffer == "dynamic shared memory" => Some(overrun(view, verb, memory, source)),
        Some(_) | None => Some(view.faulted(libc::SIGSEGV, access, address, source)),
    }
}

/// The variable that an overrun is beside: shared, constant, or local to a thread.
fn variable(lines: &[&str], by: Option<LaunchPlace>) -> Option<MemoryPlace> {
    lines.iter().find_map(|line| global(line, by)).or_else(|| lines.iter().find_map(|line| local(line, by)))
}

/// `0x… is located 4 bytes to the right of global variable 's' defined in 'k.cu:2:20' (0x…) of size 128`; newer ones
/// say `before` and `after`.
fn global(line: &str, by: Option<LaunchPlace>) -> Option<MemoryPlace> {
    let (place, rest) = line.split_once(" global variable '")?;
    let (_, place) = place.split_once(" is located ")?;
    let name = rest.split('\'').next()?;
    let size: u64 = rest.split_once(" of size ")?.1.split(' ').next()?.parse().ok()?;
    let distance: i64 = place.split(' ').next()?.parse().ok()?;
    let offset = if place.contains("left") || place.contains("before") {
        distance.checked_neg()?
    } else {
        i64::try_from(size).ok()?.checked_add(distance)?
    };
    Some(MemoryPlace { buffer: clip(name), offset, size, place: by })
}

/// `    [32, 64) 'a' (line 2) <== Memory access at offset 64 overflows this variable`.
fn local(line: &str, by: Option<LaunchPlace>) -> Option<MemoryPlace> {
    let (object, said) = line.split_once(" <== Memory access at offset ")?;
    let at: i64 = said.split(' ').next()?.parse().ok()?;
    let (range, rest) = object.trim_start().strip_prefix('[')?.split_once(") '")?;
    let (low, high) = range.split_once(", ")?;
    let (low, high): (i64, i64) = (low.parse().ok()?, high.parse().ok()?);
    let name = rest.split('\'').next()?;
    let size = u64::try_from(high.checked_sub(low)?).ok()?;
    Some(MemoryPlace { buffer: clip(name), offset: at.checked_sub(low)?, size, place: by })
}

fn clip(name: &str) -> String {
    name.chars().take(120).collect()
}

fn overrun(view: &View<'_>, verb: &str, memory: MemoryPlace, source: Option<SourcePlace>) -> Failure {
    let MemoryPlace { buffer, offset, size, place: _ } = &memory;
    let name =
        if buffer == "dynamic shared memory" { format!("the {buffer}") } else { format!("`{buffer}`") };
    let message = match u64::try_from(*offset) {
        Ok(at) => format!(
            "out of bounds: {verb} at byte {at}, {} bytes past the end of {name} ({size} bytes)",
            at.saturating_sub(*size)
        ),
        Err(_) => format!("out of bounds: {verb} {} bytes before the start of {name}", offset.unsigned_abs()),
    };
    fault(view, message, Some(memory), source)
}

fn fault(
    view: &View<'_>,
    mut message: String,
    memory: Option<MemoryPlace>,
    source: Option<SourcePlace>,
) -> Failure {
    if let Some(LaunchPlace { block, thread }) = view.facts.place {
        message = format!("{message}; block {}, thread {}", triple(block), triple(thread));
    }
    if let Some(place) = &source {
        message = format!("{message}, {}:{}", place.file, place.line);
    }
    let hint = "check the index against the size of the array";
    let kind = FaultKind::IllegalAddress;
    let mut failure = found(Screen::Address, kind, message, hint, &view.evaluation.case);
    if let Some(cause) = &mut failure.outcome.cause {
        cause.memory = memory;
        cause.source = source;
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::screen::report::Facts;
    use crate::backend::{Buffer, BufferUse, Evaluation, ResolvedStep};
    use fleet_config::domain::{Cause, ElementType, Role};
    use std::path::Path;

    fn check(text: &str) -> Option<Cause> {
        let kernel = ResolvedStep::Kernel {
            entry: 0,
            name: "f".to_owned(),
            grid: [1; 3],
            block: [64, 1, 1],
            shared_bytes: 250,
            arguments: Vec::new(),
            cooperative: false,
            cluster: None,
        };
        let use_ = BufferUse::Parameter(Role::In);
        let buffer = Buffer { name: "x".to_owned(), use_, element: ElementType::F32, bytes: 400 };
        let evaluation = Evaluation { case: "odd".to_owned(), buffers: vec![buffer], steps: vec![kernel] };
        let head =
            "muster-buffer 0 7ffff51ff000 400\nmuster-place b0,1,0t40,0,0 shared 7fffe3e7af00 7fffe3e7b000\n";
        let text = format!("{head}{text}");
        let facts = Facts::read(&text);
        let program = Path::new("/nonexistent");
        let view = View { evaluation: &evaluation, program, main: "k.cu", facts: &facts };
        read(&text, &view).and_then(|failure| failure.outcome.cause)
    }

    const STACK: &str = "    #0 (/job/screen+0x238a) in f /candidate/k.cu:3\n    #1 (/job/screen+0x2425) in g /candidate/k.cu:9\n\n";

    #[test]
    fn an_overrun_of_a_buffer_has_buffer_byte_thread_and_line() {
        let text = format!(
            "==1==ERROR: AddressSanitizer: use-after-poison on address 0x7ffff51ff190 at pc 0x1 bp 0x2 sp 0x3\nREAD of size 4 at 0x7ffff51ff190 thread T0\n{STACK}"
        );
        let cause = check(&text).unwrap();
        let memory = cause.memory.unwrap();
        assert_eq!((memory.buffer.as_str(), memory.offset, memory.size), ("x", 400, 400));
        assert_eq!(memory.place.unwrap().thread, [40, 0, 0]);
        assert_eq!(cause.source.unwrap().line, 3);
        assert!(cause.message.starts_with("out of bounds: read at byte 400"), "{}", cause.message);
    }

    #[test]
    fn variables_are_named_with_their_offset() {
        let lines = [
            (
                "0x1 is located 0 bytes to the right of global variable 's' defined in 'k.cu:2:20' (0x1) of size 128",
                "s",
                128,
            ),
            (
                "0x1 is located 4 bytes after global variable 's' defined in 'k.cu:2' (0x1) of size 128",
                "s",
                132,
            ),
            (
                "0x1 is located 8 bytes to the left of global variable 'table' defined in 'k.cu:2:20' (0x1) of size 64",
                "table",
                -8,
            ),
            ("    [32, 64) 'a' (line 2) <== Memory access at offset 64 overflows this variable", "a", 32),
            ("    [32, 64) 'a' (line 2) <== Memory access at offset 28 underflows this variable", "a", -4),
        ];
        for (line, name, offset) in lines {
            let text = format!(
                "==1==ERROR: AddressSanitizer: global-buffer-overflow on address 0x1 at pc\nWRITE of size 4 at 0x1 thread T0\n{STACK}{line}\n"
            );
            let memory = check(&text).unwrap().memory.unwrap();
            assert_eq!((memory.buffer.as_str(), memory.offset), (name, offset), "{line}");
        }
    }

    #[test]
    fn an_overrun_of_dynamic_shared_memory_counts_from_its_start() {
        let text = format!(
            "==1==ERROR: AddressSanitizer: SEGV on unknown address 0x7fffe3e7b000 (pc 0x1 bp 0x2 sp 0x3 T0)\n==1==The signal is caused by a WRITE memory access.\n{STACK}"
        );
        let cause = check(&text).unwrap();
        let memory = cause.memory.unwrap();
        assert_eq!((memory.buffer.as_str(), memory.offset, memory.size), ("dynamic shared memory", 256, 250));
        assert!(cause.message.contains("write at byte 256, 6 bytes past the end"), "{}", cause.message);
    }

    #[test]
    fn an_index_beyond_a_row_has_its_line() {
        let text = format!("k.cu:3:34: runtime error: index 33 out of bounds for type 'float [33]'\n{STACK}");
        let cause = check(&text).unwrap();
        assert!(cause.message.contains("index 33 out of bounds for type 'float [33]'"), "{}", cause.message);
        assert_eq!(cause.source.unwrap().line, 3);
    }

    #[test]
    fn an_output_without_a_report_has_no_fault() {
        assert!(check("muster-done\n").is_none());
        assert!(check("AddressSanitizer: all is well\n").is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_report_is_read(text in "(==1==ERROR: AddressSanitizer: )?[ -~]{0,60}\n([A-Z]{0,5}[ -~]{0,60}\n){0,4}") {
            check(&text);
        }
    }
}
