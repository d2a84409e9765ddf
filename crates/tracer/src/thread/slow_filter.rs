//! Calls that are kept only if they were slow: where each began, to go back there when it was not.

use crate::frame::{OpenCall, SITED};
use crate::instrumented_fn::Site;
use crate::layout::sleds::SLOW;
use crate::layout::{self as l, RecordedEvent};
use crate::sys;
use crate::thread::ThreadState;

/// Such calls that may be open at once; those inside more of them are kept.
const MOST: usize = 16;

/// One thread's open calls of that kind, outermost first.
#[derive(Clone, Copy)]
pub struct SlowCalls {
    open: [Began; MOST],
    count: usize,
}

/// Where and when one began.
#[derive(Clone, Copy)]
struct Began {
    /// Open calls around it.
    depth: usize,
    /// Entry's offset in the file.
    offset: u64,
    tsc: u64,
}

impl SlowCalls {
    /// None is open any more; or what is belongs to another file.
    pub fn clear(&mut self) {
        self.count = 0;
    }
}

impl ThreadState {
    /// Where in the file the next event goes.
    pub fn offset(&self) -> u64 {
        self.file.bytes - self.file.chunk_bytes as u64 + (self.pos as u64 - self.file.chunk as u64)
    }

    /// The call just opened may have to be dropped; its entry was written at `offset`.
    pub fn note_began(&mut self, offset: u64) {
        let depth = self.depth() - 1;
        // Those that were left without returning are not open any more.
        while self.rules.slow.count > 0 && self.rules.slow.open[self.rules.slow.count - 1].depth >= depth {
            self.rules.slow.count -= 1;
        }
        let began = Began { depth, offset, tsc: sys::ticks() };
        if let Some(place) = self.rules.slow.open.get_mut(self.rules.slow.count) {
            *place = began;
            self.rules.slow.count += 1;
        }
    }

    /// The call at nesting `depth` ends. True if it is dropped: then no end is written.
    pub fn drop_if_quick(&mut self, site: &Site, depth: usize) -> bool {
        let Some(began) =
            self.rules.slow.count.checked_sub(1).and_then(|last| self.rules.slow.open.get(last)).copied()
        else {
            return false;
        };
        if !site.has(SLOW) || began.depth != depth {
            return false;
        }
        self.rules.slow.count -= 1;
        let first = self.file.bytes - self.file.chunk_bytes as u64;
        // A call that began in an earlier chunk is kept: it has many calls inside.
        if sys::ticks().wrapping_sub(began.tsc) >= site.min_ticks || began.offset < first {
            return false;
        }
        self.take_back(self.file.chunk.wrapping_add((began.offset - first) as usize).cast());
        // The high parts may have been in the dropped events.
        (self.tsc_high, self.addr_high) = (u32::MAX, u32::MAX);
        true
    }

    /// Removes the events from `start` on; `start` is in the mapped chunk.
    fn take_back(&mut self, start: *mut u64) {
        while self.pos > start {
            self.pos = self.pos.wrapping_sub(1);
            // SAFETY: from `start` to where the next event would have gone, all within the mapped chunk.
            unsafe { *self.pos = 0 };
        }
        self.last_pos = 0;
    }

    /// Where entries of open calls were written is not known any more: that chunk is full.
    pub fn forget_entries(&mut self) {
        for at in 0..self.depth() {
            // SAFETY: frames from base to top are ours and initialised.
            unsafe { (*self.base.add(at)).at = 0 };
        }
    }

    /// When the call of a frame was entered, if nothing was written since but what belongs to its entry.
    fn entered_last(&self, frame: &OpenCall) -> Option<u64> {
        let start = frame.at as *mut u64;
        if (start as u64) < self.file.chunk as u64 || start >= self.pos {
            return None;
        }
        // SAFETY: within what was written of the mapped chunk.
        let word = |at: *mut u64| RecordedEvent::from_word(unsafe { *at });
        let RecordedEvent::Entry { tsc_low, .. } = word(start) else { return None };
        let mut at = start.wrapping_add(1);
        while at < self.pos {
            let RecordedEvent::Control { code, argument } = word(at) else { return None };
            if ![l::CONTROL_ARGUMENTS, l::CONTROL_BACKTRACE].contains(&u64::from(code)) {
                return None;
            }
            at = at.wrapping_add(1 + l::words_after(u64::from(code), argument));
        }
        // Were its high part another by now, that would have been written.
        (at == self.pos).then(|| u64::from(self.tsc_high) << 32 | u64::from(tsc_low))
    }

    /// The innermost call ends. True if it is dropped, because it took less than is to be kept and holds no call that
    /// is.
    pub fn drop_if_short(&mut self, frame: &OpenCall) -> bool {
        if self.min_ticks == 0 || frame.is_silent() {
            return false;
        }
        let Some(entered) = self.entered_last(frame) else { return false };
        if self.now().wrapping_sub(entered) >= self.min_ticks {
            return false;
        }
        self.take_back(frame.at as *mut u64);
        self.find_last(frame);
        true
    }

    /// The last event's time, now that the entry of `dropped` is gone: it may be the entry of the call around.
    fn find_last(&mut self, dropped: &OpenCall) {
        let around = self.frame(1).and_then(|around| self.entered_last(&around));
        let before = if dropped.slot & SITED == 0 { dropped.before } else { 0 };
        match around.unwrap_or(before) {
            0 => {}
            known => self.was_at(known),
        }
    }
}
