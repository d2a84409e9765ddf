//! The most an object file may ask for: memory that its own size justifies, and a sum for the whole process.
//!
//! Debug sections compress to between a half and a fourteenth (measured on C, C++ and Rust programs with zlib and
//! zstd; abbreviations most), and no honest file lists more text than a few times its size. A hostile one makes
//! gigabytes of a megabyte: zstd goes up to 32,768 to one, and any number of symbols may share one long name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes that need no justification.
const FREE_BYTES: u64 = 1 << 20;
/// Bytes that a byte of the file may become.
const FOLD: u64 = 64;
/// Decompressed sections of all files together. DWARF that was read stays for the rest of the program's life.
const PROCESS_BYTES: u64 = 4 << 30;
/// Refusals kept; the first ones are enough, further ones are dropped.
const KEPT_REFUSALS: usize = 100;

/// Bytes that may still be read from a file.
pub(crate) struct Allowance(u64);

impl Allowance {
    /// For what comes out of `bytes` of a file.
    pub(crate) fn of(bytes: usize) -> Self {
        Self(justified_by(bytes as u64))
    }

    /// Takes `bytes` of it; false if it does not suffice.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes as u64);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// The most that `packed` bytes may become.
pub(crate) fn justified_by(packed: u64) -> u64 {
    FREE_BYTES.saturating_add(packed.saturating_mul(FOLD))
}

/// Decompressed bytes in memory, of all files.
static UNPACKED: AtomicU64 = AtomicU64::new(0);

/// A part of [`PROCESS_BYTES`], given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: u64,
    of: &'static AtomicU64,
}

impl Room {
    /// For `unpacked` bytes that come out of `packed` ones; `None` if that is too much.
    pub(crate) fn take(packed: u64, unpacked: u64) -> Option<Self> {
        Self::take_of(&UNPACKED, packed, unpacked)
    }

    fn take_of(of: &'static AtomicU64, packed: u64, unpacked: u64) -> Option<Self> {
        if unpacked > justified_by(packed) {
            return None;
        }
        let add = |sum: u64| sum.checked_add(unpacked).filter(|&sum| sum <= PROCESS_BYTES);
        of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok().map(|_| Self { bytes: unpacked, of })
    }

    /// Keeps `bytes` of it and gives the rest back.
    pub(crate) fn shrink_to(&mut self, bytes: u64) {
        let rest = self.bytes.saturating_sub(bytes);
        self.bytes -= rest;
        self.of.fetch_sub(rest, Ordering::Relaxed);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A part of a file that was not read, or not to its end, because it asked for too much memory or work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusal {
    /// `None` for a file in memory.
    pub file: Option<PathBuf>,
    /// The section.
    pub section: String,
}

static REFUSALS: Mutex<BTreeSet<Refusal>> = Mutex::new(BTreeSet::new());

/// Notes that a section of a file is not read, or not to its end.
pub(crate) fn refuse(file: Option<&Path>, section: &str) {
    let refusal = Refusal { file: file.map(Path::to_owned), section: section.to_owned() };
    let mut known = REFUSALS.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() < KEPT_REFUSALS {
        known.insert(refusal);
    }
}

/// Refusals since the program began, by file.
pub fn refusals() -> Vec<Refusal> {
    REFUSALS.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compilers_write_has_room_and_bombs_have_not() {
        assert!(Room::take(17_047, 227_774).is_some(), "abbreviations of a large program");
        assert!(Room::take(41, 10 << 30).is_none());
        assert!(Room::take(100_000, 100_000 * 1000).is_none());
        static SUM: AtomicU64 = AtomicU64::new(0);
        let huge = PROCESS_BYTES / FOLD;
        let take = |unpacked| Room::take_of(&SUM, huge, unpacked);
        let Some(mut all) = take(PROCESS_BYTES - (1 << 20)) else { panic!("within bounds") };
        assert!(take(2 << 20).is_none(), "the process has a bound, too");
        all.shrink_to(0);
        assert!(take(2 << 20).is_some());
    }

    #[test]
    fn an_allowance_ends_and_stays_ended() {
        let mut allowance = Allowance::of(1);
        assert!(allowance.take(FREE_BYTES as usize) && allowance.take(64) && !allowance.take(1));
        assert!(!allowance.take(1) && allowance.take(0));
    }
}
