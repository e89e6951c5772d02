//! Samples of a device while something is timed, by a thread of their own.

use fleet_config::domain::Facts;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two samples: five a second. A sample costs some milliseconds of one core and nothing of the device.
pub const SAMPLE_EVERY: Duration = Duration::from_millis(200);
/// Samples of one watch that are kept: of a longer one every second is dropped, again and again.
const SAMPLES_MAX: usize = 64;

/// Samples until it is ended or dropped.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<Vec<Facts>>>,
}

impl Watch {
    /// Takes a sample now and after each `every`.
    pub fn start(every: Duration, sample: impl Fn() -> Facts + Send + 'static) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let asked = Arc::clone(&stop);
        let work = move || {
            let mut samples = Samples::default();
            let (flag, changed) = asked.as_ref();
            let mut stopped = flag.lock().unwrap_or_else(PoisonError::into_inner);
            while !*stopped {
                drop(stopped);
                samples.add(&sample);
                stopped = flag.lock().unwrap_or_else(PoisonError::into_inner);
                if !*stopped {
                    let waited = changed.wait_timeout(stopped, every);
                    stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
            samples.kept
        };
        // Without a thread there are no samples, and the record says how many there were.
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(work).ok();
        Self { stop, thread }
    }

    /// Stops and answers with what was seen.
    pub fn end(mut self) -> Vec<Facts> {
        self.tell();
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }

    fn tell(&self) {
        let (flag, changed) = self.stop.as_ref();
        *flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tell();
    }
}

/// What is kept of a series whose length nobody knows: evenly spaced, and bounded.
#[derive(Debug)]
struct Samples {
    kept: Vec<Facts>,
    seen: u64,
    /// Every how many-th is kept.
    stride: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self { kept: Vec::new(), seen: 0, stride: 1 }
    }
}

impl Samples {
    fn add(&mut self, sample: &dyn Fn() -> Facts) {
        let wanted = self.seen.is_multiple_of(self.stride);
        self.seen += 1;
        if !wanted {
            return;
        }
        if self.kept.len() == SAMPLES_MAX {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
        self.kept.push(sample());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_config::domain::Fact;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn a_watch_samples_until_it_is_ended() {
        let (told, heard) = sync_channel(100);
        let sample = move || {
            let _full = told.try_send(());
            Facts::from([("x".to_owned(), Fact::Count(1))])
        };
        let watch = Watch::start(Duration::from_millis(1), sample);
        heard.recv().unwrap();
        heard.recv().unwrap();
        let samples = watch.end();
        assert!(samples.len() >= 2, "{samples:?}");
        // The thread is gone, and its end of the channel with it.
        while heard.recv().is_ok() {}
    }

    #[test]
    fn a_long_series_is_thinned_evenly() {
        let mut samples = Samples::default();
        for number in 0..1000u64 {
            samples.add(&|| Facts::from([("x".to_owned(), Fact::Count(number))]));
        }
        assert!(samples.kept.len() <= SAMPLES_MAX);
        let numbers: Vec<u64> = samples
            .kept
            .iter()
            .filter_map(|facts| match facts["x"] {
                Fact::Count(number) => Some(number),
                Fact::Text(_) | Fact::Flag(_) | Fact::Unknown(_) => None,
            })
            .collect();
        assert_eq!(numbers.first(), Some(&0));
        assert!(numbers.windows(2).all(|pair| pair[1] - pair[0] == samples.stride), "{numbers:?}");
        assert!(numbers.last().is_some_and(|last| *last > 900), "{numbers:?}");
    }
}
