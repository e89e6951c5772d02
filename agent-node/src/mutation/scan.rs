//! The text as operators and words, each with what stands around it.

use super::{Mutant, Operator};
use crate::backend::{Kind, tokens};

/// Operators of more than one character, longest first.
const LONG: [&str; 24] = [
    "<<=", ">>=", "->*", "<=", ">=", "==", "!=", "&&", "||", "<<", ">>", "+=", "-=", "*=", "/=", "%=", "&=",
    "|=", "^=", "++", "--", "->", "::", "##",
];

/// Words that begin a declaration or stand where a value could, without being one.
const TYPES: [&str; 34] = [
    "void",
    "bool",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "half",
    "signed",
    "unsigned",
    "auto",
    "const",
    "constexpr",
    "static",
    "volatile",
    "extern",
    "size_t",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "__half",
    "__half2",
    "half2",
    "float2",
    "float4",
    "__nv_bfloat16",
    "__restrict__",
    "restrict",
];
/// Words that a statement begins with and that are no expression.
const KEYWORDS: [&str; 20] = [
    "if",
    "else",
    "for",
    "while",
    "do",
    "switch",
    "case",
    "default",
    "return",
    "break",
    "continue",
    "goto",
    "struct",
    "template",
    "using",
    "typedef",
    "namespace",
    "sizeof",
    "class",
    "enum",
];
/// After these an angle bracket is no comparison.
const BRACKETED: [&str; 5] = ["template", "static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"];

/// One operator, word, number or literal.
#[derive(Debug, Clone, Copy)]
struct Item {
    kind: Kind,
    start: usize,
    end: usize,
    /// Braces around it.
    depth: usize,
    /// In a preprocessor line, or an angle bracket of a template.
    is_skipped: bool,
}

/// A source with its items.
pub(super) struct Scan<'s> {
    source: &'s str,
    items: Vec<Item>,
    /// Starts of lines, in bytes.
    lines: Vec<usize>,
}

impl<'s> Scan<'s> {
    pub(super) fn of(source: &'s str) -> Self {
        let starts = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        let mut scan = Self { source, items: joined(source), lines };
        scan.place();
        scan
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether mutants may be made here: inside a body, outside of preprocessor lines and templates.
    pub(super) fn is_code(&self, at: usize) -> bool {
        self.items.get(at).is_some_and(|item| item.depth > 0 && !item.is_skipped)
    }
    /// The text of an item; empty beyond the ends.
    pub(super) fn text(&self, at: usize) -> &'s str {
        self.items.get(at).and_then(|item| self.source.get(item.start..item.end)).unwrap_or("")
    }
    /// The one before.
    pub(super) fn before(&self, at: usize) -> &'s str {
        at.checked_sub(1).map_or("", |at| self.text(at))
    }
    pub(super) fn is_word(&self, at: usize) -> bool {
        self.items.get(at).is_some_and(|item| item.kind == Kind::Identifier)
    }
    pub(super) fn is_number(&self, at: usize) -> bool {
        self.items.get(at).is_some_and(|item| item.kind == Kind::Number)
    }
    pub(super) fn is_type(word: &str) -> bool {
        TYPES.contains(&word)
    }
    /// Whether a value ends before `at`, so that an operator there has two sides.
    pub(super) fn is_binary(&self, at: usize) -> bool {
        let Some(previous) = at.checked_sub(1) else { return false };
        let text = self.text(previous);
        let is_value = self.is_word(previous) && !Self::is_type(text) && !KEYWORDS.contains(&text);
        is_value || self.is_number(previous) || text == ")" || text == "]"
    }

    /// The item that closes the bracket at `open`, within the text.
    pub(super) fn closing(&self, open: usize) -> Option<usize> {
        let (opening, closing) = match self.text(open) {
            "(" => ("(", ")"),
            "[" => ("[", "]"),
            _ => return None,
        };
        let mut depth = 0_usize;
        for at in open..self.len() {
            let text = self.text(at);
            if text == opening {
                depth += 1;
            } else if text == closing {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        None
    }

    /// The first item of the statement around `at`: after a semicolon, a brace, or the brackets of a control word.
    pub(super) fn begins(&self, at: usize) -> usize {
        let mut first = at;
        while let Some(previous) = first.checked_sub(1) {
            match self.text(previous) {
                ";" | "{" | "}" | "else" | "do" => break,
                ")" if self.closes_control(previous) => break,
                _ => first = previous,
            }
        }
        first
    }

    /// Whether the bracket at `close` is that of `if`, `for`, `while` or `switch`.
    pub(super) fn closes_control(&self, close: usize) -> bool {
        let mut depth = 0_usize;
        for at in (0..=close).rev() {
            match self.text(at) {
                ")" => depth += 1,
                "(" => {
                    depth -= 1;
                    if depth == 0 {
                        return matches!(self.before(at), "if" | "for" | "while" | "switch" | "constexpr");
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// Whether the statement that begins at `first` declares something.
    pub(super) fn declares(&self, first: usize) -> bool {
        let text = self.text(first);
        let two_words = self.is_word(first) && self.is_word(first + 1) && !KEYWORDS.contains(&text);
        Self::is_type(text) || text.starts_with("__shared__") || text.starts_with("__constant__") || two_words
    }
    pub(super) fn is_keyword(&self, at: usize) -> bool {
        KEYWORDS.contains(&self.text(at))
    }

    /// A mutant that replaces the items from `first` to `last` (both included).
    pub(super) fn replaced(
        &self,
        operator: Operator,
        first: usize,
        last: usize,
        replacement: impl Into<String>,
    ) -> Mutant {
        let start = self.items.get(first).map_or(0, |item| item.start);
        let end = self.items.get(last).map_or(start, |item| item.end);
        self.between(operator, start, end, replacement)
    }
    /// A mutant that inserts text before the item at `at`.
    pub(super) fn inserted(&self, operator: Operator, at: usize, text: impl Into<String>) -> Mutant {
        let start = self.items.get(at).map_or(self.source.len(), |item| item.start);
        self.between(operator, start, start, text)
    }
    /// The text of the items from `first` to `last`.
    pub(super) fn slice(&self, first: usize, last: usize) -> &'s str {
        let range =
            self.items.get(first).zip(self.items.get(last)).map(|(first, last)| first.start..last.end);
        range.and_then(|range| self.source.get(range)).unwrap_or("")
    }

    fn between(
        &self,
        operator: Operator,
        start: usize,
        end: usize,
        replacement: impl Into<String>,
    ) -> Mutant {
        let line = self.lines.partition_point(|line| *line <= start);
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        Mutant { operator, line, start, end, replacement: replacement.into() }
    }

    /// Finds depths, preprocessor lines and angle brackets of templates.
    fn place(&mut self) {
        let (mut depth, mut skipped_until, mut angles) = (0_usize, 0, 0_usize);
        for at in 0..self.items.len() {
            let (text, previous) = (self.text(at), self.before(at));
            let start = self.items[at].start;
            if text == "#" && start >= skipped_until {
                skipped_until = self.line_end(start);
            }
            if angles > 0 && text == ">" {
                angles -= 1;
                self.items[at].is_skipped = true;
            }
            if text == "<" && (BRACKETED.contains(&previous) || angles > 0) {
                angles += 1;
            }
            // A template's brackets end with its statement at the latest.
            if matches!(text, ";" | "{") {
                angles = 0;
            }
            if text == "}" {
                depth = depth.saturating_sub(1);
            }
            self.items[at].depth = depth;
            self.items[at].is_skipped |= start < skipped_until || angles > 0;
            if text == "{" {
                depth += 1;
            }
        }
    }

    /// The end of the line at `start`, continued ones included.
    fn line_end(&self, start: usize) -> usize {
        let mut at = start;
        for line in self.source.get(start..).unwrap_or("").split_inclusive('\n') {
            at += line.len();
            if !line.trim_end_matches(['\n', '\r']).ends_with('\\') {
                break;
            }
        }
        at
    }
}

/// The tokens of `source`, neighbouring signs joined to operators.
fn joined(source: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for token in tokens(source) {
        let joins = items.last().is_some_and(|last| {
            let both = source.get(last.start..token.end).unwrap_or("");
            last.kind == Kind::Punctuation
                && token.kind == Kind::Punctuation
                && last.end == token.start
                && LONG.contains(&both)
        });
        match items.last_mut() {
            Some(last) if joins => last.end = token.end,
            _ => items.push(Item {
                kind: token.kind,
                start: token.start,
                end: token.end,
                depth: 0,
                is_skipped: false,
            }),
        }
    }
    items
}
