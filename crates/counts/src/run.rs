//! Counts of one run or interval.

use crate::frame::EventInfo;
use crate::reading::CountPlace;
use crate::total::{EventReadings, Grouping};

/// Counts of one run, or of one interval of it.
#[derive(Debug)]
pub struct CountedRun {
    /// One per event.
    pub readings: Vec<EventReadings>,
    /// How places group.
    pub grouping: Grouping,
    /// Where the counters of each event are.
    pub places: Vec<CountPlace>,
    /// The events as counted.
    pub infos: Vec<EventInfo>,
    /// Length, in ns.
    pub wall_ns: u64,
    /// End since the start of the run, in ns.
    pub at_ns: u64,
}
