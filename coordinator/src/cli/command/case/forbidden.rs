//! Words that must stand nowhere: in no message, log or record, and in no file that the fleet wrote meanwhile.

use super::observe::Observed;
use fleet_config::config::Files;
use fleet_config::config::case_folder::Expected;
use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Most files of a state folder that are looked at, and most bytes of one.
const FILES_MAX: usize = 200_000;
const BYTES_MAX: u64 = 64 << 20;
/// A compiled object holds the texts of its source.
const ELF: &[u8] = b"\x7fELF";

/// Sizes of the files below a folder, at one time.
#[derive(Debug, Default)]
pub(super) struct Snapshot(BTreeMap<PathBuf, u64>);

impl Snapshot {
    /// As `folder` is now; what cannot be read is left out.
    pub(super) fn of(folder: &Path) -> Self {
        let mut found = BTreeMap::new();
        let mut open = vec![folder.to_owned()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    open.push(entry.path());
                } else if kind.is_file() && found.len() < FILES_MAX {
                    found.insert(entry.path(), entry.metadata().map_or(0, |data| data.len()));
                }
            }
        }
        Self(found)
    }

    /// What was written since `before`: new files, and the ends of those that grew.
    fn since(&self, before: &Self) -> impl Iterator<Item = (&Path, Vec<u8>)> {
        let changed = self.0.iter().filter_map(|(path, size)| match before.0.get(path) {
            Some(old) if old == size => None,
            Some(old) if old < size => Some((path, *old)),
            Some(_) | None => Some((path, 0)),
        });
        changed.filter_map(|(path, from)| Some((path.as_path(), read(path, from)?)))
    }
}

fn read(path: &Path, from: u64) -> Option<Vec<u8>> {
    let mut file = std::fs::File::open(path).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Every place where a forbidden word stands. `sources` are the submitted files: their own copies say nothing, and
/// neither do objects compiled from one that has the word.
pub(super) fn mentions(
    expected: &Expected,
    seen: &Observed,
    sources: &Files,
    before: &Snapshot,
    after: &Snapshot,
) -> Vec<String> {
    let mut faults = Vec::new();
    if expected.must_not_mention.is_empty() {
        return faults;
    }
    let written: Vec<(&Path, Vec<u8>)> = after.since(before).collect();
    for word in &expected.must_not_mention {
        let needle = word.as_bytes();
        let mut fault =
            |place: &str| faults.push(format!("expected no mention of `{word}`, got one in {place}"));
        if holds(seen.message.as_bytes(), needle) {
            fault("the message");
        }
        if !expected.quoted_output_ok && holds(seen.log.as_bytes(), needle) {
            fault("the log");
        }
        if holds(seen.record.as_bytes(), needle) {
            fault("the record");
        }
        let in_source = sources.values().any(|source| holds(source, needle));
        for (path, bytes) in &written {
            let is_source =
                sources.values().any(|source| source == bytes) || (in_source && bytes.starts_with(ELF));
            let is_log = expected.quoted_output_ok && bytes.as_slice() == seen.log.as_bytes();
            if !is_source && !is_log && holds(bytes, needle) {
                fault(&path.display().to_string());
            }
        }
    }
    faults
}

/// Whether `needle` stands in `text`. One that begins or ends with a digit must not go on as a number there: `9.0` is
/// not in `19.05`.
fn holds(text: &[u8], needle: &[u8]) -> bool {
    let numeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let goes_on =
        |own: Option<&u8>, next: Option<&u8>| numeric(own) && (numeric(next) || next == Some(&b'.'));
    if needle.is_empty() || needle.len() > text.len() {
        return false;
    }
    text.windows(needle.len()).enumerate().any(|(at, window)| {
        let before = at.checked_sub(1).and_then(|at| text.get(at));
        window == needle
            && !goes_on(needle.first(), before)
            && !goes_on(needle.last(), text.get(at + needle.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::config::case_folder::parse_expected;

    #[test]
    fn a_word_is_found_and_a_part_of_a_number_is_not() {
        for (text, needle, wanted) in [
            ("speed 99.0x", "99.0", true),
            ("199.0", "99.0", false),
            ("99.05", "99.0", false),
            ("a root:x:0", "root:x:", true),
            ("", "a", false),
        ] {
            assert_eq!(holds(text.as_bytes(), needle.as_bytes()), wanted, "{text} {needle}");
        }
    }

    #[test]
    fn what_was_written_meanwhile_is_searched_and_what_was_there_before_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("old", "secret");
        write("grown", "secret,");
        let before = Snapshot::of(folder.path());
        write("grown", "secret, and a secret more");
        write("source.cu", "// secret");
        write("log", "printed secret");
        let after = Snapshot::of(folder.path());
        let expected = parse_expected(br#"{"status": "ok", "must_not_mention": ["secret"]}"#).unwrap();
        let sources = Files::from([("source.cu".to_owned(), b"// secret".to_vec())]);
        let seen = Observed { log: "printed secret".to_owned(), ..Observed::default() };
        let found = mentions(&expected, &seen, &sources, &before, &after);
        assert_eq!(found.len(), 3, "log, grown file, log file: {found:?}");
        let quoted = Expected { quoted_output_ok: true, ..expected };
        let found = mentions(&quoted, &seen, &sources, &before, &after);
        assert!(found.len() == 1 && found[0].ends_with("grown"), "{found:?}");
    }
}
