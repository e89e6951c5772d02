//! The sentences between coordinator and node. Each wire version is a frozen module with its own types and
//! golden bytes: bincode is positional, so one added field breaks a version. The codec is the only bincode user
//! here.
//!
//! ```text
//! node ── QUIC, mutual TLS, ALPN muster/2 (or muster/1) ──► coordinator
//!   control stream (node opens, lives as long as the connection)
//!      Hello ─────────────────────────────────►
//!      ◄───────────────────────────────── Welcome | Goodbye
//!      Heartbeat, Capacity ───────────────────►
//!      ◄─────────────────────── Cancel, Drain, Checkpoint
//!   assignment stream (coordinator opens, one each)
//!      ◄────────────────────────────────── Assign
//!      Taken | Declined, then Progress … ─────►   (Declined after Taken: gave up without a result)
//!   report stream (node opens, one each)
//!      Opening::Report, then the bytes of the blobs that are asked for, back to back ►
//!      ◄───────────────── NeedBlobs, then Recorded
//!   blob stream (node opens, one each)
//!      Opening::FetchBlob ────────────────────►
//!      ◄──────────── Follows, then the bytes | Missing
//! ```

pub mod close;
pub mod codec;
pub mod v1;
pub mod v2;

/// The versions that this build speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    V1,
    /// Assignments may open a holdout.
    V2,
}

impl Version {
    /// Every version, the newest first: both sides take the first that both know.
    pub const ALL: [Self; 2] = [Self::V2, Self::V1];

    /// Its ALPN.
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Self::V1 => b"muster/1",
            Self::V2 => b"muster/2",
        }
    }
    /// The version that this ALPN stands for.
    pub fn of(alpn: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.alpn() == alpn)
    }
    /// What is offered in a handshake.
    pub fn offered() -> Vec<Vec<u8>> {
        Self::ALL.map(|version| version.alpn().to_vec()).to_vec()
    }
}

/// Largest frame on a control or assignment stream: far above the largest legal message, far below what would
/// hurt.
pub const FRAME_MAX: usize = 256 * 1024;

/// Largest blob that may cross the wire.
pub const BLOB_MAX: u64 = 1 << 30;

/// Longest time between two signs of life on a connection.
pub const KEEP_ALIVE_SECONDS: u64 = 15;
