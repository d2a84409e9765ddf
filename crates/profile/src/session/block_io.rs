//! Samples of the block layer's tracepoints, on their way to requests.

use super::Session;
use crate::profile::TaskId;
use crate::tracepoints::block_io::{BlockEvent, BlockTracepoint, Rwbs, SECTOR_BYTES};
use perfdata::Sample;

impl Session {
    /// Adds a sample's data about block I/O: the request it begins. `self.path` holds its resolved path.
    pub(super) fn note_block_io(&mut self, event: usize, task: TaskId, sample: &Sample<'_>) -> Option<usize> {
        let tracepoint = self.events.of(event).block_io?;
        let has_chain = sample.callchain.is_some_and(|chain| !chain.is_empty());
        let callsite = if has_chain { self.callsite_of_frames() } else { None };
        let Some(event) = self.block_event(event, tracepoint, sample) else {
            self.profile.block_io.counts.unreadable += 1;
            return None;
        };
        let io = &mut self.profile.block_io;
        let known = io.requests.len();
        self.block_join.push(&BlockEvent { task, callsite, ..event }, io).filter(|&at| at == known)
    }

    /// The event without who did it; `None` if the file has no format for it, or another kernel's.
    fn block_event(
        &self,
        event: usize,
        tracepoint: BlockTracepoint,
        sample: &Sample<'_>,
    ) -> Option<BlockEvent> {
        let (texts, raw) = (self.opts.trace_text.as_ref()?, sample.raw?);
        let number = |name: &str| texts.number(event, raw, name);
        // Old kernels have bytes only for commands without sectors. A split has no length at all.
        let bytes = match number("nr_sector").unwrap_or(0) {
            sectors @ 1.. => sectors.cast_unsigned().saturating_mul(SECTOR_BYTES),
            _ => number("bytes").unwrap_or(0).cast_unsigned(),
        };
        Some(BlockEvent {
            tracepoint,
            time_ns: sample.time_ns?,
            dev: u32::try_from(number("dev")?).ok()?,
            // The completion of a flush has no sector, its issue sector 0.
            sector: Some(number("sector")?.cast_unsigned()).filter(|&s| s != u64::MAX).unwrap_or(0),
            bytes,
            rwbs: Rwbs::parse(&texts.field(event, raw, "rwbs")?),
            error: number("error").unwrap_or(0),
            task: TaskId(0),
            callsite: None,
        })
    }

    /// The whole path of a request whose user part had to be unwound first.
    pub(super) fn name_request(&mut self, request: usize) {
        let callsite = self.callsite_of_frames();
        if let Some(request) = self.profile.block_io.requests.get_mut(request) {
            request.callsite = callsite;
        }
    }
}
