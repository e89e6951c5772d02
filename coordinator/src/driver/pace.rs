//! How many experiments the fleet finishes an hour, from those of the last hour.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// What is counted together.
const MINUTE: u64 = 60;
/// Minutes that are looked back on.
const MINUTES: u64 = 60;
/// Hours of a night, as the projection means it.
pub const NIGHT_HOURS: u64 = 8;

/// The experiments of the last hour, and what follows if it goes on like that. An experiment is a cell that a node ran to
/// a result, whatever the verdict; answers of earlier results are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaceView {
    pub experiments: u64,
    /// Seconds from the minute of the first of them until now.
    pub seconds: u64,
    pub per_hour: u64,
    /// In a night of [`NIGHT_HOURS`].
    pub per_night: u64,
}

/// Experiments by minute; grows to an hour of minutes and no further.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The minute, counted from the start of the clock, and how many ended in it; the newest last.
    minutes: VecDeque<(u64, u64)>,
}

impl Pace {
    /// One experiment ended.
    pub(super) fn count(&mut self, now: Duration) {
        let minute = now.as_secs() / MINUTE;
        match self.minutes.back_mut() {
            Some((last, count)) if *last >= minute => *count += 1,
            Some(_) | None => self.minutes.push_back((minute, 1)),
        }
        while self.minutes.front().is_some_and(|(first, _)| first + MINUTES <= minute) {
            self.minutes.pop_front();
        }
    }

    /// The pace at `now`; nothing if no experiment ended in the last hour.
    pub(super) fn view(&self, now: Duration) -> Option<PaceView> {
        let minute = now.as_secs() / MINUTE;
        let recent = self.minutes.iter().filter(|(first, _)| first + MINUTES > minute);
        let (first, experiments) =
            recent.fold((None, 0), |(first, sum), (at, count)| (first.or(Some(*at)), sum + count));
        // At least a minute: a burst of two in one second is no pace.
        let seconds = now.as_secs().saturating_sub(first? * MINUTE).max(MINUTE);
        let per_hour = experiments * 3600 / seconds;
        Some(PaceView {
            experiments,
            seconds,
            per_hour,
            per_night: experiments * 3600 * NIGHT_HOURS / seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_pace_is_that_of_the_last_hour_and_a_night_is_eight_of_them() {
        let mut pace = Pace::default();
        assert_eq!(pace.view(at(10)), None);
        // Two a second for half an hour.
        for second in 0..1800 {
            pace.count(at(second));
            pace.count(at(second));
        }
        let view = pace.view(at(1800)).unwrap();
        assert_eq!(view, PaceView { experiments: 3600, seconds: 1800, per_hour: 7200, per_night: 57_600 });
        // Half an hour of nothing halves it; what is older than an hour is forgotten.
        assert_eq!(pace.view(at(3599)).unwrap().per_hour, 3601);
        let late = pace.view(at(4200)).unwrap();
        assert_eq!((late.experiments, late.seconds), (3600 - 11 * 120, 4200 - 11 * 60));
        assert_eq!(pace.view(at(1800 + 3600)), None);
    }

    #[test]
    fn a_burst_is_no_pace_and_years_take_no_memory() {
        let mut pace = Pace::default();
        pace.count(at(5));
        pace.count(at(5));
        assert_eq!(pace.view(at(6)).unwrap().per_hour, 120);
        for minute in 0..10_000 {
            pace.count(at(minute * 60));
        }
        assert!(pace.minutes.len() as u64 <= MINUTES);
    }

    /// A clock that went back would be a fault elsewhere; here it costs nothing.
    #[test]
    fn an_earlier_moment_is_counted_with_the_newest() {
        let mut pace = Pace::default();
        pace.count(at(600));
        pace.count(at(30));
        assert_eq!(pace.view(at(660)).unwrap().experiments, 2);
        assert_eq!(pace.view(at(0)).unwrap().experiments, 2);
    }
}
