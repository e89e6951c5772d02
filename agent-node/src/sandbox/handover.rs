//! How an order and its descriptors travel from the node to the launcher, and how a failure travels back.
//!
//! One Unix stream socket, the launcher's standard input. To the launcher: the order as JSON, the descriptors with its
//! first byte, then end of stream. Back: at level `full` the ids of the child's processes; one byte once everything is
//! applied, then end of stream when the program has started (the socket closes on exec); where a step fails, one
//! [`Failure`] as JSON. Both ends are the same binary, so the format needs no version.

use super::family::Family;
use super::request::{Level, Profile, ResourceLimits};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Descriptors of one order; the kernel's own limit is 253 a message.
pub(super) const PASSED_MAX: usize = 32;
/// Bytes of one order: a command line of the kernel's usual 2 MiB, four characters for each of its bytes.
const ORDER_MAX: u64 = 16 << 20;
/// Bytes of one failure: a stage, an error text and a path.
const FAILURE_MAX: u64 = 64 << 10;

/// Sent when the launcher is about to exec; no failure begins with it.
const CONFINED: u8 = b'+';

/// Sent before two ids of four bytes each, little-endian.
const FAMILY: u8 = b'F';

/// What a launcher is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Errand {
    /// To become the program.
    Program,
    /// To see whether the kernel lets it build level `full`, and end.
    Trial,
}

/// What a launcher has told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// The processes in the new namespaces.
    pub(super) family: Option<Family>,
    /// Why nothing was started.
    pub(super) failure: Option<Failure>,
}

/// What the launcher is to do. Paths are `OsString`, since JSON's `PathBuf` must be UTF-8.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) folder: OsString,
    pub(super) readable: Vec<OsString>,
    pub(super) executable: Vec<OsString>,
    pub(super) devices: Vec<OsString>,
    /// Numbers of the passed descriptors, in the order in which they are sent.
    pub(super) numbers: Vec<i32>,
    pub(super) profile: Profile,
    pub(super) limits: ResourceLimits,
    pub(super) level: Level,
    pub(super) errand: Errand,
    /// The node's process id: a launcher with another parent has been orphaned and must not start anything.
    pub(super) parent: u32,
}

/// Why the launcher did not start the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    /// The step that failed, such as `landlock`.
    pub(super) stage: String,
    /// The error's text.
    pub(super) cause: String,
}

/// Sends the order with its descriptors, then ends the stream in this direction.
pub(super) fn send_order(
    socket: &mut UnixStream,
    order: &Order,
    passed: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(order)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !passed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(passed)) {
        return Err(io::Error::other("too many descriptors for one order"));
    }
    let sent = sendmsg(&*socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    socket.write_all(bytes.get(sent..).unwrap_or_default())?;
    socket.shutdown(Shutdown::Write)
}

/// Receives the order and its descriptors.
pub(super) fn receive_order(socket: &mut UnixStream) -> io::Result<(Order, Vec<OwnedFd>)> {
    let mut bytes = vec![0u8; 64 << 10];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(&*socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut passed = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            passed.extend(descriptors);
        }
    }
    bytes.truncate(received.bytes);
    socket.take(ORDER_MAX).read_to_end(&mut bytes)?;
    let order: Order = serde_json::from_slice(&bytes)?;
    if order.numbers.len() != passed.len() {
        return Err(io::Error::other("the order names other descriptors than it carries"));
    }
    Ok((order, passed))
}

/// Tells the node why nothing was started.
pub(super) fn send_failure(socket: &mut UnixStream, failure: &Failure) -> io::Result<()> {
    socket.write_all(&serde_json::to_vec(failure)?)
}

/// Tells the node that everything is applied and that exec is next.
pub(super) fn send_confined(socket: &mut UnixStream) -> io::Result<()> {
    socket.write_all(&[CONFINED])
}

/// Tells the node which processes the child consists of.
pub(super) fn send_family(socket: &mut UnixStream, family: Family) -> io::Result<()> {
    let mut bytes = vec![FAMILY];
    bytes.extend(family.first.to_le_bytes());
    bytes.extend(family.program.to_le_bytes());
    socket.write_all(&bytes)
}

/// Waits until the program has started or the launcher has said why not. A launcher that ends without a word has
/// started nothing.
pub(super) fn receive_told(socket: &mut UnixStream) -> io::Result<Told> {
    let mut bytes = Vec::new();
    socket.take(FAILURE_MAX).read_to_end(&mut bytes)?;
    let mut told = Told::default();
    let rest = match bytes.as_slice() {
        [FAMILY, a, b, c, d, e, f, g, h, rest @ ..] => {
            let (first, program) =
                (i32::from_le_bytes([*a, *b, *c, *d]), i32::from_le_bytes([*e, *f, *g, *h]));
            told.family = Some(Family { first, program });
            rest
        }
        rest => rest,
    };
    told.failure = match (rest, told.family) {
        ([], None) => return Err(io::Error::other("it ended without a word; is it `muster-node`?")),
        ([], Some(_)) => {
            let cause = "it ended without a word".to_owned();
            Some(Failure { stage: "program".to_owned(), cause })
        }
        ([CONFINED], _) => None,
        ([CONFINED, failure @ ..] | failure, _) => Some(serde_json::from_slice(failure)?),
    };
    Ok(told)
}
