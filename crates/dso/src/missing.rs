//! Why an address has no name, or a frame no line: data to be counted and shown, not an error.

use thiserror::Error;

/// Why symbolizing came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
#[non_exhaustive]
pub enum Missing {
    /// The file is not there (deleted, another machine, another container).
    #[error("file not found")]
    NoFile,
    /// The file is there but may not be read.
    #[error("no permission to read the file")]
    NoPermission,
    /// The file exists but isn't an ELF file we can read.
    #[error("not an ELF file")]
    NotElf,
    /// At the path is a pipe, a device, a directory or the like.
    #[error("not a regular file")]
    NotRegular,
    /// The file is larger than any of its kind, or consists of holes.
    #[error("file too large, or sparse")]
    TooLarge,
    /// The map file belongs to a user who may have planted it.
    #[error("perf map owned by another user (report -f reads it)")]
    ForeignOwner,
    /// The file at that path is another build than the one recorded.
    #[error("file changed since recording (build-id differs)")]
    BuildIdMismatch,
    /// The file became shorter while it was read.
    #[error("file truncated while it was read")]
    FileShrank,
    /// The file has neither .symtab nor .dynsym nor .gnu_debugdata, and no debug file was found.
    #[error("no symbol table")]
    NoSymbolTable,
    /// There are symbols, none of which covers the address.
    #[error("no symbol at the address")]
    NoSymbolAt,
    /// The address is outside all segments of the file.
    #[error("address outside the file's segments")]
    OutsideSegments,
    /// /proc/kallsyms shows zeros: kernel.kptr_restrict or missing CAP_SYSLOG.
    #[error("kernel addresses hidden (kptr_restrict)")]
    KptrRestrict,
    /// No kallsyms to be read.
    #[error("no kernel symbols")]
    NoKallsyms,
    /// The recording is of another kernel than the running one, and that one's symbols are not in ~/.debug.
    #[error("another kernel than the running one")]
    OtherKernel,
    /// The kernel's code is not to be had: neither its vmlinux nor its memory.
    #[error(
        "the kernel's code is not readable (/proc/kcore needs root and CONFIG_PROC_KCORE; or give -k vmlinux)"
    )]
    NoKernelCode,
    /// JIT code is gone with its process; a perf-PID.map has names only.
    #[error("JIT code is not kept: a perf map has names only")]
    NoJitCode,
    /// No /tmp/perf-PID.map for JIT code.
    #[error("no perf-PID.map for JIT code")]
    NoPerfMap,
    /// The address belongs to anonymous memory.
    #[error("anonymous memory")]
    Anonymous,
    /// No DWARF for lines: the program was built without -g and no debug file was found.
    #[error("no debug info")]
    NoDebugInfo,
    /// There is DWARF, but not for this address.
    #[error("no line for the address")]
    NoLine,
}
