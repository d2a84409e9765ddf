//! How long an agent's rounds record, so that none has to be left out.

use std::time::Duration;

/// Rounds become longer while they cost less than this share of what they may.
const ROOM: f64 = 0.8;

/// The length of rounds: as long as wanted where the agent's share of a CPU allows it, else down to a fifth of it.
///
/// To begin and to store a round costs as much as several recorded seconds. Shorter ones would cost nearly as much and
/// hold little, so those that are still too expensive are left out ([`super::next_round_s`]).
#[derive(Clone, Copy, Debug)]
pub struct RoundLength {
    wanted_s: u64,
    /// CPU time that a round may cost.
    may_cost: Duration,
    now_s: u64,
    /// CPU time that the next round is expected to cost.
    expected: Duration,
    /// Whether the tables of symbols have been read.
    is_warm: bool,
}

impl RoundLength {
    /// Rounds of `wanted_s` each `every_s`, which may cost `most_share` of a CPU, 0 to 1. The first is short, because it
    /// reads the tables of symbols of all programs.
    #[must_use]
    pub fn new(wanted_s: u64, every_s: u64, most_share: f64) -> Self {
        let may_cost = Duration::try_from_secs_f64(every_s as f64 * most_share).unwrap_or(Duration::MAX);
        let mut length = Self { wanted_s, may_cost, now_s: 0, expected: Duration::ZERO, is_warm: false };
        length.now_s = length.shortest_s();
        length
    }

    /// Time that the next round records, s.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.now_s
    }

    /// CPU time that the next round is expected to cost: that of the last one. 0 before the second, because the first
    /// one reads tables that are kept.
    #[must_use]
    pub fn cost(&self) -> Duration {
        self.expected
    }

    /// Takes the CPU time of a round, and chooses the length of the next one.
    pub fn note(&mut self, cost: Duration) {
        let used = cost.as_secs_f64() / self.may_cost.as_secs_f64().max(1e-3);
        self.expected = if self.is_warm { cost } else { Duration::ZERO };
        self.is_warm = true;
        let next_s = match used {
            // A second at a time: a longer round meets programs that the last one did not.
            used if used < ROOM => self.now_s + 1,
            used if used > 1.0 => (self.now_s as f64 / used) as u64,
            _ => self.now_s,
        };
        self.now_s = next_s.clamp(self.shortest_s(), self.wanted_s.max(1));
    }

    fn shortest_s(&self) -> u64 {
        (self.wanted_s / 5).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths of rounds that cost so much, and so much more for each second.
    fn lengths(begin_ms: u64, second_ms: u64) -> Vec<u64> {
        let mut length = RoundLength::new(5, 60, 0.01);
        let next = |_| {
            let now_s = length.seconds();
            length.note(Duration::from_millis(begin_ms + second_ms * now_s));
            now_s
        };
        (0..8).map(next).collect()
    }

    #[test]
    fn rounds_become_as_long_as_wanted_where_they_are_cheap_and_shorter_where_not() {
        assert_eq!(lengths(200, 20), [1, 2, 3, 4, 5, 5, 5, 5]);
        // 0.6 s are 1 % of a minute.
        assert_eq!(lengths(250, 80), [1, 2, 3, 3, 3, 3, 3, 3]);
        assert_eq!(lengths(100, 110), [1, 2, 3, 4, 4, 4, 4, 4]);
        // Many short programs: each other round.
        assert_eq!(lengths(240, 220), [1, 2, 1, 2, 1, 2, 1, 2]);
        assert_eq!(lengths(900, 300), [1; 8]);
    }

    #[test]
    fn rounds_that_became_too_expensive_are_shortened_at_once() {
        let mut length = RoundLength::new(10, 60, 0.01);
        (0..9).for_each(|_| length.note(Duration::from_millis(100)));
        assert_eq!(length.seconds(), 10);
        length.note(Duration::from_millis(1000));
        assert_eq!((length.seconds(), length.cost()), (6, Duration::from_millis(1000)));
    }

    #[test]
    fn the_cost_of_the_first_round_is_not_expected_again() {
        let mut length = RoundLength::new(5, 60, 0.01);
        length.note(Duration::from_millis(2400));
        assert_eq!((length.seconds(), length.cost()), (1, Duration::ZERO));
        length.note(Duration::from_millis(500));
        assert_eq!(length.cost(), Duration::from_millis(500));
    }

    #[test]
    fn the_shortest_round_is_a_second_and_the_longest_what_is_wanted() {
        let mut length = RoundLength::new(1, 1, 4.0);
        length.note(Duration::from_secs(100));
        assert_eq!(length.seconds(), 1);
        (0..10).for_each(|_| length.note(Duration::ZERO));
        assert_eq!(length.seconds(), 1);
        assert_eq!(length.cost(), Duration::ZERO);
    }
}
