//! Faults inside expressions: operators, constants, bounds, indices, functions.

use super::scan::Scan;
use super::{Mutant, Operator};

/// Functions that stand for each other.
const PAIRS: [(&str, &str); 9] = [
    ("fminf", "fmaxf"),
    ("fmin", "fmax"),
    ("min", "max"),
    ("umin", "umax"),
    ("__hmin", "__hmax"),
    ("__hmin2", "__hmax2"),
    ("atomicMin", "atomicMax"),
    ("atomicAnd", "atomicOr"),
    ("__reduce_min_sync", "__reduce_max_sync"),
];
/// Functions of one argument of which it alone is left.
const DROPPED: [&str; 20] = [
    "fabsf", "fabs", "abs", "labs", "llabs", "__habs", "sqrtf", "sqrt", "rsqrtf", "rsqrt", "expf", "exp",
    "__expf", "logf", "log", "__logf", "tanhf", "tanh", "floorf", "roundf",
];
/// What else could have been written.
const SWAPPED: [(&str, &str, Operator); 16] = [
    ("+", "-", Operator::Arithmetic),
    ("-", "+", Operator::Arithmetic),
    ("*", "/", Operator::Arithmetic),
    ("/", "*", Operator::Arithmetic),
    ("%", "/", Operator::Arithmetic),
    ("<", "<=", Operator::Relation),
    ("<=", "<", Operator::Relation),
    (">", ">=", Operator::Relation),
    (">=", ">", Operator::Relation),
    ("==", "!=", Operator::Relation),
    ("!=", "==", Operator::Relation),
    ("&&", "||", Operator::Logic),
    ("||", "&&", Operator::Logic),
    ("&", "|", Operator::Logic),
    ("|", "&", Operator::Logic),
    (">>", "<<", Operator::Arithmetic),
];
/// Accumulators that forget, and ones that go the other way.
const ASSIGNED: [(&str, &str); 5] = [("+=", "="), ("-=", "+="), ("*=", "="), ("|=", "="), ("^=", "=")];

/// Adds the faults that can be made at the item `at`.
pub(super) fn at(scan: &Scan<'_>, at: usize, found: &mut Vec<Mutant>) {
    let text = scan.text(at);
    if scan.is_word(at) {
        return word(scan, at, found);
    }
    if scan.is_number(at) {
        return number(scan, at, found);
    }
    let sides = || scan.is_binary(at);
    for (from, to, operator) in SWAPPED {
        if text == from && sides() {
            found.push(scan.replaced(operator, at, at, to));
        }
    }
    if matches!(text, "<" | "<=") && sides() {
        // Binds closer than the comparison: `i < -1 + n`.
        found.push(scan.inserted(Operator::Bound, at + 1, "-1 + "));
    }
    for (from, to) in ASSIGNED {
        if text == from {
            found.push(scan.replaced(Operator::Assignment, at, at, to));
        }
    }
    if text == "[" && sides() && !scan.declares(scan.begins(at)) {
        index(scan, at, found);
    }
    strides(scan, at, found);
}

fn index(scan: &Scan<'_>, open: usize, found: &mut Vec<Mutant>) {
    if let Some(close) = scan.closing(open).filter(|close| *close > open + 1) {
        let inside = scan.slice(open + 1, close - 1);
        found.push(scan.replaced(Operator::Index, open + 1, close - 1, format!("({inside}) + 1")));
    }
}

/// Steps of a `for` that skip every other turn.
fn strides(scan: &Scan<'_>, at: usize, found: &mut Vec<Mutant>) {
    if scan.text(at) != "for" && scan.before(at) != "for" {
        return;
    }
    let Some(close) = scan.closing(at) else { return };
    let mut depth = 0_usize;
    let mut semicolons = Vec::new();
    for inside in at..close {
        match scan.text(inside) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            ";" if depth == 1 => semicolons.push(inside),
            _ => {}
        }
    }
    let [_, second] = semicolons.as_slice() else { return };
    for step in second + 1..close {
        match scan.text(step) {
            "+=" => {
                let by = scan.slice(step + 1, close - 1);
                found.push(scan.replaced(Operator::Stride, step + 1, close - 1, format!("2 * ({by})")));
                break;
            }
            "++" => {
                let (first, last) = (second + 1, close - 1);
                let name = [first, last].into_iter().find(|at| scan.is_word(*at)).map(|at| scan.text(at));
                if let Some(name) = name.filter(|_| last == first + 1) {
                    found.push(scan.replaced(Operator::Stride, first, last, format!("{name} += 2")));
                }
                break;
            }
            _ => {}
        }
    }
}

fn word(scan: &Scan<'_>, at: usize, found: &mut Vec<Mutant>) {
    let text = scan.text(at);
    let is_called = scan.text(at + 1) == "(" && !matches!(scan.before(at), "." | "->");
    for (one, other) in PAIRS {
        if is_called && text == one {
            found.push(scan.replaced(Operator::MinMax, at, at, other));
        } else if is_called && text == other {
            found.push(scan.replaced(Operator::MinMax, at, at, one));
        }
    }
    if is_called && DROPPED.contains(&text) {
        found.push(scan.replaced(Operator::DroppedCall, at, at, ""));
    }
    if text == "blockIdx" && scan.text(at + 1) == "." {
        found.push(scan.replaced(Operator::FirstBlock, at, at + 2, "0"));
    }
    if text == "double" {
        found.push(scan.replaced(Operator::NarrowedType, at, at, "float"));
    }
    if text == "long" && scan.text(at + 1) == "long" {
        found.push(scan.replaced(Operator::NarrowedType, at, at + 1, "int"));
    }
    if matches!(text, "int64_t" | "uint64_t") {
        found.push(scan.replaced(Operator::NarrowedType, at, at, text.replace("64", "32")));
    }
    if text == "if"
        && let Some(close) = scan.closing(at + 1)
    {
        let condition = scan.slice(at + 1, close);
        found.push(scan.replaced(Operator::Condition, at + 1, close, format!("(!{condition})")));
    }
}

fn number(scan: &Scan<'_>, at: usize, found: &mut Vec<Mutant>) {
    let text = scan.text(at);
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let suffix = text.get(digits.len()..).unwrap_or("");
    if let Ok(value) = digits.parse::<u64>() {
        // One element more in an array is no fault.
        let is_size = scan.before(at) == "[" && scan.declares(scan.begins(at));
        if let Some(more) = value.checked_add(1).filter(|_| !is_size) {
            found.push(scan.replaced(Operator::Constant, at, at, format!("{more}{suffix}")));
        }
        if let Some(less) = value.checked_sub(1) {
            found.push(scan.replaced(Operator::Constant, at, at, format!("{less}{suffix}")));
        }
    } else if !text.starts_with("0x")
        && !text.starts_with("0X")
        && text.trim_end_matches(['f', 'F']).parse::<f64>().is_ok()
    {
        found.push(scan.replaced(Operator::Constant, at, at, format!("({text} + 1)")));
    }
}
