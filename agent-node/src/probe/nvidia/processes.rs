//! Whose the processes on a device are. Pure.
//!
//! NVML names processes by the numbers that the host gives them. A node in a container knows its own by other numbers;
//! then they can only be counted.

use fleet_config::domain::{Fact, Facts, field};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Processes that are listed by name; the others are counted.
const LISTED_MAX: usize = 8;

/// A process with a context on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tenant {
    pub process: u32,
    /// Of the device's memory, where the driver tells.
    pub bytes: Option<u64>,
}

/// Strangers on the device, counted and listed. What they are called and who runs them is not for a record.
pub(super) fn facts(all: Result<Vec<Tenant>, String>, own: &BTreeSet<u32>) -> Facts {
    let (count, list) = match all {
        Ok(all) => strangers(&all, own),
        Err(reason) => (Fact::Unknown(reason.clone()), Fact::Unknown(reason)),
    };
    Facts::from([(field::CO_TENANTS.to_owned(), count), (field::CO_TENANT_LIST.to_owned(), list)])
}

fn strangers(all: &[Tenant], own: &BTreeSet<u32>) -> (Fact, Fact) {
    let foreign: Vec<&Tenant> = all.iter().filter(|tenant| !own.contains(&tenant.process)).collect();
    let knows_ours = own.is_empty() || foreign.len() < all.len();
    if !knows_ours {
        let count = all.len().saturating_sub(own.len());
        let told = format!(
            "{count} of {}, counted: this node knows its own by other numbers than the host's",
            all.len()
        );
        return (Fact::Count(count as u64), Fact::Text(told));
    }
    let mut text = String::new();
    for tenant in foreign.iter().take(LISTED_MAX) {
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = match tenant.bytes {
            Some(bytes) => write!(text, "{comma}{} with {} MiB", tenant.process, bytes >> 20),
            None => write!(text, "{comma}{}", tenant.process),
        };
    }
    if foreign.len() > LISTED_MAX {
        let _ = write!(text, " and {} more", foreign.len() - LISTED_MAX);
    }
    let text = if text.is_empty() { "none".to_owned() } else { text };
    (Fact::Count(foreign.len() as u64), Fact::Text(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(all: &[u32], own: &[u32]) -> (u64, String) {
        let all = all.iter().map(|process| Tenant { process: *process, bytes: Some(3 << 20) }).collect();
        let facts = facts(Ok(all), &own.iter().copied().collect());
        match (&facts[field::CO_TENANTS], &facts[field::CO_TENANT_LIST]) {
            (Fact::Count(count), Fact::Text(text)) => (*count, text.clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn strangers_are_told_from_workers_of_this_node() {
        assert_eq!(told(&[], &[]), (0, "none".to_owned()));
        assert_eq!(told(&[7], &[7]), (0, "none".to_owned()));
        assert_eq!(told(&[7, 9], &[7]), (1, "9 with 3 MiB".to_owned()));
        assert_eq!(told(&[9], &[]), (1, "9 with 3 MiB".to_owned()));
        // A stand-by whose context is still being made is not on the device yet.
        assert_eq!(told(&[7, 9], &[7, 8]).0, 1);
    }

    #[test]
    fn numbers_of_another_namespace_are_counted() {
        let (count, text) = told(&[70, 90], &[7]);
        assert_eq!(count, 1);
        assert!(text.contains("counted"), "{text}");
        assert_eq!(told(&[70], &[7, 8]).0, 0);
    }

    #[test]
    fn a_crowd_is_cut_and_no_answer_is_no_zero() {
        let crowd: Vec<u32> = (1..=20).collect();
        let (count, text) = told(&crowd, &[]);
        assert_eq!(count, 20);
        assert!(text.ends_with("and 12 more"), "{text}");
        let facts = facts(Err("no NVML".to_owned()), &BTreeSet::new());
        assert_eq!(facts[field::CO_TENANTS], Fact::Unknown("no NVML".to_owned()));
    }
}
