//! The memory file that supervisor and worker map: the control page, then the buffers.

use super::control::{CONTROL_BYTES, Control};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

/// One side's view of the whole file.
#[derive(Debug)]
pub(super) struct SharedFile {
    file: OwnedFd,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to this value alone; every access goes through atomics or copies of raw bytes.
unsafe impl Send for SharedFile {}

impl SharedFile {
    /// A file with room for `bytes` of buffers. It can neither shrink nor grow, so that no worker can take pages away
    /// from under the supervisor.
    pub(super) fn create(bytes: usize) -> io::Result<Self> {
        let length = CONTROL_BYTES.checked_add(bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        let file = memfd_create("buffers", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, length as u64)?;
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        let shared = Self::map(file, length)?;
        shared.allocate(0, CONTROL_BYTES)?;
        Ok(shared)
    }

    /// The file that a worker was given.
    pub(super) fn open(file: OwnedFd) -> io::Result<Self> {
        let length = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        if length < CONTROL_BYTES {
            return Err(io::Error::other("the shared file is too short"));
        }
        // A worker needs the control page alone; buffers get mappings of their own, between guards.
        Self::map(file, CONTROL_BYTES)
    }

    fn map(file: OwnedFd, length: usize) -> io::Result<Self> {
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe { mmap(std::ptr::null_mut(), length, protection, flags, &file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { file, start, length })
    }

    /// The file itself.
    pub(super) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// A second descriptor of the file, to be passed on.
    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    /// Bytes behind the control page.
    pub(super) fn capacity(&self) -> usize {
        self.length - CONTROL_BYTES
    }

    /// The control page.
    pub(super) fn control(&self) -> &Control {
        // SAFETY: the mapping is at least CONTROL_BYTES long and page-aligned, lives as long as `self`, and `Control`
        // consists of atomics, for which every bit pattern is valid.
        unsafe { self.start.cast::<Control>().as_ref() }
    }

    /// Gives the memory of all buffers back; they read as zeros then.
    pub(super) fn clear(&self) -> io::Result<()> {
        if self.capacity() == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, flags, CONTROL_BYTES as u64, self.capacity() as u64)?)
    }

    /// Takes memory for `length` bytes at `offset` now: later, a lack of it would be a signal instead of an error.
    pub(super) fn allocate(&self, offset: usize, length: usize) -> io::Result<()> {
        Ok(fallocate(&self.file, FallocateFlags::empty(), offset as u64, length as u64)?)
    }

    /// Copies `bytes` to `offset`.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(target) = self.place(offset, bytes.len()) else { return false };
        // SAFETY: `place` checked that the range lies in the mapping; source and target cannot overlap, as no slice of
        // the mapping is ever made.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
        true
    }

    /// Sets `length` bytes at `offset`.
    pub(super) fn fill(&self, offset: usize, length: usize, byte: u8) -> bool {
        let Some(target) = self.place(offset, length) else { return false };
        // SAFETY: `place` checked that the range lies in the mapping.
        unsafe { std::ptr::write_bytes(target, byte, length) };
        true
    }

    /// Copies `length` bytes at `offset` out.
    pub(super) fn read(&self, offset: usize, length: usize) -> Option<Vec<u8>> {
        let source = self.place(offset, length)?;
        let mut bytes = Vec::with_capacity(length);
        // SAFETY: `place` checked the source; the vector has room for `length` bytes, all of which are written.
        unsafe {
            std::ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), length);
            bytes.set_len(length);
        }
        Some(bytes)
    }

    /// Eight bytes at `offset`.
    pub(super) fn word(&self, offset: usize) -> Option<[u8; 8]> {
        let source = self.place(offset, 8)?;
        // SAFETY: `place` checked the range; an array of bytes has no alignment and no invalid value.
        Some(unsafe { source.cast::<[u8; 8]>().read_volatile() })
    }

    fn place(&self, offset: usize, length: usize) -> Option<*mut u8> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        // SAFETY: the offset is inside the mapping.
        inside.then(|| unsafe { self.start.as_ptr().add(offset) })
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and no reference to it outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}
