//! What may have moved the times of a case, out of the facts before, during and after it. Pure.
//!
//! A disturbance never takes a result away: it is told beside it. Pairs of launches cancel most of it in the ratio; the
//! medians of one side it may move.

use fleet_config::domain::{Fact, Facts, field};
use ledger::entry::predicate::VolatileFacts;
use std::collections::BTreeSet;

/// Reasons for which a device lowers its clocks on its own account. A power cap is none: work that needs the power meets
/// it everywhere, and it is in the samples.
const SLOWDOWNS: [&str; 4] =
    ["hw-slowdown", "sw-thermal-slowdown", "hw-thermal-slowdown", "hw-power-brake-slowdown"];
/// A clock that falls below this share of its highest, in percent, moved.
const CLOCK_SHARE: u64 = 90;

/// The samples in short, and what disturbed.
pub fn summary(volatile: &VolatileFacts) -> Facts {
    let VolatileFacts { before, during, after } = volatile;
    let numbers = |name: &str| during.iter().filter_map(|facts| number(facts, name)).collect::<Vec<u64>>();
    let mut facts = Facts::new();
    let mut put = |name: &str, found: Option<u64>| {
        let fact = found.map_or_else(|| Fact::Unknown("no sample has it".to_owned()), Fact::Count);
        facts.insert(name.to_owned(), fact);
    };
    let clocks = numbers(field::CLOCK_MHZ);
    put(field::SAMPLES, Some(during.len() as u64));
    put(field::SAMPLED_CLOCK_MIN, clocks.iter().copied().min());
    put(field::SAMPLED_CLOCK_MAX, clocks.iter().copied().max());
    put(field::SAMPLED_TEMPERATURE_MAX, numbers(field::TEMPERATURE).into_iter().max());
    put(field::SAMPLED_POWER_MAX, numbers(field::POWER).into_iter().max());
    put(field::SAMPLING_COST, Some(numbers(field::SAMPLING_COST).into_iter().fold(0, u64::saturating_add)));
    let moments = [("before", before)]
        .into_iter()
        .chain(during.iter().map(|facts| ("during", facts)))
        .chain([("after", after)]);
    let mut found = BTreeSet::new();
    let mut unknown = None;
    for (when, moment) in moments {
        match moment.get(field::CO_TENANTS) {
            Some(Fact::Count(0)) => {}
            Some(Fact::Count(count)) => drop(found.insert(format!("{count} processes of others {when}"))),
            Some(Fact::Unknown(reason)) => unknown = Some(reason.clone()),
            Some(Fact::Text(_) | Fact::Flag(_)) | None => {}
        }
        if let Some(Fact::Text(reasons)) = moment.get(field::THROTTLE) {
            found.extend(
                reasons
                    .split('+')
                    .filter(|reason| SLOWDOWNS.contains(reason))
                    .map(|reason| format!("{reason} {when}")),
            );
        }
    }
    if let (Some(low), Some(high)) = (clocks.iter().min(), clocks.iter().max())
        && low.saturating_mul(100) < high.saturating_mul(CLOCK_SHARE)
    {
        found.insert(format!("clock between {low} and {high} MHz"));
    }
    if let (Some(then), Some(now)) =
        (number(before, field::ECC_UNCORRECTED), number(after, field::ECC_UNCORRECTED))
        && now > then
    {
        found.insert(format!("{} uncorrected memory errors", now - then));
    }
    let told: Vec<String> = found.into_iter().collect();
    let (disturbed, told) = match (told.is_empty(), unknown) {
        (false, _) => (Fact::Flag(true), Fact::Text(told.join("; "))),
        (true, Some(reason)) => (Fact::Unknown(reason.clone()), Fact::Unknown(reason)),
        (true, None) => (Fact::Flag(false), Fact::Text("none".to_owned())),
    };
    facts.insert(field::DISTURBED.to_owned(), disturbed);
    facts.insert(field::DISTURBANCES.to_owned(), told);
    facts
}

fn number(facts: &Facts, name: &str) -> Option<u64> {
    match facts.get(name)? {
        Fact::Count(count) => Some(*count),
        Fact::Text(_) | Fact::Flag(_) | Fact::Unknown(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(clock: u64, tenants: u64, throttle: &str) -> Facts {
        Facts::from([
            (field::CLOCK_MHZ.to_owned(), Fact::Count(clock)),
            (field::CO_TENANTS.to_owned(), Fact::Count(tenants)),
            (field::THROTTLE.to_owned(), Fact::Text(throttle.to_owned())),
            (field::SAMPLING_COST.to_owned(), Fact::Count(500)),
        ])
    }

    fn of(before: Facts, during: Vec<Facts>, after: Facts) -> (Fact, Fact, Facts) {
        let facts = summary(&VolatileFacts { before, during, after });
        (facts[field::DISTURBED].clone(), facts[field::DISTURBANCES].clone(), facts)
    }

    #[test]
    fn a_quiet_device_is_undisturbed_and_idle_clocks_before_and_after_are_no_fall() {
        let during = vec![moment(1980, 0, "none"), moment(1965, 0, "sw-power-cap")];
        let (disturbed, told, facts) = of(moment(345, 0, "gpu-idle"), during, moment(345, 0, "gpu-idle"));
        assert_eq!((disturbed, told), (Fact::Flag(false), Fact::Text("none".to_owned())));
        assert_eq!(facts[field::SAMPLES], Fact::Count(2));
        assert_eq!(facts[field::SAMPLED_CLOCK_MIN], Fact::Count(1965));
        assert_eq!(facts[field::SAMPLED_CLOCK_MAX], Fact::Count(1980));
        assert_eq!(facts[field::SAMPLING_COST], Fact::Count(1000));
        assert!(matches!(facts[field::SAMPLED_POWER_MAX], Fact::Unknown(_)));
    }

    #[test]
    fn strangers_and_slowdowns_are_told_with_their_moment() {
        let quiet = || moment(1980, 0, "none");
        let (disturbed, told, _) = of(moment(1980, 1, "none"), vec![quiet()], quiet());
        assert_eq!(
            (disturbed, told),
            (Fact::Flag(true), Fact::Text("1 processes of others before".to_owned()))
        );
        let during =
            vec![quiet(), moment(1980, 2, "sw-power-cap+hw-thermal-slowdown"), moment(990, 0, "none")];
        let (disturbed, told, _) = of(quiet(), during, quiet());
        assert_eq!(disturbed, Fact::Flag(true));
        let wanted =
            "2 processes of others during; clock between 990 and 1980 MHz; hw-thermal-slowdown during";
        assert_eq!(told, Fact::Text(wanted.to_owned()));
        let (disturbed, _, _) = of(quiet(), vec![quiet()], moment(1980, 3, "none"));
        assert_eq!(disturbed, Fact::Flag(true));
    }

    #[test]
    fn memory_errors_of_the_measurement_count_and_older_ones_do_not() {
        let with = |errors: u64| {
            let mut facts = moment(1980, 0, "none");
            facts.insert(field::ECC_UNCORRECTED.to_owned(), Fact::Count(errors));
            facts
        };
        assert_eq!(of(with(4), Vec::new(), with(4)).0, Fact::Flag(false));
        assert_eq!(of(with(4), Vec::new(), with(5)).1, Fact::Text("1 uncorrected memory errors".to_owned()));
    }

    #[test]
    fn what_nobody_could_see_is_not_called_quiet() {
        let blind = Facts::from([(field::CO_TENANTS.to_owned(), Fact::Unknown("no NVML".to_owned()))]);
        let (disturbed, told, facts) = of(blind.clone(), Vec::new(), blind.clone());
        assert_eq!(disturbed, Fact::Unknown("no NVML".to_owned()));
        assert_eq!(told, Fact::Unknown("no NVML".to_owned()));
        assert_eq!(facts[field::SAMPLES], Fact::Count(0));
        // What was seen nevertheless counts.
        assert_eq!(of(blind, vec![moment(1980, 1, "none")], Facts::new()).0, Fact::Flag(true));
    }
}
