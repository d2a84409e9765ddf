//! A file system of the kernel's own, mounted for this process alone: no folder of the machine changes, and the mount
//! ends with the process.
// Source: linux v6.18 include/uapi/linux/mount.h; fs/fsopen.c (all three calls exist since 5.2).

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;

const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
/// No set-user-ID programs, no devices, no programs at all.
const MOUNT_ATTRIBUTES: libc::c_uint = 0x2 | 0x4 | 0x8;

/// The root of a new mount of the file system `kind`, such as `tracefs`. Names below it are reached through
/// `/proc/self/fd`.
///
/// # Errors
/// Without CAP_SYS_ADMIN, before Linux 5.2, or if the kernel has no such file system.
pub fn private(kind: &CStr) -> io::Result<File> {
    // SAFETY: fsopen reads the string, which ends with a zero, and returns a new descriptor or -1.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })?;
    let no_text: *const libc::c_char = ptr::null();
    let fd = context.as_raw_fd();
    // SAFETY: fsconfig with the command to create takes neither key nor value.
    let created = unsafe { libc::syscall(libc::SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, no_text, no_text, 0) };
    if created < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fsmount takes three numbers and returns a new descriptor or -1.
    let mount = unsafe { libc::syscall(libc::SYS_fsmount, fd, FSMOUNT_CLOEXEC, MOUNT_ATTRIBUTES) };
    owned(mount).map(File::from)
}

/// The descriptor a system call returned.
fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(result) {
        // SAFETY: the kernel has just made this descriptor, and nobody else has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_file_system_is_an_error() {
        assert!(private(c"no-such-file-system").is_err());
    }
}
