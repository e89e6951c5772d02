//! Readers of bytes that candidates, compilers and workers write, as functions of bytes alone: what the fuzz targets
//! see of this room. Nothing else calls it.

use super::EntryPoint;
use super::lexer::tokens;
use super::signature::{check, kernel_name};

/// Places of the tokens of a candidate's text.
pub fn lex(source: &str) -> Vec<(usize, usize)> {
    tokens(source).into_iter().map(|token| (token.start, token.end)).collect()
}

/// The check of a kernel's parameters that is compiled behind a candidate, or why there is none.
pub fn signature_check(signature: &str, name: &str) -> Result<String, String> {
    let entry = EntryPoint { name: name.to_owned(), signature: Some(signature.to_owned()) };
    kernel_name(&entry).map_err(|error| error.to_string())?;
    let mut text = String::new();
    check(&mut text, 0, &entry, "__global__").map_err(|error| error.to_string())?;
    Ok(text)
}
