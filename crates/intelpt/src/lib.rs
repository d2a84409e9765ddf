//! Intel Processor Trace: bytes → packets → executed branches, given an [`Image`] of the code.
//!
//! **Duties.** Parse and encode every packet; follow the program's flow through its own instructions; keep
//! time; resume at the next PSB after anything that does not fit, and report what was lost.
//! **Out of scope.** No I/O, no perf.data, no symbols. Addresses are the SDM's `ip: u64`; the caller knows which
//! process and file they belong to.
//!
//! Read packets:
//!
//! ```
//! use intelpt::{Packet, Packets, encode, find_psb};
//!
//! let mut trace = vec![0xff; 3]; // the buffer wrapped within a packet
//! for packet in [Packet::Psb, Packet::Tsc(0x1234), Packet::PsbEnd] {
//!     encode(&packet, &mut trace);
//! }
//! let begin = find_psb(&trace, 0).expect("a boundary");
//! let packets: Result<Vec<_>, _> = Packets::new(&trace, begin).collect();
//! let packets: Vec<Packet> = packets?.into_iter().map(|(_offset, packet)| packet).collect();
//! assert_eq!(packets, [Packet::Psb, Packet::Tsc(0x1234), Packet::PsbEnd]);
//! # Ok::<(), intelpt::PacketError>(())
//! ```
//!
//! [`Flow`] follows the program through its code by these packets.
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
mod perf_flags;
mod ret_stack;
mod time;
mod tnt;

pub use block::{BlockCache, BlockEnd, Image, MissingCode};
pub use encoder::encode;
pub use erratum::{Errata, Erratum};
pub use flow::{Flow, FlowError, FlowEvent, FlowKind, Gap};
pub use last_ip::LastIp;
pub use packet::{Ip, Packet, PacketError};
pub use packets::{Packets, find_psb, snapshot_overlap};
pub use perf_flags::{branch_word, instruction_len};
pub use time::{Time, TimeParams};
