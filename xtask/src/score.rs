//! Counting: what passed, what failed, what could not be tried on this machine.

use std::ops::AddAssign;
use std::sync::{Mutex, PoisonError};

/// What failed so far, for the summary: whoever sees only the end of the output must see this.
static FAULTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Longer descriptions are cut in the summary; they were printed whole before.
const FAULT_CHARS: usize = 600;

/// Prints what failed and keeps it for [`faults`].
pub fn fault(what: &str) {
    println!("{what}");
    let short = what.chars().take(FAULT_CHARS).collect();
    FAULTS.lock().unwrap_or_else(PoisonError::into_inner).push(short);
}

/// All that [`fault`] was given, in that order.
pub fn faults() -> Vec<String> {
    FAULTS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The outcome of one chore, in checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Checks that held.
    pub passed: u32,
    /// Checks that did not.
    pub failed: u32,
    /// Checks that this machine could not make; each has said why.
    pub skipped: u32,
}

impl Score {
    /// One check that held.
    pub const PASS: Self = Self { passed: 1, failed: 0, skipped: 0 };
    /// One check that did not hold.
    pub const FAIL: Self = Self { passed: 0, failed: 1, skipped: 0 };
    /// One check that could not be made.
    pub const SKIP: Self = Self { passed: 0, failed: 0, skipped: 1 };

    /// `PASS` when `ok`, else `FAIL`.
    pub fn of(ok: bool) -> Self {
        if ok { Self::PASS } else { Self::FAIL }
    }
}

impl AddAssign for Score {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Says that a check was skipped, and why, in the form that is searched for.
pub fn skip(what: &str, why: &str) -> Score {
    println!("skipped: {what}: {why}");
    Score::SKIP
}
