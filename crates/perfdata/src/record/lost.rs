//! Records about the measurement itself: losses, throttling, counter values at a task's end.

use crate::sample::ReadGroup;
use crate::wire::{Put, Wire};

/// Records were dropped because the ring was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Event id.
    pub id: u64,
    /// How many records.
    pub lost: u64,
}

/// The event was stopped or started again because it fired too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Throttle {
    /// When, ns of the recording's clock.
    pub time_ns: u64,
    /// Event id.
    pub id: u64,
    /// Id of this very file descriptor's event.
    pub stream_id: u64,
}

impl Throttle {
    pub(super) fn parse(w: &mut Wire<'_>) -> Option<Self> {
        Some(Throttle { time_ns: w.u64()?, id: w.u64()?, stream_id: w.u64()? })
    }

    pub(super) fn write(&self, p: &mut Put) {
        for v in [self.time_ns, self.id, self.stream_id] {
            p.u64(v);
        }
    }
}

/// Counter values at a task's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read<'a> {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The values.
    pub values: ReadGroup<'a>,
}

impl<'a> Read<'a> {
    pub(super) fn parse(w: &mut Wire<'a>, read_format: u64) -> Option<Self> {
        Some(Read { pid: w.u32()?, tid: w.u32()?, values: ReadGroup::parse(w, read_format)? })
    }

    pub(super) fn write(&self, p: &mut Put, read_format: u64) {
        p.u32(self.pid);
        p.u32(self.tid);
        self.values.write(p, read_format);
    }
}
