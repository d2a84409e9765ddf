//! Records that the kernel or tally left out.

use super::{Account, State};

impl Account {
    /// The kernel dropped `records` samples and records after its last report. Their threads are unknown.
    pub fn lost_at_end(&mut self, records: u64) {
        self.loss.lost_samples += records;
    }

    /// Records that the kernel reported as lost so far.
    #[must_use]
    pub fn lost_records(&self) -> u64 {
        self.loss.lost_records
    }

    /// `samples` of the counted samples are not in the file.
    pub fn leave_out(&mut self, samples: u64) {
        self.loss.samples -= samples.min(self.loss.samples);
    }

    /// The kernel dropped `records` records of a ring while `tid` was writing to it. Switches and ends may be among
    /// them, so a thread's state is unknown until its next switch. The time since its last switch or sample isn't
    /// counted as running.
    pub fn lost(&mut self, tid: u32, records: u64, time_ns: u64) {
        let time_ns = self.until_end(time_ns);
        self.has_lost = true;
        for watched in self.threads.values_mut() {
            watched.state = State::Unknown;
            watched.charge_until(time_ns);
        }
        self.loss.lost_records += records;
        *self.lost_by.entry(tid).or_default() += records;
    }

    /// The kernel dropped `samples` samples.
    pub fn lost_samples(&mut self, tid: u32, samples: u64) {
        self.loss.lost_samples += samples;
        *self.lost_by.entry(tid).or_default() += samples;
    }

    /// The kernel throttled an event.
    pub fn throttled(&mut self) {
        self.loss.throttled += 1;
    }
}
