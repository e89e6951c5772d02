//! The worker process: holds the candidate, runs it when the doorbell rings, decides nothing.
//!
//! Order: map the control page, make the threads, install the handlers, lock the sandbox, serve. Nothing of the
//! candidate is loaded before the supervisor, which has heard that all this went well, asks for it.

use super::control::{
    ARGUMENTS_MAX, BUFFERS_MAX, Control, FILL_STEP, GUARD_BYTES, SCALAR, STEPS_MAX, StepSlot, TEXT_MAX,
    command, status,
};
use super::pool::Pool;
use super::runtime::{Launch, Module};
use super::shared::SharedFile;
use super::signals;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::thread::futex;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The number under which a worker finds the shared file.
pub(super) const SHARED_DESCRIPTOR: i32 = 3;
/// Most threads; more than a machine has cores would be a mistake of the caller.
const THREADS_MAX: u32 = 1024;

/// What the hidden subcommand `worker-cpu` was told.
#[derive(Debug, Clone)]
pub struct WorkerArguments {
    pub artefact: PathBuf,
    pub threads: u32,
}

/// The worker's `main`; `lock` confines the process for good and is called after the threads exist.
pub fn worker_main<E: std::fmt::Display>(
    arguments: &WorkerArguments,
    lock: impl FnOnce() -> Result<(), E>,
) -> ExitCode {
    // SAFETY: the supervisor passes the shared file under this number, and nothing else here owns it.
    let file = unsafe { OwnedFd::from_raw_fd(SHARED_DESCRIPTOR) };
    let Ok(shared) = SharedFile::open(file) else { return ExitCode::FAILURE };
    let shared: &'static SharedFile = Box::leak(Box::new(shared));
    let control = shared.control();
    let pool = start(arguments.threads, control, lock);
    // A failure is kept for the greeting: what is said before the question is heard by nobody.
    let ready = pool.map(|pool| Ready {
        artefact: arguments.artefact.clone(),
        pool,
        module: None,
        mapped: Vec::new(),
    });
    serve(shared, ready)
}

type Failed = (u32, String);

/// A confined process.
struct Ready {
    artefact: PathBuf,
    pool: &'static Pool,
    /// Absent until the supervisor asks for it.
    module: Option<Module>,
    mapped: Vec<Mapping>,
}

fn start<E: std::fmt::Display>(
    threads: u32,
    control: &'static Control,
    lock: impl FnOnce() -> Result<(), E>,
) -> Result<&'static Pool, Failed> {
    let setup = |what: &str, cause: &dyn std::fmt::Display| (status::SETUP, format!("{what}: {cause}"));
    let threads = threads.clamp(1, THREADS_MAX);
    let pool: &'static Pool = Box::leak(Box::new(Pool::new(threads)));
    if !signals::prepare_thread() || !signals::install(control) {
        return Err(setup("signal handlers", &io::Error::last_os_error()));
    }
    for index in 1..threads {
        let work = move || {
            if signals::prepare_thread() {
                pool.serve(index);
            }
        };
        std::thread::Builder::new()
            .name(format!("blocks-{index}"))
            .spawn(work)
            .map_err(|error| setup("threads", &error))?;
    }
    lock().map_err(|error| setup("sandbox", &error))?;
    Ok(pool)
}

fn loader_text(error: &libloading::Error, path: &Path) -> String {
    error.to_string().replace(&path.display().to_string(), "the artefact")
}

fn say(control: &Control, text: &str) {
    let bytes = text.as_bytes().get(..text.len().min(TEXT_MAX)).unwrap_or(&[]);
    for (slot, byte) in control.text.iter().zip(bytes) {
        slot.store(*byte, Ordering::Relaxed);
    }
    control.text_length.store(u32::try_from(bytes.len()).unwrap_or(0), Ordering::Relaxed);
}

/// Waits for the doorbell, for ever: the supervisor ends this process.
fn serve(shared: &SharedFile, mut ready: Result<Ready, Failed>) -> ExitCode {
    let control = shared.control();
    // Kept here, since whoever reaches the page can write the words in it.
    let mut heard = control.done.load(Ordering::Relaxed);
    loop {
        let rung = control.ring.load(Ordering::Acquire);
        if rung == heard {
            let _ = futex::wait(&control.ring, futex::Flags::empty(), heard, None);
            continue;
        }
        heard = rung;
        let result = match &mut ready {
            Ok(ready) => ready.obey(control.command.load(Ordering::Relaxed), shared),
            Err(failed) => Err(failed.clone()),
        };
        if let Err((reason, text)) = result {
            say(control, &text);
            control.status.store(reason, Ordering::Release);
        }
        // This ring and no other: a candidate may have answered it before, and then it has rung again since.
        signals::finish(control, rung);
    }
}

impl Ready {
    fn obey(&mut self, command: u32, shared: &SharedFile) -> Result<(), Failed> {
        match command {
            command::GREET => Ok(()),
            command::LOAD => {
                let loaded = Module::load(&self.artefact)
                    .map_err(|error| (status::LOAD, loader_text(&error, &self.artefact)))?;
                signals::set_module(loaded.place, loaded.base);
                self.module = Some(loaded);
                Ok(())
            }
            // New mappings are made before the old ones go, so that addresses change.
            command::MAP => map_buffers(shared).map(|fresh| self.mapped = fresh),
            command::RUN => match &self.module {
                Some(module) => {
                    module.reset();
                    run_steps(shared.control(), self.pool, module, &self.mapped)
                }
                None => Err((status::SETUP, "a launch before the load".to_owned())),
            },
            _ => Err((status::SETUP, "unknown command".to_owned())),
        }
    }
}

/// One buffer between its guards.
struct Mapping {
    reserved: *mut libc::c_void,
    reserved_bytes: usize,
    address: *mut u8,
    bytes: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: reserved by `map_buffer` with this length; no kernel runs while buffers change.
        let _ = unsafe { munmap(self.reserved, self.reserved_bytes) };
    }
}

fn map_buffers(shared: &SharedFile) -> Result<Vec<Mapping>, Failed> {
    let control = shared.control();
    let count = (control.buffer_count.load(Ordering::Acquire) as usize).min(BUFFERS_MAX);
    let mut mappings = Vec::with_capacity(count);
    for slot in control.buffers.iter().take(count) {
        let size = |value: &AtomicU64| usize::try_from(value.load(Ordering::Relaxed)).unwrap_or(0);
        let protection = match slot.read_only.load(Ordering::Relaxed) {
            0 => ProtFlags::READ | ProtFlags::WRITE,
            _ => ProtFlags::READ,
        };
        let wanted = Wanted {
            offset: slot.file_offset.load(Ordering::Relaxed),
            mapped: size(&slot.mapped_bytes),
            start: size(&slot.start),
            bytes: size(&slot.bytes),
            protection,
        };
        let mapping =
            map_buffer(shared, &wanted).map_err(|error| (status::SETUP, format!("map a buffer: {error}")))?;
        slot.address.store(mapping.address as u64, Ordering::Relaxed);
        mappings.push(mapping);
    }
    Ok(mappings)
}

struct Wanted {
    offset: u64,
    mapped: usize,
    start: usize,
    bytes: usize,
    protection: ProtFlags,
}

fn map_buffer(shared: &SharedFile, wanted: &Wanted) -> io::Result<Mapping> {
    let reserved_bytes = wanted.mapped + 2 * GUARD_BYTES;
    let private = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh reservation without access, at an address of the kernel's choice.
    let reserved = unsafe { mmap_anonymous(null_mut(), reserved_bytes, ProtFlags::empty(), private)? };
    let mut mapping = Mapping { reserved, reserved_bytes, address: null_mut(), bytes: wanted.bytes };
    let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
    // SAFETY: the target lies inside the reservation just made, which nothing else uses.
    let start = unsafe {
        let target = reserved.byte_add(GUARD_BYTES);
        mmap(target, wanted.mapped, wanted.protection, flags, shared.file(), wanted.offset)?
    };
    // SAFETY: the supervisor puts a buffer inside its pages.
    mapping.address = unsafe { start.cast::<u8>().add(wanted.start.min(wanted.mapped)) };
    Ok(mapping)
}

fn run_steps(control: &Control, pool: &Pool, module: &Module, mapped: &[Mapping]) -> Result<(), Failed> {
    let count = (control.step_count.load(Ordering::Acquire) as usize).min(STEPS_MAX);
    for (index, step) in control.steps.iter().take(count).enumerate() {
        let entry = step.entry.load(Ordering::Relaxed);
        if entry == FILL_STEP {
            let buffer = mapped.get(step.buffer.load(Ordering::Relaxed) as usize);
            let Some(buffer) = buffer else { return Err((status::SETUP, "a fill of no buffer".to_owned())) };
            let byte = u8::try_from(step.byte.load(Ordering::Relaxed) & 0xff).unwrap_or(0);
            // SAFETY: the mapping holds `bytes` writable bytes at `address`; a plan may not fill an input.
            unsafe { std::ptr::write_bytes(buffer.address, byte, buffer.bytes) };
            continue;
        }
        let Some((address, arity)) = module.entries.get(entry as usize) else {
            return Err((status::SETUP, "a launch of no kernel".to_owned()));
        };
        let given = step.argument_count.load(Ordering::Relaxed);
        if u32::try_from(*arity).ok() != Some(given) {
            for (slot, value) in control.fault.detail.iter().zip([index, arity.unsigned_abs() as usize]) {
                slot.store(u32::try_from(value).unwrap_or(u32::MAX), Ordering::Relaxed);
            }
            return Err((status::ARITY, String::new()));
        }
        launch(control, step, *address, (pool, module), mapped)?;
    }
    Ok(())
}

fn launch(
    control: &Control,
    step: &StepSlot,
    entry: usize,
    (pool, module): (&Pool, &Module),
    mapped: &[Mapping],
) -> Result<(), Failed> {
    // Every parameter finds an aligned slot of 16 bytes, as large as any scalar that a task can pass.
    let mut values = [0u128; ARGUMENTS_MAX];
    let mut pointers = [null_mut::<u8>(); ARGUMENTS_MAX];
    for ((value, pointer), slot) in values.iter_mut().zip(&mut pointers).zip(&step.arguments) {
        let buffer = slot.buffer.load(Ordering::Relaxed);
        *value = if buffer == SCALAR {
            u128::from(slot.scalar.load(Ordering::Relaxed))
        } else {
            mapped.get(buffer as usize).map_or(0, |mapping| mapping.address as u128)
        };
        *pointer = std::ptr::from_mut(value).cast();
    }
    let three = |words: &[AtomicU32; 3]| words.each_ref().map(|word| word.load(Ordering::Relaxed));
    let (grid, block) = (three(&step.grid), three(&step.block));
    let blocks = grid.iter().fold(1u64, |product, size| product.saturating_mul(u64::from(*size)));
    let mut launch = Launch {
        entry,
        arguments: pointers.as_mut_ptr(),
        grid,
        block,
        shared_bytes: step.shared_bytes.load(Ordering::Relaxed),
        order: control.order.load(Ordering::Relaxed),
        seed: control.seed.load(Ordering::Relaxed),
        shared_poison: control.shared_poison.load(Ordering::Relaxed),
        lane_poison: control.lane_poison.load(Ordering::Relaxed),
        stop: signals::on_stop,
    };
    if pool.run(module.run, &mut launch, blocks) {
        Ok(())
    } else {
        Err((status::SETUP, "no memory for the stacks of a block".to_owned()))
    }
}
