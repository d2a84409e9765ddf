//! Page size, resource limits and our own use of resources.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;

use super::wide;

/// The page size of this machine, in bytes.
#[must_use]
pub fn page_bytes() -> usize {
    // SAFETY: sysconf takes a number and returns one.
    let n = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(n).unwrap_or(4096)
}

/// The limit of open files that we were started with, once it was raised.
static OPEN_FILES_BEFORE: OnceLock<libc::rlimit> = OnceLock::new();

/// Open files that are enough: an event for each function of a large program. The usual hard limit without systemd is 4096.
const MANY_OPEN_FILES: u64 = 65_536;

/// Raises the soft limit of open files to the hard limit, which root raises as well if it is low. Returns the limit now in
/// force. A [`super::Child`] gets the limit that we were started with.
pub fn raise_open_files() -> io::Result<u64> {
    let limit = limit_of(libc::RLIMIT_NOFILE)?;
    OPEN_FILES_BEFORE.get_or_init(|| limit);
    let most = wide(limit.rlim_max);
    let many = most.max(MANY_OPEN_FILES);
    if set_open_files(many, many).is_ok() {
        return Ok(many);
    }
    set_open_files(most, most)?;
    Ok(most)
}

fn set_open_files(soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: soft as libc::rlim_t, rlim_max: hard as libc::rlim_t };
    // SAFETY: the pointer is to a live rlimit.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }).map(drop)
}

/// Limit of open files for a child; `None`: as ours.
pub(super) fn open_files_before() -> Option<libc::rlimit> {
    OPEN_FILES_BEFORE.get().copied()
}

/// A limit's number, as the C library's functions take it.
#[cfg(target_env = "musl")]
type LimitNumber = libc::c_int;
#[cfg(not(target_env = "musl"))]
type LimitNumber = libc::__rlimit_resource_t;

fn limit_of(which: LimitNumber) -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit.
    check(unsafe { libc::getrlimit(which, &mut limit) })?;
    Ok(limit)
}

/// Whether address space or data of this process has a limit.
#[must_use]
pub fn is_memory_limited() -> bool {
    let is_limited = |which| limit_of(which).is_ok_and(|limit| limit.rlim_cur != libc::RLIM_INFINITY);
    is_limited(libc::RLIMIT_AS) || is_limited(libc::RLIMIT_DATA)
}

/// Has all threads allocate from one heap: glibc otherwise reserves 64 MB of address space for each thread.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers and sets a limit that later allocations look at.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Bytes of address space that we may still map under `RLIMIT_AS`; `None` without a limit.
#[must_use]
pub fn address_space_left() -> Option<u64> {
    let limit = limit_of(libc::RLIMIT_AS).ok().filter(|limit| limit.rlim_cur != libc::RLIM_INFINITY)?;
    let pages = dso::system_file::read_text("/proc/self/statm").ok()?;
    let mapped = pages.split(' ').next()?.parse::<u64>().ok()? * page_bytes() as u64;
    Some(wide(limit.rlim_cur).saturating_sub(mapped))
}

/// A folder, locked for us until the returned value is dropped; `None` if another process has locked it.
///
/// # Errors
/// If it doesn't exist or isn't a folder.
pub fn lock_folder(path: &Path) -> io::Result<Option<File>> {
    let folder = File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)?;
    // SAFETY: takes numbers only; the descriptor is open.
    match check(unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(()) => Ok(Some(folder)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Gives the room of a part of a file back to the file system: it reads as zeros from here on.
///
/// # Errors
/// `EOPNOTSUPP` where the file system can't.
pub fn give_back(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: the descriptor is open for as long as `file` lives; the other arguments are plain numbers.
    check(unsafe { libc::fallocate(file.as_raw_fd(), mode, from as libc::off_t, bytes as libc::off_t) })
}

/// Makes a file system that copies on write (btrfs) keep the files to be made in this folder in place: of bytes that were
/// allocated once, each write would need space again, and a mapped page that gets none raises SIGBUS.
///
/// # Errors
/// `EOPNOTSUPP` or `ENOTTY` where there is nothing to change.
// Source: linux include/uapi/linux/fs.h: FS_NOCOW_FL.
pub fn keep_files_in_place(folder: &Path) -> io::Result<()> {
    const FS_NOCOW_FL: libc::c_int = 0x0080_0000;
    let folder = File::open(folder)?;
    let mut flags: libc::c_int = 0;
    // SAFETY: the pointer is to a live int, which is what the kernel writes whatever the request's name suggests.
    check(unsafe { libc::ioctl(folder.as_raw_fd(), libc::FS_IOC_GETFLAGS, &mut flags) })?;
    flags |= FS_NOCOW_FL;
    // SAFETY: as above, read.
    check(unsafe { libc::ioctl(folder.as_raw_fd(), libc::FS_IOC_SETFLAGS, &flags) })
}

/// Resources that this process, or its children, used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnUse {
    /// CPU time in user mode, in ns.
    pub user_ns: u64,
    /// CPU time in the kernel, in ns.
    pub system_ns: u64,
    /// Largest resident memory so far, in bytes.
    pub peak_memory_bytes: u64,
}

impl OwnUse {
    /// In user mode and in the kernel, ns.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }
}

/// Our own CPU time and memory (all threads, without children).
#[must_use]
pub fn own_use() -> OwnUse {
    use_of(libc::RUSAGE_SELF)
}

/// That of our children that have ended and been waited for, and of theirs.
#[must_use]
pub fn children_use() -> OwnUse {
    use_of(libc::RUSAGE_CHILDREN)
}

fn use_of(whose: libc::c_int) -> OwnUse {
    // SAFETY: an all-zero rusage is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage.
    if check(unsafe { libc::getrusage(whose, &mut usage) }).is_err() {
        return OwnUse::default();
    }
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000;
    OwnUse {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        peak_memory_bytes: usage.ru_maxrss as u64 * 1024,
    }
}

/// Our effective user id; 0 is root.
#[must_use]
pub fn effective_uid() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() }
}

/// Bytes that we may still write into the file system that holds `path`.
pub fn free_disk_bytes(path: &Path) -> io::Result<u64> {
    let disk = file_system(path)?;
    Ok(wide(disk.f_bavail).saturating_mul(wide(disk.f_frsize)))
}

/// Whether code in files of the file system that holds `path` may be mapped: it isn't mounted `noexec`.
#[must_use]
pub fn may_hold_code(path: &Path) -> bool {
    file_system(path).is_ok_and(|disk| disk.f_flag & libc::ST_NOEXEC == 0)
}

fn file_system(path: &Path) -> io::Result<libc::statvfs> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: an all-zero statvfs is a valid value.
    let mut disk: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a NUL-terminated path and a pointer to a live statvfs.
    check(unsafe { libc::statvfs(path.as_ptr(), &mut disk) })?;
    Ok(disk)
}

/// True if descriptor `fd` (0, 1, 2) is a terminal.
#[must_use]
pub fn is_terminal(fd: i32) -> bool {
    // SAFETY: takes a number; a closed descriptor only yields 0.
    unsafe { libc::isatty(fd) == 1 }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
