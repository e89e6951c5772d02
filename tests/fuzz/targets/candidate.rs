//! A candidate's text on its way to a compiler: tokens lie in order, the rewriting keeps every line, names stay names.

use super::repository::{files, tagged};
use super::{Cursor, Target};
use agent_node::backend::cpu::intake::rewritten;
use agent_node::backend::intake::{lex, signature_check};

pub(crate) const LEXER: Target = Target::new("lexer", lexer, sources);
pub(crate) const REWRITE: Target = Target::new("rewrite", rewrite, sources);
pub(crate) const SIGNATURE: Target = Target::new("signature", signature, signature_seeds).length(1024);

fn lexer(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut at = 0;
    for (start, end) in lex(text) {
        assert!(at <= start && start < end && end <= text.len(), "a token from {start} to {end} after {at}");
        let whole = text.is_char_boundary(start) && text.is_char_boundary(end);
        assert!(whole, "a token from {start} to {end} cuts a character");
        at = end;
    }
}

fn rewrite(data: &[u8]) {
    match rewritten(data) {
        Ok(text) => {
            let source = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
            let source =
                std::str::from_utf8(source).expect("what is rewritten is text").replace("\r\n", "\n");
            assert_eq!(text.matches('\n').count(), source.matches('\n').count(), "lines lose their numbers");
            // Nothing that is not one of the words of the table changes.
            let words = ["asm", "__shared__", "__noinline__", "<<<"];
            if !words.iter().any(|word| source.contains(word)) {
                assert_eq!(text, source);
            }
            assert!(text.len() <= 40 * source.len() + 400, "{} bytes of {}", text.len(), source.len());
        }
        Err((cause, line)) => {
            let lines = data.iter().filter(|byte| **byte == b'\n').count() + 1;
            assert!(line >= 1 && line as usize <= lines, "{cause} on line {line} of {lines}");
        }
    }
}

fn sources() -> Vec<Vec<u8>> {
    let mut seeds = files("tests/fixtures", ".cu");
    seeds.extend(files("scripts", ".cu"));
    seeds.extend(files("tests/kernels", "candidate.cu").into_iter().take(30));
    for text in [
        "extern __shared__ __align__(16) float s[][32];\nasm volatile(\"x\"); k<<<1, 2, 3>>>(a);\n",
        "auto r = R\"x(asm )\" )x\"; char q = '\\''; int d = 1'000; // c \\\n c\n#include <a/b.h>\n",
        "static __shared__ int a; __shared__ extern T\\\n t[]; __noinline__ void f();\r\n",
    ] {
        seeds.push(text.as_bytes().to_vec());
    }
    seeds
}

/// A task's signature and a plan's name cannot write code of their own: what is compiled stays one declaration.
fn signature(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let length = usize::from(cursor.byte());
    let (Ok(name), Ok(signature)) =
        (std::str::from_utf8(cursor.bytes(length)), std::str::from_utf8(cursor.rest()))
    else {
        return;
    };
    let Ok(text) = signature_check(signature, name) else { return };
    assert_eq!(text.matches('\n').count(), 2, "{text}");
    let first = text.lines().next().expect("there are two lines");
    let inside = first.strip_suffix("); }").and_then(|line| line.split_once("muster_expected("));
    let (_, parameters) = inside.expect("the declaration is whole");
    let mut depth = 0_i64;
    for (start, end) in lex(parameters) {
        depth += match &parameters[start..end] {
            "(" => 1,
            ")" => -1,
            _ => 0,
        };
        assert!(depth >= 0, "the parameters close the declaration: {text}");
    }
}

fn signature_seeds() -> Vec<Vec<u8>> {
    let text = "extern \"C\" __global__ void __launch_bounds__(256) f(const float* x, float (*y)[4], int n);";
    vec![tagged(1, &[b"f", text.as_bytes()].concat()), tagged(4, &[b"f<4>", text.as_bytes()].concat())]
}
