//! Settings: one struct per file kind; text is parsed, then checked, then typed.
//!
//! A task file's way: [`load`] reads bytes, [`task_file`] parses them into a [`TaskDraft`], [`lint()`] judges the
//! draft, [`assemble()`] joins it with its sources into a task. Everything but `load` is pure, and every
//! refusal names file and line.

mod assemble;
mod candidate_file;
pub mod case_folder;
mod coordinator;
mod declaration;
mod document;
mod launch;
mod lint;
pub mod load;
mod node;
mod plan_check;
mod scaffold;
mod source;
mod task_check;
mod task_file;
mod text;

pub use assemble::{Files, LoadedTask, assemble};
pub use candidate_file::{
    CandidateDraft, LoadedCandidate, assemble_candidate, lint_candidate, parse_candidates,
};
pub use coordinator::{CoordinatorLimits, CoordinatorSettings};
pub use declaration::{Declaration, DeclarationError, DeclaredParameter, Passing};
pub use lint::{Findings, TIMED_MAX, lint};
pub use node::{DeviceSettings, NodeLimits, NodeSettings, SandboxWish, SandboxWishError};
pub use plan_check::{PlanFrame, check_plan};
pub use scaffold::scaffold;
pub use source::{check_path, check_source};
pub use task_check::check_task;
pub use task_file::{CaseDraft, ImplementationDraft, InputDraft, Placed, TaskDraft, parse_task};

#[cfg(test)]
mod tests;
