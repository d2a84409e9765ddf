//! Begins and ends of calls of one thread → which end belongs to which begin.
//!
//! The stack pointer decides where it is known: a call returns from the place of the stack at which it began. So calls that
//! are left by `longjmp`, by an exception or by another stack (coroutines) do not take the ends of others.

/// A call that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The function, as the caller numbers them.
    pub function: u32,
    /// When, ns.
    pub begin_ns: u64,
    /// Stack pointer at its first instruction; `None`: not known.
    pub sp: Option<u64>,
    /// Calls of the same function that were open when it began.
    pub depth: usize,
    /// A call further up the stack has begun since: it was left without a return, or its stack is not in use now.
    pub is_doubtful: bool,
}

/// The open calls of one thread, in the order of their begins.
#[derive(Clone, Debug, Default)]
pub struct OpenCalls {
    open: Vec<OpenCall>,
}

/// Calls that are kept open per thread; the oldest doubtful ones give way.
const MOST_OPEN: usize = 4096;

impl OpenCalls {
    /// A call begins. Answers the calls that are known now to have been left without a return.
    pub fn enter(&mut self, function: u32, begin_ns: u64, sp: Option<u64>) -> Vec<OpenCall> {
        let mut left = Vec::new();
        if let Some(sp) = sp {
            for call in &mut self.open {
                call.is_doubtful |= call.sp.is_some_and(|of| of < sp);
            }
            left.extend(self.open.extract_if(.., |call| call.sp == Some(sp)));
        }
        if self.open.len() >= MOST_OPEN {
            let oldest = self.open.iter().position(|call| call.is_doubtful).unwrap_or(0);
            left.push(self.open.remove(oldest));
        }
        let is_outer = |call: &&OpenCall| call.function == function && !call.is_doubtful;
        let depth = self.open.iter().filter(is_outer).count();
        self.open.push(OpenCall { function, begin_ns, sp, depth, is_doubtful: false });
        left
    }

    /// A call ends here; `None` if it began before the first begin that was seen.
    pub fn exit(&mut self, function: u32, sp: Option<u64>) -> Option<OpenCall> {
        let is_it = |call: &OpenCall| match (call.sp, sp) {
            (Some(begin), Some(end)) => call.function == function && begin == end,
            _ => call.function == function,
        };
        let call = self.open.iter().rposition(is_it).map(|at| self.open.remove(at))?;
        for inner in &mut self.open {
            inner.is_doubtful |= inner.sp.zip(call.sp).is_some_and(|(inner, outer)| inner < outer);
        }
        Some(call)
    }

    /// True if a call of this function is open at this place of the stack.
    #[must_use]
    pub fn is_open_at(&self, function: u32, sp: u64) -> bool {
        self.open.iter().any(|call| call.function == function && call.sp == Some(sp))
    }

    /// True if a call further up the stack has begun since this open one did.
    #[must_use]
    pub fn is_doubtful(&self, call: &OpenCall) -> bool {
        let is_it =
            |of: &&OpenCall| (of.function, of.begin_ns, of.sp) == (call.function, call.begin_ns, call.sp);
        self.open.iter().find(is_it).is_some_and(|of| of.is_doubtful)
    }

    /// The calls without an end yet.
    #[must_use]
    pub fn open(&self) -> &[OpenCall] {
        &self.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursion_ends_the_innermost_first_with_and_without_stack_pointers() {
        for sps in [[Some(100), Some(80)], [None, None]] {
            let mut calls = OpenCalls::default();
            assert!(calls.enter(1, 10, sps[0]).is_empty() && calls.enter(1, 20, sps[1]).is_empty());
            assert_eq!(calls.exit(1, sps[1]).map(|call| (call.begin_ns, call.depth)), Some((20, 1)));
            assert_eq!(calls.exit(1, sps[0]).map(|call| (call.begin_ns, call.depth)), Some((10, 0)));
            assert_eq!(calls.exit(1, sps[0]), None, "it began before");
        }
    }

    #[test]
    fn a_call_left_by_longjmp_is_left_when_its_place_is_used_again() {
        let mut calls = OpenCalls::default();
        calls.enter(1, 10, Some(80));
        assert!(calls.enter(2, 20, Some(100)).is_empty(), "it may be on another stack");
        assert!(calls.open()[0].is_doubtful && calls.is_doubtful(&calls.open()[0]));
        let left = calls.enter(1, 30, Some(80));
        assert_eq!(left.iter().map(|call| call.begin_ns).collect::<Vec<_>>(), [10]);
        assert_eq!(calls.exit(1, Some(80)).map(|call| (call.begin_ns, call.depth)), Some((30, 0)));
    }

    #[test]
    fn a_coroutine_returns_from_its_own_stack_whatever_began_meanwhile() {
        let mut calls = OpenCalls::default();
        calls.enter(1, 10, Some(1000));
        calls.enter(1, 20, Some(5000));
        assert_eq!(calls.exit(1, Some(1000)).map(|call| call.begin_ns), Some(10));
        assert_eq!(calls.exit(1, Some(5000)).map(|call| (call.begin_ns, call.depth)), Some((20, 0)));
    }

    #[test]
    fn an_end_at_another_place_ends_nothing() {
        let mut calls = OpenCalls::default();
        calls.enter(1, 10, Some(80));
        assert_eq!(calls.exit(1, Some(72)), None);
        assert!(calls.is_open_at(1, 80) && !calls.is_open_at(2, 80));
    }

    #[test]
    fn no_more_than_a_bound_stay_open() {
        let mut calls = OpenCalls::default();
        let left: usize = (0..5000).map(|at| calls.enter(1, at, None).len()).sum();
        assert_eq!((left, calls.open().len()), (5000 - MOST_OPEN, MOST_OPEN));
    }
}
