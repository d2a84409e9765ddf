//! CPU time of many small pieces of work, from a few of them.

use crate::sys::time::thread_cpu_ns;

/// Measures one piece of work in [`Self::EVERY`], and counts it that many times: reading the clock of a thread's CPU time
/// is a system call, and cost a quarter of all work on waits.
#[derive(Debug, Default)]
pub(super) struct SampledClock {
    turn: u32,
}

impl SampledClock {
    /// Odd, because a wait and the wait for a CPU after it come in pairs.
    const EVERY: u32 = 7;

    /// Begin of a piece; `None` if it isn't measured.
    pub fn begin(&mut self) -> Option<u64> {
        self.turn = (self.turn + 1) % Self::EVERY;
        (self.turn == 0).then(thread_cpu_ns)
    }

    /// CPU time since the begin, for this piece and those that aren't measured, ns.
    pub fn spent_ns(begin_ns: Option<u64>) -> u64 {
        begin_ns.map_or(0, |begin_ns| thread_cpu_ns().saturating_sub(begin_ns) * u64::from(Self::EVERY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_piece_of_work_in_seven_is_measured_for_all() {
        let mut clock = SampledClock::default();
        let begins: Vec<Option<u64>> = (0..70).map(|_| clock.begin()).collect();
        assert_eq!(begins.iter().flatten().count(), 10);
        assert_eq!(SampledClock::spent_ns(None), 0);
        assert!(SampledClock::spent_ns(Some(0)) >= 7);
    }
}
