//! Counts of passed, failed and skipped checks.

use std::ops::{AddAssign, SubAssign};
use std::sync::{Mutex, PoisonError};

/// Failures so far, for the summary: a reader of only the end of the output must see them.
static FAULTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Maximum length of a description in the summary. The whole text was printed before.
const FAULT_CHARS: usize = 600;

/// Prints a failure and keeps it for [`faults`].
pub fn fault(what: &str) {
    println!("{what}");
    let short = what.chars().take(FAULT_CHARS).collect();
    FAULTS.lock().unwrap_or_else(PoisonError::into_inner).push(short);
}

/// All failures given to [`fault`], in that order.
pub fn faults() -> Vec<String> {
    FAULTS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The outcome of one chore, in checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Checks that passed.
    pub passed: u32,
    /// Checks that failed.
    pub failed: u32,
    /// Checks that this machine could not run; each has printed the reason.
    pub skipped: u32,
}

impl Score {
    /// One passed check.
    pub const PASS: Self = Self { passed: 1, failed: 0, skipped: 0 };
    /// One failed check.
    pub const FAIL: Self = Self { passed: 0, failed: 1, skipped: 0 };
    /// One skipped check.
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

impl SubAssign for Score {
    fn sub_assign(&mut self, other: Self) {
        self.passed -= other.passed;
        self.failed -= other.failed;
        self.skipped -= other.skipped;
    }
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Prints a skipped check and the reason, in the form that `ci` searches for.
pub fn skip(what: &str, why: &str) -> Score {
    println!("skipped: {what}: {why}");
    Score::SKIP
}
