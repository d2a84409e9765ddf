//! The C library's files, and the functions in which threads and programs begin.

/// Where threads begin.
const STARTS: &[&str] = &[
    "clone3",
    "clone",
    "__clone",
    "__GI___clone",
    "start_thread",
    "_start",
    "__libc_start",
    "std::sys::backtrace::__rust_begin_short",
    "std::sys_common::backtrace::__rust_begin_short",
];

/// Functions of the library in which a thread begins: `clone3` and `start_thread`.
pub(crate) const THREAD_STARTS: usize = 2;

/// True for functions in which threads and programs begin.
pub(crate) fn is_thread_start(name: &str) -> bool {
    STARTS.iter().any(|prefix| name.starts_with(prefix))
}

/// True for a function without a symbol in a C library's file.
pub(crate) fn is_unnamed_part(name: &str, short_name: &str) -> bool {
    dso::is_unnamed_function(name) && is_c_library(short_name)
}

/// True for a C library's file, by its short name.
#[must_use]
pub fn is_c_library(short_name: &str) -> bool {
    const C_LIBRARY: [&str; 5] = ["libc.so", "libc-2.", "libpthread", "ld-linux", "ld-musl"];
    C_LIBRARY.iter().any(|begin| short_name.starts_with(begin))
}
