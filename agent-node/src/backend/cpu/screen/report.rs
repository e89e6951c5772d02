//! What the main of a screen's program says of itself, and what all reports have in common: stacks and places.
//!
//! Everything here was written by a process that holds the candidate. It is read for diagnosis, within bounds.

use crate::backend::cpu::fault::{Located, Report, explain};
use crate::backend::cpu::supervisor::line_of;
use crate::backend::{Evaluation, Failure, ResolvedStep};
use fleet_config::domain::canonical::INTEGER_MAX;
use fleet_config::domain::{LaunchPlace, MemoryPlace, SourcePlace};
use std::path::Path;

/// Lines of output that are looked at.
const LINES_MAX: usize = 20_000;
/// As far around a buffer as the program reserved memory.
const GUARD: u64 = 4 << 20;

/// Lines that begin with `muster-`.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Start and size of each buffer, in the order of the evaluation.
    pub buffers: Vec<(u64, u64)>,
    /// The thread that ran when the sanitizer found something.
    pub place: Option<LaunchPlace>,
    /// The dynamic shared memory, rounded up at its end.
    pub shared: Option<(u64, u64)>,
    /// Kind, line, waiting and living threads.
    pub stop: Option<[u32; 4]>,
    /// The program's own trouble.
    pub broken: Option<String>,
    pub is_done: bool,
}

impl Facts {
    pub(super) fn read(text: &str) -> Self {
        let mut facts = Self::default();
        for line in text.lines().take(LINES_MAX) {
            let Some((word, rest)) =
                line.strip_prefix("muster-").map(|rest| rest.split_once(' ').unwrap_or((rest, "")))
            else {
                continue;
            };
            let mut fields = rest.split(' ');
            match word {
                "buffer" => {
                    let start = fields.nth(1).and_then(hex);
                    let bytes = fields.next().and_then(|field| field.parse().ok());
                    facts.buffers.extend(start.zip(bytes));
                }
                "place" => {
                    facts.place = fields.next().and_then(place);
                    facts.shared = fields.nth(1).and_then(hex).zip(fields.next().and_then(hex));
                }
                "stop" => {
                    let numbers: Vec<u32> = fields.filter_map(|field| field.parse().ok()).collect();
                    facts.stop = numbers.try_into().ok();
                }
                "broken" => facts.broken = Some(rest.chars().take(200).collect()),
                "done" => facts.is_done = true,
                _ => {}
            }
        }
        facts
    }
}

/// A hexadecimal number with or without `0x`.
pub(super) fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// `b1,2,3t4,5,6`: block and thread.
pub(super) fn place(text: &str) -> Option<LaunchPlace> {
    let (block, thread) = text.strip_prefix('b')?.split_once('t')?;
    let three = |text: &str| -> Option<[u32; 3]> {
        let numbers: Option<Vec<u32>> = text.split(',').map(|number| number.parse().ok()).collect();
        numbers?.try_into().ok()
    };
    Some(LaunchPlace { block: three(block)?, thread: three(thread)? })
}

/// What a report is read against.
pub(super) struct View<'a> {
    pub evaluation: &'a Evaluation,
    pub program: &'a Path,
    pub main: &'a str,
    pub facts: &'a Facts,
}

impl View<'_> {
    /// The nearest frame of the candidate's own files in a stack: the lines that begin with `#`.
    pub(super) fn source<'l>(&self, lines: impl Iterator<Item = &'l str>) -> Option<SourcePlace> {
        let frames = lines.skip_while(|line| !is_frame(line)).take_while(|line| is_frame(line));
        frames.into_iter().find_map(|frame| self.frame(frame))
    }

    /// `    #0 (/path/screen+0x12) in f(int) /candidate/k.cu:3`.
    fn frame(&self, line: &str) -> Option<SourcePlace> {
        if let Some((_, rest)) = line.rsplit_once(" /candidate/") {
            let mut parts = rest.split(':');
            let file = parts.next()?;
            let file = match file.strip_prefix("headers").and_then(|rest| rest.split_once('/')) {
                Some((_, rest)) => rest,
                None => file,
            };
            let number = |part: Option<&str>| part.and_then(|part| part.trim().parse().ok());
            let (line, column) = (number(parts.next())?, number(parts.next()).unwrap_or(0));
            return Some(SourcePlace { file: file.to_owned(), line, column });
        }
        // A sanitizer that cannot read line tables leaves the place in the program.
        let (_, rest) = line.split_once("screen+")?;
        let offset = hex(rest.split(')').next()?)?;
        line_of(self.program, offset)
    }

    /// Buffer or dynamic shared memory that `address` lies in or beside, with its size and the thread at fault.
    pub(super) fn memory(&self, address: u64, by: Option<LaunchPlace>) -> Option<MemoryPlace> {
        // An address is the program's own word too: what no record can hold is no place.
        let offset = |start: u64| {
            let offset = i64::try_from(i128::from(address) - i128::from(start)).ok();
            offset.filter(|offset| offset.unsigned_abs() <= INTEGER_MAX)
        };
        let distance = |(start, bytes): (u64, u64)| {
            // Start and size are the program's own word: their sum may be beyond every address.
            if address < start {
                start - address
            } else {
                address.saturating_add(1).saturating_sub(start.saturating_add(bytes))
            }
        };
        let named = self.facts.buffers.iter().zip(&self.evaluation.buffers);
        let near = named.map(|(place, buffer)| (distance(*place), place.0, buffer));
        let nearest =
            near.filter(|(distance, _, _)| *distance < GUARD).min_by_key(|(distance, _, _)| *distance);
        if let Some((_, start, buffer)) = nearest {
            let (name, size) = (buffer.name.clone(), buffer.bytes);
            return Some(MemoryPlace { buffer: name, offset: offset(start)?, size, place: by });
        }
        let (low, high) = self.facts.shared?;
        let size = self.evaluation.steps.iter().map(shared_bytes).max().unwrap_or(0);
        let is_near = address.saturating_add(GUARD / 4) >= low && address < high.saturating_add(GUARD / 4);
        (is_near && size > 0 && low > 0).then_some(())?;
        let buffer = "dynamic shared memory".to_owned();
        Some(MemoryPlace { buffer, offset: offset(low)?, size, place: by })
    }

    /// The outcome of a kernel that the runtime stopped.
    pub(super) fn stopped(&self) -> Option<Failure> {
        let [kind, line, waiting, alive] = self.facts.stop?;
        let report = Report { kind, line, detail: [waiting, alive], ..self.report() };
        Some(explain(&report, &[], &self.evaluation.case, self.main, None))
    }

    /// The outcome of a fault at `address`, in the words of a fault in an ordinary worker.
    pub(super) fn faulted(
        &self,
        signal: i32,
        access: u32,
        address: u64,
        source: Option<SourcePlace>,
    ) -> Failure {
        let report = Report { signal, access, address, ..self.report() };
        let places = self.facts.buffers.iter().zip(&self.evaluation.buffers);
        let located: Vec<Located<'_>> =
            places.map(|((address, _), buffer)| Located { buffer, address: *address }).collect();
        explain(&report, &located, &self.evaluation.case, self.main, source)
    }

    fn report(&self) -> Report {
        let (low, high) = self.facts.shared.unwrap_or_default();
        Report {
            kind: crate::backend::cpu::control::stop::SIGNAL,
            signal: 0,
            code: 0,
            access: 0,
            line: 0,
            detail: [0; 2],
            place: self.facts.place.unwrap_or(LaunchPlace { block: [0; 3], thread: [0; 3] }),
            address: 0,
            instruction: None,
            shared: [low, high],
            stack: [0; 2],
            stack_pointer: 0,
        }
    }
}

fn shared_bytes(step: &ResolvedStep) -> u64 {
    match step {
        ResolvedStep::Kernel { shared_bytes, .. } => *shared_bytes,
        ResolvedStep::Memset { .. } => 0,
    }
}

fn is_frame(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

/// `(1,2,3)`.
pub(super) fn triple(index: [u32; 3]) -> String {
    format!("({},{},{})", index[0], index[1], index[2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Buffer, BufferUse};
    use fleet_config::domain::ElementType;

    #[test]
    fn lines_of_the_program_are_read_and_others_are_left_alone() {
        let text = "muster-buffer 0 7f00 400\nnoise\nmuster-place b1,0,0t2,3,0 shared 10 20\nmuster-stop 0 7 3 64\nmuster-done\n";
        let facts = Facts::read(text);
        assert_eq!(facts.buffers, [(0x7f00, 400)]);
        assert_eq!(facts.place.unwrap().thread, [2, 3, 0]);
        assert_eq!((facts.shared, facts.stop), (Some((16, 32)), Some([0, 7, 3, 64])));
        assert!(facts.is_done);
        let facts = Facts::read("muster-buffer x\nmuster-place b1t\nmuster-stop 1 2\nmuster-\nmuster");
        assert!(facts.buffers.is_empty() && facts.place.is_none() && facts.stop.is_none());
    }

    #[test]
    fn buffers_at_the_edges_of_the_address_space_make_no_distance_overflow() {
        let buffer = |name: &str| Buffer {
            name: name.to_owned(),
            use_: BufferUse::Scratch,
            element: ElementType::F32,
            bytes: 400,
        };
        let evaluation =
            Evaluation { case: String::new(), buffers: vec![buffer("a"), buffer("b")], steps: Vec::new() };
        let edges = [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX];
        for start in edges {
            for bytes in edges {
                let facts = Facts { buffers: vec![(start, bytes); 2], ..Facts::default() };
                let view = View {
                    evaluation: &evaluation,
                    program: Path::new("/none"),
                    main: "k.cu",
                    facts: &facts,
                };
                for address in edges {
                    view.memory(address, None);
                    view.faulted(libc::SIGSEGV, 1, address, None);
                }
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_facts(text in "(muster-(buffer|place|stop|broken|done)?[ -~]{0,30}\n){0,5}") {
            Facts::read(&text);
        }
    }
}
