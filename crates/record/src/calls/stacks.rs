//! The stack that a call is on: the thread's own, a signal's, a coroutine's.
//!
//! A change of stacks isn't reported, but stacks don't overlap. So a place between the outermost and the innermost
//! open call of a stack, or near them, is on that stack, and the calls open below it were left. A place near no stack
//! begins another one and ends no calls.
//!
//! As `call_distance` and `call_find_stack` of `bpf/calls/stacks.h`.

use std::collections::BTreeMap;

/// A place further away than this is on another stack. Less than the smallest stacks that coroutines get in practice,
/// more than nearly all frames of functions (a larger one matters only if a longjmp leaves it).
pub const STEP_BYTES: u64 = 16 << 10;

/// The open calls of a thread, by stack: places of their return addresses, outermost first, keyed by the outermost one.
#[derive(Clone, Debug, Default)]
pub struct CallStacks(BTreeMap<u64, Vec<u64>>);

impl CallStacks {
    /// The stack that this place is on, or is at most `distance` bytes away from; `None` if there is none.
    #[must_use]
    pub fn find(&self, sp: u64, distance: u64) -> Option<u64> {
        let above = self.0.range(sp..).next().map(|(root, open)| {
            let top = open.last().copied().unwrap_or(*root);
            (top.saturating_sub(sp), *root)
        });
        let below = self.0.range(..sp).next_back().map(|(root, _)| (sp - root, *root));
        let nearest = above.into_iter().chain(below).min_by_key(|(away, _)| *away);
        nearest.filter(|(away, _)| *away <= distance).map(|(_, root)| root)
    }

    /// The innermost call of a stack; `None` if nothing is open there.
    #[must_use]
    pub fn top(&self, stack: u64) -> Option<u64> {
        self.0.get(&stack)?.last().copied()
    }

    /// A call begins on this stack, or, without one or if nothing is open there, on a new one; the stack.
    pub fn push(&mut self, stack: Option<u64>, sp: u64) -> u64 {
        if let Some((stack, open)) = stack.and_then(|stack| Some((stack, self.0.get_mut(&stack)?))) {
            open.push(sp);
            return stack;
        }
        self.0.insert(sp, vec![sp]);
        sp
    }

    /// The call at this place of the stack ended.
    pub fn remove(&mut self, stack: u64, sp: u64) {
        let Some(open) = self.0.get_mut(&stack) else { return };
        if let Some(at) = open.iter().rposition(|place| *place == sp) {
            open.remove(at);
        }
        if open.is_empty() {
            self.0.remove(&stack);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_on_the_stack_around_it_or_on_the_nearest_one() {
        let mut stacks = CallStacks::default();
        let own = stacks.push(None, 0x7fff_0000);
        stacks.push(Some(own), 0x7ffe_f000);
        // Two coroutines at a distance of 64 KiB.
        let low = stacks.push(None, 0x10_0000);
        let high = stacks.push(stacks.find(0x11_0000, STEP_BYTES), 0x11_0000);
        assert_ne!(low, high);
        let on = |sp| stacks.find(sp, STEP_BYTES);
        assert_eq!(on(0x7ffe_f800), Some(own));
        assert_eq!(on(0x7ffe_e000), Some(own));
        assert_eq!((on(0x0f_ff00), on(0x10_ff00)), (Some(low), Some(high)));
        // Places far outside and in between are on no stack.
        assert_eq!((on(0x7000_0000), on(0x10_8000), on(0)), (None, None, None));
        assert_eq!((stacks.find(0x7ffe_f800, 0), stacks.find(0x7ffe_e000, 0)), (Some(own), None));
    }

    #[test]
    fn a_stack_without_open_calls_is_forgotten() {
        let mut stacks = CallStacks::default();
        let own = stacks.push(None, 0x9000);
        stacks.push(Some(own), 0x8000);
        stacks.remove(own, 0x8000);
        assert_eq!(stacks.top(own), Some(0x9000));
        stacks.remove(own, 0x9000);
        assert_eq!((stacks.top(own), stacks.find(0x9000, STEP_BYTES)), (None, None));
        assert_eq!(stacks.push(Some(own), 0xa000), 0xa000);
    }
}
