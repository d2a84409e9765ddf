//! Rows of blame: which function of which thread, in which state, how long; and who waited for whom.

use super::frames::EndStack;
use super::{Blame, BlameEnd, end_frames, state_words};
use crate::grow::Grow as _;
use crate::profile::{Profile, TaskId};
use crate::table::{CallsiteId, FrameId};
use crate::view::ranking::RankRows as _;
use crate::view::wall::{is_kernel, is_of_kernel, own_code, place_names};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// One cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlameCause {
    /// Name of the thread.
    pub thread: String,
    /// The threads of that name that did it, ascending by their ids of the kernel.
    pub tids: BTreeSet<i32>,
    /// Innermost function outside the C library; empty without stack.
    pub function: String,
    /// Source file's name and line of that function's most frequent place; `None` if not known.
    pub line: Option<String>,
    /// Activity, with the name that most of its time has; of programs' names, if there is one.
    pub end: BlameEnd,
    /// Part of the time has another name.
    pub has_others: bool,
    /// The threads from the one whose time it is to this one, of the chain with most time.
    pub chain: Vec<String>,
    /// How long, ns.
    pub ns: u64,
}

impl BlameCause {
    /// Activity in words.
    #[must_use]
    pub fn state_words(&self, profile: &Profile) -> String {
        const OTHERS: &str = " and others";
        let name = self.end.name();
        // The name of a number for one file after the other has it already.
        let is_one = name.is_some_and(|name| !name.ends_with(OTHERS));
        let others = if self.has_others && is_one { OTHERS } else { "" };
        format!("{}{others}", state_words(profile, &self.end))
    }
}

/// Causes by time, most first. They add up to [`Blame::total_ns`].
#[must_use]
pub fn causes(profile: &Profile, blame: &Blame) -> Vec<BlameCause> {
    let mut rows: Vec<BlameCause> = Vec::new();
    let mut index: FxHashMap<(String, String, BlameEnd), usize> = FxHashMap::default();
    let mut functions = EndFunctions::of(profile);
    let mut lines: FxHashMap<(usize, Option<String>), u64> = FxHashMap::default();
    // The first path of a row is the one with most time.
    for path in &blame.paths {
        let (function, line) = functions.find(path.callsite, &path.end).clone();
        let culprit = blame.culprit(path);
        let thread = thread_name(profile, culprit).to_owned();
        let key = (thread.clone(), function.clone(), path.end.without_name());
        let at = *index.entry(key).or_insert_with(|| {
            let root = std::iter::once(path.root);
            let links = blame.links(path);
            let chain = root.chain(links.iter().map(|link| link.waited_for));
            let chain = chain.map(|task| thread_name(profile, task).to_owned()).collect();
            let end = path.end.clone();
            let tids = BTreeSet::new();
            rows.push(BlameCause {
                thread,
                tids,
                function,
                line: None,
                end,
                has_others: false,
                chain,
                ns: 0,
            });
            rows.len() - 1
        });
        rows[at].has_others |= rows[at].end != path.end;
        // A reader can do something about a program, and threads of the kernel have a CPU for a moment.
        let is_program = |end: &BlameEnd| end.name().is_some_and(|name| !is_of_kernel(name));
        if rows[at].end.name().is_none() || !is_program(&rows[at].end) && is_program(&path.end) {
            rows[at].end = path.end.clone();
        }
        rows[at].tids.insert(profile.task(culprit).tid);
        rows[at].ns.grow(path.ns);
        lines.entry((at, line)).or_default().grow(path.ns);
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.rank_by(|(a, a_ns), (b, b_ns)| a_ns.cmp(b_ns).then_with(|| a.cmp(b)));
    // The last of a row has most time.
    lines.into_iter().for_each(|((at, line), _)| rows[at].line = line);
    rows.rank_by_key(|row| std::cmp::Reverse(row.ns));
    rows
}

/// The thread's last name; `git gc` for one with its process's name, if that is known to be for this.
#[must_use]
pub fn thread_name(profile: &Profile, task: TaskId) -> &str {
    profile.with_purpose(profile.task(task).pid, profile.strings.of(profile.last_comm(task)))
}

/// Name, and place in the source, of the innermost function outside kernel and C library of a stack that ends so; empty
/// without a stack.
#[must_use]
pub fn end_function(
    profile: &Profile,
    callsite: Option<CallsiteId>,
    end: &BlameEnd,
) -> (String, Option<String>) {
    let Some(callsite) = callsite else { return (String::new(), None) };
    let frames = end_frames(profile, callsite, end);
    let is_user = |frame: &&FrameId| !is_kernel(profile, **frame);
    let own = own_code(profile, &frames).next_back();
    let Some(&frame) = own.or(frames.iter().rev().find(is_user)).or(frames.last()) else {
        return (String::new(), None);
    };
    let unnamed = || profile.dsos.of(profile.frames.of(frame).dso).bracketed_name();
    let name = place_names(profile, frame).next().map_or_else(unnamed, str::to_owned);
    let inline = profile.frame_names(frame).first();
    let line = inline.and_then(|inline| {
        let file = profile.strings.of(inline.file?);
        let file = file.rsplit('/').next().unwrap_or(file);
        (inline.line > 0).then(|| format!("{file}:{}", inline.line))
    });
    (name, line)
}

/// The functions of [`end_function`], each stack looked at once.
pub(super) struct EndFunctions<'p> {
    profile: &'p Profile,
    known: FxHashMap<(Option<CallsiteId>, EndStack), (String, Option<String>)>,
}

impl<'p> EndFunctions<'p> {
    pub fn of(profile: &'p Profile) -> Self {
        Self { profile, known: FxHashMap::default() }
    }

    pub fn find(&mut self, callsite: Option<CallsiteId>, end: &BlameEnd) -> &(String, Option<String>) {
        let key = (callsite, EndStack::of(end));
        self.known.entry(key).or_insert_with(|| end_function(self.profile, callsite, end))
    }
}

/// A function's time with all that it called, on the threads that did what chains end with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlamedFunction {
    /// Name of its thread.
    pub thread: String,
    /// Name.
    pub function: String,
    /// How long, ns.
    pub ns: u64,
}

/// Functions outside kernel and C library by time, most first.
#[must_use]
pub fn blamed_functions(profile: &Profile, blame: &Blame) -> Vec<BlamedFunction> {
    let mut by_stack: BTreeMap<(TaskId, CallsiteId, EndStack), u64> = BTreeMap::new();
    for path in &blame.paths {
        if let Some(callsite) = path.callsite {
            let key = (blame.culprit(path), callsite, EndStack::of(&path.end));
            by_stack.entry(key).or_default().grow(path.ns);
        }
    }
    let mut by_name: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for ((task, callsite, kind), ns) in by_stack {
        let thread = thread_name(profile, task);
        let mut names: Vec<&str> = Vec::new();
        for frame in own_code(profile, &kind.frames(profile, callsite)) {
            names.extend(place_names(profile, *frame));
        }
        names.sort_unstable();
        names.dedup();
        names.into_iter().for_each(|name| by_name.entry((thread, name)).or_default().grow(ns));
    }
    let row = |((thread, function), ns): ((&str, &str), u64)| {
        let (thread, function) = (thread.to_owned(), function.to_owned());
        BlamedFunction { thread, function, ns }
    };
    let mut rows: Vec<BlamedFunction> = by_name.into_iter().map(row).collect();
    rows.rank_by_key(|row| std::cmp::Reverse(row.ns));
    rows
}

/// Time that threads of one name waited, directly, for threads of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitEdge {
    /// The waiter.
    pub sleeper: String,
    /// For whom.
    pub waited_for: String,
    /// Time of the chains through this wait, ns.
    pub ns: u64,
}

/// Waiters and their causes, most time first. A wait that a chain passes counts with the whole chain's time.
#[must_use]
pub fn wait_edges(profile: &Profile, blame: &Blame) -> Vec<WaitEdge> {
    let mut edges: Vec<WaitEdge> = Vec::new();
    for path in &blame.paths {
        let mut sleeper = thread_name(profile, path.root);
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for link in blame.links(path) {
            let waited_for = thread_name(profile, link.waited_for);
            if !seen.contains(&(sleeper, waited_for)) {
                seen.push((sleeper, waited_for));
            }
            sleeper = waited_for;
        }
        for (sleeper, waited_for) in seen {
            match edges.iter_mut().find(|edge| edge.sleeper == sleeper && edge.waited_for == waited_for) {
                Some(edge) => edge.ns.grow(path.ns),
                None => {
                    let (sleeper, waited_for) = (sleeper.to_owned(), waited_for.to_owned());
                    edges.push(WaitEdge { sleeper, waited_for, ns: path.ns });
                }
            }
        }
    }
    edges.rank_by_key(|edge| std::cmp::Reverse(edge.ns));
    edges
}
