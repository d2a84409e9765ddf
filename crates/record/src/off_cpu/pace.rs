//! Time that one off-CPU sample represents: as short as is wanted, as long as the samples stay cheap.
//!
//! Pure: the engine reports the time, the number of samples and their cost, and gets a new period now and then.

/// Off-CPU samples a second of all threads. Each takes about 13 µs in the kernel on a virtual machine, as much again to
/// unwind and write, and some 300 to 600 bytes: less than 1 % of one CPU, and at 200,000 switches a second a fifth to a
/// third of a byte a switch.
pub const SAMPLES_PER_SECOND: u64 = 120;
/// The same in a recording that goes on all the time, which keeps the last minute or less.
pub const SAMPLES_PER_SECOND_ALWAYS: u64 = 60;
/// Off-CPU samples may take one part in this many of a CPU.
const CPU_SHARE: u64 = 100;
/// Samples and ns that may come at once: a program's start waits more often than its life, and code that is met for the
/// first time must be read before it is unwound.
const SAVED_SAMPLES: i64 = 40;
const SAVED_NS: i64 = 50_000_000;
/// The longest period fallen back to.
const MAX_PERIOD_NS: u64 = 200_000_000;
/// Time between looks, long enough that one sample more or less does not decide.
const LOOK_NS: u64 = 50_000_000;
/// Time between looks while the ring fills faster than it can be emptied, for hundreds of threads that all wait.
const PRESSED_LOOK_NS: u64 = 4_000_000;
/// The period becomes four times as long instead of twice if there is this many times the allowed load.
const FAR: u64 = 8;
/// The period is shortened again after this many looks in which less than a quarter was used.
const CALM_LOOKS: u32 = 20;

/// Samples and their cost up to a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// The moment, ns.
    pub at_ns: u64,
    /// Samples so far.
    pub samples: u64,
    /// CPU time that we took for them so far, ns.
    pub cpu_ns: u64,
}

/// The period and what may still be spent.
#[derive(Debug, Clone)]
pub struct Pace {
    samples_per_second: u64,
    wanted_ns: u64,
    period_ns: u64,
    longest_ns: u64,
    last: Spent,
    samples_left: i64,
    ns_left: i64,
    calm: u32,
}

impl Pace {
    /// Begins with the period that is wanted.
    #[must_use]
    pub fn new(wanted_ns: u64, at_ns: u64, samples_per_second: u64) -> Self {
        let wanted_ns = wanted_ns.max(1);
        Self {
            samples_per_second,
            wanted_ns,
            period_ns: wanted_ns,
            longest_ns: wanted_ns,
            last: Spent { at_ns, ..Spent::default() },
            samples_left: SAVED_SAMPLES,
            ns_left: SAVED_NS,
            calm: 0,
        }
    }

    /// True if it is time to report the cost; `pressed`: the ring is about to overflow.
    #[must_use]
    pub fn is_due(&self, now_ns: u64, pressed: bool) -> bool {
        now_ns.saturating_sub(self.last.at_ns) >= if pressed { PRESSED_LOOK_NS } else { LOOK_NS }
    }

    /// Takes the cost up to now; returns the new period if it changes.
    pub fn look(&mut self, now: Spent) -> Option<u64> {
        let elapsed_ns = now.at_ns.saturating_sub(self.last.at_ns).max(1);
        let samples = now.samples.saturating_sub(self.last.samples);
        let (may_samples, may_ns) =
            (elapsed_ns * self.samples_per_second / 1_000_000_000, elapsed_ns / CPU_SHARE);
        // The cost of so few samples was for reading code met for the first time. A longer period would not avoid it.
        let are_few = samples * 2 < may_samples;
        let cpu_ns = if are_few { 0 } else { now.cpu_ns.saturating_sub(self.last.cpu_ns) };
        self.last = now;
        self.samples_left = left(self.samples_left, may_samples, samples, SAVED_SAMPLES);
        self.ns_left = left(self.ns_left, may_ns, cpu_ns, SAVED_NS);
        // By how much too many, of whichever there is more.
        let times = (samples / may_samples.max(1)).max(cpu_ns / may_ns.max(1));
        self.calm = if samples * 4 < may_samples && cpu_ns * 4 < may_ns { self.calm + 1 } else { 0 };
        let before = self.period_ns;
        if self.samples_left < 0 || self.ns_left < 0 {
            (self.samples_left, self.ns_left) = (self.samples_left.max(0), self.ns_left.max(0));
            // In steps: when a thread ends, up to a period of its time is without stack.
            let longer = self.period_ns * if times < FAR { 2 } else { 4 };
            self.period_ns = longer.min(MAX_PERIOD_NS.max(self.wanted_ns));
        } else if self.calm >= CALM_LOOKS {
            self.calm = 0;
            self.period_ns = (self.period_ns / 2).max(self.wanted_ns);
        }
        self.longest_ns = self.longest_ns.max(self.period_ns);
        (self.period_ns != before).then_some(self.period_ns)
    }

    /// The longest period that was used, if it is longer than wanted.
    #[must_use]
    pub fn grown_to(&self) -> Option<u64> {
        (self.longest_ns > self.wanted_ns).then_some(self.longest_ns)
    }
}

fn left(before: i64, may: u64, spent: u64, most: i64) -> i64 {
    let after = i128::from(before) + i128::from(may) - i128::from(spent);
    // Neither end overflows: both are far inside.
    after.clamp(i128::from(i64::MIN), i128::from(most)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A second of looks with the same number of samples and the same CPU time in each.
    fn second(pace: &mut Pace, from_ns: u64, samples: u64, cpu_ns: u64) {
        for i in 1..=20 {
            let (before, at_ns) = (pace.last, from_ns + i * LOOK_NS);
            assert!(pace.is_due(at_ns, false));
            pace.look(Spent { at_ns, samples: before.samples + samples, cpu_ns: before.cpu_ns + cpu_ns });
        }
    }

    #[test]
    fn the_period_stays_while_samples_are_few_and_a_burst_at_the_start_is_forgiven() {
        let mut pace = Pace::new(MS, 0, SAMPLES_PER_SECOND);
        assert_eq!(pace.look(Spent { at_ns: 50 * MS, samples: 45, cpu_ns: 40 * MS }), None);
        second(&mut pace, 50 * MS, 5, MS / 10);
        assert_eq!((pace.period_ns, pace.grown_to()), (MS, None));
    }

    #[test]
    fn many_samples_make_it_longer_step_by_step() {
        let mut pace = Pace::new(MS, 0, SAMPLES_PER_SECOND);
        // 2,000 a second where 120 may be; then a quarter of that.
        assert_eq!(pace.look(Spent { at_ns: 50 * MS, samples: 100, cpu_ns: 0 }), Some(4 * MS));
        assert_eq!(pace.look(Spent { at_ns: 100 * MS, samples: 125, cpu_ns: 0 }), Some(8 * MS));
        assert_eq!(pace.look(Spent { at_ns: 150 * MS, samples: 131, cpu_ns: 0 }), None);
        assert_eq!(pace.grown_to(), Some(8 * MS));
    }

    #[test]
    fn what_few_samples_take_at_first_sight_of_code_does_not_make_it_longer() {
        let mut pace = Pace::new(MS, 0, SAMPLES_PER_SECOND);
        assert_eq!(pace.look(Spent { at_ns: 50 * MS, samples: 2, cpu_ns: 200 * MS }), None);
        assert_eq!(pace.look(Spent { at_ns: 100 * MS, samples: 4, cpu_ns: 400 * MS }), None);
    }

    #[test]
    fn few_samples_that_take_long_make_it_longer() {
        let mut pace = Pace::new(MS, 0, SAMPLES_PER_SECOND);
        // 100 a second, each of which takes 500 µs: 5 % of a CPU.
        second(&mut pace, 0, 0, 0);
        for i in 21..=80 {
            let samples = 5 * (i - 20);
            pace.look(Spent { at_ns: i * LOOK_NS, samples, cpu_ns: samples * MS / 2 });
        }
        assert!(pace.period_ns >= 8 * MS, "{pace:?}");
    }

    #[test]
    fn under_pressure_it_grows_to_its_longest_within_moments() {
        let mut pace = Pace::new(MS, 0, SAMPLES_PER_SECOND);
        let periods: Vec<u64> = (1..=5)
            .filter_map(|i| {
                let at_ns = i * PRESSED_LOOK_NS;
                assert!(!pace.is_due(at_ns, false) && pace.is_due(at_ns, true));
                pace.look(Spent { at_ns, samples: i * 800, cpu_ns: 0 })
            })
            .collect();
        assert_eq!(periods, [4 * MS, 16 * MS, 64 * MS, MAX_PERIOD_NS]);
    }

    #[test]
    fn it_grows_no_further_than_to_the_longest_and_shrinks_again_in_calm() {
        let mut pace = Pace::new(MS, 0, SAMPLES_PER_SECOND);
        second(&mut pace, 0, 1000, 0);
        assert_eq!(pace.period_ns, MAX_PERIOD_NS);
        (1..=20).for_each(|s| second(&mut pace, s * 1000 * MS, 0, 0));
        assert_eq!((pace.period_ns, pace.grown_to()), (MS, Some(MAX_PERIOD_NS)));
        // A longer period that was requested isn't changed.
        let mut asked = Pace::new(1000 * MS, 0, SAMPLES_PER_SECOND);
        second(&mut asked, 0, 1000, 0);
        assert_eq!((asked.period_ns, asked.grown_to()), (1000 * MS, None));
    }
}
