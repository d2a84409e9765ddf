//! Alignment: all runs in one profile, where a function has one id whatever binary it is from.
//!
//! Each (event, side, run, time slice) becomes an event of the aligned profile, so that grouping
//! keeps them separate without knowing about them.

use crate::profile::{CellKey, EventInfo, ExtraDimensions, ExtraId, NameState, Profile, Task, TaskId};
use crate::table::{CallsiteId, Dso, DsoId, DsoKind, Frame, FrameId, InlineFrame, StringId, SymbolRange};

/// Time slices per run: enough for a bootstrap, few enough to be cheap.
pub(super) const SLICES: usize = 40;

/// One run's place among the members of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Baseline,
    Current,
}

/// Whether a function's file is part of what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    /// Functions of one name in two files are two.
    Differ,
    /// They are one: a program may have another name in each version.
    Merge,
}

/// The runs in one profile.
pub(super) struct Aligned {
    pub profile: Profile,
    /// Names of the events, in order of first sight.
    pub names: Vec<String>,
    /// Side of each run.
    pub runs: Vec<Side>,
    /// Recorded time of each run in ns; 0 if unknown.
    pub durations_ns: Vec<u64>,
    /// True if the run's samples have times.
    pub sliced: Vec<bool>,
}

impl Aligned {
    /// `files`: whether functions of one name in files of different names are different ones.
    pub fn new(baseline: &[Profile], current: &[Profile], files: Files) -> Self {
        let mut this = Self {
            profile: Profile::default(),
            names: Vec::new(),
            runs: Vec::new(),
            durations_ns: Vec::new(),
            sliced: Vec::new(),
        };
        let sides = [(baseline, Side::Baseline), (current, Side::Current)];
        for (profiles, side) in sides {
            for profile in profiles {
                for event in &profile.events {
                    if !this.names.contains(&event.name) {
                        this.names.push(event.name.clone());
                    }
                }
                this.runs.push(side);
            }
        }
        this.profile.events = this.members();
        for (run, profile) in baseline.iter().chain(current).enumerate() {
            this.add_run(run, profile, files);
        }
        this
    }

    /// The members of an event's section: run by run, slice by slice.
    pub fn members_of(&self, name: usize) -> std::ops::Range<usize> {
        let len = self.runs.len() * SLICES;
        name * len..(name + 1) * len
    }

    /// By event: is it of a baseline run?
    pub fn baseline_events(&self) -> Vec<bool> {
        let of_runs = || self.runs.iter().flat_map(|&side| [side == Side::Baseline; SLICES]);
        self.names.iter().flat_map(|_| of_runs()).collect()
    }

    fn members(&self) -> Vec<EventInfo> {
        let mut events = Vec::new();
        for (index, name) in self.names.iter().enumerate() {
            let leader = self.members_of(index).start;
            let member = EventInfo { name: name.clone(), leader, ..EventInfo::default() };
            events.extend(std::iter::repeat_n(member, self.runs.len() * SLICES));
        }
        events
    }

    fn add_run(&mut self, run: usize, run_profile: &Profile, files: Files) {
        let span = run_profile.time_span_ns;
        self.durations_ns.push(span.map_or(0, |(first, last)| last.saturating_sub(first)));
        let mut sliced = false;
        let ids = Translation::new(&mut self.profile, run_profile, files);
        for (key, sums) in run_profile.cells() {
            let extra = run_profile.extra(key.extra);
            sliced |= extra.time_ns.is_some();
            let name = &run_profile.events[key.event as usize].name;
            let name = self.names.iter().position(|n| n == name).unwrap_or(0);
            let member = self.members_of(name).start + run * SLICES + slice_of(extra, span);
            let key = CellKey {
                event: u32::try_from(member).expect("invariant: fewer than 2^32 members"),
                task: ids.tasks[key.task.index()],
                cpu: key.cpu,
                callsite: ids.callsites[key.callsite.index()],
                extra: ExtraId(0),
            };
            self.profile.add(key, *sums);
        }
        self.sliced.push(sliced);
    }
}

fn slice_of(extra: &ExtraDimensions, span: Option<(u64, u64)>) -> usize {
    let (Some(time), Some((first, last))) = (extra.time_ns, span) else { return 0 };
    let into = u128::from(time.saturating_sub(first)) * SLICES as u128
        / (u128::from(last.saturating_sub(first)) + 1);
    (into as usize).min(SLICES - 1)
}

/// Ids of a run mapped to ids of the aligned profile.
struct Translation {
    tasks: Vec<TaskId>,
    callsites: Vec<CallsiteId>,
}

impl Translation {
    fn new(into: &mut Profile, run: &Profile, files: Files) -> Self {
        let strings: Vec<StringId> = (0..run.strings.len())
            .map(|i| into.strings.intern(run.strings.of(StringId::from_index(i))))
            .collect();
        let own: Vec<DsoId> = run.dsos.iter().map(|(_, dso)| into.dsos.intern(nameless(dso))).collect();
        let of_named = match files {
            Files::Differ => own.clone(),
            Files::Merge => run.dsos.iter().map(|(_, dso)| into.dsos.intern(any_of_level(dso))).collect(),
        };
        let dsos = AlignedDsos { own, of_named };
        let frames: Vec<FrameId> = (0..run.frames.len())
            .map(|index| aligned_frame(into, run, FrameId::from_index(index), &dsos, &strings))
            .collect();
        let callsites = into.callsites.extend_from(&run.callsites, &frames);
        let tasks = (run.tasks().iter())
            .map(|task| into.intern_task(Task { comm: strings[task.comm.index()], process: 0, ..*task }))
            .collect();
        Self { tasks, callsites }
    }
}

/// The aligned DSO of each of a run's.
struct AlignedDsos {
    own: Vec<DsoId>,
    /// That of its named functions.
    of_named: Vec<DsoId>,
}

/// All files of a level in one: functions are compared by name.
fn any_of_level(dso: &Dso) -> Dso {
    let kind = match dso.kind {
        DsoKind::Kernel | DsoKind::KernelModule | DsoKind::Bpf => DsoKind::Kernel,
        _ => DsoKind::File,
    };
    let name = String::new();
    Dso { kind, path: name.clone(), short_name: name, build_id: None, level: dso.level, start_avma: 0 }
}

/// A DSO as far as builds agree: its short name. JIT code of any process is one.
fn nameless(dso: &Dso) -> Dso {
    let name = match dso.kind {
        DsoKind::PerfMap { .. } => "[JIT]".to_owned(),
        _ => dso.short_name.clone(),
    };
    let kind = match dso.kind {
        DsoKind::PerfMap { .. } => DsoKind::PerfMap { pid: 0 },
        kind => kind,
    };
    Dso { kind, path: name.clone(), short_name: name, build_id: None, level: dso.level, start_avma: 0 }
}

/// A frame as far as builds agree: the functions inlined there, or the address without a name.
fn aligned_frame(
    into: &mut Profile,
    run: &Profile,
    id: FrameId,
    dsos: &AlignedDsos,
    strings: &[StringId],
) -> FrameId {
    let frame = run.frames.of(id);
    let names = run.frame_names(id);
    let inlines: Vec<InlineFrame> = (names.iter())
        .map(|inline| {
            let symbol = run.symbols.of(inline.symbol);
            let name = strings[symbol.name.index()];
            let symbol = SymbolRange {
                dso: dsos.of_named[symbol.dso.index()],
                name,
                start: 0,
                size: 0,
                inlined: symbol.inlined,
            };
            InlineFrame {
                symbol: into.symbols.intern(symbol),
                file: inline.file.map(|id| strings[id.index()]),
                line: inline.line,
            }
        })
        .collect();
    let (dso, addr) = if inlines.is_empty() {
        (dsos.own[frame.dso.index()], frame.addr)
    } else {
        (dsos.of_named[frame.dso.index()], address_of(into, &inlines))
    };
    let aligned = into.frames.intern(Frame { dso, addr, lookup: addr, first_avma: frame.first_avma });
    into.names.by_frame.resize(into.frames.len(), NameState::Unasked);
    if !inlines.is_empty() && into.names.by_frame[aligned.index()] == NameState::Unasked {
        let first =
            u32::try_from(into.names.inlines.len()).expect("invariant: fewer than 2^32 inline frames");
        let len = u32::try_from(inlines.len()).expect("invariant: fewer than 2^32 inline frames");
        into.names.inlines.extend(inlines);
        into.names.by_frame[aligned.index()] = NameState::Named { first, len, with_lines: true };
    }
    aligned
}

/// A made-up address, equal for equal names: the functions from the innermost out, as one string.
fn address_of(into: &mut Profile, inlines: &[InlineFrame]) -> u64 {
    let mut path = String::from("\0");
    for inline in inlines {
        path += &format!("{}:{}:{} ", inline.symbol.0, inline.file.map_or(0, |id| id.0), inline.line);
    }
    (1 << 63) | u64::from(into.strings.intern(&path).0)
}
