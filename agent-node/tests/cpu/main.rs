//! The CPU device from outside: kernels through compiler and worker, right ones and wrong ones.
#![expect(clippy::unwrap_used, reason = "a test's helper fails the test by panicking")]

mod aarch64;
mod bench;
mod compiling;
mod constructors;
mod expected;
mod faults;
mod features;
mod gallery;
mod groups;
mod half;
mod hostile;
mod kernels;
mod refusals;
mod sample;
mod screens;
