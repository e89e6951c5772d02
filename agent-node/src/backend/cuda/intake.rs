//! What this device kind reads from its children, as functions of bytes alone, for the fuzz targets.

use super::diagnostics::{diagnose, said, steady};
use super::failure::diagnosis;
use super::meaning::explain;
use super::protocol::{Answer, Order, receive, send};
use super::{compiler_child, cubin, usage};
use fleet_config::domain::{Milliseconds, Outcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Reads a worker's frame as the supervisor does; what a failed call means; whether the frame is the same when it is sent
/// again.
pub fn answer(bytes: &[u8], raw_max: u64) -> Option<(bool, Option<Outcome>)> {
    let (answer, raw) = receive::<Answer>(&mut &*bytes, raw_max).ok()?;
    let steady = comes_back(&answer, &raw, raw_max);
    let outcome = match answer {
        Answer::Failed(trouble) => Some(*explain(&trouble, "case", Milliseconds(1000)).outcome),
        Answer::Done
        | Answer::Opened { .. }
        | Answer::Launched { .. }
        | Answer::Fence { .. }
        | Answer::Addresses(_) => None,
    };
    Some((steady, outcome))
}

/// Reads a supervisor's frame as a worker does.
pub fn order(bytes: &[u8], raw_max: u64) -> Option<bool> {
    let (order, raw) = receive::<Order>(&mut &*bytes, raw_max).ok()?;
    Some(comes_back(&order, &raw, raw_max))
}

fn comes_back<T: Serialize + DeserializeOwned + PartialEq>(message: &T, raw: &[u8], raw_max: u64) -> bool {
    let mut sent = Vec::new();
    send(&mut sent, message, raw).is_ok()
        && receive::<T>(&mut sent.as_slice(), raw_max)
            .is_ok_and(|(again, bytes)| again == *message && bytes == raw)
}

/// Symbols and parameter sizes of the kernels in a cubin for `sm_90`; what each uses is read too.
pub fn kernels(bytes: &[u8]) -> Result<Vec<(String, Vec<u32>)>, String> {
    let _used = usage::of_cubin(bytes, 90);
    let kernels = cubin::kernels(bytes, 90).map_err(|error| error.to_string())?;
    Ok(kernels.into_iter().map(|kernel| (kernel.symbol, kernel.parameters)).collect())
}

/// What a compiler's log means.
pub fn log(text: &str) -> (Outcome, BTreeMap<String, u64>) {
    steady(text);
    (*diagnosis(diagnose(text), text).outcome, said(text))
}

/// What compute-sanitizer's report says, for people.
pub fn watched(text: &str) -> String {
    super::sanitizer::sentence(text)
}

/// Whether the answer of the compiling child reads.
pub fn compiled(bytes: &[u8]) -> bool {
    serde_json::from_slice::<compiler_child::Answer>(bytes).is_ok()
}
