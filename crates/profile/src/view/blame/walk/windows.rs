//! Times of a thread that count for a chain.

use crate::grow::Grow as _;
use crate::table::CallsiteId;
use std::collections::BTreeMap;

/// Time of a thread that counts for a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub from: u64,
    pub to: u64,
    /// Weight, ns.
    pub ns: u64,
    /// The thread's stack when it ended the wait.
    pub woken_from: Option<CallsiteId>,
}

/// Windows of threads to be looked at next, by the stack of the wait and the thread waited for.
pub(super) type NextWindows = BTreeMap<(Option<CallsiteId>, usize), Vec<Window>>;

/// Windows of a thread, cut: times between its timed waits, and where those lead.
#[derive(Default)]
pub(super) struct CutWindows {
    pub gaps: Vec<Window>,
    pub next: NextWindows,
}

/// Times of a thread that count as long as they are.
pub(super) fn windows_of(spans: &[(u64, u64)]) -> Vec<Window> {
    let window = |&(from, to): &(u64, u64)| Window { from, to, ns: to - from, woken_from: None };
    spans.iter().map(window).collect()
}

/// The same windows, each only once, in order of time.
pub(super) fn merged(mut windows: Vec<Window>) -> Vec<Window> {
    windows.sort_by_key(|window| (window.from, window.to, window.woken_from));
    windows.dedup_by(|next, kept| {
        let is_same = (next.from, next.to, next.woken_from) == (kept.from, kept.to, kept.woken_from);
        if is_same {
            kept.ns.grow(next.ns);
        }
        is_same
    });
    windows
}
