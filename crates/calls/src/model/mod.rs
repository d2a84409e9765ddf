//! Traced calls: entries and exits replayed into a tree of calls with counts and times.
//!
//! One model for every tracer (compiled-in calls, sleds, probes, Intel PT): a thread's steps in time order go
//! into a [`Replay`], which yields each finished [`Call`] and adds it up in a [`CallProfile`].
//! Knows no addresses and no symbols: functions are numbers given by the caller.

mod diff;
mod histogram;
mod replay;
mod replay_gate;
mod totals;
mod traced;
mod tree;
mod tree_builder;
mod uftrace;

pub use diff::{CallSums, DiffRow, DiffUnit, diff};
pub use histogram::DurationHistogram;
pub use replay::{Call, End, Extra, ExtraKind, Replay, Step};
pub use replay_gate::{Asked, CallFilters, Filter, Passage, ReplayGate, TimeWindow};
pub use totals::FunctionTotals;
pub use traced::{FileGrowth, RawStep, ReadPlace, Steps, ThreadFile, TracedError, TscClock};
pub use tree::{CallNode, CallProfile, CallStats, NodeId, SlowCall};
pub use uftrace::{UftraceSteps, UftraceValue, UftraceValues, parse_uftrace};

/// A function, numbered by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);
