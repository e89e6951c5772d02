//! The checks that every source passes before any compiler sees it.

use crate::domain::Bytes;
use crate::refusal::Refusal;

/// Longest path of a source file in bytes.
const PATH_MAX: usize = 240;

/// Whether `bytes` of the file `path` may go to a compiler. Refused: a path of the wrong shape (`source/path`),
/// more than `limit` (`source/size`), a NUL byte (`source/nul`), invalid UTF-8 (`source/utf8`). A byte order
/// mark and CRLF line ends are accepted as they are.
pub fn check_source(bytes: &[u8], path: &str, limit: Bytes) -> Result<(), Refusal> {
    check_path(path)?;
    if bytes.len() as u64 > limit.0 {
        let cause = format!("{} bytes are more than the {} that the task allows", bytes.len(), limit.0);
        return Err(Refusal::new("source/size", path, cause, "Send a smaller source."));
    }
    if let Some(offset) = bytes.iter().position(|byte| *byte == 0) {
        let cause = format!("NUL byte at offset {offset} (line {})", line_at(bytes, offset));
        return Err(Refusal::new("source/nul", path, cause, "Save the source as UTF-8 text."));
    }
    if let Err(error) = std::str::from_utf8(bytes) {
        let offset = error.valid_up_to();
        let cause = format!("invalid UTF-8 at offset {offset} (line {})", line_at(bytes, offset));
        return Err(Refusal::new("source/utf8", path, cause, "Save the source as UTF-8 text."));
    }
    Ok(())
}

/// Whether `path` can name a file of a source tree: relative, `/`-separated, with no empty, `.` or `..`
/// component, no backslash, colon or control character (`source/path`).
pub fn check_path(path: &str) -> Result<(), Refusal> {
    let refuse = |cause: &str| {
        let shown: String = path.chars().take(80).flat_map(char::escape_debug).collect();
        Err(Refusal::new("source/path", shown, cause, "Write a relative path such as `kernels/tiled.cu`."))
    };
    if path.is_empty() {
        return refuse("the path is empty");
    }
    if path.len() > PATH_MAX {
        return refuse("the path is too long");
    }
    if path.chars().any(|c| c.is_control() || matches!(c, '\\' | ':' | '"')) {
        return refuse("the path has a character that source paths may not have");
    }
    if path.starts_with('/') {
        return refuse("the path is absolute");
    }
    if path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return refuse("the path has an empty, `.` or `..` component");
    }
    Ok(())
}

fn line_at(bytes: &[u8], offset: usize) -> usize {
    bytes.iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_passes_and_what_is_no_text_is_named() {
        let check = |bytes: &[u8]| check_source(bytes, "a.cu", Bytes(40)).map_err(|refusal| refusal.code);
        assert_eq!(check(b"\xef\xbb\xbfint x;\r\n"), Ok(()));
        assert_eq!(check("// größe".as_bytes()), Ok(()));
        assert_eq!(check(b"int\0x;").unwrap_err(), "source/nul");
        assert_eq!(check(b"int\xffx;").unwrap_err(), "source/utf8");
        assert_eq!(check(b"cut \xc3").unwrap_err(), "source/utf8");
        assert_eq!(check(&[b' '; 41]).unwrap_err(), "source/size");
        let refusal = check_source(b"a\nb\n\xff", "a.cu", Bytes(40)).unwrap_err();
        assert_eq!(refusal.cause, "invalid UTF-8 at offset 4 (line 3)");
    }

    #[test]
    fn only_relative_plain_paths_are_paths() {
        for good in ["a.cu", "kernels/a.cu", "..a/b..", "größe.cu"] {
            assert!(check_path(good).is_ok(), "{good}");
        }
        for bad in ["", "/a", "../a", "a/../b", "a//b", "a/", "./a", "a\\b", "c:a", "a\nb", "a\0", "a\"b"] {
            assert_eq!(check_path(bad).unwrap_err().code, "source/path", "{bad}");
        }
        assert!(check_path(&"a".repeat(PATH_MAX + 1)).is_err());
    }
}
