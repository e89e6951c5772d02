//! Numbers that cannot be mixed: each carries its unit in its type. All are integers: the ledger holds no floats.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! units {
    ($($(#[$doc:meta])* $name:ident($inner:ty), $suffix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{} ", $suffix), self.0)
            }
        }
    )*};
}

units! {
    /// A duration in 10⁻¹² seconds.
    Picoseconds(u64), "ps";
    /// A duration in 10⁻³ seconds, for budgets and deadlines.
    Milliseconds(u64), "ms";
    /// A size in bytes.
    Bytes(u64), "B";
    /// A ratio in 10⁻⁹; 1_000_000_000 is one.
    PartsPerBillion(u64), "ppb";
}

impl Picoseconds {
    /// From a duration; saturates after 213 days.
    pub fn from_duration(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1000))
    }
    /// Seconds as a float, for display and statistics only.
    pub fn seconds(self) -> f64 {
        self.0 as f64 * 1e-12
    }
}

impl Milliseconds {
    /// As a duration.
    pub fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl PartsPerBillion {
    /// As a plain ratio, for display and statistics only.
    pub fn ratio(self) -> f64 {
        self.0 as f64 * 1e-9
    }
}
