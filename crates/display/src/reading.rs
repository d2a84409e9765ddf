//! The line that shows how far a large file is read.

use crate::{fit, number};
use std::time::Duration;

/// Files that are read in less have no line.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two lines.
const PERIOD: Duration = Duration::from_millis(100);

/// When the line is due, and its text.
#[derive(Debug)]
pub struct ReadingLine {
    name: String,
    /// Bytes of the file.
    total: u64,
    /// Time of the next line, from the begin of reading.
    due: Duration,
}

impl ReadingLine {
    /// For a file of `total` bytes. `name` is harmless on a terminal.
    pub fn new(name: String, total: u64) -> Self {
        Self { name, total, due: PATIENCE }
    }

    /// `reading perf.data  42 % of 1.2 GB   Ctrl-C stops` in at most `width` columns, if a line is due. A long name makes
    /// room for the numbers. `elapsed` is since the begin, `offset` the number of bytes read by then.
    pub fn advance(&mut self, elapsed: Duration, offset: u64, width: usize) -> Option<String> {
        if elapsed < self.due {
            return None;
        }
        self.due = elapsed + PERIOD;
        let percent = (offset as f64 * 100.0 / self.total.max(1) as f64).min(100.0);
        let numbers = format!("  {percent:.0} % of {}   Ctrl-C stops", number::bytes(self.total));
        let name = fit::cut(&format!("reading {}", self.name), width.saturating_sub(numbers.chars().count()));
        Some(fit::cut(&(name + &numbers), width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_after_a_second_and_then_ten_times_a_second() {
        let mut line = ReadingLine::new("perf.data".to_owned(), 2_000_000_000);
        let mut at = |ms, offset| line.advance(Duration::from_millis(ms), offset, 79);
        assert_eq!(at(999, 500_000_000), None);
        let first = at(1000, 840_000_000);
        assert_eq!(first.as_deref(), Some("reading perf.data  42 % of 2.000 GB   Ctrl-C stops"));
        assert_eq!(at(1099, 900_000_000), None);
        assert!(at(1100, 3_000_000_000).is_some_and(|text| text.contains(" 100 % ")));
    }

    #[test]
    fn a_long_name_makes_room_for_the_numbers() {
        for width in [20, 40, 79] {
            let mut line = ReadingLine::new("x".repeat(200), 1_000_000);
            let text = line.advance(PATIENCE, 500_000, width).expect("a line");
            assert!(text.chars().count() <= width, "{text}");
            assert!(width < 40 || text.ends_with("…  50 % of 1.000 MB   Ctrl-C stops"), "{text}");
        }
    }
}
