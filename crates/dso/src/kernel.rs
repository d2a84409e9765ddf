//! The kernel's own code: its symbols, its modules, its memory, and the vdso that it maps into every process.

pub mod kallsyms;
pub mod kcore;
pub(crate) mod modules;
pub(crate) mod recorded_kernel;
pub mod vdso;
