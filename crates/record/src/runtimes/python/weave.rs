//! Python's frames between the native ones.
//!
//! ```text
//!   native, leaf first     long_mul  eval  vectorcall  sorted  eval  Py_RunMain  main
//!   Python, by C frame               [key]                     [alpha, <module>]
//!   woven                  long_mul  eval  key  vectorcall  sorted  eval  alpha  <module>  Py_RunMain  main
//! ```

use perfdata::appendix::stack_notes::StopReason;

/// Where the functions of a copy end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FramesEnd {
    /// At the thread's start.
    #[default]
    Start,
    /// Before it: there are more than are copied.
    TooDeep,
    /// A frame or a function could not be read.
    Unread,
}

impl FramesEnd {
    /// The same of a copy of which a function was not found.
    #[must_use]
    pub const fn with_unknown(self) -> Self {
        match self {
            Self::Start => Self::Unread,
            end => end,
        }
    }

    /// Why the stack isn't complete; `None` if it is.
    #[must_use]
    pub const fn stop(self) -> Option<StopReason> {
        match self {
            Self::Start => None,
            Self::TooDeep => Some(StopReason::TooDeep),
            Self::Unread => Some(StopReason::PythonUnread),
        }
    }
}

/// Python's frames of a stack and where the function that runs them is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonFrames {
    /// Addresses for the chain, innermost first, by the C frame that runs them.
    pub groups: Vec<Vec<u64>>,
    /// The parts of the function that runs frames: start and end.
    pub eval: Vec<(u64, u64)>,
    /// Whether some are missing.
    pub end: FramesEnd,
}

impl PythonFrames {
    /// Whether a call returns to (or the thread was interrupted at) this address in the function that runs frames.
    fn runs_at(&self, pc: u64, is_exact: bool) -> bool {
        let at = if is_exact { pc } else { pc.wrapping_sub(1) };
        self.eval.iter().any(|&(start, end)| (start..end).contains(&at))
    }

    /// After which native frame each group goes, of the native frames' addresses leaf first, with whether each is
    /// exact. Aligned from the root if the native stack `is_complete`, else from the leaf. A group whose C frame is
    /// not there goes next to its neighbour.
    #[must_use]
    pub fn places(&self, native: &[(u64, bool)], is_complete: bool) -> Vec<usize> {
        let runs = |&(at, &(pc, is_exact)): &(usize, &(u64, bool))| self.runs_at(pc, at == 0 || is_exact);
        let evals: Vec<usize> = native.iter().enumerate().filter(runs).map(|(at, _)| at).collect();
        let (groups, found, last) = (self.groups.len(), evals.len(), native.len().saturating_sub(1));
        // Before the innermost C frame: for innermost groups whose own was not recognized.
        let inner = evals.first().map_or(last, |&at| at.saturating_sub(1));
        let place = |group: usize| match (found + group).checked_sub(groups) {
            Some(eval) if is_complete => evals[eval],
            None if is_complete => inner,
            _ => evals.get(group).copied().unwrap_or(last),
        };
        (0..groups).map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(groups: usize, native: &[u64], is_complete: bool) -> Vec<usize> {
        let frames =
            PythonFrames { groups: vec![vec![1]; groups], eval: vec![(100, 200)], ..PythonFrames::default() };
        let native: Vec<_> = native.iter().map(|&pc| (pc, false)).collect();
        frames.places(&native, is_complete)
    }

    #[test]
    fn each_group_goes_after_its_c_frame() {
        let native = [50, 150, 60, 70, 200, 80, 90];
        assert_eq!(places(2, &native, true), [1, 4]);
        assert_eq!(places(2, &native, false), [1, 4]);
        // A C frame that has no frame of Python's yet is the innermost.
        assert_eq!(places(1, &native, true), [4]);
        // The stack was cut: what has no C frame is farther out.
        assert_eq!(places(3, &native[..3], false), [1, 2, 2]);
        // An innermost C frame was not recognized.
        assert_eq!(places(3, &native, true), [0, 1, 4]);
        assert_eq!(places(1, &[], true), [0]);
    }

    #[test]
    fn the_leaf_is_looked_up_as_it_is() {
        assert_eq!(places(1, &[100, 300], true), [0]);
        assert_eq!(places(1, &[300, 100], true), [1]);
    }
}
