//! Intel PT recordings: the records next to the trace, and the flow turned into traced calls.
//!
//! [`Sideband`] is read from the records once: buffers, clock, who ran where, what was mapped. [`FlowReplay`]
//! turns one thread's branches into the steps of `model`. Decoding itself is `intelpt`'s; object files and
//! threads are the caller's.

mod buffer;
mod code;
mod flow_replay;
mod info;
mod made;
mod occupancy;
mod sideband;
mod switch_samples;

pub use buffer::Buffer;
pub use code::{CodeMapping, MadeCode};
pub use flow_replay::{FlowReplay, Move};
pub use info::{PtError, Setup, Timing, TscClock};
pub use made::Poke;
pub use sideband::Sideband;
