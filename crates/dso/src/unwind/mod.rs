//! Unwinding: registers + a copy of the stack → return addresses.
//!
//! Three parts: [`UnwindInfo`] has the rules of one object file (shared by all processes), [`AddressSpace`] has
//! the mappings of one process, [`Unwinder`] walks and keeps the rule cache (one per thread). Nothing here does
//! I/O while walking, and no input makes it panic or loop.

mod arch;
pub(crate) mod arm;
pub(crate) mod cfi;
mod code_rule;
#[cfg(test)]
mod corpus_test;
mod eh_table;
#[cfg(test)]
mod endless_test;
mod expression;
mod frame_pointer;
mod frame_step;
mod go_program;
mod go_runtime;
mod goroutine_layout;
mod made_frames;
mod registers;
mod rule;
mod rule_cache;
mod shared_rules;
mod sigreturn;
mod space;
mod stack;
mod start_code;
mod stop;
mod trail;
mod walk;

pub use go_program::{GoFrame, GoProgram};
pub use go_runtime::GoStackChange;
pub use goroutine_layout::GoroutineLayout;
pub use made_frames::{FrameSize, MadeFrame};
pub use registers::{Aarch64, Arm32, Regs, X86_64};
pub use space::{AddressSpace, UnwindInfo};
pub use stack::Stack;
pub use stop::{Stop, Which};
pub use walk::Unwinder;
