//! Stacks that another profiler summed up: cells of the profile without samples of their own.

use super::Session;
use crate::grow::Grow as _;
use crate::profile::{CellKey, ExtraDimensions, NameState, Sums, Task, TaskId};
use crate::reason::Reason;
use crate::table::{Dso, DsoId, DsoKind, Frame, FrameId, InlineFrame, SymbolRange};
use perfdata::appendix::summed_stacks::{CodeFile, CodeKind, StackFrame, SummedStack, SummedStacks};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash as _, Hasher as _};

/// Addresses of places that have none: above all that a file can have.
const FIRST_MADE_UP: u64 = 1 << 62;

/// An address for a place that has none, by its names: profiles that are added up know the same functions by it.
fn made_up_address(frame: &StackFrame) -> u64 {
    let mut hasher = FxHasher::default();
    frame.lines.hash(&mut hasher);
    FIRST_MADE_UP | hasher.finish() >> 3
}

impl Session {
    /// Adds the sums of a recording without samples ([`perfdata::PerfData::appendix`]).
    pub fn add_summed_stacks(&mut self, stacks: &SummedStacks) {
        let files: Vec<DsoId> =
            stacks.files.iter().map(|file| self.profile.dsos.intern(dso_of(file))).collect();
        let frames = self.intern_frames(stacks, &files);
        let tasks = self.intern_tasks(stacks);
        for stack in &stacks.stacks {
            self.profile.diagnostics.samples_read.grow(stack.samples);
            let task = tasks[stack.thread];
            match self.refusal(stack, task) {
                Some(reason) => {
                    self.profile.diagnostics.dropped.entry(reason).or_default().grow(stack.samples);
                }
                None => self.add_summed(stack, &stacks.paths[stack.path], task, &frames),
            }
        }
    }

    fn refusal(&self, stack: &SummedStack, task: TaskId) -> Option<Reason> {
        if stack.event >= self.profile.events.len() {
            return Some(Reason::UnknownEvent);
        }
        let (filter, task) = (&self.opts.filter, self.profile.task(task));
        let in_time = filter.times_ns.is_empty()
            || stack.time_ns.is_none_or(|t| filter.times_ns.iter().any(|&(from, to)| from <= t && t <= to));
        let passes = in_time
            && (filter.pids.is_empty() || filter.pids.contains(&task.pid))
            && (filter.tids.is_empty() || filter.tids.contains(&task.tid))
            && filter.cpus.is_empty();
        (!passes).then_some(Reason::Filtered)
    }

    fn add_summed(&mut self, stack: &SummedStack, path: &[usize], task: TaskId, frames: &[FrameId]) {
        let kept = if self.opts.callchains { path.len().min(self.opts.max_frames.max(1)) } else { 1 };
        let path: Vec<FrameId> = path[..kept].iter().map(|&frame| frames[frame]).collect();
        let Some(callsite) = self.profile.callsites.intern_leaf_first(&path) else { return };
        let slice = self.opts.dimensions.time_slice_ns;
        let time_ns = stack.time_ns.zip(slice).map(|(time, slice)| time - time % slice.max(1));
        let extra = self.profile.intern_extra(ExtraDimensions { time_ns, ..ExtraDimensions::default() });
        let event = u32::try_from(stack.event).expect("invariant: an event of the file");
        let key = CellKey { event, task, cpu: -1, callsite, extra };
        self.profile.add(
            key,
            Sums { count: stack.samples, period: stack.value, weight: stack.value, ..Sums::default() },
        );
        self.profile.diagnostics.samples_attributed.grow(stack.samples);
        if let Some(time) = stack.time_ns {
            let (first, last) = self.profile.time_span_ns.unwrap_or((time, time));
            self.profile.time_span_ns = Some((first.min(time), last.max(time)));
        }
    }

    fn intern_tasks(&mut self, stacks: &SummedStacks) -> Vec<TaskId> {
        let mut processes: FxHashMap<i32, u32> = FxHashMap::default();
        let intern = |thread: &perfdata::appendix::summed_stacks::StackThread| {
            let next = u32::try_from(processes.len()).unwrap_or(u32::MAX);
            let process = *processes.entry(thread.pid).or_insert(next);
            let comm = self.profile.strings.intern(&thread.name);
            self.profile.last_comms.entry(thread.tid).or_insert(comm);
            self.profile.intern_task(Task { pid: thread.pid, tid: thread.tid, process, comm })
        };
        stacks.threads.iter().map(intern).collect()
    }

    /// A frame for each of the recording's, with the names it has.
    fn intern_frames(&mut self, stacks: &SummedStacks, files: &[DsoId]) -> Vec<FrameId> {
        let mut taken: FxHashMap<(DsoId, u64), &StackFrame> = FxHashMap::default();
        let mut ids = Vec::with_capacity(stacks.frames.len());
        for frame in &stacks.frames {
            let dso = files[frame.file];
            // Two functions may be at one address, one after the other: the later one gets an address of its own.
            let is_free = |addr: &u64| taken.get(&(dso, *addr)).is_none_or(|known| *known == frame);
            let made_up =
                || (made_up_address(frame)..).find(is_free).expect("invariant: fewer than 2^61 frames");
            let addr = frame.address.filter(is_free).unwrap_or_else(made_up);
            taken.insert((dso, addr), frame);
            let id = self.profile.frames.intern(Frame { dso, addr, lookup: addr, first_avma: addr });
            self.name_frame(id, dso, frame, stacks.files[frame.file].kind);
            ids.push(id);
        }
        ids
    }

    fn name_frame(&mut self, id: FrameId, dso: DsoId, frame: &StackFrame, kind: CodeKind) {
        let profile = &mut self.profile;
        profile.names.by_frame.resize(profile.frames.len(), NameState::Unasked);
        if frame.lines.is_empty() {
            // The file itself may be here and name it. The kernel's addresses are those of another machine.
            let can_be_named = kind == CodeKind::File && frame.address.is_some();
            let state = if can_be_named {
                NameState::Unasked
            } else {
                NameState::Missing(::dso::Missing::NoSymbolAt)
            };
            profile.names.by_frame[id.index()] = state;
            return;
        }
        let first = u32::try_from(profile.names.inlines.len()).expect("invariant: fewer than 2^32 lines");
        for line in &frame.lines {
            let name = profile.strings.intern(&line.function);
            let symbol = SymbolRange { dso, name, start: 0, size: 0, inlined: line.is_inlined };
            let file = (!line.source.is_empty()).then(|| profile.strings.intern(&line.source));
            let symbol = profile.symbols.intern(symbol);
            profile.names.inlines.push(InlineFrame { symbol, file, line: line.line });
        }
        let len = u32::try_from(frame.lines.len()).expect("invariant: fewer than 2^32 lines");
        profile.names.by_frame[id.index()] = NameState::Named { first, len, with_lines: true };
    }
}

/// The file of code as a profile knows it.
#[must_use]
pub fn dso_of(file: &CodeFile) -> Dso {
    let short = file.path.rsplit('/').next().unwrap_or_default();
    let (kind, level) = match file.kind {
        CodeKind::Unknown => (DsoKind::Unknown, '.'),
        CodeKind::File | CodeKind::Image => (DsoKind::File, '.'),
        CodeKind::Kernel => (DsoKind::Kernel, 'k'),
        CodeKind::Jit => (DsoKind::PerfMap { pid: 0 }, '.'),
    };
    let name = |text: &str| if text.is_empty() { "[unknown]".to_owned() } else { text.to_owned() };
    let build_id = (!file.build_id.is_empty()).then(|| file.build_id.clone());
    Dso { kind, path: name(&file.path), short_name: name(short), build_id, level, start_avma: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionOpts;
    use perfdata::appendix::summed_stacks::{StackLine, StackThread};
    use perfdata::{Attr, Endian, Event};

    fn two_functions_at_one_address() -> SummedStacks {
        let frame = |function: &str| StackFrame {
            file: 0,
            address: Some(16),
            lines: vec![StackLine { function: function.to_owned(), ..StackLine::default() }],
        };
        let stack = |event, path, value| SummedStack {
            event,
            thread: 0,
            path,
            samples: 2,
            value,
            time_ns: Some(1_500),
        };
        SummedStacks {
            threads: vec![StackThread { pid: 1, tid: 2, name: "app".to_owned() }],
            files: vec![CodeFile { kind: CodeKind::Jit, ..CodeFile::default() }],
            frames: vec![frame("old"), frame("new")],
            paths: vec![vec![0], vec![1, 0]],
            stacks: vec![stack(0, 0, 5), stack(0, 1, 7), stack(9, 1, 1)],
        }
    }

    fn profile_of(functions: [&str; 2]) -> crate::Profile {
        let frame = |function: &&str| StackFrame {
            lines: vec![StackLine { function: (*function).to_owned(), ..StackLine::default() }],
            ..StackFrame::default()
        };
        let stack = |path| SummedStack {
            event: 0,
            thread: 0,
            path,
            samples: 1,
            value: 1 + path as u64,
            time_ns: None,
        };
        let stacks = SummedStacks {
            threads: vec![StackThread::default()],
            files: vec![CodeFile::default()],
            frames: functions.iter().map(frame).collect(),
            paths: vec![vec![0], vec![1]],
            stacks: vec![stack(0), stack(1)],
        };
        let event = Event { attr: Attr::default(), ids: Vec::new(), name: "cpu".to_owned() };
        let mut session = Session::new(&[event], Endian::Little, SessionOpts::default());
        session.add_summed_stacks(&stacks);
        session.finish()
    }

    #[test]
    fn functions_without_addresses_are_the_same_in_profiles_that_are_added_up() {
        let mut sum = profile_of(["parse", "read"]);
        sum.merge(&profile_of(["read", "parse"]));
        let mut values: Vec<(&str, u64)> = Vec::new();
        for (key, cell) in sum.cells() {
            let leaf = sum.callsites.path(key.callsite)[0];
            let symbol = sum.frame_names(leaf)[0].symbol;
            values.push((sum.strings.of(sum.symbols.of(symbol).name), cell.period));
        }
        values.sort_unstable();
        assert_eq!(values, [("parse", 3), ("read", 3)]);
    }

    #[test]
    fn sums_and_names_are_kept_and_stacks_of_no_event_are_counted() {
        let event = Event { attr: Attr::default(), ids: Vec::new(), name: "cpu".to_owned() };
        let mut opts = SessionOpts::default();
        opts.dimensions.time_slice_ns = Some(1_000);
        let mut session = Session::new(&[event], Endian::Little, opts);
        session.add_summed_stacks(&two_functions_at_one_address());
        let profile = session.finish();
        assert_eq!(profile.total(0), Sums { count: 4, period: 12, weight: 12, ..Sums::default() });
        let (key, _) = profile.cells()[1];
        let names = profile.callsites.leaf_first(key.callsite).map(|frame| {
            let symbol = profile.frame_names(frame)[0].symbol;
            profile.strings.of(profile.symbols.of(symbol).name)
        });
        assert_eq!(names.collect::<Vec<_>>(), ["new", "old"]);
        assert_eq!(profile.extra(key.extra).time_ns, Some(1_000));
        let read = &profile.diagnostics;
        assert_eq!((read.samples_read, read.samples_attributed), (6, 4));
        assert_eq!(read.dropped[&Reason::UnknownEvent], 2);
        assert_eq!(profile.time_span_ns, Some((1_500, 1_500)));
    }
}
