//! A launch plan: kernels in order, scratch buffers, memsets, and the attributes of each launch.

use super::{ElementType, Expression};
use serde::{Deserialize, Serialize};

/// What one evaluation of an implementation launches, in order. Geometry is written in expressions over the
/// case's dimensions and device attributes, so that one plan serves every case and device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchPlan {
    pub scratch: Vec<Scratch>,
    pub steps: Vec<Step>,
}

impl LaunchPlan {
    /// Most steps of a plan; bounds what a node must schedule for one launch.
    pub const STEPS_MAX: usize = 64;
    /// Most scratch buffers of a plan.
    pub const SCRATCH_MAX: usize = 32;
}

/// Device memory that lives for one evaluation and is poisoned before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scratch {
    pub name: String,
    pub element: ElementType,
    pub count: Expression,
}

/// One thing that a plan does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(clippy::large_enum_variant, reason = "plans hold a handful of steps; a box would only hide them")]
pub enum Step {
    Kernel(KernelStep),
    Memset(MemsetStep),
}

/// One kernel launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelStep {
    pub entry: String,
    /// In blocks: x, y, z.
    pub grid: [Expression; 3],
    /// In threads: x, y, z.
    pub block: [Expression; 3],
    /// Dynamic shared memory in bytes.
    pub shared_bytes: Expression,
    /// Names of task parameters and scratch buffers in the kernel's order; empty means the task's own order.
    pub arguments: Vec<String>,
    pub attributes: Attributes,
}

impl KernelStep {
    /// Longest name of a kernel, template arguments included.
    pub const NAME_MAX: usize = 256;

    /// Whether `text` can name a kernel: an identifier, qualified and with template arguments where it needs them, such as
    /// `add_up<256, 4>`. No other characters, so that a plan cannot write code.
    pub fn is_name(text: &str) -> bool {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '<' | '>' | ',' | ' ');
        let starts = text.starts_with(|c: char| c == '_' || c == ':' || c.is_ascii_alphabetic());
        starts && text.len() <= Self::NAME_MAX && text.chars().all(legal)
    }
}

/// Launch attributes; a backend that lacks one answers `unsupported_on_device`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attributes {
    /// Cooperative launch (grid-wide synchronisation).
    pub cooperative: bool,
    /// Thread block cluster dimensions.
    pub cluster: Option<[u32; 3]>,
}

/// Fills a scratch or output buffer before the next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemsetStep {
    pub buffer: String,
    pub byte: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_may_have_scopes_and_template_arguments_and_no_code() {
        for name in ["f", "_f2", "add_up<256, 4>", "outer::inner<float>", "::f", "f<g<1>, true>"] {
            assert!(KernelStep::is_name(name), "{name}");
        }
        let long = "f".repeat(KernelStep::NAME_MAX + 1);
        for name in ["", "2f", "f()", "f;g", "f<1>{", "f\n", "f\"", "<f>", " f", long.as_str()] {
            assert!(!KernelStep::is_name(name), "{name:?}");
        }
    }
}
