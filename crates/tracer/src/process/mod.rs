//! The tracer in its process: its start, its options and files, and the C library's functions that it watches.
//!
//! Unit tests leave out the start and the functions that take the place of the C library's.

#[cfg(not(test))]
pub mod init;
#[cfg(not(test))]
pub mod interposed;
#[cfg(not(test))]
pub mod late_objects;
#[cfg(not(test))]
pub mod loading;
#[cfg(all(target_arch = "x86_64", not(test)))]
pub mod measure;
pub mod options;
pub mod own_stack;
pub mod recording_folder;
