//! The CUDA driver, as far as a worker needs it. Only used in child processes.
//!
//! Every entry asks first whether the driver's library is there: the bindings panic where it is not. A function that
//! an old driver lacks still panics; the child's main catches that and says so.

use super::attributes;
use super::limits::DeviceLimits;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUfunction_attribute as FunctionAttribute};
use cudarc::driver::{DriverError, result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::rc::Rc;

/// What the staging of a gather is overwritten with.
const GATHERED: u8 = 0xff;

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {name}{}", if *code == 0 { String::new() } else { format!(" ({code})") })]
pub(super) struct CallError {
    pub call: &'static str,
    pub code: u32,
    pub name: String,
}

impl CallError {
    /// Something of our own making.
    pub(super) fn own(call: &'static str, name: impl Into<String>) -> Self {
        Self { call, code: 0, name: name.into() }
    }
}

pub(super) type Outcome<T> = Result<T, CallError>;

pub(super) fn call<T>(call: &'static str, result: Result<T, DriverError>) -> Outcome<T> {
    result.map_err(|error| {
        // The bindings' own name: to ask the driver panics where it is as broken as to lack that function.
        let name = format!("{:?}", error.0);
        CallError { call, code: error.0 as u32, name }
    })
}

/// One device, as the driver describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Described {
    /// `GPU-` and the UUID, as NVML writes it.
    pub uuid: String,
    pub name: String,
    pub memory: u64,
    pub capability: (i32, i32),
    pub l2_bytes: u64,
    pub limits: DeviceLimits,
    /// Rows of [`attributes::ROWS`] that the driver knows.
    pub attributes: BTreeMap<String, i64>,
}

/// The driver's CUDA version (13000 for 13.0) and all of its devices.
pub(super) fn describe_all() -> Outcome<(i32, Vec<Described>)> {
    start()?;
    let mut version = 0;
    // SAFETY: the pointer is to a live integer.
    call("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) }.result())?;
    let count = call("cuDeviceGetCount", result::device::get_count())?;
    let devices = (0..count).map(|ordinal| {
        let device = call("cuDeviceGet", result::device::get(ordinal))?;
        describe(device)
    });
    Ok((version, devices.collect::<Outcome<_>>()?))
}

fn start() -> Outcome<()> {
    // SAFETY: loads the driver's library, whose initialisers are those of the installed driver.
    if !unsafe { sys::is_culib_present() } {
        return Err(CallError::own(
            "load libcuda",
            "no CUDA driver is installed (libcuda.so.1 was not found)",
        ));
    }
    call("cuInit", result::init())
}

fn describe(device: sys::CUdevice) -> Outcome<Described> {
    // SAFETY: `device` came from cuDeviceGet.
    let attribute =
        |name| call("cuDeviceGetAttribute", unsafe { result::device::get_attribute(device, name) });
    let count = |name| attribute(name).map(|value| u64::try_from(value).unwrap_or(0));
    let limits = DeviceLimits {
        threads_per_block: count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        block: [
            count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ],
        grid: [
            count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        shared_bytes: count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        warp_size: count(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
        multiprocessors: count(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
    };
    Ok(Described {
        uuid: uuid(device)?,
        name: call("cuDeviceGetName", result::device::get_name(device))?,
        // SAFETY: `device` came from cuDeviceGet.
        memory: call("cuDeviceTotalMem", unsafe { result::device::total_mem(device) })? as u64,
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        l2_bytes: count(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        limits,
        attributes: attributes::ROWS
            .iter()
            .filter_map(|row| Some((row.name.to_owned(), i64::from(attribute(row.attribute).ok()?))))
            .collect(),
    })
}

fn uuid(device: sys::CUdevice) -> Outcome<String> {
    let bytes = call("cuDeviceGetUuid", result::device::get_uuid(device))?.bytes;
    Ok(uuid_text(bytes.map(|byte| byte as u8)))
}

/// The text by which NVML names the same device.
fn uuid_text(bytes: [u8; 16]) -> String {
    let mut text = "GPU".to_owned();
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// One device with a context of this process, one stream, and a pair of events.
pub(super) struct Device {
    /// Bytes of its L2, as the driver tells.
    pub l2_bytes: usize,
    stream: sys::CUstream,
    events: [sys::CUevent; 2],
}

/// A device of an initialised driver, before there is a context.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found(sys::CUdevice);

impl Found {
    /// The device named `wanted` by its UUID.
    pub(super) fn find(wanted: &str) -> Outcome<Self> {
        start()?;
        let count = call("cuDeviceGetCount", result::device::get_count())?;
        for ordinal in 0..count {
            let device = call("cuDeviceGet", result::device::get(ordinal))?;
            if uuid(device)? == wanted {
                return Ok(Self(device));
            }
        }
        Err(CallError::own("find the device", format!("none of {count} devices is {wanted}")))
    }

    /// Makes the context of this process on it.
    pub(super) fn enter(self) -> Outcome<Device> {
        Device::with_context(self.0)
    }
}

impl Device {
    /// The UUID of the device that the current context is on, asked of the driver.
    pub(super) fn uuid(&self) -> Outcome<String> {
        let mut device = 0;
        // SAFETY: the pointer is to a live integer, and a context is current.
        call("cuCtxGetDevice", unsafe { sys::cuCtxGetDevice(&raw mut device) }.result())?;
        uuid(device)
    }

    fn with_context(device: sys::CUdevice) -> Outcome<Self> {
        // SAFETY: `device` came from cuDeviceGet. The primary context belongs to this process alone and ends with it.
        let context = call("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(device) })?;
        // SAFETY: the context was just retained and is never released.
        call("cuCtxSetCurrent", unsafe { result::ctx::set_current(context) })?;
        let stream = call("cuStreamCreate", result::stream::create(result::stream::StreamKind::NonBlocking))?;
        let event = || call("cuEventCreate", result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT));
        let l2 = Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
        // SAFETY: `device` came from cuDeviceGet.
        let l2 = call("cuDeviceGetAttribute", unsafe { result::device::get_attribute(device, l2) })?;
        let l2_bytes = usize::try_from(l2).unwrap_or(0);
        Ok(Self { l2_bytes, stream, events: [event()?, event()?] })
    }

    /// Loads a cubin that has been checked to be whole, and finds its kernels.
    pub(super) fn load(&self, cubin: &[u8], symbols: &[String]) -> Outcome<Vec<Function>> {
        // SAFETY: the image is a whole ELF file, checked by the supervisor before it was sent, and outlives the call.
        let module = call("cuModuleLoadData", unsafe { result::module::load_data(cubin.as_ptr().cast()) })?;
        let module = Rc::new(Module(module));
        let find = |symbol: &String| {
            let name = CString::new(symbol.as_str());
            let name = name.map_err(|_| CallError::own("name a kernel", "its symbol has a NUL byte"))?;
            // SAFETY: the module was just loaded and stays as long as any of its functions.
            let raw = call("cuModuleGetFunction", unsafe { result::module::get_function(module.0, name) })?;
            let attribute = |name| {
                // SAFETY: the function belongs to the module.
                call("cuFuncGetAttribute", unsafe { result::function::get_function_attribute(raw, name) })
            };
            let threads = attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
            Ok(Function { raw, threads: threads.unsigned_abs(), _module: Rc::clone(&module) })
        };
        symbols.iter().map(find).collect()
    }

    /// Device memory of `bytes`, freed with the value.
    pub(super) fn allocate(&self, bytes: usize) -> Outcome<Memory> {
        // SAFETY: the context is current; the memory is not read before it is written.
        let address = call("cuMemAlloc", unsafe { result::malloc_sync(bytes) })?;
        Ok(Memory { address, bytes })
    }

    /// Sets `length` bytes from `offset` and waits.
    pub(super) fn fill(&self, memory: &Memory, offset: usize, length: usize, byte: u8) -> Outcome<()> {
        self.fill_on_stream(memory, offset, length, byte)?;
        self.wait()
    }

    /// The same as part of what the stream does next.
    pub(super) fn fill_on_stream(
        &self,
        memory: &Memory,
        offset: usize,
        length: usize,
        byte: u8,
    ) -> Outcome<()> {
        let address = memory.at(offset, length)?;
        if length == 0 {
            return Ok(());
        }
        // SAFETY: `at` has checked that the range lies inside live memory.
        call("cuMemsetD8Async", unsafe { result::memset_d8_async(address, byte, length, self.stream) })
    }

    /// Copies `bytes` to `offset`.
    pub(super) fn write(&self, memory: &Memory, offset: usize, bytes: &[u8]) -> Outcome<()> {
        let address = memory.at(offset, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: `at` has checked that the range lies inside live memory; the call returns when the copy is done.
        call("cuMemcpyHtoD", unsafe { result::memcpy_htod_sync(address, bytes) })
    }

    /// Copies `length` bytes from `offset`.
    pub(super) fn read(&self, memory: &Memory, offset: usize, length: usize) -> Outcome<Vec<u8>> {
        let address = memory.at(offset, length)?;
        let mut bytes = vec![0u8; length];
        if length > 0 {
            // SAFETY: as for `write`; the target is exactly `length` bytes.
            call("cuMemcpyDtoH", unsafe { result::memcpy_dtoh_sync(&mut bytes, address) })?;
        }
        Ok(bytes)
    }

    /// Copies ranges (offset, length) of `memory` from `base` on, joined. They meet in `staging` on the device and cross
    /// to this process at once; `staging` is overwritten before anything else runs, since they may be of a right answer.
    pub(super) fn gather(
        &self,
        memory: &Memory,
        base: usize,
        ranges: &[(usize, usize)],
        staging: &Memory,
    ) -> Outcome<Vec<u8>> {
        let mut filled = 0;
        for (offset, length) in ranges {
            let (from, to) = (memory.at(base + offset, *length)?, staging.at(filled, *length)?);
            // SAFETY: `at` has checked that both ranges lie inside live memory, of two allocations.
            let copied = unsafe { result::memcpy_dtod_async(to, from, *length, self.stream) };
            call("cuMemcpyDtoDAsync", copied)?;
            filled += length;
        }
        self.wait()?;
        let bytes = self.read(staging, 0, filled)?;
        self.fill(staging, 0, filled, GATHERED)?;
        Ok(bytes)
    }

    /// Lets a kernel use `bytes` of dynamic shared memory; above 48 KiB it must be asked for.
    pub(super) fn grant_shared(&self, function: &Function, bytes: u32) -> Outcome<()> {
        let value = i32::try_from(bytes).unwrap_or(i32::MAX);
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function belongs to a module that is never unloaded.
        let set = unsafe { result::function::set_function_attribute(function.raw, attribute, value) };
        call("cuFuncSetAttribute", set)
    }

    /// Puts one kernel on the stream. `arguments` are the bytes of each parameter, of exactly its size.
    pub(super) fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        arguments: &mut [[u8; 8]],
    ) -> Outcome<()> {
        let mut pointers: Vec<*mut c_void> =
            arguments.iter_mut().map(|argument| argument.as_mut_ptr().cast()).collect();
        let three = |size: [u32; 3]| (size[0], size[1], size[2]);
        // SAFETY: the supervisor has checked number and sizes of the arguments against the cubin; each has 8 readable
        // bytes and the driver copies them before it returns.
        let launched = unsafe {
            result::launch_kernel(
                function.raw,
                three(grid),
                three(block),
                shared_bytes,
                self.stream,
                &mut pointers,
            )
        };
        call("cuLaunchKernel", launched)
    }

    /// Marks the stream before (0) or after (1) a plan.
    pub(super) fn mark(&self, which: usize) -> Outcome<()> {
        let event = self.events[usize::from(which != 0)];
        // SAFETY: event and stream belong to the current context and live as long as the process.
        call("cuEventRecord", unsafe { result::event::record(event, self.stream) })
    }

    /// Waits for the mark after the plan; picoseconds since the one before it.
    pub(super) fn elapsed(&self) -> Outcome<u64> {
        let [before, after] = self.events;
        // SAFETY: both events were recorded on the stream.
        call("cuEventSynchronize", unsafe { result::event::synchronize(after) })?;
        // SAFETY: both events have happened.
        let milliseconds = call("cuEventElapsedTime", unsafe { result::event::elapsed(before, after) })?;
        // Half a microsecond is the resolution of events; the conversion loses nothing of it.
        Ok((f64::from(milliseconds).max(0.0) * 1e9).round() as u64)
    }

    /// Waits for everything on the stream.
    pub(super) fn wait(&self) -> Outcome<()> {
        // SAFETY: the stream lives as long as the process.
        call("cuStreamSynchronize", unsafe { result::stream::synchronize(self.stream) })
    }
}

/// A loaded kernel.
#[derive(Debug)]
pub(super) struct Function {
    raw: sys::CUfunction,
    /// Threads that a block of it may have.
    pub threads: u32,
    _module: Rc<Module>,
}

/// A loaded cubin with its global variables, unloaded with the last of its functions.
#[derive(Debug)]
struct Module(sys::CUmodule);

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded by `Device::load`, and no function of it is left to be launched. After a fault the context is
        // dead and refuses; it ends with the process.
        let _ = unsafe { result::module::unload(self.0) };
    }
}

/// Device memory, freed when dropped.
#[derive(Debug)]
pub(super) struct Memory {
    address: sys::CUdeviceptr,
    bytes: usize,
}

impl Memory {
    /// The device address of `offset`, if `length` bytes from it lie inside.
    pub(super) fn at(&self, offset: usize, length: usize) -> Outcome<u64> {
        let end = offset.checked_add(length).filter(|end| *end <= self.bytes);
        match end {
            Some(_) => Ok(self.address + offset as u64),
            None => Err(CallError::own(
                "address a buffer",
                format!("{length} bytes at {offset} of {}", self.bytes),
            )),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated by `allocate` and freed once. After a fault the context is dead and refuses; it ends with
        // the process.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_nvml_names_them() {
        let bytes = [0x3a, 0x54, 0xde, 0x24, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xa, 0xff];
        assert_eq!(uuid_text(bytes), "GPU-3a54de24-0001-0203-0405-060708090aff");
    }
}
