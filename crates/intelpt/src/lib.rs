//! Intel Processor Trace: bytes → packets → executed branches, given an [`Image`] of the code.
//!
//! **Duties.** Parse and encode every packet; follow the program's flow through its own instructions; keep
//! time; resume at the next PSB after anything that does not fit, and report what was lost.
//! **Out of scope.** No I/O, no perf.data, no symbols. Addresses are the SDM's `ip: u64`; the caller knows which
//! process and file they belong to.
//
// Source of all layouts: Intel SDM Vol. 3C, chapter "Intel Processor Trace", "Trace Packets and Data Types".
#![forbid(unsafe_code)]

mod block;
mod encoder;
mod erratum;
mod flow;
#[doc(hidden)]
pub mod fuzz;
mod last_ip;
mod packet;
mod packets;
mod ret_stack;
mod time;
mod tnt;
mod words;

pub use block::{BlockCache, Branch, Image, Missing};
pub use encoder::encode;
pub use erratum::{Errata, Erratum};
pub use flow::{Event, Flow, FlowError, Gap, What};
pub use last_ip::LastIp;
pub use packet::{Ip, Packet, PacketError};
pub use packets::{Packets, find_psb, told_again};
pub use time::{Time, TimeParams};
pub use words::{branch_word, instruction_len};
