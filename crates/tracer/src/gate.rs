//! What is recorded just now: rules of functions, as the sled list has them.

use crate::layout as l;
use crate::start::Options;

/// A rule's bits in a frame's slot (stack slots are multiples of 8), beside bit 0.
pub const ONLY: u64 = 2;
/// The call and all in it is not recorded.
pub const NOT: u64 = 4;

/// One thread's state of the rules.
#[derive(Clone, Copy)]
pub struct Gate {
    any_only: bool,
    stopped: bool,
    inside: u32,
    muted: u32,
}

impl Gate {
    /// As recording begins.
    pub fn new(options: &Options) -> Self {
        Self { any_only: options.any_only, stopped: options.starts_off, inside: 0, muted: 0 }
    }

    /// Whether calls are recorded.
    pub fn is_open(&self) -> bool {
        !self.stopped && self.muted == 0 && (!self.any_only || self.inside > 0)
    }

    /// A function of these rules (`layout::SLED_…`) is entered; the marks of its frame.
    pub fn enter(&mut self, rules: u64) -> u64 {
        if rules & l::SLED_START != 0 {
            self.stopped = false;
        }
        if rules & l::SLED_STOP != 0 {
            self.stopped = true;
        }
        if rules & l::SLED_NOT != 0 {
            self.muted += 1;
            return NOT;
        }
        if rules & l::SLED_ONLY != 0 {
            self.inside += 1;
            return ONLY;
        }
        0
    }

    /// A call whose frame has these marks ended.
    pub fn leave(&mut self, marks: u64) {
        self.muted -= u32::from(marks & NOT != 0);
        self.inside -= u32::from(marks & ONLY != 0);
    }
}
