//! pprof: the profiles of Go, Pyroscope, Parca and many more, and our own exports.
//
// Source: github.com/google/pprof proto/profile.proto.

use super::error::{ImportError, ImportFormat};
use super::gathered::{Gathered, GatheredSums, StackOwner, build_id_of, kind_of_path};
use super::protobuf::{Field, ProtoFields};
use crate::export::samples::ValueUnit;
use perfdata::appendix::summed_stacks::{CodeFile, CodeKind, StackFrame, StackLine, StackThread};
use rustc_hash::FxHashMap;

const FORMAT: ImportFormat = ImportFormat::Pprof;

/// A message whose texts are not known yet: its numbers by field.
#[derive(Clone, Debug, Default)]
struct Message {
    numbers: [u64; 8],
    offset: usize,
}

#[derive(Clone, Debug, Default)]
struct Location {
    mapping: u64,
    address: u64,
    /// Function and line, innermost first.
    lines: Vec<(u64, u64)>,
    offset: usize,
}

#[derive(Clone, Debug, Default)]
struct Sample {
    locations: Vec<u64>,
    values: Vec<u64>,
    /// Key, text, number.
    labels: Vec<Message>,
    offset: usize,
}

/// The file's tables.
#[derive(Default)]
struct Tables<'a> {
    types: Vec<Message>,
    samples: Vec<Sample>,
    mappings: FxHashMap<u64, Message>,
    first_mapping: Option<u64>,
    locations: FxHashMap<u64, Location>,
    functions: FxHashMap<u64, Message>,
    texts: Vec<&'a [u8]>,
    comment: u64,
}

/// Reads a decompressed file.
///
/// # Errors
/// If it is no such file, or a number in it refers to nothing.
pub fn read(bytes: &[u8]) -> Result<Gathered, ImportError> {
    let mut gathered = Gathered::default();
    add(&Tables::read(bytes)?, &mut gathered)?;
    Ok(gathered)
}

fn add(tables: &Tables<'_>, gathered: &mut Gathered) -> Result<(), ImportError> {
    gathered.command = tables.text(tables.comment, 0)?;
    let kinds = tables.kinds(gathered)?;
    let mut frames: FxHashMap<u64, usize> = FxHashMap::default();
    for sample in &tables.samples {
        let mut path = Vec::with_capacity(sample.locations.len());
        for &id in &sample.locations {
            let frame = match frames.get(&id) {
                Some(&frame) => frame,
                None => *frames.entry(id).or_insert(tables.frame(id, sample.offset, gathered)?),
            };
            path.push(frame);
        }
        if sample.values.len() != tables.types.len() {
            return Err(ImportError::at(FORMAT, "a sample has not one value for each type", sample.offset));
        }
        let thread = gathered.thread(tables.thread(sample)?);
        for kind in &kinds {
            let [samples, value] = [kind.samples, kind.value].map(|at| sample.values[at]);
            if [samples, value].iter().any(|value| value.cast_signed() < 0) {
                return Err(ImportError::at(FORMAT, "a negative value", sample.offset));
            }
            // A value of its own has no number of samples: the stack is one.
            let samples =
                if kind.samples == kind.value && kind.unit != ValueUnit::Count { 1 } else { samples };
            if value > 0 || (samples > 0 && kind.samples != kind.value) {
                let owner = StackOwner { event: kind.event, thread };
                gathered.add(owner, &path, GatheredSums { samples, value, time_ns: None })?;
            }
        }
    }
    Ok(())
}

/// An event: the positions of its number of samples and of its value.
struct Kind {
    event: usize,
    samples: usize,
    value: usize,
    unit: ValueUnit,
}

impl<'a> Tables<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, ImportError> {
        let mut tables = Self::default();
        let mut fields = ProtoFields::of_file(bytes, FORMAT);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => tables.types.push(message(&field)?),
                2 => tables.samples.push(sample(&field)?),
                3 => {
                    let mapping = message(&field)?;
                    tables.first_mapping.get_or_insert(mapping.numbers[1]);
                    tables.mappings.insert(mapping.numbers[1], mapping);
                }
                4 => {
                    let (id, location) = location(&field)?;
                    tables.locations.insert(id, location);
                }
                5 => {
                    let function = message(&field)?;
                    tables.functions.insert(function.numbers[1], function);
                }
                6 => tables.texts.push(field.bytes(FORMAT)?),
                13 => {
                    let mut comments = Vec::new();
                    field.numbers(FORMAT, &mut comments)?;
                    tables.comment = comments.first().copied().unwrap_or(tables.comment);
                }
                _ => {}
            }
        }
        if tables.types.is_empty() {
            return Err(ImportError::at(FORMAT, "no type of value", bytes.len()));
        }
        Ok(tables)
    }

    fn text(&self, id: u64, offset: usize) -> Result<String, ImportError> {
        let text = usize::try_from(id).ok().and_then(|id| self.texts.get(id));
        match text {
            Some(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            None if id == 0 => Ok(String::new()),
            None => Err(ImportError::at(FORMAT, "a text that is not in the table", offset)),
        }
    }

    /// A number of samples before a value belongs to it: `samples`, `cpu` of Go are one event.
    fn kinds(&self, gathered: &mut Gathered) -> Result<Vec<Kind>, ImportError> {
        let mut names = Vec::new();
        for of in &self.types {
            names.push((self.text(of.numbers[1], of.offset)?, self.text(of.numbers[2], of.offset)?));
        }
        let mut kinds = Vec::new();
        let mut at = 0;
        while at < names.len() {
            let is_pair = is_number_of(&names, at);
            let value = at + usize::from(is_pair);
            let (name, unit) = &names[value];
            let unit = if unit == "nanoseconds" { ValueUnit::Nanoseconds } else { ValueUnit::Count };
            kinds.push(Kind { event: gathered.event(name, unit), samples: at, value, unit });
            at = value + 1;
        }
        Ok(kinds)
    }

    fn frame(&self, id: u64, offset: usize, gathered: &mut Gathered) -> Result<usize, ImportError> {
        let Some(location) = self.locations.get(&id) else {
            return Err(ImportError::at(FORMAT, "a location that is not in the table", offset));
        };
        let mut lines = Vec::new();
        for (at, &(function, line)) in location.lines.iter().enumerate() {
            let Some(known) = self.functions.get(&function) else {
                return Err(ImportError::at(FORMAT, "a function that is not in the table", location.offset));
            };
            let name = self.text(known.numbers[2], known.offset)?;
            let name = if name.is_empty() { self.text(known.numbers[3], known.offset)? } else { name };
            lines.push(StackLine {
                function: name,
                source: self.text(known.numbers[4], known.offset)?,
                line: u32::try_from(line).unwrap_or(0),
                is_inlined: at + 1 < location.lines.len(),
            });
        }
        let Some(mapping) = self.mappings.get(&location.mapping) else {
            let file = gathered.file(CodeFile::default());
            return Ok(gathered.frame(StackFrame { file, address: None, lines }));
        };
        let [_, _, start, _, begins_at, path, build_id, _] = mapping.numbers;
        let path = self.text(path, mapping.offset)?;
        let build_id = build_id_of(&self.text(build_id, mapping.offset)?);
        let kind = kind_of_path(&path);
        let address = match kind {
            CodeKind::File => {
                location.address.checked_sub(start).map(|within| within.saturating_add(begins_at))
            }
            _ => Some(location.address),
        };
        let file = gathered.file(CodeFile { kind, path, build_id });
        Ok(gathered.frame(StackFrame { file, address: address.filter(|_| location.address > 0), lines }))
    }

    /// The thread by the labels that writers use; the program's name where there are none.
    fn thread(&self, sample: &Sample) -> Result<StackThread, ImportError> {
        let mut thread = StackThread::default();
        let id = |number: u64| i32::try_from(number.cast_signed()).unwrap_or_default();
        for label in &sample.labels {
            match self.text(label.numbers[1], label.offset)?.as_str() {
                "pid" | "process_id" => thread.pid = id(label.numbers[3]),
                "tid" | "thread_id" | "thread id" => thread.tid = id(label.numbers[3]),
                "thread" | "thread_name" | "thread name" | "comm" => {
                    thread.name = self.text(label.numbers[2], label.offset)?;
                }
                _ => {}
            }
        }
        if thread.name.is_empty() {
            let program = self.first_mapping.and_then(|id| self.mappings.get(&id));
            let path = program.map(|of| self.text(of.numbers[5], of.offset)).transpose()?.unwrap_or_default();
            thread.name = path.rsplit('/').next().unwrap_or_default().to_owned();
        }
        Ok(thread)
    }
}

/// True if the type counts what the next one measures.
fn is_number_of(names: &[(String, String)], at: usize) -> bool {
    let (name, unit) = &names[at];
    let Some((next, next_unit)) = names.get(at + 1) else { return false };
    let counts = name == "samples"
        || name.strip_suffix("_samples").is_some_and(|of| of == next)
        || name == "contentions"
        || (name.ends_with("_objects") && next_unit == "bytes");
    unit == "count" && counts
}

fn message(field: &Field<'_>) -> Result<Message, ImportError> {
    let mut message = Message { offset: field.offset, ..Message::default() };
    let mut fields = field.message(FORMAT)?;
    while let Some(field) = fields.next()? {
        let place = usize::try_from(field.number).ok().and_then(|number| message.numbers.get_mut(number));
        if let Some(place) = place {
            *place = field.number(FORMAT)?;
        }
    }
    Ok(message)
}

fn sample(field: &Field<'_>) -> Result<Sample, ImportError> {
    let mut sample = Sample { offset: field.offset, ..Sample::default() };
    let mut fields = field.message(FORMAT)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => field.numbers(FORMAT, &mut sample.locations)?,
            2 => field.numbers(FORMAT, &mut sample.values)?,
            3 => sample.labels.push(message(&field)?),
            _ => {}
        }
    }
    Ok(sample)
}

fn location(field: &Field<'_>) -> Result<(u64, Location), ImportError> {
    let (mut id, mut location) = (0, Location { offset: field.offset, ..Location::default() });
    let mut fields = field.message(FORMAT)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => id = field.number(FORMAT)?,
            2 => location.mapping = field.number(FORMAT)?,
            3 => location.address = field.number(FORMAT)?,
            4 => {
                let line = message(&field)?;
                location.lines.push((line.numbers[1], line.numbers[2]));
            }
            _ => {}
        }
    }
    Ok((id, location))
}
