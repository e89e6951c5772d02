//! The text behind a candidate's source: the check of the task's signature. Kernels are named to NVRTC itself.

use crate::backend::EntryPoint;
use std::fmt::Write as _;

/// The name that the compiler sees for the lines made here.
pub(super) const GLUE_FILE: &str = "muster-glue";
/// How a signature's failure is known in a log.
pub(super) const SIGNATURE_MARK: &str = "muster-signature|";
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

/// Text to append to the translation unit.
pub(super) fn glue(entries: &[EntryPoint]) -> Result<String, GlueError> {
    let mut text = format!("\n#line 1 \"{GLUE_FILE}\"\n");
    text.push_str(
        "template <class Left, class Right> struct muster_same { static const bool value = false; };\n\
         template <class Type> struct muster_same<Type, Type> { static const bool value = true; };\n",
    );
    for (index, entry) in entries.iter().enumerate() {
        let name = entry.name.trim();
        if !is_kernel_name(name) {
            return Err(GlueError::Name(name.chars().take(NAME_MAX).collect()));
        }
        let Some(signature) = &entry.signature else { continue };
        let parameters = parameters(signature, name)?;
        // The same parameters in a namespace of its own, without "C" linkage: only the types are compared.
        let _ = writeln!(
            text,
            "namespace muster_signature_{index} {{ __global__ void expected({parameters}); }}\n\
             static_assert(muster_same<decltype(&muster_signature_{index}::expected), decltype(&{name})>::value, \
             \"{SIGNATURE_MARK}{name}|\");",
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
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut from = 0;
    loop {
        let at = from + signature.get(from..).and_then(|rest| rest.find(name)).ok_or_else(missing)?;
        let (before, rest) =
            (signature.get(..at).unwrap_or(""), signature.get(at + name.len()..).unwrap_or(""));
        let open = rest.trim_start();
        if !before.ends_with(is_word) && open.starts_with('(') {
            return inner(open).ok_or_else(missing);
        }
        from = at + name.len();
    }
}

/// What stands between the parenthesis that `text` begins with and its partner.
fn inner(text: &str) -> Option<String> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(text.get(1..at)?.replace(['\n', '\r', '#', '\\'], " "));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_of_a_signature_are_taken_without_its_attributes() {
        let text =
            "extern \"C\" __global__ void __launch_bounds__(256) f(const float* x, float (*y)[4], int n);";
        assert_eq!(parameters(text, "f").unwrap(), "const float* x, float (*y)[4], int n");
        for broken in ["extern \"C\" __global__ void f", "void f(int a", "void g(int f)", ""] {
            assert!(parameters(broken, "f").is_err(), "{broken}");
        }
    }

    #[test]
    fn code_is_no_name_of_a_kernel() {
        let entry = |name: &str| EntryPoint { name: name.to_owned(), signature: None };
        assert!(glue(&[entry("ns::add<float, 4>")]).is_ok());
        for name in ["", "f();", "f\n#include <x>", "1f", "a\"b"] {
            assert!(glue(&[entry(name)]).is_err(), "{name}");
        }
    }
}
