//! The text behind a candidate's source: the check of the task's signature. Kernels are named to NVRTC itself.

use crate::backend::EntryPoint;
use crate::backend::signature::{COMPARISON, GLUE_FILE, SignatureError, check, kernel_name};

/// Text to append to the translation unit.
pub(super) fn glue(entries: &[EntryPoint]) -> Result<String, SignatureError> {
    let mut text = format!("\n#line 1 \"{GLUE_FILE}\"\n{COMPARISON}");
    for (index, entry) in entries.iter().enumerate() {
        kernel_name(entry)?;
        check(&mut text, index, entry, "__global__")?;
    }
    Ok(text)
}
