//! What the driver reports about devices as it happens (Xids), by a thread that waits for it.

use super::{device, nvml};
use crate::health::xid::Xid;
use nvml_wrapper::EventSet;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long the thread waits at a time, so that it ends soon after it is told to.
const WAIT_MILLISECONDS: u32 = 500;
/// After an error of the set nothing is asked for this long.
const REST: Duration = Duration::from_secs(5);
/// Reports of one device that wait to be taken; older ones go first.
const QUEUED_MAX: usize = 64;

#[derive(Debug, Default)]
struct Queue {
    reports: Mutex<BTreeMap<String, VecDeque<Xid>>>,
    changed: Condvar,
}

/// Reports of some devices. Dropping it ends the thread.
#[derive(Debug)]
pub struct Reports {
    queue: Arc<Queue>,
    stop: Arc<AtomicBool>,
}

impl Reports {
    /// Listens to the devices of these UUIDs. Where NVML gives no events nothing is ever reported, and the log says why.
    pub fn listen(uuids: Vec<String>) -> Self {
        let reports = Self { queue: Arc::default(), stop: Arc::default() };
        let (queue, stop) = (Arc::clone(&reports.queue), Arc::clone(&reports.stop));
        let thread = std::thread::Builder::new().name("xid".to_owned());
        let work = move || {
            if let Err(reason) = follow(&uuids, &queue, &stop) {
                tracing::info!(reason, "the driver's reports (Xid) are not heard");
            }
        };
        if let Err(error) = thread.spawn(work) {
            tracing::warn!(%error, "no thread for the driver's reports");
        }
        reports
    }

    /// What was reported about a device since it was last asked; waits for the first report at most `lag`.
    pub fn take(&self, uuid: &str, lag: Duration) -> Vec<Xid> {
        let queued =
            |reports: &BTreeMap<String, VecDeque<Xid>>| reports.get(uuid).is_some_and(|q| !q.is_empty());
        let reports = self.queue.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.queue.changed.wait_timeout_while(reports, lag, |reports| !queued(reports));
        let (mut reports, _) = waited.unwrap_or_else(PoisonError::into_inner);
        reports.get_mut(uuid).map(|queue| queue.drain(..).collect()).unwrap_or_default()
    }

    #[cfg(test)]
    fn silent() -> Self {
        Self { queue: Arc::default(), stop: Arc::default() }
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Queue {
    fn add(&self, uuid: String, xid: Xid) {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = reports.entry(uuid).or_default();
        if queue.len() == QUEUED_MAX {
            queue.pop_front();
        }
        queue.push_back(xid);
        drop(reports);
        self.changed.notify_all();
    }
}

fn follow(uuids: &[String], queue: &Queue, stop: &AtomicBool) -> Result<(), String> {
    let mut set: Option<EventSet<'static>> =
        Some(nvml()?.create_event_set().map_err(|error| error.to_string())?);
    for uuid in uuids {
        let Some(current) = set.take() else { break };
        let device = device(uuid)?;
        // A device that gives no events takes the set with it.
        let registered = device.register_events(EventTypes::CRITICAL_XID_ERROR, current);
        set = Some(registered.map_err(|error| error.error.to_string())?);
    }
    let set = set.ok_or_else(|| "no device".to_owned())?;
    let (pause, never) = (Mutex::new(()), Condvar::new());
    while !stop.load(Ordering::Relaxed) {
        match set.wait(WAIT_MILLISECONDS) {
            Ok(event) => {
                if let Some(XidError::Value(number)) = event.event_data
                    && let Ok(uuid) = event.device.uuid()
                {
                    queue.add(uuid, Xid(number));
                }
            }
            Err(NvmlError::Timeout) => {}
            Err(error) => {
                tracing::warn!(%error, "the driver's reports cannot be read");
                let guard = pause.lock().unwrap_or_else(PoisonError::into_inner);
                drop(never.wait_timeout(guard, REST));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_taken_once_and_by_the_device_that_they_are_about() {
        let reports = Reports::silent();
        reports.queue.add("GPU-1".to_owned(), Xid(31));
        reports.queue.add("GPU-1".to_owned(), Xid(79));
        assert!(reports.take("GPU-2", Duration::ZERO).is_empty());
        assert_eq!(reports.take("GPU-1", Duration::ZERO), [Xid(31), Xid(79)]);
        assert!(reports.take("GPU-1", Duration::from_millis(1)).is_empty());
    }

    #[test]
    fn a_flood_keeps_the_newest() {
        let reports = Reports::silent();
        for number in 0..1000 {
            reports.queue.add("GPU-1".to_owned(), Xid(number));
        }
        let taken = reports.take("GPU-1", Duration::ZERO);
        assert_eq!((taken.len(), taken.last()), (QUEUED_MAX, Some(&Xid(999))));
    }

    #[test]
    fn a_report_that_comes_while_somebody_waits_is_taken() {
        let reports = Reports::silent();
        let queue = Arc::clone(&reports.queue);
        let taken = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| reports.take("GPU-1", Duration::from_secs(60)));
            queue.add("GPU-1".to_owned(), Xid(13));
            waiting.join().unwrap()
        });
        assert_eq!(taken, [Xid(13)]);
    }

    #[test]
    fn a_machine_without_nvml_listens_to_nothing_and_stays_up() {
        let reports = Reports::listen(vec!["GPU-00000000-0000-0000-0000-000000000000".to_owned()]);
        assert!(reports.take("GPU-00000000-0000-0000-0000-000000000000", Duration::ZERO).is_empty());
    }
}
