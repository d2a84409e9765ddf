//! One thread's state: its file, its open calls; and the slow half of the hooks.
//!
//! The fast half (`entry_x86_64`) handles what happens a million times a second and falls back to here when
//! anything is out of the ordinary: the thread's first call, a full chunk, a change of the high parts of time
//! or address, a frame that was left without returning.

use crate::gate::{self, Gate};
use crate::layout as l;
use crate::{start, sys};

/// An open call.
#[repr(C, align(32))]
#[derive(Clone, Copy)]
pub struct Frame {
    /// Where the function really returns to; for functions that report their own exit, their address.
    pub back: u64,
    /// Where on the stack the return address stands; the top bit says that it was put back (`UNHOOKED`).
    pub slot: u64,
    /// Where its entry was written; 0 when it can't become a leaf.
    pub at: u64,
    /// Time of the event before its entry, ticks; 0 when not known.
    pub before: u64,
}

impl Frame {
    const fn new(back: u64, slot: u64) -> Self {
        Self { back, slot, at: 0, before: 0 }
    }

    /// Where its return address stands; of one that reports itself, with that mark.
    const fn place(&self) -> u64 {
        self.slot & !(UNHOOKED | gate::ONLY | gate::NOT)
    }

    /// Whether its entry was written.
    const fn is_silent(&self) -> bool {
        self.slot & gate::NOT != 0
    }
}

/// The return address stands in its place again, because an unwinder is walking the stack.
const UNHOOKED: u64 = 1 << 63;
/// The function reports its own exit: `back` is its address and nothing on the stack is hooked.
/// (Stack slots are even, so the lowest bit is free.)
const REPORTED: u64 = 1;
/// Frames of one thread; the memory is reserved, not used.
const MAX_FRAMES: usize = 1 << 20;
/// Events that a signal handler may add between the check for room and the write.
const SLACK_EVENTS: usize = 64;

/// Not seen yet.
const FRESH: u32 = 0;
/// Recording.
const LIVE: u32 = 1;
/// Given up: no file could be made, or recording is not asked for.
const OFF: u32 = 2;

/// A thread's state. The first nine fields are known to the assembly by their offsets.
#[repr(C, align(64))]
pub struct Thread {
    /// Where the next event goes.
    pub pos: *mut u64,
    /// From here on there is no room.
    pub end: *mut u64,
    /// The next free frame; the one below it is the innermost open call.
    pub top: *mut Frame,
    /// The first frame not to be used.
    pub limit: *mut Frame,
    /// High 32 bits of the TSC, as last written.
    pub tsc_high: u32,
    /// The address shifted right by `ADDR_BITS`, as last written.
    pub addr_high: u32,
    /// Time of the last event, ticks …
    pub last: u64,
    /// … if that ends here; the slow half leaves 0.
    pub last_pos: u64,
    /// Calls that hold no recorded one and take fewer ticks are dropped.
    pub min_ticks: u64,
    base: *mut Frame,
    chunk: *mut u8,
    chunk_bytes: usize,
    file_bytes: u64,
    fd: i32,
    state: u32,
    lost: u32,
    /// Reported entries that were not recorded and whose exits are to come.
    refused: u32,
    busy: u32,
    /// Signals are held back; `mask` is what was blocked before.
    held: u32,
    mask: u64,
    stack: (u64, u64),
    /// What `limit` is while calls are recorded.
    depth_limit: *mut Frame,
    gate: Gate,
    /// Bytes that the file keeps; 0: all.
    keep_bytes: u64,
}

impl Thread {
    /// Shuts the fast half out; false when the slow half already runs on this thread (a signal handler).
    pub fn lock(&mut self) -> bool {
        if self.busy != 0 {
            self.lost = self.lost.saturating_add(1);
            return false;
        }
        self.busy = 1;
        self.limit = core::ptr::null_mut();
        true
    }

    /// Lets the fast half in again.
    pub fn unlock(&mut self) {
        // While the rules record nothing, every entry comes here and is looked at.
        if self.gate.is_open() {
            self.limit = self.depth_limit;
        }
        let held = core::mem::take(&mut self.held);
        let mask = self.mask;
        self.busy = 0;
        if held != 0 {
            sys::restore_signals(mask);
        }
    }

    /// Signals wait until `unlock`: what is done now takes long, and their handlers' calls would be lost.
    fn hold_signals(&mut self) {
        if self.held == 0 {
            self.mask = sys::block_signals();
            self.held = 1;
        }
    }

    /// A function was entered whose return address stands at `slot`; of a sled, with its rules. True when it was recorded and a sled's stub
    /// is to call it; otherwise the slot holds what it is to return to.
    pub fn enter(&mut self, addr: u64, slot: u64, sled: Option<u64>) -> bool {
        if !self.ready(slot) {
            return false;
        }
        let place = slot as *mut u64;
        // SAFETY: the slot holds the return address that the caller's call instruction wrote.
        let mut back = unsafe { *place };
        // A tail call: this function returns in the place of the one that jumped here.
        let is_tail = crate::hook::is_ours(back);
        if is_tail {
            back = self.replaced(slot);
        } else {
            self.close_left(slot);
        }
        let recorded = self.open(addr, Frame::new(back, slot), sled.unwrap_or(0));
        if recorded && !is_tail && sled.is_some() {
            return true;
        }
        if !(recorded && is_tail) {
            // SAFETY: as above.
            unsafe { *place = if recorded { crate::hook::trampoline() } else { back } };
        }
        false
    }

    /// Opens a call as the rules say; false when its return need not be seen.
    fn open(&mut self, addr: u64, mut frame: Frame, rules: u64) -> bool {
        let was_open = self.gate.is_open();
        let marks = self.gate.enter(rules);
        frame.slot |= marks;
        let opened = if self.gate.is_open() {
            self.push(addr, frame)
        } else {
            // Muted by this very call: its end must be seen, to go on.
            was_open && frame.is_silent() && self.push_frame(frame)
        };
        if !opened {
            self.gate.leave(marks);
        }
        opened
    }

    fn push_frame(&mut self, frame: Frame) -> bool {
        if self.top >= self.depth_limit {
            return false;
        }
        // SAFETY: top < depth_limit, so the frame is ours.
        unsafe { *self.top = frame };
        // SAFETY: at most `depth_limit`.
        self.top = unsafe { self.top.add(1) };
        true
    }

    /// Closes the call whose return address stood at `slot`; that address.
    fn replaced(&mut self, slot: u64) -> u64 {
        let mut below = 0;
        while let Some(frame) = self.frame(below) {
            if frame.place() == slot {
                self.pop_to(below);
                return frame.back;
            }
            below += 1;
        }
        crate::hook::lost_return()
    }

    /// A function reported its own entry; `sp` is its stack pointer.
    pub fn enter_reported(&mut self, addr: u64, sp: u64) {
        if self.ready(sp) {
            self.close_left(sp);
            let recorded = self.open(addr, Frame::new(addr, sp | REPORTED), 0);
            self.refused += u32::from(!recorded);
        }
    }

    /// A function reported its own exit.
    pub fn exit_reported(&mut self, addr: u64) {
        if self.state != LIVE {
            return;
        }
        if self.refused > 0 {
            // Of a call that was too deep: the innermost open one may be of the same function.
            self.refused -= 1;
            return;
        }
        let mut below = 0;
        while let Some(frame) = self.frame(below) {
            if frame.back == addr {
                self.pop_to(below);
                return;
            }
            below += 1;
        }
    }

    /// The function whose return address stood at `slot` returns; where to.
    pub fn exit(&mut self, slot: u64) -> u64 {
        let mut below = 0;
        while let Some(frame) = self.frame(below) {
            if frame.place() == slot {
                let back = frame.back;
                self.pop_to(below);
                return back;
            }
            below += 1;
        }
        crate::hook::lost_return()
    }

    /// Puts every return address back, before an unwinder walks this stack.
    pub fn unhook(&mut self) {
        self.each_hooked(|frame| {
            // SAFETY: the frame is open, so its slot still holds our trampoline's address.
            unsafe { *(frame.place() as *mut u64) = frame.back };
            frame.slot |= UNHOOKED;
        });
    }

    /// An exception was caught at `sp`: frames below are gone, those above are hooked again.
    pub fn caught(&mut self, sp: u64) {
        self.left_below(sp);
        self.rehook();
    }

    /// Closes the innermost calls whose frames lie below `sp` on the same stack.
    pub fn left_below(&mut self, sp: u64) {
        self.refused = 0;
        while self.state == LIVE
            && let Some(frame) = self.frame(0)
        {
            let slot = frame.place();
            if slot >= sp || !self.same_stack(slot, sp) {
                break;
            }
            self.left();
        }
    }

    /// Hooks the return addresses again that `unhook` put back.
    pub fn rehook(&mut self) {
        self.each_hooked(|frame| {
            if frame.slot & UNHOOKED != 0 {
                frame.slot &= !UNHOOKED;
                // SAFETY: the frame is open and above the catching one, its slot is intact.
                unsafe { *(frame.place() as *mut u64) = crate::hook::trampoline() };
            }
        });
    }

    fn each_hooked(&mut self, mut each: impl FnMut(&mut Frame)) {
        let mut at = self.base;
        while self.state == LIVE && at < self.top {
            // SAFETY: frames from base to top are ours and initialised.
            let frame = unsafe { &mut *at };
            if frame.slot & REPORTED == 0 {
                each(frame);
            }
            // SAFETY: stays within the same allocation.
            at = unsafe { at.add(1) };
        }
    }

    /// After fork, in the child: a file of its own, with the parent's open calls.
    pub fn forked(&mut self) {
        if self.state != LIVE {
            return;
        }
        self.drop_file();
        let open = self.depth();
        if self.make_file() {
            self.control(l::CONTROL_FORKED, open as u64);
        }
    }

    fn depth(&self) -> usize {
        (self.top as usize - self.base as usize) / size_of::<Frame>()
    }

    /// The open call `below` the innermost.
    fn frame(&self, below: usize) -> Option<Frame> {
        (below < self.depth()).then(|| {
            // SAFETY: within base..top, as just checked.
            unsafe { *self.top.sub(below + 1) }
        })
    }

    fn ready(&mut self, sp: u64) -> bool {
        if self.state == FRESH {
            self.hold_signals();
            self.begin(sp);
        }
        self.state == LIVE
    }

    fn begin(&mut self, sp: u64) {
        let Some(options) = start::options() else { return };
        self.state = OFF;
        let bytes = (MAX_FRAMES + 1) * size_of::<Frame>();
        let Some(frames) = sys::map_memory(0, bytes) else { return };
        let bottom = frames.cast::<Frame>();
        // SAFETY: fresh memory of MAX_FRAMES + 1 frames; the lowest is a sentinel that no slot passes.
        unsafe { *bottom = Frame::new(0, u64::MAX) };
        // SAFETY: within the same mapping.
        self.base = unsafe { bottom.add(1) };
        self.top = self.base;
        // SAFETY: as above.
        self.depth_limit = unsafe { self.base.add(options.depth.min(MAX_FRAMES)) };
        self.stack = start::mapping_of(sp);
        self.gate = Gate::new(&options);
        self.min_ticks = options.min_ticks;
        self.keep_bytes = options.keep_bytes;
        if self.make_file() {
            self.state = LIVE;
        }
    }

    fn make_file(&mut self) -> bool {
        let Some(fd) = start::new_file(sys::tid()) else { return false };
        self.fd = fd;
        self.file_bytes = 0;
        (self.chunk, self.chunk_bytes) = (core::ptr::null_mut(), l::CHUNK_BYTES_MIN / 2);
        if self.keep_bytes > 0 {
            // Chunks of one size, so that each begins at a multiple of it.
            self.chunk_bytes = self.chunk_bytes_max() / 2;
        }
        if !self.next_chunk() {
            return false;
        }
        let (tsc, monotonic_ns) = sys::moment();
        let header = l::ThreadHeader { pid: sys::pid(), tid: sys::tid(), tsc, monotonic_ns, first: 0 };
        // SAFETY: the chunk is at least CHUNK_BYTES_MIN long, the header shorter.
        unsafe { core::ptr::copy_nonoverlapping(header.to_bytes().as_ptr(), self.chunk, l::HEADER_BYTES) };
        // SAFETY: within the chunk.
        self.pos = unsafe { self.chunk.add(l::HEADER_BYTES) }.cast();
        (self.tsc_high, self.addr_high) = (u32::MAX, u32::MAX);
        true
    }

    fn drop_file(&mut self) {
        sys::unmap(self.chunk, self.chunk_bytes);
        sys::close(self.fd);
        (self.pos, self.end) = (core::ptr::null_mut(), core::ptr::null_mut());
    }

    /// Moves on to the file's next chunk; false when there is no more space.
    fn next_chunk(&mut self) -> bool {
        self.hold_signals();
        let chunk_bytes = (self.chunk_bytes * 2).min(self.chunk_bytes_max());
        let bytes = self.file_bytes + chunk_bytes as u64;
        if !sys::truncate(self.fd, bytes) {
            return false;
        }
        let Some(chunk) = sys::map_file(self.fd, chunk_bytes, self.file_bytes) else { return false };
        if !self.chunk.is_null() {
            self.fill_chunk();
            sys::unmap(self.chunk, self.chunk_bytes);
        }
        (self.chunk, self.chunk_bytes) = (chunk, chunk_bytes);
        self.file_bytes = bytes;
        self.drop_oldest();
        // SAFETY: both lie within the chunk just mapped.
        unsafe {
            self.pos = chunk.cast();
            self.end = chunk.add(chunk_bytes).cast::<u64>().sub(SLACK_EVENTS);
        }
        true
    }

    /// An eighth of what is kept, so that no more than that is kept beyond what was asked for.
    fn chunk_bytes_max(&self) -> usize {
        let part = (self.keep_bytes as usize / 8).next_power_of_two();
        if self.keep_bytes == 0 {
            l::CHUNK_BYTES_MAX
        } else {
            part.clamp(l::CHUNK_BYTES_MIN, l::CHUNK_BYTES_MAX)
        }
    }

    /// Gives the space of chunks back that are not to be kept; every chunk then tells its high parts anew.
    fn drop_oldest(&mut self) {
        if self.keep_bytes == 0 {
            return;
        }
        (self.tsc_high, self.addr_high) = (u32::MAX, u32::MAX);
        let size = self.chunk_bytes as u64;
        let full = self.file_bytes - size;
        let first = full.saturating_sub(self.keep_bytes) / size * size;
        if first > 0 && sys::write_at(self.fd, &first.to_le_bytes(), l::HEADER_FIRST as u64) {
            sys::punch(self.fd, l::PAGE_BYTES, first);
        }
    }

    /// Fills what is left of the old chunk with empty control events, so that no 0 ends the file early.
    fn fill_chunk(&mut self) {
        let stop = self.chunk as usize + self.chunk_bytes;
        while (self.pos as usize) < stop {
            // SAFETY: pos is below the end of the mapped chunk.
            unsafe { *self.pos = l::control_word(l::CONTROL_LOST, 0) };
            // SAFETY: at most one past the end.
            self.pos = unsafe { self.pos.add(1) };
        }
    }

    /// Room for a few events; otherwise the call is counted as lost.
    fn room(&mut self) -> bool {
        if self.pos < self.end || self.next_chunk() {
            return true;
        }
        self.lost = self.lost.saturating_add(1);
        false
    }

    fn word(&mut self, word: u64) {
        self.last_pos = 0;
        // SAFETY: `room` was asked first and SLACK_EVENTS lie behind `end`.
        unsafe { *self.pos = word };
        // SAFETY: as above.
        self.pos = unsafe { self.pos.add(1) };
    }

    fn control(&mut self, code: u64, argument: u64) {
        if self.room() {
            self.word(l::control_word(code, argument));
        }
    }

    fn time(&mut self) -> u64 {
        let tsc = sys::ticks();
        let high = (tsc >> 32) as u32;
        if high != self.tsc_high {
            self.tsc_high = high;
            self.word(l::control_word(l::CONTROL_TIME_HIGH, u64::from(high)));
        }
        tsc
    }

    fn push(&mut self, addr: u64, frame: Frame) -> bool {
        if self.top >= self.depth_limit || !self.room() {
            return false;
        }
        if self.lost > 0 {
            self.word(l::control_word(l::CONTROL_LOST, u64::from(self.lost)));
            self.lost = 0;
        }
        let high = (addr >> l::ADDR_BITS) as u32;
        if high != self.addr_high {
            self.addr_high = high;
            self.word(l::control_word(l::CONTROL_ADDR_HIGH, u64::from(high)));
        }
        let tsc = self.time();
        self.word(l::entry_word(addr, tsc));
        self.push_frame(frame)
    }

    /// Closes the innermost call as left without returning.
    fn left(&mut self) {
        self.remove(0, l::CONTROL_UNWOUND);
    }

    /// Closes calls whose stack frames are gone: something now stands at `slot`, at or above theirs.
    fn close_left(&mut self, slot: u64) {
        while let Some(frame) = self.frame(0) {
            let old = frame.place();
            if old > slot || !self.same_stack(old, slot) {
                break;
            }
            self.left();
        }
    }

    /// Whether two stack addresses lie on one stack: the thread's own, or near each other elsewhere.
    fn same_stack(&self, a: u64, b: u64) -> bool {
        const NEAR_BYTES: u64 = 256 << 10;
        let own = |at: u64| at >= self.stack.0 && at < self.stack.1;
        match (own(a), own(b)) {
            (true, true) => true,
            (false, false) => a.abs_diff(b) < NEAR_BYTES,
            _ => false,
        }
    }

    /// Closes the call `below` the innermost by its return; those inside it on its stack were left.
    fn pop_to(&mut self, below: usize) {
        let Some(target) = self.frame(below) else { return };
        let mut above = below;
        while above > 0 {
            let inner = self.frame(above - 1).map_or(0, |frame| frame.place());
            if self.same_stack(inner, target.place()) {
                self.remove(above - 1, l::CONTROL_UNWOUND);
            }
            above -= 1;
        }
        let mut now = 0;
        while self.frame(now).is_some_and(|frame| frame.slot != target.slot || frame.back != target.back) {
            now += 1;
        }
        self.remove(now, 0);
    }

    /// Takes out the call `below` the innermost; calls of other stacks inside it stay open.
    fn remove(&mut self, below: usize, code: u64) {
        let Some(frame) = self.frame(below) else { return };
        self.gate.leave(frame.slot & (gate::ONLY | gate::NOT));
        if !frame.is_silent() && self.room() {
            let told =
                (0..below).filter(|at| self.frame(*at).is_some_and(|inner| !inner.is_silent())).count();
            if told > 0 {
                self.word(l::control_word(l::CONTROL_BELOW, told as u64));
            }
            let tsc = self.time();
            self.word(if code == 0 { l::exit_word(tsc) } else { l::control_word(code, tsc) });
        }
        // SAFETY: `below` open calls lie above the one removed, all within base..top.
        unsafe {
            let at = self.top.sub(below + 1);
            core::ptr::copy(at.add(1), at, below);
            self.top = self.top.sub(1);
        }
    }
}
