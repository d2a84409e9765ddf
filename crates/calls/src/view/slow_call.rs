//! The last slow call of some functions, with all that was called in it: kept while a program runs (`tally calls
//! live`).
//!
//! Only what is open in such a call, and the last one that ended late enough, are held: nothing grows with the run.

use crate::model::{Asked, CallProfile, Extra, FunctionId, Replay, ReplayGate, Step};
use perfdata::PidTid;

use crate::recording::functions::Functions;
use crate::selection::pattern::Pattern;

/// Steps held of one call at most (40 bytes each); of what follows only the ends of calls that are held.
const MOST_STEPS: usize = 1 << 18;

/// Functions to watch, and from how many ns on a call is slow.
#[derive(Clone, Debug, Default)]
pub struct SlowSelection(pub Vec<(Pattern, u64)>);

impl SlowSelection {
    /// Whether any function is asked for.
    #[must_use]
    pub fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// From how many ns on a call of the function is slow; `None` if it is not asked for.
    #[must_use]
    pub fn least_ns(&self, name: &str) -> Option<u64> {
        self.0.iter().filter(|(pattern, _)| pattern.is(name)).map(|(_, ns)| *ns).min()
    }
}

/// One step of a call that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// ns of the recording's clock.
    pub time_ns: u64,
    /// Kind of the step; in [`Step::Extra`], `at` counts words of [`SlowCall::extra`].
    pub step: Step,
    /// Address in the function's first bytes, in the traced process, for an entry; else 0.
    pub address: u64,
}

/// A function was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionEntry {
    /// ns of the recording's clock.
    pub time_ns: u64,
    /// The function.
    pub function: FunctionId,
    /// An address in the function's first bytes, in the traced process.
    pub address: u64,
}

/// A call that was slow.
#[derive(Clone, Debug, Default)]
pub struct SlowCall {
    /// Process's id.
    pub pid: u32,
    /// Thread's id.
    pub tid: u32,
    /// When it began, ns of the recording's clock.
    pub start_ns: u64,
    /// How long it took, ns.
    pub total_ns: u64,
    /// From its entry to its end, in the order of time.
    pub steps: Vec<Kept>,
    /// Recorded values besides times, in words of 8 bytes.
    pub extra: Vec<u8>,
    /// Calls in it that are not held, because there were too many.
    pub left_out: u64,
}

impl SlowCall {
    /// Function; `None` only of one that holds nothing.
    #[must_use]
    pub fn function(&self) -> Option<FunctionId> {
        self.steps.iter().find_map(|kept| match kept.step {
            Step::Enter(function) => Some(function),
            _ => None,
        })
    }

    /// It and what was called in it, summed up.
    #[must_use]
    pub fn sum(&self) -> CallProfile {
        let mut replay = Replay::new(CallProfile::new(self.tid, 0), ReplayGate::new(None, Asked::default()));
        self.steps.iter().for_each(|kept| replay.step(kept.time_ns, kept.step, &mut |_| {}));
        replay.finish(&mut |_| {})
    }
}

/// Memory held at the begin of a call that may turn out to be slow.
struct Mark {
    least_ns: u64,
    entered_ns: u64,
    /// Number of steps, of bytes besides them, and of calls not held.
    at: (usize, usize, u64),
}

/// An open call.
struct Open {
    /// Its entry is among the steps.
    held: bool,
    mark: Option<Mark>,
}

/// The last of all threads' slow calls.
#[derive(Default)]
pub struct LastSlow {
    selection: SlowSelection,
    /// By the function's number, as far as they were asked for.
    least_ns: Vec<Option<u64>>,
    /// The one that ended last; `None` before the first.
    pub last: Option<SlowCall>,
    /// How many there were.
    pub seen: u64,
}

impl LastSlow {
    /// None yet.
    #[must_use]
    pub fn new(selection: SlowSelection) -> Self {
        Self { selection, ..Self::default() }
    }

    /// Selection of slow calls.
    #[must_use]
    pub const fn selection(&self) -> &SlowSelection {
        &self.selection
    }

    /// From how many ns on a call of the function is slow.
    pub fn least_ns(&mut self, function: FunctionId, functions: &Functions) -> Option<u64> {
        let known = self.least_ns.len();
        if function.0 as usize >= known {
            let new = functions.all()[known..].iter().map(|function| self.selection.least_ns(&function.name));
            self.least_ns.extend(new);
        }
        self.least_ns[function.0 as usize]
    }

    /// One more of this process and thread.
    pub fn take(&mut self, task: PidTid, call: SlowCall) {
        self.seen += 1;
        let end_ns = |call: &SlowCall| call.start_ns.saturating_add(call.total_ns);
        if self.last.as_ref().is_none_or(|last| end_ns(last) <= end_ns(&call)) {
            self.last = Some(SlowCall { pid: task.pid, tid: task.tid, ..call });
        }
    }
}

/// One thread's open calls of such functions, and what is open in them.
#[derive(Default)]
pub struct Holder {
    open: Vec<Open>,
    steps: Vec<Kept>,
    extra: Vec<u8>,
    left_out: u64,
}

impl Holder {
    /// A function is entered; its calls are slow from this many ns on, `None` if they are not selected.
    pub fn enter(&mut self, entry: FunctionEntry, least_ns: Option<u64>) {
        let FunctionEntry { time_ns, function, address } = entry;
        if self.open.is_empty() && least_ns.is_none() {
            return;
        }
        let at = (self.steps.len(), self.extra.len(), self.left_out);
        let mark = least_ns.map(|least_ns| Mark { least_ns, entered_ns: time_ns, at });
        // One that may be slow by itself is held, or there would be nothing to show of it.
        let held = self.steps.len() < MOST_STEPS || mark.is_some();
        if held {
            self.steps.push(Kept { time_ns, step: Step::Enter(function), address });
        } else {
            self.left_out += 1;
        }
        self.open.push(Open { held, mark });
    }

    /// Any other step; the call that it ends, if that was slow. `bytes`: those of a [`Step::Extra`].
    pub fn step(&mut self, time_ns: u64, step: Step, bytes: &[u8]) -> Option<SlowCall> {
        match step {
            _ if self.open.is_empty() => None,
            Step::Exit(below) => self.leave(time_ns, below, Some(Step::Exit)),
            Step::Unwound(below) => self.leave(time_ns, below, Some(Step::Unwound)),
            Step::Abandon(below) => self.leave(time_ns, below, None),
            Step::Extra(extra) => {
                self.keep_extra(time_ns, extra, bytes);
                None
            }
            _ => {
                self.steps.push(Kept { time_ns, step, address: 0 });
                None
            }
        }
    }

    fn keep_extra(&mut self, time_ns: u64, extra: Extra, bytes: &[u8]) {
        if !self.open.last().is_some_and(|open| open.held) {
            return;
        }
        let at = (self.extra.len() / 8) as u32;
        self.extra.extend(bytes);
        self.extra.resize(self.extra.len().next_multiple_of(8), 0);
        let extra = Extra { at, bytes: bytes.len() as u32, ..extra };
        self.steps.push(Kept { time_ns, step: Step::Extra(extra), address: 0 });
    }

    /// The call so far below the innermost one ends; `None`: it is not known how.
    fn leave(&mut self, time_ns: u64, below: usize, how: Option<fn(usize) -> Step>) -> Option<SlowCall> {
        let at = self.open.len().checked_sub(below + 1)?;
        let open = self.open.remove(at);
        if open.held {
            let below = self.open[at..].iter().filter(|inner| inner.held).count();
            let step = how.unwrap_or(Step::Abandon)(below);
            self.steps.push(Kept { time_ns, step, address: 0 });
        }
        let mark = open.mark.filter(|mark| how.is_some() && time_ns - mark.entered_ns >= mark.least_ns);
        let slow = mark.map(|mark| self.since(&mark, time_ns));
        if !self.open.iter().any(|open| open.mark.is_some()) {
            *self = Self::default();
        }
        slow
    }

    fn since(&self, mark: &Mark, time_ns: u64) -> SlowCall {
        let (steps, extra, left_out) = mark.at;
        let words = (extra / 8) as u32;
        let of_call = |kept: &Kept| match kept.step {
            Step::Extra(extra) => {
                Kept { step: Step::Extra(Extra { at: extra.at - words, ..extra }), ..*kept }
            }
            _ => *kept,
        };
        SlowCall {
            start_ns: mark.entered_ns,
            total_ns: time_ns - mark.entered_ns,
            steps: self.steps[steps..].iter().map(of_call).collect(),
            extra: self.extra[extra..].to_vec(),
            left_out: self.left_out - left_out,
            ..SlowCall::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ExtraKind;

    const OUTER: FunctionId = FunctionId(1);
    const INNER: FunctionId = FunctionId(2);

    fn held(steps: &[(u64, Step)], slow: FunctionId) -> Vec<SlowCall> {
        let mut holder = Holder::default();
        let mut slows = Vec::new();
        for (time_ns, step) in steps {
            if let Step::Enter(function) = *step {
                let entry = FunctionEntry { time_ns: *time_ns, function, address: 0 };
                holder.enter(entry, (function == slow).then_some(100));
            } else {
                slows.extend(holder.step(*time_ns, *step, b"abc"));
            }
        }
        slows
    }

    #[test]
    fn of_a_slow_call_all_is_held_and_of_a_quick_one_nothing() {
        let quick =
            [(0, Step::Enter(OUTER)), (10, Step::Enter(INNER)), (20, Step::Exit(0)), (30, Step::Exit(0))];
        assert!(held(&quick, OUTER).is_empty());
        let slow = quick.map(|(time_ns, step)| (time_ns * 10, step));
        let calls = held(&[quick, slow].concat(), OUTER);
        assert_eq!(calls.len(), 1);
        assert_eq!((calls[0].start_ns, calls[0].total_ns, calls[0].left_out), (0, 300, 0));
        let steps: Vec<_> = calls[0].steps.iter().map(|kept| (kept.time_ns, kept.step)).collect();
        assert_eq!(steps, slow);
        let sum = calls[0].sum();
        assert_eq!(sum.nodes().iter().map(|node| node.stats.total_ns).collect::<Vec<_>>(), [300, 100]);
    }

    #[test]
    fn of_calls_in_each_other_each_is_held_for_itself() {
        let steps = [
            (0, Step::Enter(OUTER)),
            (10, Step::Enter(OUTER)),
            (20, Step::Extra(Extra { kind: ExtraKind::Arguments, at: 77, bytes: 3 })),
            (200, Step::Unwound(0)),
            (210, Step::Exit(0)),
        ];
        let calls = held(&steps, OUTER);
        let told: Vec<_> =
            calls.iter().map(|call| (call.start_ns, call.total_ns, call.steps.len())).collect();
        assert_eq!(told, [(10, 190, 3), (0, 210, 5)]);
        assert_eq!(calls[0].extra, b"abc\0\0\0\0\0");
        let at = |call: &SlowCall| {
            call.steps.iter().find_map(|kept| match kept.step {
                Step::Extra(extra) => Some((extra.at, extra.bytes)),
                _ => None,
            })
        };
        assert_eq!((at(&calls[0]), at(&calls[1])), (Some((0, 3)), Some((0, 3))));
    }

    #[test]
    fn of_too_many_calls_the_first_are_held_and_the_others_counted() {
        let inner = (0..MOST_STEPS as u64).flat_map(|at| [(at, Step::Enter(INNER)), (at, Step::Exit(0))]);
        let end = MOST_STEPS as u64;
        let steps: Vec<_> =
            [(0, Step::Enter(OUTER))].into_iter().chain(inner).chain([(end, Step::Exit(0))]).collect();
        let [call] = <[SlowCall; 1]>::try_from(held(&steps, OUTER)).expect("one");
        let entries = call.steps.iter().filter(|kept| matches!(kept.step, Step::Enter(_))).count() as u64;
        assert_eq!(entries + call.left_out, end + 1);
        assert!(call.left_out > 0 && call.steps.len() <= MOST_STEPS + 2);
        assert_eq!(call.sum().functions().map(|(_, stats)| stats.open).sum::<u64>(), 0);
    }
}
