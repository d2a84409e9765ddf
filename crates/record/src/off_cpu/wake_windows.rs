//! When the BPF program at wake-ups is attached: always, or for short windows while threads switch very often.
//!
//! The program tells who ended a wait. At 500,000 switches a second it costs as much as everything else. Times do not
//! depend on it: the scheduler itself keeps the time of a wake-up. So at such rates samples are taken in windows.
//!
//! Pure: the engine reports counts of switches, and attaches and detaches.

/// Switches a second on one CPU from which on windows are used, and below which they end: there the program costs about
/// 0.4 % of that CPU.
const MANY_SWITCHES: u64 = 40_000;
const FEW_SWITCHES: u64 = 30_000;
/// Time between looks at the rate, ns.
const LOOK_NS: u64 = 50_000_000;
/// Time without the program, then with it, ns.
const CLOSED_NS: u64 = 90_000_000;
const OPEN_NS: u64 = 10_000_000;
/// A place whose wake-ups are not seen gives a sample once it has waited this long, ns: seldom between two windows.
const UNWOKEN_PERIOD_NS: u64 = 2 * (CLOSED_NS + OPEN_NS);

/// Where the program is in its cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Attached, at an ordinary rate.
    Always,
    /// Attached for a window.
    Open,
    /// Detached between windows.
    Closed,
}

/// The cycle of windows.
#[derive(Debug, Clone)]
pub struct WakeWindows {
    phase: Phase,
    since_ns: u64,
    /// Switches by CPU when the rate was last looked at, and when that was.
    switches: Vec<u64>,
    looked_ns: u64,
    closed_ns: u64,
}

impl WakeWindows {
    /// Attached; no switch has been seen.
    #[must_use]
    pub fn new(at_ns: u64) -> Self {
        Self { phase: Phase::Always, since_ns: at_ns, switches: Vec::new(), looked_ns: at_ns, closed_ns: 0 }
    }

    /// Time from the begin of a phase to its end, ns.
    fn length_ns(&self) -> u64 {
        match self.phase {
            Phase::Always => LOOK_NS,
            Phase::Open => OPEN_NS,
            Phase::Closed => CLOSED_NS,
        }
    }

    /// Time until [`WakeWindows::is_due`], ns.
    #[must_use]
    pub fn left_ns(&self, now_ns: u64) -> u64 {
        (self.since_ns + self.length_ns()).saturating_sub(now_ns)
    }

    /// True if [`WakeWindows::turn`] is to be called.
    #[must_use]
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.left_ns(now_ns) == 0
    }

    /// True if the program is to be attached.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase != Phase::Closed
    }

    /// Time without the program so far, ns; of a closed phase once it has ended.
    #[must_use]
    pub fn closed_ns(&self) -> u64 {
        self.closed_ns
    }

    /// The period of places whose wake-ups are not seen now, where `period_ns` is that of all others.
    #[must_use]
    pub fn unwoken_period_ns(&self, period_ns: u64) -> u64 {
        // In a window as well: else the waits that began before it would give the samples.
        if self.phase == Phase::Always { period_ns } else { period_ns.max(UNWOKEN_PERIOD_NS) }
    }

    /// The next phase. `switches`: of followed threads so far, by CPU; empty where the time of wake-ups would be lost
    /// without the program.
    pub fn turn(&mut self, now_ns: u64, switches: Vec<u64>) {
        if self.phase == Phase::Closed {
            self.closed_ns += now_ns.saturating_sub(self.since_ns);
            (self.phase, self.since_ns) = (Phase::Open, now_ns);
            return;
        }
        let rate = self.rate(now_ns, &switches);
        let most = if self.phase == Phase::Always { MANY_SWITCHES } else { FEW_SWITCHES };
        self.phase = if rate > most { Phase::Closed } else { Phase::Always };
        (self.since_ns, self.looked_ns, self.switches) = (now_ns, now_ns, switches);
    }

    /// Switches a second of the busiest CPU since the last look.
    fn rate(&self, now_ns: u64, switches: &[u64]) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.looked_ns).max(1);
        let before = self.switches.iter().copied().chain(std::iter::repeat(0));
        let more = switches.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).max();
        let rate = u128::from(more.unwrap_or(0)) * 1_000_000_000 / u128::from(elapsed_ns);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Turns it whenever it is due, until `to_ms`, with so many switches a second on the second of two CPUs.
    fn run(windows: &mut WakeWindows, from_ms: u64, to_ms: u64, rate: u64) -> Vec<(u64, bool)> {
        let base = windows.switches.get(1).copied().unwrap_or(0);
        let mut turns = Vec::new();
        for ms in from_ms..to_ms {
            if windows.is_due(ms * MS) {
                let before = windows.is_open();
                windows.turn(ms * MS, vec![0, base + rate * (ms - from_ms) / 1000]);
                if windows.is_open() != before {
                    turns.push((ms, windows.is_open()));
                }
            }
        }
        turns
    }

    #[test]
    fn at_ordinary_rates_the_program_stays_attached() {
        let mut windows = WakeWindows::new(0);
        assert_eq!(run(&mut windows, 1, 1000, MANY_SWITCHES - 1000), []);
        assert_eq!(windows.closed_ns(), 0);
        assert_eq!(windows.unwoken_period_ns(7), 7);
    }

    #[test]
    fn at_high_rates_it_is_attached_for_a_tenth_of_the_time() {
        let mut windows = WakeWindows::new(0);
        let turns = run(&mut windows, 0, 350, 600_000);
        assert_eq!(turns, [(50, false), (140, true), (150, false), (240, true), (250, false), (340, true)]);
        assert_eq!(windows.closed_ns(), 270 * MS);
    }

    #[test]
    fn once_the_rate_is_low_again_it_stays_attached() {
        let mut windows = WakeWindows::new(0);
        run(&mut windows, 0, 145, 600_000);
        assert!(windows.is_open());
        assert_eq!(run(&mut windows, 145, 1000, 0), []);
        assert!(windows.is_open() && windows.phase == Phase::Always);
    }

    #[test]
    fn without_the_program_only_long_waits_give_samples() {
        let mut windows = WakeWindows::new(0);
        run(&mut windows, 0, 60, 600_000);
        assert!(!windows.is_open());
        assert_eq!(windows.unwoken_period_ns(MS), UNWOKEN_PERIOD_NS);
        assert_eq!(windows.unwoken_period_ns(1000 * MS), 1000 * MS);
    }

    #[test]
    fn without_counts_the_program_is_never_detached() {
        let mut windows = WakeWindows::new(0);
        windows.turn(50 * MS, Vec::new());
        assert!(windows.is_open());
    }
}
