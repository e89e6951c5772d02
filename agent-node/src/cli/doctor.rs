//! `muster-node doctor`: what this machine has and lacks, and what to do about it.

use super::settings::{device_confinement, passing_wish};
use super::{DoctorArguments, UNFIT};
use agent_node::backend::Backend;
use agent_node::backend::conformance::{self, Bed, Finding, Verdict};
use agent_node::backend::cuda::{CudaBackend, ToolchainFacts};
use agent_node::backend::screen::{Missing, ScreenOffer};
use agent_node::inventory::{Offer, Wish, cpu_offers};
use agent_node::probe::cpu_levels;
use agent_node::sandbox::{self, Confinement, Layer, Level};
use agent_node::scratch::Scratch;
use fleet_config::domain::{Fact, field};
use serde::Serialize;
use std::process::ExitCode;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// Works, with less than could be.
    Weak,
    /// A node does not run like this.
    Lacking,
}

#[derive(Debug, Serialize)]
struct Check {
    name: String,
    state: State,
    detail: String,
    /// What to do; empty when nothing is to be done.
    next: String,
}

/// What to do where there is no compiler for GPUs.
const INSTALL_NVRTC: &str = "GPUs cannot be offered and `muster compile` cannot work: install a CUDA toolkit, or the Python packages nvidia-cuda-nvrtc, -runtime, -cccl and -crt; or say where NVRTC is with --nvrtc";

#[derive(Debug, Serialize)]
struct Report {
    checks: Vec<Check>,
}

pub(crate) fn doctor(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let confinement = device_confinement(&arguments.devices)?;
    let mut report = Report { checks: sandbox_checks(confinement) };
    let levels: Vec<String> = cpu_levels().iter().map(ToString::to_string).collect();
    report.put("CPU levels", State::Ok, levels.join(", "), "");
    let folder = Scratch::make()?;
    // Without a sandbox the compiler cannot be asked, and the checks above say so.
    if !report.checks.iter().any(|check| check.state == State::Lacking) {
        let wish = passing_wish(&arguments.devices, folder.path())?;
        match cpu_offers(&wish) {
            Ok(offers) => {
                if let Some(offer) = offers.first() {
                    let compiler = offer.description.configuration.get(field::COMPILER);
                    report.put("C++ compiler", State::Ok, text(compiler), "");
                    report.checks.extend(screen_checks("CPU", offer.backend.as_ref()));
                    if arguments.full {
                        report.checks.extend(conformance_checks(offer, confinement, &folder));
                    }
                }
            }
            Err(refusal) => report.put("C++ compiler", State::Lacking, refusal.cause, &refusal.next),
        }
        report.checks.extend(cuda_checks(&wish));
    }
    let fit = report.checks.iter().all(|check| check.state != State::Lacking);
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.checks.iter().for_each(print);
    }
    Ok(if fit { ExitCode::SUCCESS } else { ExitCode::from(UNFIT) })
}

impl Report {
    fn put(&mut self, name: &str, state: State, detail: impl Into<String>, next: &str) {
        let (name, detail, next) = (name.to_owned(), detail.into(), next.to_owned());
        self.checks.push(Check { name, state, detail, next });
    }
    fn put_toolchain(&mut self, facts: &ToolchainFacts) {
        let ToolchainFacts {
            name,
            digest,
            library,
            library_digest: _,
            origin,
            architectures,
            includes: _,
            headers,
            headers_lacking,
        } = facts;
        let numbers: Vec<String> = architectures.iter().map(ToString::to_string).collect();
        let list = |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(" ") };
        let detail = format!(
            "{name}, {} ({}), toolchain {digest}, architectures {}, headers {}",
            library.display(),
            origin.words(),
            numbers.join(" "),
            list(headers)
        );
        if headers_lacking.is_empty() {
            return self.put("NVRTC", State::Ok, detail, "");
        }
        let next = format!(
            "kernels that include {} do not compile: install that toolkit's headers (Python packages nvidia-cuda-runtime, -cccl and -crt of the same version; for CUDA 12 -runtime-cu12, -cccl-cu12 and -nvcc-cu12)",
            headers_lacking.join(", ")
        );
        self.put("NVRTC", State::Weak, detail, &next);
    }
    fn put_layer(&mut self, name: &str, layer: &Layer, if_absent: State) {
        match layer {
            Layer::Present(version) => self.put(name, State::Ok, version.as_str(), ""),
            Layer::Absent { cause, next } => self.put(name, if_absent, cause.as_str(), next),
        }
    }
}

/// Each layer with what it takes; the level that they add up to comes first.
fn sandbox_checks(confinement: Confinement) -> Vec<Check> {
    let found = sandbox::probe();
    let mut report = Report { checks: Vec::new() };
    let (level, state, next) = match (found.level(), confinement) {
        (_, Confinement::UnsafeNone) => (Level::None, State::Weak, "leave --unsafe-no-sandbox out"),
        (Level::None, _) => (Level::None, State::Lacking, "see Landlock and seccomp"),
        (Level::Kernel, Confinement::Full) => (Level::Kernel, State::Lacking, "see the namespaces"),
        (Level::Kernel, Confinement::Required) => {
            (Level::Kernel, State::Weak, "see the namespaces; results are recorded as `kernel`")
        }
        (_, Confinement::Kernel) => (Level::Kernel, State::Ok, ""),
        (Level::Full, Confinement::Required | Confinement::Full) => (Level::Full, State::Ok, ""),
    };
    report.put("sandbox level", state, level.as_str(), next);
    let needs = |least: Level| match confinement {
        Confinement::UnsafeNone => State::Weak,
        Confinement::Full => State::Lacking,
        Confinement::Required | Confinement::Kernel if least == Level::Kernel => State::Lacking,
        Confinement::Required | Confinement::Kernel => State::Weak,
    };
    let base = [("Landlock", &found.landlock), ("seccomp", &found.seccomp)];
    let above = found.isolation.iter().map(|(name, layer)| (name.as_str(), layer));
    let base = base.into_iter().map(|(name, layer)| (name, layer, Level::Kernel));
    for (name, layer, least) in base.chain(above.map(|(name, layer)| (name, layer, Level::Full))) {
        report.put_layer(name, layer, needs(least));
    }
    report.put_layer("control group", &found.cgroup, State::Weak);
    for weakness in &found.weaknesses {
        report.put("sandbox", State::Weak, weakness.as_str(), "");
    }
    report.checks
}

/// Which screens can be run here. A node does without those that it lacks, and says so in its records.
fn screen_checks(kind: &str, backend: &dyn Backend) -> Vec<Check> {
    let mut report = Report { checks: Vec::new() };
    for ScreenOffer { screen, missing } in backend.screens() {
        let name = format!("{kind} screen {}", screen.name());
        match missing {
            None => report.put(&name, State::Ok, screen.to_string(), ""),
            Some(Missing { cause, next }) => report.put(&name, State::Weak, cause, &next),
        }
    }
    report.checks
}

/// Devices and compilers of NVIDIA. A machine without either is a good node, so nothing here is lacking.
fn cuda_checks(wish: &Wish) -> Vec<Check> {
    let mut report = Report { checks: Vec::new() };
    let backend =
        CudaBackend::discover(&wish.cache, wish.confinement, wish.standby).with_nvrtc(wish.nvrtc.clone());
    for device in backend.devices() {
        let model = text(device.identity.get(field::DEVICE_MODEL));
        let detail = format!("{model}, {}, {}", device.id, device.architecture);
        match wish.confinement {
            Confinement::Full => {
                report.put(
                    "CUDA device",
                    State::Weak,
                    detail,
                    "GPUs are offered at sandbox level `kernel` only",
                );
            }
            Confinement::Required | Confinement::Kernel | Confinement::UnsafeNone => {
                report.put("CUDA device", State::Ok, detail, "");
            }
        }
    }
    report.checks.extend(screen_checks("GPU", &backend));
    if let (Some(cause), next) = (backend.absence(), backend.absence_next()) {
        report.put("CUDA device", State::Weak, format!("none: {cause}"), next.unwrap_or_default());
    }
    match backend.toolchains() {
        Ok((toolchains, unusable)) => {
            toolchains.iter().for_each(|facts| report.put_toolchain(facts));
            for cause in unusable {
                report.put(
                    "NVRTC",
                    State::Weak,
                    cause,
                    "install another version, or leave it out of the search",
                );
            }
        }
        Err(cause) => report.put("NVRTC", State::Weak, cause, INSTALL_NVRTC),
    }
    report.checks
}

fn conformance_checks(offer: &Offer, confinement: Confinement, folder: &Scratch) -> Vec<Check> {
    let path = folder.path().join("conformance");
    let bed = Bed { backend: offer.backend.as_ref(), device: &offer.description, folder: &path, confinement };
    let mut report = Report { checks: Vec::new() };
    for Finding { check, verdict } in conformance::check(&bed) {
        match verdict {
            Verdict::Passed => report.put(check, State::Ok, "", ""),
            Verdict::Unsupported(why) => report.put(check, State::Weak, why, ""),
            Verdict::Failed(why) => report.put(check, State::Lacking, why, "report this with the output"),
        }
    }
    report.checks
}

fn print(check: &Check) {
    let word = match check.state {
        State::Ok => "ok",
        State::Weak => "weak",
        State::Lacking => "lacking",
    };
    println!("{word:9}{}: {}", check.name, check.detail);
    if !check.next.is_empty() {
        println!("         -> {}", check.next);
    }
}

/// A fact for people.
pub(super) fn text(fact: Option<&Fact>) -> String {
    match fact {
        Some(Fact::Text(text)) => text.clone(),
        Some(Fact::Count(count)) => count.to_string(),
        Some(Fact::Flag(flag)) => flag.to_string(),
        Some(Fact::Unknown(why)) => format!("unknown ({why})"),
        None => "unknown".to_owned(),
    }
}
