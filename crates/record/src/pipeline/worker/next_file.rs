//! The step from one output file to the next, and what the file is given besides records.

use std::sync::atomic::Ordering;

use perfdata::appendix::kept_window::KeptTime;
use perfdata::{Endian, Features, Record, SampleId};

use super::WorkerState;
use crate::files::features;
use crate::files::features::SeenFiles;
use crate::off_cpu::SharedDescriptors;
use crate::session::opts::Watched;
use crate::sys::time::Clock;

impl WorkerState {
    /// Records so far become a file, the rest goes into another.
    pub(super) fn next_file(&mut self) {
        self.abandon_look();
        let sample_times = self.written.sample_times.take();
        let (features, appendix) = self.file_end(sample_times);
        self.sink.next_file(&features, &appendix);
    }

    /// Features and appendix of a file in the middle of the recording.
    pub(super) fn file_end(&mut self, sample_times: Option<(u64, u64)>) -> (Features, Vec<u8>) {
        let seen = self.processes.objects().seen();
        let opts = &self.header.opts;
        let seen = SeenFiles { objects: &seen, with_kernel: self.header.samples_kernel };
        let features = features::at_end(opts, self.sink.events(), seen, sample_times);
        // With a window it is unknown which stacks are still in it.
        let notes = self.account.notes().filter(|_| !opts.file.overwrite);
        let mut appendix = notes.map_or_else(Vec::new, |notes| notes.to_bytes(Endian::NATIVE));
        appendix.extend(self.processes.jit_maps().to_bytes(Endian::NATIVE));
        appendix
            .extend(self.python.reader.iter().flat_map(|python| python.functions().to_bytes(Endian::NATIVE)));
        let descriptors = self.shared.descriptors.get().map(SharedDescriptors::names);
        appendix.extend(descriptors.iter().flat_map(|names| names.to_bytes(Endian::NATIVE)));
        appendix.extend(self.spans.unended(opts).to_bytes(Endian::NATIVE));
        appendix.extend(self.kept_time().iter().flat_map(|kept| kept.to_bytes(Endian::NATIVE)));
        appendix
            .extend(self.python.reader.iter().flat_map(|python| python.labels().to_bytes(Endian::NATIVE)));
        (features, appendix)
    }

    /// The time that a flight recorder's file is of; `None` for others, and where records have another clock.
    pub(super) fn kept_time(&self) -> Option<KeptTime> {
        let begin_ns = self.sink.held_since_ns().filter(|_| self.header.opts.clock == Clock::Monotonic)?;
        Some(KeptTime { begin_ns, end_ns: self.spans.newest_ns })
    }

    /// Writes perf's record of each event's total losses, and counts losses not reported by any record of a ring.
    pub(super) fn write_dropped(&mut self) {
        let dropped =
            std::mem::take(&mut *self.shared.dropped.lock().expect("invariant: no panic while held"));
        let time_ns = Some(self.shared.ended_ns.load(Ordering::Acquire));
        for of in dropped.iter().filter(|of| of.records > 0) {
            let Some(file_event) = of.file_event else { continue };
            let (id, identifier) = (Some(of.id), Some(of.id));
            let id = SampleId { pid_tid: Some((0, 0)), time_ns, id, identifier, ..SampleId::default() };
            self.sink.record(file_event, &Record::LostSamples(of.records), &id);
        }
        let all: u64 = dropped.iter().map(|of| of.records).sum();
        self.account.lost_at_end(all.saturating_sub(self.account.lost_records()));
    }

    pub(super) fn hand_on(&self, what: impl FnOnce() -> Watched) {
        if let Some(watch) = &self.header.opts.observers.watch
            && watch.0.send(what()).is_err()
        {
            self.shared.must_stop.store(true, Ordering::Relaxed);
        }
    }
}
