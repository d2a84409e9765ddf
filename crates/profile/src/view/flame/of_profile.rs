//! A flame tree from a profile: paths of addresses become paths of functions.

use super::{FrameKind, NameId, NodeId, NodeNote, Tree, Unit};
use crate::off_cpu::is_off_cpu;
use crate::profile::{EventInfo, Profile, TaskId};
use crate::table::{CallsiteId, DsoId, DsoKind, FrameId, InlineFrame};
use crate::view::wall::is_called;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// Selection and naming of a profile's stacks. The marks and ids are those of the collapsers.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeOpts {
    /// Index of the event.
    pub event: usize,
    /// Add the process id to the process name.
    pub pid: bool,
    /// Add process and thread id to the process name.
    pub tid: bool,
    /// Mark kernel frames with `_[k]`.
    pub kernel: bool,
    /// Mark frames of run-time code with `_[j]`.
    pub jit: bool,
    /// Show addresses where symbols are unknown.
    pub addrs: bool,
    /// Count samples, not periods.
    pub samples: bool,
}

impl Tree {
    /// The stacks of one event of `profile`, below their processes' names.
    pub fn of_profile(profile: &Profile, opts: TreeOpts) -> Self {
        Self::of_thread(profile, opts, None)
    }

    /// The same of threads that have this name or thread id; `None`: of all.
    pub fn of_thread(profile: &Profile, opts: TreeOpts, thread: Option<&str>) -> Self {
        let unit = profile.events.get(opts.event).map_or(Unit::Samples, unit_of);
        let unit = if opts.samples { Unit::Samples } else { unit };
        let mut builder = TreeBuilder::new(profile, opts, unit);
        builder.tree.waiting = profile.events.get(opts.event).is_some_and(|event| is_off_cpu(&event.name));
        let is_shown = |task| thread.is_none_or(|wanted| is_called(profile, task, wanted));
        let cells = profile.cells().iter().filter(|(key, _)| key.event as usize == opts.event);
        for (key, sums) in cells.filter(|(key, _)| is_shown(key.task)) {
            let node = builder.node(key.task, key.callsite);
            let value = if opts.samples { sums.count } else { sums.period };
            builder.tree.add(node, value, sums.count);
        }
        builder.tree
    }
}

/// Events with samples; without those of waits if there is a wall clock.
#[must_use]
pub fn events_shown(profile: &Profile, has_wall: bool) -> Vec<usize> {
    let is_shown = |event: &usize| {
        profile.total(*event).count > 0 && !(has_wall && is_off_cpu(&profile.events[*event].name))
    };
    (0..profile.events.len()).filter(is_shown).collect()
}

/// Clocks and off-CPU times count nanoseconds.
#[must_use]
pub fn unit_of(event: &EventInfo) -> Unit {
    const SOFTWARE: u32 = 1;
    // PERF_COUNT_SW_CPU_CLOCK and PERF_COUNT_SW_TASK_CLOCK.
    let is_clock = event.kind == SOFTWARE && event.config <= 1;
    if is_clock || is_off_cpu(&event.name) { Unit::Nanoseconds } else { Unit::Event(event.name.clone()) }
}

/// Puts paths of a profile into a tree.
pub struct TreeBuilder<'a> {
    /// Where the paths come from.
    pub profile: &'a Profile,
    opts: TreeOpts,
    /// Stacks put in so far.
    pub tree: Tree,
    /// By name: the first file that has a function of this name.
    files: FxHashMap<NameId, DsoId>,
    /// By frame: where in `names` those of its functions are, outermost first, once asked for.
    frames: Vec<Option<Range<usize>>>,
    /// Names of the functions of frames ([`Self::frame`]).
    pub(super) names: Vec<NameId>,
    /// The path that was put in last, root first: what the next one shares with it is not looked up again.
    last: Vec<(FrameId, NodeId)>,
    last_root: NodeId,
    /// The node of each process or thread.
    tasks: FxHashMap<TaskId, NodeId>,
    /// By node: the threads below it.
    threads: FxHashMap<NodeId, FxHashSet<(i32, i32)>>,
    nodes: FxHashMap<(NodeId, CallsiteId), NodeId>,
}

impl<'a> TreeBuilder<'a> {
    /// An empty tree in this unit.
    #[must_use]
    pub fn new(profile: &'a Profile, opts: TreeOpts, unit: Unit) -> Self {
        Self {
            profile,
            opts,
            tree: Tree::new(unit),
            files: FxHashMap::default(),
            frames: vec![None; profile.frames.len()],
            names: Vec::new(),
            last: Vec::new(),
            last_root: Tree::ROOT,
            tasks: FxHashMap::default(),
            threads: FxHashMap::default(),
            nodes: FxHashMap::default(),
        }
    }

    /// The node of a path below its task.
    pub(super) fn node(&mut self, task: TaskId, callsite: CallsiteId) -> NodeId {
        let root = self.task_node(task);
        self.node_below(root, callsite)
    }

    /// The node of a path below another node.
    pub fn node_below(&mut self, root: NodeId, callsite: CallsiteId) -> NodeId {
        if let Some(&known) = self.nodes.get(&(root, callsite)) {
            return known;
        }
        let path = self.profile.callsites.path(callsite);
        let shared =
            self.last.iter().zip(path.iter().rev()).take_while(|((old, _), new)| old == *new).count();
        self.last.truncate(if root == self.last_root { shared } else { 0 });
        self.last_root = root;
        let mut node = self.last.last().map_or(root, |(_, node)| *node);
        for &frame in path.iter().rev().skip(self.last.len()) {
            node = self.below(node, frame);
            self.last.push((frame, node));
        }
        self.nodes.insert((root, callsite), node);
        node
    }

    /// The node of a frame's functions below another's.
    pub fn below(&mut self, mut node: NodeId, frame: FrameId) -> NodeId {
        for at in self.frame(frame) {
            node = self.tree.child(node, self.names[at]);
        }
        node
    }

    /// The first file in which a function of this name was found.
    #[must_use]
    pub fn file_of(&self, name: NameId) -> Option<DsoId> {
        self.files.get(&name).copied()
    }

    /// The node of a process or thread.
    pub(super) fn task_node(&mut self, task: TaskId) -> NodeId {
        if let Some(&node) = self.tasks.get(&task) {
            return node;
        }
        let info = self.profile.task(task);
        let comm = self.profile.strings.of(info.comm).replace([' ', ';'], "_");
        let name = match self.opts {
            TreeOpts { tid: true, .. } => format!("{comm}-{}/{}", info.pid, info.tid),
            TreeOpts { pid: true, .. } => format!("{comm}-{}", info.pid),
            _ => comm,
        };
        let name = self.tree.intern(&name, FrameKind::Task);
        let node = self.tree.child(Tree::ROOT, name);
        self.tasks.insert(task, node);
        let threads = self.threads.entry(node).or_default();
        if threads.insert((info.pid, info.tid)) && threads.len() > 1 {
            self.tree.put_note(node, NodeNote::Threads(threads.len() as u32));
        }
        node
    }

    /// Where in `names` the functions of a frame are, outermost first.
    pub(super) fn frame(&mut self, id: FrameId) -> Range<usize> {
        if let Some(range) = &self.frames[id.index()] {
            return range.clone();
        }
        let names = self.frame_names(id);
        let dso = self.profile.frames.of(id).dso;
        names.iter().for_each(|&name| _ = self.files.entry(name).or_insert(dso));
        let range = self.names.len()..self.names.len() + names.len();
        self.names.extend(names);
        self.frames[id.index()] = Some(range.clone());
        range
    }

    fn frame_names(&mut self, id: FrameId) -> Vec<NameId> {
        let frame = self.profile.frames.of(id);
        let dso = self.profile.dsos.of(frame.dso);
        let kind = kind_of(dso.kind, &dso.short_name);
        let inlines = self.profile.frame_names(id);
        if inlines.is_empty() {
            let file = dso.bracketed_name();
            let name = match self.opts.addrs {
                true => format!("{} <{:x}>]", file.trim_end_matches(']'), frame.first_avma),
                false => file,
            };
            let kind = if dso.kind == DsoKind::Unknown { FrameKind::Unknown } else { kind };
            return vec![self.tree.intern(&self.marked(&name, kind), kind)];
        }
        let kind = if kind == FrameKind::Unknown { self.kind_by_source(inlines) } else { kind };
        let mut names = Vec::with_capacity(inlines.len());
        for inline in inlines.iter().rev() {
            let symbol = self.profile.symbols.of(inline.symbol);
            let kind = if symbol.inlined { FrameKind::Inlined } else { kind };
            let name = self.profile.strings.of(symbol.name).replace(';', ":");
            names.push(self.tree.intern(&self.marked(&name, kind), kind));
        }
        names
    }

    /// Frames of code with names and no file, as other profilers' files have it.
    fn kind_by_source(&self, functions: &[InlineFrame]) -> FrameKind {
        let sources = functions.iter().filter_map(|inline| inline.file);
        let text = |source| self.profile.strings.of(source);
        let is_python = sources.map(text).any(|name| name.ends_with(".py") || name.starts_with("<frozen "));
        if is_python { FrameKind::Python } else { FrameKind::Program }
    }

    fn marked(&self, name: &str, kind: FrameKind) -> String {
        match kind {
            FrameKind::Kernel if self.opts.kernel => format!("{name}_[k]"),
            FrameKind::Jit if self.opts.jit => format!("{name}_[j]"),
            _ => name.to_owned(),
        }
    }
}

fn kind_of(kind: DsoKind, short_name: &str) -> FrameKind {
    match kind {
        DsoKind::Kernel | DsoKind::KernelModule | DsoKind::Bpf | DsoKind::GuestKernel => FrameKind::Kernel,
        DsoKind::PerfMap { .. } => FrameKind::Jit,
        DsoKind::Python => FrameKind::Python,
        DsoKind::Vdso => FrameKind::Library,
        DsoKind::File if short_name.contains(".so") => FrameKind::Library,
        DsoKind::File => FrameKind::Program,
        DsoKind::GuestUser | DsoKind::Unknown => FrameKind::Unknown,
    }
}
