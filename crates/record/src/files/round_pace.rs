//! Length of a file's rounds: each ends with a flush and a new header, which cost more than a few records.

use std::time::{Duration, Instant};

/// Records lost at most when the recorder is killed, and the delay of a reader at the other end of a pipe.
const LONGEST: Duration = Duration::from_millis(50);
/// Less than the output's buffer, which is written to the file when a round ends.
const MOST_BYTES: u64 = 128 << 10;

/// Begin of the present round.
#[derive(Debug)]
pub(super) struct RoundPace {
    began: Instant,
    began_at_bytes: u64,
}

impl RoundPace {
    /// A round that begins at `now`, when the output has `bytes` bytes of records.
    pub fn begin(now: Instant, bytes: u64) -> Self {
        Self { began: now, began_at_bytes: bytes }
    }

    /// True if the round is long enough to end. In a new file, with fewer bytes, it is as long as the file.
    pub fn is_over(&self, now: Instant, bytes: u64) -> bool {
        let written = bytes.checked_sub(self.began_at_bytes).unwrap_or(bytes);
        written >= MOST_BYTES || now.duration_since(self.began) >= LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_when_it_is_large_or_old() {
        let now = Instant::now();
        let round = RoundPace::begin(now, 1000);
        let soon = now + Duration::from_millis(3);
        assert!(!round.is_over(soon, 1000 + MOST_BYTES - 1));
        assert!(round.is_over(soon, 1000 + MOST_BYTES));
        assert!(round.is_over(now + LONGEST, 1000));
        // Another file has begun.
        assert!(!round.is_over(soon, 10));
    }
}
