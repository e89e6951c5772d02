//! `text/1`: what a source says about whose work it is.
//!
//! Two sources are the same if their tokens are, comments and layout aside, up to a renaming of variables: the n-th new
//! variable of one stands where the n-th new one of the other does. What is called, a member, a type or a built-in keeps
//! its name: another intrinsic is other work. A candidate is a forward only if its launch plan is
//! the same too: another block size is work. Calls of libraries are known by the words that only they use.

use super::{Evidenced, Seen};
use crate::entry::predicate::{FindingJudgement, FindingScope};
use fleet_config::domain::LaunchPlan;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Namespaces, headers and prefixes of libraries that do the work of a kernel. A word counts if it is one of these, or
/// begins with one that ends in `_` here.
const LIBRARIES: [(&str, &[&str]); 10] = [
    ("cuBLAS", &["cublas", "cublas_", "cublasdx", "cublasLt"]),
    ("cuDNN", &["cudnn", "cudnn_"]),
    ("cuFFT", &["cufft", "cufft_", "cufftdx"]),
    ("cuSPARSE", &["cusparse", "cusparse_"]),
    ("cuSOLVER", &["cusolver", "cusolver_", "cusolverdx"]),
    ("CUTLASS", &["cutlass", "cute"]),
    ("CUB", &["cub"]),
    ("Thrust", &["thrust"]),
    ("MathDx", &["commondx", "curanddx"]),
    ("PyTorch", &["torch", "at"]),
];

/// Words that count only before `::` or in an include, being ordinary names otherwise.
const QUALIFIED_ONLY: [&str; 4] = ["cub", "cute", "at", "torch"];

/// Words that are no variables of a source, beside those that end in `_t` or are vectors of these types.
const KEPT: [&str; 66] = [
    "alignas",
    "auto",
    "bool",
    "break",
    "case",
    "char",
    "class",
    "const",
    "constexpr",
    "continue",
    "default",
    "define",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "false",
    "float",
    "for",
    "goto",
    "half",
    "if",
    "include",
    "inline",
    "int",
    "long",
    "namespace",
    "operator",
    "pragma",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "template",
    "this",
    "true",
    "typedef",
    "typename",
    "unroll",
    "uchar",
    "uint",
    "ulong",
    "ulonglong",
    "longlong",
    "union",
    "unsigned",
    "ushort",
    "using",
    "void",
    "volatile",
    "while",
    "ifdef",
    "ifndef",
    "endif",
    "undef",
    "threadIdx",
    "blockIdx",
    "blockDim",
    "gridDim",
    "warpSize",
];

/// Tokens looked at: the largest source tree has fewer.
const TOKENS_MAX: usize = 1 << 20;

/// What the sources show.
pub(super) fn examine(case: &Evidenced<'_>) -> Option<Seen> {
    let own = normalised(case.sources.candidate)?;
    let plan = case.candidate.plan.as_ref().unwrap_or(&case.task.baseline.plan);
    let forwards = |files: &[Vec<u8>], theirs: &LaunchPlan| {
        plan == theirs && normalised(files).is_some_and(|other| other == own)
    };
    if forwards(case.sources.baseline, &case.task.baseline.plan) {
        return Some(labelled(
            "text/baseline",
            "the source is the baseline's, but for comments, layout and names".to_owned(),
            json!({"same_as": "baseline", "tokens": own.len()}),
        ));
    }
    if forwards(case.sources.reference, &case.task.reference.plan) {
        return Some(labelled(
            "text/reference",
            "the source is the reference's, but for comments, layout and names".to_owned(),
            json!({"same_as": "reference", "tokens": own.len()}),
        ));
    }
    let libraries = libraries(case.sources.candidate);
    (!libraries.is_empty()).then(|| {
        let names: Vec<&str> = libraries.keys().copied().collect();
        let words: BTreeMap<&str, Vec<&String>> =
            libraries.iter().map(|(name, words)| (*name, words.iter().collect())).collect();
        labelled(
            "text/library",
            format!("the work is a library's: {}", names.join(", ")),
            json!({"words": words}),
        )
    })
}

fn labelled(code: &'static str, cause: String, evidence: serde_json::Value) -> Seen {
    let (judgement, scope) = (FindingJudgement::Labelled, FindingScope::Candidate);
    Seen { judgement, scope, code, cause, evidence }
}

/// A token of a source whose names do not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// The n-th distinct variable of the source.
    Variable(usize),
    Other(String),
}

/// The tokens of all files; nothing where there are no files or too many tokens.
fn normalised(files: &[Vec<u8>]) -> Option<Vec<Token>> {
    if files.is_empty() {
        return None;
    }
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    let mut tokens = Vec::new();
    for file in files {
        let words = words(&String::from_utf8_lossy(file));
        if tokens.len() + words.len() > TOKENS_MAX {
            return None;
        }
        let variables = variables(&words);
        for (at, word) in words.iter().enumerate() {
            let is_member = at > 0 && matches!(words[at - 1].as_str(), "." | "#");
            tokens.push(if variables.contains(word.as_str()) && !is_member {
                let next = names.len();
                Token::Variable(*names.entry(word.clone()).or_insert(next))
            } else {
                Token::Other(word.clone())
            });
        }
    }
    Some(tokens)
}

/// The words that may be called otherwise without changing what the source does: they stand after a type where they are
/// declared, and nowhere before an opening bracket or `::`, as what is called does. What is in doubt keeps its name.
fn variables(words: &[String]) -> BTreeSet<&str> {
    let mut declared = BTreeSet::new();
    let mut called = BTreeSet::new();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| words.get(at)).map_or("", String::as_str);
        let after = words.get(at + 1).map_or("", String::as_str);
        if matches!(after, "(" | ":") {
            called.insert(word.as_str());
        }
        let is_plain = word.starts_with(|first: char| first.is_ascii_lowercase()) && !is_kept(word);
        if is_plain && (is_kept(before) || matches!(before, "*" | "&")) {
            declared.insert(word.as_str());
        }
    }
    declared.difference(&called).copied().collect()
}

/// Whether a word is of the language, of CUDA, or a type by its form.
fn is_kept(word: &str) -> bool {
    let base = word.strip_suffix(|digit: char| ('1'..='4').contains(&digit)).unwrap_or(word);
    KEPT.contains(&word) || KEPT.contains(&base) || (word.ends_with("_t") && word.len() > 2)
}

/// Identifiers and numbers whole, everything else a character at a time; comments and white space left out. Text in quotes
/// stays whole, so that `//` in it begins nothing.
fn words(text: &str) -> Vec<String> {
    let text = text.replace("\\\r\n", "").replace("\\\n", "");
    let mut rest = text.chars().peekable();
    let mut words = Vec::new();
    while let Some(first) = rest.next() {
        match first {
            '/' if rest.peek() == Some(&'/') => while rest.next().is_some_and(|c| c != '\n') {},
            '/' if rest.peek() == Some(&'*') => {
                rest.next();
                let mut last = ' ';
                for c in rest.by_ref() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            quote @ ('"' | '\'') => {
                let mut word = String::from(quote);
                while let Some(c) = rest.next() {
                    word.push(c);
                    match c {
                        '\\' => word.extend(rest.next()),
                        c if c == quote => break,
                        _ => {}
                    }
                }
                words.push(word);
            }
            c if c.is_alphanumeric() || c == '_' => {
                let mut word = String::from(c);
                while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    word.push(c);
                }
                words.push(word);
            }
            c if c.is_whitespace() => {}
            c => words.push(c.to_string()),
        }
    }
    words
}

/// The libraries that a source names, each with the words that say so.
fn libraries(files: &[Vec<u8>]) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut found: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let words = words(&String::from_utf8_lossy(file));
        for (at, word) in words.iter().enumerate() {
            let follows = |offset: usize, text: &str| words.get(at + offset).is_some_and(|word| word == text);
            let is_qualified = follows(1, ":") && follows(2, ":");
            let is_included = at >= 2 && words[at - 1] == "<" && words[at - 2] == "include";
            for (library, known) in LIBRARIES {
                let named = known.iter().any(|known| match known.strip_suffix('_') {
                    // A call such as `cublasSgemm`: the prefix and a capital letter.
                    Some(prefix) => word
                        .strip_prefix(prefix)
                        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')),
                    None if QUALIFIED_ONLY.contains(known) => word == known && (is_qualified || is_included),
                    None => word == known,
                });
                let quoted = word.strip_prefix('"').is_some_and(|path| {
                    known.iter().any(|known| path.starts_with(&format!("{}/", known.trim_end_matches('_'))))
                }) && at >= 1
                    && words[at - 1] == "include";
                if named || quoted {
                    found.entry(library).or_default().insert(word.chars().take(80).collect());
                }
            }
        }
    }
    found
}
