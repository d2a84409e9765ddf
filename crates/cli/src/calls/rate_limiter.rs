//! Watch over rates: a function called too often loses its probes, which is reported.

use record::calls::{CallSource, WatchedCounts, WrittenCalls};
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

use display::number;

/// How often rates are looked at.
const EVERY: Duration = Duration::from_millis(250);

/// Calls of one function a second that are never too many by themselves.
const MOST_PER_S: u64 = 50_000;
/// ns of CPU a second that the probes of one function may take.
const MOST_NS_PER_S: f64 = 5e8;

/// Rates of all functions.
pub struct RateLimiter {
    max_per_s: u64,
    begun: Instant,
    looked: Instant,
    before: FxHashMap<u32, u64>,
    /// Calls a second expected, where a running process was looked at first.
    pub expected_per_s: Option<f64>,
    /// A line for each function whose probes were taken away.
    pub detached: Vec<String>,
    /// Message written in the end.
    pub written: WrittenCalls,
}

impl RateLimiter {
    /// `max_per_s` calls of one function are too many; 0: never.
    #[must_use]
    pub fn new(max_per_s: u64) -> Self {
        Self {
            max_per_s,
            begun: Instant::now(),
            looked: Instant::now(),
            before: FxHashMap::default(),
            expected_per_s: None,
            detached: Vec::new(),
            written: WrittenCalls::default(),
        }
    }

    /// The probes are in place.
    pub fn begin(&mut self) {
        self.begun = Instant::now();
        self.looked = self.begun;
    }

    /// Default limit of calls a second, where one costs this many ns (`None`: not known).
    #[must_use]
    pub fn usual_rate(cost_ns: Option<f64>) -> u64 {
        cost_ns.map_or(MOST_PER_S, |ns| ((MOST_NS_PER_S / ns.max(1.0)) as u64).clamp(1, MOST_PER_S))
    }

    /// Looks, if it is time; takes probes away; reports it.
    ///
    /// # Errors
    /// If the probes can't be exchanged.
    pub fn look(&mut self, engine: &mut dyn CallSource, names: &[String]) -> anyhow::Result<Option<String>> {
        let elapsed = self.looked.elapsed();
        if elapsed < EVERY || self.max_per_s == 0 {
            return Ok(None);
        }
        self.looked = Instant::now();
        let entries = engine.entries();
        let rate = |watched: &WatchedCounts| {
            let before = self.before.get(&watched.function).copied().unwrap_or(0);
            (watched.entries - before) as f64 / elapsed.as_secs_f64()
        };
        let hot: Vec<(WatchedCounts, f64)> = entries
            .iter()
            .map(|watched| (*watched, rate(watched)))
            .filter(|(_, rate)| *rate > self.max_per_s as f64)
            .collect();
        self.before = entries.iter().map(|watched| (watched.function, watched.entries)).collect();
        if hot.is_empty() {
            return Ok(None);
        }
        let numbers: Vec<u32> = hot.iter().map(|(watched, _)| watched.function).collect();
        engine.detach(&numbers)?;
        let lines: Vec<String> = hot.iter().map(|(watched, rate)| self.line(watched, *rate, names)).collect();
        self.detached.extend(lines.iter().cloned());
        let more = lines.len().saturating_sub(3);
        let shown: Vec<String> =
            lines.into_iter().take(3).map(|line| format!("tally calls: {line}")).collect();
        let rest = if more > 0 { format!("\ntally calls: and {more} functions more") } else { String::new() };
        Ok(Some(shown.join("\n") + &rest))
    }

    fn line(&self, watched: &WatchedCounts, rate: f64, names: &[String]) -> String {
        format!(
            "{} is called too often, {} times a second: its probes were taken away after {} (limit: --max-rate {}); \
             its counts cover only that time",
            names[watched.function as usize],
            number::grouped(rate as u64),
            number::duration_ns(self.begun.elapsed().as_nanos() as u64),
            self.max_per_s
        )
    }
}

#[cfg(test)]
mod tests {
    use super::RateLimiter;

    #[test]
    fn the_dearer_a_call_the_fewer_are_too_many() {
        let rates = [None, Some(0.0), Some(500.0), Some(25_000.0), Some(1e12)].map(RateLimiter::usual_rate);
        assert_eq!(rates, [50_000, 50_000, 50_000, 20_000, 1]);
    }
}
