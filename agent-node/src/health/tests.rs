//! The machine of health, event by event.

use super::xid::Xid;
use super::{EVERY, EVERY_DOUBTED, Event, Health, Reading, State};
use fleet_config::domain::{Fact, Picoseconds, field};
use proptest::prelude::*;
use std::time::Duration;

const NOW: Duration = Duration::from_secs(100);

fn right(picoseconds: u64) -> Event {
    Event::Canary(Reading::Right { time: Picoseconds(picoseconds) })
}

fn stopped() -> Event {
    Event::Canary(Reading::Failed { message: "an illegal address".to_owned() })
}

fn wrong() -> Event {
    Event::Canary(Reading::Wrong { message: "element 7".to_owned() })
}

fn after(events: impl IntoIterator<Item = Event>) -> Health {
    let mut health = Health::default();
    for event in events {
        health.on(NOW, event);
    }
    health
}

#[test]
fn the_first_job_waits_for_the_first_canary_and_the_next_is_due_after_a_while() {
    let mut health = Health::default();
    assert_eq!(health.state(), State::Unproven);
    assert!(health.is_due(Duration::ZERO) && health.takes_work());
    health.on(NOW, right(1000));
    assert_eq!(health.state(), State::Healthy);
    assert!(!health.is_due(NOW) && !health.is_due(NOW + EVERY - Duration::from_secs(1)));
    assert!(health.is_due(NOW + EVERY));
}

#[test]
fn a_fault_of_an_attempt_asks_for_a_canary_and_changes_nothing_else() {
    for event in [Event::AttemptFault, Event::Xid(Xid(31)), Event::Xid(Xid(13)), Event::Xid(Xid(43))] {
        let mut health = after([right(1000), event.clone()]);
        assert_eq!((health.state(), health.is_due(NOW)), (State::Healthy, true), "{event:?}");
        health.on(NOW, right(1001));
        assert_eq!((health.state(), health.is_due(NOW)), (State::Healthy, false));
    }
}

#[test]
fn doubts_make_suspect_and_two_right_canaries_take_them_away() {
    for event in
        [Event::Xid(Xid(94)), Event::MemoryErrors(2), Event::Slowed("hw-slowdown".to_owned()), stopped()]
    {
        let mut health = after([right(1000), event.clone()]);
        assert_eq!(health.state(), State::Suspect, "{event:?}");
        assert!(health.takes_work() && !health.cause().is_empty());
        health.on(NOW, right(1000));
        assert_eq!(health.state(), State::Suspect);
        assert!(health.is_due(NOW + EVERY_DOUBTED));
        health.on(NOW, right(1000));
        assert_eq!((health.state(), health.cause()), (State::Healthy, ""));
    }
    assert_eq!(after([right(1000), Event::MemoryErrors(0)]).state(), State::Healthy);
}

#[test]
fn a_wrong_answer_or_two_stopped_canaries_quarantine_and_three_right_ones_are_the_way_back() {
    for events in [vec![wrong()], vec![stopped(), stopped()], vec![right(1000), stopped(), stopped()]] {
        let mut health = after(events);
        assert_eq!(health.state(), State::Quarantined);
        assert!(!health.takes_work());
        for _ in 0..3 {
            assert_eq!(health.state(), State::Quarantined);
            health.on(NOW, right(1000));
        }
        assert_eq!(health.state(), State::Suspect);
        assert!(health.cause().contains("released"), "{}", health.cause());
        health.on(NOW, right(1000));
        health.on(NOW, right(1000));
        assert_eq!(health.state(), State::Healthy);
    }
    // A wrong one in between begins the count anew.
    let health = after([wrong(), right(1000), right(1000), wrong(), right(1000), right(1000)]);
    assert_eq!(health.state(), State::Quarantined);
}

#[test]
fn a_device_that_the_driver_gave_up_stays_away_until_the_node_starts_again() {
    for number in [48, 74, 79, 95, 119] {
        let mut health = after([right(1000), Event::Xid(Xid(number))]);
        for _ in 0..10 {
            health.on(NOW, right(1000));
        }
        assert_eq!(health.state(), State::Quarantined, "{number}");
        assert!(health.cause().contains(&number.to_string()), "{}", health.cause());
        health.on(NOW, wrong());
        assert!(health.cause().contains(&number.to_string()), "what is worse stays said: {}", health.cause());
    }
    // A lesser cause before it does not soften it.
    let mut health = after([wrong(), Event::Xid(Xid(79))]);
    for _ in 0..10 {
        health.on(NOW, right(1000));
    }
    assert_eq!(health.state(), State::Quarantined);
}

#[test]
fn a_slow_canary_is_a_doubt_and_drift_is_told_in_both_directions() {
    let health = after([right(1000), right(1400)]);
    assert_eq!((health.state(), health.drift_ppm()), (State::Healthy, Some(400_000)));
    let mut health = after([right(1000), right(1501)]);
    assert_eq!(health.state(), State::Suspect);
    health.on(NOW, right(900));
    health.on(NOW, right(900));
    assert_eq!((health.state(), health.drift_ppm()), (State::Healthy, Some(-100_000)));
    let facts = health.facts();
    assert_eq!(facts[field::HEALTH], Fact::Text("healthy".to_owned()));
    assert_eq!(facts[field::CANARY], Fact::Count(900));
    assert_eq!(facts[field::DRIFT], Fact::Text("-100000".to_owned()));
    assert!(matches!(Health::default().facts()[field::DRIFT], Fact::Unknown(_)));
}

#[test]
fn a_canary_that_could_not_be_run_neither_heals_nor_harms() {
    let not_run = || Event::Canary(Reading::NotRun { message: "no compiler".to_owned() });
    let health = after([not_run()]);
    assert_eq!((health.state(), health.takes_work()), (State::Unproven, true));
    assert!(health.cause().contains("no compiler"));
    assert!(!health.is_due(NOW), "it is not tried again at once");
    assert_eq!(after([right(1000), not_run()]).state(), State::Healthy);
    assert_eq!(after([wrong(), not_run(), not_run(), not_run()]).state(), State::Quarantined);
}

proptest! {
    #[test]
    fn whatever_happens_the_machine_stands_and_causes_stay_short(
        events in proptest::collection::vec((0u8..6, any::<u64>(), ".{0,400}"), 0..40)
    ) {
        let mut health = Health::default();
        for (at, (kind, number, text)) in events.into_iter().enumerate() {
            let event = match kind {
                0 => right(number),
                1 => Event::Canary(Reading::Wrong { message: text }),
                2 => Event::Canary(Reading::Failed { message: text }),
                3 => Event::Xid(Xid(number)),
                4 => Event::MemoryErrors(number),
                _ => Event::Slowed(text),
            };
            health.on(Duration::from_secs(at as u64), event);
            prop_assert!(health.cause().chars().count() <= 300);
            prop_assert_eq!(health.takes_work(), health.state() != State::Quarantined);
            prop_assert_eq!(health.facts().len(), 4);
        }
    }
}
