//! Which architecture a compute capability is compiled for: always the exact one, so that nothing is translated later.

use fleet_config::domain::{Architecture, Vendor};

/// The architecture of devices with this compute capability. From 9.0 on the names with `a` hold the instructions of
/// exactly this chip (NVIDIA CUDA C++ Programming Guide, "Architecture-specific features").
pub(super) fn of_capability(major: i32, minor: i32) -> Option<Architecture> {
    let suffix = if major >= 9 { "a" } else { "" };
    if !(5..=99).contains(&major) || !(0..=9).contains(&minor) {
        return None;
    }
    format!("nvidia:sm_{major}{minor}{suffix}").parse().ok()
}

/// The number in `nvidia:sm_90a`; `None` for another vendor or shape.
pub(super) fn number(architecture: &Architecture) -> Option<u32> {
    if architecture.vendor() != Vendor::Nvidia {
        return None;
    }
    let digits = architecture.name().strip_prefix("sm_")?.trim_end_matches(['a', 'f']);
    let number = digits.parse().ok()?;
    (50..=999).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_become_exact_architectures() {
        for ((major, minor), name) in [
            ((8, 0), "nvidia:sm_80"),
            ((8, 9), "nvidia:sm_89"),
            ((9, 0), "nvidia:sm_90a"),
            ((10, 0), "nvidia:sm_100a"),
            ((12, 0), "nvidia:sm_120a"),
        ] {
            assert_eq!(of_capability(major, minor).unwrap().as_str(), name);
        }
        assert_eq!(of_capability(-1, 0), None);
        assert_eq!(of_capability(9, 11), None);
    }

    #[test]
    fn other_vendors_and_shapes_have_no_number() {
        let number = |text: &str| number(&text.parse().unwrap());
        assert_eq!(number("nvidia:sm_90a"), Some(90));
        assert_eq!(number("nvidia:sm_121"), Some(121));
        assert_eq!(number("nvidia:sm_x"), None);
        assert_eq!(number("nvidia:compute_90"), None);
        assert_eq!(number("cpu:x86-64-v3"), None);
    }
}
