//! The driver's reports of trouble, sorted by what they say about the device. Pure.
//!
//! Numbers and meanings are those of NVIDIA's "Xid Errors" catalogue. A number that is not listed is a doubt: new drivers
//! bring new ones.

/// The number of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Xid(pub u64);

/// What it says about the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// An application's doing: the device is none the worse.
    Application,
    /// Something happened to the device that it may have survived.
    Suspect,
    /// The device needs a reset, or is gone.
    Quarantine,
}

impl Xid {
    /// How it is taken.
    pub fn class(self) -> Class {
        self.known().0
    }

    /// Whether it takes the blame for a fault from the candidate that met it. A report that may be the candidate's own
    /// doing, or that nobody knows, does not.
    pub fn blames_device(self) -> bool {
        matches!(self.0, 48 | 61 | 62 | 63 | 64 | 74 | 79 | 92 | 94 | 95 | 119 | 120 | 140 | 143)
    }

    /// One line for people.
    pub fn told(self) -> String {
        format!("Xid {}: {}", self.0, self.known().1)
    }

    fn known(self) -> (Class, &'static str) {
        match self.0 {
            8 => (Class::Application, "the GPU stopped working for an application"),
            13 => (Class::Application, "a kernel raised an exception"),
            31 => (Class::Application, "a kernel touched memory that is not there"),
            43 => (Class::Application, "a channel stopped after an application's fault"),
            45 => (Class::Application, "a channel was torn down, as when a process is killed"),
            68 => (Class::Application, "the video decoder raised an exception"),
            69 => (Class::Application, "the graphics engine raised a class error"),
            109 => (Class::Application, "a context switch timed out, as when an endless kernel is killed"),
            32 => (Class::Suspect, "a corrupted command buffer"),
            38 => (Class::Suspect, "the driver's firmware failed"),
            63 => (Class::Suspect, "a row or page of memory was taken out of use"),
            92 => (Class::Suspect, "many corrected memory errors"),
            // The damage is contained to the application that met it, which is no candidate's fault.
            94 => (Class::Suspect, "a contained memory error"),
            48 => (Class::Quarantine, "a memory error of two bits"),
            61 | 62 => (Class::Quarantine, "the internal microcontroller stopped"),
            64 => (Class::Quarantine, "a row or page of memory could not be taken out of use"),
            74 => (Class::Quarantine, "an NVLink error"),
            79 => (Class::Quarantine, "the GPU has fallen off the bus"),
            95 => (Class::Quarantine, "an uncontained memory error"),
            119 | 120 => (Class::Quarantine, "the GPU's system processor does not answer"),
            140 => (Class::Quarantine, "an unrecovered memory error"),
            143 => (Class::Quarantine, "the GPU could not be initialised"),
            _ => (Class::Suspect, "a report that this version does not know"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_do_not_cost_a_device_and_broken_devices_cost_no_candidate() {
        for number in [8, 13, 31, 43, 45, 69, 109] {
            assert_eq!(Xid(number).class(), Class::Application, "{number}");
            assert!(!Xid(number).blames_device(), "{number}");
        }
        // What may be either's doing, or what nobody knows, excuses no candidate.
        for number in [32, 38, 999] {
            assert!(!Xid(number).blames_device(), "{number}");
        }
        for number in [63, 94, 999, u64::MAX] {
            assert_eq!(Xid(number).class(), Class::Suspect, "{number}");
        }
        for number in [48, 79, 95, 120] {
            assert_eq!(Xid(number).class(), Class::Quarantine, "{number}");
            assert!(Xid(number).blames_device(), "{number}");
        }
        assert_eq!(Xid(79).told(), "Xid 79: the GPU has fallen off the bus");
    }
}
