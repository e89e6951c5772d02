//! Mutants of a kernel: one small fault each, put into its text. Pure.
//!
//! A task whose cases a faulty reference passes would let the same fault pass in a candidate. The operators are the
//! usual ones of mutation analysis (Jia and Harman 2011, "An Analysis and Survey of the Development of Mutation
//! Testing", section III) with those of kernels beside them: a dropped barrier, a block that is always the first, a
//! stride that skips. What does not compile or is the same program is for the caller to tell.

mod expression;
mod scan;
mod statement;

use scan::Scan;

/// Mutants of one source that are made at most: far more than anybody runs.
const MUTANTS_MAX: usize = 5000;

/// What kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operator {
    Arithmetic,
    Relation,
    Logic,
    Condition,
    Assignment,
    Constant,
    Bound,
    Index,
    Stride,
    MinMax,
    DroppedCall,
    DroppedBarrier,
    DroppedStatement,
    NarrowedType,
    FirstBlock,
}

/// One place of the text, replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    pub operator: Operator,
    /// From one.
    pub line: u32,
    /// In bytes of the text.
    pub start: usize,
    pub end: usize,
    pub replacement: String,
}

impl Mutant {
    /// The text with this fault.
    pub fn applied(&self, source: &str) -> String {
        let before = source.get(..self.start).unwrap_or("");
        let after = source.get(self.end..).unwrap_or("");
        format!("{before}{}{after}", self.replacement)
    }

    /// What stood there, and what stands there now, for people.
    pub fn change(&self, source: &str) -> String {
        let old = source.get(self.start..self.end).unwrap_or("");
        let short = |text: &str| {
            let plain: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let cut: String = plain.chars().take(CHANGE_CHARS).collect();
            if cut.len() < plain.len() { format!("{cut}…") } else { cut }
        };
        match (old.is_empty(), short(&self.replacement)) {
            (true, new) => format!("insert `{new}`"),
            (false, new) if new.is_empty() || new == ";" => format!("drop `{}`", short(old)),
            (false, new) => format!("`{}` to `{new}`", short(old)),
        }
    }
}

/// Longest side of a change that is shown.
const CHANGE_CHARS: usize = 48;

/// Every mutant of `source`, in the order of its text, no two of them alike.
pub fn mutants(source: &str) -> Vec<Mutant> {
    let scan = Scan::of(source);
    let mut found = Vec::new();
    for at in 0..scan.len() {
        if scan.is_code(at) {
            expression::at(&scan, at, &mut found);
            statement::at(&scan, at, &mut found);
        }
        if found.len() >= MUTANTS_MAX {
            break;
        }
    }
    found.sort_by(|a, b| (a.start, a.end, &a.replacement).cmp(&(b.start, b.end, &b.replacement)));
    found.dedup_by(|a, b| (a.start, a.end, &a.replacement) == (b.start, b.end, &b.replacement));
    found
}

/// At most `most` of them, evenly spread over the text.
pub fn spread(all: Vec<Mutant>, most: usize) -> Vec<Mutant> {
    let count = all.len();
    if count <= most {
        return all;
    }
    let kept = |at: usize| (at * most) / count != ((at + 1) * most) / count;
    all.into_iter().enumerate().filter(|(at, _)| kept(*at)).map(|(_, mutant)| mutant).collect()
}

#[cfg(test)]
mod tests;
