//! pprof: protocol buffers, compressed with gzip, for `go tool pprof` and the stores that take its files.
//
// Source: github.com/google/pprof proto/profile.proto.

use super::message::{Message, packed};
use super::samples::{SampleSet, ValuedStack};
use super::texts::Texts;
use flate2::Compression;
use flate2::write::GzEncoder;
use profile::profile::Profile;
use profile::table::{Dso, DsoId, DsoKind, FrameId};
use profile::view::wall::Part;
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::{self, Write};

/// Profile's fields.
mod top {
    pub const SAMPLE_TYPE: u64 = 1;
    pub const SAMPLE: u64 = 2;
    pub const MAPPING: u64 = 3;
    pub const LOCATION: u64 = 4;
    pub const FUNCTION: u64 = 5;
    pub const STRING: u64 = 6;
    pub const DURATION_NS: u64 = 10;
    pub const COMMENT: u64 = 13;
    pub const DEFAULT_TYPE: u64 = 14;
}

/// Distance between the address ranges that represent files: their frames are known by offset.
const FILE_STEP: u64 = 1 << 40;

/// Writes all of `samples`; `command` is what was recorded.
///
/// # Errors
/// If writing fails.
pub fn write(out: impl Write, samples: &SampleSet<'_>, command: &str) -> io::Result<()> {
    let mut out = GzEncoder::new(out, Compression::default());
    let mut texts = Texts::default();
    let mut emit =
        |field: u64, message: Message| out.write_all(&Message::default().message(field, &message).0);
    let types = types_of(samples);
    for (name, unit) in &types {
        emit(top::SAMPLE_TYPE, Message::default().number(1, texts.id(name)).number(2, texts.id(unit)))?;
    }
    for stack in &samples.stacks {
        emit(top::SAMPLE, sample(samples, stack, types.len(), &mut texts))?;
    }
    // Viewers take the first for the program.
    let program = program_of(samples);
    let used = UsedParts::of(samples);
    let dsos = || samples.profile.dsos.iter().filter(|(id, _)| used.dsos.contains(id));
    let others = dsos().filter(|(id, _)| Some(*id) != program);
    for (id, dso) in dsos().filter(|(id, _)| Some(*id) == program).chain(others) {
        let build_id = build_id_text(dso);
        let (start, limit) = range_of(samples.profile, id);
        let mapping = Message::default()
            .number(1, id.index() as u64 + 1)
            .number(2, start)
            .number(3, limit)
            .number(5, texts.id(&dso.path))
            .number(6, texts.id(&build_id));
        // Functions, files, lines and inlined functions are filled in: pprof needn't look for them.
        emit(top::MAPPING, mapping.number(7, 1).number(8, 1).number(9, 1).number(10, 1))?;
    }
    for (at, location) in samples.locations.iter().enumerate().filter(|(at, _)| used.locations.contains(at)) {
        let mut message = Message::default().number(1, at as u64 + 1);
        if let Some(frame) = location.frame {
            let mapping = samples.profile.frames.of(frame).dso.index() as u64 + 1;
            message = message.number(2, mapping).number(3, address_of(samples.profile, frame));
        }
        for line in &location.lines {
            let numbers = Message::default().number(1, line.function as u64 + 1);
            message = message.message(4, &numbers.number(2, u64::from(line.line)));
        }
        emit(top::LOCATION, message)?;
    }
    for (at, function) in samples.functions.iter().enumerate().filter(|(at, _)| used.functions.contains(at)) {
        let name = texts.id(&function.name);
        let message = Message::default().number(1, at as u64 + 1).number(2, name).number(3, name);
        // Go's compiler counts lines from there (-pgo).
        let declared = samples.declared.get(&at).copied().map_or(0, u64::from);
        emit(top::FUNCTION, message.number(4, texts.id(&function.file)).number(5, declared))?;
    }
    let (comment, default) = (texts.id(command), texts.id(default_type(samples)));
    let span_ns = samples.profile.time_span_ns.map_or(0, |(first, last)| last.saturating_sub(first));
    let mut end = Message::default().number(top::DURATION_NS, span_ns).number(top::COMMENT, comment);
    end = end.number(top::DEFAULT_TYPE, default);
    for text in &texts.list {
        end = end.bytes(top::STRING, text.as_bytes());
    }
    out.write_all(&end.0)?;
    out.finish()?.flush()
}

/// Tables that stacks refer to: the rest of the recording isn't written.
struct UsedParts {
    locations: FxHashSet<usize>,
    functions: FxHashSet<usize>,
    dsos: FxHashSet<DsoId>,
}

impl UsedParts {
    fn of(samples: &SampleSet<'_>) -> Self {
        let locations: FxHashSet<usize> =
            samples.stacks.iter().flat_map(|stack| samples.path(stack)).collect();
        let used = || locations.iter().map(|&at| &samples.locations[at]);
        let functions = used().flat_map(|location| location.lines.iter().map(|line| line.function)).collect();
        let frames = used().filter_map(|location| location.frame);
        let dsos = frames.map(|frame| samples.profile.frames.of(frame).dso).collect();
        Self { locations, functions, dsos }
    }
}

/// Names and units of the values: two for an event (its samples and what they stand for), two for the wall clock (all
/// of it, and the part off the CPU).
fn types_of(samples: &SampleSet<'_>) -> Vec<(String, &'static str)> {
    let mut types = Vec::new();
    for (at, kind) in samples.kinds.iter().enumerate() {
        let first = match (kind.is_wall, at) {
            (true, _) => ("off_cpu".to_owned(), "nanoseconds"),
            (false, 0) => ("samples".to_owned(), "count"),
            (false, _) => (format!("{}_samples", kind.name), "count"),
        };
        types.extend([first, (kind.name.clone(), kind.unit.name())]);
    }
    types
}

/// Value that a viewer shows first.
fn default_type<'s>(samples: &'s SampleSet<'_>) -> &'s str {
    samples.kinds.first().map_or("", |kind| &kind.name)
}

fn sample(samples: &SampleSet<'_>, stack: &ValuedStack, types: usize, texts: &mut Texts) -> Message {
    let mut values = vec![0; types];
    values[2 * stack.kind] = match stack.part {
        None => stack.samples,
        Some(Part::On) => 0,
        Some(_) => stack.value,
    };
    values[2 * stack.kind + 1] = stack.value;
    let path = samples.path(stack).map(|location| location as u64 + 1);
    let mut message = Message::default().bytes(1, &packed(path)).bytes(2, &packed(values));
    let task = samples.profile.task(stack.task);
    let texts_of = [("thread", Some(samples.comm(stack.task))), ("state", samples.state(stack))];
    for (key, text) in texts_of.into_iter().chain([("waker", stack.waker.as_deref())]) {
        let Some(text) = text else { continue };
        message = message.message(3, &Message::default().number(1, texts.id(key)).number(2, texts.id(text)));
    }
    for (key, value) in &stack.labels {
        let [key, value] = [key, value].map(|id| texts.id(samples.profile.strings.of(*id)));
        message = message.message(3, &Message::default().number(1, key).number(2, value));
    }
    for (key, id) in [("pid", task.pid), ("tid", task.tid)] {
        let label = Message::default().number(1, texts.id(key)).number(3, i64::from(id).cast_unsigned());
        message = message.message(3, &label);
    }
    message
}

/// The file of a program, not a library, that is in most stacks.
pub(super) fn program_of(samples: &SampleSet<'_>) -> Option<DsoId> {
    let profile = samples.profile;
    let mut stacks: FxHashMap<DsoId, u64> = FxHashMap::default();
    for stack in &samples.stacks {
        let frames = samples.path(stack).filter_map(|at| samples.locations[at].frame);
        let mut dsos: Vec<DsoId> = frames.map(|frame| profile.frames.of(frame).dso).collect();
        dsos.dedup();
        dsos.into_iter().for_each(|dso| *stacks.entry(dso).or_default() += 1);
    }
    let is_program = |id: DsoId| {
        let dso = profile.dsos.of(id);
        dso.kind == DsoKind::File && !dso.short_name.contains(".so")
    };
    let programs = stacks.into_iter().filter(|(id, _)| is_program(*id));
    programs.max_by_key(|(id, count)| (*count, std::cmp::Reverse(id.index()))).map(|(id, _)| id)
}

/// True if a file's frames are offsets into it.
fn is_by_offset(kind: DsoKind) -> bool {
    matches!(kind, DsoKind::File | DsoKind::Vdso)
}

/// A build id in hexadecimal; empty if there is none.
pub(super) fn build_id_text(dso: &Dso) -> String {
    dso.build_id.iter().flatten().map(|byte| format!("{byte:02x}")).collect()
}

/// First and last address of a file: a range of its own where only offsets are known.
pub(super) fn range_of(profile: &Profile, id: DsoId) -> (u64, u64) {
    if is_by_offset(profile.dsos.of(id).kind) {
        let start = FILE_STEP * (id.index() as u64 + 1);
        return (start, start + FILE_STEP);
    }
    (0, 0)
}

/// A frame's address in the range of its file.
pub(super) fn address_of(profile: &Profile, id: FrameId) -> u64 {
    let frame = profile.frames.of(id);
    let (start, _) = range_of(profile, frame.dso);
    start.saturating_add(frame.addr)
}
