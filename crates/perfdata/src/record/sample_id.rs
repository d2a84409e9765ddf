//! The trailer that `sample_id_all` adds to every record except samples.
//
// Layout: struct sample_id { pid, tid | time | id | stream_id | cpu, res | identifier }, each if its bit is set.
// Source: linux v7.2 kernel/events/core.c, __perf_event__output_id_sample().

use crate::abi::{
    PERF_SAMPLE_CPU, PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME,
};
use crate::wire::{Put, Wire};

/// Thread, time, CPU and event of a record other than a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleId {
    /// Process and thread.
    pub pid_tid: Option<(u32, u32)>,
    /// ns of the recording's clock.
    pub time_ns: Option<u64>,
    /// Id of the event (of the group's leader, for inherited ones of old kernels).
    pub id: Option<u64>,
    /// Id of this very file descriptor's event.
    pub stream_id: Option<u64>,
    /// CPU number.
    pub cpu: Option<u32>,
    /// The same as `id`, at a place that does not depend on the other bits.
    pub identifier: Option<u64>,
}

impl SampleId {
    /// The id to look the event up by.
    #[must_use]
    pub fn event_id(&self) -> Option<u64> {
        self.identifier.or(self.id)
    }

    /// Size in bytes of the trailer under these `PERF_SAMPLE_*` bits.
    #[must_use]
    pub fn size(sample_type: u64) -> usize {
        const BITS: u64 = PERF_SAMPLE_TID
            | PERF_SAMPLE_TIME
            | PERF_SAMPLE_ID
            | PERF_SAMPLE_STREAM_ID
            | PERF_SAMPLE_CPU
            | PERF_SAMPLE_IDENTIFIER;
        (sample_type & BITS).count_ones() as usize * 8
    }

    #[inline]
    pub(crate) fn parse(mut w: Wire<'_>, sample_type: u64) -> Option<SampleId> {
        let has = |bit| sample_type & bit != 0;
        let mut id = SampleId::default();
        w.pair_if(has(PERF_SAMPLE_TID), &mut id.pid_tid)?;
        w.u64_if(has(PERF_SAMPLE_TIME), &mut id.time_ns)?;
        w.u64_if(has(PERF_SAMPLE_ID), &mut id.id)?;
        w.u64_if(has(PERF_SAMPLE_STREAM_ID), &mut id.stream_id)?;
        w.padded_u32_if(has(PERF_SAMPLE_CPU), &mut id.cpu)?;
        w.u64_if(has(PERF_SAMPLE_IDENTIFIER), &mut id.identifier)?;
        Some(id)
    }

    /// Appends the trailer; a field that is `None` though its bit is set becomes 0.
    pub(crate) fn write(&self, p: &mut Put, sample_type: u64) {
        let has = |bit| sample_type & bit != 0;
        p.pair_if(has(PERF_SAMPLE_TID), self.pid_tid);
        p.u64_if(has(PERF_SAMPLE_TIME), self.time_ns);
        p.u64_if(has(PERF_SAMPLE_ID), self.event_id());
        p.u64_if(has(PERF_SAMPLE_STREAM_ID), self.stream_id.or(self.event_id()));
        p.pair_if(has(PERF_SAMPLE_CPU), self.cpu.map(|cpu| (cpu, 0)));
        p.u64_if(has(PERF_SAMPLE_IDENTIFIER), self.event_id());
    }
}
