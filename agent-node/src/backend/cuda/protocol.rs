//! What a CUDA worker and its supervisor say to each other over a socket: a fixed header, JSON, then raw bytes.
//!
//! A worker holds one implementation, or two that share its context: most orders say which of the seats they are for.
//!
//! ```text
//! header, little-endian:  magic "MCW3" | length of the JSON u32 | length of the raw bytes u64
//! ```
//! Both sides are the same binary. The supervisor reads with a deadline and takes no more than it asked for: the worker
//! holds the candidate.

use crate::backend::Interrupt;
use crate::backend::pair::Cache;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Begins every frame.
const MAGIC: [u8; 4] = *b"MCW3";
const HEADER: usize = 16;
/// JSON of one frame: the largest is a plan of 64 steps with 64 arguments each.
const JSON_MAX: usize = 1 << 20;
/// Bytes that are read or written at a time, so that a deadline is looked at in between.
const CHUNK: usize = 4 << 20;

/// How often a waiting supervisor asks whether it was interrupted: a cancelled launch ends within this and what killing
/// the worker takes.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Which of the implementations in the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Seat {
    First,
    Second,
}

/// In which state of the L2 a launch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CacheOrder {
    Flushed,
    AsLeft,
}

impl From<Cache> for CacheOrder {
    fn from(cache: Cache) -> Self {
        match cache {
            Cache::Flushed => Self::Flushed,
            Cache::AsLeft => Self::AsLeft,
        }
    }
}

/// What lies beside a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Edges {
    /// A guard zone on each side, looked at after a launch.
    Fenced,
    /// Nothing that is ours: an allocation of exactly its size, which a tool watches.
    Exact,
}

/// What the supervisor asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Order {
    /// Initialises the driver and finds the device; raw: nothing.
    Start {
        device: String,
    },
    /// Makes the context on the device that was found, and confines the worker.
    Enter,
    /// Takes the device, with what of the two is still to be done, in the stated state.
    Open {
        device: String,
        cache: CacheOrder,
    },
    /// Loads the cubin in the raw bytes.
    Load {
        seat: Seat,
        symbols: Vec<String>,
    },
    /// Makes fresh buffers.
    Prepare {
        seat: Seat,
        edges: Edges,
        buffers: Vec<u64>,
        steps: Vec<StepOrder>,
        seed: u64,
    },
    /// Overwrites a buffer with the raw bytes.
    Write {
        seat: Seat,
        buffer: usize,
    },
    Fill {
        seat: Seat,
        buffer: usize,
        byte: u8,
    },
    Launch {
        seat: Seat,
    },
    /// Answers with the buffer's bytes as raw bytes.
    Read {
        seat: Seat,
        buffer: usize,
    },
    /// Answers with these pieces of the buffer, one behind the other, as raw bytes.
    Gather {
        seat: Seat,
        buffer: usize,
        pieces: Vec<Piece>,
    },
    CheckFences {
        seat: Seat,
    },
    /// Where the buffers lie.
    Addresses {
        seat: Seat,
    },
    /// Each pair of buffers, of this seat and of the other, changes its owner.
    Trade {
        seat: Seat,
        buffers: Vec<[usize; 2]>,
    },
}

/// A range of bytes of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Piece {
    pub offset: u64,
    pub bytes: u64,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum StepOrder {
    Kernel {
        kernel: usize,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        arguments: Vec<ArgumentOrder>,
    },
    Memset {
        buffer: usize,
        byte: u8,
    },
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ArgumentOrder {
    Buffer(usize),
    Scalar(Vec<u8>),
}

/// What the worker answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    Done,
    /// The device is taken: its UUID as the driver names the device of the context, time between two events with nothing between them, and bytes that are overwritten before each
    /// launch.
    Opened {
        device: String,
        floor_picoseconds: u64,
        flush_bytes: u64,
    },
    /// First byte of each buffer, as the device numbers its memory.
    Addresses(Vec<u64>),
    /// Time between the events around the plan.
    Launched {
        picoseconds: u64,
    },
    /// The first byte of a guard zone that changed, by its distance from the buffer's start.
    Fence {
        hit: Option<Hit>,
    },
    Failed(Trouble),
}

/// A guard zone that was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hit {
    pub buffer: usize,
    pub offset: i64,
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trouble {
    pub phase: Phase,
    pub call: String,
    /// `CUresult`; 0 where it was no CUDA call.
    pub code: u32,
    /// `CUDA_ERROR_…`, or what else went wrong.
    pub name: String,
}

/// What the worker was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    Open,
    Load,
    Prepare,
    Copy,
    /// Bringing the device into the state in which a launch begins.
    Settle,
    /// Putting the plan on the stream.
    Launch,
    /// Waiting for it.
    Run,
    Fences,
}

/// Sends one frame.
pub(super) fn send<T: Serialize>(socket: &mut impl Write, message: &T, raw: &[u8]) -> io::Result<()> {
    let json = serde_json::to_vec(message)?;
    let length = u32::try_from(json.len()).ok().filter(|_| json.len() <= JSON_MAX);
    let length = length.ok_or_else(|| io::Error::other(format!("a message of {} bytes", json.len())))?;
    let mut head = Vec::with_capacity(HEADER + json.len());
    head.extend(MAGIC);
    head.extend(length.to_le_bytes());
    head.extend((raw.len() as u64).to_le_bytes());
    head.extend(json);
    socket.write_all(&head)?;
    socket.write_all(raw)
}

/// Receives one frame whose raw bytes are at most `raw_max`.
pub(super) fn receive<T: DeserializeOwned>(socket: &mut impl Read, raw_max: u64) -> io::Result<(T, Vec<u8>)> {
    let mut header = [0u8; HEADER];
    socket.read_exact(&mut header)?;
    let (json, raw) = lengths(&header, raw_max)?;
    let mut text = vec![0u8; json];
    socket.read_exact(&mut text)?;
    let message = serde_json::from_slice(&text)?;
    // Grown as bytes arrive, so that a lying header costs nothing.
    let mut bytes = Vec::with_capacity(raw.min(CHUNK));
    while bytes.len() < raw {
        let from = bytes.len();
        bytes.resize(raw.min(from.saturating_add(CHUNK)), 0);
        socket.read_exact(bytes.get_mut(from..).unwrap_or_default())?;
    }
    Ok((message, bytes))
}

fn lengths(header: &[u8; HEADER], raw_max: u64) -> io::Result<(usize, usize)> {
    let [m0, m1, m2, m3, j0, j1, j2, j3, raw @ ..] = header;
    if [*m0, *m1, *m2, *m3] != MAGIC {
        return Err(io::Error::other("a frame without its magic"));
    }
    let json = usize::try_from(u32::from_le_bytes([*j0, *j1, *j2, *j3])).unwrap_or(usize::MAX);
    let raw = u64::from_le_bytes(*raw);
    if json > JSON_MAX || raw > raw_max {
        return Err(io::Error::other(format!(
            "a frame of {json} and {raw} bytes; {JSON_MAX} and {raw_max} are taken"
        )));
    }
    Ok((json, usize::try_from(raw).map_err(io::Error::other)?))
}

/// A socket whose every read and write fails once `end`, a reading of `now`, has passed, or once somebody interrupts.
pub(super) struct UntilEnd<'a> {
    pub socket: &'a UnixStream,
    pub end: Duration,
    pub now: fn() -> Duration,
    pub interrupt: &'a Interrupt,
}

/// What an interrupted wait ends with. Not `Interrupted`: those are tried again by everybody.
pub(super) const INTERRUPTED: io::ErrorKind = io::ErrorKind::ConnectionAborted;

impl UntilEnd<'_> {
    /// How long the next call may block, at most [`ASK_EVERY`].
    fn slice(&self) -> io::Result<Duration> {
        if self.interrupt.asked() {
            return Err(INTERRUPTED.into());
        }
        let left = self.end.saturating_sub((self.now)());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left.min(ASK_EVERY)) }
    }

    /// Tries until it worked, the end is there, or somebody interrupts.
    fn attempt(&self, mut once: impl FnMut(&UnixStream, Duration) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match once(self.socket, self.slice()?) {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                done => return done,
            }
        }
    }
}

impl Read for UntilEnd<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.attempt(|mut socket, slice| {
            socket.set_read_timeout(Some(slice))?;
            socket.read(buffer)
        })
    }
}

impl Write for UntilEnd<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.attempt(|mut socket, slice| {
            socket.set_write_timeout(Some(slice))?;
            socket.write(buffer)
        })
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round<T: Serialize + DeserializeOwned>(
        message: &T,
        raw: &[u8],
        raw_max: u64,
    ) -> io::Result<(T, Vec<u8>)> {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        send(&mut one, message, raw).unwrap();
        receive(&mut other, raw_max)
    }

    #[test]
    fn frames_come_back_as_they_were_sent() {
        let kernel = StepOrder::Kernel {
            kernel: 1,
            grid: [4, 1, 1],
            block: [256, 1, 1],
            shared_bytes: 512,
            arguments: vec![ArgumentOrder::Buffer(0), ArgumentOrder::Scalar(vec![1, 2, 3, 4])],
        };
        let steps = vec![StepOrder::Memset { buffer: 0, byte: 7 }, kernel];
        let order = Order::Prepare {
            seat: Seat::Second,
            edges: Edges::Exact,
            buffers: vec![16, 0],
            steps,
            seed: u64::MAX,
        };
        assert_eq!(round(&order, b"raw", 3).unwrap(), (order, b"raw".to_vec()));
        let pieces = vec![Piece { offset: 8, bytes: 4 }, Piece { offset: u64::MAX, bytes: 1 }];
        for order in [
            Order::Gather { seat: Seat::First, buffer: 2, pieces },
            Order::Start { device: "GPU-1".to_owned() },
            Order::Enter,
            Order::Open { device: "GPU-1".to_owned(), cache: CacheOrder::Flushed },
            Order::Launch { seat: Seat::Second },
            Order::Addresses { seat: Seat::First },
            Order::Trade { seat: Seat::First, buffers: vec![[0, 1], [2, 0]] },
        ] {
            assert_eq!(round(&order, b"", 0).unwrap().0, order);
        }
        // An order without its seat is no order.
        assert!(round::<serde_json::Value>(&serde_json::json!({"launch": {}}), b"", 0).is_ok());
        assert!(serde_json::from_str::<Order>(r#"{"launch":{}}"#).is_err());
        let trouble = Trouble { phase: Phase::Run, call: "x".to_owned(), code: 700, name: "y".to_owned() };
        let answer = Answer::Failed(trouble);
        assert_eq!(round(&answer, b"", 0).unwrap(), (answer, Vec::new()));
    }

    #[test]
    fn more_raw_bytes_than_asked_for_are_refused_before_they_are_read() {
        assert!(round(&Answer::Done, b"four", 3).is_err());
        let mut lying = Vec::from(MAGIC);
        lying.extend(u32::MAX.to_le_bytes());
        lying.extend(0u64.to_le_bytes());
        assert!(receive::<Answer>(&mut lying.as_slice(), 8).is_err());
    }

    #[test]
    fn a_silent_peer_is_given_up_at_the_end_or_when_somebody_interrupts() {
        let (one, _other) = UnixStream::pair().unwrap();
        let wait = |end: u64, interrupt: &Interrupt| {
            let mut reading = UntilEnd {
                socket: &one,
                end: Duration::from_secs(end),
                now: || Duration::from_secs(2),
                interrupt,
            };
            receive::<Answer>(&mut reading, 0).unwrap_err().kind()
        };
        assert_eq!(wait(1, &Interrupt::never()), io::ErrorKind::TimedOut);
        // Without the interrupt this would wait for ever: its clock stands still.
        let asked = std::sync::atomic::AtomicU32::new(0);
        let third = Interrupt::when(move || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 2);
        assert_eq!(wait(1000, &third), INTERRUPTED);
    }

    #[test]
    fn a_peer_that_does_not_read_is_given_up_too() {
        let (one, _other) = UnixStream::pair().unwrap();
        let asked = std::sync::atomic::AtomicU32::new(0);
        let third = Interrupt::when(move || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 9);
        let mut writing = UntilEnd {
            socket: &one,
            end: Duration::from_secs(1000),
            now: || Duration::from_secs(2),
            interrupt: &third,
        };
        let sent = send(&mut writing, &Order::Write { seat: Seat::First, buffer: 0 }, &vec![0; 64 << 20]);
        assert_eq!(sent.unwrap_err().kind(), INTERRUPTED);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reading_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..256), magic: bool) {
            if magic && bytes.len() >= 8 {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[5..8].fill(0);
            }
            let _ = receive::<Answer>(&mut bytes.as_slice(), 64);
            let _ = receive::<Order>(&mut bytes.as_slice(), 64);
        }
    }
}
