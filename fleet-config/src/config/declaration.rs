//! The C declaration of a kernel, read far enough to compare it with the parameters of a task.

use super::plan_check::is_identifier;
use crate::domain::ElementType;

/// Longest declaration in bytes.
const LENGTH_MAX: usize = 8192;

/// `extern "C" __global__ void entry(parameters)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    pub entry: String,
    pub parameters: Vec<DeclaredParameter>,
}

/// One parameter of the declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredParameter {
    /// Empty when the declaration names none.
    pub name: String,
    /// The element types that this C type can stand for; never empty. Vector types such as `float4` stand for
    /// their element.
    pub elements: Vec<ElementType>,
    pub passing: Passing,
    /// As written, blanks collapsed.
    pub text: String,
}

/// How a parameter is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    Value,
    /// Pointer to elements that the kernel may write.
    Pointer,
    /// Pointer to `const` elements.
    ConstPointer,
}

/// Why a text is no kernel declaration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeclarationError {
    #[error("the signature is longer than {LENGTH_MAX} bytes")]
    Length,
    #[error("the signature has a control character")]
    Control,
    #[error("`{0}` before the parameter list is no identifier")]
    Word(String),
    #[error("the signature does not begin with `extern \"C\"`")]
    Linkage,
    #[error("the signature has no `__global__`")]
    Global,
    #[error("the signature does not return `void`")]
    Void,
    #[error("the signature has no parameter list after the name")]
    List,
    #[error("the signature has something after the parameter list")]
    Rest,
    #[error("the type of parameter {0} (`{1}`) is not one that tasks know")]
    Type(usize, String),
}

impl Declaration {
    /// Reads a declaration, with or without a `;` at its end. Comments, `__launch_bounds__(…)`,
    /// `__restrict__` and the place of `const` are understood; templates, references and pointers to pointers
    /// are not.
    pub fn parse(text: &str) -> Result<Self, DeclarationError> {
        if text.len() > LENGTH_MAX {
            return Err(DeclarationError::Length);
        }
        if text.chars().any(|c| c.is_control() && !c.is_whitespace()) {
            return Err(DeclarationError::Control);
        }
        let tokens = tokens(text);
        let mut rest: &[String] = match tokens.as_slice() {
            [first, second, rest @ ..] if first == "extern" && second == "\"C\"" => rest,
            [..] => return Err(DeclarationError::Linkage),
        };
        let open = rest
            .iter()
            .enumerate()
            .position(|(at, token)| token == "(" && at > 0 && !rest[at - 1].starts_with("__launch_bounds"))
            .ok_or(DeclarationError::List)?;
        let head: Vec<&str> = without_bounds(&rest[..open]);
        if let Some(word) = head.iter().find(|word| !is_identifier(word)) {
            return Err(DeclarationError::Word(word.chars().take(80).collect()));
        }
        let (entry, words) = head.split_last().ok_or(DeclarationError::List)?;
        if !words.contains(&"__global__") {
            return Err(DeclarationError::Global);
        }
        if !words.contains(&"void") {
            return Err(DeclarationError::Void);
        }
        rest = &rest[open + 1..];
        let close = rest.iter().position(|token| token == ")").ok_or(DeclarationError::List)?;
        match &rest[close + 1..] {
            [] => {}
            [end] if end == ";" => {}
            [..] => return Err(DeclarationError::Rest),
        }
        let list = &rest[..close];
        let empty = list.is_empty() || (list.len() == 1 && list[0] == "void");
        let parts: Vec<&[String]> =
            if empty { Vec::new() } else { list.split(|token| token == ",").collect() };
        let parameters = parts.into_iter().enumerate().map(|(at, part)| parameter(at + 1, part));
        Ok(Self { entry: (*entry).to_owned(), parameters: parameters.collect::<Result<_, _>>()? })
    }
}

fn parameter(position: usize, tokens: &[String]) -> Result<DeclaredParameter, DeclarationError> {
    let text = tokens.join(" ");
    let unknown = || DeclarationError::Type(position, text.clone());
    let legal = |token: &String| matches!(token.as_str(), "*" | "[" | "]" | ":") || is_word(token);
    if !tokens.iter().all(legal) {
        return Err(unknown());
    }
    let stars = tokens.iter().filter(|token| *token == "*" || *token == "[").count();
    let first_star = tokens.iter().position(|token| token == "*").unwrap_or(tokens.len());
    let constant = tokens[..first_star].iter().any(|token| token == "const");
    let passing = match (stars, constant) {
        (0, _) => Passing::Value,
        (1, true) => Passing::ConstPointer,
        (1, false) => Passing::Pointer,
        (_, _) => return Err(unknown()),
    };
    let words: Vec<&str> = tokens.iter().map(String::as_str).filter(|token| is_type_or_name(token)).collect();
    if let Some(elements) = elements(&words) {
        return Ok(DeclaredParameter { name: String::new(), elements, passing, text });
    }
    let (name, words) = words.split_last().ok_or_else(unknown)?;
    let elements = elements(words).ok_or_else(unknown)?;
    Ok(DeclaredParameter { name: (*name).to_owned(), elements, passing, text })
}

/// An identifier or a number.
fn is_word(token: &str) -> bool {
    token.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_type_or_name(token: &str) -> bool {
    let qualifier =
        matches!(token, "const" | "volatile" | "restrict" | "__restrict" | "__restrict__" | "struct" | "std");
    !qualifier && token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// The element types behind the words of a C type on 64-bit Linux.
fn elements(words: &[&str]) -> Option<Vec<ElementType>> {
    use ElementType::{Bf16, Bool, F16, F32, F64, Fp8E4m3, Fp8E5m2, I8, I16, I32, I64, U8, U16, U32, U64};
    let known: &[ElementType] = match words {
        ["double" | "double2" | "double4"] => &[F64],
        ["float" | "float2" | "float3" | "float4"] => &[F32],
        ["half" | "__half" | "half2" | "__half2"] => &[F16],
        ["__nv_bfloat16" | "nv_bfloat16" | "__nv_bfloat162" | "nv_bfloat162"] => &[Bf16],
        ["__nv_fp8_e4m3"] => &[Fp8E4m3],
        ["__nv_fp8_e5m2"] => &[Fp8E5m2],
        ["int64_t" | "longlong2" | "ssize_t" | "ptrdiff_t"] => &[I64],
        ["int32_t" | "int2" | "int3" | "int4"] => &[I32],
        ["int16_t" | "short2" | "short4"] => &[I16],
        ["int8_t" | "char2" | "char4"] => &[I8],
        ["uint64_t" | "size_t" | "ulonglong2"] => &[U64],
        ["uint32_t" | "uint" | "uint2" | "uint3" | "uint4"] => &[U32],
        ["uint16_t" | "ushort" | "ushort2" | "ushort4"] => &[U16],
        ["uint8_t" | "uchar" | "uchar2" | "uchar4"] => &[U8, Bool],
        ["bool"] => &[Bool],
        ["char"] => &[I8, U8],
        [] => return None,
        [..] => return built_in(words).map(|element| vec![element]),
    };
    Some(known.to_vec())
}

/// `unsigned long long int` and its kin, in any order.
fn built_in(words: &[&str]) -> Option<ElementType> {
    let count = |wanted: &str| words.iter().filter(|word| **word == wanted).count();
    let (unsigned, signed) = (count("unsigned"), count("signed"));
    let (long, short, int, char) = (count("long"), count("short"), count("int"), count("char"));
    if unsigned + signed + long + short + int + char != words.len() || unsigned + signed > 1 || int + char > 1
    {
        return None;
    }
    match (long, short, char, unsigned) {
        (1 | 2, 0, 0, 0) => Some(ElementType::I64),
        (1 | 2, 0, 0, 1) => Some(ElementType::U64),
        (0, 1, 0, 0) => Some(ElementType::I16),
        (0, 1, 0, 1) => Some(ElementType::U16),
        (0, 0, 1, 0) => Some(ElementType::I8),
        (0, 0, 1, 1) => Some(ElementType::U8),
        (0, 0, 0, 0) => Some(ElementType::I32),
        (0, 0, 0, 1) => Some(ElementType::U32),
        (_, _, _, _) => None,
    }
}

/// The words before the parameter list, `__launch_bounds__` and its parentheses left out.
fn without_bounds(tokens: &[String]) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut kept = Vec::new();
    for token in tokens {
        match token.as_str() {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            word if depth == 0 && !word.starts_with("__launch_bounds") => kept.push(word),
            _ => {}
        }
    }
    kept
}

/// Words, strings and single marks; comments left out.
fn tokens(text: &str) -> Vec<String> {
    let text = without_comments(text);
    let mut tokens: Vec<String> = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(first) = chars.next() {
        let mut token = first.to_string();
        if first.is_ascii_alphanumeric() || first == '_' {
            while let Some(next) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                token.push(next);
            }
        } else if first == '"' {
            for next in chars.by_ref() {
                token.push(next);
                if next == '"' {
                    break;
                }
            }
        } else if first.is_whitespace() {
            continue;
        }
        tokens.push(token);
    }
    tokens
}

/// The text with a blank where a comment was.
pub(super) fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("/*").into_iter().chain(rest.find("//")).min() {
        kept.push_str(&rest[..start]);
        kept.push(' ');
        let end = if rest[start..].starts_with("/*") { "*/" } else { "\n" };
        let after = &rest[start + 2..];
        rest = after.find(end).map_or("", |at| &after[at + end.len()..]);
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn usual_declarations_are_read() {
        let text = "extern \"C\" __global__ /* fast */ void __launch_bounds__(256, 2) gemm(\n  const float* __restrict__ a, // left\n  float const *b, float *c, unsigned long long n, int, const __half* h, float4 v[], const int k);";
        let declaration = Declaration::parse(text).unwrap();
        assert_eq!(declaration.entry, "gemm");
        let found: Vec<(&str, ElementType, Passing)> = declaration
            .parameters
            .iter()
            .map(|parameter| (parameter.name.as_str(), parameter.elements[0], parameter.passing))
            .collect();
        assert_eq!(
            found,
            [
                ("a", ElementType::F32, Passing::ConstPointer),
                ("b", ElementType::F32, Passing::ConstPointer),
                ("c", ElementType::F32, Passing::Pointer),
                ("n", ElementType::U64, Passing::Value),
                ("", ElementType::I32, Passing::Value),
                ("h", ElementType::F16, Passing::ConstPointer),
                ("v", ElementType::F32, Passing::Pointer),
                ("k", ElementType::I32, Passing::Value),
            ]
        );
        assert!(Declaration::parse("extern \"C\" __global__ void f(void)").unwrap().parameters.is_empty());
    }

    #[test]
    fn what_is_no_kernel_declaration_says_why() {
        for (text, wanted) in [
            ("__global__ void f(int n)", DeclarationError::Linkage),
            ("extern \"C\" void f(int n)", DeclarationError::Global),
            ("extern \"C\" __global__ int f(int n)", DeclarationError::Void),
            ("extern \"C\" __global__ void f", DeclarationError::List),
            ("extern \"C\" __global__ void f(int n", DeclarationError::List),
            ("extern \"C\" __global__ void f(int n) { }", DeclarationError::Rest),
            (
                "extern \"C\" __global__ void f(float** p)",
                DeclarationError::Type(1, "float * * p".to_owned()),
            ),
            ("extern \"C\" __global__ void f(int n, Foo x)", DeclarationError::Type(2, "Foo x".to_owned())),
            ("extern \"C\" __global__ void f(float& x)", DeclarationError::Type(1, "float & x".to_owned())),
            ("extern \"C\" __global__ void f(int n = 1)", DeclarationError::Type(1, "int n = 1".to_owned())),
            ("extern \"C\" __global__ void \u{19}(int n)", DeclarationError::Control),
            ("extern \"C\" int x; __global__ void f(int n)", DeclarationError::Word(";".to_owned())),
            ("extern \"C\" __global__ void 1f(int n)", DeclarationError::Word("1f".to_owned())),
            ("extern \"C\" __global__ void f(int n,)", DeclarationError::Type(2, String::new())),
        ] {
            assert_eq!(Declaration::parse(text), Err(wanted), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-zA-Z\"*(),;/ \n_]{0,80}") {
            let _ = Declaration::parse(&text);
            let _ = Declaration::parse(&format!("extern \"C\" __global__ void f({text}"));
        }
    }
}
