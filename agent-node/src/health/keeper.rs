//! Does what health decides: takes the driver's reports, runs the canary, and says what a device is offered as.
//!
//! A canary never meets an attempt: whoever works on the device has the ward's turn. Between attempts a tick takes it
//! without waiting; an attempt waits for a canary that runs, which takes less than a second.

use super::canary::Cage;
use super::{Event, Health, Reading, State};
use crate::backend::{Artefact, Duty};
use crate::clock;
use crate::job::context::{Hold, Machine};
use fleet_config::domain::DeviceDescription;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// How long a canary between attempts waits for the machine or the device: others time there, and it is not urgent.
const PATIENCE_IDLE: Duration = Duration::from_millis(500);
/// How long one before an attempt does: then the attempt goes on without, since a crowded device is not a bad one.
const PATIENCE_JOB: Duration = Duration::from_secs(30);
/// How long a report of the driver may lag behind the fault that it is about.
const REPORT_LAG: Duration = Duration::from_millis(100);

/// The device to itself, for an attempt or a canary.
pub struct Turn<'a>(#[expect(dead_code, reason = "letting go of it ends the turn")] MutexGuard<'a, ()>);

/// One device under care.
#[derive(Debug, Default)]
pub struct Ward {
    health: Mutex<Health>,
    turn: Mutex<()>,
    artefact: Mutex<Option<Artefact>>,
}

impl Ward {
    /// Waits until nobody else of this node works on the device.
    pub fn turn(&self) -> Turn<'_> {
        Turn(self.turn.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn try_turn(&self) -> Option<Turn<'_>> {
        match self.turn.try_lock() {
            Ok(guard) => Some(Turn(guard)),
            Err(TryLockError::Poisoned(poisoned)) => Some(Turn(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        // Every change is complete before anything can panic.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the device stands.
    pub fn state(&self) -> State {
        self.health().state()
    }

    /// Why it stands so.
    pub fn cause(&self) -> String {
        self.health().cause().to_owned()
    }

    /// `description` with what is known of the device's health.
    pub fn offered(&self, description: &DeviceDescription) -> DeviceDescription {
        let mut offered = description.clone();
        offered.configuration.extend(self.health().facts());
        offered
    }

    fn take_in(&self, events: Vec<Event>, device: &DeviceDescription) {
        let mut health = self.health();
        let before = health.state();
        for event in events {
            health.on(clock::monotonic(), event);
        }
        let after = health.state();
        if before != after {
            tracing::warn!(device = %device.id, from = before.word(), to = after.word(), cause = health.cause(), "health");
        }
    }

    /// An attempt ended in a fault. What the driver reports about it, where that was the device's doing and not the
    /// candidate's.
    pub fn on_fault(&self, cage: Cage<'_>) -> Option<String> {
        let reports = cage.backend.reports(&cage.device.id, REPORT_LAG);
        let hardware = reports.iter().find_map(|event| match event {
            Event::Xid(xid) if xid.blames_device() => Some(xid.told()),
            Event::MemoryErrors(count) if *count > 0 => {
                Some(format!("{count} memory errors that could not be corrected"))
            }
            Event::Xid(_)
            | Event::MemoryErrors(_)
            | Event::Canary(_)
            | Event::Slowed(_)
            | Event::AttemptFault => None,
        });
        let mut events = reports;
        events.push(Event::AttemptFault);
        self.take_in(events, cage.device);
        hardware
    }

    /// Before an attempt, whose turn it is: reports, and the canary if it is due.
    pub fn before_attempt(&self, cage: Cage<'_>, machine: &dyn Machine) -> State {
        self.look(cage, machine, PATIENCE_JOB);
        self.state()
    }

    /// Between attempts: the same, unless somebody works on the device.
    pub fn tick(&self, cage: Cage<'_>, machine: &dyn Machine) {
        if let Some(_turn) = self.try_turn() {
            self.look(cage, machine, PATIENCE_IDLE);
        }
    }

    fn look(&self, cage: Cage<'_>, machine: &dyn Machine, patience: Duration) {
        self.take_in(cage.backend.reports(&cage.device.id, Duration::ZERO), cage.device);
        if self.health().is_due(clock::monotonic()) {
            let reading = self.canary(cage, machine, patience);
            self.take_in(vec![Event::Canary(reading)], cage.device);
        }
    }

    fn canary(&self, cage: Cage<'_>, machine: &dyn Machine, patience: Duration) -> Reading {
        let artefact = match self.artefact(cage, machine, patience) {
            Ok(artefact) => artefact,
            Err(reading) => return reading,
        };
        let not_run = |message: &str| Reading::NotRun { message: message.to_owned() };
        let end = clock::monotonic().saturating_add(patience);
        let give_up = || clock::monotonic() > end;
        let Ok(Some(_machine)) = machine.hold(Hold::Shared, &give_up) else {
            return not_run("the machine is in use by others");
        };
        let Ok(_device) = cage.backend.claim(&cage.device.id, Duty::Validating, &give_up) else {
            return not_run("the device is in use by others");
        };
        cage.run(&artefact)
    }

    fn artefact(
        &self,
        cage: Cage<'_>,
        machine: &dyn Machine,
        patience: Duration,
    ) -> Result<Artefact, Reading> {
        let mut kept = self.artefact.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(artefact) = kept.as_ref().filter(|artefact| artefact.path.exists()) {
            return Ok(artefact.clone());
        }
        let end = clock::monotonic().saturating_add(patience);
        // Compilers run beside others and never beside timing.
        let Ok(Some(_machine)) = machine.hold(Hold::Shared, &|| clock::monotonic() > end) else {
            return Err(Reading::NotRun { message: "the machine is in use by others".to_owned() });
        };
        let artefact = cage.compile()?;
        *kept = Some(artefact.clone());
        Ok(artefact)
    }
}

#[cfg(test)]
mod tests {
    use super::super::xid::Xid;
    use super::*;
    use crate::backend::{CompileRequest, Failure, Worker, WorkerOptions};
    use crate::sandbox::Confinement;
    use fleet_config::domain::{
        Architecture, Blame, Cause, DeviceId, DeviceKind, Facts, Outcome, Stage, Status,
    };
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A device that cannot run anything and reports what a test says.
    #[derive(Default)]
    struct Device {
        reports: Mutex<Vec<Event>>,
        compiled: AtomicUsize,
    }

    fn failure(status: Status) -> Failure {
        let cause = Cause { message: "as the test says".to_owned(), ..Cause::default() };
        Failure::new(Outcome::failed(status, Stage::Prepare, Blame::Fleet, cause, ""))
    }

    impl crate::backend::Backend for Device {
        fn name(&self) -> &'static str {
            "test"
        }
        fn devices(&self) -> Vec<DeviceDescription> {
            Vec::new()
        }
        fn compile(&self, _: &CompileRequest) -> Result<Artefact, Failure> {
            self.compiled.fetch_add(1, Ordering::Relaxed);
            Err(failure(Status::Infrastructure))
        }
        fn open(&self, _: &DeviceId, _: &Artefact, _: &WorkerOptions) -> Result<Box<dyn Worker>, Failure> {
            Err(failure(Status::RuntimeError))
        }
        fn reports(&self, _: &DeviceId, _: Duration) -> Vec<Event> {
            std::mem::take(&mut self.reports.lock().unwrap())
        }
        fn volatile(&self, _: &DeviceId) -> Facts {
            Facts::new()
        }
    }

    struct Free;

    impl Machine for Free {
        fn hold(&self, _: Hold, _: &dyn Fn() -> bool) -> std::io::Result<Option<Box<dyn Send>>> {
            Ok(Some(Box::new(())))
        }
    }

    fn with(check: impl FnOnce(&Device, Cage<'_>, &Ward)) {
        let folder = tempfile::tempdir().unwrap();
        let device = Device::default();
        let description = DeviceDescription {
            id: DeviceId("GPU-1".to_owned()),
            kind: DeviceKind::Gpu,
            architecture: "nvidia:sm_90a".parse::<Architecture>().unwrap(),
            memory: 1 << 30,
            identity: Facts::new(),
            configuration: Facts::new(),
            attributes: BTreeMap::new(),
        };
        let cage = Cage {
            backend: &device,
            device: &description,
            folder: folder.path(),
            confinement: Confinement::UnsafeNone,
        };
        check(&device, cage, &Ward::default());
    }

    #[test]
    fn a_device_whose_canary_cannot_be_made_works_unproven_and_says_why() {
        with(|device, cage, ward| {
            assert_eq!(ward.before_attempt(cage, &Free), State::Unproven);
            assert!(ward.cause().contains("as the test says"), "{}", ward.cause());
            // Not again before each attempt.
            assert_eq!(ward.before_attempt(cage, &Free), State::Unproven);
            assert_eq!(device.compiled.load(Ordering::Relaxed), 1);
            let offered = ward.offered(cage.device);
            let state = offered.configuration.get(fleet_config::domain::field::HEALTH);
            assert_eq!(state, Some(&fleet_config::domain::Fact::Text("unproven".to_owned())));
            assert!(offered.takes_work());
        });
    }

    #[test]
    fn a_grave_report_takes_the_device_away_before_the_next_attempt() {
        with(|device, cage, ward| {
            device.reports.lock().unwrap().push(Event::Xid(Xid(79)));
            assert_eq!(ward.before_attempt(cage, &Free), State::Quarantined);
            assert!(!ward.offered(cage.device).takes_work());
        });
    }

    #[test]
    fn faults_are_the_candidates_unless_the_driver_reports_the_device() {
        with(|device, cage, ward| {
            assert_eq!(ward.on_fault(cage), None);
            device.reports.lock().unwrap().push(Event::Xid(Xid(31)));
            assert_eq!(ward.on_fault(cage), None);
            device.reports.lock().unwrap().extend([Event::Xid(Xid(31)), Event::Xid(Xid(94))]);
            assert_eq!(ward.on_fault(cage), Some("Xid 94: a contained memory error".to_owned()));
            assert_eq!(ward.state(), State::Suspect);
            device.reports.lock().unwrap().push(Event::MemoryErrors(2));
            assert!(ward.on_fault(cage).is_some());
        });
    }

    #[test]
    fn a_tick_leaves_a_device_alone_that_somebody_works_on() {
        with(|device, cage, ward| {
            let turn = ward.turn();
            ward.tick(cage, &Free);
            assert_eq!(device.compiled.load(Ordering::Relaxed), 0);
            drop(turn);
            ward.tick(cage, &Free);
            assert_eq!(device.compiled.load(Ordering::Relaxed), 1);
        });
    }
}
