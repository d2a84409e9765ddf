//! Unwinding: registers + a copy of the stack → return addresses.
//!
//! Three parts: [`UnwindInfo`] is what one object file says (shared by all processes), [`AddressSpace`] is which
//! of them lies where in one process, [`Unwinder`] walks and keeps the rule cache (one per thread).
//! Nothing here does I/O while walking, and no input makes it panic or loop.

mod arch;
mod cfi;
#[cfg(test)]
mod corpus_test;
mod expression;
mod frame_pointer;
mod registers;
mod rule;
mod rule_cache;
mod space;
mod start_code;
mod walk;

pub use registers::{Aarch64, Regs, X86_64};
pub use space::{AddressSpace, UnwindInfo};
pub use walk::{Stack, Stop, Unwinder, Which};
