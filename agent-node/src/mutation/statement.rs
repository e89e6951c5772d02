//! Faults of whole statements: one that is missing.

use super::scan::Scan;
use super::{Mutant, Operator};

/// Barriers and fences.
const BARRIERS: [&str; 6] = [
    "__syncthreads",
    "__syncwarp",
    "__threadfence",
    "__threadfence_block",
    "__syncthreads_count",
    "__syncthreads_or",
];

/// Adds the fault of the statement that begins at the item `at`, if one does and nothing is declared there.
pub(super) fn at(scan: &Scan<'_>, at: usize, found: &mut Vec<Mutant>) {
    if scan.begins(at) != at || !scan.is_word(at) && !matches!(scan.text(at), "*" | "++" | "--" | "(") {
        return;
    }
    let is_leaving = matches!(scan.text(at), "return" | "break" | "continue") && scan.text(at + 1) == ";";
    if !is_leaving && (scan.is_keyword(at) || scan.declares(at)) {
        return;
    }
    let Some(end) = end(scan, at) else { return };
    let is_barrier = BARRIERS.contains(&scan.text(at));
    let works = (at..end).any(|inside| {
        let text = scan.text(inside);
        text == "("
            || text == "++"
            || text == "--"
            || text.ends_with('=') && !matches!(text, "==" | "!=" | "<=" | ">=")
    });
    if is_leaving || works {
        let operator = if is_barrier { Operator::DroppedBarrier } else { Operator::DroppedStatement };
        // Line breaks stay, so that lines keep their numbers.
        let breaks = "\n".repeat(scan.slice(at, end).matches('\n').count());
        found.push(scan.replaced(operator, at, end, format!("{breaks};")));
    }
}

/// The semicolon that ends the statement at `at`; nothing where a block comes first.
fn end(scan: &Scan<'_>, at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for inside in at..scan.len() {
        match scan.text(inside) {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.checked_sub(1)?,
            "{" | "}" => return None,
            ";" if depth == 0 => return Some(inside),
            _ => {}
        }
    }
    None
}
