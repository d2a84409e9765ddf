//! Keeps the kernel from lowering its limit of the sampling rate while the gate runs.
//!
//! The kernel lowers `kernel.perf_event_max_sample_rate` when interrupts of samples take longer than a share of the CPU,
//! and never raises it again. On a busy virtual machine with hardware counters it fell from 100,000 to 250 Hz in minutes;
//! live tests that compare shares of CPU time then have too few samples.
//
// Source: linux v6.18 kernel/events/core.c, perf_sample_event_took() and perf_cpu_time_max_percent_handler()

use std::fs;

const RATE: &str = "/proc/sys/kernel/perf_event_max_sample_rate";
const SHARE: &str = "/proc/sys/kernel/perf_cpu_time_max_percent";

/// The kernel's default limit, in Hz.
const DEFAULT_HZ: &str = "100000";
/// Share of a CPU that interrupts may take, in percent: the default is 25. 100 would switch the protection off.
const LARGER_SHARE: &str = "75";

/// Restores the former share when dropped. Without root it does nothing.
pub struct SteadySamplingRate {
    share: Option<String>,
}

impl SteadySamplingRate {
    /// Raises the limit to its default, and the share.
    pub fn begin() -> Self {
        let share = fs::read_to_string(SHARE).ok();
        let has_room = fs::write(SHARE, LARGER_SHARE).is_ok();
        let _ = fs::write(RATE, DEFAULT_HZ);
        Self { share: share.filter(|_| has_room) }
    }
}

impl Drop for SteadySamplingRate {
    fn drop(&mut self) {
        if let Some(share) = &self.share {
            let _ = fs::write(SHARE, share.trim());
        }
    }
}
