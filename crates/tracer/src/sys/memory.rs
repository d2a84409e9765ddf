//! System calls on memory: this process's mappings, and memory that may not be there.

use super::files::{READ_ONLY, close, open};
use super::{call, is_restricted, number, pid, space};

/// `PROT_READ`, `PROT_WRITE`, `PROT_EXEC`.
pub const PROT: (usize, usize, usize) = (1, 2, 4);

/// Maps `bytes` of a file of ours, shared and writable, from `offset`. They must be allocated ([`space::allocate`]): a
/// store into a page without space would end the program.
pub fn map_file(fd: i32, bytes: usize, offset: u64) -> Result<*mut u8, i32> {
    const SHARED: usize = 1;
    const POPULATE_WRITE: usize = 23;
    let protection = PROT.0 | PROT.1;
    // SAFETY: a new mapping at an address of the kernel's choosing.
    let at = space::result(unsafe {
        call(number::MMAP, [0, bytes, protection, SHARED, fd as usize, offset as usize])
    })?;
    // All pages made writable at once, instead of by a fault each; kernels before 5.14 do it by faults.
    // SAFETY: only the mapping just made.
    let populated = unsafe { call(number::MADVISE, [at, bytes, POPULATE_WRITE, 0, 0, 0]) };
    if space::is_no_space(populated) {
        unmap(at as *mut u8, bytes);
        return Err(-populated as i32);
    }
    Ok(at as *mut u8)
}

/// The same, page by page as they are used; whoever made the file has allocated it.
#[cfg(tally_timers)]
pub fn map_file_lazily(fd: i32, bytes: usize) -> Option<*mut u8> {
    const SHARED: usize = 1;
    // SAFETY: a new mapping at an address of the kernel's choosing.
    map(unsafe { call(number::MMAP, [0, bytes, PROT.0 | PROT.1, SHARED, fd as usize, 0]) })
}

/// Maps `bytes` of fresh memory, reserved but not backed, near `hint` when it is not 0.
pub fn map_memory(hint: usize, bytes: usize) -> Option<*mut u8> {
    const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x4022;
    // SAFETY: as above; a hint moves nothing that exists.
    map(unsafe {
        call(number::MMAP, [hint, bytes, PROT.0 | PROT.1, PRIVATE_ANONYMOUS_NORESERVE, usize::MAX, 0])
    })
}

fn map(answer: isize) -> Option<*mut u8> {
    (answer > 0).then_some(answer as *mut u8)
}

/// Removes a mapping of ours.
pub fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: only called with mappings that this crate made and no longer uses.
    unsafe { call(number::MUNMAP, [at as usize, bytes, 0, 0, 0, 0]) };
}

/// Changes the protection of whole pages.
pub fn protect(at: usize, bytes: usize, protection: usize) -> bool {
    // SAFETY: the callers only add rights to code they are about to patch and take them back.
    unsafe { call(number::MPROTECT, [at, bytes, protection, 0, 0, 0]) == 0 }
}

/// Reads this process's memory, which need not be there; the number of bytes read.
pub fn read_memory(at: u64, to: &mut [u8]) -> usize {
    if is_restricted() {
        return 0;
    }
    // Pages are asked for one by one: of a part that can't be read whole, nothing comes.
    let first = to.len().min(4096 - (at & 4095) as usize);
    let local = [to.as_mut_ptr() as usize, to.len()];
    let remote = [at as usize, first, (at as usize).wrapping_add(first), to.len() - first];
    // SAFETY: the kernel checks the memory it reads, and writes at most `to.len()` bytes.
    let n = unsafe {
        let pid = pid() as usize;
        call(number::PROCESS_VM_READV, [pid, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 2, 0])
    };
    if is_refused(n) { read_memory_file(at, to) } else { n.max(0) as usize }
}

/// Fills whole words from this process's memory; false if they are not all there.
#[cfg(all(tally_timers, target_arch = "x86_64"))]
pub fn read_words(at: u64, to: &mut [u64]) -> bool {
    let length = core::mem::size_of_val(to);
    // SAFETY: the same memory; any bytes make words.
    let bytes = unsafe { core::slice::from_raw_parts_mut(to.as_mut_ptr().cast::<u8>(), length) };
    read_memory(at, bytes) == length
}

/// Whether the kernel (or its replacement) has no such call, or does not allow it.
pub(super) const fn is_refused(answer: isize) -> bool {
    const EPERM: isize = 1;
    const ENOSYS: isize = 38;
    answer == -EPERM || answer == -ENOSYS
}

/// The same by the file that shows this process's memory.
fn read_memory_file(at: u64, to: &mut [u8]) -> usize {
    let Some(file) = open(b"/proc/self/mem\0", READ_ONLY) else { return 0 };
    // SAFETY: the kernel writes at most `to.len()` bytes there.
    let n = unsafe {
        call(number::PREAD64, [file as usize, to.as_mut_ptr() as usize, to.len(), at as usize, 0, 0])
    };
    close(file);
    n.max(0) as usize
}

/// Writes this process's memory, which need not be writable; whether it was. `None` where that can't be tried.
pub fn write_memory(at: u64, from: &[u8]) -> Option<bool> {
    let local = [from.as_ptr() as usize, from.len()];
    let remote = [at as usize, from.len()];
    // SAFETY: the kernel checks the memory it writes; the caller means it to be changed.
    let n = unsafe {
        let pid = pid() as usize;
        call(number::PROCESS_VM_WRITEV, [pid, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0])
    };
    (!is_refused(n)).then_some(n == from.len() as isize)
}
