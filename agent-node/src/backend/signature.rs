//! Names of kernels and the check of a task's signature, in C++ that every compiler of ours takes.
//!
//! Parameters are compared without `const`, `volatile` and `restrict`, at every depth of a pointer: they change neither how
//! a value is handed over nor what it means, and whether an input was changed is seen after the launch.

use super::EntryPoint;
use super::lexer::{Kind, Token, tokens};
use fleet_config::domain::KernelStep;
use std::fmt::Write as _;

/// The name that the compiler sees for lines made here.
pub(super) const GLUE_FILE: &str = "muster-glue";
/// How a signature's failure is known in a log.
pub(super) const SIGNATURE_MARK: &str = "muster-signature|";

/// A plan or task that asks for what cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SignatureError {
    #[error("`{0}` is no name of a kernel; write an identifier, with template arguments where needed")]
    Name(String),
    #[error("the task's signature of `{0}` has no parameter list")]
    Signature(String),
}

/// Types without qualifiers, and whether two of them are one. Needs no header, since NVRTC has none of its own; every name
/// is one that no candidate has a macro for.
pub(super) const COMPARISON: &str = "\
template <class muster_t> struct muster_plain { typedef muster_t muster_type; };
template <class muster_t> struct muster_plain<const muster_t> {
  typedef typename muster_plain<muster_t>::muster_type muster_type;
};
template <class muster_t> struct muster_plain<volatile muster_t> {
  typedef typename muster_plain<muster_t>::muster_type muster_type;
};
template <class muster_t> struct muster_plain<const volatile muster_t> {
  typedef typename muster_plain<muster_t>::muster_type muster_type;
};
template <class muster_t> struct muster_plain<muster_t*> {
  typedef typename muster_plain<muster_t>::muster_type* muster_type;
};
template <class muster_t> struct muster_plain<muster_t* const> {
  typedef typename muster_plain<muster_t>::muster_type* muster_type;
};
template <class muster_t> struct muster_plain<muster_t* __restrict__> {
  typedef typename muster_plain<muster_t>::muster_type* muster_type;
};
template <class muster_r, class... muster_a> struct muster_plain<muster_r (*)(muster_a...)> {
  typedef muster_r (*muster_type)(typename muster_plain<muster_a>::muster_type...);
};
template <class muster_l, class muster_r> struct muster_same { static const bool muster_value = false; };
template <class muster_t> struct muster_same<muster_t, muster_t> { static const bool muster_value = true; };
";

/// Writes the check that kernel `index` has the task's parameters. `attribute` is what makes a function a kernel here.
pub(super) fn check(
    text: &mut String,
    index: usize,
    entry: &EntryPoint,
    attribute: &str,
) -> Result<(), SignatureError> {
    let Some(signature) = &entry.signature else { return Ok(()) };
    let name = entry.name.trim();
    let parameters = parameters(signature, name)?;
    // The same parameters in a namespace of its own, without "C" linkage: only the types are compared.
    let _ = writeln!(
        text,
        "namespace muster_signature_{index} {{ {attribute} void muster_expected({parameters}); }}\n\
         static_assert(muster_same<muster_plain<decltype(&muster_signature_{index}::muster_expected)>::muster_type, \
         muster_plain<decltype(&{name})>::muster_type>::muster_value, \"{SIGNATURE_MARK}{name}|\");",
    );
    Ok(())
}

/// The name of `entry` if it is one: characters of qualified names and template arguments only, so that a plan cannot write
/// code.
pub(super) fn kernel_name(entry: &EntryPoint) -> Result<&str, SignatureError> {
    let name = entry.name.trim();
    if KernelStep::is_name(name) {
        Ok(name)
    } else {
        Err(SignatureError::Name(name.chars().take(KernelStep::NAME_MAX).collect()))
    }
}

/// The text between the parentheses behind the kernel's name.
fn parameters(signature: &str, name: &str) -> Result<String, SignatureError> {
    let missing = || SignatureError::Signature(name.to_owned());
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
        // On one line, a literal that a line break ended here would go on.
        if matches!(token.kind, Kind::Literal | Kind::HeaderName) {
            return Err(missing());
        }
        if depth == 0 {
            let inside = tokens.iter().filter(|inner| inner.start >= open.end && inner.end <= token.start);
            return Ok(on_one_line(signature, inside));
        }
    }
    Err(missing())
}

/// Tokens without the comments between them, apart where they were apart.
fn on_one_line<'t>(source: &str, tokens: impl Iterator<Item = &'t Token>) -> String {
    let mut text = String::new();
    let mut end = None;
    for token in tokens {
        if end.is_some_and(|end| end != token.start) {
            text.push(' ');
        }
        text.push_str(match token.text(source) {
            "#" | "\\" => " ",
            word => word,
        });
        end = Some(token.end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> EntryPoint {
        EntryPoint { name: name.to_owned(), signature: None }
    }

    #[test]
    fn the_parameters_of_a_signature_are_taken_without_its_attributes() {
        let text =
            "extern \"C\" __global__ void __launch_bounds__(256) f(const float* x, float (*y)[4], int n);";
        assert_eq!(parameters(text, "f").unwrap(), "const float* x, float (*y)[4], int n");
        let commented = "void f(int a, // one )\n  ns::T b /* two\n ) */, int\\\n c)";
        assert_eq!(parameters(commented, "f").unwrap(), "int a, ns::T b , int c");
        for text in ["void f(int a = \"\n\", int b)", "void f(char a = ')')", "void f(int a\n\"\n)"] {
            assert!(parameters(text, "f").is_err(), "{text}");
        }
        for broken in ["extern \"C\" __global__ void f", "void f(int a", ""] {
            assert!(parameters(broken, "f").is_err(), "{broken}");
        }
    }

    #[test]
    fn template_kernels_have_names_and_code_is_none() {
        assert_eq!(kernel_name(&entry(" ns::add<float, 4> ")).unwrap(), "ns::add<float, 4>");
        for name in ["", "f();", "f\n#include <x>", "1f", "a\"b"] {
            assert!(kernel_name(&entry(name)).is_err(), "{name}");
        }
    }
}
