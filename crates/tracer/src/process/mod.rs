//! The tracer in its process: its start, its options and files, and the C library's functions that it watches.

pub mod init;
pub mod interposed;
pub mod late_objects;
pub mod loading;
#[cfg(target_arch = "x86_64")]
pub mod measure;
pub mod options;
pub mod own_stack;
pub mod recording_folder;
