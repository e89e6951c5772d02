//! What a CUDA worker and its supervisor say to each other over a socket: a fixed header, JSON, then raw bytes.
//!
//! ```text
//! header, little-endian:  magic "MCW1" | length of the JSON u32 | length of the raw bytes u64
//! ```
//! Both sides are the same binary. The supervisor reads with a deadline and takes no more than it asked for: the worker
//! holds the candidate.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Begins every frame.
const MAGIC: [u8; 4] = *b"MCW1";
const HEADER: usize = 16;
/// JSON of one frame: the largest is a plan of 64 steps with 64 arguments each.
const JSON_MAX: usize = 1 << 20;
/// Bytes that are read or written at a time, so that a deadline is looked at in between.
const CHUNK: usize = 4 << 20;

/// What the supervisor asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Order {
    /// Takes the device; raw: nothing.
    Open {
        device: String,
    },
    /// Loads the cubin in the raw bytes.
    Load {
        symbols: Vec<String>,
    },
    /// Makes fresh buffers between guard zones.
    Prepare {
        buffers: Vec<u64>,
        steps: Vec<StepOrder>,
        seed: u64,
    },
    /// Overwrites a buffer with the raw bytes.
    Write {
        buffer: usize,
    },
    Fill {
        buffer: usize,
        byte: u8,
    },
    Launch,
    /// Answers with the buffer's bytes as raw bytes.
    Read {
        buffer: usize,
    },
    CheckFences,
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
    /// Putting the plan on the stream.
    Launch,
    /// Waiting for it.
    Run,
    Fences,
}

/// Sends one frame.
pub(super) fn send<T: Serialize>(socket: &mut UnixStream, message: &T, raw: &[u8]) -> io::Result<()> {
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

/// A socket whose every read fails once `end`, a reading of `now`, has passed.
pub(super) struct UntilEnd<'a> {
    pub socket: &'a UnixStream,
    pub end: Duration,
    pub now: fn() -> Duration,
}

impl Read for UntilEnd<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_sub((self.now)());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        match self.socket.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::TimedOut.into()),
            read => read,
        }
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
        let order = Order::Prepare { buffers: vec![16, 0], steps, seed: u64::MAX };
        assert_eq!(round(&order, b"raw", 3).unwrap(), (order, b"raw".to_vec()));
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
    fn a_silent_peer_is_given_up_at_the_end() {
        let (one, _other) = UnixStream::pair().unwrap();
        let mut reading =
            UntilEnd { socket: &one, end: Duration::from_secs(1), now: || Duration::from_secs(2) };
        let error = receive::<Answer>(&mut reading, 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
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
