//! The CPU device: CUDA C compiled by the host compiler with an embedded shim.
