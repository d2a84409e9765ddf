//! Events of the block layer joined to requests.

use super::{BlockEvent, BlockIo, BlockTracepoint, Op, Request, SECTOR_BYTES};
use rustc_hash::FxHashMap;

/// The name of a request in the events: device, first sector, operation.
type Key = (u32, u64, Op);

/// Follows the requests under way.
///
/// Two requests may have the same name at once (two threads that read the same block). An event then belongs to the
/// newest. The times of the two may be exchanged, but keep their sum. A request whose end was not recorded (the kernel
/// drops events silently when one interrupts another) doesn't spoil the times of all that follow.
#[derive(Clone, Debug, Default)]
pub struct Join {
    /// Indexes of open requests, oldest first.
    open: FxHashMap<Key, Vec<usize>>,
    /// By device: the bio that requested a flush which is not issued yet. A kernel thread will issue it.
    flushes: FxHashMap<u32, BlockEvent>,
}

impl Join {
    /// Takes the next event, in the order of time. Returns the index of the request it begins or belongs to.
    pub fn push(&mut self, event: &BlockEvent, io: &mut BlockIo) -> Option<usize> {
        let key = key_of(event);
        let counts = &mut io.counts;
        match event.tracepoint {
            BlockTracepoint::Requeue => counts.requeues += 1,
            BlockTracepoint::RequestMerge | BlockTracepoint::FrontMerge | BlockTracepoint::BackMerge => {
                counts.merges += 1
            }
            BlockTracepoint::Split => counts.splits += 1,
            BlockTracepoint::Insert
            | BlockTracepoint::Issue
            | BlockTracepoint::Complete
            | BlockTracepoint::Queue => {}
        }
        match event.tracepoint {
            BlockTracepoint::Insert => Some(self.insert(event, io)),
            BlockTracepoint::Issue => Some(self.issue(event, io)),
            BlockTracepoint::Complete => self.complete(event, io),
            BlockTracepoint::Requeue => {
                let at = self.in_device(key, io)?;
                let request = &mut io.requests[at];
                // A request that went straight to the driver waits from here on.
                request.insert_ns.get_or_insert(event.time_ns);
                (request.issue_ns, request.requeues) = (None, request.requeues + 1);
                Some(at)
            }
            BlockTracepoint::RequestMerge => {
                let at = self.in_queue(key, io)?;
                io.requests[at].merged = true;
                self.close(key, at);
                Some(at)
            }
            BlockTracepoint::FrontMerge => {
                let behind = (key.0, event.sector.saturating_add(event.bytes / SECTOR_BYTES), key.2);
                let at = self.in_queue(behind, io)?;
                io.requests[at].sector = event.sector;
                self.rename(behind, key, at);
                Some(at)
            }
            BlockTracepoint::Queue => {
                if event.bytes == 0 && !self.flushes.contains_key(&event.dev) {
                    self.flushes.insert(event.dev, *event);
                }
                None
            }
            BlockTracepoint::BackMerge | BlockTracepoint::Split => None,
        }
    }

    /// The newest open request of this name for which `wanted` holds.
    fn find(&self, key: Key, io: &BlockIo, wanted: impl Fn(&Request) -> bool) -> Option<usize> {
        self.open.get(&key)?.iter().rev().copied().find(|&at| wanted(&io.requests[at]))
    }

    /// The newest request of this name that is not given to the driver.
    fn in_queue(&self, key: Key, io: &BlockIo) -> Option<usize> {
        self.find(key, io, |request| request.issue_ns.is_none())
    }

    /// The newest request of this name that the driver has.
    fn in_device(&self, key: Key, io: &BlockIo) -> Option<usize> {
        self.find(key, io, |request| request.issue_ns.is_some())
    }

    fn begin(&mut self, event: &BlockEvent, io: &mut BlockIo) -> usize {
        let at = io.requests.len();
        io.requests.push(Request {
            dev: event.dev,
            sector: event.sector,
            bytes: event.bytes,
            rwbs: event.rwbs,
            task: event.task,
            callsite: event.callsite,
            insert_ns: None,
            issue_ns: None,
            complete_ns: None,
            requeues: 0,
            error: 0,
            merged: false,
        });
        self.open.entry(key_of(event)).or_default().push(at);
        at
    }

    fn close(&mut self, key: Key, at: usize) {
        if let Some(open) = self.open.get_mut(&key) {
            open.retain(|&other| other != at);
            if open.is_empty() {
                self.open.remove(&key);
            }
        }
    }

    /// It goes by another name from now on.
    fn rename(&mut self, from: Key, to: Key, at: usize) {
        self.close(from, at);
        self.open.entry(to).or_default().push(at);
    }

    fn insert(&mut self, event: &BlockEvent, io: &mut BlockIo) -> usize {
        // A request that the driver gave back is inserted again: its wait continues.
        let again = self.find(key_of(event), io, |r| r.requeues > 0 && r.issue_ns.is_none());
        let at = again.unwrap_or_else(|| self.begin(event, io));
        io.requests[at].insert_ns.get_or_insert(event.time_ns);
        at
    }

    fn issue(&mut self, event: &BlockEvent, io: &mut BlockIo) -> usize {
        let at = self.in_queue(key_of(event), io).unwrap_or_else(|| self.begin(event, io));
        let request = &mut io.requests[at];
        if event.rwbs.op == Op::Flush
            && let Some(asked) = self.flushes.remove(&event.dev)
        {
            (request.task, request.callsite, request.insert_ns) =
                (asked.task, asked.callsite, Some(asked.time_ns));
        }
        request.issue_ns = Some(event.time_ns);
        // Merges made it longer since.
        request.bytes = event.bytes;
        at
    }

    fn complete(&mut self, event: &BlockEvent, io: &mut BlockIo) -> Option<usize> {
        let key = key_of(event);
        let Some(at) = self.in_device(key, io) else {
            // The bio that requested a flush has no request that would ever be issued.
            let carried = event.bytes == 0 && event.rwbs.op == Op::Write;
            *(if carried { &mut io.counts.flush_bios } else { &mut io.counts.only_completed }) += 1;
            return None;
        };
        let request = &mut io.requests[at];
        let begin = request.sector.saturating_mul(SECTOR_BYTES);
        let done_to = event.sector.saturating_mul(SECTOR_BYTES).saturating_add(event.bytes);
        let whole = begin.saturating_add(request.bytes);
        if event.error != 0 {
            request.error = event.error;
        }
        if done_to < whole && event.bytes > 0 && event.error == 0 {
            // The rest goes by the name of its own first sector.
            self.rename(key, (event.dev, done_to / SECTOR_BYTES, event.rwbs.op), at);
        } else {
            request.complete_ns = Some(event.time_ns);
            self.close(key, at);
        }
        Some(at)
    }

    /// Leaves only open requests in `io`, for those who follow without end. Indexes change.
    pub fn forget_done(&mut self, io: &mut BlockIo) {
        let mut kept = Vec::with_capacity(self.open.len());
        for at in self.open.values_mut().flatten() {
            kept.push(io.requests[*at]);
            *at = kept.len() - 1;
        }
        io.requests = kept;
    }
}

fn key_of(event: &BlockEvent) -> Key {
    (event.dev, event.sector, event.rwbs.op)
}

#[cfg(test)]
mod tests {
    use super::super::Rwbs;
    use super::*;
    use crate::profile::TaskId;

    fn event(
        tracepoint: BlockTracepoint,
        time_ns: u64,
        sector: u64,
        sectors: u64,
        letters: &str,
    ) -> BlockEvent {
        BlockEvent {
            tracepoint,
            time_ns,
            dev: 8 << 20,
            sector,
            bytes: sectors * SECTOR_BYTES,
            rwbs: Rwbs::parse(letters),
            error: 0,
            task: TaskId(0),
            callsite: None,
        }
    }

    fn joined(events: &[BlockEvent]) -> BlockIo {
        let (mut join, mut io) = (Join::default(), BlockIo::default());
        for event in events {
            join.push(event, &mut io);
        }
        io
    }

    use BlockTracepoint::{Complete, FrontMerge, Insert, Issue, RequestMerge, Requeue};

    #[test]
    fn a_request_has_a_time_in_the_queue_and_one_in_the_device() {
        let io = joined(&[
            event(Insert, 100, 64, 8, "RA"),
            event(Issue, 130, 64, 8, "RA"),
            event(Insert, 135, 64, 8, "WS"),
            event(Complete, 200, 64, 8, "RA"),
        ]);
        assert_eq!((io.requests[0].queue_ns(), io.requests[0].device_ns()), (Some(30), Some(70)));
        // The write to the same sector is another request.
        assert_eq!((io.requests.len(), io.requests[1].issue_ns), (2, None));
    }

    #[test]
    fn an_end_that_was_not_recorded_does_not_spoil_later_requests() {
        let io = joined(&[
            event(Issue, 10, 0, 8, "R"),
            event(Issue, 200, 0, 8, "R"),
            event(Complete, 240, 0, 8, "R"),
            event(Issue, 300, 0, 8, "R"),
            event(Complete, 330, 0, 8, "R"),
        ]);
        let times: Vec<_> = io.requests.iter().map(Request::device_ns).collect();
        assert_eq!(times, [None, Some(40), Some(30)]);
        assert_eq!(io.requests[0].queue_ns(), None, "it was never seen in the queue");
    }

    #[test]
    fn a_request_done_in_parts_ends_with_the_last() {
        let io = joined(&[
            event(Issue, 10, 100, 16, "W"),
            event(Complete, 20, 100, 8, "W"),
            event(Complete, 50, 108, 8, "W"),
        ]);
        assert_eq!((io.requests.len(), io.requests[0].device_ns()), (1, Some(40)));
        assert_eq!(io.counts.only_completed, 0);
    }

    #[test]
    fn a_requeued_request_waits_on_in_the_queue() {
        let io = joined(&[
            event(Insert, 10, 8, 8, "R"),
            event(Issue, 20, 8, 8, "R"),
            event(Requeue, 30, 8, 8, "R"),
            event(Insert, 35, 8, 8, "R"),
            event(Issue, 50, 8, 8, "R"),
            event(Complete, 60, 8, 8, "R"),
        ]);
        let request = io.requests[0];
        assert_eq!((io.requests.len(), request.requeues, io.counts.requeues), (1, 1, 1));
        assert_eq!((request.queue_ns(), request.device_ns()), (Some(40), Some(10)));
    }

    #[test]
    fn a_merged_request_is_no_request_of_its_own() {
        let io = joined(&[
            event(Insert, 10, 0, 8, "W"),
            event(Insert, 12, 8, 8, "W"),
            event(RequestMerge, 15, 8, 8, "W"),
            event(Issue, 20, 0, 16, "W"),
            event(Complete, 30, 0, 16, "W"),
        ]);
        assert!(io.requests[1].merged && !io.requests[0].merged);
        assert_eq!((io.requests[0].bytes, io.requests[0].device_ns()), (8192, Some(10)));
        assert_eq!(io.counts.merges, 1);
    }

    #[test]
    fn a_bio_merged_in_front_changes_the_name() {
        let io = joined(&[
            event(Insert, 10, 8, 8, "W"),
            event(FrontMerge, 12, 0, 8, "W"),
            event(Issue, 20, 0, 16, "W"),
            event(Complete, 30, 0, 16, "W"),
        ]);
        assert_eq!((io.requests.len(), io.requests[0].queue_ns()), (1, Some(10)));
        assert_eq!(io.requests[0].device_ns(), Some(10));
    }

    #[test]
    fn a_flush_belongs_to_who_asked_for_it() {
        let asked = BlockEvent { task: TaskId(3), ..event(BlockTracepoint::Queue, 5, 0, 0, "FWS") };
        let io = joined(&[
            asked,
            event(BlockTracepoint::Queue, 6, 64, 8, "W"),
            event(Issue, 20, 0, 0, "FF"),
            event(Complete, 30, 0, 0, "FF"),
            event(Complete, 31, 0, 0, "WS"),
        ]);
        assert_eq!((io.requests.len(), io.requests[0].task), (1, TaskId(3)));
        assert_eq!((io.requests[0].queue_ns(), io.requests[0].device_ns()), (Some(15), Some(10)));
        assert_eq!((io.counts.flush_bios, io.counts.only_completed), (1, 0));
    }

    #[test]
    fn open_requests_are_found_after_the_done_ones_are_forgotten() {
        let (mut join, mut io) = (Join::default(), BlockIo::default());
        for event in [event(Issue, 1, 0, 8, "R"), event(Issue, 2, 8, 8, "R"), event(Complete, 3, 0, 8, "R")] {
            join.push(&event, &mut io);
        }
        join.forget_done(&mut io);
        assert_eq!(io.requests.len(), 1);
        assert_eq!(join.push(&event(Complete, 9, 8, 8, "R"), &mut io), Some(0));
        assert_eq!(io.requests[0].device_ns(), Some(7));
    }

    #[test]
    fn what_began_before_is_counted() {
        let io = joined(&[event(Complete, 30, 0, 16, "W")]);
        assert_eq!((io.requests.len(), io.counts.only_completed), (0, 1));
    }

    #[test]
    fn an_error_ends_a_request_however_much_was_done() {
        let failed = BlockEvent { error: -5, ..event(Complete, 30, 0, 8, "R") };
        let io = joined(&[event(Issue, 10, 0, 16, "R"), failed]);
        assert_eq!((io.requests[0].device_ns(), io.requests[0].error), (Some(20), -5));
    }
}
