//! perf's ABI and the perf.data file: bytes to typed records and back.
//!
//! **Duties.** Know every byte the kernel and perf's user space write: `perf_event_attr`, all records, all
//! sample fields, the file and pipe containers, header features, tracing data; read them without copying
//! and write files that stock `perf` accepts.
//!
//! **What it does.** [`PerfData::open`] takes the bytes of a file (mapped by the caller) and
//! [`PerfData::visit`] hands out [`Item`]s in file or time order. [`Writer`] writes the same records.
//!
//! **What it will not do.** No processes, no symbols, no system calls, no file opening: those rooms are
//! elsewhere. It never panics on any input; damage is a typed [`Error`] with its offset, and what can be
//! salvaged is.
//!
//! Count the samples of a file by thread:
//!
//! ```
//! use perfdata::{Order, PerfData, Record};
//! use std::collections::BTreeMap;
//! use std::ops::ControlFlow;
//!
//! # let path = "../../tests/golden/timeline/wait.data";
//! let bytes = std::fs::read(path)?;
//! let file = PerfData::open(&bytes)?;
//! let mut samples: BTreeMap<Option<u32>, u64> = BTreeMap::new();
//! file.visit(Order::Time, |item| {
//!     if let Record::Sample(sample) = &item.record {
//!         *samples.entry(sample.pid_tid.map(|(_, tid)| tid)).or_default() += 1;
//!     }
//!     ControlFlow::Continue(())
//! });
//! for (tid, count) in &samples {
//!     println!("thread {tid:?}: {count} samples");
//! }
//! # assert!(samples.len() > 1 && samples.keys().all(Option::is_some));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation))]

pub mod abi;
mod addr;
pub mod appendix;
mod attr;
mod bounds;
mod error;
pub mod file;
#[doc(hidden)]
pub mod fuzz;
pub mod jitdump;
pub mod off_cpu;
pub mod record;
mod sample;
pub mod text;
pub mod tracepoint;
mod wire;

pub use addr::Avma;
pub use attr::{Attr, AttrFlags};
pub use error::Error;
pub use file::diagnostics::{FileDiagnostics, LostCount, LostKey};
pub use file::encode::record_to_bytes;
pub use file::features::Features;
pub use file::reader::{Item, Order, PerfData, ReadMode};
pub use file::writer::{Writer, WriterOpts};
pub use record::sample_id::SampleId;
pub use record::{PidTid, Record};
pub use sample::data_src::DataSource;
pub use sample::{
    Branch, BranchFlags, BranchStack, Callchain, ChainEntry, Context, CpuMode, GroupLayout, ReadGroup,
    ReadValue, Sample, SampleFormat, SampleRegs, UserStack, Weight,
};
pub use wire::{Endian, U64s};

/// One configured event of a recording: what was counted, under which ids its records come, and its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// How the event was opened.
    pub attr: Attr,
    /// The kernel's ids of all its file descriptors (one per CPU or thread); empty in old pipe files.
    pub ids: Vec<u64>,
    /// The name as recorded (`EVENT_DESC`, `EVENT_UPDATE`), else one derived from type and config.
    pub name: String,
}

impl Event {
    /// True if its samples have call chains; so have perf's own `offcpu-time` samples since 6.15, whose
    /// attribute does not have the bit.
    #[must_use]
    pub fn has_callchain(&self) -> bool {
        self.attr.samples(abi::PERF_SAMPLE_CALLCHAIN) || off_cpu::is_embedded(self)
    }
}
