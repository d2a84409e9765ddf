//! When an agent's rounds are, and how long it keeps what a receiver does not take.

use std::time::Duration;

/// CPU time and memory that an agent has used since it began.
#[derive(Clone, Copy, Debug)]
pub struct AgentUse {
    /// CPU time, its own and that of ended commands.
    pub cpu: Duration,
    /// The part that the next round is expected to cost; 0 if that is not known.
    pub round: Duration,
    /// How long it has been running.
    pub age: Duration,
    /// The share of one CPU that it may use, 0 to 1; not 0.
    pub most_share: f64,
}

/// The moment at which the next round begins: the first multiple of `every_s` after now, so that all machines begin
/// together, and not before the agent's CPU time, with that of the next round, is at most its share since it began.
#[must_use]
pub fn next_round_s(now_s: u64, every_s: u64, used: AgentUse) -> u64 {
    let affordable = (used.cpu + used.round).as_secs_f64() / used.most_share;
    let pause = (affordable - used.age.as_secs_f64()).max(0.0) as u64;
    let every_s = every_s.max(1);
    ((now_s + pause) / every_s + 1) * every_s
}

/// Rounds that should have begun while another one was recorded, stored and sent, by its begin and the time it took.
#[must_use]
pub fn rounds_missed(began_s: u64, took: Duration, every_s: u64) -> u64 {
    let every_s = every_s.max(1);
    began_s.saturating_add(took.as_secs()) / every_s - began_s / every_s
}

/// Limits of the profiles that wait for a receiver.
#[derive(Clone, Copy, Debug)]
pub struct SpoolLimits {
    /// Most bytes.
    pub bytes: u64,
    /// Time from one round to the next, s.
    pub every_s: u64,
}

impl SpoolLimits {
    /// How many of the oldest files must go, by the sizes of all, oldest first.
    #[must_use]
    pub fn surplus(&self, sizes: &[u64]) -> usize {
        let mut bytes: u64 = sizes.iter().fold(0, |sum, size| sum.saturating_add(*size));
        let mut files = 0;
        while bytes > self.bytes && files < sizes.len() {
            bytes = bytes.saturating_sub(sizes[files]);
            files += 1;
        }
        files
    }

    /// Time until the next attempt after so many failed ones, s: doubled each time, 10 minutes at most.
    #[must_use]
    pub fn pause_s(&self, failures: u32) -> u64 {
        const MOST_S: u64 = 600;
        let doubled = self.every_s.saturating_mul(1u64 << failures.saturating_sub(1).min(20));
        doubled.min(MOST_S.max(self.every_s))
    }
}

/// Failures in a row, of which each kind is reported once.
#[derive(Clone, Debug, Default)]
pub struct FailedRounds {
    last: Option<String>,
    rounds: u64,
}

impl FailedRounds {
    /// Counts a failed round; true if its reason is another one than that of the last. Numbers in it, such as those in
    /// names of files, make no difference.
    pub fn is_news(&mut self, why: &str) -> bool {
        let why: String = why.chars().filter(|c| !c.is_ascii_digit()).collect();
        self.rounds += 1;
        let is_news = self.last.as_ref() != Some(&why);
        self.last = Some(why);
        is_news
    }

    /// Rounds that failed before this one, which did not.
    pub fn ended(&mut self) -> u64 {
        std::mem::take(self).rounds
    }
}

/// The latest moment that both clocks agree on, s since 1970: profiles are not too old because a clock jumped ahead.
#[must_use]
pub fn sure_now_s(now_s: u64, started_s: u64, age: Duration) -> u64 {
    now_s.min(started_s.saturating_add(age.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_news_once_until_a_round_succeeds() {
        let mut failed = FailedRounds::default();
        assert!(failed.is_news("can't write 030500.parquet: No space left on device"));
        assert!(!failed.is_news("can't write 030600.parquet: No space left on device"));
        assert!(failed.is_news("can't record: Permission denied"));
        assert_eq!((failed.ended(), failed.ended()), (3, 0));
        assert!(failed.is_news("can't record: Permission denied"));
    }

    #[test]
    fn a_clock_that_jumps_ahead_makes_nothing_older() {
        assert_eq!(sure_now_s(1_000_060, 1_000_000, Duration::from_secs(60)), 1_000_060);
        assert_eq!(sure_now_s(9_000_000, 1_000_000, Duration::from_secs(60)), 1_000_060);
        assert_eq!(sure_now_s(500, 1_000_000, Duration::from_secs(60)), 500);
    }

    fn used(cpu_ms: u64, round_ms: u64, age_s: u64) -> AgentUse {
        let [cpu, round] = [cpu_ms, round_ms].map(Duration::from_millis);
        AgentUse { cpu, round, age: Duration::from_secs(age_s), most_share: 0.01 }
    }

    #[test]
    fn rounds_begin_on_whole_multiples_and_wait_until_they_are_affordable() {
        assert_eq!(next_round_s(1000, 60, used(0, 0, 0)), 1020);
        assert_eq!(next_round_s(1020, 60, used(500, 0, 60)), 1080);
        // 3 s of CPU time are 1 % of 300 s, of which 60 are over.
        assert_eq!(next_round_s(1020, 60, used(3000, 0, 60)), 1320);
        // Another second would be too much now: 4 s are 1 % of 400 s.
        assert_eq!(next_round_s(1320, 60, used(3000, 1000, 300)), 1440);
    }

    #[test]
    fn rounds_that_pass_while_a_slow_receiver_is_sent_to_are_missed() {
        let missed = |took_s| rounds_missed(1020, Duration::from_secs(took_s), 60);
        assert_eq!([0, 59, 60, 150].map(missed), [0, 0, 1, 2]);
        assert_eq!(rounds_missed(1050, Duration::from_secs(30), 60), 1);
    }

    #[test]
    fn the_oldest_files_go_until_the_rest_fits() {
        let limits = SpoolLimits { bytes: 10, every_s: 60 };
        assert_eq!(limits.surplus(&[]), 0);
        assert_eq!(limits.surplus(&[4, 6]), 0);
        assert_eq!(limits.surplus(&[1, 4, 6]), 1);
        assert_eq!(limits.surplus(&[4, 6, 11]), 3);
    }

    #[test]
    fn attempts_are_ever_rarer_up_to_ten_minutes() {
        let limits = SpoolLimits { bytes: 10, every_s: 60 };
        let pauses: Vec<u64> = [1, 2, 3, 4, 5, 90].iter().map(|failures| limits.pause_s(*failures)).collect();
        assert_eq!(pauses, [60, 120, 240, 480, 600, 600]);
        assert_eq!(SpoolLimits { bytes: 10, every_s: 3600 }.pause_s(3), 3600);
    }
}
