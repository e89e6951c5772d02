//! Work for the launches to come, done beside those in hand.
//!
//! The inputs of a pair cost some milliseconds of one core where a launch costs some microseconds of a device. Their order
//! is known, so threads draw those of the next pairs while a pair runs. Only for devices with a clock of their own: on a
//! CPU the threads would stand beside what is timed.

use std::sync::mpsc::{Receiver, sync_channel};

/// Results of each thread that wait for their turn: enough to be never waited for, few enough to cost little memory.
const AHEAD: usize = 2;

/// Calls `make` for 0, 1, … below `count` on `threads` threads, and `body` with a function that gives the results in this
/// order. With no thread each is made when it is asked for. What `body` leaves is not made.
pub(super) fn ahead<T: Send, R>(
    threads: usize,
    count: u32,
    make: impl Fn(u32) -> T + Sync,
    body: impl FnOnce(&mut dyn FnMut(u32) -> T) -> R,
) -> R {
    let make = &make;
    if threads == 0 {
        return body(&mut |number| make(number));
    }
    std::thread::scope(|scope| {
        let start = |first: usize| {
            let (send, receive) = sync_channel(AHEAD);
            let work = move || {
                let numbers = (u32::try_from(first).unwrap_or(u32::MAX)..count).step_by(threads);
                for number in numbers {
                    if send.send((number, make(number))).is_err() {
                        return;
                    }
                }
            };
            // Where no thread can be made its receiver is closed, and its share is made when it is asked for.
            let started = std::thread::Builder::new().name("ahead".to_owned()).spawn_scoped(scope, work);
            drop(started);
            receive
        };
        let receivers: Vec<Receiver<(u32, T)>> = (0..threads).map(start).collect();
        let mut next = |number: u32| {
            let receiver = receivers.get(number as usize % threads);
            let made = receiver.and_then(|receiver| receiver.recv().ok());
            match made {
                Some((made_for, made)) if made_for == number => made,
                // Out of order or beyond the count: still right, only not ahead.
                Some(_) | None => make(number),
            }
        };
        let result = body(&mut next);
        // Producers that wait to hand over find nobody, and end.
        drop(receivers);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn results_come_in_order_whatever_the_number_of_threads() {
        for threads in [0, 1, 3, 8] {
            for count in [0, 1, 7, 100] {
                let seen = ahead(
                    threads,
                    count,
                    |number| number * 10,
                    |next| (0..count).map(&mut *next).collect::<Vec<u32>>(),
                );
                assert_eq!(seen, (0..count).map(|number| number * 10).collect::<Vec<u32>>(), "{threads}");
            }
        }
    }

    #[test]
    fn what_is_left_is_not_made_and_what_was_not_foreseen_is() {
        let made = AtomicU32::new(0);
        let make = |number: u32| {
            made.fetch_add(1, Ordering::Relaxed);
            number
        };
        assert_eq!(ahead(2, 1_000_000, make, |next| (next(0), next(1))), (0, 1));
        assert!(made.load(Ordering::Relaxed) < 20, "{made:?}");
        // Beyond the count, and again.
        assert_eq!(ahead(2, 2, |number| number, |next| [next(0), next(1), next(2), next(2)]), [0, 1, 2, 2]);
        assert_eq!(ahead(2, 4, |number| number, |next| [next(3), next(0)]), [3, 0]);
    }
}
