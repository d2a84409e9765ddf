//! From a perf.data file to a profile with names.
//!
//! **Duties.** Open the object files that mappings name, each once ([`ObjectFiles`]); unwind user stacks
//! ([`StackUnwinder`]) and symbolize frames ([`symbolize`]) on all cores; read a whole file so ([`load`]).
//!
//! **Excluded.** No flags, no printing: what is damaged or missing is in the values returned.
//!
//! ```
//! # let path = std::path::Path::new("../../tests/golden/timeline/wait.data");
//! let map = dso::MappedFile::open(path)?;
//! let file = perfdata::PerfData::open(&map)?;
//! let opts = symbols::LoadOpts { names: symbols::NameOpts::from_env(), ..Default::default() };
//! let profile = symbols::load(&file, opts).profile;
//! for section in &profile::view::report::report(&profile, &Default::default()).sections {
//!     for row in section.rows.iter().take(5) {
//!         let names = section.keys.iter().zip(&row.values).map(|(key, value)| profile.value_text(key, value));
//!         println!("{:>12} {}", row.own[0].period, names.collect::<Vec<_>>().join("  "));
//!     }
//! }
//! # assert!(profile.missing_names().is_empty() || profile.symbols.len() > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod archive;
pub mod data_symbols;
pub mod inject;
mod jit_names;
pub mod listing;
pub mod name_hints;
mod name_opts;
mod object_files;
mod recorded_kernel;
mod recording;
mod sampled_lines;
mod shown_name;
mod stack_unwinder;
mod tracepoint_format;
mod unnamed_code;

pub use name_opts::debuginfod::why_not as why_nothing_is_fetched;
pub use name_opts::{NameForm, NameOpts};
pub use object_files::{ObjectFiles, function_around, svma_of, symbolize, symbolize_from, unbracketed};
pub use recorded_kernel::kernel_of;
pub use recording::{LoadOpts, ReadProgress, Recording, load, load_watched, name_all, session_of};
pub use sampled_lines::{NoSuchBinary, SampledLines, declared_lines, sampled_lines};
pub use stack_unwinder::StackUnwinder;
pub use tracepoint_format::FileFormats;
pub use unnamed_code::{UnnamedCode, is_unnamed_jit_code, name_unnamed};
