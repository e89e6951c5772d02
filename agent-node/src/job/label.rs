//! Labels: what readers should know of a candidate that is right. A label is no fault and changes no verdict.

use super::compile::Compiled;
use super::fault::Party;
use super::prepare::Prepared;
use crate::backend::code::{Program, same_text, words_like};
use fleet_config::domain::{CheckEvidence, CheckFinding, CheckName, Milliseconds};

/// Beginnings of names that belong to libraries, with the library. Device code reaches header libraries only; host
/// libraries stand here since a CPU candidate is host code.
const LIBRARIES: [(&str, &str); 19] = [
    ("cub/", "CUB"),
    ("thrust/", "Thrust"),
    ("cutlass/", "CUTLASS"),
    ("cute/", "CuTe"),
    ("mathdx/", "MathDx"),
    ("cublasdx", "cuBLASDx"),
    ("cufftdx", "cuFFTDx"),
    ("cublas", "cuBLAS"),
    ("cudnn", "cuDNN"),
    ("cufft", "cuFFT"),
    ("cusparse", "cuSPARSE"),
    ("cusolver", "cuSOLVER"),
    ("cutensor", "cuTENSOR"),
    ("nccl", "NCCL"),
    ("cblas_", "a BLAS"),
    ("mkl_", "MKL"),
    ("Eigen/", "Eigen"),
    ("dlopen", "whatever it opens with dlopen"),
    ("dlsym", "whatever it opens with dlsym"),
];

/// Labels of the candidate, each with what it was seen by.
pub(super) fn labels(prepared: &Prepared, compiled: &Compiled) -> Vec<CheckEvidence> {
    let mut found = Vec::new();
    for party in [Party::Baseline, Party::Reference] {
        if party == Party::Reference && prepared.baseline_is_reference() {
            continue;
        }
        if let Some(seen_by) = likeness(prepared, compiled, party) {
            found.push(format!("same as the {} ({seen_by})", party.name()));
        }
    }
    let libraries = libraries(prepared);
    if !libraries.is_empty() {
        found.push(format!("uses a library: {}", libraries.join(", ")));
    }
    found.into_iter().map(evidence).collect()
}

/// By what the candidate is `party` once more, if it is.
fn likeness(prepared: &Prepared, compiled: &Compiled, party: Party) -> Option<&'static str> {
    let candidate = Party::Candidate;
    if prepared.evaluations.get(&candidate)? != prepared.evaluations.get(&party)? {
        return None;
    }
    if same_text(prepared.sources.get(&candidate)?, prepared.sources.get(&party)?) {
        return Some("equal sources but for comments and white space");
    }
    let (left, right) = (compiled.artefacts.get(&candidate)?, compiled.artefacts.get(&party)?);
    (Program::of(left)? == Program::of(right)?).then_some("equal machine code")
}

fn libraries(prepared: &Prepared) -> Vec<&'static str> {
    let Some(sources) = prepared.sources.get(&Party::Candidate) else { return Vec::new() };
    let mut found = Vec::new();
    for word in words_like(sources, |word| LIBRARIES.iter().any(|(start, _)| word.starts_with(start))) {
        let library =
            LIBRARIES.iter().find(|(start, _)| word.starts_with(start)).map(|(_, library)| *library);
        found.extend(library.filter(|library| !found.contains(library)));
    }
    found
}

fn evidence(detail: String) -> CheckEvidence {
    CheckEvidence {
        check: CheckName::label(),
        case: String::new(),
        cases: 0,
        draws: 0,
        launches: 0,
        finding: CheckFinding::Labelled,
        detail: detail.chars().take(CheckEvidence::DETAIL_MAX).collect(),
        took: Milliseconds(0),
    }
}
