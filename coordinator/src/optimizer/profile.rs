//! Profiles of a whole application: AutoKernel's `profile_report.json`, or our own simple form.
//!
//! ```json
//! { "total_ms": 120.0, "kernels": [ { "name": "matmul", "ms": 72.0, "hoped": 1.5, "task": "matmul-f32" },
//!                                   { "name": "softmax", "share": 0.05 } ] }
//! ```
//! A kernel has `share` (0 to 1) or `ms` beside the file's `total_ms`.

use super::amdahl::Part;
use fleet_config::refusal::Refusal;
use serde::Deserialize;

/// Largest profile that is read, in bytes; the largest that AutoKernel writes has some hundred kernels.
pub const PROFILE_MAX: usize = 16 << 20;

#[derive(Debug, Deserialize)]
struct ProfileText {
    total_ms: Option<f64>,
    kernels: Option<Vec<KernelText>>,
    /// AutoKernel's.
    top_kernels: Option<Vec<TopKernelText>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelText {
    name: String,
    share: Option<f64>,
    ms: Option<f64>,
    hoped: Option<f64>,
    task: Option<String>,
}

/// What is used of one of its kernels; the report says more.
#[derive(Debug, Deserialize)]
struct TopKernelText {
    name: String,
    pct_total: f64,
}

/// The kernels of a profile, in its order. `file` is the name that refusals tell. Errors: `profile/size`,
/// `profile/syntax`, `profile/empty`, `profile/share`.
pub fn parse(text: &str, file: &str) -> Result<Vec<Part>, Refusal> {
    let refuse = |code: &'static str, cause: String| {
        let next =
            "give `kernels` with `share` or `ms` each, or AutoKernel's profile_report.json (docs/AGENTS.md)";
        Refusal::new(code, file, cause, next)
    };
    if text.len() > PROFILE_MAX {
        return Err(refuse("profile/size", format!("more than {PROFILE_MAX} bytes")));
    }
    let profile: ProfileText =
        serde_json::from_str(text).map_err(|error| refuse("profile/syntax", error.to_string()))?;
    let ProfileText { total_ms, kernels, top_kernels } = profile;
    let parts: Vec<Part> = match (kernels, top_kernels) {
        (Some(kernels), None) => kernels
            .into_iter()
            .map(|kernel| own(kernel, total_ms).map_err(|cause| refuse("profile/share", cause)))
            .collect::<Result<_, _>>()?,
        (None, Some(kernels)) => kernels.into_iter().map(autokernel).collect(),
        (Some(_), Some(_)) | (None, None) => {
            return Err(refuse("profile/syntax", "either `kernels` or `top_kernels` is expected".to_owned()));
        }
    };
    if parts.is_empty() {
        return Err(refuse("profile/empty", "the profile has no kernel".to_owned()));
    }
    let is_share = |share: f64| share.is_finite() && (0.0..=1.0).contains(&share);
    if let Some(wrong) = parts.iter().find(|part| !is_share(part.share)) {
        return Err(refuse("profile/share", format!("the share of `{}` is not between 0 and 1", wrong.name)));
    }
    let is_factor = |factor: f64| factor.is_finite() && factor > 0.0;
    if let Some(wrong) = parts.iter().find(|part| !part.hoped.is_none_or(is_factor)) {
        return Err(refuse("profile/hoped", format!("`hoped` of `{}` is no factor above 0", wrong.name)));
    }
    let sum: f64 = parts.iter().map(|part| part.share).sum();
    // Shares are printed with few digits: their sum may exceed one by what rounding adds.
    if sum > 1.0 + 0.001 * parts.len() as f64 {
        return Err(refuse("profile/share", format!("the shares add up to {sum:.3}, more than the whole")));
    }
    Ok(parts)
}

fn own(kernel: KernelText, total_ms: Option<f64>) -> Result<Part, String> {
    let KernelText { name, share, ms, hoped, task } = kernel;
    let share = match (share, ms, total_ms) {
        (Some(share), None, _) => share,
        (None, Some(ms), Some(total)) if total > 0.0 => ms / total,
        (None, Some(_), _) => return Err(format!("`{name}` has `ms`, and the file no `total_ms` above 0")),
        (Some(_), Some(_), _) => return Err(format!("`{name}` has both `share` and `ms`")),
        (None, None, _) => return Err(format!("`{name}` has neither `share` nor `ms`")),
    };
    Ok(Part { name, share, hoped, reached: 1.0, task })
}

fn autokernel(kernel: TopKernelText) -> Part {
    let TopKernelText { name, pct_total } = kernel;
    Part { name, share: pct_total / 100.0, hoped: None, reached: 1.0, task: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let own = r#"{"total_ms": 120, "kernels": [
            {"name": "matmul", "ms": 72, "hoped": 1.5, "task": "matmul-f32"}, {"name": "softmax", "share": 0.05}]}"#;
        let parts = parse(own, "p.json").unwrap();
        assert!((parts[0].share - 0.6).abs() < 1e-12 && parts[0].task.as_deref() == Some("matmul-f32"));
        assert_eq!((parts[1].share, parts[1].hoped), (0.05, None));
        let theirs = r#"{"model": "m", "gpu_name": "g", "total_gpu_time_ms": 10.0, "top_kernels": [
            {"rank": 1, "name": "gemm", "op_type": "matmul", "gpu_time_ms": 6.0, "call_count": 3, "pct_total": 60.0,
             "cumulative_pct": 60.0, "autokernel_supported": true, "optimization_priority": "HIGH"}]}"#;
        assert_eq!(parse(theirs, "p.json").unwrap()[0].share, 0.6);
    }

    #[test]
    fn what_makes_no_whole_is_refused_with_its_code() {
        for (text, code) in [
            ("{", "profile/syntax"),
            ("{}", "profile/syntax"),
            (r#"{"kernels": []}"#, "profile/empty"),
            (r#"{"kernels": [{"name": "a"}]}"#, "profile/share"),
            (r#"{"kernels": [{"name": "a", "ms": 1}]}"#, "profile/share"),
            (r#"{"kernels": [{"name": "a", "share": 0.5, "ms": 1}], "total_ms": 2}"#, "profile/share"),
            (r#"{"kernels": [{"name": "a", "share": -0.5}]}"#, "profile/share"),
            (r#"{"kernels": [{"name": "a", "share": 0.7}, {"name": "b", "share": 0.7}]}"#, "profile/share"),
            (r#"{"kernels": [{"name": "a", "share": 0.7, "hoped": 0}]}"#, "profile/hoped"),
            (r#"{"kernels": [{"name": "a", "part": 0.7}]}"#, "profile/syntax"),
        ] {
            assert_eq!(parse(text, "p.json").unwrap_err().code, code, "{text}");
        }
    }
}
