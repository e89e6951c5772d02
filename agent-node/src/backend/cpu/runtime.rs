//! The artefact's side of a worker: the structures that the shim's runtime shares, and the loaded library.

use super::control::STEPS_MAX;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::path::Path;

/// `muster_launch` of the shim.
#[repr(C)]
pub(super) struct Launch {
    pub entry: usize,
    pub arguments: *mut *mut u8,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub order: u32,
    pub seed: u32,
    pub shared_poison: u32,
    pub lane_poison: u32,
    pub stop: extern "C" fn(i32, i32, u32, u32),
}

/// `muster_place` of the shim.
#[repr(C)]
#[derive(Default)]
pub(super) struct Place {
    pub block: [u32; 3],
    pub thread: [u32; 3],
    pub shared: [u64; 2],
    pub stack: [u64; 2],
}

pub(super) type RunBlocks = unsafe extern "C" fn(*const Launch, u64, u64) -> i32;
type Reset = unsafe extern "C" fn();
pub(super) type Where = unsafe extern "C" fn(*mut Place);

/// A loaded artefact.
pub(super) struct Module {
    /// Kept for its lifetime: the pointers below lead into it.
    _library: Library,
    pub run: RunBlocks,
    pub place: Where,
    reset: Reset,
    /// Address and number of parameters of each kernel.
    pub entries: Vec<(usize, i32)>,
    /// Address range of the library's code and data, as far as the loader tells: its first byte.
    pub base: usize,
}

impl Module {
    /// Loads `path`, which runs the candidate's initialisers: only in a locked worker.
    pub(super) fn load(path: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: running foreign code is the purpose of this process; it is confined and believed in nothing.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL)? };
        // SAFETY: the shim's runtime, linked into every artefact, exports these with these types.
        let (run, place, reset) = unsafe {
            (
                *library.get::<RunBlocks>("muster_run")?,
                *library.get::<Where>("muster_where")?,
                *library.get::<Reset>("muster_reset")?,
            )
        };
        let mut found = Vec::new();
        while found.len() < STEPS_MAX {
            // SAFETY: the glue exports one function and one integer for each kernel of the plan.
            let symbols = unsafe {
                let entry = library
                    .get::<unsafe extern "C" fn(*mut *mut u8)>(format!("muster_entry_{}", found.len()));
                let arity = library.get::<*const i32>(format!("muster_arity_{}", found.len()));
                entry.and_then(|entry| arity.map(|arity| (*entry as usize, **arity)))
            };
            let Ok(symbols) = symbols else { break };
            found.push(symbols);
        }
        Ok(Self { base: base_of(run as usize), _library: library, run, place, reset, entries: found })
    }

    /// Gives the candidate's variables the values that they had when it was loaded. Before every plan, so that no
    /// kernel finds what an earlier launch left there.
    pub(super) fn reset(&self) {
        // SAFETY: no block runs between two plans, and the function writes the library's own variables only.
        unsafe { (self.reset)() }
    }
}

/// Where the library that holds `address` begins.
fn base_of(address: usize) -> usize {
    // SAFETY: all zeros is a valid value, and the call only fills it.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as *const libc::c_void, &raw mut info) == 0 {
            0
        } else {
            info.dli_fbase as usize
        }
    }
}
