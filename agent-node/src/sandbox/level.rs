//! Which level a child gets.

use super::report::probe;
use super::request::{Confinement, Profile};
use fleet_config::domain::{DeviceKind, SandboxLevel as Level};

impl Confinement {
    /// The level that a child of this kind gets under it. Device nodes and the drivers behind them are used at level
    /// `kernel`: what the driver needs of `/proc`, `/sys` and `/dev` differs between its releases.
    pub fn level_of(self, profile: Profile) -> Level {
        match (self, profile) {
            (Self::UnsafeNone, _) => Level::None,
            (Self::Kernel, _) | (_, Profile::Worker | Profile::CudaWorker | Profile::CudaScreen) => {
                Level::Kernel
            }
            (
                Self::Required | Self::Full,
                Profile::Compiler | Profile::Harness | Profile::CpuWorker | Profile::Screen,
            ) => {
                // A kernel that lacks more than namespaces is refused when a child is started.
                probe().level().max(Level::Kernel)
            }
        }
    }

    /// The level that a record of such a device carries: that of the process in which the candidate runs.
    pub fn level_for(self, kind: DeviceKind) -> Level {
        match kind {
            DeviceKind::Cpu => self.level_of(Profile::CpuWorker),
            DeviceKind::Gpu => self.level_of(Profile::CudaWorker),
            // Nothing of the candidate runs but its compiler.
            DeviceKind::Compile => self.level_of(Profile::Worker),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_flag_gives_up_the_sandbox_and_drivers_stay_at_kernel() {
        for profile in [
            Profile::Compiler,
            Profile::Harness,
            Profile::CpuWorker,
            Profile::Screen,
            Profile::Worker,
            Profile::CudaWorker,
            Profile::CudaScreen,
        ] {
            assert_eq!(Confinement::UnsafeNone.level_of(profile), Level::None);
            assert_eq!(Confinement::Kernel.level_of(profile), Level::Kernel);
            assert!(Confinement::Required.level_of(profile) >= Level::Kernel);
        }
        assert_eq!(Confinement::Required.level_for(DeviceKind::Gpu), Level::Kernel);
        assert_eq!(Confinement::UnsafeNone.level_for(DeviceKind::Cpu), Level::None);
    }
}
