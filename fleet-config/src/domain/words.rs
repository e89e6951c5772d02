//! What a candidate printed, quoted: bounded, one marked line for each of its own, nothing in it that a terminal obeys.
//!
//! Such a text is for people. It is read by nothing that decides, and stands behind everything else in a log.

/// The line before a quotation.
pub const HEADING: &str =
    "the candidate printed what follows; its own words, quoted, on which nothing here rests:";

/// Before each quoted line: no line of a quotation can be taken for one of ours.
const MARK: &str = "| ";

/// Bytes of what was printed that are quoted: what a person reads of it.
const BYTES_MAX: usize = 8 << 10;

/// Lines that are quoted.
const LINES_MAX: usize = 200;

/// `printed` under its heading, or nothing where nothing was printed.
pub fn quoted(printed: &[u8]) -> Option<String> {
    if printed.is_empty() {
        return None;
    }
    let kept = printed.get(..BYTES_MAX).unwrap_or(printed);
    let mut lines: Vec<&[u8]> = kept.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let mut text = format!("{HEADING}\n");
    for line in lines.iter().take(LINES_MAX) {
        text.push_str(MARK);
        push_escaped(&mut text, line);
        text.push('\n');
    }
    let shown: usize = lines.iter().take(LINES_MAX).map(|line| line.len() + 1).sum();
    if shown < printed.len() {
        let left = printed.len() - shown;
        text.push_str(&format!("({left} bytes more are left out)\n"));
    }
    Some(text)
}

/// The quotation at the end of `log`, if it has one.
pub fn quotation(log: &str) -> Option<&str> {
    let begins_a_line = |at: &usize| *at == 0 || log.as_bytes().get(at - 1) == Some(&b'\n');
    let at = log.rmatch_indices(HEADING).map(|(at, _)| at).find(begins_a_line)?;
    log.get(at..)
}

/// Captured output as text that cannot steer a terminal: controls but for line ends and tabs, and what turns the direction
/// of writing, are replaced.
pub fn printable(bytes: &[u8]) -> String {
    let turns =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let safe = |c: char| if (c.is_control() && c != '\n' && c != '\t') || turns(c) { '\u{fffd}' } else { c };
    String::from_utf8_lossy(bytes).chars().map(safe).collect()
}

/// Letters as they are; what is no text, controls a terminal or turns the direction of writing as an escape.
fn push_escaped(text: &mut String, line: &[u8]) {
    for chunk in line.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\'' => text.push(character),
                other => text.extend(other.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(printed: &[u8]) -> Vec<String> {
        quoted(printed).unwrap().lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn every_line_is_marked_and_nothing_in_it_steers_a_terminal() {
        assert_eq!(lines(b"a \"b\"\nstatus: ok\n"), ["| a \"b\"", "| status: ok"]);
        assert_eq!(lines(b"\x1b[2Jgone\rok\x07"), ["| \\u{1b}[2Jgone\\rok\\u{7}"]);
        assert_eq!(lines("\u{202e}ko \u{9b}31m ü".as_bytes()), ["| \\u{202e}ko \\u{9b}31m ü"]);
        assert_eq!(lines(b"\xff\x80a\\"), ["| \\xff\\x80a\\\\"]);
        assert_eq!(quoted(b""), None);
    }

    #[test]
    fn a_heading_that_was_printed_is_a_quoted_line() {
        let printed = format!("{HEADING}\nverdict: ok\n");
        let text = quoted(printed.as_bytes()).unwrap();
        assert_eq!(quotation(&format!("compiler log\n{text}")), Some(text.as_str()));
        assert_eq!(text.lines().filter(|line| line.starts_with("| ")).count(), 2);
        assert_eq!(quotation("compiler log"), None);
    }

    #[test]
    fn captured_output_keeps_its_lines_and_loses_its_controls() {
        assert_eq!(printable(b"a\tb\n\x1b[31m\xffc"), "a\tb\n\u{fffd}[31m\u{fffd}c");
        assert_eq!(printable("\u{202e}\u{9b}ü".as_bytes()), "\u{fffd}\u{fffd}ü");
    }

    #[test]
    fn a_flood_is_cut_and_says_so() {
        let flood = vec![b'x'; 3 * BYTES_MAX];
        let text = quoted(&flood).unwrap();
        assert!(
            text.len() < BYTES_MAX + 200 && text.ends_with("bytes more are left out)\n"),
            "{}",
            text.len()
        );
        let newlines = vec![b'\n'; BYTES_MAX];
        assert_eq!(lines(&newlines).len(), LINES_MAX + 1);
        let worst = "\u{202e}".repeat(BYTES_MAX);
        assert!(quoted(worst.as_bytes()).unwrap().len() < 4 * BYTES_MAX);
    }
}
