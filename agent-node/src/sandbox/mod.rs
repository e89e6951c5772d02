//! The sandbox: what compilers and candidates may do; default deny.

/// Whether children must be confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// Refuse to run without it.
    Required,
    /// Only from `--unsafe-no-sandbox`; every record shows it.
    UnsafeNone,
}
