//! A recording in several files (`--switch-output`), or only its newest part in memory (`--overwrite`).

use perfdata::Event;

use crate::files::state_replay::Journal;
use crate::files::window::{PartWindow, is_sample};
use crate::session::opts::RecordOpts;
use crate::sys::time::coarse_ns;

/// The state that makes each file complete by itself.
#[derive(Debug)]
pub struct Parts {
    /// The state at the beginning of the window, or after the last record written.
    journal: Journal,
    window: Option<PartWindow>,
    most_bytes: Option<u64>,
    overwritten: u64,
}

impl Parts {
    /// `None` unless the options ask for several files or for a window; `first` is the file's first event.
    #[must_use]
    pub fn wanted(opts: &RecordOpts, first: Option<&Event>, window_bytes: usize) -> Option<Self> {
        let several = opts.file.switch_output.as_ref();
        if several.is_none() && !opts.file.overwrite {
            return None;
        }
        Some(Self {
            journal: Journal::new(first?.clone()),
            window: opts.file.overwrite.then(|| PartWindow::new(window_bytes, opts.file.window)),
            most_bytes: several.and_then(|several| several.size_bytes),
            overwritten: 0,
        })
    }

    /// Takes note of one record; true if it is to be written now.
    pub fn passes(&mut self, record: &[u8]) -> bool {
        match &mut self.window {
            Some(window) => {
                window.push(coarse_ns(), record, |old| self.journal.take(old));
                false
            }
            None => {
                if !is_sample(record) {
                    self.journal.take(record);
                }
                true
            }
        }
    }

    /// Records are held back in memory.
    #[must_use]
    pub fn holds_back(&self) -> bool {
        self.window.is_some()
    }

    /// The size of a file, in bytes, at which the next begins.
    #[must_use]
    pub fn most_bytes(&self) -> Option<u64> {
        self.most_bytes
    }

    /// Samples that gave way to newer ones.
    #[must_use]
    pub fn overwritten(&self) -> u64 {
        self.overwritten
    }

    /// Hands out what is held back: the state before it, then all of it.
    pub fn release(&mut self, mut with: impl FnMut(&[u8])) {
        let Some(window) = &mut self.window else { return };
        self.journal.replay(&mut with);
        self.overwritten += window.take(|record| {
            if !is_sample(record) {
                self.journal.take(record);
            }
            with(record);
        });
    }

    /// Hands out the same, and goes on holding it back.
    pub fn copy_held(&self, mut with: impl FnMut(&[u8])) {
        let Some(window) = &self.window else { return };
        self.journal.replay(&mut with);
        window.each(with);
    }

    /// Time at which the oldest record held back came, ns by the monotonic clock; `None` if none is.
    #[must_use]
    pub fn held_since_ns(&self) -> Option<u64> {
        self.window.as_ref().and_then(PartWindow::oldest_ns)
    }

    /// Hands out what a new file must begin with; nothing while records are held back, which do so themselves.
    pub fn write_state(&self, with: impl FnMut(&[u8])) {
        if !self.holds_back() {
            self.journal.replay(with);
        }
    }
}
