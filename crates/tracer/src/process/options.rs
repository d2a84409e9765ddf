//! The options of a recording, from the environment.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::thread::signal_toggle;
use crate::{layout, sys};

/// Options from the environment.
#[derive(Clone, Copy)]
pub struct TracerOptions {
    /// Calls nested deeper are not recorded.
    pub depth: usize,
    /// Calls that hold no recorded one and take fewer ticks are dropped.
    pub min_ticks: u64,
    /// Bytes that a thread's file keeps; 0: all.
    pub keep_bytes: u64,
    /// Only calls inside chosen functions are recorded.
    pub any_only: bool,
    /// Nothing is recorded until a function starts it.
    pub starts_off: bool,
    /// Only calls are recorded that lead to chosen functions.
    pub callers_only: bool,
    /// Calls that are not recorded are known while they are open.
    pub keeps_silent: bool,
}

static MIN_TICKS: AtomicU64 = AtomicU64::new(0);
static KEEP_BYTES: AtomicU64 = AtomicU64::new(0);
static ANY_ONLY: AtomicBool = AtomicBool::new(false);
static STARTS_OFF: AtomicBool = AtomicBool::new(false);
static CALLERS_ONLY: AtomicBool = AtomicBool::new(false);
static KEEPS_SILENT: AtomicBool = AtomicBool::new(false);
static ACTIVE: AtomicBool = AtomicBool::new(false);
static DEPTH: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The options; `None` before start-up and when no recording is asked for.
pub fn options() -> Option<TracerOptions> {
    ACTIVE.load(Ordering::Acquire).then(|| TracerOptions {
        depth: DEPTH.load(Ordering::Relaxed),
        min_ticks: MIN_TICKS.load(Ordering::Relaxed),
        keep_bytes: KEEP_BYTES.load(Ordering::Relaxed),
        any_only: ANY_ONLY.load(Ordering::Relaxed),
        starts_off: STARTS_OFF.load(Ordering::Relaxed),
        callers_only: CALLERS_ONLY.load(Ordering::Relaxed),
        keeps_silent: KEEPS_SILENT.load(Ordering::Relaxed),
    })
}

/// From now on the options hold, and calls are recorded.
pub fn activate() {
    ACTIVE.store(true, Ordering::Release);
}

/// Whether calls are recorded.
pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Acquire)
}

/// The value of `NAME=value` in an environment block.
///
/// # Safety
/// `environment` is a NULL-terminated array of NUL-terminated strings.
pub unsafe fn variable(environment: *const *const u8, name: &str, mut each: impl FnMut(usize, u8)) -> bool {
    let mut at = environment;
    loop {
        // SAFETY: not yet past the array's NULL.
        let entry = unsafe { *at };
        if entry.is_null() {
            return false;
        }
        let byte = |i: usize| {
            // SAFETY: not read past the string's NUL: every caller stops at the first mismatch or 0.
            unsafe { *entry.add(i) }
        };
        if name.bytes().enumerate().all(|(i, wanted)| byte(i) == wanted) && byte(name.len()) == b'=' {
            let mut i = 0;
            while byte(name.len() + 1 + i) != 0 {
                each(i, byte(name.len() + 1 + i));
                i += 1;
            }
            return true;
        }
        // SAFETY: the array goes on, its NULL was not met.
        at = unsafe { at.add(1) };
    }
}

/// Reads all options.
///
/// # Safety
/// As of [`variable`].
pub unsafe fn read_options(environment: *const *const u8) {
    // SAFETY: the caller guarantees it.
    let number = |name: &str| unsafe {
        let mut value = 0u64;
        let found = variable(environment, name, |_, digit| {
            value = value.saturating_mul(10).saturating_add(u64::from(digit.saturating_sub(b'0')));
        });
        found.then_some(value)
    };
    if let Some(depth) = number(layout::DEPTH_VARIABLE) {
        DEPTH.store(depth as usize, Ordering::Relaxed);
    }
    if let Some(ns) = number(layout::MIN_VARIABLE) {
        MIN_TICKS.store(ticks_of(ns), Ordering::Relaxed);
    }
    KEEP_BYTES.store(number(layout::KEEP_VARIABLE).unwrap_or(0), Ordering::Relaxed);
    CALLERS_ONLY.store(number(layout::CALLERS_VARIABLE).is_some(), Ordering::Relaxed);
    KEEPS_SILENT.store(number(layout::BACKTRACE_VARIABLE).is_some(), Ordering::Relaxed);
    let mut word = 0;
    // SAFETY: the caller guarantees it.
    let has_signals = unsafe {
        variable(environment, layout::SIGNALS_VARIABLE, |_, byte| match byte {
            b'0'..=b'9' => word = word * 10 + u32::from(byte - b'0'),
            _ => signal_toggle::add(core::mem::take(&mut word)),
        })
    };
    if has_signals {
        signal_toggle::add(word);
    }
    // Each word is recognized by a letter that only it has.
    // SAFETY: the caller guarantees it.
    unsafe {
        variable(environment, layout::START_VARIABLE, |_, letter| match letter {
            b'y' => ANY_ONLY.store(true, Ordering::Relaxed),
            b'f' => STARTS_OFF.store(true, Ordering::Relaxed),
            _ => {}
        });
    }
}

/// Number of ticks in `ns` nanoseconds, from watching both clocks for a moment.
pub fn ticks_of(ns: u64) -> u64 {
    const WATCH_NS: u64 = 2_000_000;
    let (ticks, from_ns) = (sys::ticks(), sys::monotonic_ns());
    loop {
        let passed_ns = sys::monotonic_ns() - from_ns;
        if passed_ns >= WATCH_NS {
            let passed = u128::from(sys::ticks() - ticks);
            return (u128::from(ns) * passed / u128::from(passed_ns)) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let block = [c"DEPTH_MAX=9", c"DEPTH=12", c"DEP=3"].map(|entry| entry.as_ptr().cast::<u8>());
        let block = [block[0], block[1], block[2], core::ptr::null()];
        let value = |name: &str| {
            let mut bytes = Vec::new();
            // SAFETY: ends by a NULL, and each entry by a NUL.
            unsafe { variable(block.as_ptr(), name, |_, byte| bytes.push(byte)) }.then_some(bytes)
        };
        assert_eq!(value("DEPTH"), Some(b"12".to_vec()));
        assert_eq!(value("DEP"), Some(b"3".to_vec()));
        assert_eq!((value("DEPT"), value("EPTH")), (None, None));
    }
}
