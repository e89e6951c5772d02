//! A program of its own from a candidate, a sanitizer, the runtime with its hooks, and a small main.

use crate::backend::cpu::compile::{Compiler, Recipe, rewritten, write_tree};
use crate::backend::cpu::failure;
use crate::backend::cpu::glue::glue;
use crate::backend::cpu::shim;
use crate::backend::cpu::toolchain::Family;
use crate::backend::{CompileRequest, Evaluation, Failure, ResolvedStep};
use crate::sandbox::ExitHow;
use fleet_config::domain::Stage;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// What the program looks for; the numbers are those of `sanitizer_hooks.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Address = 1,
    ThreadsOfBlock = 2,
    Blocks = 3,
}

/// Threads that are run with a sanitizer when a part of the blocks does.
const THREADS_WANTED: u64 = 2048;
/// Each block has a thread of the operating system.
const BLOCKS_MAX: u64 = 64;

impl Kind {
    /// How many blocks of a single kernel are looked at: two at least, since some faults take two.
    pub(super) fn blocks_max(self, evaluation: &Evaluation) -> u64 {
        let threads = |step: &ResolvedStep| match step {
            ResolvedStep::Kernel { block, .. } => {
                block.iter().fold(1_u64, |all, size| all.saturating_mul(*size))
            }
            ResolvedStep::Memset { .. } => 1,
        };
        let threads = evaluation.steps.iter().map(threads).max().unwrap_or(1).max(1);
        let wanted = match self {
            // Costs a tenth of the others.
            Self::Address => THREADS_WANTED * 16,
            Self::ThreadsOfBlock | Self::Blocks => THREADS_WANTED,
        };
        (wanted / threads).clamp(2, self.most())
    }

    /// The most blocks that can be run at all.
    pub(super) fn most(self) -> u64 {
        match self {
            Self::Address | Self::ThreadsOfBlock => 1 << 20,
            Self::Blocks => BLOCKS_MAX,
        }
    }

    /// Flags for the candidate alone: the runtime must not be looked at.
    fn instrument(self, family: Family) -> Vec<&'static str> {
        match (self, family) {
            (Self::Address, _) => vec!["-fsanitize=address,bounds", "-fno-sanitize-recover=all"],
            (Self::ThreadsOfBlock, _) => vec!["-fsanitize=thread"],
            (Self::Blocks, Family::Gcc) => vec!["-fsanitize=thread", "--param=tsan-distinguish-volatile=1"],
            (Self::Blocks, Family::Clang) => {
                vec!["-fsanitize=thread", "-mllvm", "-tsan-distinguish-volatile=1"]
            }
        }
    }
}

/// What came of a build.
pub(super) enum Built {
    Program(PathBuf),
    /// In the compiler's words; the ordinary build of the same source went well.
    Refused(String),
}

/// Builds the program, or takes it from the cache.
pub(super) fn build(compiler: &Compiler, request: &CompileRequest, kind: Kind) -> Result<Built, Failure> {
    let failed = |what: &str, error: std::io::Error| failure::infrastructure(Stage::Validate, what, &error);
    let mut tail = glue(&request.entries).map_err(|error| failure::glue(&error))?;
    tail.push_str(&table(request.entries.len()));
    let tree = rewritten(&request.sources)?;
    let headers = request.headers.iter().map(rewritten).collect::<Result<Vec<_>, _>>()?;
    let main = &request.sources.main;
    if !tree.contains_key(main) {
        return Err(failure::main_missing(main));
    }
    let family = compiler.toolchain().family;
    let base_flags = flags(compiler.flags(request)?, kind);
    let instrument: Vec<String> = kind.instrument(family).into_iter().map(str::to_owned).collect();
    let mut own = [base_flags.clone(), instrument.clone()].concat();
    let mentions = |text: &String| text.contains("__threadfence") || text.contains("thread_fence");
    if tree.values().chain(headers.iter().flat_map(|files| files.values())).any(mentions) {
        own.push("-DMUSTER_FENCES".to_owned());
    }
    let key = compiler.key(request, &tree, &headers, &tail, &own);
    let program = request.folder.join("screen");
    if compiler.cache.take(key, &program).map_err(|error| failed("look into the cache", error))? {
        return Ok(Built::Program(program));
    }
    let around = (request.confinement, &request.interrupt);
    let units: &[&str] = &[shim::RUNTIME, shim::SCREEN_MAIN];
    let recipe = Recipe { flags: &base_flags, instrument: &instrument, units };
    let base = compiler.base(&recipe, around)?;
    let source = |error| failed("write the sources", error);
    write_tree(&request.folder.join("source"), &tree, main, &tail).map_err(source)?;
    for (index, files) in headers.iter().enumerate() {
        write_tree(&request.folder.join(format!("headers{index}")), files, "", "").map_err(source)?;
    }
    let mut arguments = compiler.reading(&own, &base, headers.len(), &request.folder);
    let main = format!("source/{main}");
    arguments.extend(["-pie", "-x", "c++", &main, "-x", "none"].map(str::to_owned));
    for unit in units {
        arguments.push(format!("{}/{}", base.display(), unit.replace(".cpp", ".o")));
    }
    arguments.extend(["-o", "screen"].map(str::to_owned));
    let limit = Duration::from_millis(request.limit.0);
    let exit = compiler.run(&request.folder, &arguments, Some(&base), limit, around)?;
    if exit.success() {
        // The linker would have done it, but a compiler's sandbox lets nobody change modes.
        let executable = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&program, executable).map_err(|error| failed("mark the program", error))?;
        compiler.cache.keep(key, &program).map_err(|error| failed("keep the program", error))?;
        return Ok(Built::Program(program));
    }
    if exit.how == ExitHow::Deadline {
        return Ok(Built::Refused(format!("it took longer than {} ms", request.limit.0)));
    }
    let text = exit.output.text();
    let line = text.lines().find(|line| line.contains("error")).or_else(|| text.lines().next());
    Ok(Built::Refused(line.unwrap_or("no message").chars().take(200).collect()))
}

/// The ordinary flags, but readable stacks and all that a report can name.
fn flags(ordinary: Vec<String>, kind: Kind) -> Vec<String> {
    let kept = ordinary.into_iter().filter(|flag| !flag.starts_with("-O") && flag != "-g1");
    let mut flags: Vec<String> = kept.collect();
    flags.extend(["-O1", "-g", "-fno-omit-frame-pointer", "-pthread"].map(str::to_owned));
    flags.push(format!("-DMUSTER_SCREEN={}", kind as u32));
    flags
}

/// The entries as a table, since a program cannot look its own hidden names up.
fn table(entries: usize) -> String {
    let list = |name: &str| (0..entries).fold(String::new(), |all, index| format!("{all}{name}_{index}, "));
    let mut text = String::new();
    let _ = writeln!(
        text,
        "extern \"C\" {{\nextern void (*const muster_entries[])(void**) = {{ {}nullptr }};\n\
         extern const int muster_arities[] = {{ {}-1 }};\nextern const unsigned muster_entry_count = {entries};\n}}",
        list("muster_entry"),
        list("::muster_arity"),
    );
    text
}
