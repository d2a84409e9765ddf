//! Event sources on a live Linux: the room for system calls.
//!
//! The crate opens events, reads their rings, describes the running machine as records, unwinds user stacks while
//! recording, and writes the perf.data file. It doesn't resolve symbols, aggregate or print.
//!
//! `unsafe` is allowed under [`sys`] only.
//!
//! ```
//! use record::event::{SystemSource, parse};
//!
//! let events = parse("cpu-clock:u,context-switches", &SystemSource::new())?;
//! assert_eq!(events.len(), 2);
//! assert!(parse("cpu-clok", &SystemSource::new()).is_err());
//! # Ok::<(), record::event::Error>(())
//! ```

pub mod accounting;
pub mod calls;
pub mod error;
pub mod event;
pub mod files;
pub mod fuzz;
pub mod machine;
pub mod off_cpu;
pub mod open;
pub mod pipeline;
pub mod pt;
pub mod runtimes;
pub mod session;
#[allow(unsafe_code)]
pub mod sys;
pub mod syscalls;

pub use accounting::summary::RunSummary;
pub use accounting::{disk_watch, summary, system};
pub use error::Error;
pub use files::{features, output, output_file, packed, scratch};
pub use machine::{cgroups, container_names, doctor, named_processes, proc, process_tree};
pub use open::target::{Target, Whom};
pub use open::{plan, target};
pub use pipeline::{queue, ring_reader, worker};
pub use session::opts::RecordOpts;
pub use session::{control, count, opts, record, stop_signals};
