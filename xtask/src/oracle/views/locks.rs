//! Checks that `locks`, the page, `run` and the flame graph of the wall clock have the same waits for locks.

use anyhow::{Context, Result};
use serde_json::Value;

use super::read::{self, Run};
use super::{Pair, ROWS, equal, html, text_of, wide};
use crate::score::{self, Score};

/// Reasons of waits that `locks` shows, as other views name them.
const REASONS: [&str; 3] = ["futex", "kernel lock", "file lock"];

/// One lock.
#[derive(Debug, PartialEq)]
struct Lock {
    what: String,
    wait_ns: f64,
    waits: u64,
}

/// Compares the locks of a recording that `run` made.
pub(super) fn compare(pair: &Pair, name: &str, file: &str, run: &Run) -> Result<Score> {
    let shown = of_text(&wide(pair, &["locks", "--rows", "100000", "-i", file])?)?;
    let of_page = of_page(pair, file)?;
    let folded = read::folded(&text_of(pair, &["flame", "--wall", "--folded", file])?);
    let of_run: u64 = REASONS.iter().filter_map(|reason| run.blocked_ns.get(*reason)).sum();
    let of_flame = REASONS.iter().filter_map(|reason| folded.all.get(&format!("[{reason}]")));
    let of_flame = of_flame.sum::<f64>() * folded.total as f64 / 100.0;
    let sum: f64 = shown.iter().map(|lock| lock.wait_ns).sum();
    let mut score = near(&format!("views {name}: all of locks, run's waits for locks"), sum, of_run as f64);
    score += near(&format!("views {name}: waits for locks in flame --wall, run's"), of_flame, of_run as f64);
    for (at, (lock, other)) in shown.iter().zip(&of_page).take(ROWS).enumerate() {
        let what = format!("views {name}: lock {} ({})", at + 1, lock.what);
        score += near(&format!("{what}, on the page"), lock.wait_ns, other.wait_ns);
        score += equal(&format!("{what}: number of waits"), lock.waits, other.waits);
        // Callers have an arrow in text only.
        let is_same = lock.what == other.what.replace(" < ", " ← ");
        if !is_same {
            score::fault(&format!("{what}: on the page {}", other.what));
        }
        score += Score::of(is_same);
    }
    // The page keeps the first ones.
    let is_there = of_page.len() >= shown.len().min(ROWS);
    if !is_there {
        score::fault(&format!("views {name}: {} locks, on the page {}", shown.len(), of_page.len()));
    }
    score += Score::of(is_there);
    Ok(score)
}

/// Durations are printed with four digits.
fn near(what: &str, got: f64, truth: f64) -> Score {
    let is_near = (got - truth).abs() <= 0.001 * truth.max(1.0);
    if !is_near {
        score::fault(&format!("{what}: {got:.0} ns, {truth:.0} ns"));
    }
    Score::of(is_near)
}

/// The rows of `tally locks`: `4.692 s  lock in convoy (0x55…, process 766)`, then `63 waits of 4 threads: …`.
fn of_text(text: &str) -> Result<Vec<Lock>> {
    let mut locks: Vec<Lock> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().splitn(2, "  ").collect();
        if let (Some(seconds), [_, what]) = (read::seconds(line), &fields[..]) {
            locks.push(Lock { what: what.trim().to_owned(), wait_ns: seconds * 1e9, waits: 0 });
        } else if let Some((count, _)) = line.trim().split_once(" wait").filter(|(count, _)| is_count(count))
        {
            let lock = locks.last_mut().context("waits of no lock")?;
            lock.waits = count.replace(',', "").parse()?;
        }
    }
    Ok(locks)
}

fn is_count(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == ',')
}

fn of_page(pair: &Pair, file: &str) -> Result<Vec<Lock>> {
    let about = read::about(&html(pair, file)?)?;
    let locks = about["locks"].as_array().context("the page has no locks")?;
    let lock = |value: &Value| {
        Some(Lock {
            what: value["what"].as_str()?.to_owned(),
            wait_ns: value["wait"].as_f64()?,
            waits: value["count"].as_u64()?,
        })
    };
    locks.iter().map(|value| lock(value).context("a lock without what, wait and count")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_locks_are_read_with_their_numbers() {
        let text = "   4.692 s  lock in convoy (0x55, process 7)\n            1,063 waits of 4 threads: p50 62 ms\n  \
                    waiting in   a < b\n  12.50 ms  futexes of process 7\n            1 wait of 1 thread: p50 1 s\n";
        let lock = |what: &str, wait_ns, waits| Lock { what: what.to_owned(), wait_ns, waits };
        let expected = [
            lock("lock in convoy (0x55, process 7)", 4.692e9, 1063),
            lock("futexes of process 7", 12.5e6, 1),
        ];
        assert_eq!(of_text(text).expect("read"), expected);
    }
}
