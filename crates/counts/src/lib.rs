//! Counts of events without samples: readings of many places summed up, related to each other, averaged, compared.
//!
//! [`Grouping`] sums readings up by CPU, core, socket or thread; [`metrics`] relates counts to each other; [`Average`],
//! [`Series`] and [`Pairing`] are the statistics of several runs; [`CountWriter`] puts counts into a perf.data, [`reread()`] takes them out. Pure: no
//! event is opened here.
//!
//! The mean of three runs, with the interval that it is in with 95 % certainty:
//!
//! ```
//! let mut runs = counts::Series::default();
//! [10.0, 12.0, 11.0].into_iter().for_each(|seconds| runs.push(seconds));
//! let (low, high) = runs.interval_95().expect("several runs");
//! assert_eq!(runs.mean(), 11.0);
//! assert!(low < 10.0 && high > 12.0);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod count_writer;
mod cpu_list;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod metric;
mod pairing;
mod reading;
mod reread;
mod run;
mod series;
mod total;

pub use count_writer::{CountFileOpts, CountWriter};
pub use cpu_list::parse_cpu_list;
pub use frame::{Aggregation, Block, Cell, Count, CountFrame, CountKey, CountRole, EventInfo};
pub use metric::{Metric, metrics};
pub use pairing::Pairing;
pub use reading::{CountPlace, CpuPlace, Reading, Support};
pub use reread::{AGGREGATIONS, Reread, aggregation_of, reread};
pub use run::CountedRun;
pub use series::Series;
pub use total::{Average, EventReadings, Grouping, Topology};
