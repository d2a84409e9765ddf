//! The functions recorded at the moment, by the rules in the sled list. The tracer and the writer of probe
//! events apply the same rules.

use crate::layout::sleds;

/// One thread's state of the rules.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    any_only: bool,
    stopped: bool,
    inside: u32,
    muted: u32,
}

impl Gate {
    /// As recording begins; `any_only`: some function has the rule `ONLY`; `starts_off`: nothing is recorded before one
    /// of `START`.
    #[must_use]
    pub const fn new(any_only: bool, starts_off: bool) -> Self {
        Self { any_only, stopped: starts_off, inside: 0, muted: 0 }
    }

    /// Whether calls are recorded.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.stopped && self.muted == 0 && (!self.any_only || self.inside > 0)
    }

    /// A signal wants recording to go on, or to stop.
    pub fn switch(&mut self, on: bool) {
        self.stopped = !on;
    }

    /// A function of these rules is entered.
    pub fn enter(&mut self, rules: u32) {
        if rules & sleds::START != 0 {
            self.stopped = false;
        }
        if rules & sleds::STOP != 0 {
            self.stopped = true;
        }
        self.muted += u32::from(rules & sleds::NOT != 0);
        self.inside += u32::from(rules & sleds::ONLY != 0);
    }

    /// A call of such a function ended, or is not followed to its end.
    pub fn leave(&mut self, rules: u32) {
        self.muted = self.muted.saturating_sub(u32::from(rules & sleds::NOT != 0));
        self.inside = self.inside.saturating_sub(u32::from(rules & sleds::ONLY != 0));
    }
}
