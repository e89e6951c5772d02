//! The few changes that a candidate's text needs before a host compiler reads it. Lines keep their numbers.
//!
//! | written | becomes |
//! | --- | --- |
//! | `extern __shared__ T name[];` | a declaration of the runtime's pointer to the dynamic buffer, under this name and type |
//! | `asm`, `__asm__`, `__asm` | a marker that refuses inline assembly where it is really compiled |
//! | `kernel<<<…>>>(…)` | a marker that refuses launches from the source |
//! | `static __shared__` | `__shared__` |
//! | `__noinline__` | `muster_noinline`, since the host's headers use the word inside attributes |

use crate::backend::lexer::{Kind, Token, tokens};

/// Longest declaration of dynamic shared memory in tokens; a longer one is left to the compiler.
const DECLARATION_TOKENS_MAX: usize = 64;

/// A text that no compiler will see.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RewriteError {
    #[error("the source contains a NUL byte at byte {at}")]
    Nul { line: u32, at: usize },
    #[error("the source is not UTF-8 from byte {at} on")]
    NotUtf8 { line: u32, at: usize },
    #[error("include of an absolute path is not allowed: {name}")]
    AbsoluteInclude { line: u32, name: String },
}

impl RewriteError {
    /// Where it is.
    pub(super) fn line(&self) -> u32 {
        match self {
            Self::Nul { line, .. } | Self::NotUtf8 { line, .. } | Self::AbsoluteInclude { line, .. } => *line,
        }
    }
}

/// The text that the compiler gets. A byte order mark goes, CRLF becomes LF.
pub(super) fn rewrite(bytes: &[u8]) -> Result<String, RewriteError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(RewriteError::Nul { line: line_of(bytes, at), at });
    }
    let text = str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        RewriteError::NotUtf8 { line: line_of(bytes, at), at }
    })?;
    let source = text.replace("\r\n", "\n");
    let tokens = tokens(&source);
    let mut out = String::with_capacity(source.len() + 256);
    let mut copied = 0;
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let mut used = 1;
        if let Some(change) = change(&source, &tokens, index)? {
            out.push_str(source.get(copied..token.start).unwrap_or(""));
            out.push_str(&change.text);
            used = change.tokens;
            copied = tokens.get(index + used - 1).map_or(source.len(), |last| last.end);
        }
        index += used;
    }
    out.push_str(source.get(copied..).unwrap_or(""));
    Ok(out)
}

struct Change {
    text: String,
    tokens: usize,
}

fn change(source: &str, tokens: &[Token], index: usize) -> Result<Option<Change>, RewriteError> {
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text(source));
    let Some(token) = tokens.get(index) else { return Ok(None) };
    let replaced = |text: &str| Ok(Some(Change { text: text.to_owned(), tokens: 1 }));
    match token.kind {
        Kind::HeaderName => {
            let name = token.text(source).trim_matches(['<', '>', '"']);
            if name.starts_with('/') {
                let line = line_of(source.as_bytes(), token.start);
                return Err(RewriteError::AbsoluteInclude { line, name: name.to_owned() });
            }
            Ok(None)
        }
        Kind::Identifier => match token.text(source) {
            "asm" | "__asm__" | "__asm" => replaced("muster_inline_assembly"),
            // Said of shared memory the word adds nothing, and the shim's own meaning of it may not be said twice.
            "static" if word(index + 1) == "__shared__" || (index > 0 && word(index - 1) == "__shared__") => {
                replaced("")
            }
            "__noinline__" if index == 0 || !matches!(word(index - 1), "(" | ",") => {
                replaced("muster_noinline")
            }
            "extern" if word(index + 1) == "__shared__" => Ok(dynamic_shared(source, tokens, index)),
            "__shared__" if word(index + 1) == "extern" => Ok(dynamic_shared(source, tokens, index)),
            _ => Ok(None),
        },
        Kind::Punctuation if is_launch(source, tokens, index) => {
            Ok(Some(Change { text: " muster_kernel_launch <<<".to_owned(), tokens: 3 }))
        }
        Kind::Number | Kind::Literal | Kind::Punctuation => Ok(None),
    }
}

/// Whether `<<<` begins here, which C++ has behind `operator` only.
fn is_launch(source: &str, tokens: &[Token], index: usize) -> bool {
    let at = |offset: usize| tokens.get(index + offset);
    let angle = |token: Option<&Token>| token.is_some_and(|token| token.text(source) == "<");
    let adjacent = |left: Option<&Token>, right: Option<&Token>| {
        left.zip(right).is_some_and(|(left, right)| left.end == right.start)
    };
    let before = index.checked_sub(1).and_then(|before| tokens.get(before));
    let named = before.is_some_and(|token| token.kind == Kind::Identifier || token.text(source) == ">");
    named
        && before.is_some_and(|token| token.text(source) != "operator")
        && (0..3).all(|offset| angle(at(offset)))
        && (0..2).all(|offset| adjacent(at(offset), at(offset + 1)))
}

/// `extern __shared__ T name[]…;` from the token `start` on, or `None` if it is anything else.
fn dynamic_shared(source: &str, tokens: &[Token], start: usize) -> Option<Change> {
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text(source));
    let end = (start..tokens.len().min(start + DECLARATION_TOKENS_MAX)).find(|at| word(*at) == ";")?;
    let mut kind = Vec::new();
    let mut at = start + 2;
    let name = loop {
        // No type has a literal in it, and one may go over a line's end.
        if matches!(tokens.get(at)?.kind, Kind::Literal | Kind::HeaderName) {
            return None;
        }
        match word(at) {
            // The runtime's buffer is aligned for every type; on the pointer the word would mean something else.
            "__align__" | "alignas" | "__attribute__" => at = after_parentheses(source, tokens, at + 1, end)?,
            _ if at >= end => return None,
            text if word(at + 1) == "[" && word(at + 2) == "]" => break text,
            text => {
                kind.push(text);
                at += 1;
            }
        }
    };
    let first_dimension = tokens.get(at + 2)?;
    let rest = source.get(first_dimension.end..tokens.get(end)?.start)?.replace(['\\', '\n'], " ");
    let region = source.get(tokens.get(start)?.start..tokens.get(end)?.end)?;
    let breaks = if region.contains("\\\n") { "\\\n" } else { "\n" };
    let kind = kind.join(" ");
    let text = format!(
        "extern __thread {kind} (* const {name}){} __asm__(\"muster_dynamic_shared\") __attribute__((visibility(\"hidden\"), tls_model(\"local-dynamic\")));{}",
        rest.trim(),
        breaks.repeat(region.matches('\n').count()),
    );
    Some(Change { text, tokens: end - start + 1 })
}

/// The token behind the parentheses that open at `at`.
fn after_parentheses(source: &str, tokens: &[Token], at: usize, end: usize) -> Option<usize> {
    let mut depth = 0usize;
    for index in at..end {
        match tokens.get(index)?.text(source) {
            "(" => depth += 1,
            ")" => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(index + 1);
        }
    }
    None
}

/// 1-based line of byte `at`.
fn line_of(bytes: &[u8], at: usize) -> u32 {
    let breaks = bytes.iter().take(at).filter(|byte| **byte == b'\n').count();
    u32::try_from(breaks + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &str) {
        assert_eq!(rewrite(input.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn dynamic_shared_memory_becomes_a_pointer_of_its_name_and_type() {
        const TAIL: &str = "__asm__(\"muster_dynamic_shared\") __attribute__((visibility(\"hidden\"), tls_model(\"local-dynamic\")));";
        let literal = "extern __shared__ \"a\\\nb\" s[];\nint x;";
        check(literal, literal);
        check("extern __shared__ float s[];", &format!("extern __thread float (* const s) {TAIL}"));
        check(
            "  extern __shared__ __align__(16) unsigned char raw[ ] ; int x;",
            &format!("  extern __thread unsigned char (* const raw) {TAIL} int x;"),
        );
        check(
            "extern __shared__\n  volatile T\n t[][32];\nA",
            &format!("extern __thread volatile T (* const t)[32] {TAIL}\n\n\nA"),
        );
    }

    #[test]
    fn static_shared_memory_and_other_externs_stay() {
        for text in
            ["__shared__ float s[32];", "extern \"C\" __global__ void k();", "extern __shared__ int x;"]
        {
            check(text, text);
        }
    }

    #[test]
    fn comments_and_literals_are_left_alone() {
        for text in [
            "// asm extern __shared__ float s[];",
            "/* asm */ int a;",
            "const char* t = \"asm\\\" asm\";",
            "auto r = R\"x(asm )\" asm)x\";",
            "char c = '\"'; int d = 1'000;",
            "// continued \\\n asm\n",
        ] {
            check(text, text);
        }
        check("char q = '\\''; asm(\"\");", "char q = '\\''; muster_inline_assembly(\"\");");
    }

    #[test]
    fn marks_and_line_ends_of_windows_are_accepted() {
        assert_eq!(rewrite(b"\xef\xbb\xbfint a;\r\nint b;\r\n").unwrap(), "int a;\nint b;\n");
    }

    #[test]
    fn launches_are_marked_and_shifts_and_operators_are_not() {
        check("k<<<1, 2>>>(x);", "k muster_kernel_launch <<<1, 2>>>(x);");
        check("k<T><<<g, b>>>(x);", "k<T> muster_kernel_launch <<<g, b>>>(x);");
        for text in ["a << b < c;", "auto f = &operator<<<int>;", "// k<<<1, 2>>>();"] {
            check(text, text);
        }
    }

    #[test]
    fn noinline_is_renamed_outside_attributes_only() {
        check("__noinline__ void f();", "muster_noinline void f();");
        check("__attribute__((__noinline__)) void f();", "__attribute__((__noinline__)) void f();");
    }

    #[test]
    fn what_no_compiler_should_see_is_refused_with_its_line() {
        assert_eq!(rewrite(b"a\nb\0c").unwrap_err().line(), 2);
        assert_eq!(rewrite(b"a\n\n\xff").unwrap_err().line(), 3);
        let error = rewrite(b"int a;\n#include \"/etc/passwd\"\n").unwrap_err();
        assert!(matches!(error, RewriteError::AbsoluteInclude { line: 2, .. }), "{error}");
        assert!(rewrite(b"#include \"a/passwd\"\n// #include \"/etc/passwd\"\n").is_ok());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_rewritten_without_panic_and_keeps_its_lines(text in "[\\x20-\\x7e\n\"'\\\\/*#<>()\\[\\];]{0,200}") {
            if let Ok(out) = rewrite(text.as_bytes()) {
                proptest::prop_assert_eq!(out.matches('\n').count(), text.matches('\n').count());
            }
        }
    }
}
