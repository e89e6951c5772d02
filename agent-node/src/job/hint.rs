//! For which sizes a kernel is wrong, where the sizes that were tried bear a rule out. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// Sizes of warps, tiles and blocks whose tails kernels forget, smallest first.
const MULTIPLES: [i64; 9] = [2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Rules that fit the same evidence: beyond these the evidence tells nothing.
const RULES_MAX: usize = 3;
/// Sizes that are written out on either side.
const SHOWN_MAX: usize = 6;

/// One size that the candidate was run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tried {
    pub dims: BTreeMap<String, i64>,
    pub is_right: bool,
}

/// What the wrong sizes have in common and the right ones lack, with the sizes themselves. Nothing where no rule about
/// one dimension separates all of them, or where fewer than two sizes of that dimension stand on either side.
pub(super) fn sizes(tried: &[Tried], block: Option<i64>) -> Option<String> {
    let names: BTreeSet<&String> = tried.iter().flat_map(|one| one.dims.keys()).collect();
    for name in names {
        let of = |is_right: bool| -> BTreeSet<i64> {
            let asked = tried.iter().filter(|one| one.is_right == is_right);
            asked.filter_map(|one| one.dims.get(name).copied()).collect()
        };
        let (wrong, right) = (of(false), of(true));
        // A size on both sides means that another dimension decides.
        if wrong.len() < 2 || right.len() < 2 || wrong.intersection(&right).next().is_some() {
            continue;
        }
        let rules = rules(name, &wrong, &right, block);
        if !rules.is_empty() && rules.len() <= RULES_MAX {
            let (wrong, right) = (list(&wrong), list(&right));
            return Some(format!(
                "wrong at {name} = {wrong}, right at {name} = {right}: only when {}",
                rules.join(", or ")
            ));
        }
    }
    None
}

/// Every rule that holds of all wrong sizes and of no right one.
fn rules(name: &str, wrong: &BTreeSet<i64>, right: &BTreeSet<i64>, block: Option<i64>) -> Vec<String> {
    let mut rules = Vec::new();
    let separates =
        |rule: &dyn Fn(i64) -> bool| wrong.iter().all(|n| rule(*n)) && !right.iter().any(|n| rule(*n));
    let block = block.filter(|block| *block > 1 && !MULTIPLES.contains(block));
    for multiple in MULTIPLES.into_iter().chain(block) {
        if separates(&|n| n % multiple != 0) {
            rules.push(match multiple {
                2 => format!("{name} is odd"),
                _ => format!("{name} is no multiple of {multiple}"),
            });
        } else if multiple == 2 && separates(&|n| n % 2 == 0) {
            rules.push(format!("{name} is even"));
        }
    }
    if let (Some(largest), Some(smallest)) = (right.last(), wrong.first())
        && largest < smallest
    {
        rules.push(format!("{name} is above {largest}"));
    }
    if let (Some(smallest), Some(largest)) = (right.first(), wrong.last())
        && largest < smallest
    {
        rules.push(format!("{name} is below {smallest}"));
    }
    rules
}

fn list(sizes: &BTreeSet<i64>) -> String {
    let shown: Vec<String> = sizes.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    let rest = sizes.len().saturating_sub(SHOWN_MAX);
    if rest == 0 { shown.join(", ") } else { format!("{} and {rest} more", shown.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(sizes: &[(i64, i64)], wrong: impl Fn(i64, i64) -> bool) -> Vec<Tried> {
        let one = |&(m, n): &(i64, i64)| Tried {
            dims: BTreeMap::from([("m".to_owned(), m), ("n".to_owned(), n)]),
            is_right: !wrong(m, n),
        };
        sizes.iter().map(one).collect()
    }

    fn hint(sizes: &[(i64, i64)], wrong: impl Fn(i64, i64) -> bool) -> String {
        super::sizes(&tried(sizes, wrong), Some(96)).unwrap_or_default()
    }

    const GRID: [(i64, i64); 10] =
        [(5, 1), (5, 33), (5, 64), (5, 66), (5, 100), (5, 128), (5, 129), (4, 33), (8, 64), (8, 100)];

    #[test]
    fn a_rule_that_every_size_bears_out_is_told_with_the_sizes() {
        let expected = "wrong at n = 1, 33, 129, right at n = 64, 66, 100, 128: only when n is odd";
        assert_eq!(hint(&GRID, |_, n| n % 2 == 1), expected);
        assert_eq!(hint(&GRID, |_, n| n % 64 != 0), "", "8, 16, 32 and 64 fit alike");
        assert!(hint(&GRID, |_, n| n > 66).ends_with("only when n is above 66"));
        assert!(hint(&GRID, |_, n| n < 64).ends_with("only when n is below 64"));
        let blocks = [(1, 96), (1, 192), (1, 128), (1, 64), (1, 100)];
        assert!(hint(&blocks, |_, n| n % 96 != 0).ends_with("no multiple of 96"));
    }

    #[test]
    fn near_misses_claim_nothing() {
        // One odd size is right.
        assert_eq!(hint(&GRID, |_, n| n % 2 == 1 && n != 33), "");
        // One even size is wrong.
        assert_eq!(hint(&GRID, |_, n| n % 2 == 1 || n == 100), "");
        // One wrong size, or one right size, is no rule.
        assert_eq!(hint(&GRID[..4], |_, n| n == 1), "");
        assert_eq!(hint(&[(1, 3), (1, 5), (1, 8)], |_, n| n % 2 == 1), "");
        // Everything wrong, everything right.
        assert_eq!(hint(&GRID, |_, _| true), "");
        assert_eq!(hint(&GRID, |_, _| false), "");
        // Another dimension decides.
        assert_eq!(hint(&[(1, 3), (2, 3), (1, 4), (2, 4)], |m, _| m == 1), "");
        // Powers of two against odd sizes: too many rules fit to name one.
        assert_eq!(hint(&[(1, 512), (1, 1024), (1, 3), (1, 5)], |_, n| n % 2 == 1), "");
    }
}
