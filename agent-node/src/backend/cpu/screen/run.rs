//! Runs a program with a sanitizer once, in the sandbox, and reads what it said.

use super::build::Kind;
use super::plan::encode;
use super::report::{Facts, View};
use super::{report_address, report_thread};
use crate::backend::Failure;
use crate::backend::cpu::failure::{infrastructure, interrupted};
use crate::backend::screen::{ScreenRequest, Screening};
use crate::sandbox::{self, Exit, ExitHow, Profile, Request, ResourceLimits};
use fleet_config::domain::Stage;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// The number under which the program finds its plan.
const PLAN_DESCRIPTOR: i32 = 3;
/// Reports are long; the first says what is wrong.
const OUTPUT_MAX: usize = 256 << 10;
/// Longest part of a report that a failure's log quotes.
const LOG_MAX: usize = 32 << 10;
/// A shrunken case takes seconds; one that takes longer hangs or is too big.
const RUN_MAX: Duration = Duration::from_secs(60);
/// Shadow memory is several times what a case holds, and cases are small.
const RESIDENT_MAX: u64 = 4 << 30;
/// Each block may have a thread, and a sanitizer has one of its own.
const THREADS: u64 = 96;

pub(super) fn run(
    request: &ScreenRequest<'_>,
    kind: Kind,
    program: &Path,
    blocks: u64,
) -> Result<Screening, Failure> {
    let failed = |what: &str, error: &dyn std::fmt::Display| infrastructure(Stage::Validate, what, error);
    let plan = encode(request.evaluation, request.contents, blocks);
    let plan = sealed(&plan).map_err(|error| failed("write the plan of a screen", &error))?;
    let child = sandbox::spawn(order(request, program, plan), request.worker.confinement);
    let mut child = child.map_err(|error| failed("start a screen", &error))?;
    let interrupt = &request.worker.interrupt;
    let id = child.id();
    let exit = child.wait_unless(RUN_MAX, &|| interrupt.asked() || resident(id) > RESIDENT_MAX);
    match exit.map_err(|error| failed("wait for a screen", &error))? {
        Some(exit) => Ok(read(request, kind, program, blocks, &exit)),
        None if interrupt.asked() => Err(interrupted(Stage::Validate)),
        None => {
            let cause = format!("it took more than {} MiB of memory", RESIDENT_MAX >> 20);
            Ok(Screening::not_run(cause, "give the task a smaller correctness case"))
        }
    }
}

/// Bytes of memory that a process holds now; 0 once it has ended. A sanitizer reserves so much address space that no limit
/// on it could be set, so its memory is watched.
fn resident(process: u32) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok()).unwrap_or(0);
    pages.saturating_mul(rustix::param::page_size() as u64)
}

/// A file in memory that nobody can change any more.
fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create("plan", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = std::fs::File::from(file);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

fn order(request: &ScreenRequest<'_>, program: &Path, plan: OwnedFd) -> Request {
    Request {
        program: program.to_owned(),
        arguments: Vec::new(),
        environment: Vec::new(),
        folder: request.worker.folder.clone(),
        readable: vec![program.to_owned()],
        executable: vec![program.to_owned()],
        devices: Vec::new(),
        passed: vec![(plan, PLAN_DESCRIPTOR)],
        profile: Profile::Screen,
        limits: ResourceLimits {
            cpu_seconds: RUN_MAX.as_secs() * 4,
            // Sanitizers reserve terabytes of address space.
            memory: None,
            file_size: 1 << 20,
            open_files: 64,
            processes: THREADS,
            output_max: OUTPUT_MAX,
        },
    }
}

fn read(request: &ScreenRequest<'_>, kind: Kind, program: &Path, blocks: u64, exit: &Exit) -> Screening {
    let text = exit.output.text();
    let facts = Facts::read(&text);
    let view = View { evaluation: request.evaluation, program, main: &request.artefact.main, facts: &facts };
    let detail = match blocks {
        u64::MAX => "every block".to_owned(),
        blocks => format!("the last block and those before {}", blocks.saturating_sub(1)),
    };
    let found = match kind {
        Kind::Address => report_address::read(&text, &view),
        Kind::ThreadsOfBlock | Kind::Blocks => report_thread::read(&text, &view, request.screen),
    };
    if let Some(mut failure) = found.or_else(|| view.stopped()) {
        failure.log = Some(text.bytes().take(LOG_MAX).collect());
        let mut screening = Screening::fault(failure, detail);
        if kind == Kind::ThreadsOfBlock {
            let lost =
                report_thread::lost_update(&text, &view, request.screen, &|line| main_line(request, line));
            screening.lost_update = lost.map(|mut failure| {
                failure.log = Some(text.bytes().take(LOG_MAX).collect());
                Box::new(failure)
            });
        }
        return screening;
    }
    if facts.is_done && exit.how == ExitHow::Code(0) {
        return Screening::no_fault_found(detail);
    }
    let next = "look for these words in the documentation of the sanitizer; give the task a smaller case";
    let why = match (&facts.broken, exit.how) {
        (Some(what), _) => what.clone(),
        (None, ExitHow::Deadline) => format!("it did not finish within {} s", RUN_MAX.as_secs()),
        (None, ExitHow::MemoryLimit) => "it took more memory than it was granted".to_owned(),
        (None, ExitHow::Code(code)) => format!("it ended early with code {code}: {}", last_line(&text)),
        (None, ExitHow::Signal(signal)) => {
            format!("it was ended by signal {signal}: {}", last_line(&text))
        }
    };
    Screening::not_run(why, next)
}

/// Line `line` of the candidate's main file.
fn main_line(request: &ScreenRequest<'_>, line: u32) -> Option<String> {
    let sources = &request.compile.sources;
    let text = String::from_utf8_lossy(sources.files.get(&sources.main)?);
    let at = usize::try_from(line).ok()?.checked_sub(1)?;
    text.lines().nth(at).map(str::to_owned)
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    line.chars().take(200).collect()
}
