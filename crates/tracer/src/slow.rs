//! Calls that are kept only if they were slow: where each began, to go back there when it was not.

use crate::layout::sleds::SLOW;
use crate::site::Site;
use crate::sys;
use crate::thread::Thread;

/// Such calls that may be open at once; those inside more of them are kept.
const MOST: usize = 16;

/// One thread's open calls of that kind, outermost first.
#[derive(Clone, Copy)]
pub struct Slow {
    open: [Began; MOST],
    count: usize,
}

/// Where and when one began.
#[derive(Clone, Copy)]
struct Began {
    /// Open calls around it.
    depth: usize,
    /// Its entry's offset in the file.
    offset: u64,
    tsc: u64,
}

impl Slow {
    /// None is open any more; or what is belongs to another file.
    pub fn clear(&mut self) {
        self.count = 0;
    }
}

impl Thread {
    /// Where in the file the next event goes.
    pub fn offset(&self) -> u64 {
        self.file_bytes - self.chunk_bytes as u64 + (self.pos as u64 - self.chunk as u64)
    }

    /// The call just opened may have to be dropped; its entry was written at `offset`.
    pub fn note_began(&mut self, offset: u64) {
        let depth = self.depth() - 1;
        // Those that were left without returning are not open any more.
        while self.slow.count > 0 && self.slow.open[self.slow.count - 1].depth >= depth {
            self.slow.count -= 1;
        }
        let began = Began { depth, offset, tsc: sys::ticks() };
        if let Some(place) = self.slow.open.get_mut(self.slow.count) {
            *place = began;
            self.slow.count += 1;
        }
    }

    /// The call with so many around it ends. True if it is dropped: then no end is to be written.
    pub fn drop_if_quick(&mut self, site: &Site, depth: usize) -> bool {
        let Some(began) = self.slow.count.checked_sub(1).and_then(|last| self.slow.open.get(last)).copied()
        else {
            return false;
        };
        if !site.has(SLOW) || began.depth != depth {
            return false;
        }
        self.slow.count -= 1;
        let first = self.file_bytes - self.chunk_bytes as u64;
        // What began in an earlier chunk is kept: it holds many calls.
        if sys::ticks().wrapping_sub(began.tsc) >= site.min_ticks || began.offset < first {
            return false;
        }
        let start = self.chunk.wrapping_add((began.offset - first) as usize).cast::<u64>();
        while self.pos > start {
            self.pos = self.pos.wrapping_sub(1);
            // SAFETY: from the entry to where the next event would have gone, all within the mapped chunk.
            unsafe { *self.pos = 0 };
        }
        // The high parts may have been told in what was dropped.
        (self.tsc_high, self.addr_high, self.last_pos) = (u32::MAX, u32::MAX, 0);
        true
    }
}
