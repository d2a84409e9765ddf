//! Machine code that is read: as text for a listing, and for facts about a function (its ends, its calls, where its
//! arguments are).

pub mod disasm;
pub mod flow;
pub mod function_starts;
pub mod got_usage;
pub(crate) mod reached_end;
mod regs_aarch64;
pub(crate) mod ruby_waits;
pub mod value_tracking;
