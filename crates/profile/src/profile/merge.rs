//! Merge: the addition of profiles. Ids of the other profile are translated table by table.

use crate::profile::{BranchEnds, CellKey, CgroupNames, ExtraDimensions, NameState, Profile, Task, TaskId};
use crate::table::{CallsiteId, DsoId, Frame, FrameId, InlineFrame, StringId, SymbolRange};

/// Ids of the other profile mapped to ids of this one.
struct Translation {
    strings: Vec<StringId>,
    dsos: Vec<DsoId>,
    frames: Vec<FrameId>,
    callsites: Vec<CallsiteId>,
    tasks: Vec<TaskId>,
    events: Vec<u32>,
}

impl Profile {
    /// Adds another profile. Events are matched by name (new ones are appended); threads by
    /// process id, thread id and name; frames by DSO and address; names are taken where this
    /// profile has none.
    pub fn merge(&mut self, other: &Self) {
        let ids = self.translate(other);
        for (key, sums) in other.cells() {
            let extra = self.translate_extra(other.extra(key.extra), &ids);
            let key = CellKey {
                event: ids.events[key.event as usize],
                task: ids.tasks[key.task.index()],
                cpu: key.cpu,
                callsite: ids.callsites[key.callsite.index()],
                extra: self.intern_extra(extra),
            };
            self.add(key, *sums);
        }
        self.merge_names(other, &ids);
        self.diagnostics.merge(&other.diagnostics);
        for (&tid, comm) in &other.last_comms {
            self.last_comms.entry(tid).or_insert(ids.strings[comm.index()]);
        }
        for (&id, names) in &other.cgroups {
            let container = ids.strings[names.container.index()];
            let path = ids.strings[names.path.index()];
            self.cgroups.entry(id).or_insert(CgroupNames { path, container });
        }
        for (set, pairs) in &other.label_sets {
            let id = |id: &StringId| ids.strings[id.index()];
            let pairs = pairs.iter().map(|(key, value)| (id(key), id(value)));
            self.label_sets.insert(id(set), pairs.collect());
        }
        self.time_span_ns = match (self.time_span_ns, other.time_span_ns) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }

    fn translate(&mut self, other: &Self) -> Translation {
        let strings: Vec<StringId> = (0..other.strings.len())
            .map(|index| self.strings.intern(other.strings.of(StringId::from_index(index))))
            .collect();
        let dsos: Vec<DsoId> = other.dsos.iter().map(|(_, dso)| self.dsos.intern(dso.clone())).collect();
        let frames: Vec<FrameId> = (other.frames.entries().iter())
            .map(|frame| self.frames.intern(Frame { dso: dsos[frame.dso.index()], ..*frame }))
            .collect();
        let callsites = self.callsites.extend_from(&other.callsites, &frames);
        let tasks = (other.tasks().iter())
            .map(|task| self.intern_task(Task { comm: strings[task.comm.index()], ..*task }))
            .collect();
        let events = other.events.iter().map(|event| self.event_like(event)).collect();
        Translation { strings, dsos, frames, callsites, tasks, events }
    }

    fn event_like(&mut self, event: &crate::profile::EventInfo) -> u32 {
        let known = self.events.iter().position(|e| e.name == event.name);
        let index = known.unwrap_or_else(|| {
            self.events.push(event.clone());
            self.events.len() - 1
        });
        u32::try_from(index).expect("invariant: fewer than 2^32 events")
    }

    fn translate_extra(&self, extra: &ExtraDimensions, ids: &Translation) -> ExtraDimensions {
        let frame = |id: FrameId| ids.frames[id.index()];
        ExtraDimensions {
            branch: extra.branch.map(|b| BranchEnds { from: frame(b.from), to: frame(b.to), ..b }),
            labels: extra.labels.map(|id| ids.strings[id.index()]),
            trace: extra.trace.map(|id| ids.strings[id.index()]),
            fields: extra.fields.iter().map(|id| ids.strings[id.index()]).collect(),
            ..extra.clone()
        }
    }

    fn merge_names(&mut self, other: &Self, ids: &Translation) {
        self.names.by_frame.resize(self.frames.len(), NameState::Unasked);
        let refused = other.names.refused.iter().map(|&(why, dso)| (why, ids.dsos[dso.index()]));
        self.names.refused.extend(refused);
        for (index, &state) in other.names.by_frame.iter().enumerate() {
            let frame = ids.frames[index].index();
            if matches!(self.names.by_frame[frame], NameState::Named { .. }) {
                continue;
            }
            self.names.by_frame[frame] = match state {
                NameState::Named { len, with_lines, .. } => {
                    let first = self.names.inlines.len();
                    for inline in other.frame_names(FrameId::from_index(index)) {
                        let inline = self.translate_inline(other, inline, ids);
                        self.names.inlines.push(inline);
                    }
                    let first = u32::try_from(first).expect("invariant: fewer than 2^32 inline frames");
                    NameState::Named { first, len, with_lines }
                }
                other => other,
            };
        }
    }

    fn translate_inline(&mut self, other: &Self, inline: &InlineFrame, ids: &Translation) -> InlineFrame {
        let symbol = other.symbols.of(inline.symbol);
        let symbol = SymbolRange {
            dso: ids.dsos[symbol.dso.index()],
            name: ids.strings[symbol.name.index()],
            ..*symbol
        };
        InlineFrame {
            symbol: self.symbols.intern(symbol),
            file: inline.file.map(|id| ids.strings[id.index()]),
            line: inline.line,
        }
    }
}
