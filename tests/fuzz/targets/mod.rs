//! What is fuzzed: functions of bytes alone, which must never panic and never take memory beyond a constant times
//! their input. The fuzzer runs them on what it makes up, `replay.rs` on what was found.

mod candidate;
mod child;
mod config;
mod coordinator;
mod cursor;
mod document;
mod entry;
mod folder;
mod generator;
mod ledger;
mod log;
mod memory;
mod repository;
mod state;
mod wire;

use cursor::Cursor;

/// One reader, or a few that belong together, with their properties.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Runs once; panics when a property does not hold.
    pub(crate) run: fn(&[u8]),
    /// Inputs to start from.
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    /// Longest input that is worth trying.
    pub(crate) length_max: usize,
    /// What the target may allocate whatever it is given (a document of its own, tables of a library).
    memory_base: usize,
}

/// Bytes of memory for each byte of input. The worst that is known is a JSON object in an object: a node of a
/// `BTreeMap` of values, 632 bytes, for the 6 bytes of `{"":{}`, twice while it is turned from a value into a type.
const MEMORY_FACTOR: usize = 400;
/// Unless a target says otherwise: refusals, error chains, small tables.
const MEMORY_BASE: usize = 1 << 20;

impl Target {
    const fn new(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Self {
        Self { name, run, seeds, length_max: 8192, memory_base: MEMORY_BASE }
    }

    const fn length(self, length_max: usize) -> Self {
        Self { length_max, ..self }
    }

    const fn memory(self, memory_base: usize) -> Self {
        Self { memory_base, ..self }
    }

    /// Runs once and looks at the memory that it took. What a target makes once must be made before.
    pub(crate) fn check(&self, data: &[u8]) {
        let used = memory::of(|| (self.run)(data));
        let allowed = self.memory_base.saturating_add(data.len().saturating_mul(MEMORY_FACTOR));
        assert!(used <= allowed, "{used} bytes of memory for {} of input; {allowed} are allowed", data.len());
    }
}

pub(crate) const TARGETS: &[&Target] = &[
    &wire::WIRE,
    &document::DOCUMENT,
    &config::TASK_FILE,
    &config::CANDIDATE_FILE,
    &config::SETTINGS,
    &config::CASE_FOLDER,
    &config::DECLARATION,
    &config::INVITE,
    &generator::EXPRESSION,
    &generator::DRAW,
    &generator::COMPARE,
    &ledger::ENVELOPE,
    &ledger::ENTRY,
    &ledger::SAMPLES,
    &ledger::DOSSIER,
    &log::WAL,
    &log::NOTE,
    &log::PROOF,
    &log::TILE,
    &folder::LEDGER_FOLDER,
    &coordinator::JOURNAL,
    &coordinator::REQUEST,
    &coordinator::HELLO,
    &candidate::LEXER,
    &candidate::REWRITE,
    &candidate::SIGNATURE,
    &child::WORKER_FRAME,
    &child::WORKER_FAULT,
    &child::SANITIZER,
    &child::COMPILER_LOG,
    &child::CUBIN,
    &child::LINES,
    &state::STATE_FILE,
    &state::OUTBOX,
];
