//! A recording as other profilers keep one: named lines, paths of them, and one number for each path and kind of value.
//!
//! Nothing is merged and nothing scaled: the sum of a kind is the sum of the recording.

use profile::grow::{Grow as _, GrownSum as _};
use profile::profile::{EventInfo, Profile, TaskId};
use profile::table::{CallsiteId, DsoId, FrameId, StringId, SymbolId};
use profile::view::flame::{Unit, events_shown, unit_of};
use profile::view::ranking::RankRows as _;
use profile::view::wall::{Part, WallOpts, part_name, paths, state_frame};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueUnit {
    /// Time, ns.
    Nanoseconds,
    /// Occurrences of an event.
    Count,
}

impl ValueUnit {
    /// As pprof and others spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "nanoseconds",
            Self::Count => "count",
        }
    }
}

/// A kind of value: an event, or the wall clock.
#[derive(Clone, Debug)]
pub struct ValueKind {
    /// `cpu`, an event's name, or `wall`.
    pub name: String,
    /// Unit.
    pub unit: ValueUnit,
    /// Sum of its stacks.
    pub total: u64,
    /// Running and waiting time: its stacks have a [`ValuedStack::part`].
    pub is_wall: bool,
}

/// A function by name and file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedFunction {
    /// The demangled name; `[libc.so.6]` if it has none, `[futex]` for a state.
    pub name: String,
    /// Source file; empty without line information.
    pub file: String,
    /// The object file; `None` for a state.
    pub dso: Option<DsoId>,
}

/// A line of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionLine {
    /// Index into [`SampleSet::functions`].
    pub function: usize,
    /// 1-based; 0 if unknown.
    pub line: u32,
    /// The function is inlined into that of the next line.
    pub is_inlined: bool,
}

/// An address with its lines, or a state at the end of a path.
#[derive(Clone, Debug)]
pub struct NamedLocation {
    /// `None` for a state.
    pub frame: Option<FrameId>,
    /// Innermost first: inlined functions, then the one that holds them.
    pub lines: Vec<FunctionLine>,
}

/// A path with its value.
#[derive(Clone, Debug)]
pub struct ValuedStack {
    /// Index into [`SampleSet::kinds`].
    pub kind: usize,
    /// Thread of the stack.
    pub task: TaskId,
    /// Part of the wall clock; `None` for events.
    pub part: Option<Part>,
    /// Name of who ended the wait.
    pub waker: Option<String>,
    /// The value, in the kind's unit.
    pub value: u64,
    /// Number of samples; 0 for the wall clock.
    pub samples: u64,
    /// Keys and values of its goroutine's labels, if they were kept; none for the wall clock.
    pub labels: Vec<(StringId, StringId)>,
    /// When, ns of the recording's clock, if times were kept.
    pub time_ns: Option<u64>,
    /// Index into [`SampleSet::locations`] of the state above the leaf.
    state: Option<usize>,
    callsite: Option<CallsiteId>,
}

/// One kind of value of one thread.
#[derive(Clone, Debug)]
pub struct SampleTrack<'s> {
    /// Index into [`SampleSet::kinds`].
    pub kind: usize,
    /// Thread of the stack.
    pub task: TaskId,
    /// Sum of the stacks, in the kind's unit.
    pub total: u64,
    /// Stacks in the order of their times; without times in that of the recording.
    pub stacks: Vec<&'s ValuedStack>,
}

/// All stacks of a recording.
pub struct SampleSet<'p> {
    /// Where they come from.
    pub profile: &'p Profile,
    /// Kinds of values, the events first.
    pub kinds: Vec<ValueKind>,
    /// In the order of the recording.
    pub stacks: Vec<ValuedStack>,
    /// Distinct functions.
    pub functions: Vec<NamedFunction>,
    /// Distinct locations.
    pub locations: Vec<NamedLocation>,
    /// Lines at which functions are declared, by their index, where they are known.
    pub declared: FxHashMap<usize, u32>,
    /// Idle time left out, ns.
    pub idle_left_out_ns: u64,
    of_frame: Vec<usize>,
    of_state: FxHashMap<&'static str, usize>,
}

impl<'p> SampleSet<'p> {
    /// The events with samples, and the wall clock if time off the CPU was recorded; idle time only if `with_idle`.
    #[must_use]
    pub fn of(profile: &'p Profile, with_idle: bool) -> Self {
        let mut samples = Self {
            profile,
            kinds: Vec::new(),
            stacks: Vec::new(),
            functions: Vec::new(),
            locations: Vec::new(),
            declared: FxHashMap::default(),
            idle_left_out_ns: 0,
            of_frame: Vec::new(),
            of_state: FxHashMap::default(),
        };
        samples.add_frames();
        samples.add_events();
        if profile.off_cpu.source.is_some() {
            samples.add_wall(with_idle);
        }
        samples
    }

    /// These stacks alone, of the set's. Functions and locations keep their numbers.
    #[must_use]
    pub fn with_stacks(mut self, stacks: Vec<ValuedStack>) -> Self {
        self.kinds.iter_mut().for_each(|kind| kind.total = 0);
        stacks.iter().for_each(|stack| self.kinds[stack.kind].total.grow(stack.value));
        Self { stacks, idle_left_out_ns: 0, ..self }
    }

    /// Notes the lines at which symbols are declared.
    pub fn declare(&mut self, lines: &FxHashMap<SymbolId, u32>) {
        for location in &self.locations {
            let Some(frame) = location.frame else { continue };
            for (line, name) in location.lines.iter().zip(self.profile.frame_names(frame)) {
                self.declared.extend(lines.get(&name.symbol).map(|declared| (line.function, *declared)));
            }
        }
    }

    /// The locations of a stack, leaf first, as indices into [`SampleSet::locations`].
    pub fn path(&self, stack: &ValuedStack) -> impl Iterator<Item = usize> + '_ {
        let frames = stack.callsite.into_iter().flat_map(|id| self.profile.callsites.leaf_first(id));
        stack.state.into_iter().chain(frames.map(|frame| self.of_frame[frame.index()]))
    }

    /// The stacks by thread, for formats that show one thread at a time: by kind, then largest sum first.
    #[must_use]
    pub fn tracks(&self) -> Vec<SampleTrack<'_>> {
        let mut by_thread: BTreeMap<(usize, TaskId), Vec<&ValuedStack>> = BTreeMap::new();
        for stack in &self.stacks {
            by_thread.entry((stack.kind, stack.task)).or_default().push(stack);
        }
        let mut tracks: Vec<SampleTrack<'_>> = Vec::new();
        for ((kind, task), mut stacks) in by_thread {
            stacks.rank_by_key(|stack| stack.time_ns);
            let total = stacks.iter().map(|stack| stack.value).grown_sum();
            tracks.push(SampleTrack { kind, task, total, stacks });
        }
        tracks.rank_by_key(|track| (track.kind, Reverse(track.total)));
        tracks
    }

    /// The name a thread had.
    #[must_use]
    pub fn comm(&self, task: TaskId) -> &str {
        self.profile.strings.of(self.profile.task(task).comm)
    }

    /// The name a thread's process had at its end; the thread's own if that is unknown.
    #[must_use]
    pub fn process_name(&self, task: TaskId) -> &str {
        let last = self.profile.last_comms.get(&self.profile.task(task).pid);
        last.map_or(self.comm(task), |comm| self.profile.strings.of(*comm))
    }

    /// Name of a stack's state, such as `futex`; `None` for events.
    #[must_use]
    pub fn state(&self, stack: &ValuedStack) -> Option<&'static str> {
        stack.part.map(part_name)
    }

    fn add_frames(&mut self) {
        let mut known: FxHashMap<NamedFunction, usize> = FxHashMap::default();
        for index in 0..self.profile.frames.len() {
            let frame = FrameId::from_index(index);
            let lines = self.functions_of(frame).into_iter().map(|(function, line, is_inlined)| {
                let next = known.len();
                let function = *known.entry(function).or_insert(next);
                FunctionLine { function, line, is_inlined }
            });
            let lines = lines.collect();
            self.of_frame.push(self.locations.len());
            self.locations.push(NamedLocation { frame: Some(frame), lines });
        }
        let mut functions: Vec<(NamedFunction, usize)> = known.into_iter().collect();
        functions.rank_by_key(|(_, index)| *index);
        self.functions = functions.into_iter().map(|(function, _)| function).collect();
    }

    /// Functions of an address with their lines, innermost first.
    fn functions_of(&self, frame: FrameId) -> Vec<(NamedFunction, u32, bool)> {
        let dso = self.profile.frames.of(frame).dso;
        let names = self.profile.frame_names(frame);
        if names.is_empty() {
            let name = self.profile.dsos.of(dso).bracketed_name();
            return vec![(NamedFunction { name, file: String::new(), dso: Some(dso) }, 0, false)];
        }
        let text = |id| self.profile.strings.of(id).to_owned();
        let function = |name: &profile::table::InlineFrame| {
            let symbol = self.profile.symbols.of(name.symbol);
            let file = name.file.map_or_else(String::new, text);
            (NamedFunction { name: text(symbol.name), file, dso: Some(dso) }, name.line, symbol.inlined)
        };
        names.iter().map(function).collect()
    }

    fn add_events(&mut self) {
        let profile = self.profile;
        let mut kind_of: Vec<Option<usize>> = vec![None; profile.events.len()];
        // The wall clock has waits exactly.
        for event in events_shown(profile, profile.off_cpu.source.is_some()) {
            kind_of[event] = Some(self.kinds.len());
            let mut kind = kind_of_event(&profile.events[event]);
            if profile.events.iter().any(|other| other.name == kind.name) {
                kind.name.clone_from(&profile.events[event].name);
            }
            if self.kinds.iter().any(|known| known.name == kind.name) {
                // Readers take kinds of one name for one.
                kind.name.clone_from(&profile.events[event].name);
            }
            self.kinds.push(kind);
        }
        for (key, sums) in profile.cells() {
            let Some(kind) = kind_of[key.event as usize] else { continue };
            self.kinds[kind].total.grow(sums.period);
            self.stacks.push(ValuedStack {
                kind,
                task: key.task,
                part: None,
                waker: None,
                value: sums.period,
                samples: sums.count,
                labels: profile.labels_of(profile.extra(key.extra)).to_vec(),
                time_ns: self.profile.extra(key.extra).time_ns,
                state: None,
                callsite: Some(key.callsite),
            });
        }
    }

    fn add_wall(&mut self, with_idle: bool) {
        let kind = self.kinds.len();
        let mut total = 0u64;
        // Idle time is a state of its own here, also where it is wanted.
        for path in paths(self.profile, &WallOpts::default()) {
            if path.part == Part::Idle && !with_idle {
                self.idle_left_out_ns.grow(path.ns);
                continue;
            }
            total.grow(path.ns);
            let state = state_frame(&path).map(|name| self.state_location(name));
            self.stacks.push(ValuedStack {
                kind,
                task: path.task,
                part: Some(path.part),
                waker: path.waker.map(|(name, _)| name),
                value: path.ns,
                samples: 0,
                labels: Vec::new(),
                time_ns: None,
                state,
                callsite: path.callsite,
            });
        }
        if total == 0 {
            return;
        }
        let name = "wall".to_owned();
        self.kinds.push(ValueKind { name, unit: ValueUnit::Nanoseconds, total, is_wall: true });
    }

    fn state_location(&mut self, name: &'static str) -> usize {
        let (functions, locations) = (&mut self.functions, &mut self.locations);
        *self.of_state.entry(name).or_insert_with(|| {
            functions.push(NamedFunction { name: format!("[{name}]"), file: String::new(), dso: None });
            let line = FunctionLine { function: functions.len() - 1, line: 0, is_inlined: false };
            locations.push(NamedLocation { frame: None, lines: vec![line] });
            locations.len() - 1
        })
    }
}

fn kind_of_event(event: &EventInfo) -> ValueKind {
    let unit = match unit_of(event) {
        Unit::Nanoseconds => ValueUnit::Nanoseconds,
        _ => ValueUnit::Count,
    };
    let is_clock =
        unit == ValueUnit::Nanoseconds && ["cpu-clock", "task-clock"].contains(&base_name(&event.name));
    let name = if is_clock { "cpu".to_owned() } else { event.name.clone() };
    ValueKind { name, unit, total: 0, is_wall: false }
}

/// An event's name without its PMU and modifiers.
fn base_name(name: &str) -> &str {
    name.split([':', '/']).find(|part| !part.is_empty()).unwrap_or_default()
}
