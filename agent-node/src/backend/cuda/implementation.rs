//! One implementation in a worker: its kernels, the buffers of one evaluation between guard zones, and its plan.

use super::driver::{CallError, Device, Function, Memory};
use super::fence::{GUARD, canary, first_difference, span};
use super::protocol::{ArgumentOrder, Edges, Hit, StepOrder};

/// Dynamic shared memory that needs no asking.
const SHARED_FREE: u32 = 48 << 10;

/// A buffer between its guard zones, where it has some: guard, buffer, slack to whole words, guard.
struct Fenced {
    memory: Memory,
    bytes: usize,
    edges: Edges,
    /// What its guard zones are drawn from; it goes with the buffer when that changes its owner.
    seed: u64,
    number: usize,
}

impl Fenced {
    /// Where the buffer begins in its allocation.
    fn start(&self) -> usize {
        match self.edges {
            Edges::Fenced => GUARD,
            Edges::Exact => 0,
        }
    }

    /// Offset and length of its guard zones. The one behind the buffer first: overruns are the more frequent.
    fn zones(&self) -> Vec<(usize, usize)> {
        match self.edges {
            Edges::Fenced => {
                let end = GUARD + self.bytes;
                vec![(end, span(self.bytes) - end), (0, GUARD)]
            }
            Edges::Exact => Vec::new(),
        }
    }
}

/// What one party is.
#[derive(Default)]
pub(super) struct Implementation {
    buffers: Vec<Fenced>,
    functions: Vec<Function>,
    steps: Vec<StepOrder>,
}

impl Implementation {
    /// Loads its cubin as a module of its own.
    pub(super) fn load(
        &mut self,
        device: &Device,
        cubin: &[u8],
        symbols: &[String],
    ) -> Result<(), CallError> {
        self.functions = device.load(cubin, symbols)?;
        Ok(())
    }

    /// Fresh buffers and the plan over them.
    pub(super) fn prepare(
        &mut self,
        device: &Device,
        edges: Edges,
        sizes: &[u64],
        steps: Vec<StepOrder>,
        seed: u64,
    ) -> Result<(), CallError> {
        // The new ones are made before the old ones go, so that addresses differ.
        let mut buffers = Vec::with_capacity(sizes.len());
        for (index, size) in sizes.iter().enumerate() {
            let bytes =
                usize::try_from(*size).map_err(|_| CallError::own("make a buffer", "it is too large"))?;
            let span = match edges {
                Edges::Fenced => span(bytes),
                // The driver makes no empty allocation.
                Edges::Exact => bytes.max(1),
            };
            let fenced = Fenced { memory: device.allocate(span)?, bytes, edges, seed, number: index };
            for (zone, (offset, length)) in fenced.zones().into_iter().enumerate() {
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
        (self.buffers, self.steps) = (buffers, steps);
        Ok(())
    }

    /// Trades buffers with another implementation; nothing is traded unless all have equal sizes.
    pub(super) fn trade(&mut self, other: &mut Self, buffers: &[[usize; 2]]) -> Result<(), CallError> {
        for [own, others] in buffers {
            if self.buffer(*own)?.bytes != other.buffer(*others)?.bytes {
                return Err(CallError::own("trade buffers", "their sizes differ"));
            }
        }
        for [own, others] in buffers {
            if let (Some(own), Some(others)) = (self.buffers.get_mut(*own), other.buffers.get_mut(*others)) {
                std::mem::swap(own, others);
            }
        }
        Ok(())
    }

    /// Overwrites a buffer.
    pub(super) fn write(&self, device: &Device, buffer: usize, bytes: &[u8]) -> Result<(), CallError> {
        let found = self.buffer(buffer)?;
        if bytes.len() != found.bytes {
            return Err(CallError::own("write a buffer", "its size differs"));
        }
        device.write(&found.memory, found.start(), bytes)
    }

    /// Fills a buffer.
    pub(super) fn fill(&self, device: &Device, buffer: usize, byte: u8) -> Result<(), CallError> {
        let found = self.buffer(buffer)?;
        device.fill(&found.memory, found.start(), found.bytes, byte)
    }

    /// Copies a buffer out.
    pub(super) fn read(&self, device: &Device, buffer: usize) -> Result<Vec<u8>, CallError> {
        let found = self.buffer(buffer)?;
        device.read(&found.memory, found.start(), found.bytes)
    }

    /// Copies ranges of a buffer out, joined.
    pub(super) fn gather(
        &self,
        device: &Device,
        buffer: usize,
        ranges: &[(usize, usize)],
        staging: &Memory,
    ) -> Result<Vec<u8>, CallError> {
        let found = self.buffer(buffer)?;
        let inside = |(offset, length): &(usize, usize)| {
            offset.checked_add(*length).is_some_and(|end| end <= found.bytes)
        };
        if !ranges.iter().all(inside) {
            return Err(CallError::own("gather from a buffer", "a piece lies outside of it"));
        }
        device.gather(&found.memory, found.start(), ranges, staging)
    }

    /// Puts the whole plan on the stream, between the two events.
    pub(super) fn enqueue(&self, device: &Device) -> Result<(), CallError> {
        device.mark(0)?;
        for step in &self.steps {
            self.put(device, step)?;
        }
        device.mark(1)
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

    fn put(&self, device: &Device, step: &StepOrder) -> Result<(), CallError> {
        match step {
            StepOrder::Memset { buffer, byte } => {
                let found = self.buffer(*buffer)?;
                device.fill_on_stream(&found.memory, found.start(), found.bytes, *byte)
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
                Ok(found.memory.at(found.start(), found.bytes)?.to_le_bytes())
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

    /// Where each buffer lies.
    pub(super) fn addresses(&self) -> Result<Vec<u64>, CallError> {
        self.buffers.iter().map(|buffer| buffer.memory.at(buffer.start(), buffer.bytes)).collect()
    }

    /// The first byte of a guard zone that changed.
    pub(super) fn hit(&self, device: &Device) -> Result<Option<Hit>, CallError> {
        for (index, fenced) in self.buffers.iter().enumerate() {
            for (zone, (offset, length)) in fenced.zones().into_iter().enumerate() {
                let now = device.read(&fenced.memory, offset, length)?;
                if let Some(at) = first_difference(&now, &canary(fenced.seed, fenced.number, zone, length)) {
                    let from_start = (offset + at) as i64 - GUARD as i64;
                    return Ok(Some(Hit { buffer: index, offset: from_start }));
                }
            }
        }
        Ok(None)
    }
}
