//! The declaration of a case's kernel: the types of its reference, the names of its arguments.

use super::read::{Argument, ArgumentKind};
use crate::config::{Declaration, DeclaredParameter, Passing};
use crate::domain::{ElementType, Role};

/// `extern "C" __global__ void entry(…)` for `arguments` (roles as given beside them), with the C types that the
/// reference declares where it can be read, else with the usual ones.
pub(super) fn signature(entry: &str, arguments: &[(&Argument, Option<Role>)], source: &str) -> String {
    let declared = declared(entry, source).filter(|found| found.parameters.len() == arguments.len());
    let parameter = |(at, (argument, role)): (usize, &(&Argument, Option<Role>))| {
        let declared = declared.as_ref().and_then(|declared| declared.parameters.get(at));
        declared
            .and_then(|declared| as_declared(declared, argument, *role))
            .unwrap_or_else(|| usual(argument, *role))
    };
    let list: Vec<String> = arguments.iter().enumerate().map(parameter).collect();
    format!("extern \"C\" __global__ void {entry}({})", list.join(", "))
}

/// The declaration of `entry` in the reference.
fn declared(entry: &str, source: &str) -> Option<Declaration> {
    let mut rest = source;
    while let Some(at) = rest.find("__global__") {
        let text = &rest[at..];
        rest = &text["__global__".len()..];
        let body = text.find(['{', ';']).unwrap_or(text.len());
        let head = text[..body].trim_end();
        if let Ok(found) = Declaration::parse(&format!("extern \"C\" {head}"))
            && found.entry == entry
        {
            return Some(found);
        }
    }
    None
}

/// The declared type in front of the argument's own name; nothing where the two do not fit.
fn as_declared(declared: &DeclaredParameter, argument: &Argument, role: Option<Role>) -> Option<String> {
    let is_pointer = declared.passing != Passing::Value;
    let is_buffer = matches!(argument.kind, ArgumentKind::Buffer { .. });
    if !declared.elements.contains(&argument.element)
        || is_pointer != is_buffer
        || declared.text.contains('[')
    {
        return None;
    }
    let words = declared.text.strip_suffix(declared.name.as_str()).unwrap_or(&declared.text).trim_end();
    // Whether an input is left alone is checked by running; that its elements are `const` is how tasks are written.
    let constant = if role == Some(Role::In) && declared.passing == Passing::Pointer { "const " } else { "" };
    Some(format!("{constant}{words} {}", argument.name))
}

fn usual(argument: &Argument, role: Option<Role>) -> String {
    let word = match argument.element {
        ElementType::F64 => "double",
        ElementType::F32 => "float",
        ElementType::F16 => "__half",
        ElementType::Bf16 => "__nv_bfloat16",
        ElementType::I64 => "long long",
        ElementType::I32 => "int",
        ElementType::I16 => "short",
        ElementType::I8 => "signed char",
        ElementType::U64 => "unsigned long long",
        ElementType::U32 => "unsigned int",
        ElementType::U16 => "unsigned short",
        ElementType::U8 => "unsigned char",
        ElementType::Bool => "bool",
        ElementType::Fp8E4m3 => "__nv_fp8_e4m3",
        ElementType::Fp8E5m2 => "__nv_fp8_e5m2",
        ElementType::Fp4E2m1 => "__nv_fp4_e2m1",
    };
    let name = &argument.name;
    match (&argument.kind, role) {
        (ArgumentKind::Buffer { .. }, Some(Role::In)) => format!("const {word}* {name}"),
        (ArgumentKind::Buffer { .. }, Some(Role::Out | Role::Inout) | None) => format!("{word}* {name}"),
        (ArgumentKind::Integer(_) | ArgumentKind::Float(_), _) => format!("{word} {name}"),
    }
}
