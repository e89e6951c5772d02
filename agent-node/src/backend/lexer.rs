//! A small lexer of C++: enough to tell code from comments and literals.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Identifier,
    Number,
    /// String and character literals, raw ones too.
    Literal,
    /// The name in `#include <name>` or `#include "name"`, with its quotes.
    HeaderName,
    /// One byte.
    Punctuation,
}

/// A token by its place in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
}

impl Token {
    /// Its text.
    pub(crate) fn text<'a>(&self, source: &'a str) -> &'a str {
        source.get(self.start..self.end).unwrap_or("")
    }
}

/// Longest delimiter of a raw string, from the C++ standard [lex.string].
const RAW_DELIMITER_MAX: usize = 16;

/// The tokens of `source`; comments and white space are left out. Never fails: what is unterminated ends with the
/// text, and the compiler will say so.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { bytes: source.as_bytes(), at: 0, tokens: Vec::new(), line_start: true };
    lexer.run();
    lexer.tokens
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    tokens: Vec<Token>,
    /// Only white space has been seen since the last line break.
    line_start: bool,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn run(&mut self) {
        while self.at < self.bytes.len() {
            let byte = self.peek(0);
            match byte {
                b'\n' => {
                    self.line_start = true;
                    self.at += 1;
                }
                b'\\' if self.peek(1) == b'\n' => self.at += 2,
                _ if byte.is_ascii_whitespace() => self.at += 1,
                b'/' if self.peek(1) == b'/' => self.line_comment(),
                b'/' if self.peek(1) == b'*' => self.block_comment(),
                b'#' if self.line_start => self.directive(),
                _ => {
                    self.line_start = false;
                    self.token(byte);
                }
            }
        }
    }

    fn token(&mut self, byte: u8) {
        let start = self.at;
        let kind = if byte == b'_' || byte.is_ascii_alphabetic() || byte >= 0x80 {
            self.skip_while(|b| b == b'_' || b.is_ascii_alphanumeric() || b >= 0x80);
            let word = self.bytes.get(start..self.at).unwrap_or(&[]);
            match (self.peek(0), word) {
                (b'"', b"R" | b"LR" | b"uR" | b"UR" | b"u8R") => self.raw_string(),
                (b'"' | b'\'', b"L" | b"u" | b"U" | b"u8") => self.quoted(),
                _ => Kind::Identifier,
            }
        } else if byte.is_ascii_digit() || (byte == b'.' && self.peek(1).is_ascii_digit()) {
            self.number()
        } else if byte == b'"' || byte == b'\'' {
            self.quoted()
        } else {
            self.at += 1;
            Kind::Punctuation
        };
        self.tokens.push(Token { kind, start, end: self.at });
    }

    fn skip_while(&mut self, accept: impl Fn(u8) -> bool) {
        while self.at < self.bytes.len() && accept(self.peek(0)) {
            self.at += 1;
        }
    }

    /// A preprocessing number: digits, letters, dots, digit separators, and signs behind an exponent.
    fn number(&mut self) -> Kind {
        let mut before = 0;
        while self.at < self.bytes.len() {
            let byte = self.peek(0);
            let separator = byte == b'\'' && self.peek(1).is_ascii_alphanumeric();
            let sign = matches!(byte, b'+' | b'-') && matches!(before, b'e' | b'E' | b'p' | b'P');
            if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || separator || sign) {
                break;
            }
            before = byte;
            self.at += 1;
        }
        Kind::Number
    }

    /// A literal in quotes, with escapes; ends with its line at the latest.
    fn quoted(&mut self) -> Kind {
        let quote = self.peek(0);
        self.at += 1;
        while self.at < self.bytes.len() {
            match self.peek(0) {
                b'\\' => self.at += 2,
                b'\n' => break,
                byte => {
                    self.at += 1;
                    if byte == quote {
                        break;
                    }
                }
            }
        }
        self.at = self.at.min(self.bytes.len());
        Kind::Literal
    }

    fn raw_string(&mut self) -> Kind {
        self.at += 1;
        let start = self.at;
        self.skip_while(|b| b != b'(');
        let delimiter = self.bytes.get(start..self.at).unwrap_or(&[]);
        let mut closing = vec![b')'];
        closing.extend(delimiter.iter().take(RAW_DELIMITER_MAX));
        closing.push(b'"');
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let found = rest.windows(closing.len()).position(|window| window == closing);
        self.at = found.map_or(self.bytes.len(), |offset| self.at + offset + closing.len());
        Kind::Literal
    }

    fn line_comment(&mut self) {
        while self.at < self.bytes.len() && self.peek(0) != b'\n' {
            self.at += if self.peek(0) == b'\\' && self.peek(1) == b'\n' { 2 } else { 1 };
        }
        self.at = self.at.min(self.bytes.len());
    }

    fn block_comment(&mut self) {
        self.at += 2;
        while self.at < self.bytes.len() && !(self.peek(0) == b'*' && self.peek(1) == b'/') {
            self.at += 1;
        }
        self.at = (self.at + 2).min(self.bytes.len());
    }

    /// `#`; after `#include` the name is one token whatever characters it has.
    fn directive(&mut self) {
        self.tokens.push(Token { kind: Kind::Punctuation, start: self.at, end: self.at + 1 });
        self.at += 1;
        self.line_start = false;
        self.skip_while(|b| b == b' ' || b == b'\t');
        let start = self.at;
        self.skip_while(|b| b == b'_' || b.is_ascii_alphanumeric());
        let word = self.bytes.get(start..self.at).unwrap_or(&[]);
        if self.at > start {
            self.tokens.push(Token { kind: Kind::Identifier, start, end: self.at });
        }
        if !matches!(word, b"include" | b"include_next" | b"import") {
            return;
        }
        self.skip_while(|b| b == b' ' || b == b'\t');
        let closing = match self.peek(0) {
            b'<' => b'>',
            b'"' => b'"',
            _ => return,
        };
        let start = self.at;
        self.at += 1;
        self.skip_while(|b| b != closing && b != b'\n');
        if self.peek(0) == closing {
            self.at += 1;
        }
        self.tokens.push(Token { kind: Kind::HeaderName, start, end: self.at });
    }
}
