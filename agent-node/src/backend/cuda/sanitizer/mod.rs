//! Screens of an NVIDIA device: one evaluation in a worker of ours under the vendor's compute-sanitizer.
//!
//! ```text
//! divergent-barriers ─ synccheck │ uninitialised-memory ─ initcheck │ address ─ memcheck │ races-in-block ─ racecheck
//!
//! compute-sanitizer (sandbox, never root) ─► worker-cuda ─ buffers of exactly their size ─ one launch
//!      └─ exit code and report, read when all of it has ended (report.rs)      socket: orders (session.rs)
//! ```
//! Whether a fault was found is the tool's exit code, which device code cannot reach. The report only says which one; it
//! holds names that the candidate chose, and is bounded and quoted.

mod report;
mod session;
mod tool;

pub(super) use tool::Tool;

use super::cubin::Kernel;
use crate::backend::screen::{Missing, ScreenOffer, ScreenRequest, Screening};
use crate::backend::{Failure, Interrupt};
use crate::sandbox::ExitHow;
use fleet_config::domain::{Blame, Cause, FaultKind, MemoryPlace, Outcome, Screen, Stage, Status};
use report::Report;
use session::{Setting, Watched};

/// The tool's exit code when it has found something; of its own, since our worker ends with 0 or 1.
const FOUND: i32 = 99;
/// Addresses so far from a buffer are told to be beside it.
const NEAR: u64 = 64 << 10;
/// Bytes of the report that are kept as a log.
const LOG_MAX: usize = 32 << 10;

/// What the tool looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Barriers,
    Initialisation,
    Memory,
    Races,
}

impl Check {
    const ALL: [Self; 4] = [Self::Barriers, Self::Initialisation, Self::Memory, Self::Races];

    fn of(screen: Screen) -> Option<Self> {
        Self::ALL.into_iter().find(|check| check.screen() == screen)
    }
    fn screen(self) -> Screen {
        match self {
            Self::Barriers => Screen::DivergentBarriers,
            Self::Initialisation => Screen::UninitialisedMemory,
            Self::Memory => Screen::Address,
            Self::Races => Screen::RacesInBlock,
        }
    }
    /// The tool's word.
    fn name(self) -> &'static str {
        match self {
            Self::Barriers => "synccheck",
            Self::Initialisation => "initcheck",
            Self::Memory => "memcheck",
            Self::Races => "racecheck",
        }
    }
    /// Options of this check alone.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Barriers => &[],
            // Reading outputs back is ours.
            Self::Initialisation => &["--check-api-memory-access", "no"],
            // Our own calls that fail are told by the worker. Neighbours of a buffer are kept apart from it.
            Self::Memory => &["--report-api-errors", "no", "--padding", "65536"],
            // Hazards that change nothing, such as equal values written twice, are no fault.
            Self::Races => &["--racecheck-detect-level", "error"],
        }
    }
    fn hint(self) -> &'static str {
        match self {
            Self::Barriers => "let every thread that has not returned reach the same barrier",
            Self::Initialisation => "write every element before it is read",
            Self::Memory => "check the bounds and alignment of every access",
            Self::Races => "put a __syncthreads or __syncwarp between them, or use atomic functions",
        }
    }
}

/// What a report says, for people.
pub(super) fn sentence(text: &str) -> String {
    Report::read(text).sentence()
}

/// The screens of this device kind, with what keeps all of them from being run.
pub(super) fn offers(tool: Result<&Tool, &Missing>) -> Vec<ScreenOffer> {
    let missing = tool.err().cloned();
    Check::ALL.map(|check| ScreenOffer { screen: check.screen(), missing: missing.clone() }).into()
}

/// What is run, beside the request.
pub(super) struct Subject<'a> {
    pub device: &'a str,
    pub kernels: &'a [Kernel],
    pub cubin: &'a [u8],
}

/// Runs one. The caller has checked the evaluation against the device's limits.
pub(super) fn run(
    tool: Result<&Tool, &Missing>,
    subject: &Subject<'_>,
    request: &ScreenRequest<'_>,
) -> Result<Screening, Failure> {
    let Some(check) = Check::of(request.screen) else {
        return Ok(Screening::not_offered(request.screen));
    };
    let tool = match tool {
        Ok(tool) => tool,
        Err(Missing { cause, next }) => return Ok(Screening::not_run(cause, next)),
    };
    let setting = Setting { tool, check, confinement: request.worker.confinement };
    let watched = match session::watch(&setting, subject, request) {
        Ok(watched) => watched,
        Err(session::Unwatched(cause)) => return unwatched(&request.worker.interrupt, &cause),
    };
    Ok(judge(tool, check, request, &watched))
}

/// Nothing was seen: somebody wants the attempt to end, or the tool does not work here.
fn unwatched(interrupt: &Interrupt, cause: &str) -> Result<Screening, Failure> {
    if interrupt.asked() {
        return Err(super::failure::interrupted(Stage::Validate));
    }
    let next = "run `compute-sanitizer` on this machine by hand; its report is in the node's log";
    Ok(Screening::not_run(format!("compute-sanitizer gave no answer: {cause}"), next))
}

fn judge(tool: &Tool, check: Check, request: &ScreenRequest<'_>, watched: &Watched) -> Screening {
    let text = String::from_utf8_lossy(&watched.report);
    let report = Report::read(&text);
    let named = format!("compute-sanitizer {} {}", tool.version, check.name());
    match watched.exit {
        ExitHow::Code(0) if watched.trouble.is_none() => {
            Screening::no_fault_found(format!("{named}: one launch"))
        }
        ExitHow::Code(FOUND) => {
            let mut failure = fault(check, request, watched, &report);
            let log: Vec<u8> = watched.report.iter().copied().take(LOG_MAX).collect();
            failure.log = Some(log);
            Screening::fault(failure, named)
        }
        ExitHow::Code(_) | ExitHow::Signal(_) | ExitHow::Deadline | ExitHow::MemoryLimit => {
            let cause = match &watched.trouble {
                Some(trouble) => format!("the launch failed ({trouble}), and {named} does not say why"),
                None => format!("{named} ended by {:?}", watched.exit),
            };
            Screening::not_run(cause, "run `compute-sanitizer` on this machine by hand")
        }
    }
}

fn fault(check: Check, request: &ScreenRequest<'_>, watched: &Watched, report: &Report) -> Failure {
    let kind = match check {
        Check::Barriers => FaultKind::BarrierDivergence,
        Check::Initialisation => FaultKind::UninitialisedMemory,
        Check::Memory if report.title.contains("isaligned") => FaultKind::MisalignedAddress,
        Check::Memory if report.title.contains("Invalid") => FaultKind::IllegalAddress,
        Check::Memory if report.title.contains("stack") => FaultKind::StackOverflow,
        Check::Memory => FaultKind::Other,
        Check::Races => FaultKind::Race,
    };
    let memory = report.address.and_then(|address| place(address, request, watched, report));
    let on = memory.as_ref().map(|memory| format!(", at byte {} of `{}`", memory.offset, memory.buffer));
    let cause = Cause {
        code: format!("screen/{}", check.screen().name()),
        message: format!("{}{}", report.sentence(), on.unwrap_or_default()),
        fault: Some(kind),
        vendor_code: Some(check.name().to_owned()),
        case: Some(request.evaluation.case.clone()),
        source: report.source.clone(),
        memory,
        ..Cause::default()
    };
    let is_overrun = cause.memory.is_some() && kind == FaultKind::IllegalAddress;
    // As a guard zone that was hit, and as the CPU device's screen of that name.
    let status = if is_overrun { Status::ContractViolation } else { Status::RuntimeError };
    Failure::new(Outcome::failed(status, Stage::Validate, Blame::Candidate, cause, check.hint()))
}

/// The buffer that an address lies in or beside.
fn place(
    address: u64,
    request: &ScreenRequest<'_>,
    watched: &Watched,
    report: &Report,
) -> Option<MemoryPlace> {
    let distance = |start: u64, bytes: u64| match address.checked_sub(start) {
        Some(offset) => offset.saturating_add(1).saturating_sub(bytes),
        None => start - address,
    };
    let buffers = watched.addresses.iter().zip(&request.evaluation.buffers);
    let (start, buffer) = buffers.min_by_key(|(start, buffer)| distance(**start, buffer.bytes))?;
    if distance(*start, buffer.bytes) > NEAR {
        return None;
    }
    let offset = i64::try_from(i128::from(address) - i128::from(*start)).ok()?;
    Some(MemoryPlace { buffer: buffer.name.clone(), offset, size: buffer.bytes, place: report.place })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_screen_of_its_own() {
        for check in Check::ALL {
            assert_eq!(Check::of(check.screen()), Some(check));
        }
        assert_eq!(Check::of(Screen::Orders), None);
        let missing = Missing { cause: "absent".to_owned(), next: "install it".to_owned() };
        let offers = offers(Err(&missing));
        assert!(offers.iter().all(|offer| offer.missing.as_ref() == Some(&missing)));
    }
}
