//! What was seen against what was expected. Pure.

use super::Verdict;
use super::observe::Observed;
use fleet_config::config::case_folder::{Expected, Requires};

/// Two statuses with one meaning: this device cannot host the task or the candidate.
const CANNOT_HOST: [&str; 2] = ["out_of_memory", "unsupported_on_device"];

/// The verdict on one case and what speaks against it.
pub(super) fn judge(expected: &Expected, seen: &Observed) -> Vec<String> {
    let mut faults = Vec::new();
    let accepted = accepts(expected, &seen.status);
    if !accepted {
        faults.push(format!("expected status {}, got {}", expected.accept.join(" or "), seen.status));
    }
    match expected.ranked {
        Some(true) if !seen.ranked => faults.push("expected a place in the ranking, got none".to_owned()),
        Some(false) if seen.ranked => faults.push("expected no place in the ranking, got one".to_owned()),
        Some(_) | None => {}
    }
    let text = format!("{}\n{}", seen.message, seen.log).to_lowercase();
    let mentions = |word: &String| text.contains(&word.to_lowercase());
    if seen.status != "ok"
        && !expected.must_mention_any.is_empty()
        && !expected.must_mention_any.iter().any(mentions)
    {
        let list = expected.must_mention_any.join("`, `");
        faults.push(format!("expected a mention of `{list}`, got: {}", excerpt(&text)));
    }
    if let (Some(most), Some(speedup)) = (expected.speedup_max, seen.speedup)
        && speedup >= most
    {
        faults.push(format!("expected a speed-up below {most}, got {speedup:.3}"));
    }
    faults.extend(config_fault(expected, seen));
    faults
}

fn accepts(expected: &Expected, status: &str) -> bool {
    let named = |status: &str| expected.accept.iter().any(|accepted| accepted == status);
    named(status) || (CANNOT_HOST.contains(&status) && CANNOT_HOST.iter().any(|other| named(other)))
}

/// Whether the config that decided is one that may have: its own expectation begins with a status.
fn config_fault(expected: &Expected, seen: &Observed) -> Option<String> {
    let word = |text: &String| text.split([' ', ',', '(']).next().unwrap_or_default().to_owned();
    if let Some(wanted) = expected.per_config.get(&seen.config) {
        let wanted = word(wanted);
        let fits = wanted == seen.status || (wanted != "ok" && accepts(expected, &seen.status));
        return (!fits).then(|| format!("config {}: expected {wanted}, got {}", seen.config, seen.status));
    }
    None
}

/// Why a verdict that was not expected says nothing about product or candidate here; `None` where it does.
pub(super) fn incomparable(
    requires: &Requires,
    expected: &Expected,
    seen: &Observed,
    class: &str,
) -> Option<String> {
    if !CANNOT_HOST.contains(&seen.status.as_str()) || accepts(expected, &seen.status) {
        return None;
    }
    let unmet = requires.min_shared_optin.is_some() && seen.unsupported == "shared_memory";
    if class.starts_with("cpu:") || unmet {
        return Some(format!("{class} cannot host it: {}", excerpt(&seen.message)));
    }
    None
}

/// The verdict that follows from what speaks against a case.
pub(super) fn verdict(faults: &[String]) -> Verdict {
    if faults.is_empty() { Verdict::Passed } else { Verdict::Failed }
}

/// The first words of a text that may be long.
pub(super) fn excerpt(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = plain.take(400).collect();
    short.truncate(short.trim_end().len());
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::config::case_folder::parse_expected;

    fn expected(text: &str) -> Expected {
        parse_expected(text.as_bytes()).unwrap()
    }

    fn seen(status: &str, message: &str) -> Observed {
        Observed { status: status.to_owned(), message: message.to_owned(), ..Observed::default() }
    }

    #[test]
    fn each_expectation_can_fail_by_itself() {
        let wrong = expected(
            r#"{"status": "wrong_result", "ranked": false, "must_mention_any": ["Index 3"], "per_config": {"a": "ok", "b": "wrong_result (3 elements)", "other words": "ok"}}"#,
        );
        let good = Observed { config: "b".to_owned(), ..seen("wrong_result", "differs at INDEX 3") };
        assert!(judge(&wrong, &good).is_empty());
        let check = |seen: Observed, word: &str| {
            let faults = judge(&wrong, &seen);
            assert!(faults.len() == 1 && faults[0].contains(word), "{word}: {faults:?}");
        };
        check(
            Observed { status: "timeout".to_owned(), config: String::new(), ..good.clone() },
            "expected status wrong_result",
        );
        check(Observed { ranked: true, ..good.clone() }, "no place");
        check(Observed { message: "no".to_owned(), ..good.clone() }, "mention");
        check(Observed { config: "a".to_owned(), ..good.clone() }, "config a");
        let in_log = Observed { message: String::new(), log: "index 3".to_owned(), ..good };
        assert!(judge(&wrong, &in_log).is_empty());
    }

    #[test]
    fn a_mention_is_waived_and_a_speed_up_bounded_where_all_is_well() {
        let fast =
            expected(r#"{"status": "ok", "ranked": true, "must_mention_any": ["x"], "speedup_max": 1.2}"#);
        let ranked = |speedup| Observed { ranked: true, speedup: Some(speedup), ..seen("ok", "") };
        assert!(judge(&fast, &ranked(1.19)).is_empty());
        assert_eq!(judge(&fast, &ranked(1.2)).len(), 1);
        assert_eq!(judge(&fast, &seen("ok", "")).len(), 1, "not ranked");
    }

    #[test]
    fn what_a_device_cannot_host_is_not_comparable_there() {
        let ok = expected(r#"{"status": "ok"}"#);
        let memory = expected(r#"{"status": "out_of_memory"}"#);
        let unsupported =
            Observed { unsupported: "shared_memory".to_owned(), ..seen("unsupported_on_device", "m") };
        let none = Requires::default();
        let shared = Requires { min_shared_optin: Some(1), ..Requires::default() };
        assert!(incomparable(&none, &ok, &unsupported, "cpu:x86-64-v3").is_some());
        assert!(incomparable(&none, &ok, &unsupported, "nvidia:sm_90a").is_none());
        assert!(incomparable(&shared, &ok, &unsupported, "nvidia:sm_80").is_some());
        assert!(incomparable(&none, &ok, &seen("timeout", ""), "cpu:x86-64-v3").is_none());
        assert!(incomparable(&none, &memory, &unsupported, "cpu:x86-64-v3").is_none());
        assert!(judge(&memory, &unsupported).is_empty(), "one meaning");
    }
}
