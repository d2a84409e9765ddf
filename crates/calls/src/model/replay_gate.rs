//! Decides as calls open and close which of them are shown: the filters of a view.
//!
//! The rules of functions are those of a recording (`tracer::layout::sleds`) and mean the same.

use tracer::gate::GateStart;
use tracer::layout::sleds;

use super::FunctionId;

/// Filters of calls by function. Each function is asked for once.
pub trait Filter: Sync {
    /// Filters for calls of this function.
    fn of(&self, function: FunctionId) -> CallFilters;
}

/// Filters for calls of one function; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallFilters {
    /// `sleds::ONLY`, `NOT`, `START`, `STOP`, `CALLER`, `DEPTH`, `TIME`, `BACKTRACE`.
    pub rules: u32,
    /// Leave this call out, but not its callees. Its time counts for its caller.
    pub hide: bool,
    /// Depth of `sleds::DEPTH`: levels, its own being the first.
    pub depth: u32,
    /// Minimum of `sleds::TIME`, ns.
    pub min_ns: u32,
}

/// Calls that begin outside this span of time are left out, ns of the recording's clock: from, up to.
pub type TimeWindow = std::ops::Range<u64>;

/// Filters in addition to the rules of functions.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Some function has the rule `sleds::ONLY`: calls outside such are left out.
    pub any_only: bool,
    /// Some function has the rule `sleds::CALLER`: only calls that lead to such are shown.
    pub callers_only: bool,
    /// Nothing is shown before a function of `sleds::START`.
    pub starts_off: bool,
    /// Calls nested deeper are left out.
    pub max_depth: usize,
    /// Calls that took less are left out, ns.
    pub min_ns: u64,
    /// Only calls that begin in it.
    pub window: TimeWindow,
}

impl Default for Asked {
    /// Everything.
    fn default() -> Self {
        Self {
            any_only: false,
            callers_only: false,
            starts_off: false,
            max_depth: usize::MAX,
            min_ns: 0,
            window: 0..u64::MAX,
        }
    }
}

/// Limits inside an open call that has the rules `sleds::DEPTH` or `TIME`.
struct Scope {
    number: u32,
    max_depth: usize,
    min_ns: u64,
}

/// One thread's open calls and the filters' decisions about them.
pub struct ReplayGate<'a> {
    filter: Option<&'a dyn Filter>,
    asked: Asked,
    /// No call is left out as it begins: the usual case, and the fast one.
    passes_all: bool,
    rules: tracer::gate::Gate,
    counted: usize,
    /// Those around the innermost call, outermost first.
    scopes: Vec<Scope>,
    scopes_seen: u32,
}

/// The gate's decision about a call, to be passed back when it ends.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// Rules of its function.
    rules: u32,
    /// [`Scope`]; 0: none.
    scope: u32,
    /// Open calls around it that are counted.
    depth: u32,
    /// Whether the call is counted, if it is long enough and leads where it shall.
    pub counted: bool,
    /// Whether it leads to a requested call. The caller sets it for the calls around one that has it from the start.
    pub leads: bool,
}

impl Passage {
    /// Open calls around it that are counted.
    #[must_use]
    pub const fn depth(&self) -> usize {
        self.depth as usize
    }

    /// Whether the calls around it that are not shown are to be named.
    #[must_use]
    pub const fn shows_callers(&self) -> bool {
        self.rules & sleds::BACKTRACE != 0
    }
}

impl<'a> ReplayGate<'a> {
    /// Gate of a thread without open calls.
    #[must_use]
    pub fn new(filter: Option<&'a dyn Filter>, asked: Asked) -> Self {
        let passes_all = filter.is_none()
            && !(asked.any_only || asked.callers_only || asked.starts_off)
            && asked.max_depth == usize::MAX
            && asked.window == (0..u64::MAX);
        let rules =
            tracer::gate::Gate::new(GateStart { any_only: asked.any_only, starts_off: asked.starts_off });
        Self { filter, asked, passes_all, rules, counted: 0, scopes: Vec::new(), scopes_seen: 0 }
    }

    /// Whether nothing that begins at `time_ns` or later passes, nor anything goes on that did.
    #[must_use]
    pub const fn is_over(&self, time_ns: u64) -> bool {
        self.counted == 0 && time_ns >= self.asked.window.end
    }

    /// Whether calls around one that [`Passage::leads`] are to learn of it.
    #[must_use]
    pub const fn callers_only(&self) -> bool {
        self.asked.callers_only
    }

    /// The innermost call is left out if it took less, ns. To be asked before it leaves.
    #[must_use]
    #[inline]
    pub fn min_ns(&self) -> u64 {
        self.scopes.last().map_or(self.asked.min_ns, |scope| scope.min_ns)
    }

    /// A call begins at `time_ns`.
    #[inline]
    pub fn enter(&mut self, time_ns: u64, function: FunctionId) -> Passage {
        if self.passes_all {
            self.counted += 1;
            return Passage {
                rules: 0,
                scope: 0,
                depth: self.counted as u32 - 1,
                counted: true,
                leads: true,
            };
        }
        self.pass(time_ns, function)
    }

    fn pass(&mut self, time_ns: u64, function: FunctionId) -> Passage {
        let filters = self.filter.map_or(CallFilters::default(), |filter| filter.of(function));
        self.rules.enter(filters.rules);
        let max_depth = self.scopes.last().map_or(self.asked.max_depth, |scope| scope.max_depth);
        let counted = self.rules.is_open()
            && !filters.hide
            && self.counted < max_depth
            && self.asked.window.contains(&time_ns);
        let leads = !self.asked.callers_only || counted && filters.rules & sleds::CALLER != 0;
        let depth = self.counted as u32;
        let scope = if counted { self.open_scope(&filters, max_depth) } else { 0 };
        self.counted += usize::from(counted);
        Passage { rules: filters.rules, scope, depth, counted, leads }
    }

    /// Opens the limits inside a call just entered; 0: the same as around it.
    fn open_scope(&mut self, filters: &CallFilters, around: usize) -> u32 {
        if filters.rules & (sleds::DEPTH | sleds::TIME) == 0 {
            return 0;
        }
        let has = |rule| filters.rules & rule != 0;
        let max_depth =
            if has(sleds::DEPTH) { self.counted.saturating_add(filters.depth as usize) } else { around };
        let min_ns = if has(sleds::TIME) { filters.min_ns.into() } else { self.min_ns() };
        self.scopes_seen += 1;
        self.scopes.push(Scope { number: self.scopes_seen, max_depth, min_ns });
        self.scopes_seen
    }

    /// It ends.
    #[inline]
    pub fn leave(&mut self, passage: Passage) {
        self.counted -= usize::from(passage.counted);
        if self.passes_all {
            return;
        }
        self.rules.leave(passage.rules);
        if passage.scope != 0 {
            self.scopes.retain(|scope| scope.number != passage.scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CallProfile, Replay, Step};
    use super::*;

    /// The filters of functions by number.
    struct Table(Vec<CallFilters>);

    impl Filter for Table {
        fn of(&self, function: FunctionId) -> CallFilters {
            self.0[function.0 as usize]
        }
    }

    /// `main(0) { a(1) { b(2) { c(3) } } b(2) a(1) }`: entered every 10 ns, all but the last having left 10 ns later.
    fn counts(at: u32, filters: CallFilters, asked: Asked) -> Vec<u64> {
        let mut table = vec![CallFilters::default(); 4];
        table[at as usize] = filters;
        let table = Table(table);
        let mut replay = Replay::new(CallProfile::new(1, 0), ReplayGate::new(Some(&table), asked));
        let enter = |function| Step::Enter(FunctionId(function));
        let out = Step::Exit(0);
        let steps =
            [enter(0), enter(1), enter(2), enter(3), out, out, out, enter(2), out, enter(1), out, out];
        for (ns, step) in (0..).step_by(10).zip(steps) {
            replay.step(ns, step, &mut |_| {});
        }
        let sum = replay.finish(&mut |_| {});
        let stats: Vec<_> = sum.functions().collect();
        let of = |id| stats.iter().find(|(function, _)| function.0 == id).map_or(0, |(_, stats)| stats.count);
        (0..4).map(of).collect()
    }

    fn rules(rules: u32) -> CallFilters {
        CallFilters { rules, ..CallFilters::default() }
    }

    #[test]
    fn rules_mean_the_same_as_while_recording() {
        let all = Asked::default();
        assert_eq!(counts(1, rules(0), all.clone()), [1, 2, 2, 1]);
        assert_eq!(counts(1, rules(sleds::NOT), all.clone()), [1, 0, 1, 0]);
        assert_eq!(counts(1, rules(sleds::ONLY), Asked { any_only: true, ..all.clone() }), [0, 2, 1, 1]);
        assert_eq!(counts(3, rules(sleds::START), Asked { starts_off: true, ..all.clone() }), [0, 1, 1, 1]);
        assert_eq!(counts(3, rules(sleds::STOP), all.clone()), [1, 1, 1, 0]);
        // Callers of b and its own calls, but not its callees.
        let callers = Asked { callers_only: true, ..all.clone() };
        assert_eq!(counts(2, rules(sleds::CALLER), callers), [1, 1, 2, 0]);
        let depth = CallFilters { depth: 2, ..rules(sleds::DEPTH) };
        assert_eq!(counts(1, depth, all.clone()), [1, 2, 2, 0]);
        // Within a, calls that took 30 ns or longer: the first of its calls and the b in that.
        let time = CallFilters { min_ns: 30, ..rules(sleds::TIME) };
        assert_eq!(counts(1, time, all), [1, 1, 2, 0]);
    }

    #[test]
    fn a_depth_of_a_function_holds_for_its_calls_only() {
        let shallow = Asked { max_depth: 1, ..Asked::default() };
        assert_eq!(counts(1, CallFilters { depth: 3, ..rules(sleds::DEPTH) }, shallow), [1, 0, 0, 0]);
        let deeper = Asked { max_depth: 2, ..Asked::default() };
        assert_eq!(counts(1, CallFilters { depth: 3, ..rules(sleds::DEPTH) }, deeper), [1, 2, 2, 1]);
    }
}
