//! The thread that a path ends with, and when it begins and ends.

use super::CriticalOpts;
use crate::table::CallsiteId;
use crate::view::blame::timelines::Timelines;
use crate::view::blame::{main_thread, roots};
use crate::view::wall::name_of;
use std::collections::BTreeMap;

/// The thread the path ends with, and its times; `None` if no thread or function is of these names.
pub(super) fn path_ends(lines: &Timelines<'_>, opts: &CriticalOpts) -> Option<(usize, u64, u64)> {
    let wanted = match &opts.thread {
        Some(name) => roots(lines, Some(name)),
        None => main_thread(lines).into_iter().collect(),
    };
    let last = wanted.iter().copied().max_by_key(|&at| lines.threads[at].life().1)?;
    let all: Vec<usize> = match &opts.thread {
        Some(_) => wanted,
        None => (0..lines.threads.len()).collect(),
    };
    let (begin, end) = lines.threads[last].life();
    let seen = |name: &str| seen_in(lines, &all, name);
    let from = match &opts.from {
        Some(name) => seen(name)?.0,
        None => begin,
    };
    let (last, to) = match &opts.to {
        Some(name) => seen(name).map(|(_, to, thread)| (thread, to))?,
        None => (last, end),
    };
    (from < to).then_some((last, from, to))
}

/// First and last moment at which a function is seen on a stack of these threads, and the thread of the last.
fn seen_in(lines: &Timelines<'_>, threads: &[usize], name: &str) -> Option<(u64, u64, usize)> {
    let profile = lines.profile;
    let mut known: BTreeMap<CallsiteId, bool> = BTreeMap::new();
    let mut has = |callsite: CallsiteId| {
        let is = || profile.callsites.leaf_first(callsite).any(|frame| name_of(profile, frame) == Some(name));
        *known.entry(callsite).or_insert_with(is)
    };
    let mut found: Option<(u64, u64, usize)> = None;
    let mut add = |from: u64, to: u64, thread: usize| {
        let (first, last, whose) = found.unwrap_or((from, to, thread));
        let (last, whose) = if to >= last { (to, thread) } else { (last, whose) };
        found = Some((first.min(from), last, whose));
    };
    for &thread in threads {
        let line = &lines.threads[thread];
        line.runs
            .iter()
            .filter(|run| has(run.callsite))
            .for_each(|run| add(run.time_ns, run.time_ns, thread));
        for timed in &line.timed {
            if profile.off_cpu.waits[timed.wait].callsite.is_some_and(&mut has) {
                add(timed.from, timed.to, thread);
            }
        }
    }
    found
}
