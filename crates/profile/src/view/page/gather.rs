//! A recording's amounts for the page: the wall clock moment by moment, and each event's samples.

use super::item::{ItemSet, PageData, PageItem, PageThread, Waker};
use crate::off_cpu::WaitReason;
use crate::profile::{Profile, TaskId};
use crate::table::{DsoId, DsoKind, StringId};
use crate::view::flame::{FrameKind, NodeId, Tree, TreeBuilder, TreeOpts, Unit, events_shown};
use crate::view::ranking::RankRows as _;
use crate::view::timeline::{Column, TimelineOpts, timeline};
use crate::view::wall::{Part, ThreadRow, Wall, WallMoment, WallOpts, causing_frames, moments, part_name};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Columns of a strip.
const COLUMNS: usize = 600;
/// Threads with a strip.
const STRIPS: usize = 200;
/// Parts that a column of a strip is divided into: few, because a strip is as high as a line of text.
pub const STRIP_SHARES: u8 = 40;
/// A thread that is idle for more of its life has no strip.
const IDLE_PCT: u64 = 99;
/// Sets of labels with stacks of their own, and the frame of those of all others.
const LABEL_SETS: usize = 100;
const OTHER_LABELS: &str = "other labels";
/// Length of a tick, ns.
const TICK_NS: u64 = 1000;

/// Reads the amounts of all events of a profile that has the times of its samples.
#[must_use]
pub fn gather(profile: &Profile, wall: &Wall, opts: &WallOpts) -> PageData {
    let mut gather = Gather::new(profile, wall);
    let mut sets = Vec::new();
    if wall.is_observed() {
        gather.add_strips(wall, opts);
        sets.push(gather.wall_set(opts));
    }
    for event in events_shown(profile, !sets.is_empty()) {
        sets.push(gather.event_set(event));
    }
    gather.finish(sets)
}

struct Gather<'p> {
    profile: &'p Profile,
    builder: TreeBuilder<'p>,
    begin_ns: u64,
    end_ns: u64,
    states: Vec<Part>,
    threads: Vec<PageThread>,
    thread_of: FxHashMap<TaskId, u32>,
    thread_by_id: FxHashMap<(u32, i32), u32>,
    wakers: Vec<(Waker, u64)>,
    waker_of: FxHashMap<Waker, u32>,
    /// Innermost frame of each set of labels.
    below_set: FxHashMap<StringId, NodeId>,
}

impl<'p> Gather<'p> {
    fn new(profile: &'p Profile, wall: &Wall) -> Self {
        let span = profile.time_span_ns.unwrap_or((0, 0));
        let (begin_ns, end_ns) = match wall.is_observed() && wall.wall_ns > 0 {
            true => (wall.begin_ns, wall.begin_ns.saturating_add(wall.wall_ns)),
            // The last sample is inside, not after the end.
            false => (span.0, span.1.saturating_add(TICK_NS)),
        };
        let mut gather = Self {
            profile,
            builder: TreeBuilder::new(profile, TreeOpts::default(), Unit::Nanoseconds),
            begin_ns,
            end_ns,
            states: vec![Part::On],
            threads: Vec::new(),
            thread_of: FxHashMap::default(),
            thread_by_id: FxHashMap::default(),
            wakers: Vec::new(),
            waker_of: FxHashMap::default(),
            below_set: FxHashMap::default(),
        };
        for row in wall.threads.iter().filter(|_| wall.is_observed()) {
            let at = gather.threads.len() as u32;
            let life = gather.life(&row.tasks);
            gather.threads.push(PageThread {
                pid: row.pid,
                tid: row.tid,
                comm: row.short_label(),
                title: row.title.clone(),
                life,
                is_idle: row.is_idle(),
                strip: Vec::new(),
            });
            for &task in &row.tasks {
                gather.thread_of.insert(task, at);
                let of = profile.task(task);
                gather.thread_by_id.insert((of.process, of.tid), at);
            }
        }
        gather
    }

    /// First and last moment of a thread, in ticks.
    fn life(&self, tasks: &[TaskId]) -> (u64, u64) {
        let totals = self.profile.off_cpu.totals.iter().filter(|totals| tasks.contains(&totals.task));
        let (from, to) = totals
            .fold((u64::MAX, 0), |(from, to), totals| (from.min(totals.start_ns), to.max(totals.end_ns)));
        if from > to { (0, self.ticks(self.end_ns)) } else { (self.ticks(from), self.ticks(to)) }
    }

    fn ticks(&self, time_ns: u64) -> u64 {
        time_ns.clamp(self.begin_ns, self.end_ns.max(self.begin_ns)).saturating_sub(self.begin_ns) / TICK_NS
    }

    fn thread(&mut self, task: TaskId) -> u32 {
        if let Some(&at) = self.thread_of.get(&task) {
            return at;
        }
        let of = self.profile.task(task);
        let next = self.threads.len() as u32;
        let at = *self.thread_by_id.entry((of.process, of.tid)).or_insert(next);
        if at == next {
            let comm = self.profile.strings.of(self.profile.last_comm(task)).to_owned();
            let life = (0, self.ticks(self.end_ns));
            let (pid, tid) = (of.pid, of.tid);
            self.threads.push(PageThread {
                pid,
                tid,
                comm,
                title: None,
                life,
                is_idle: false,
                strip: Vec::new(),
            });
        }
        self.thread_of.insert(task, at);
        at
    }

    fn state(&mut self, part: Part) -> u8 {
        let at = self.states.iter().position(|&known| known == part).unwrap_or_else(|| {
            self.states.push(part);
            self.states.len() - 1
        });
        u8::try_from(at).unwrap_or(u8::MAX)
    }

    /// The strips of the busiest threads, as `tally timeline` draws them.
    fn add_strips(&mut self, wall: &Wall, opts: &WallOpts) {
        let opts = TimelineOpts { wall: opts.clone(), columns: COLUMNS, span_ns: None };
        let view = timeline(self.profile, &opts);
        let has_strip =
            |row: &ThreadRow| row.times.idle_ns.saturating_mul(100) <= row.life_ns.saturating_mul(IDLE_PCT);
        let rows = view.rows.iter().zip(&wall.threads).enumerate();
        for (at, (row, _)) in rows.filter(|(_, (_, row))| has_strip(row)).take(STRIPS) {
            let mut rests = FxHashMap::default();
            let strip =
                row.columns.iter().map(|column| self.strip_column(column, view.column_ns, &mut rests));
            self.threads[at].strip = strip.collect();
        }
    }

    /// The rest that rounding leaves of a state counts for its next columns: each state's sum over the strip is right.
    fn strip_column(
        &mut self,
        column: &Column,
        column_ns: u64,
        rests: &mut FxHashMap<Part, u64>,
    ) -> Vec<(u8, u8)> {
        let step_ns = column_ns.div_ceil(u64::from(STRIP_SHARES)).max(1);
        let mut share = |part: Part, ns: u64| {
            let rest = rests.entry(part).or_insert(step_ns / 2);
            let whole = rest.saturating_add(ns);
            *rest = whole % step_ns;
            u8::try_from(whole / step_ns).unwrap_or(u8::MAX)
        };
        let parts = column.parts().into_iter().map(|(part, ns)| (part, share(part, ns)));
        let parts: Vec<(Part, u8)> = parts.filter(|&(_, share)| share > 0).take(255).collect();
        parts.into_iter().map(|(part, share)| (self.state(part), share)).collect()
    }

    fn wall_set(&mut self, opts: &WallOpts) -> ItemSet {
        let moments = moments(self.profile, opts);
        let items = moments.iter().map(|moment| self.wall_item(moment)).collect();
        let mut set =
            ItemSet { name: "wall clock".to_owned(), unit: Unit::Nanoseconds, is_wall: true, items };
        set.sort();
        set
    }

    fn wall_item(&mut self, moment: &WallMoment) -> PageItem {
        let root = self.below_labels(moment.labels);
        let node = match moment.callsite {
            Some(callsite) => self.builder.node_below(root, callsite),
            None => self.without_stack(root, moment.part),
        };
        PageItem {
            thread: self.thread(moment.task),
            node,
            state: self.state(moment.part),
            since: moment.since_ns.map(|since| self.ticks(since)),
            // A short wait is a wait: only samples and sums have no length.
            length: moment.length_ns.div_ceil(TICK_NS),
            longest: moment.longest_ns / TICK_NS,
            amount: moment.ns,
            count: moment.count,
            waker: self.waker(moment),
        }
    }

    /// The place of time without a stack.
    fn without_stack(&mut self, root: NodeId, part: Part) -> NodeId {
        let name = match part {
            Part::On => "[no sample]",
            Part::Blocked(WaitReason::NoStack) => "[short waits]",
            Part::Blocked(WaitReason::Unknown) => "[unknown]",
            _ => "[no stack]",
        };
        let name = self.builder.tree.intern(name, FrameKind::Unknown);
        self.builder.tree.child(root, name)
    }

    /// The place of stacks of a goroutine with labels: below a frame for each of them. Beyond [`LABEL_SETS`] sets, others
    /// are one.
    fn below_labels(&mut self, set: Option<StringId>) -> NodeId {
        let Some(set) = set else { return Tree::ROOT };
        if let Some(&known) = self.below_set.get(&set) {
            return known;
        }
        let profile = self.profile;
        let texts: Vec<String> = match self.below_set.len() < LABEL_SETS {
            true => (profile.labels_in(Some(set)).iter())
                .map(|&(key, value)| format!("{}={}", profile.strings.of(key), profile.strings.of(value)))
                .collect(),
            false => vec![OTHER_LABELS.to_owned()],
        };
        let tree = &mut self.builder.tree;
        let node = texts.iter().fold(Tree::ROOT, |node, text| {
            let name = tree.intern(text, FrameKind::Task);
            tree.child(node, name)
        });
        self.below_set.insert(set, node);
        node
    }

    fn waker(&mut self, moment: &WallMoment) -> u32 {
        let Some((name, callsite)) = &moment.waker else { return 0 };
        let frames = causing_frames(self.profile, name, *callsite);
        let node = frames.iter().rev().fold(Tree::ROOT, |node, &frame| self.builder.below(node, frame));
        let waker = Waker { name: name.clone(), node };
        let next = self.wakers.len() as u32;
        let at = *self.waker_of.entry(waker.clone()).or_insert(next);
        if at == next {
            self.wakers.push((waker, 0));
        }
        self.wakers[at as usize].1 += 1;
        at + 1
    }

    fn event_set(&mut self, event: usize) -> ItemSet {
        let profile = self.profile;
        let unit = crate::view::flame::unit_of(&profile.events[event]);
        let mut items = Vec::new();
        for (key, sums) in profile.cells().iter().filter(|(key, _)| key.event as usize == event) {
            let root = self.below_labels(profile.extra(key.extra).labels);
            items.push(PageItem {
                thread: self.thread(key.task),
                node: self.builder.node_below(root, key.callsite),
                state: 0,
                since: profile.extra(key.extra).time_ns.map(|time| self.ticks(time)),
                length: 0,
                longest: 0,
                amount: sums.period,
                count: sums.count,
                waker: 0,
            });
        }
        let mut set = ItemSet { name: profile.events[event].name.clone(), unit, is_wall: false, items };
        set.sort();
        set
    }

    fn finish(mut self, mut sets: Vec<ItemSet>) -> PageData {
        let mut order: Vec<usize> = (0..self.wakers.len()).collect();
        order.rank_by_key(|&at| (Reverse(self.wakers[at].1), at));
        let mut new = vec![0u32; self.wakers.len() + 1];
        order.iter().enumerate().for_each(|(to, &from)| new[from + 1] = to as u32 + 1);
        sets.iter_mut().flat_map(|set| &mut set.items).for_each(|item| item.waker = new[item.waker as usize]);
        let wakers = order.iter().map(|&at| self.wakers[at].0.clone()).collect();
        let (files, name_files) = files(&self.builder);
        PageData {
            name_files,
            files,
            states: self.states.iter().map(|&part| part_name(part).to_owned()).collect(),
            threads: std::mem::take(&mut self.threads),
            wakers,
            sets,
            tick_ns: TICK_NS,
            ticks: self.ticks(self.end_ns).max(1),
            columns: COLUMNS,
            tree: self.builder.tree,
        }
    }
}

/// Short names of files, the first of which is empty, and by name of the tree the index of its file.
pub(super) fn files(builder: &TreeBuilder<'_>) -> (Vec<String>, Vec<u32>) {
    let mut files = vec![String::new()];
    let mut index: FxHashMap<DsoId, u32> = FxHashMap::default();
    let file_of = |name| {
        let Some(dso) = builder.file_of(name) else { return 0 };
        *index.entry(dso).or_insert_with(|| {
            let of = builder.profile.dsos.of(dso);
            let is_kernel = of.kind == DsoKind::Kernel;
            files.push(if is_kernel { "[kernel]".to_owned() } else { of.short_name.clone() });
            files.len() as u32 - 1
        })
    };
    let ids = builder.tree.name_ids().map(file_of).collect();
    (files, ids)
}
