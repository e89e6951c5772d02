//! The compilers of a node side by side, and which of them compiles for an architecture.

use super::CompilerError;
use super::architecture;
use super::compiler_child::Answer;
use super::compiler_run::describe;
use super::failure::{self, infrastructure};
use super::toolkit::{self, Installation, Origin};
use crate::backend::Failure;
use crate::sandbox::Confinement;
use fleet_config::domain::{Architecture, Digest, Stage};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Fewest digits that may stand for a digest.
const DIGITS_MIN: usize = 8;

/// One usable NVRTC.
#[derive(Debug)]
pub(super) struct Toolchain {
    pub installation: Installation,
    version: (i32, i32),
    architectures: Vec<i32>,
    /// Of the libraries and headers; made when first asked for, since it reads 100 MB.
    digests: OnceLock<Result<Digests, String>>,
}

#[derive(Debug, Clone, Copy)]
struct Digests {
    everything: Digest,
    library: Digest,
}

/// What people and programs are told of a toolchain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolchainFacts {
    /// `NVRTC 13.0`.
    pub name: String,
    /// Digest of everything that it reads by itself: library, built-ins, headers. What a policy pins.
    pub digest: Digest,
    pub library: PathBuf,
    pub library_digest: Digest,
    pub origin: Origin,
    /// Numbers of the architectures that it compiles for.
    pub architectures: Vec<i32>,
    pub includes: Vec<PathBuf>,
    /// What kernels may include of the toolkit, and what they may not.
    pub headers: Vec<&'static str>,
    pub headers_lacking: Vec<&'static str>,
}

impl Toolchain {
    /// `NVRTC 13.0`.
    pub(super) fn short_name(&self) -> String {
        let (major, minor) = self.version;
        format!("NVRTC {major}.{minor}")
    }

    /// `NVRTC 13.0`, with the digest of the library.
    pub(super) fn name(&self) -> Result<String, Failure> {
        let library = self.digests()?.library.to_string();
        Ok(format!("{} blake3:{}", self.short_name(), library.get(..16).unwrap_or("")))
    }

    /// Digest of everything that it reads beside a request.
    pub(super) fn digest(&self) -> Result<Digest, Failure> {
        Ok(self.digests()?.everything)
    }

    /// Everything that is told of it.
    pub(super) fn facts(&self) -> Result<ToolchainFacts, Failure> {
        let Digests { everything, library } = self.digests()?;
        let Installation { origin, library: path, builtins: _, includes } = &self.installation;
        let (headers, headers_lacking) = self.installation.headers();
        Ok(ToolchainFacts {
            name: self.short_name(),
            digest: everything,
            library: path.clone(),
            library_digest: library,
            origin: *origin,
            architectures: self.architectures.clone(),
            includes: includes.clone(),
            headers,
            headers_lacking,
        })
    }

    fn knows(&self, number: u32) -> bool {
        self.architectures.iter().any(|known| u32::try_from(*known) == Ok(number))
    }

    fn digests(&self) -> Result<Digests, Failure> {
        let made = self.digests.get_or_init(|| {
            let digest = |hash: blake3::Hash| Digest(*hash.as_bytes());
            let library = toolkit::content(&self.installation.library).map(digest);
            let everything = toolkit::digest(&self.installation).map(digest);
            match (library, everything) {
                (Ok(library), Ok(everything)) => Ok(Digests { everything, library }),
                (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
            }
        });
        made.clone().map_err(|error| infrastructure(Stage::Compile, "read the compiler's files", &error))
    }
}

/// The usable ones in the order of preference, and what was wrong with the others.
#[derive(Debug)]
pub(super) struct Toolchains {
    usable: Vec<Toolchain>,
    pub refusals: Vec<String>,
}

impl Toolchains {
    /// Asks each of `found` what it is; a major version above `newest_major` (the driver's) is passed over, since its
    /// cubins would not load.
    pub(super) fn ask(
        found: Vec<Installation>,
        newest_major: Option<i32>,
        cache: &Path,
        confinement: Confinement,
    ) -> Result<Self, CompilerError> {
        if found.is_empty() {
            return Err(CompilerError::Missing);
        }
        let (mut usable, mut refusals) = (Vec::new(), Vec::new());
        for installation in found {
            let name = installation.library.display().to_string();
            match describe(&installation, cache, confinement) {
                Ok(Answer::Library { major, minor, architectures }) => {
                    if newest_major.is_none_or(|newest| major <= newest) {
                        let version = (major, minor);
                        let digests = OnceLock::new();
                        usable.push(Toolchain { installation, version, architectures, digests });
                    } else {
                        refusals.push(format!("{name} is {major}.{minor}, newer than the driver"));
                    }
                }
                Ok(Answer::Failed { cause }) => refusals.push(cause),
                Ok(other) => refusals.push(format!("{name} answered {other:?}")),
                Err(error) => refusals.push(format!("{name}: {error}")),
            }
        }
        if usable.is_empty() {
            return Err(CompilerError::Unusable(refusals.join("; ")));
        }
        Ok(Self { usable, refusals })
    }

    /// All of them, best first.
    pub(super) fn all(&self) -> &[Toolchain] {
        &self.usable
    }

    /// Every architecture that one of them knows, by its exact name: from 9.0 on with the instructions of that chip alone.
    pub(super) fn architectures(&self) -> Vec<Architecture> {
        let mut numbers: Vec<i32> = self.usable.iter().flat_map(|one| one.architectures.clone()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
            .into_iter()
            .filter_map(|number| architecture::of_capability(number / 10, number % 10))
            .collect()
    }

    /// The one that is taken where nothing else is asked for.
    pub(super) fn first(&self) -> &Toolchain {
        self.usable.first().expect("invariant: `ask` refuses to have none")
    }

    /// What a policy pins to have the one that `text` names: a version (`12`, `13.0`) or the first digits of a digest.
    pub(super) fn named(&self, text: &str) -> Result<Digest, String> {
        let mut names = Vec::new();
        for toolchain in &self.usable {
            let digest = toolchain.digest().map_err(|failure| message(&failure))?;
            let (major, minor) = toolchain.version;
            let is_version = text == major.to_string() || text == format!("{major}.{minor}");
            if is_version || (text.len() >= DIGITS_MIN && digest.to_string().starts_with(text)) {
                return Ok(digest);
            }
            names.push(format!("{major}.{minor} {digest}"));
        }
        Err(format!("no toolchain here is called `{text}`; there is {}", names.join(", ")))
    }

    /// The toolchain for `architecture`: the pinned one, or the first that knows it. The other half is its number.
    pub(super) fn select(
        &self,
        architecture: &Architecture,
        pinned: Option<Digest>,
    ) -> Result<(&Toolchain, u32), Failure> {
        let number = architecture::number(architecture)
            .ok_or_else(|| failure::toolchain(format!("NVRTC makes no code for {architecture}")))?;
        let lacks = |name: &str, known: &[i32]| {
            failure::toolchain(format!("{name} makes no code for {architecture}; it knows {known:?}"))
        };
        if let Some(pinned) = pinned {
            for toolchain in &self.usable {
                if toolchain.digest()? == pinned {
                    let name = format!("{}, which the policy pins,", toolchain.short_name());
                    let known = toolchain.knows(number);
                    return known
                        .then_some((toolchain, number))
                        .ok_or_else(|| lacks(&name, &toolchain.architectures));
                }
            }
            let here: Result<Vec<String>, Failure> = self.usable.iter().map(Toolchain::pin).collect();
            let message =
                format!("the policy pins the toolchain {pinned}; this node has {}", here?.join(", "));
            return Err(failure::toolchain_pinned(message));
        }
        let found = self.usable.iter().find(|toolchain| toolchain.knows(number));
        found.map(|toolchain| (toolchain, number)).ok_or_else(|| {
            let names: Vec<String> = self.usable.iter().map(Toolchain::short_name).collect();
            let mut known: Vec<i32> = self.usable.iter().flat_map(|one| one.architectures.clone()).collect();
            known.sort_unstable();
            known.dedup();
            lacks(&names.join(" or "), &known)
        })
    }
}

/// The cause in a failure.
pub(super) fn message(failure: &Failure) -> String {
    failure.outcome.cause.as_ref().map_or_else(String::new, |cause| cause.message.clone())
}

impl Toolchain {
    /// Its name with what a policy would pin.
    fn pin(&self) -> Result<String, Failure> {
        Ok(format!("{} {}", self.short_name(), self.digest()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::{Status, UnsupportedReason};

    fn toolchain(version: (i32, i32), architectures: &[i32], byte: u8) -> Toolchain {
        let installation = Installation {
            origin: Origin::Toolkit,
            library: PathBuf::from("/nowhere/libnvrtc.so"),
            builtins: None,
            includes: Vec::new(),
        };
        let digests = Digests { everything: Digest([byte; 32]), library: Digest([byte; 32]) };
        let digests = OnceLock::from(Ok(digests));
        Toolchain { installation, version, architectures: architectures.to_vec(), digests }
    }

    fn both() -> Toolchains {
        let usable = vec![toolchain((13, 0), &[80, 90, 120], 13), toolchain((12, 9), &[70, 80, 90], 12)];
        Toolchains { usable, refusals: Vec::new() }
    }

    fn selected(
        architecture: &str,
        pinned: Option<u8>,
    ) -> Result<String, (Option<UnsupportedReason>, String)> {
        let pinned = pinned.map(|byte| Digest([byte; 32]));
        let found = both().select(&architecture.parse().unwrap(), pinned).map(|(one, _)| one.short_name());
        found.map_err(|failure| {
            assert_eq!(failure.outcome.status, Status::UnsupportedOnDevice);
            let cause = failure.outcome.cause.unwrap();
            (cause.unsupported, cause.message)
        })
    }

    #[test]
    fn the_first_that_knows_an_architecture_compiles_for_it() {
        assert_eq!(selected("nvidia:sm_90a", None).unwrap(), "NVRTC 13.0");
        assert_eq!(selected("nvidia:sm_70", None).unwrap(), "NVRTC 12.9");
        let (reason, message) = selected("nvidia:sm_999", None).unwrap_err();
        assert_eq!(reason, Some(UnsupportedReason::Toolchain));
        assert!(message.contains("NVRTC 13.0 or NVRTC 12.9") && message.contains("120"), "{message}");
        assert!(selected("amd:gfx942", None).is_err());
    }

    #[test]
    fn every_known_architecture_is_offered_once_by_its_exact_name() {
        let names: Vec<String> = both().architectures().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["nvidia:sm_70", "nvidia:sm_80", "nvidia:sm_90a", "nvidia:sm_120a"]);
    }

    #[test]
    fn a_toolchain_is_named_by_version_or_digest() {
        let named = |text: &str| both().named(text).map(|digest| digest.0[0]);
        assert_eq!((named("12"), named("13.0"), named("0c0c0c0c")), (Ok(12), Ok(13), Ok(12)));
        for text in ["", "11", "13.1", "0c0c", "0d0d0d0e"] {
            assert!(named(text).unwrap_err().contains("there is 13.0 0d0d"), "{text}");
        }
    }

    #[test]
    fn a_pinned_toolchain_is_taken_or_the_cell_says_why_not() {
        assert_eq!(selected("nvidia:sm_90a", Some(12)).unwrap(), "NVRTC 12.9");
        let (reason, message) = selected("nvidia:sm_120a", Some(12)).unwrap_err();
        assert_eq!(reason, Some(UnsupportedReason::Toolchain));
        assert!(
            message.contains("NVRTC 12.9, which the policy pins, makes no code for nvidia:sm_120a"),
            "{message}"
        );
        let (_, message) = selected("nvidia:sm_90a", Some(1)).unwrap_err();
        assert!(
            message.contains("pins the toolchain 0101") && message.contains("NVRTC 13.0 0d0d"),
            "{message}"
        );
    }
}
