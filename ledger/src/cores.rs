//! Work that needs no order, on all cores, with answers in order.

use std::thread;

/// What `work` makes of each item, in the order of the items. Without threads where one core or one item is all there is.
pub fn on_all_cores<I: Sync, O: Send>(items: &[I], work: impl Fn(&I) -> O + Sync) -> Vec<O> {
    let part = items.len().div_ceil(count()).max(1);
    if items.len() <= part {
        return items.iter().map(work).collect();
    }
    let work = &work;
    let parts: Vec<Vec<O>> = thread::scope(|scope| {
        let running: Vec<_> = items
            .chunks(part)
            .map(|part| scope.spawn(move || part.iter().map(work).collect::<Vec<O>>()))
            .collect();
        let joined = running.into_iter().map(|worker| match worker.join() {
            Ok(part) => part,
            // As if it had happened here.
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    parts.into_iter().flatten().collect()
}

/// How many cores this process may use.
pub fn count() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_keep_the_order_of_the_items() {
        for count in [0_u32, 1, 2, 3, 7, 100, 1001] {
            let items: Vec<u32> = (0..count).collect();
            let expected: Vec<u32> = items.iter().map(|item| item * 3).collect();
            assert_eq!(on_all_cores(&items, |item| item * 3), expected, "{count}");
        }
    }

    #[test]
    #[should_panic(expected = "item 7")]
    fn a_panic_of_a_worker_is_one_of_the_caller() {
        on_all_cores(&[1, 7, 3, 4], |item| assert!(*item != 7, "item 7"));
    }
}
