//! What a worker's word, its end and its silence mean, by what it was asked last.
//!
//! ```text
//! process starts ── GREET ──► ready ── LOAD ──► holds the candidate ── MAP, RUN ──► killed
//! └── our own code: what fails is the fleet's ──┘└── may all be the candidate's: what fails is the candidate's ──┘
//! ```
//!
//! From LOAD on nothing that the process says or does can show that it was not the candidate: its initialisers run
//! while it is loaded, and reach the control page like any code in the process. What the supervisor sees itself stays
//! the fleet's: memory for the buffers is taken on its side before a worker maps it, and so are its failures.

use super::control::{command, status};
use super::failure::{self, infrastructure};
use super::fault::{Report, signal_name};
use super::watch::Standing;
use crate::backend::Failure;
use crate::sandbox::ExitHow;
use fleet_config::domain::{FaultKind, Milliseconds, Stage, Status};
use std::time::Duration;

/// Starting and mapping are quick; a machine that swaps is given time.
const SETUP_LIMIT: Duration = Duration::from_secs(20);
/// Loading may take as long as a launch, but never less than this: a crowded machine reads the file slowly.
const LOAD_LIMIT_MIN: Duration = Duration::from_secs(5);

/// What a worker is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    Greet,
    Load,
    Map,
    Run,
}

impl Question {
    /// The word for the control page.
    pub(super) fn command(self) -> u32 {
        match self {
            Self::Greet => command::GREET,
            Self::Load => command::LOAD,
            Self::Map => command::MAP,
            Self::Run => command::RUN,
        }
    }

    /// How long the answer may take.
    pub(super) fn limit(self, launch: Milliseconds) -> Duration {
        let launch = Duration::from_millis(launch.0);
        match self {
            Self::Greet | Self::Map => SETUP_LIMIT,
            Self::Load => launch.clamp(LOAD_LIMIT_MIN, SETUP_LIMIT),
            Self::Run => launch,
        }
    }

    fn doing(self) -> &'static str {
        match self {
            Self::Greet => "while it was set up",
            Self::Load => "while the candidate was loaded",
            Self::Map => "while buffers were mapped",
            Self::Run => "while kernels ran",
        }
    }
}

/// The failure that the status `said` means. Faults at run time are explained by `fault.rs`.
pub(super) fn word(question: Question, said: u32, report: &Report, text: &str) -> Failure {
    match (question, said) {
        (Question::Greet, _) => infrastructure(Stage::Prepare, "set the worker up", &shown(text)),
        (Question::Load, status::LOAD) => failure::loading(&shown(text)),
        (Question::Run, status::ARITY) => failure::launch(format!(
            "step {} of the plan gives another number of arguments than the kernel's {} parameters",
            report.detail[0], report.detail[1]
        )),
        (Question::Load, _) => {
            failure::loading(&format!("its initialisers reported {}", status_of(said, text)))
        }
        (Question::Map | Question::Run, _) => {
            let doing = question.doing();
            let message = format!("the process of the kernel gave up {doing}: {}", status_of(said, text));
            failure::ended(FaultKind::Other, format!("status {said}"), message)
        }
    }
}

/// The failure that no answer within `limit` means.
pub(super) fn silence(question: Question, limit: Duration, case: &str) -> Failure {
    let limit = Milliseconds(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    match question {
        Question::Greet => {
            let cause = format!("no answer within {} ms", limit.0);
            infrastructure(Stage::Prepare, "set the worker up", &cause)
        }
        Question::Load => failure::loading_timeout(limit),
        Question::Map => {
            let what = "the process of the candidate, asked to map buffers,";
            failure::timeout(what, "end static initialisers and launches when they say so", limit, case)
        }
        Question::Run => {
            let hint = "look for a loop that does not end, or raise the task's launch limit";
            failure::timeout("the launch", hint, limit, case)
        }
    }
}

/// The failure that an end without a report means.
pub(super) fn death(question: Question, how: ExitHow) -> Failure {
    let (vendor, fault) = match how {
        ExitHow::Code(code) => (format!("exit {code}"), FaultKind::ForbiddenCall),
        ExitHow::Signal(libc::SIGKILL) | ExitHow::Deadline => (signal_name(libc::SIGKILL), FaultKind::Killed),
        ExitHow::MemoryLimit => ("the memory limit".to_owned(), FaultKind::Killed),
        ExitHow::Signal(libc::SIGSYS) => (signal_name(libc::SIGSYS), FaultKind::ForbiddenCall),
        ExitHow::Signal(signal) => (signal_name(signal), FaultKind::Other),
    };
    let doing = question.doing();
    if question == Question::Greet {
        return infrastructure(Stage::Prepare, "set the worker up", &format!("it ended by {vendor}"));
    }
    // Nothing tells who brought SIGKILL about: a candidate cannot send it, but it can take memory until the machine
    // has none, also memory that is counted for no process.
    let message = if fault == FaultKind::Killed {
        format!("the process of the kernel was killed {doing}, as by a machine that is out of memory")
    } else {
        format!("the kernel ended its process by {vendor} {doing}")
    };
    let mut failure = failure::ended(fault, vendor, message);
    if how == ExitHow::MemoryLimit {
        failure.outcome.status = Status::OutOfMemory;
    }
    failure
}

/// The failure that outputs mean which did not stand when the launch said that it was done.
pub(super) fn late(standing: Standing, case: &str) -> Option<Failure> {
    match standing {
        Standing::Still => None,
        Standing::Changed => Some(failure::late_write(case)),
    }
}

/// A fault's explanation, which speaks of a kernel, for what happened before any kernel ran.
pub(super) fn explained(question: Question, mut failure: Failure) -> Failure {
    match question {
        Question::Run => {}
        Question::Greet | Question::Load | Question::Map => {
            if let Some(cause) = &mut failure.outcome.cause {
                cause.message = format!("{}: {}", question.doing(), cause.message);
            }
        }
    }
    failure
}

fn status_of(said: u32, text: &str) -> String {
    if text.is_empty() { format!("status {said}") } else { format!("status {said}, \"{}\"", shown(text)) }
}

/// A text from the control page: nobody's terminal is to obey it. Its length is bounded by the page.
fn shown(text: &str) -> String {
    text.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::{Blame, LaunchPlace};

    const HOLDING: [Question; 3] = [Question::Load, Question::Map, Question::Run];
    const LIMIT: Duration = Duration::from_millis(70);

    fn report() -> Report {
        Report {
            kind: 0,
            signal: 0,
            code: 0,
            access: 0,
            line: 0,
            detail: [u32::MAX; 2],
            place: LaunchPlace { block: [0; 3], thread: [0; 3] },
            address: 0,
            instruction: None,
            shared: [0; 2],
            stack: [0; 2],
            stack_pointer: 0,
        }
    }

    fn ends() -> impl Iterator<Item = ExitHow> {
        let signals = [libc::SIGKILL, libc::SIGSYS, libc::SIGSEGV, libc::SIGTERM, libc::SIGXCPU, -1];
        signals.into_iter().map(ExitHow::Signal).chain([
            ExitHow::Code(0),
            ExitHow::Code(70),
            ExitHow::Deadline,
            ExitHow::MemoryLimit,
        ])
    }

    #[test]
    fn a_process_that_holds_no_candidate_fails_for_the_fleet() {
        let says = (0..8).chain([u32::MAX]).map(|said| word(Question::Greet, said, &report(), "why"));
        let ends = ends().map(|how| death(Question::Greet, how));
        for failure in says.chain(ends).chain([silence(Question::Greet, LIMIT, "case")]) {
            let outcome = failure.outcome;
            assert_eq!(
                (outcome.status, outcome.blame),
                (Status::Infrastructure, Blame::Fleet),
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn a_process_that_holds_a_candidate_never_fails_for_the_fleet() {
        for question in HOLDING {
            let says = (0..8).chain([u32::MAX]).map(|said| word(question, said, &report(), "why"));
            let ends = ends().map(|how| death(question, how));
            for failure in says.chain(ends).chain([silence(question, LIMIT, "case")]) {
                let outcome = failure.outcome;
                assert_eq!(outcome.blame, Blame::Candidate, "{question:?}: {outcome:?}");
                assert!(
                    matches!(
                        outcome.status,
                        Status::LaunchError | Status::RuntimeError | Status::Timeout | Status::OutOfMemory
                    ),
                    "{question:?}: {outcome:?}"
                );
            }
        }
    }

    #[test]
    fn a_silence_is_named_by_what_was_asked() {
        let cause = |question| silence(question, LIMIT, "c").outcome.cause.unwrap();
        assert_eq!(cause(Question::Load).code, "launch/load-time-limit");
        assert!(
            cause(Question::Load).message.contains("loading")
                && cause(Question::Load).message.contains("70 ms")
        );
        assert!(cause(Question::Map).message.contains("map buffers"));
        assert_eq!(cause(Question::Run).code, "launch/time-limit");
    }

    #[test]
    fn an_output_that_changed_after_the_answer_is_suspicious() {
        assert!(late(Standing::Still, "c").is_none());
        let outcome = late(Standing::Changed, "c").unwrap().outcome;
        assert_eq!(
            (outcome.status, outcome.cause.unwrap().code.as_str()),
            (Status::Suspicious, "run/late-write")
        );
    }

    #[test]
    fn loading_has_as_long_as_a_launch_within_bounds() {
        let limit = |milliseconds| Question::Load.limit(Milliseconds(milliseconds)).as_millis();
        assert_eq!([limit(1), limit(7000), limit(u64::MAX)], [5000, 7000, 20_000]);
    }

    #[test]
    fn control_characters_of_a_worker_reach_nobody() {
        let text = "\u{1b}[2J\u{7}\u{202e}\n\"";
        for question in [Question::Greet, Question::Load, Question::Map, Question::Run] {
            for said in [status::LOAD, status::SETUP, 99] {
                let message = word(question, said, &report(), text).outcome.cause.unwrap().message;
                let plain = |letter: char| letter == ' ' || letter.is_ascii_graphic();
                assert!(message.chars().all(plain), "{message:?}");
                assert!(message.contains("\\u{1b}[2J"), "{message}");
            }
        }
    }
}
