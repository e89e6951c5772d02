//! Tests of the pool: what is decided, and keepers with makers that fail, wait and end.

use super::*;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const TARGET: Target = Target { workers: 4, contexts: 2 };

fn stock(device: Use, started: usize, entered: usize, starting: usize, entering: usize) -> Stock {
    Stock { target: TARGET, started, entered, starting, entering, device }
}

#[test]
fn contexts_come_first_up_to_their_number_and_nothing_is_done_while_something_is_timed() {
    for (stock, wanted) in [
        (stock(Use::Validating, 0, 0, 0, 0), Next::Start),
        (stock(Use::Validating, 1, 0, 0, 0), Next::Enter),
        (stock(Use::Validating, 1, 1, 0, 1), Next::Start),
        (stock(Use::Validating, 2, 2, 0, 0), Next::Nothing),
        (stock(Use::Validating, 0, 2, 2, 0), Next::Nothing),
        (stock(Use::Idle, 2, 1, 0, 0), Next::Enter),
        (stock(Use::Timing, 0, 0, 0, 0), Next::Nothing),
        (stock(Use::Timing, 3, 0, 0, 0), Next::Nothing),
        (stock(Use::Leaving, 3, 0, 0, 0), Next::Nothing),
    ] {
        assert_eq!(stock.next(), wanted, "{stock:?}");
    }
    let off = Stock { target: Target { workers: 0, contexts: 8 }, ..stock(Use::Validating, 0, 0, 0, 0) };
    assert_eq!(off.next(), Next::Nothing);
}

proptest! {
    #[test]
    fn no_number_is_ever_passed(
        started in 0usize..6, entered in 0usize..6, starting in 0usize..6, entering in 0usize..6,
        workers in 0usize..6, contexts in 0usize..6,
    ) {
        let target = Target { workers, contexts };
        let stock = Stock { target, started, entered, starting, entering, device: Use::Validating };
        match stock.next() {
            Next::Enter => prop_assert!(started > 0 && entered + entering < contexts.min(workers)),
            Next::Start => prop_assert!(started + entered + starting + entering < workers),
            Next::Nothing => prop_assert!(
                started + entered + starting + entering >= workers
                    && (started == 0 || entered + entering >= contexts.min(workers))
            ),
        }
    }
}

/// Counts what was made and fails the test where a context is made while the device is timed.
#[derive(Clone, Default)]
struct Fake {
    starts: Arc<AtomicUsize>,
    enters: Arc<AtomicUsize>,
    timing: Arc<AtomicBool>,
    crossed: Arc<AtomicBool>,
    alive: Arc<AtomicUsize>,
    is_broken: bool,
    /// Others have the machine.
    taken: Arc<AtomicBool>,
}

struct Made(Arc<AtomicUsize>);

impl Drop for Made {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Maker for Fake {
    type Made = Made;
    type Leave = ();
    fn start(&self) -> Result<Made, String> {
        self.starts.fetch_add(1, Ordering::SeqCst);
        if self.is_broken {
            return Err("the driver is gone".to_owned());
        }
        self.alive.fetch_add(1, Ordering::SeqCst);
        Ok(Made(Arc::clone(&self.alive)))
    }
    fn enter(&self, _: &mut Made) -> Result<(), String> {
        for _ in 0..100 {
            if self.timing.load(Ordering::SeqCst) {
                self.crossed.store(true, Ordering::SeqCst);
            }
            std::thread::yield_now();
        }
        self.enters.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn leave(&self) -> Option<()> {
        (!self.taken.load(Ordering::SeqCst)).then_some(())
    }
}

fn until(what: &str, done: impl Fn() -> bool) {
    let start = crate::clock::monotonic();
    while !done() {
        assert!(crate::clock::monotonic().saturating_sub(start) < Duration::from_secs(60), "{what}");
        std::thread::yield_now();
    }
}

fn full(pool: &Pool<Fake>) -> bool {
    let Stock { started, entered, .. } = pool.stock();
    (started, entered) == (2, 2)
}

#[test]
fn a_pool_fills_and_gives_the_readiest_first_and_fills_again() {
    let fake = Fake::default();
    let pool = Pool::new(fake.clone(), TARGET, 2);
    until("the pool fills", || full(&pool));
    let taken = pool.take();
    assert!(matches!(taken, Some(Taken::Entered(_))));
    until("the pool fills again", || full(&pool));
    drop(taken);
    drop(pool);
    until("all of them end with the pool", || fake.alive.load(Ordering::SeqCst) == 0);
}

#[test]
fn no_context_is_made_while_something_is_timed() {
    let fake = Fake::default();
    let pool = Pool::new(fake.clone(), TARGET, 3);
    for _ in 0..50 {
        let validating = pool.begin(Use::Validating, &|| false);
        drop((pool.take(), pool.take()));
        drop(validating);
        let timing = pool.begin(Use::Timing, &|| false).unwrap();
        fake.timing.store(true, Ordering::SeqCst);
        for _ in 0..50 {
            drop(pool.take());
            std::thread::yield_now();
        }
        fake.timing.store(false, Ordering::SeqCst);
        drop(timing);
    }
    assert!(!fake.crossed.load(Ordering::SeqCst), "a context was made while something was timed");
    until("it went on afterwards", || full(&pool));
}

#[test]
fn timing_waits_for_workers_that_are_ending_and_can_give_up() {
    let pool = Pool::new(Fake::default(), Target { workers: 0, contexts: 0 }, 1);
    let (go, told) = std::sync::mpsc::channel::<()>();
    pool.end_beside(move || {
        let _closed = told.recv();
    });
    assert!(pool.take().is_none());
    let asked = AtomicUsize::new(0);
    // What was begun and given up is over: its guard waits for the end, which another thread brings about.
    let given_up = std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| pool.begin(Use::Timing, &|| asked.fetch_add(1, Ordering::SeqCst) >= 1).is_none());
        until("it asks", || asked.load(Ordering::SeqCst) >= 2);
        drop(go);
        waiting.join().unwrap()
    });
    assert!(given_up);
    pool.settle();
    assert!(pool.begin(Use::Timing, &|| true).is_some(), "nothing is left to wait for");
}

#[test]
fn what_cannot_be_made_is_not_tried_again_at_once() {
    let fake = Fake { is_broken: true, ..Fake::default() };
    let pool = Pool::new(fake.clone(), TARGET, 1);
    until("it was tried", || fake.starts.load(Ordering::SeqCst) > 0);
    for _ in 0..1000 {
        std::thread::yield_now();
    }
    assert!(fake.starts.load(Ordering::SeqCst) <= 2, "{:?}", fake.starts);
    assert!(pool.take().is_none());
}

#[test]
fn a_machine_that_others_time_on_gets_no_stand_by() {
    let fake = Fake::default();
    fake.taken.store(true, Ordering::SeqCst);
    let pool = Pool::new(fake.clone(), TARGET, 2);
    for _ in 0..1000 {
        std::thread::yield_now();
    }
    assert_eq!(fake.starts.load(Ordering::SeqCst), 0);
    let held = pool.begin(Use::Validating, &|| false);
    until("an attempt of our own may", || full(&pool));
    drop(held);
}

#[test]
fn a_worker_ends_when_others_do_not_time_or_the_device_is_ours() {
    let fake = Fake::default();
    let pool = Pool::new(fake.clone(), Target { workers: 0, contexts: 0 }, 1);
    for is_ours in [false, true] {
        fake.taken.store(true, Ordering::SeqCst);
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        pool.end_beside(move || ended.store(true, Ordering::SeqCst));
        for _ in 0..1000 {
            std::thread::yield_now();
        }
        assert!(!over.load(Ordering::SeqCst), "a context went while others timed");
        if is_ours {
            // The others may still time on another device of the machine.
            drop(pool.begin(Use::Validating, &|| false));
        } else {
            fake.taken.store(false, Ordering::SeqCst);
        }
        until("it ends", || over.load(Ordering::SeqCst));
        pool.settle();
    }
}
