//! The map of a campaign: attempts from left to right, performance cases from top to bottom, coloured by the speed-up over the
//! baseline. It helps to find one's way and proves nothing.

use super::Story;
use super::picture::Picture;
use crate::optimizer::attempt::{Decision, Measured, Verdict};

/// Side of a cell in picture elements.
const CELL: usize = 24;
/// Between cells.
const GAP: usize = 2;
/// Attempts that a map shows; of longer campaigns the newest ones.
const COLUMNS_MAX: usize = 400;

/// Steps of colour from half as fast to four times as fast.
const STEPS: usize = 21;
/// The step of the baseline.
const LEVEL: usize = 7;

/// What one cell shows.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell {
    Timed {
        ratio: f64,
    },
    /// The candidate did not pass.
    Rejected,
    /// Not measured, for no fault of the candidate.
    Unknown,
}

struct Map {
    cases: Vec<String>,
    /// Iteration, whether it was kept, and a cell for each case.
    columns: Vec<(u32, bool, Vec<Cell>)>,
}

fn map(story: &Story<'_>) -> Map {
    let mut cases: Vec<String> = Vec::new();
    let measured: Vec<(u32, &Measured)> = story
        .attempts
        .iter()
        .filter_map(|attempt| Some((attempt.proposal.iteration, attempt.measured.as_ref()?)))
        .collect();
    for case in measured.iter().flat_map(|(_, measured)| &measured.cases) {
        if case.timing.is_some() && !cases.contains(&case.case) {
            cases.push(case.case.clone());
        }
    }
    let skipped = measured.len().saturating_sub(COLUMNS_MAX);
    let columns = measured[skipped..]
        .iter()
        .map(|(iteration, measured)| {
            let cells = cases.iter().map(|case| cell(measured, case)).collect();
            (*iteration, measured.decision == Decision::Keep, cells)
        })
        .collect();
    Map { cases, columns }
}

fn cell(measured: &Measured, case: &str) -> Cell {
    let timing = measured.cases.iter().find(|one| one.case == case).and_then(|one| one.timing.as_ref());
    match (measured.verdict, timing) {
        (Verdict::Passed, Some(timing)) => Cell::Timed { ratio: timing.ratio },
        (Verdict::Failed, _) => Cell::Rejected,
        (Verdict::Passed, None) | (Verdict::Masked, _) => Cell::Unknown,
    }
}

/// The step of a ratio, by its logarithm.
fn step(ratio: f64) -> usize {
    let steps = LEVEL as f64 + ratio.max(1e-9).log2() * 7.0;
    (steps.round().max(0.0) as usize).min(STEPS - 1)
}

/// Red below the baseline, white at it, blue above.
fn colour(step: usize) -> [u8; 3] {
    let fade = |part: usize, whole: usize| u8::try_from(255 - 215 * part / whole).unwrap_or(40);
    if step < LEVEL {
        let faded = fade(LEVEL - step, LEVEL);
        [230, faded, faded]
    } else {
        let faded = fade(step - LEVEL, STEPS - 1 - LEVEL);
        [faded, faded.saturating_add(25), 235]
    }
}

const REJECTED: [u8; 3] = [90, 90, 90];
const UNKNOWN: [u8; 3] = [225, 225, 225];
const KEPT: [u8; 3] = [20, 130, 60];

/// The map with its numbers, for browsers.
pub fn svg(story: &Story<'_>) -> String {
    let map = map(story);
    let (left, top) = (160, 40);
    let width = left + map.columns.len().max(1) * (CELL + GAP) + 20;
    let height = top + map.cases.len().max(1) * (CELL + GAP) + 40;
    let mut parts = vec![format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">"
    )];
    let title = format!("{}: speed-up over the baseline, by iteration and case", story.settings.task_name);
    parts.push(format!("<title>{}</title>", escaped(&title)));
    parts.push(format!("<text x=\"8\" y=\"16\">{}</text>", escaped(&title)));
    for (row, case) in map.cases.iter().enumerate() {
        let y = top + row * (CELL + GAP) + CELL / 2 + 4;
        parts.push(format!("<text x=\"8\" y=\"{y}\">{}</text>", escaped(case)));
    }
    for (column, (iteration, is_kept, cells)) in map.columns.iter().enumerate() {
        let x = left + column * (CELL + GAP);
        let weight = if *is_kept { " font-weight=\"bold\" fill=\"#14823c\"" } else { "" };
        parts.push(format!("<text x=\"{x}\" y=\"{}\"{weight}>{iteration}</text>", top - 6));
        for (row, cell) in cells.iter().enumerate() {
            parts.push(square(*cell, x, top + row * (CELL + GAP)));
        }
    }
    let legend = "white: as the baseline; blue: faster; red: slower; dark: rejected; grey: not measured; green number: kept";
    parts.push(format!("<text x=\"8\" y=\"{}\">{legend}</text>", height - 12));
    parts.push("</svg>\n".to_owned());
    parts.join("\n")
}

fn square(cell: Cell, x: usize, y: usize) -> String {
    let (fill, words) = match cell {
        Cell::Timed { ratio } => (colour(step(ratio)), format!("{ratio:.3}×")),
        Cell::Rejected => (REJECTED, "rejected".to_owned()),
        Cell::Unknown => (UNKNOWN, "not measured".to_owned()),
    };
    let [red, green, blue] = fill;
    format!(
        "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"rgb({red},{green},{blue})\"><title>{words}</title></rect>"
    )
}

/// Text between tags: also what a candidate's name or a case says.
fn escaped(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The same cells without numbers, as a PNG file.
pub fn png(story: &Story<'_>) -> Vec<u8> {
    let map = map(story);
    let mut palette: Vec<[u8; 3]> = vec![[255, 255, 255], REJECTED, UNKNOWN, KEPT];
    let first = palette.len();
    palette.extend((0..STEPS).map(colour));
    let index = |colour: usize| u8::try_from(colour).unwrap_or(0);
    let side = |count: usize| count.max(1) * (CELL + GAP) + GAP;
    let mut picture = Picture::new(side(map.columns.len()), side(map.cases.len()) + GAP * 2, palette);
    for (column, (_, is_kept, cells)) in map.columns.iter().enumerate() {
        let x = GAP + column * (CELL + GAP);
        if *is_kept {
            picture.fill((x, 0), (CELL, GAP * 2), 3);
        }
        for (row, cell) in cells.iter().enumerate() {
            let at = (x, GAP * 3 + row * (CELL + GAP));
            let colour = match cell {
                Cell::Timed { ratio } => index(first + step(*ratio)),
                Cell::Rejected => 1,
                Cell::Unknown => 2,
            };
            picture.fill(at, (CELL, CELL), colour);
        }
    }
    picture.png()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_from_red_through_white_to_blue() {
        assert_eq!((step(1.0), step(2.0), step(0.5)), (7, 14, 0));
        assert_eq!((step(0.0), step(1e9), step(4.0)), (0, 20, 20));
        assert_eq!((colour(0), colour(7), colour(20)), ([230, 40, 40], [255, 255, 235], [40, 65, 235]));
    }
}
