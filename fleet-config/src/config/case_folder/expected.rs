//! `expected.json`: the answer that a harness should give.

use super::field::{Field, document};
use crate::refusal::Refusal;
use std::collections::BTreeMap;

/// Longest list in an answer.
const LIST_MAX: usize = 256;

/// What a case expects.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    pub status: String,
    /// Statuses of which any will do; `status` alone where the file lists none.
    pub accept: Vec<String>,
    /// Whether the candidate takes part in the ranking; nothing where it depends.
    pub ranked: Option<bool>,
    pub must_mention_any: Vec<String>,
    pub must_not_mention: Vec<String>,
    pub speedup_max: Option<f64>,
    /// Whether a note that times are unstable makes up for a higher speed-up.
    pub unstable_flag_ok: bool,
    /// Words by config, the first of which is a status.
    pub per_config: BTreeMap<String, String>,
    /// Whether the forbidden words may stand where captured output is quoted.
    pub quoted_output_ok: bool,
    pub worker_survives: bool,
    pub next_job_ok: bool,
}

/// Reads the text of `expected.json`. Errors: `case/size`, `case/json`, `case/field`.
pub fn parse_expected(bytes: &[u8]) -> Result<Expected, Refusal> {
    let value = document(bytes, "expected.json")?;
    let root = Field::root(&value, "expected.json");
    let status = root.required("status")?.text()?;
    let accept = root.texts("accept", LIST_MAX)?;
    let flag = |name: &str, absent: bool| root.optional(name).map_or(Ok(absent), |field| field.flag());
    let per_config = match root.optional("per_config") {
        Some(field) => {
            let members = field.members(LIST_MAX)?;
            members
                .into_iter()
                .map(|(name, word)| Ok((name, word.text()?)))
                .collect::<Result<_, Refusal>>()?
        }
        None => BTreeMap::new(),
    };
    Ok(Expected {
        accept: if accept.is_empty() { vec![status.clone()] } else { accept },
        status,
        ranked: root.optional("ranked").map(|field| field.flag()).transpose()?,
        must_mention_any: root.texts("must_mention_any", LIST_MAX)?,
        must_not_mention: root.texts("must_not_mention", LIST_MAX)?,
        speedup_max: root.optional("speedup_max").map(|field| field.number()).transpose()?,
        unstable_flag_ok: flag("unstable_flag_ok", false)?,
        per_config,
        quoted_output_ok: flag("quoted_output_ok", false)?,
        worker_survives: flag("worker_survives", true)?,
        next_job_ok: flag("next_job_ok", true)?,
    })
}
