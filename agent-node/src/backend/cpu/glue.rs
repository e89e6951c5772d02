//! The text behind a candidate's source: an entry in C for each kernel, and the check of the task's signature.

use super::lexer::{Kind, tokens};
use crate::backend::EntryPoint;
use std::fmt::Write as _;

/// The name that the compiler sees for the lines made here.
pub(super) const GLUE_FILE: &str = "muster-glue";
/// Longest name of a kernel, template arguments included.
const NAME_MAX: usize = 256;

/// A plan or task that asks for what cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum GlueError {
    #[error("`{0}` is no name of a kernel; write an identifier, with template arguments where needed")]
    Name(String),
    #[error("the task's signature of `{0}` has no parameter list")]
    Signature(String),
}

/// Text to append to the translation unit; `muster_entry_<i>` is the entry of kernel `i`.
pub(super) fn glue(entries: &[EntryPoint]) -> Result<String, GlueError> {
    let mut text = String::from("\n");
    for (header, types) in ELEMENT_HEADERS {
        let signatures = entries.iter().filter_map(|entry| entry.signature.as_deref());
        // A candidate that leaves it out is told about its signature, not about a type that it does not know.
        if signatures.into_iter().any(|signature| names_one_of(signature, types)) {
            let _ = writeln!(text, "#include <{header}>");
        }
    }
    let _ = writeln!(text, "#line 1 \"{GLUE_FILE}\"");
    for (index, entry) in entries.iter().enumerate() {
        let name = entry.name.trim();
        if !is_kernel_name(name) {
            return Err(GlueError::Name(name.chars().take(NAME_MAX).collect()));
        }
        if let Some(signature) = &entry.signature {
            let parameters = parameters(signature, name)?;
            // The same name in a namespace of its own, without "C" linkage: only the types are compared.
            let _ = writeln!(
                text,
                "namespace muster_signature_{index} {{ void expected({parameters}); }}\n\
                 static_assert(std::is_same<decltype(&muster_signature_{index}::expected), decltype(&{name})>::value, \"muster-signature|{name}|\");",
            );
        }
        let _ = writeln!(
            text,
            "extern \"C\" {{\n\
             __attribute__((visibility(\"default\"))) int muster_arity_{index} = ::muster::kernel<decltype(&{name})>::arity;\n\
             __attribute__((visibility(\"default\"))) void muster_entry_{index}(void** arguments) {{\n\
             ::muster::kernel<decltype(&{name})>::template call<&{name}>(arguments); }}\n}}",
        );
    }
    Ok(text)
}

/// Characters of qualified names and template arguments only, so that a plan cannot write code.
fn is_kernel_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '<' | '>' | ',' | ' ');
    let starts = name.chars().next().is_some_and(|c| c == '_' || c == ':' || c.is_ascii_alphabetic());
    starts && name.len() <= NAME_MAX && name.chars().all(legal)
}

/// The text between the parentheses behind the kernel's name.
fn parameters(signature: &str, name: &str) -> Result<String, GlueError> {
    let missing = || GlueError::Signature(name.to_owned());
    let tokens = tokens(signature);
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text(signature));
    let named = |at: &usize| {
        tokens.get(*at).is_some_and(|token| token.kind == Kind::Identifier)
            && word(at + 1) == "("
            && !matches!(word(*at), "__launch_bounds__" | "__attribute__" | "__align__" | "alignas")
    };
    let at = (0..tokens.len()).find(named).ok_or_else(missing)?;
    let open = tokens.get(at + 1).ok_or_else(missing)?;
    let mut depth = 0usize;
    for token in tokens.get(at + 1..).unwrap_or(&[]) {
        match token.text(signature) {
            "(" => depth += 1,
            ")" => depth = depth.checked_sub(1).ok_or_else(missing)?,
            _ => {}
        }
        if depth == 0 {
            let text = signature.get(open.end..token.start).ok_or_else(missing)?;
            return Ok(text.replace(['\n', '\r', '#'], " "));
        }
    }
    Err(missing())
}

/// Headers that define the types of a signature.
const ELEMENT_HEADERS: [(&str, &[&str]); 3] = [
    ("cuda_fp16.h", &["half", "__half", "half2", "__half2"]),
    ("cuda_fp8.h", &["__nv_fp8_e4m3", "__nv_fp8_e5m2"]),
    ("cuda_bf16.h", &["__nv_bfloat16", "__nv_bfloat162", "nv_bfloat16", "nv_bfloat162"]),
];

fn names_one_of(signature: &str, types: &[&str]) -> bool {
    tokens(signature).iter().any(|token| types.contains(&token.text(signature)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, signature: Option<&str>) -> EntryPoint {
        EntryPoint { name: name.to_owned(), signature: signature.map(str::to_owned) }
    }

    #[test]
    fn the_parameters_of_a_signature_are_taken_without_its_attributes() {
        let text =
            "extern \"C\" __global__ void __launch_bounds__(256) f(const float* x, float (*y)[4], int n);";
        assert_eq!(parameters(text, "f").unwrap(), "const float* x, float (*y)[4], int n");
        assert!(parameters("extern \"C\" __global__ void f", "f").is_err());
        assert!(parameters("void f(int a", "f").is_err());
    }

    #[test]
    fn template_kernels_have_entries_and_code_is_no_name() {
        assert!(glue(&[entry("ns::add<float, 4>", None)]).unwrap().contains("&ns::add<float, 4>"));
        for name in ["", "f();", "f\n#include <x>", "1f", "a\"b"] {
            assert!(glue(&[entry(name, None)]).is_err(), "{name}");
        }
    }

    #[test]
    fn a_signature_in_half_precision_brings_its_header() {
        let text = glue(&[entry("h", Some("void h(const __half* x, int n)"))]).unwrap();
        assert!(text.starts_with("\n#include <cuda_fp16.h>\n#line 1"), "{text}");
        assert!(!glue(&[entry("h", Some("void h(const float* half_x)"))]).unwrap().contains("cuda_fp16"));
    }
}
