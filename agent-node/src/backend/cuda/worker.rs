//! The worker (`muster-node worker-cuda`): our host code around a candidate that is device code only.
//!
//! It holds one context, one module and the buffers of one evaluation, and answers one order after the other. Nothing
//! here knows an expected value. No host-mapped and no managed memory, so that a kernel reaches nothing of this process.

use super::driver::{CallError, Device, Function, Memory};
use super::fence::{GUARD, canary, first_difference, span};
use super::protocol::{Answer, ArgumentOrder, Hit, Order, Phase, StepOrder, Trouble, receive, send};
use crate::sandbox::lock_cuda_worker;
use std::any::Any;
use std::io;
use std::os::fd::FromRawFd as _;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// The number under which the worker finds its socket.
pub(super) const SOCKET: i32 = 3;
/// Raw bytes of one order: a buffer or a cubin. The supervisor is trusted; this only bounds a mistake.
const RAW_MAX: u64 = 1 << 40;
/// Dynamic shared memory that needs no asking.
const SHARED_FREE: u32 = 48 << 10;

/// The hidden subcommand.
pub fn worker_main() -> ExitCode {
    // SAFETY: the supervisor passes a socket under this number and nothing else in this process uses it.
    let mut socket = unsafe { UnixStream::from_raw_fd(SOCKET) };
    match serve(&mut socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worker-cuda: {error}");
            ExitCode::FAILURE
        }
    }
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
        Order::Open { .. } => Phase::Open,
        Order::Load { .. } => Phase::Load,
        Order::Prepare { .. } => Phase::Prepare,
        Order::Write { .. } | Order::Fill { .. } | Order::Read { .. } => Phase::Copy,
        Order::Launch => Phase::Launch,
        Order::CheckFences => Phase::Fences,
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

/// A buffer between its guard zones: guard, buffer, slack to whole words, guard.
struct Fenced {
    memory: Memory,
    bytes: usize,
}

#[derive(Default)]
struct Bench {
    // Declared before the device, so that memory is freed first.
    buffers: Vec<Fenced>,
    functions: Vec<Function>,
    steps: Vec<StepOrder>,
    seed: u64,
    device: Option<Device>,
}

type Reply = Result<(Answer, Vec<u8>), (Phase, CallError)>;

impl Bench {
    fn carry_out(&mut self, order: Order, raw: &[u8]) -> Reply {
        let at = |phase: Phase| move |error: CallError| (phase, error);
        let phase = phase(&order);
        let none = Vec::new();
        match order {
            Order::Open { device } => {
                self.device = Some(Device::open(&device).map_err(at(phase))?);
                // The driver has made its threads; the candidate has not been loaded yet.
                lock_cuda_worker()
                    .map_err(|error| (phase, CallError::own("confine the worker", error.to_string())))?;
                Ok((Answer::Done, none))
            }
            Order::Load { symbols } => {
                self.functions =
                    self.device().and_then(|device| device.load(raw, &symbols)).map_err(at(phase))?;
                Ok((Answer::Done, none))
            }
            Order::Prepare { buffers, steps, seed } => {
                self.prepare(&buffers, steps, seed).map_err(at(phase))?;
                Ok((Answer::Done, none))
            }
            Order::Write { buffer } => {
                let found = self.buffer(buffer).map_err(at(phase))?;
                if raw.len() != found.bytes {
                    return Err((phase, CallError::own("write a buffer", "its size differs")));
                }
                self.device()
                    .and_then(|device| device.write(&found.memory, GUARD, raw))
                    .map_err(at(phase))?;
                Ok((Answer::Done, none))
            }
            Order::Fill { buffer, byte } => {
                let found = self.buffer(buffer).map_err(at(phase))?;
                let filled =
                    self.device().and_then(|device| device.fill(&found.memory, GUARD, found.bytes, byte));
                filled.map_err(at(phase))?;
                Ok((Answer::Done, none))
            }
            Order::Launch => self.launch().map(|picoseconds| (Answer::Launched { picoseconds }, none)),
            Order::Read { buffer } => {
                let found = self.buffer(buffer).map_err(at(phase))?;
                let read = self.device().and_then(|device| device.read(&found.memory, GUARD, found.bytes));
                Ok((Answer::Done, read.map_err(at(phase))?))
            }
            Order::CheckFences => Ok((Answer::Fence { hit: self.hit().map_err(at(phase))? }, none)),
        }
    }

    fn device(&self) -> Result<&Device, CallError> {
        self.device.as_ref().ok_or_else(|| CallError::own("use the device", "it was not opened"))
    }

    fn buffer(&self, index: usize) -> Result<&Fenced, CallError> {
        self.buffers
            .get(index)
            .ok_or_else(|| CallError::own("find a buffer", format!("there is no buffer {index}")))
    }

    fn function(&self, index: usize) -> Result<&Function, CallError> {
        let found = self.functions.get(index);
        found.ok_or_else(|| CallError::own("find a kernel", format!("there is no kernel {index}")))
    }

    fn prepare(&mut self, sizes: &[u64], steps: Vec<StepOrder>, seed: u64) -> Result<(), CallError> {
        // The new ones are made before the old ones go, so that addresses differ.
        let mut buffers = Vec::with_capacity(sizes.len());
        let device = self.device()?;
        for (index, size) in sizes.iter().enumerate() {
            let bytes =
                usize::try_from(*size).map_err(|_| CallError::own("make a buffer", "it is too large"))?;
            let fenced = Fenced { memory: device.allocate(span(bytes))?, bytes };
            for (zone, (offset, length)) in zones(&fenced).into_iter().enumerate() {
                device.write(&fenced.memory, offset, &canary(seed, index, zone, length))?;
            }
            buffers.push(fenced);
        }
        for step in &steps {
            let StepOrder::Kernel { kernel, shared_bytes, .. } = step else { continue };
            if *shared_bytes > SHARED_FREE {
                device.grant_shared(self.function(*kernel)?, *shared_bytes)?;
            }
        }
        (self.buffers, self.steps, self.seed) = (buffers, steps, seed);
        Ok(())
    }

    fn launch(&self) -> Result<u64, (Phase, CallError)> {
        let launching = |error| (Phase::Launch, error);
        let device = self.device().map_err(launching)?;
        device.mark(0).map_err(launching)?;
        for step in &self.steps {
            self.put(device, step).map_err(launching)?;
        }
        device.mark(1).map_err(launching)?;
        device.elapsed().map_err(|error| (Phase::Run, error))
    }

    fn put(&self, device: &Device, step: &StepOrder) -> Result<(), CallError> {
        match step {
            StepOrder::Memset { buffer, byte } => {
                let found = self.buffer(*buffer)?;
                device.fill_on_stream(&found.memory, GUARD, found.bytes, *byte)
            }
            StepOrder::Kernel { kernel, grid, block, shared_bytes, arguments } => {
                let function = self.function(*kernel)?;
                let threads = block.iter().fold(1u32, |product, size| product.saturating_mul(*size));
                if threads > function.threads {
                    let name = format!(
                        "a block of {threads} threads; registers or launch bounds of this kernel allow {}",
                        function.threads
                    );
                    return Err(CallError::own("check the block", name));
                }
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.value(argument)?);
                }
                device.launch(function, *grid, *block, *shared_bytes, &mut values)
            }
        }
    }

    fn value(&self, argument: &ArgumentOrder) -> Result<[u8; 8], CallError> {
        match argument {
            ArgumentOrder::Buffer(index) => {
                let found = self.buffer(*index)?;
                Ok(found.memory.at(GUARD, found.bytes)?.to_le_bytes())
            }
            ArgumentOrder::Scalar(bytes) => {
                let mut word = [0u8; 8];
                let place = word.get_mut(..bytes.len());
                let place =
                    place.ok_or_else(|| CallError::own("pass a scalar", "it has more than 8 bytes"))?;
                place.copy_from_slice(bytes);
                Ok(word)
            }
        }
    }

    fn hit(&self) -> Result<Option<Hit>, CallError> {
        let device = self.device()?;
        for (index, fenced) in self.buffers.iter().enumerate() {
            for (zone, (offset, length)) in zones(fenced).into_iter().enumerate() {
                let now = device.read(&fenced.memory, offset, length)?;
                if let Some(at) = first_difference(&now, &canary(self.seed, index, zone, length)) {
                    let from_start = (offset + at) as i64 - GUARD as i64;
                    return Ok(Some(Hit { buffer: index, offset: from_start }));
                }
            }
        }
        Ok(None)
    }
}

/// Offset and length of the guard zones. The one behind the buffer first: overruns are the more frequent.
fn zones(fenced: &Fenced) -> [(usize, usize); 2] {
    let end = GUARD + fenced.bytes;
    [(end, span(fenced.bytes) - end), (0, GUARD)]
}
