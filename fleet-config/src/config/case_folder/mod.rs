//! Case folders: one kernel against one reference, with an answer, in a schema that other harnesses share. From
//! `case.json` to a task folder of ours; `docs/CASES.md` has the schema and the translation.

mod dimension;
mod expected;
mod field;
mod read;
mod signature;
mod translate;
mod write;

pub use expected::{Expected, parse_expected};
pub use read::{
    Argument, ArgumentKind, CaseFolder, Config, Geometry, Language, Launches, Requires, Start, StartValue,
    parse_case,
};
pub use translate::{Hidden, TaskFolder, translate};

#[cfg(test)]
mod tests;
