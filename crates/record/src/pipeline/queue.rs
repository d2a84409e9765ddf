//! Queue of records from the recording thread to the unwinding thread, in order: in memory while there is room, then
//! on disk.
//!
//! ```text
//! push → front (memory) ─────────────────────────→ pop
//!      ↘ back (memory) → spill file (its thread) ↗        once front is full, until all after it is read again
//! ```
//! The recording thread never waits: not for the unwinder, and not for the disk, which a thread of its own writes to.
//! So records with their stacks are kept for later, however late the unwinder is. When the disk is too slow or full
//! as well, [`Queue::room`] limits what is kept. First the stacks are dropped. Then the rings aren't read at all, and
//! the kernel counts the records it drops.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::files::scratch;
use crate::sys::mem;

/// The kinds of data that still fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Records with their stacks.
    Stacks,
    /// Records only.
    Records,
    /// Nothing: the rings should be left alone.
    None,
}

/// How much is kept where, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// In memory, before anything goes to disk.
    pub front: usize,
    /// In memory, waiting for the disk, before stacks are left out; twice as much before nothing is taken.
    pub back: usize,
    /// In the spill file.
    pub spill: u64,
}

impl Limits {
    /// For a spill file in `dir`: at most half of what is free there.
    #[must_use]
    pub fn for_dir(dir: &Path) -> Self {
        const MOST: u64 = 16 << 30;
        let free = mem::free_disk_bytes(dir).unwrap_or(0);
        Self { front: 32 << 20, back: 64 << 20, spill: (free / 2).min(MOST) }
    }
}

/// The queue; clones are the same one.
#[derive(Debug, Clone)]
pub struct Queue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limits: Limits,
    dir: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    front: VecDeque<Vec<u8>>,
    front_bytes: usize,
    file: Option<Arc<File>>,
    /// Offset and length of data in the file, oldest first.
    spilled: VecDeque<(u64, usize)>,
    end: u64,
    /// One buffer is on its way from `back` to the file.
    is_writing: bool,
    /// One piece of the file is being read.
    is_reading: bool,
    back: VecDeque<Vec<u8>>,
    back_bytes: usize,
    has_spiller: bool,
    /// Why nothing goes to disk any more.
    broken: Option<String>,
    is_closed: bool,
    spilled_bytes: u64,
    unread_bytes: u64,
}

/// Use of the spill file, for the summary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spilled {
    /// Bytes that went through the file.
    pub bytes: u64,
    /// Bytes that could not be read back.
    pub unread_bytes: u64,
    /// Why it was given up, if it was.
    pub broken: Option<String>,
}

impl Queue {
    /// An empty queue whose file, if it comes to one, has no name in `dir`.
    #[must_use]
    pub fn new(dir: &Path, limits: Limits) -> Self {
        let (dir, state, changed) = (dir.to_path_buf(), Mutex::default(), Condvar::new());
        Self { inner: Arc::new(Inner { limits, dir, state, changed }) }
    }

    /// Appends. Never waits for anything but a short lock.
    pub fn push(&self, bytes: Vec<u8>) {
        let mut state = self.inner.lock();
        let is_direct = state.spilled.is_empty() && !state.is_writing && state.back.is_empty();
        if is_direct && state.front_bytes + bytes.len() <= self.inner.limits.front.max(bytes.len()) {
            state.front_bytes += bytes.len();
            state.front.push_back(bytes);
        } else {
            state.back_bytes += bytes.len();
            state.back.push_back(bytes);
            if !state.has_spiller && state.broken.is_none() {
                state.has_spiller = true;
                self.start_spiller(&mut state);
            }
        }
        // Else those that wake wait for the lock at once.
        drop(state);
        self.inner.changed.notify_all();
    }

    fn start_spiller(&self, state: &mut State) {
        let inner = Arc::clone(&self.inner);
        let thread = std::thread::Builder::new().name("tally-spill".to_owned());
        if let Err(error) = thread.spawn(move || inner.spill()) {
            state.broken = Some(error.to_string());
        }
    }

    /// The oldest buffer; waits for one. `None` once the queue is closed and empty.
    #[must_use]
    pub fn pop(&self) -> Option<Vec<u8>> {
        let mut state = self.inner.lock();
        loop {
            if let Some(bytes) = state.front.pop_front() {
                state.front_bytes -= bytes.len();
                return Some(bytes);
            }
            if let Some((offset, len)) = state.spilled.pop_front() {
                let file = state.file.clone();
                state.is_reading = true;
                drop(state);
                let bytes = self.inner.read_back(file.as_deref(), offset, len);
                state = self.inner.lock();
                state.is_reading = false;
                match bytes {
                    Some(bytes) => return Some(bytes),
                    None => continue,
                }
            }
            if !state.is_writing {
                if let Some(bytes) = state.back.pop_front() {
                    state.back_bytes -= bytes.len();
                    return Some(bytes);
                }
                if state.is_closed {
                    return None;
                }
            }
            state = self.inner.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Nothing more will be pushed.
    pub fn close(&self) {
        self.inner.lock().is_closed = true;
        self.inner.changed.notify_all();
    }

    /// The kinds of data that may be pushed now.
    #[must_use]
    pub fn room(&self) -> Room {
        match self.inner.lock().back_bytes {
            waiting if waiting < self.inner.limits.back => Room::Stacks,
            waiting if waiting < self.inner.limits.back * 2 => Room::Records,
            _ => Room::None,
        }
    }

    /// True while what is pushed can't be taken at once from memory.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        let state = self.inner.lock();
        !state.spilled.is_empty() || state.is_writing || !state.back.is_empty()
    }

    /// Bytes not taken yet.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        let state = self.inner.lock();
        let in_file: usize = state.spilled.iter().map(|(_, len)| len).sum();
        (state.front_bytes + in_file + state.back_bytes) as u64
    }

    /// Amount of data that went through the file.
    #[must_use]
    pub fn spilled(&self) -> Spilled {
        let state = self.inner.lock();
        Spilled { bytes: state.spilled_bytes, unread_bytes: state.unread_bytes, broken: state.broken.clone() }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The spilling thread: moves buffers from the back to the file, until the queue is closed or the disk fails.
    fn spill(&self) {
        let file = match scratch::nameless_file(&self.dir) {
            Ok(file) => Arc::new(file),
            Err(error) => return self.give_up(&format!("{}: {error}", self.dir.display())),
        };
        self.lock().file = Some(Arc::clone(&file));
        while let Some((bytes, offset)) = self.next_to_spill(&file) {
            if offset + bytes.len() as u64 > self.limits.spill {
                return self.put_back(bytes, "half of the free disk space is used");
            }
            if let Err(error) = file.write_all_at(&bytes, offset) {
                return self.put_back(bytes, &error.to_string());
            }
            let mut state = self.lock();
            state.spilled.push_back((offset, bytes.len()));
            state.end = offset + bytes.len() as u64;
            state.spilled_bytes += bytes.len() as u64;
            state.back_bytes -= bytes.len();
            state.is_writing = false;
            self.changed.notify_all();
        }
    }

    /// Waits for a buffer that should go to disk, and where to; `None` when the queue is closed.
    fn next_to_spill(&self, file: &File) -> Option<(Vec<u8>, u64)> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(bytes) = state.back.pop_front() {
                if state.spilled.is_empty() && !state.is_reading && state.end > 0 && file.set_len(0).is_ok() {
                    // All was read: the disk gets its space back.
                    state.end = 0;
                }
                state.is_writing = true;
                return Some((bytes, state.end));
            }
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    fn put_back(&self, bytes: Vec<u8>, why: &str) {
        let mut state = self.lock();
        state.back.push_front(bytes);
        state.is_writing = false;
        drop(state);
        self.give_up(why);
    }

    fn give_up(&self, why: &str) {
        self.lock().broken = Some(why.to_owned());
        self.changed.notify_all();
    }

    fn read_back(&self, file: Option<&File>, offset: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        match file.map(|f| f.read_exact_at(&mut bytes, offset)) {
            Some(Ok(())) => Some(bytes),
            _ => {
                self.lock().unread_bytes += len as u64;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
