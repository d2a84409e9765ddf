//! Intel PT recordings: the records next to the trace, and the flow turned into traced calls.
//!
//! [`Sideband`] is read from the records once: buffers, clock, who ran where, what was mapped. [`FlowReplay`]
//! turns one thread's branches into the steps of `model`.
//!
//! [`Trace`] decodes on all cores and replays into calls as it goes: neither branches nor steps are kept, so memory is
//! bounded by distinct paths, not by the length of the trace. `pieces` cuts the trace, `decode` decodes a piece,
//! `stream` does so on all cores and hands out in the order of time, `threads` turns branches into steps, `indexed` does
//! so again for views of single calls. The code comes from `image`.

mod buffer;
mod code;
mod decode;
mod filter;
mod flow_replay;
mod image;
mod indexed;
mod info;
mod jit;
mod kernel;
mod kinds;
pub mod lines;
mod made;
mod occupancy;
mod pieces;
mod sideband;
mod stream;
mod switch_samples;
mod threads;
mod trace;
mod walk;

pub use buffer::Buffer;
pub use code::{CodeMapping, MadeCode};
pub use flow_replay::{FlowReplay, Move};
pub use indexed::Indexed;
pub use info::{PtError, Timing, TraceSetup, TscClock};
pub use made::Poke;
pub use sideband::Sideband;
pub use trace::{Note, Resolution, Summed, Trace, TraceOutcome, TraceSelection};
