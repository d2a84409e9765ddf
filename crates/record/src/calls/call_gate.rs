//! Which of the calls that probes see are written: inside some functions, not inside others, from one on or up to one.

use tracer::gate::GateStart;
use tracer::layout::sleds;

/// The requested filters.
#[derive(Clone, Debug, Default)]
pub struct CallFilters {
    /// Rule of each function, by its number: `sleds::NOT`, `ONLY`, `START`, `STOP`, `CALLER`. May be shorter than
    /// there are functions.
    pub rules: Vec<u32>,
    /// Shortest time of functions with `sleds::SLOW`, by number: shorter calls are dropped together with the calls in
    /// them.
    pub slow_ns: Vec<u32>,
    /// Only calls that lead to functions of `CALLER` are written.
    pub callers: bool,
    /// Nothing is written until a function of `START` is called.
    pub starts_off: bool,
    /// Calls nested deeper are not written; 0: all are.
    pub depth: usize,
    /// Bytes of each thread that are kept, its oldest calls being dropped; 0: all.
    pub keep_bytes: u64,
}

impl CallFilters {
    /// The rule for a function.
    #[must_use]
    pub fn of(&self, function: u32) -> u32 {
        self.rules.get(function as usize).copied().unwrap_or(0)
    }

    /// Calls are kept however long they take.
    pub fn forget_slow(&mut self) {
        self.rules.iter_mut().for_each(|rules| *rules &= !sleds::SLOW);
        self.slow_ns.clear();
    }

    fn any_only(&self) -> bool {
        self.rules.iter().any(|rules| rules & sleds::ONLY != 0)
    }
}

/// One thread's state of them.
#[derive(Clone, Copy, Debug)]
pub struct CallGate {
    rules: tracer::gate::Gate,
    written: usize,
    depth: usize,
}

impl CallGate {
    /// The state at a thread's start.
    #[must_use]
    pub fn new(filters: &CallFilters) -> Self {
        let depth = if filters.depth == 0 { usize::MAX } else { filters.depth };
        let rules = tracer::gate::Gate::new(GateStart {
            any_only: filters.any_only(),
            starts_off: filters.starts_off,
        });
        Self { rules, written: 0, depth }
    }

    /// A function of these rules is entered; whether the call is to be written.
    pub fn enter(&mut self, rules: u32) -> bool {
        self.rules.enter(rules);
        let is_written = self.rules.is_open() && self.written < self.depth;
        self.written += usize::from(is_written);
        is_written
    }

    /// A call of these rules ended.
    pub fn leave(&mut self, rules: u32, was_written: bool) {
        self.rules.leave(rules);
        self.written = self.written.saturating_sub(usize::from(was_written));
    }

    /// Whether a call is open that is written.
    #[must_use]
    pub fn any_written(&self) -> bool {
        self.written > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_written_inside_some_functions_and_not_inside_others() {
        let filters =
            CallFilters { rules: vec![0, sleds::ONLY, sleds::NOT], depth: 2, ..CallFilters::default() };
        let mut gate = CallGate::new(&filters);
        // Outside; inside; muted there; after it; too deep.
        assert!(!gate.enter(filters.of(0)) && gate.enter(filters.of(1)) && !gate.enter(filters.of(2)));
        assert!(!gate.enter(filters.of(0)));
        gate.leave(filters.of(0), false);
        gate.leave(filters.of(2), false);
        assert!(gate.enter(filters.of(0)) && !gate.enter(filters.of(9)) && gate.any_written());
    }

    #[test]
    fn a_function_begins_and_another_ends_what_is_written() {
        let filters = CallFilters {
            rules: vec![0, sleds::START, sleds::STOP],
            starts_off: true,
            ..CallFilters::default()
        };
        let mut gate = CallGate::new(&filters);
        let seen = [0, 1, 0, 2, 0].map(|function| gate.enter(filters.of(function)));
        assert_eq!(seen, [false, true, true, false, false]);
    }
}
