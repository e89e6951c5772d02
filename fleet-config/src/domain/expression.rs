//! Integer expressions over named dimensions and device attributes, for shapes and launch geometry.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = unary { ("*" | "/" | "%") unary }
//! unary   = "-" unary | atom
//! atom    = digits | name | function "(" sum "," sum ")" | "(" sum ")"
//! name    = [a-z_][a-z0-9_.]*     function = ceil_div | round_up | min | max
//! ```
//! `/` and `%` truncate toward zero, as in C. All arithmetic is checked in 64 bits.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// What the names in an expression stand for: dimensions (`m`), scalars of the case and device attributes
/// (`device.multiprocessors`).
pub type Scope = BTreeMap<String, i64>;

/// An expression such as `ceil_div(n, 16) * device.multiprocessors`; written and hashed as its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression {
    text: String,
    root: Node,
}

/// Why a text is no expression, or has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// `column` counts characters from 1.
    #[error("`{text}`: {cause} at column {column}")]
    Syntax { text: String, cause: &'static str, column: usize },
    #[error("`{text}`: the name `{name}` stands for nothing here")]
    UnknownName { text: String, name: String },
    #[error("`{text}`: {cause}")]
    Value { text: String, cause: &'static str },
}

impl Expression {
    /// Longest text in bytes; with it the tree that evaluation walks is bounded too.
    pub const LENGTH_MAX: usize = 256;
    /// Deepest nesting of parentheses, calls and signs; bounds the recursion of the parser.
    pub const DEPTH_MAX: usize = 32;

    /// The expression that is the literal `value`.
    pub fn from_integer(value: i64) -> Self {
        Self { text: value.to_string(), root: Node::Integer(value) }
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
    /// The names it uses, functions left out.
    pub fn names(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.root.collect(&mut names);
        names
    }
    /// Its value in `scope`. Errors: a name that is not in `scope` (`UnknownName`); an overflow of 64 bits, a
    /// division by zero, or a `ceil_div` or `round_up` to no positive number (`Value`).
    pub fn evaluate(&self, scope: &Scope) -> Result<i64, ExpressionError> {
        self.root.evaluate(scope).map_err(|fault| match fault {
            Fault::Name(name) => ExpressionError::UnknownName { text: self.text.clone(), name },
            Fault::Value(cause) => ExpressionError::Value { text: self.text.clone(), cause },
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Node {
    Integer(i64),
    Name(String),
    Negate(Box<Node>),
    Apply(Operation, Box<Node>, Box<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    CeilDiv,
    RoundUp,
    Min,
    Max,
}

enum Fault {
    Name(String),
    Value(&'static str),
}

const OVERFLOW: Fault = Fault::Value("the value does not fit 64 bits");

impl Node {
    fn collect<'a>(&'a self, names: &mut BTreeSet<&'a str>) {
        match self {
            Self::Integer(_) => {}
            Self::Name(name) => {
                names.insert(name);
            }
            Self::Negate(inner) => inner.collect(names),
            Self::Apply(_, left, right) => {
                left.collect(names);
                right.collect(names);
            }
        }
    }

    fn evaluate(&self, scope: &Scope) -> Result<i64, Fault> {
        match self {
            Self::Integer(value) => Ok(*value),
            Self::Name(name) => scope.get(name).copied().ok_or_else(|| Fault::Name(name.clone())),
            Self::Negate(inner) => inner.evaluate(scope)?.checked_neg().ok_or(OVERFLOW),
            Self::Apply(operation, left, right) => {
                operation.apply(left.evaluate(scope)?, right.evaluate(scope)?)
            }
        }
    }
}

impl Operation {
    fn apply(self, left: i64, right: i64) -> Result<i64, Fault> {
        let checked = match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide | Self::Remainder if right == 0 => return Err(Fault::Value("division by zero")),
            Self::Divide => left.checked_div(right),
            Self::Remainder => left.checked_rem(right),
            Self::CeilDiv | Self::RoundUp if right <= 0 => {
                return Err(Fault::Value("ceil_div and round_up need a positive second argument"));
            }
            Self::CeilDiv => Some(ceil_div(left, right)),
            Self::RoundUp => ceil_div(left, right).checked_mul(right),
            Self::Min => Some(left.min(right)),
            Self::Max => Some(left.max(right)),
        };
        checked.ok_or(OVERFLOW)
    }

    fn function(name: &str) -> Option<Self> {
        match name {
            "ceil_div" => Some(Self::CeilDiv),
            "round_up" => Some(Self::RoundUp),
            "min" => Some(Self::Min),
            "max" => Some(Self::Max),
            _ => None,
        }
    }
}

/// `divisor` is positive, so neither the quotient nor the correction can overflow.
fn ceil_div(dividend: i64, divisor: i64) -> i64 {
    dividend.div_euclid(divisor) + i64::from(dividend.rem_euclid(divisor) != 0)
}

type Place = (&'static str, usize);

struct Parser<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Parser<'_> {
    fn sum(&mut self, depth: usize) -> Result<Node, Place> {
        let mut left = self.product(depth)?;
        loop {
            let operation = match self.peek() {
                Some(b'+') => Operation::Add,
                Some(b'-') => Operation::Subtract,
                _ => return Ok(left),
            };
            self.position += 1;
            left = Node::Apply(operation, Box::new(left), Box::new(self.product(depth)?));
        }
    }

    fn product(&mut self, depth: usize) -> Result<Node, Place> {
        let mut left = self.unary(depth)?;
        loop {
            let operation = match self.peek() {
                Some(b'*') => Operation::Multiply,
                Some(b'/') => Operation::Divide,
                Some(b'%') => Operation::Remainder,
                _ => return Ok(left),
            };
            self.position += 1;
            left = Node::Apply(operation, Box::new(left), Box::new(self.unary(depth)?));
        }
    }

    fn unary(&mut self, depth: usize) -> Result<Node, Place> {
        if depth >= Expression::DEPTH_MAX {
            return Err(("nested too deeply", self.position));
        }
        match self.peek() {
            Some(b'-') => {
                self.position += 1;
                // A sign before digits is part of the literal, so that the smallest integer can be written.
                if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                    return self.integer(-1);
                }
                Ok(Node::Negate(Box::new(self.unary(depth + 1)?)))
            }
            Some(b'(') => {
                self.position += 1;
                let inner = self.sum(depth + 1)?;
                self.expect(b')', "`)` expected")?;
                Ok(inner)
            }
            Some(byte) if byte.is_ascii_digit() => self.integer(1),
            Some(byte) if byte.is_ascii_lowercase() || byte == b'_' => self.name(depth),
            Some(_) => Err(("a number, a name in lower case or `(` expected", self.position)),
            None => Err(("the text ends where a number or a name is expected", self.position)),
        }
    }

    fn integer(&mut self, sign: i128) -> Result<Node, Place> {
        let start = self.position;
        let mut value: i128 = 0;
        while let Some(digit) = self.bytes.get(self.position).filter(|byte| byte.is_ascii_digit()) {
            value = value * 10 + i128::from(digit - b'0');
            if value > 1 << 63 {
                return Err(("the number does not fit 64 bits", start));
            }
            self.position += 1;
        }
        i64::try_from(sign * value).map(Node::Integer).map_err(|_| ("the number does not fit 64 bits", start))
    }

    fn name(&mut self, depth: usize) -> Result<Node, Place> {
        let start = self.position;
        let legal =
            |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.');
        let mut name = String::new();
        while let Some(byte) = self.bytes.get(self.position).filter(|byte| legal(byte)) {
            name.push(char::from(*byte));
            self.position += 1;
        }
        match (Operation::function(&name), self.peek()) {
            (Some(operation), Some(b'(')) => {
                self.position += 1;
                let left = self.sum(depth + 1)?;
                self.expect(b',', "`,` expected: functions take two arguments")?;
                let right = self.sum(depth + 1)?;
                self.expect(b')', "`)` expected: functions take two arguments")?;
                Ok(Node::Apply(operation, Box::new(left), Box::new(right)))
            }
            (Some(_), _) => Err(("a function needs its two arguments in parentheses", start)),
            (None, Some(b'(')) => Err(("no such function; there are ceil_div, round_up, min and max", start)),
            (None, _) => Ok(Node::Name(name)),
        }
    }

    fn expect(&mut self, byte: u8, cause: &'static str) -> Result<(), Place> {
        if self.peek() == Some(byte) {
            self.position += 1;
            Ok(())
        } else {
            Err((cause, self.position))
        }
    }

    /// The next byte that is no blank.
    fn peek(&mut self) -> Option<u8> {
        while self.bytes.get(self.position).is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            self.position += 1;
        }
        self.bytes.get(self.position).copied()
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;
    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let syntax = |(cause, position): Place| {
            // All bytes before the fault are ASCII, so bytes count characters.
            let shown = text.chars().take(80).collect();
            ExpressionError::Syntax { text: shown, cause, column: position + 1 }
        };
        if text.len() > Self::LENGTH_MAX {
            return Err(syntax(("longer than 256 bytes", Self::LENGTH_MAX)));
        }
        let mut parser = Parser { bytes: text.as_bytes(), position: 0 };
        let root = parser.sum(0).map_err(syntax)?;
        match parser.peek() {
            None => Ok(Self { text: text.to_owned(), root }),
            Some(_) => Err(syntax(("an operator or the end expected", parser.position))),
        }
    }
}

impl TryFrom<String> for Expression {
    type Error = ExpressionError;
    fn try_from(text: String) -> Result<Self, ExpressionError> {
        text.parse()
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> Self {
        expression.text
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Result<i64, ExpressionError> {
        let scope = Scope::from([
            ("m".to_owned(), 31),
            ("n".to_owned(), 37),
            ("device.multiprocessors".to_owned(), 132),
        ]);
        text.parse::<Expression>()?.evaluate(&scope)
    }

    #[test]
    fn values_follow_precedence_and_the_four_functions() {
        for (text, expected) in [
            ("1 + 2 * 3", 7),
            ("(1 + 2) * 3", 9),
            ("10 - 4 - 3", 3),
            ("100 / 7 % 4", 2),
            ("-7 / 2", -3),
            ("-7 % 2", -1),
            ("-(m)", -31),
            ("--3", 3),
            ("ceil_div(m, 16)", 2),
            ("ceil_div(32, 16)", 2),
            ("ceil_div(-7, 2)", -3),
            ("round_up(n, 8)", 40),
            ("min(m, n) * max(m, n)", 31 * 37),
            ("device.multiprocessors*2", 264),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn faults_name_their_column() {
        for (text, wanted) in [
            ("", 1),
            ("1 +", 4),
            ("1 2", 3),
            ("(1", 3),
            ("M", 1),
            ("1 + é", 5),
            ("ceil_div(1)", 11),
            ("max", 1),
            ("foo(1,2)", 1),
            ("9223372036854775808", 1),
            ("1.5", 2),
        ] {
            match text.parse::<Expression>() {
                Err(ExpressionError::Syntax { column, .. }) => assert_eq!(column, wanted, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!("(".repeat(100).parse::<Expression>().is_err());
        assert!("-".repeat(200).parse::<Expression>().is_err());
        assert!("1+".repeat(200).parse::<Expression>().is_err());
    }

    #[test]
    fn values_that_do_not_exist_are_errors() {
        for text in [
            "1 / 0",
            "1 % (m - 31)",
            "ceil_div(1, 0)",
            "round_up(1, -4)",
            "9223372036854775807 + 1",
            "-9223372036854775808 / -1",
            "-(-9223372036854775808)",
            "9223372036854775807 * 2",
            "round_up(9223372036854775807, 2)",
        ] {
            assert!(matches!(value(text), Err(ExpressionError::Value { .. })), "{text}: {:?}", value(text));
        }
        assert!(matches!(value("k"), Err(ExpressionError::UnknownName { name, .. }) if name == "k"));
    }

    #[test]
    fn names_are_listed_once_without_functions() {
        let expression: Expression = "ceil_div(m * n, 16) + m".parse().unwrap();
        assert_eq!(expression.names().into_iter().collect::<Vec<_>>(), ["m", "n"]);
        assert_eq!(Expression::from_integer(-4).as_str(), "-4");
    }

    proptest! {
        #[test]
        fn no_text_panics_and_every_integer_survives(text in ".{0,300}", number in any::<i64>()) {
            if let Ok(expression) = text.parse::<Expression>() {
                let _ = expression.evaluate(&Scope::new());
            }
            let literal = Expression::from_integer(number);
            prop_assert_eq!(literal.as_str().parse::<Expression>().unwrap(), literal);
        }
    }
}
