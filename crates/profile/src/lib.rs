//! Profiles: perf records applied to a model of the machine, their samples summed up, views answered with rows.
//!
//! **Duties.** Apply state records to a [`machine::MachineState`], resolve samples against the state of
//! their moment, intern frames and paths, sum periods in a [`profile::Profile`], and answer views
//! with rows.
//!
//! **Excluded.** No I/O, no clock, no environment, no threads, no dependence on hash order: the same records in give
//! byte-identical rows out. Object files are requested through [`source::DsoSource`]. Work for several threads
//! (unwinding, symbolizing) is handed out in batches that the caller may run anywhere.
//!
//! Sum up a recording by program, without opening any object file:
//!
//! ```
//! use perfdata::{Order, PerfData};
//! use profile::Session;
//! use profile::reason::StackEnd;
//! use profile::session::UnwoundStack;
//! use profile::view::report::{ReportOpts, report};
//! use std::ops::ControlFlow;
//!
//! # let path = "../../tests/golden/timeline/wait.data";
//! let bytes = std::fs::read(path)?;
//! let file = PerfData::open(&bytes)?;
//! let mut session = Session::new(file.events(), file.endian(), Default::default());
//! file.visit(Order::Time, |item| {
//!     // A job is a copied user stack. Nothing unwinds it here, so its sample keeps its kernel frames alone.
//!     if let Some(job) = session.push(item) {
//!         let unwound = UnwoundStack { addrs: &[], exact: &[], known: &[], end: StackEnd::NoUserStack };
//!         session.complete(job, &unwound);
//!     }
//!     ControlFlow::Continue(())
//! });
//! let profile = session.finish();
//! for section in &report(&profile, &ReportOpts::default()).sections {
//!     for row in &section.rows {
//!         let names = section.keys.iter().zip(&row.values).map(|(key, value)| profile.value_text(key, value));
//!         println!("{:>12} {}", row.own[0].period, names.collect::<Vec<_>>().join("  "));
//!     }
//! }
//! # assert!(report(&profile, &ReportOpts::default()).sections.iter().any(|section| !section.rows.is_empty()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod bounds;
pub mod callchain;
#[doc(hidden)]
pub mod fuzz;
pub mod grow;
pub mod machine;
pub mod off_cpu;
pub mod profile;
pub mod reason;
pub mod session;
pub mod source;
pub mod symbolize;
pub mod table;
pub mod tracepoints;
pub mod verdict;
pub mod view;

pub use profile::Profile;
pub use session::Session;
