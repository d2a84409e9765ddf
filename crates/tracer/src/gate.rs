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

/// Effect of all functions' rules at the beginning of a recording.
#[derive(Clone, Copy, Debug)]
pub struct GateStart {
    /// Some function has the rule `ONLY`.
    pub any_only: bool,
    /// Nothing is recorded before a function of the rule `START`.
    pub starts_off: bool,
}

impl Gate {
    /// As recording begins.
    #[must_use]
    pub const fn new(start: GateStart) -> Self {
        Self { any_only: start.any_only, stopped: start.starts_off, inside: 0, muted: 0 }
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
