//! How samples of each event of a recording are taken.

use crate::off_cpu::EventKind;
use crate::profile::Profile;
use crate::tracepoints::block_io::BlockTracepoint;
use perfdata::Event;

use super::SessionOpts;

/// Facts of one event.
pub(super) struct EventTraits {
    /// Its branch stack is its call chain.
    pub is_call_stack_lbr: bool,
    /// Period of samples without one of their own.
    pub fixed_period: u64,
    /// Data about waits.
    pub off_cpu: EventKind,
    /// Data about block I/O, where that was requested.
    pub block_io: Option<BlockTracepoint>,
}

impl EventTraits {
    fn of(event: &Event, opts: &SessionOpts) -> Self {
        use perfdata::abi::PERF_SAMPLE_BRANCH_CALL_STACK;
        Self {
            is_call_stack_lbr: event.attr.branch_sample_type & PERF_SAMPLE_BRANCH_CALL_STACK != 0,
            fixed_period: event.attr.sample_period,
            off_cpu: EventKind::of(&event.name),
            block_io: BlockTracepoint::of(&event.name).filter(|_| opts.dimensions.block_io),
        }
    }
}

/// The events of a recording, in its order.
pub(super) struct SessionEvents {
    by_index: Vec<EventTraits>,
    /// The event that samples running time, where its moments are kept.
    clock: Option<usize>,
}

impl SessionEvents {
    /// Events of `events`, which `profile` has already.
    pub fn new(events: &[Event], profile: &Profile, opts: &SessionOpts) -> Self {
        Self {
            by_index: events.iter().map(|event| EventTraits::of(event, opts)).collect(),
            clock: profile.clock_event().filter(|_| opts.dimensions.seen_running),
        }
    }

    /// `event` is one of the recording's.
    pub fn of(&self, event: usize) -> &EventTraits {
        &self.by_index[event]
    }

    /// False for an event that the recording does not have.
    pub fn is_call_stack_lbr(&self, event: usize) -> bool {
        self.by_index.get(event).is_some_and(|event| event.is_call_stack_lbr)
    }

    pub fn is_clock(&self, event: usize) -> bool {
        self.clock == Some(event)
    }

    /// True if one of the events has such data about waits.
    pub fn has(&self, kind: EventKind) -> bool {
        self.by_index.iter().any(|event| event.off_cpu == kind)
    }

    /// Recorded tracepoints of the block layer.
    pub fn block_tracepoints(&self) -> impl Iterator<Item = BlockTracepoint> {
        self.by_index.iter().filter_map(|event| event.block_io)
    }
}
