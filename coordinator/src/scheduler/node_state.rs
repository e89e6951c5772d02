//! The state of a node and its checked transitions.

/// ```text
///                 hello                 drain
///   (unknown) ───────────► Ready ◄──────────────► Draining
///                          ▲   │      resume       ▲    │
///   Joining ──── hello ────┤   │ silent            │    │ silent
///      │                   │   ▼                   │    ▼
///      └──── silent ──────►└─ Lost ──── hello ─────┘◄───┘
/// ```
/// `Joining` is a node that the journal names and that has not said hello since the start. A node that was
/// drained joins as `Draining`. A broken connection changes nothing here: only silence loses a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeState {
    Joining,
    Ready,
    Draining,
    Lost,
}

impl NodeState {
    /// The word shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Lost => "lost",
        }
    }

    /// The next state; an illegal pair is a bug of the scheduler.
    #[must_use]
    pub fn to(self, next: Self) -> Self {
        let legal = match (self, next) {
            (Self::Joining, Self::Ready | Self::Draining | Self::Lost)
            | (Self::Ready, Self::Ready | Self::Draining | Self::Lost)
            | (Self::Draining, Self::Ready | Self::Draining | Self::Lost)
            | (Self::Lost, Self::Ready | Self::Draining) => true,
            (Self::Joining | Self::Ready | Self::Draining | Self::Lost, Self::Joining)
            | (Self::Lost, Self::Lost) => false,
        };
        assert!(legal, "illegal node transition {self:?} → {next:?}");
        next
    }
}
