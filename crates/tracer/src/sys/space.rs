//! Disk space for our files, claimed before it is used.
//!
//! A store into a mapped file raises SIGBUS in the traced program where the file system has no block left for that page,
//! and growing a file past `RLIMIT_FSIZE` raises SIGXFSZ there. So a file grows only by bytes that are allocated
//! already, and only as far as the limit allows.

use super::{call, number, truncate};

/// Too large for the program's `RLIMIT_FSIZE`.
pub const EFBIG: i32 = 27;
/// No such entry, or no descriptor: what was to be written is gone.
pub const EBADF: i32 = 9;
/// No memory, or no address space.
pub const ENOMEM: i32 = 12;

const EINTR: isize = 4;
const EFAULT: isize = 14;
const EHWPOISON: isize = 133;

/// The errno of a negative answer.
pub const fn result(answer: isize) -> Result<usize, i32> {
    if answer < 0 { Err(-answer as i32) } else { Ok(answer as usize) }
}

/// Makes the file hold `bytes` more from `from` on, all of them allocated on the disk and 0.
pub fn allocate(fd: i32, from: u64, bytes: u64) -> Result<(), i32> {
    const TRIES: usize = 100;
    const EOPNOTSUPP: isize = 95;
    if !fits(from, bytes as usize) {
        return Err(EFBIG);
    }
    for _ in 0..TRIES {
        // SAFETY: changes only a file of ours.
        let answer =
            unsafe { call(number::FALLOCATE, [fd as usize, 0, from as usize, bytes as usize, 0, 0]) };
        match -answer {
            EINTR => {}
            // File systems without it, and sandboxes that refuse it.
            EOPNOTSUPP => return fill(fd, from, bytes),
            _ if super::memory::is_refused(answer) => return fill(fd, from, bytes),
            _ => return result(answer).map(drop),
        }
    }
    Err(EINTR as i32)
}

/// The same by writing zeros: the kernel then reports a full disk to us instead of the program.
fn fill(fd: i32, from: u64, bytes: u64) -> Result<(), i32> {
    static ZEROS: [u8; 4096] = [0; 4096];
    let to = from + bytes;
    let mut at = from;
    while at < to {
        let block = &ZEROS[..(to - at).min(ZEROS.len() as u64) as usize];
        match write_at(fd, block, at) {
            Ok(0) => return Err(EINTR as i32),
            Ok(n) => at += n as u64,
            Err(errno) => {
                // Partly allocated space is given back.
                truncate(fd, from);
                return Err(errno);
            }
        }
    }
    Ok(())
}

/// Writes `from` at `offset`; the number of bytes taken.
pub fn write_at(fd: i32, from: &[u8], offset: u64) -> Result<usize, i32> {
    if !fits(offset, from.len()) {
        return Err(EFBIG);
    }
    // SAFETY: the kernel reads `from.len()` bytes there.
    result(unsafe {
        call(number::PWRITE64, [fd as usize, from.as_ptr() as usize, from.len(), offset as usize, 0, 0])
    })
}

/// Writes all of `from` at `offset`.
pub fn write_all_at(fd: i32, from: &[u8], offset: u64) -> Result<(), i32> {
    let mut written = 0;
    while written < from.len() {
        match write_at(fd, &from[written..], offset + written as u64)? {
            0 => return Err(EINTR as i32),
            n => written += n,
        }
    }
    Ok(())
}

/// Whether `RLIMIT_FSIZE` allows a file to be that long.
fn fits(from: u64, bytes: usize) -> bool {
    const FILE_SIZE: usize = 1;
    let mut limit = [u64::MAX; 2];
    // SAFETY: the kernel writes two words; it is this process that is asked about.
    unsafe { call(number::PRLIMIT64, [0, FILE_SIZE, 0, limit.as_mut_ptr() as usize, 0, 0]) };
    from.saturating_add(bytes as u64) <= limit[0]
}

/// Whether making pages of a mapping writable failed for want of space or memory. (Kernels before 5.14 can't be asked.)
pub const fn is_no_space(answer: isize) -> bool {
    matches!(-answer, EFAULT | EHWPOISON) || -answer == ENOMEM as isize
}
