//! Whether two artefacts are one program: equal machine code and constants, whatever their sources look like.
//!
//! Comparing what the compiler made of a mutant with what it made of the original tells many equivalent mutants apart
//! from survivors (Papadakis, Jia, Harman and Le Traon 2015, "Trivial compiler equivalence").

use super::{Artefact, Sources, lexer};
use fleet_config::domain::BlobRef;
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, SectionFlags};
use std::collections::BTreeMap;

/// Largest artefact that is read for this.
const ARTEFACT_MAX: u64 = 64 << 20;
/// Sections with constants that code reads; names of NVIDIA's carry that of the kernel.
const CONSTANTS: [&str; 5] = [".rodata", ".data", ".nv.constant", ".nv.global", ".init_array"];

/// Code and constants of one artefact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(BTreeMap<String, Vec<u8>>);

impl Program {
    /// Reads the artefact's file; nothing where that cannot be done, or where the file is another by now.
    pub fn of(artefact: &Artefact) -> Option<Self> {
        let is_small = artefact.blob.size <= ARTEFACT_MAX;
        let bytes = is_small.then(|| std::fs::read(&artefact.path).ok()).flatten()?;
        (BlobRef::of(&bytes) == artefact.blob).then(|| code(&bytes)).flatten().map(Self)
    }
}

/// Sections with instructions or constants, by name; nothing for a file without instructions.
fn code(bytes: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let (mut found, mut has_instructions) = (BTreeMap::new(), false);
    for section in file.sections() {
        let name = section.name().ok()?;
        let runs = match section.flags() {
            SectionFlags::Elf { sh_flags, sh_type: _ } => sh_flags.0 & object::elf::SHF_EXECINSTR.0 != 0,
            _ => false,
        };
        has_instructions |= runs;
        if runs || CONSTANTS.iter().any(|prefix| name.starts_with(prefix)) {
            found.insert(name.to_owned(), section.data().ok()?.to_vec());
        }
    }
    has_instructions.then_some(found)
}

/// Whether two source trees are equal but for comments, white space and names of files.
pub fn same_text(left: &Sources, right: &Sources) -> bool {
    words(left) == words(right)
}

/// The tokens of every file, the main one first.
fn words(sources: &Sources) -> Vec<Vec<&[u8]>> {
    let main = sources.files.get(&sources.main);
    let others = sources.files.iter().filter(|(path, _)| **path != sources.main).map(|(_, bytes)| bytes);
    main.into_iter().chain(others).map(|bytes| tokens(bytes)).collect()
}

fn tokens(bytes: &[u8]) -> Vec<&[u8]> {
    let Ok(text) = std::str::from_utf8(bytes) else { return vec![bytes] };
    lexer::tokens(text).into_iter().map(|token| token.text(text).as_bytes()).collect()
}

/// Whether a word of the code, comments and literals left out, satisfies `wanted`; names of headers count as words.
pub fn words_like(sources: &Sources, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for bytes in sources.files.values() {
        let Ok(text) = std::str::from_utf8(bytes) else { continue };
        for token in lexer::tokens(text) {
            let word = match token.kind {
                lexer::Kind::Identifier => token.text(text),
                lexer::Kind::HeaderName => token.text(text).trim_matches(['<', '>', '"']),
                lexer::Kind::Number | lexer::Kind::Literal | lexer::Kind::Punctuation => continue,
            };
            if wanted(word) && !found.iter().any(|known| known == word) {
                found.push(word.to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(main: &str, text: &str) -> Sources {
        let files = BTreeMap::from([(main.to_owned(), text.as_bytes().to_vec())]);
        Sources { main: main.to_owned(), files }
    }

    #[test]
    fn texts_are_equal_but_for_comments_and_white_space_and_one_letter_more_is_not() {
        let one = sources("a.cu", "int f(int x) { return x+1; } // adds");
        assert!(same_text(&one, &sources("b.cu", "/* other */ int f(int x)\n{\n return x + 1;\n}")));
        assert!(!same_text(&one, &sources("a.cu", "int f(int x) { return x+2; }")));
        assert!(!same_text(&one, &sources("a.cu", "int f(int xx) { return xx+1; }")));
    }

    #[test]
    fn words_in_comments_and_literals_do_not_count() {
        let text = "#include <cub/cub.cuh>\n// atomicAdd\nconst char* s = \"atomicMin\"; f(atomicMax);";
        let found =
            words_like(&sources("a.cu", text), |word| word.starts_with("atomic") || word.starts_with("cub"));
        assert_eq!(found, ["cub/cub.cuh", "atomicMax"]);
    }

    #[test]
    fn what_is_no_program_has_no_code() {
        assert!(code(b"").is_none());
        assert!(code(b"\x7fELF").is_none());
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let read = code(&own).unwrap();
        assert!(read.contains_key(".text") && read.contains_key(".rodata") && !read.contains_key(".symtab"));
    }
}
