//! System calls on files.

use super::{call, number, space};

/// `O_NOFOLLOW`: a link in the place of a file of ours was put there by somebody else.
// Source: linux arch/arm64/include/uapi/asm/fcntl.h, include/uapi/asm-generic/fcntl.h.
const NO_LINK: usize = if cfg!(target_arch = "aarch64") { 0o100_000 } else { 0o400_000 };

/// `O_RDONLY | O_CLOEXEC | O_NOFOLLOW`.
pub const READ_ONLY: usize = 0o2_000_000 | NO_LINK;

/// `O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC`; no link is followed to a new file.
pub const NEW_FILE: usize = 0o2_000_302;

/// `O_RDWR | O_CLOEXEC | O_NOFOLLOW`.
pub const OLD_FILE: usize = 0o2_000_002 | NO_LINK;

/// `O_PATH | O_CLOEXEC`: a folder, to open files in.
pub const FOLDER: usize = 0o12_000_000;

/// `O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW`: a pipe that nobody reads can't be opened so.
pub const WRITE_ONLY_AT_ONCE: usize = 0o2_004_001 | NO_LINK;

/// Mode of what is made: recorded data is its owner's.
const OWNER_ONLY: usize = 0o600;

/// `AT_FDCWD`.
const HERE: usize = -100isize as usize;

/// Opens the file of a NUL-terminated path.
pub fn open(path: &[u8], flags: usize) -> Option<i32> {
    try_open(path, flags).ok()
}

/// Closes a descriptor of ours.
pub fn close(fd: i32) {
    // SAFETY: only ever called with descriptors that this crate opened.
    unsafe { call(number::CLOSE, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Which file a descriptor is of: device and inode; `None` if it is closed.
// Layout: struct stat begins with `unsigned long st_dev, st_ino` on both. Source: linux arch/x86/include/uapi/asm/stat.h,
// include/uapi/asm-generic/stat.h.
pub fn identity(fd: i32) -> Option<[u64; 2]> {
    const STAT_WORDS: usize = 18;
    let mut stat = [0u64; STAT_WORDS];
    // SAFETY: the kernel writes at most 144 bytes there.
    let answer = unsafe { call(number::FSTAT, [fd as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    (answer == 0).then_some([stat[0], stat[1]])
}

/// Opens a file in the folder of a descriptor; the path ends in NUL. The errno if it can't be opened.
pub fn try_open_in(folder: i32, path: &[u8], flags: usize) -> Result<i32, i32> {
    if path.last() != Some(&0) {
        return Err(space::EBADF);
    }
    // SAFETY: the path ends in NUL, as was just checked.
    let fd =
        unsafe { call(number::OPENAT, [folder as usize, path.as_ptr() as usize, flags, OWNER_ONLY, 0, 0]) };
    space::result(fd).map(|fd| fd as i32)
}

/// Opens a file whose NUL-terminated path begins in the current folder; the errno if that fails.
pub fn try_open(path: &[u8], flags: usize) -> Result<i32, i32> {
    try_open_in(HERE as i32, path, flags)
}

/// Removes a file of ours; the path ends in NUL.
pub fn unlink(path: &[u8]) {
    if path.last() == Some(&0) {
        // SAFETY: the path ends in NUL, and names a file that this process made.
        unsafe { call(number::UNLINKAT, [HERE, path.as_ptr() as usize, 0, 0, 0, 0]) };
    }
}

/// Reads into `to`; the number of bytes, 0 at the end or on an error.
pub fn read(fd: i32, to: &mut [u8]) -> usize {
    // SAFETY: the kernel writes at most `to.len()` bytes there.
    let n = unsafe { call(number::READ, [fd as usize, to.as_mut_ptr() as usize, to.len(), 0, 0, 0]) };
    n.max(0) as usize
}

/// Writes `from`; the number of bytes taken, 0 on an error.
pub fn write(fd: i32, from: &[u8]) -> usize {
    // SAFETY: the kernel reads `from.len()` bytes there.
    let n = unsafe { call(number::WRITE, [fd as usize, from.as_ptr() as usize, from.len(), 0, 0, 0]) };
    n.max(0) as usize
}

/// Cuts the file off at `bytes`. (Growing it takes [`space::allocate`].)
pub fn truncate(fd: i32, bytes: u64) -> bool {
    // SAFETY: changes only a file of ours.
    unsafe { call(number::FTRUNCATE, [fd as usize, bytes as usize, 0, 0, 0, 0]) == 0 }
}

/// Gives the space of a file's bytes from `from` up to `to` back; they read as 0.
pub fn punch(fd: i32, from: u64, to: u64) {
    const KEEP_SIZE_PUNCH_HOLE: usize = 3;
    let bytes = to.saturating_sub(from) as usize;
    // SAFETY: changes only a file of ours; all that the thread still maps is after `to`.
    unsafe { call(number::FALLOCATE, [fd as usize, KEEP_SIZE_PUNCH_HOLE, from as usize, bytes, 0, 0]) };
}

/// The text of a symbolic link; the number of bytes.
pub fn read_link(path: &[u8], to: &mut [u8]) -> usize {
    if path.last() != Some(&0) {
        return 0;
    }
    // SAFETY: the path ends in NUL and the kernel writes at most `to.len()` bytes.
    let n = unsafe {
        call(number::READLINKAT, [HERE, path.as_ptr() as usize, to.as_mut_ptr() as usize, to.len(), 0, 0])
    };
    n.max(0) as usize
}
