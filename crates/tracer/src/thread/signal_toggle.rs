//! Signals that begin or stop recording in all threads.
//!
//! The handler only stores the request and sends every thread to the slow half at its next call; there its gate
//! is opened or closed.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::frame::OpenCall;

/// A thread's end of frames for the fast half; null: every call goes to the slow half.
type Limit = *mut OpenCall;

/// Twice the number of switches so far, and one more if recording is on.
static WANTED: AtomicU32 = AtomicU32::new(0);
/// [`Limit`]s of threads that record; more than these are not switched off.
static LIMITS: [AtomicPtr<Limit>; 1024] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 1024];
/// Which signals begin recording, a bit each.
static BEGINNING: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];

unsafe extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
}

/// A signal that switches: `word` is twice its number, and one more if it begins recording.
pub fn add(word: u32) {
    let (number, bit) = (word / 2, 1 << (word / 2 % 32));
    if !word.is_multiple_of(2)
        && let Some(set) = BEGINNING.get((number / 32) as usize)
    {
        set.fetch_or(bit, Ordering::Relaxed);
    }
    // SAFETY: the C library's function; the handler touches nothing but atomics.
    unsafe { signal(number as i32, switch) };
}

extern "C" fn switch(number: i32) {
    let number = number as u32;
    let set = BEGINNING.get((number / 32) as usize).map_or(0, |set| set.load(Ordering::Relaxed));
    let on = u32::from(set >> (number % 32) & 1 != 0);
    let next = |wanted: u32| Some((wanted | 1).wrapping_add(1) | on);
    let _ = WANTED.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    for limit in &LIMITS {
        let limit = limit.load(Ordering::Acquire);
        if !limit.is_null() {
            // SAFETY: a thread takes its entry out before it ends; its limit is a word, written whole.
            unsafe { limit.write_volatile(core::ptr::null_mut()) };
        }
    }
}

/// The requested state, if a signal has come since `seen`, which is then updated.
pub fn news(seen: &mut u32) -> Option<bool> {
    let wanted = WANTED.load(Ordering::Acquire);
    (wanted != *seen).then(|| {
        *seen = wanted;
        wanted & 1 != 0
    })
}

/// Whether a signal has come since `seen`.
pub fn is_news(seen: u32) -> bool {
    WANTED.load(Ordering::Acquire) != seen
}

/// A thread records.
pub fn enlist(limit: *mut Limit) {
    let free = |place: &&AtomicPtr<Limit>| {
        let none = core::ptr::null_mut();
        place.compare_exchange(none, limit, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    let _ = LIMITS.iter().find(free);
}

/// A thread ends.
pub fn dismiss(limit: *mut Limit) {
    let none = core::ptr::null_mut();
    for place in &LIMITS {
        let _ = place.compare_exchange(limit, none, Ordering::AcqRel, Ordering::Relaxed);
    }
}
