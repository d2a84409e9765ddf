//! The one textual form of records: what `tally dump` prints is what tests write ("session text").
//!
//! One record a line: its kind, `PID/TID`, then `KEY=VALUE` words, then a name to the line's end. Empty lines and
//! lines beginning with `#` are skipped.
//!
//! ```text
//! event cpu-clock type=1 config=0 period=1000 ids=7
//! comm 7/7 t=1 exec sh
//! mmap2 7/7 t=1 [0x1000,0x2000) off=0x1000 /bin/sh
//! fork 8/8 parent=7/7 t=2
//! sample 7/7 t=3 cpu=0 period=10 chain=kernel,0xffffffff81000010,user,0x1010,0x1020
//! switch 7/7 t=4 out preempt
//! lost 7/7 t=5 n=12
//! exit 7/7 parent=1/1 t=9
//! round
//! ```
//!
//! Without an `event` line there is one event, `cpu-clock`, whose `sample_type` has the bits the lines use.
//! A sample's `ip` is its chain's first address unless given, its mode that of the address. Records without a form of
//! their own are `record type=N misc=N bytes=HEX`, with their whole payload.

mod event;
mod foreign;
pub mod glob;
mod parse;
mod print;
mod sample;
mod utc_time;
mod words;

pub use foreign::{harmless, is_plain_ascii, spell, spelled};
pub use parse::{TextError, to_perf_data};
pub use print::{StackText, is_unseen, write_event, write_item};
pub use utc_time::UtcTime;
pub use words::TextProblem;
