//! The text behind a candidate's source: an entry in C for each kernel, and the check of the task's signature.

use crate::backend::EntryPoint;
use crate::backend::lexer::tokens;
use crate::backend::signature::{COMPARISON, GLUE_FILE, SignatureError, check, kernel_name};
use std::fmt::Write as _;

/// Text to append to the translation unit; `muster_entry_<i>` is the entry of kernel `i`.
pub(super) fn glue(entries: &[EntryPoint]) -> Result<String, SignatureError> {
    let mut text = String::from("\n");
    for (header, types) in ELEMENT_HEADERS {
        let signatures = entries.iter().filter_map(|entry| entry.signature.as_deref());
        // A candidate that leaves it out is told about its signature, not about a type that it does not know.
        if signatures.into_iter().any(|signature| names_one_of(signature, types)) {
            let _ = writeln!(text, "#include <{header}>");
        }
    }
    let _ = write!(text, "#line 1 \"{GLUE_FILE}\"\n{COMPARISON}");
    for (index, entry) in entries.iter().enumerate() {
        let name = kernel_name(entry)?;
        check(&mut text, index, entry, "")?;
        let _ = writeln!(
            text,
            "extern \"C\" {{\n\
             __attribute__((visibility(\"default\"))) int muster_arity_{index} = ::muster::muster_kernel<decltype(&{name})>::muster_arity;\n\
             __attribute__((visibility(\"default\"))) void muster_entry_{index}(void** muster_arguments) {{\n\
             ::muster::muster_kernel<decltype(&{name})>::template muster_call<&{name}>(muster_arguments); }}\n}}",
        );
    }
    Ok(text)
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
    fn a_signature_in_half_precision_brings_its_header() {
        let text = glue(&[entry("h", Some("void h(const __half* x, int n)"))]).unwrap();
        assert!(text.starts_with("\n#include <cuda_fp16.h>\n#line 1"), "{text}");
        assert!(!glue(&[entry("h", Some("void h(const float* half_x)"))]).unwrap().contains("cuda_fp16"));
    }
}
