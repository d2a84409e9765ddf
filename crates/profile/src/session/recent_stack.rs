//! The callers resolved last: the next stack of a thread has most of them again.

use crate::table::FrameId;

/// Stacks kept, for threads that are sampled by turns.
const STACKS: usize = 16;

/// The callers of one stack, and their frames.
#[derive(Default)]
struct RecentStack {
    /// The mappings they were resolved in.
    version: u64,
    /// Return addresses, **root first**. Avmas.
    callers: Vec<u64>,
    /// Frame of each caller.
    frames: Vec<FrameId>,
}

/// The callers of recent stacks, by thread. All of them have a mapping.
#[derive(Default)]
pub(super) struct RecentStacks {
    stacks: [RecentStack; STACKS],
}

impl RecentStacks {
    /// The frames of the outermost of `callers` (root first) as far as the stack of `thread` before had the same in the
    /// mappings of `version`, root first.
    pub fn shared(&mut self, thread: u32, version: u64, callers: impl Iterator<Item = u64>) -> &[FrameId] {
        let stack = &mut self.stacks[thread as usize % STACKS];
        if stack.version != version {
            *stack = RecentStack { version, ..RecentStack::default() };
        }
        let shared =
            stack.callers.iter().zip(callers).take_while(|(known, caller)| **known == *caller).count();
        &stack.frames[..shared]
    }

    /// Keeps the stack of `thread`: `callers` with their frames, root first, after the `shared` ones.
    pub fn keep(&mut self, thread: u32, shared: usize, callers: impl Iterator<Item = (u64, FrameId)>) {
        let stack = &mut self.stacks[thread as usize % STACKS];
        stack.callers.truncate(shared);
        stack.frames.truncate(shared);
        for (caller, frame) in callers {
            stack.callers.push(caller);
            stack.frames.push(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_callers_in_the_same_mappings_are_shared() {
        let mut recent = RecentStacks::default();
        let frames = |callers: &[u64]| callers.iter().map(|&at| (at, FrameId(at as u32))).collect::<Vec<_>>();
        let mut shared = |thread, version, callers: &[u64]| {
            let shared = recent.shared(thread, version, callers.iter().copied()).to_vec();
            recent.keep(thread, shared.len(), frames(&callers[shared.len()..]).into_iter());
            shared
        };
        assert_eq!(shared(1, 7, &[1, 2, 3]), []);
        assert_eq!(shared(2, 7, &[1, 2, 3]), []);
        assert_eq!(shared(1, 7, &[1, 2, 4, 5]), [1, 2].map(FrameId));
        assert_eq!(shared(1, 7, &[1, 2, 4]), [1, 2, 4].map(FrameId));
        assert_eq!(shared(1, 7, &[1, 2, 4, 5]), [1, 2, 4].map(FrameId));
        assert_eq!(shared(1, 8, &[1, 2, 4, 5]), []);
    }
}
