//! Event loops that compute for long in one handler, while all their other descriptors wait.
//!
//! Samples show it: a stretch of them in a row, without a wait for events between, all in one function. A short handler
//! that runs again and again has such stretches by chance; so many as chance would hardly make are asked for.

use super::event_loops::{BlockedLoop, EventLoop};
use super::gil::in_sentence;
use super::sample_blocks::Blocks;
use super::sample_gaps::short_waits;
use super::script_functions::{after, program_functions};
use crate::grow::Grow as _;
use crate::off_cpu::WaitReason;
use crate::profile::{Profile, TaskId};
use crate::table::CallsiteId;
use crate::view::wall::{Classified, waits_for};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Value of [`BlockedLoop::reason`] for them.
pub(super) const COMPUTES: &str = "on CPU";

/// A shorter stretch holds nobody up, ns.
const LEAST_NS: u64 = 10_000_000;

/// Stretches of one function in one loop.
#[derive(Clone, Debug, Default)]
struct Stretches {
    ns: u64,
    longest_ns: u64,
    count: u64,
}

/// Samples in a row that have a function.
#[derive(Clone, Copy)]
struct Open {
    first_ns: u64,
    last_ns: u64,
    /// Number of the first sample, from 0.
    first: u64,
    samples: u64,
}

impl Open {
    /// It began up to a period before its first sample and ended up to a period after its last: half of each on average.
    fn estimated_ns(&self) -> u64 {
        let sampled_ns = self.last_ns - self.first_ns;
        sampled_ns.saturating_add(sampled_ns / (self.samples - 1).max(1))
    }
}

/// The function that each loop computes in for long, with all such times; loops without one are left out.
pub(super) fn busy_loops(
    profile: &Profile,
    loops: &FxHashMap<TaskId, EventLoop>,
    all: &[Classified<'_>],
) -> Vec<(TaskId, BlockedLoop)> {
    let mut samples: FxHashMap<TaskId, Vec<(u64, CallsiteId)>> = FxHashMap::default();
    for run in profile.off_cpu.seen_running.iter().filter(|run| loops.contains_key(&run.task)) {
        samples.entry(run.task).or_default().push((run.time_ns, run.callsite));
    }
    let mut breaks = breaks(profile, loops, all);
    let mut rows = Vec::new();
    for (task, mut samples) in samples {
        samples.sort_unstable();
        let times: Vec<u64> = samples.iter().map(|(time_ns, _)| *time_ns).collect();
        let polls = breaks.remove(&task).unwrap_or_default().of_samples(&times);
        let mut walk = Walk::new(profile, &loops[&task].path);
        walk.run(&samples, &polls);
        let thread = || profile.strings.of(profile.last_comm(task)).to_owned();
        rows.extend(walk.worst().map(|row| (task, BlockedLoop { thread: thread(), ..row })));
    }
    rows
}

/// Moments at which a loop doesn't compute.
#[derive(Default)]
struct Breaks {
    /// Begins of its waits for events, ns.
    polls: Vec<u64>,
    /// Begin and end of its other waits, and of its times without a CPU, ns.
    others: Vec<(u64, u64)>,
}

fn breaks(
    profile: &Profile,
    loops: &FxHashMap<TaskId, EventLoop>,
    all: &[Classified<'_>],
) -> FxHashMap<TaskId, Breaks> {
    let mut breaks: FxHashMap<TaskId, Breaks> = FxHashMap::default();
    for Classified { wait, part } in all.iter().filter(|of| loops.contains_key(&of.wait.task)) {
        let of = breaks.entry(wait.task).or_default();
        // Most waits of a loop are idle time. For each of its sums, the begins of the first and the last wait are known.
        if waits_for(profile, wait, *part, WaitReason::Poll) {
            of.polls.extend([*wait.begins_ns().start(), *wait.begins_ns().end()]);
        } else if wait.length_ns > 0 {
            of.others.push((wait.since_ns, wait.since_ns.saturating_add(wait.length_ns)));
        }
    }
    breaks
}

impl Breaks {
    /// Begins of its waits for events in order of time, with those that only the times of its samples show.
    fn of_samples(mut self, samples: &[u64]) -> Vec<u64> {
        self.polls.sort_unstable();
        self.others.sort_unstable();
        let begin_ns = self.polls.first().copied().unwrap_or(u64::MAX);
        self.polls.extend(short_waits(samples, &self.others).into_iter().filter(|&at| at > begin_ns));
        self.polls.sort_unstable();
        self.polls
    }
}

/// The samples of one loop, in order of time.
struct Walk<'p> {
    profile: &'p Profile,
    /// Functions on the way to the loop's wait: none of them is a handler.
    of_loop: &'p [String],
    /// Names, each with the one that calls it, and how deep it was.
    names: Vec<(String, String, usize)>,
    index: FxHashMap<(String, String), usize>,
    by_path: FxHashMap<CallsiteId, Vec<usize>>,
    open: FxHashMap<usize, Open>,
    closed: Vec<(usize, Open)>,
    counts: FxHashMap<usize, u64>,
    blocks: Blocks,
    samples: u64,
}

impl<'p> Walk<'p> {
    fn new(profile: &'p Profile, of_loop: &'p [String]) -> Self {
        Self {
            profile,
            of_loop,
            names: Vec::new(),
            index: FxHashMap::default(),
            by_path: FxHashMap::default(),
            open: FxHashMap::default(),
            closed: Vec::new(),
            counts: FxHashMap::default(),
            blocks: Blocks::default(),
            samples: 0,
        }
    }

    /// `samples` and begins of waits for events, both in order of time.
    fn run(&mut self, samples: &[(u64, CallsiteId)], polls: &[u64]) {
        let mut poll = 0;
        // Before the first wait for events the program starts: there is no loop that it could hold up.
        let begin_ns = polls.first().copied().unwrap_or(0);
        for &(time_ns, callsite) in samples.iter().filter(|(time_ns, _)| *time_ns >= begin_ns) {
            let before = poll;
            poll += polls[poll..].partition_point(|&since| since < time_ns);
            if poll > before {
                self.close(|_| true);
            }
            let functions = self.functions(callsite);
            self.close(|function| !functions.contains(&function));
            self.blocks.begin_sample();
            for &function in &functions {
                self.counts.entry(function).or_default().grow(1);
                self.blocks.add(function, !self.open.contains_key(&function));
                let new = Open { first_ns: time_ns, last_ns: time_ns, first: self.samples, samples: 0 };
                let open = self.open.entry(function).or_insert(new);
                (open.last_ns, open.samples) = (time_ns, open.samples + 1);
            }
            self.samples += 1;
        }
        self.close(|_| true);
    }

    fn close(&mut self, ends: impl Fn(usize) -> bool) {
        let closed = &mut self.closed;
        self.open.retain(|&function, open| {
            let ends = ends(function);
            if ends {
                closed.push((function, *open));
            }
            !ends
        });
    }

    /// The program's functions below the loop.
    fn functions(&mut self, callsite: CallsiteId) -> Vec<usize> {
        if let Some(known) = self.by_path.get(&callsite) {
            return known.clone();
        }
        let mut functions = Vec::new();
        let mut caller = String::new();
        for (depth, name) in program_functions(self.profile, callsite, self.of_loop).into_iter().enumerate() {
            let name = in_sentence(&name);
            let at = *self.index.entry((name.clone(), caller.clone())).or_insert_with(|| {
                self.names.push((name.clone(), caller.clone(), depth));
                self.names.len() - 1
            });
            if !functions.contains(&at) {
                functions.push(at);
            }
            caller = name;
        }
        self.by_path.insert(callsite, functions.clone());
        functions
    }

    /// True if chance doesn't make such stretches of short calls, neither by the function's share of the samples around
    /// this one (the load changes with time) nor by that of all.
    fn is_one_call(&self, function: usize, open: &Open) -> bool {
        let share = self.counts[&function] as f64 / self.samples as f64;
        let around = self.blocks.share_around(function, open.first, open.samples);
        let is_chance = [share, around].iter().any(|share| is_chance(open.samples, *share, self.samples));
        !is_chance || self.blocks.has_few_stretches(function)
    }

    /// The innermost function with most of the time in stretches that chance doesn't make.
    fn worst(&self) -> Option<BlockedLoop> {
        // A function that a handler calls again and again has less, or is in more and shorter stretches.
        const MOST: f64 = 0.95;
        let mut sums: FxHashMap<usize, Stretches> = FxHashMap::default();
        for (function, open) in &self.closed {
            let sampled_ns = open.last_ns - open.first_ns;
            let is_long = sampled_ns >= LEAST_NS && open.samples >= LEAST_SAMPLES;
            if is_long && self.is_one_call(*function, open) {
                let ns = open.estimated_ns();
                let of = sums.entry(*function).or_default();
                of.ns.grow(ns);
                of.longest_ns = of.longest_ns.max(ns);
                of.count += 1;
            }
        }
        let most = sums.values().max_by_key(|of| (of.ns, Reverse(of.count)))?;
        let is_near = |of: &Stretches| of.ns as f64 >= MOST * most.ns as f64 && of.count <= most.count;
        let near = sums.iter().filter(|(_, of)| is_near(of));
        let (&function, of) = near.max_by_key(|(function, _)| (self.names[**function].2, **function))?;
        let (name, caller, _) = &self.names[function];
        Some(BlockedLoop {
            handler: after(name, caller),
            reason: COMPUTES.to_owned(),
            ns: of.ns,
            longest_ns: of.longest_ns,
            waits: of.count,
            ..BlockedLoop::default()
        })
    }
}

/// A stretch of fewer samples shows nothing.
const LEAST_SAMPLES: u64 = 5;

/// True if a stretch of so many samples would be found by chance, where a function has this share of `all` samples.
fn is_chance(samples: u64, share: f64, all: u64) -> bool {
    const LIKELY: f64 = 0.01;
    all as f64 * share.powf(samples as f64) >= LIKELY
}

impl BlockedLoop {
    /// It computes all the time.
    #[must_use]
    pub fn computes(&self) -> bool {
        self.reason == COMPUTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_no_chance_only_if_its_function_has_no_more_than_its_part_of_the_samples() {
        assert!(!is_chance(20, 0.5, 1000));
        assert!(is_chance(20, 0.9, 1000) && is_chance(500, 1.0, 1000));
    }

    fn walk<'p>(profile: &'p Profile, paths: &[(CallsiteId, Vec<usize>)]) -> Walk<'p> {
        let mut walk = Walk::new(profile, &[]);
        walk.by_path = paths.iter().cloned().collect();
        walk.names = vec![("serve()".into(), String::new(), 0), ("report()".into(), "serve()".into(), 1)];
        walk
    }

    #[test]
    fn the_innermost_function_that_holds_the_loop_up_is_named_and_short_handlers_are_not() {
        let profile = Profile::default();
        let (short, long) = (CallsiteId::from_index(0), CallsiteId::from_index(1));
        let mut of = walk(&profile, &[(short, vec![0]), (long, vec![0, 1])]);
        let at = |i: u64| i * 2_000_000;
        // A stretch of 20 samples in one of 100 short ones, with a wait for events after every third.
        let samples: Vec<_> =
            (0..120).map(|i| (at(i), if (50..70).contains(&i) { long } else { short })).collect();
        let polls: Vec<u64> =
            (0..120).filter(|i| i % 3 == 0 && !(50..70).contains(i)).map(|i| at(i) - i.min(1)).collect();
        of.run(&samples, &polls);
        let row = of.worst().expect("a stretch");
        assert_eq!((row.handler.as_str(), row.waits, row.longest_ns), ("report() ← serve()", 1, 40_000_000));
        let mut calm = walk(&profile, &[(short, vec![0]), (long, vec![0, 1])]);
        calm.run(&samples, &samples.iter().map(|(time, _)| time.saturating_sub(1)).collect::<Vec<_>>());
        assert_eq!(calm.worst(), None);
    }

    #[test]
    fn a_function_that_a_handler_calls_again_and_again_has_only_a_part_of_the_time() {
        let profile = Profile::default();
        let [short, in_handler, in_called] = [0, 1, 2].map(CallsiteId::from_index);
        let paths = [(short, vec![0]), (in_handler, vec![0, 1]), (in_called, vec![0, 1, 2])];
        let mut of = walk(&profile, &paths);
        of.names.push(("clock()".into(), "report()".into(), 2));
        let at = |i: u64| i * 2_000_000;
        let handler = |i: u64| if i % 32 == 24 { in_handler } else { in_called };
        let samples: Vec<_> = (0..1064).map(|i| (at(i), if i < 1000 { short } else { handler(i) })).collect();
        let polls: Vec<u64> = (0..=1000).map(|i| at(i).saturating_sub(1)).collect();
        of.run(&samples, &polls);
        let row = of.worst().expect("a stretch");
        assert_eq!((row.handler.as_str(), row.ns), ("report() ← serve()", 128_000_000));
    }
}
