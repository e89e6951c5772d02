//! The worker (`muster-node worker-cuda`): our host code around a candidate that is device code only.
//!
//! It holds one context and in it one or two implementations, each with a module and the buffers of one evaluation, and
//! answers one order after the other. Nothing here knows an expected value. No host-mapped and no managed memory, so that
//! a kernel reaches nothing of this process. What a kernel of one implementation can do to the other is told in
//! `docs/MEASUREMENT.md`.

use super::conditions::{Conditions, drain};
use super::driver::{CallError, Device, Found, Memory};
use super::gather::BYTES_MAX;
use super::implementation::Implementation;
use super::protocol::{Answer, Order, Phase, Piece, Seat, Trouble, receive, send};
use crate::sandbox::lock_cuda_worker;
use rustix::event::{PollFd, PollFlags, poll};
use std::any::Any;
use std::io;
use std::os::fd::FromRawFd as _;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Duration;

/// The number under which the worker finds its socket.
pub(super) const SOCKET: i32 = 3;
/// What an orderly end takes at most: a tool that watches has a report to write.
const ORDERLY: Duration = Duration::from_secs(30);
/// Raw bytes of one order: a buffer or a cubin. The supervisor is trusted; this only bounds a mistake.
const RAW_MAX: u64 = 1 << 40;

/// The hidden subcommand.
pub fn worker_main() -> ExitCode {
    // SAFETY: the supervisor passes a socket under this number and nothing else in this process uses it.
    let mut socket = unsafe { UnixStream::from_raw_fd(SOCKET) };
    if let Err(error) = end_with_the_node(&socket) {
        eprintln!("worker-cuda: {error}");
        return ExitCode::FAILURE;
    }
    match serve(&mut socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worker-cuda: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Ends this process some time after nobody is left to give orders, also while it waits for a kernel that never ends. A
/// node that is killed takes its children with it; a worker that a tool has started is none of them.
#[expect(clippy::disallowed_methods, reason = "whoever waits here hopes to be gone before")]
fn end_with_the_node(socket: &UnixStream) -> io::Result<()> {
    let socket = socket.try_clone()?;
    let watch = move || {
        let mut gone = [PollFd::new(&socket, PollFlags::RDHUP)];
        while poll(&mut gone, None) == Err(rustix::io::Errno::INTR) {}
        std::thread::sleep(ORDERLY);
        // SAFETY: ends the process at once; what the driver would do on the way may wait for the kernel.
        unsafe { libc::_exit(1) }
    };
    std::thread::Builder::new().name("orphan-watch".to_owned()).spawn(watch).map(drop)
}

fn serve(socket: &mut UnixStream) -> io::Result<()> {
    let mut bench = Bench::default();
    loop {
        let (order, raw): (Order, Vec<u8>) = match receive(socket, RAW_MAX) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let phase = phase(&order);
        // The bindings panic where a driver lacks a function.
        let done = catch_unwind(AssertUnwindSafe(|| bench.carry_out(order, &raw)));
        let (answer, bytes) = match done {
            Ok(Ok(answer)) => answer,
            Ok(Err((phase, error))) => {
                eprintln!("worker-cuda: {phase:?}: {error}");
                (Answer::Failed(trouble(phase, error)), Vec::new())
            }
            Err(panic) => {
                let error = CallError::own("use the driver", panic_text(panic.as_ref()));
                (Answer::Failed(trouble(phase, error)), Vec::new())
            }
        };
        send(socket, &answer, &bytes)?;
    }
}

fn phase(order: &Order) -> Phase {
    match order {
        Order::Start { .. } | Order::Enter | Order::Open { .. } => Phase::Open,
        Order::Load { .. } => Phase::Load,
        Order::Prepare { .. } | Order::Trade { .. } | Order::Addresses { .. } => Phase::Prepare,
        Order::Write { .. } | Order::Fill { .. } | Order::Read { .. } | Order::Gather { .. } => Phase::Copy,
        Order::Launch { .. } => Phase::Launch,
        Order::CheckFences { .. } => Phase::Fences,
    }
}

fn trouble(phase: Phase, error: CallError) -> Trouble {
    Trouble { phase, call: error.call.to_owned(), code: error.code, name: error.name }
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text").to_owned()
}

#[derive(Default)]
struct Bench {
    // Declared before the device, so that memory is freed first.
    first: Implementation,
    second: Implementation,
    staging: Option<Memory>,
    found: Option<Found>,
    taken: Option<Taken>,
}

/// The device with the state in which launches begin.
struct Taken {
    conditions: Conditions,
    device: Device,
}

type Reply = Result<(Answer, Vec<u8>), (Phase, CallError)>;

impl Bench {
    fn carry_out(&mut self, order: Order, raw: &[u8]) -> Reply {
        let phase = phase(&order);
        let at = |error: CallError| (phase, error);
        let none = Vec::new();
        match order {
            Order::Start { device } => {
                self.found = Some(Found::find(&device).map_err(at)?);
                Ok((Answer::Done, none))
            }
            Order::Enter => self.enter().map(|()| (Answer::Done, none)).map_err(at),
            Order::Open { device, cache } => {
                if self.taken.is_none() {
                    if self.found.is_none() {
                        self.found = Some(Found::find(&device).map_err(at)?);
                    }
                    self.enter().map_err(at)?;
                }
                let missing = || CallError::own("use the device", "it was not entered");
                let Taken { conditions, device } = self.taken.as_mut().ok_or_else(missing).map_err(at)?;
                conditions.settle(device, cache).map_err(at)?;
                let (floor_picoseconds, flush_bytes) = (conditions.floor(), conditions.flush_bytes());
                let device = device.uuid().map_err(at)?;
                Ok((Answer::Opened { device, floor_picoseconds, flush_bytes }, none))
            }
            Order::Load { seat, symbols } => {
                let (taken, implementation) = self.at(seat).map_err(at)?;
                implementation.load(&taken.device, raw, &symbols).map_err(at)?;
                Ok((Answer::Done, none))
            }
            Order::Prepare { seat, edges, buffers, steps, seed } => {
                let (taken, implementation) = self.at(seat).map_err(at)?;
                implementation.prepare(&taken.device, edges, &buffers, steps, seed).map_err(at)?;
                Ok((Answer::Done, none))
            }
            Order::Write { seat, buffer } => {
                let (taken, implementation) = self.at(seat).map_err(at)?;
                implementation.write(&taken.device, buffer, raw).map_err(at)?;
                Ok((Answer::Done, none))
            }
            Order::Fill { seat, buffer, byte } => {
                let (taken, implementation) = self.at(seat).map_err(at)?;
                implementation.fill(&taken.device, buffer, byte).map_err(at)?;
                Ok((Answer::Done, none))
            }
            Order::Launch { seat } => Ok((Answer::Launched { picoseconds: self.launch(seat)? }, none)),
            Order::Read { seat, buffer } => {
                let (taken, implementation) = self.at(seat).map_err(at)?;
                Ok((Answer::Done, implementation.read(&taken.device, buffer).map_err(at)?))
            }
            Order::Gather { seat, buffer, pieces } => {
                Ok((Answer::Done, self.gather(seat, buffer, &pieces).map_err(at)?))
            }
            Order::Trade { seat, buffers } => {
                let (own, other) = match seat {
                    Seat::First => (&mut self.first, &mut self.second),
                    Seat::Second => (&mut self.second, &mut self.first),
                };
                own.trade(other, &buffers).map_err(at)?;
                Ok((Answer::Done, none))
            }
            Order::Addresses { seat } => {
                let (_, implementation) = self.at(seat).map_err(at)?;
                Ok((Answer::Addresses(implementation.addresses().map_err(at)?), none))
            }
            Order::CheckFences { seat } => {
                let (taken, implementation) = self.at(seat).map_err(at)?;
                Ok((Answer::Fence { hit: implementation.hit(&taken.device).map_err(at)? }, none))
            }
        }
    }

    /// Makes the context; nothing of a candidate is here yet.
    fn enter(&mut self) -> Result<(), CallError> {
        let found =
            self.found.take().ok_or_else(|| CallError::own("make a context", "no device was found"))?;
        let device = found.enter()?;
        let conditions = Conditions::establish(&device)?;
        self.taken = Some(Taken { conditions, device });
        // The driver has made its threads; the candidate has not been loaded yet.
        lock_cuda_worker().map_err(|error| CallError::own("confine the worker", error.to_string()))
    }

    /// The device and the implementation in a seat.
    fn at(&mut self, seat: Seat) -> Result<(&Taken, &mut Implementation), CallError> {
        let taken =
            self.taken.as_ref().ok_or_else(|| CallError::own("use the device", "it was not opened"))?;
        match seat {
            Seat::First => Ok((taken, &mut self.first)),
            Seat::Second => Ok((taken, &mut self.second)),
        }
    }

    /// One evaluation between events, from the stated state of the device to its end: whatever a launch starts has ended
    /// when the answer goes out, so that a fault is seen by the launch that caused it.
    fn launch(&mut self, seat: Seat) -> Result<u64, (Phase, CallError)> {
        let (Taken { conditions, device }, implementation) =
            self.at(seat).map_err(|error| (Phase::Launch, error))?;
        conditions.restore(device).map_err(|error| (Phase::Settle, error))?;
        implementation.enqueue(device).map_err(|error| (Phase::Launch, error))?;
        let time = device.elapsed().map_err(|error| (Phase::Run, error))?;
        drain().map_err(|error| (Phase::Run, error))?;
        Ok(time)
    }

    fn gather(&mut self, seat: Seat, buffer: usize, pieces: &[Piece]) -> Result<Vec<u8>, CallError> {
        let narrow = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let staging = match self.staging.take() {
            Some(staging) => staging,
            None => self.at(seat)?.0.device.allocate(narrow(BYTES_MAX))?,
        };
        let ranges: Vec<(usize, usize)> =
            pieces.iter().map(|piece| (narrow(piece.offset), narrow(piece.bytes))).collect();
        let (taken, implementation) = self.at(seat)?;
        let bytes = implementation.gather(&taken.device, buffer, &ranges, &staging);
        self.staging = Some(staging);
        bytes
    }
}
