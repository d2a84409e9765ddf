//! The fast half of the hooks on aarch64, which runs at every call and return, like `entry_x86_64`'s assembly
//! there.
//!
//! Nothing is locked: a signal handler may come between any two steps and record its own calls. So every step
//! is one access of memory, in the order written here, and an event's place is taken in one (`fetch_add`): a
//! handler writes after it. A frame's slot is written first and looked at again when the frame is taken: a
//! handler in between has used the same place. If a handler has changed the last time, `last_pos` shows that it
//! belongs to another event.

use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use crate::frame::{OpenCall, REPORTED, SILENT, SITED, UNCOUNTED, UNHOOKED};
use crate::layout as l;
use crate::thread::ThreadState;
use crate::{entry, sys};

/// Reads a field of the thread's state.
macro_rules! get {
    ($thread:ident.$field:ident) => {
        // SAFETY: this thread's own state, alive as long as the thread; a handler that changes it leaves it valid.
        unsafe { (&raw const (*$thread).$field).read_volatile() }
    };
}

/// Writes one.
macro_rules! set {
    ($thread:ident.$field:ident = $value:expr) => {
        // SAFETY: as above; the fast half writes only what holds at any moment.
        unsafe { (&raw mut (*$thread).$field).write_volatile($value) }
    };
}

/// The open call `below` the next free frame.
fn open_call(top: *mut OpenCall, below: usize) -> OpenCall {
    // SAFETY: below the outermost open call there is a sentinel, and nothing reads below that.
    unsafe { top.sub(below).read_volatile() }
}

/// The time now, if its high half is the one last written and there is room for an event.
fn time_if_room(thread: *mut ThreadState) -> Option<u64> {
    let now = sys::ticks();
    (get!(thread.pos) < get!(thread.end) && (now >> 32) as u32 == get!(thread.tsc_high)).then_some(now)
}

/// Where the next event goes, which nobody else will take.
fn take_place(thread: *mut ThreadState) -> *mut u64 {
    // SAFETY: this thread's own state; only its handlers change the field meanwhile.
    let pos = unsafe { AtomicU64::from_ptr((&raw mut (*thread).pos).cast()) };
    let at = pos.fetch_add(l::EVENT_BYTES as u64, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    at as *mut u64
}

/// Writes an event with the time `now`, or with a handler's time if that is later and was written before it.
/// `word` is the rest of the event. Returns its address, and the time of the event before it; 0 if that is not
/// known.
fn write(thread: *mut ThreadState, word: u64, now: u64) -> (u64, u64) {
    let at = take_place(thread);
    // The time first: a handler that changes it later changes also where it ends.
    let last = get!(thread.last);
    let before = if get!(thread.last_pos) == at as u64 { last } else { 0 };
    let time = now.max(before);
    set!(thread.last = time);
    // SAFETY: the room was checked, and more than handlers need follows it.
    unsafe { at.write_volatile(word | time & 0xffff_ffff) };
    set!(thread.last_pos = at as u64 + l::EVENT_BYTES as u64);
    (at as u64, before)
}

/// A function was entered: writes that and opens its call. False when anything is out of the ordinary: nothing was done.
pub fn enter(addr: u64, frame: OpenCall) -> bool {
    let thread = entry::thread();
    let top = get!(thread.top);
    if top >= get!(thread.limit)
        || open_call(top, 1).place() <= frame.place()
        || (addr >> l::ADDR_BITS) as u32 != get!(thread.addr_high)
    {
        return false;
    }
    let Some(now) = time_if_room(thread) else { return false };
    let (at, before) = write(thread, l::entry_word(addr, 0), now);
    push(thread, OpenCall { at, before, ..frame });
    true
}

fn push(thread: *mut ThreadState, frame: OpenCall) {
    let top = get!(thread.top);
    // SAFETY: below `limit`, as was looked.
    unsafe {
        (&raw mut (*top).slot).write_volatile(frame.slot);
        (&raw mut (*top).at).write_volatile(frame.at);
        (&raw mut (*top).before).write_volatile(frame.before);
        (&raw mut (*top).back).write_volatile(frame.back);
    }
    set!(thread.top = top.wrapping_add(1));
    // SAFETY: as above, and it is taken now.
    unsafe {
        if (&raw const (*top).slot).read_volatile() != frame.slot {
            // A handler used the place before it was taken; it also wrote after the entry.
            top.write_volatile(OpenCall { at: 0, ..frame });
        }
    }
}

/// The stack pointer is at `sp` as a hooked call returns: writes that, if it is the innermost one's. Where to go on;
/// `None` when anything is out of the ordinary: nothing was done.
pub fn returned(sp: u64) -> Option<u64> {
    const MARKS: u64 = UNHOOKED | UNCOUNTED | SITED | SILENT | REPORTED;
    let thread = entry::thread();
    let top = get!(thread.top);
    if top.is_null() {
        return None;
    }
    let frame = open_call(top, 1);
    let place = frame.place();
    if frame.slot & MARKS != 0 || place >= sp {
        return None;
    }
    // Calls that were left without returning are below the one that returns.
    let is_innermost = open_call(top, 2).place() >= sp;
    let stack = get!(thread.stack);
    let is_own = |at: u64| at >= stack.0 && at < stack.1;
    let is_its = place + 8 == sp || is_own(place) && is_own(sp);
    (is_innermost && is_its && close(thread, &frame)).then_some(frame.back)
}

/// The function at `addr` reported its end, at the stack pointer `sp`, which is meaningless if `is_last`. True
/// if the innermost call is its, and closed.
pub fn reported(addr: u64, sp: u64, is_last: bool) -> bool {
    let thread = entry::thread();
    let top = get!(thread.top);
    if top >= get!(thread.limit) {
        return false;
    }
    let frame = open_call(top, 1);
    let is_its = if is_last { frame.slot & 7 == REPORTED } else { frame.slot == sp | REPORTED };
    frame.back == addr && is_its && close(thread, &frame)
}

/// Closes the innermost call; false when anything is out of the ordinary.
fn close(thread: *mut ThreadState, frame: &OpenCall) -> bool {
    // Calls that may be dropped for their short time are the slow half's.
    if get!(thread.min_ticks) != 0 {
        return false;
    }
    let Some(now) = time_if_room(thread) else { return false };
    if !make_leaf(thread, frame, now) {
        write(thread, l::exit_word(0), now);
    }
    let top = get!(thread.top);
    set!(thread.top = top.wrapping_sub(1));
    true
}

/// Makes one event of a call's entry and exit, if the entry is the last event and both times are near enough.
fn make_leaf(thread: *mut ThreadState, frame: &OpenCall, now: u64) -> bool {
    let pos = get!(thread.pos);
    if frame.at == 0 || pos as u64 != frame.at + l::EVENT_BYTES as u64 || get!(thread.last_pos) != pos as u64
    {
        return false;
    }
    let entered = get!(thread.last);
    let (took, after) = (now.wrapping_sub(entered), entered.wrapping_sub(frame.before));
    let entry = frame.at as *mut u64;
    // SAFETY: the entry is in the mapped chunk, right before `pos`.
    let word = unsafe { entry.read_volatile() };
    let leaf = l::leaf_word(word >> 32, after as u16, took as u16);
    if (took | after) >> 16 != 0 || leaf == 0 {
        return false;
    }
    set!(thread.last_pos = 0);
    // SAFETY: as above.
    unsafe { entry.write_volatile(leaf) };
    compiler_fence(Ordering::SeqCst);
    if get!(thread.pos) != pos {
        // A handler wrote after it meanwhile. SAFETY: as above; a chunk that is full stays mapped until the
        // next one is.
        unsafe { entry.write_volatile(word) };
        return false;
    }
    set!(thread.last = now);
    set!(thread.last_pos = pos as u64);
    true
}
