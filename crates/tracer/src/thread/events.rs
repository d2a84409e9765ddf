//! Where a thread's events go: its file, mapped a chunk at a time.

use crate::frame::OpenCall;
use crate::layout as l;
use crate::layout::values::VALUES_BYTES_MAX;
use crate::process::recording_folder::ThreadFile;
use crate::sys;
use crate::sys::space::{EBADF, allocate, write_all_at};
use crate::thread::{LIVE, ThreadState};

/// Events that may be written after one look for room: what a call's values take, and what a signal handler adds
/// between the look and the write.
const SLACK_EVENTS: usize = 64 + VALUES_BYTES_MAX / l::EVENT_BYTES;

impl ThreadState {
    /// Begins a file.
    ///
    /// # Errors
    /// The errno when that can't be; then the thread has no file and will not get one.
    pub fn make_file(&mut self) -> Result<(), i32> {
        let made = self.try_make_file();
        if let Err(errno) = made {
            self.drop_file();
            if let Some(file) = self.file.place.take() {
                file.remove();
            }
            self.file.refusal = errno;
        }
        made
    }

    fn try_make_file(&mut self) -> Result<(), i32> {
        let (file, fd) = ThreadFile::new()?;
        (self.file.fd, self.file.place) = (fd, Some(file));
        self.file.identity = sys::identity(fd).ok_or(EBADF)?;
        self.file.chunk_bytes = l::CHUNK_BYTES_MIN / 2;
        if self.file.keep_bytes > 0 {
            // Chunks of one size, so that each begins at a multiple of it.
            self.file.chunk_bytes = self.chunk_bytes_max() / 2;
        }
        self.hold_signals();
        self.map_chunk(self.file.chunk_bytes * 2)?;
        let (tsc, monotonic_ns) = sys::moment();
        let header = l::ThreadHeader { pid: sys::pid(), tid: sys::tid(), tsc, monotonic_ns, first: 0 };
        // SAFETY: the chunk is at least CHUNK_BYTES_MIN long, the header shorter.
        unsafe {
            core::ptr::copy_nonoverlapping(header.to_bytes().as_ptr(), self.file.chunk, l::HEADER_BYTES)
        };
        // SAFETY: within the chunk.
        self.pos = unsafe { self.file.chunk.add(l::HEADER_BYTES) }.cast();
        (self.tsc_high, self.addr_high) = (u32::MAX, u32::MAX);
        Ok(())
    }

    /// Lets go of the file: it is another process's, or complete.
    pub fn drop_file(&mut self) {
        if !self.file.chunk.is_null() {
            sys::unmap(self.file.chunk, self.file.chunk_bytes);
        }
        self.unmap_old();
        if self.is_open() {
            sys::close(self.file.fd);
        }
        (self.pos, self.end) = (core::ptr::null_mut(), core::ptr::null_mut());
        (self.file.chunk, self.file.chunk_bytes, self.file.bytes) = (core::ptr::null_mut(), 0, 0);
    }

    /// Whether the descriptor is the file's yet: programs close all they know nothing of, and its number is then another's.
    fn is_open(&self) -> bool {
        sys::identity(self.file.fd) == Some(self.file.identity)
    }

    /// The same, after opening it once more if need be.
    pub fn reopened(&mut self) -> bool {
        if !self.is_open() {
            self.file.fd = self.file.place.and_then(ThreadFile::again).unwrap_or(-1);
        }
        self.is_open()
    }

    /// Moves on to the file's next chunk; false when there is no more space, for good.
    fn next_chunk(&mut self) -> bool {
        if self.file.refusal != 0 || sys::is_restricted() {
            return false;
        }
        self.hold_signals();
        let mut chunk_bytes = (self.file.chunk_bytes * 2).min(self.chunk_bytes_max());
        while let Err(errno) = self.map_chunk(chunk_bytes) {
            // There may be space for less; all chunks of a flight tracer are of one size.
            if chunk_bytes <= l::CHUNK_BYTES_MIN || self.file.keep_bytes > 0 {
                self.stop(errno);
                return false;
            }
            chunk_bytes /= 2;
        }
        true
    }

    /// From here on nothing of this thread is recorded, which its file notes; its calls are counted.
    fn stop(&mut self, errno: i32) {
        self.file.refusal = errno;
        let stop = self.file.chunk as usize + self.file.chunk_bytes;
        // Space is kept for this, and for the count that follows.
        if !self.file.chunk.is_null() && (self.pos as usize) + 2 * l::EVENT_BYTES <= stop {
            self.word(l::control_word(l::CONTROL_STOPPED, errno as u64));
        }
    }

    /// Makes room for long, because soon no more can be made.
    pub fn reserve(&mut self) {
        const RESERVE_BYTES: usize = 16 << 20;
        if self.state == LIVE {
            self.hold_signals();
            // Without it what there is must do; the rest is counted as lost.
            let _ = self.map_chunk(RESERVE_BYTES);
        }
    }

    /// Maps the file's next `chunk_bytes` and continues there; the errno if the file can't grow by that much.
    pub fn map_chunk(&mut self, chunk_bytes: usize) -> Result<(), i32> {
        if !self.reopened() {
            return Err(EBADF);
        }
        allocate(self.file.fd, self.file.bytes, chunk_bytes as u64)?;
        let chunk = sys::map_file(self.file.fd, chunk_bytes, self.file.bytes)?;
        if !self.file.chunk.is_null() {
            self.fill_chunk();
            // The fast half may have been interrupted between taking a place there and writing it.
            self.unmap_old();
            (self.file.old, self.file.old_bytes) = (self.file.chunk, self.file.chunk_bytes);
        }
        self.forget_entries();
        (self.file.chunk, self.file.chunk_bytes) = (chunk, chunk_bytes);
        self.file.bytes += chunk_bytes as u64;
        self.drop_oldest();
        // SAFETY: both are within the chunk just mapped.
        unsafe {
            self.pos = chunk.cast();
            self.end = chunk.add(chunk_bytes).cast::<u64>().sub(SLACK_EVENTS);
        }
        Ok(())
    }

    fn unmap_old(&mut self) {
        if !self.file.old.is_null() {
            sys::unmap(self.file.old, self.file.old_bytes);
            self.file.old = core::ptr::null_mut();
        }
    }

    /// An eighth of what is kept, so that no more than that is kept beyond what was asked for.
    fn chunk_bytes_max(&self) -> usize {
        let part = (self.file.keep_bytes as usize / 8).next_power_of_two();
        if self.file.keep_bytes == 0 {
            l::CHUNK_BYTES_MAX
        } else {
            part.clamp(l::CHUNK_BYTES_MIN, l::CHUNK_BYTES_MAX)
        }
    }

    /// Frees the space of chunks that are not kept. Every chunk then begins with its own high parts.
    fn drop_oldest(&mut self) {
        if self.file.keep_bytes == 0 {
            return;
        }
        (self.tsc_high, self.addr_high) = (u32::MAX, u32::MAX);
        let size = self.file.chunk_bytes as u64;
        let full = self.file.bytes - size;
        let first = full.saturating_sub(self.file.keep_bytes) / size * size;
        if first > 0 && write_all_at(self.file.fd, &first.to_le_bytes(), l::HEADER_FIRST as u64).is_ok() {
            sys::punch(self.file.fd, l::PAGE_BYTES, first);
        }
    }

    /// Fills what is left of the old chunk with empty control events, so that no 0 ends the file early.
    fn fill_chunk(&mut self) {
        let stop = self.file.chunk as usize + self.file.chunk_bytes;
        while (self.pos as usize) < stop {
            // SAFETY: pos is below the end of the mapped chunk.
            unsafe { *self.pos = l::control_word(l::CONTROL_LOST, 0) };
            // SAFETY: at most one past the end.
            self.pos = unsafe { self.pos.add(1) };
        }
    }

    /// Writes the number of calls lost so far at the next event's place, even if the chunk is full, because no
    /// other event may follow. Space for it is reserved after the last event.
    pub fn show_lost(&mut self, lost: u32) {
        let stop = self.file.chunk as usize + self.file.chunk_bytes;
        if self.state == LIVE && !self.file.chunk.is_null() && (self.pos as usize) < stop {
            // SAFETY: within the mapped chunk, as just checked.
            unsafe { *self.pos = l::control_word(l::CONTROL_LOST, u64::from(lost)) };
        }
    }

    /// Whether there is room for a few events without more being made.
    pub fn has_room(&self) -> bool {
        self.pos < self.end
    }

    /// Room for a few events, made if need be.
    pub fn make_room(&mut self) -> bool {
        self.has_room() || self.next_chunk()
    }

    /// Writes an event, or what belongs to one: the time of the last one stays known if it was.
    pub fn word(&mut self, word: u64) {
        let is_known = self.last_pos == self.pos as u64;
        // SAFETY: `make_room` was asked first and SLACK_EVENTS follow `end`.
        unsafe { *self.pos = word };
        // SAFETY: as above.
        self.pos = unsafe { self.pos.add(1) };
        self.last_pos = if is_known { self.pos as u64 } else { 0 };
    }

    /// The event just written has this time.
    pub fn was_at(&mut self, tsc: u64) {
        (self.last, self.last_pos) = (tsc, self.pos as u64);
    }

    /// The time of the last event, if that is known; else 0.
    pub fn last_time(&self) -> u64 {
        if self.last_pos == self.pos as u64 { self.last } else { 0 }
    }

    /// The time now, which is never before the last event's: the fast half may have been interrupted by a handler between
    /// reading its time and writing it.
    pub fn now(&self) -> u64 {
        sys::ticks().max(self.last_time())
    }

    /// Writes a control event, if there is room.
    pub fn control(&mut self, code: u64, argument: u64) {
        if self.make_room() {
            self.word(l::control_word(code, argument));
        }
    }

    /// The time, whose high part is written if it is another.
    pub fn time(&mut self) -> u64 {
        let tsc = self.now();
        self.write_time_high(tsc);
        tsc
    }

    fn write_time_high(&mut self, tsc: u64) {
        let high = (tsc >> 32) as u32;
        if high != self.tsc_high {
            self.tsc_high = high;
            self.word(l::control_word(l::CONTROL_TIME_HIGH, u64::from(high)));
        }
    }

    /// Writes an entry and opens the call; false if it is too deep, or lost for want of room.
    pub fn push(&mut self, addr: u64, mut frame: OpenCall) -> bool {
        if self.top >= self.rules.depth_limit || self.top >= self.last_frame() {
            return false;
        }
        if !self.make_room() {
            self.lose();
            return false;
        }
        self.write_lost();
        let (tsc, before) = (self.now(), self.last_time());
        let entry = self.write_entry(addr, tsc);
        frame.set_written(entry as u64, before);
        self.push_frame(frame)
    }

    /// Writes an entry at a time, and where it is then; `make_room` was asked.
    pub fn write_entry(&mut self, addr: u64, tsc: u64) -> *mut u64 {
        let high = (addr >> l::ADDR_BITS) as u32;
        if high != self.addr_high {
            self.addr_high = high;
            self.word(l::control_word(l::CONTROL_ADDR_HIGH, u64::from(high)));
        }
        self.write_time_high(tsc);
        let entry = self.pos;
        self.word(l::entry_word(addr, tsc));
        self.was_at(tsc);
        entry
    }
}
