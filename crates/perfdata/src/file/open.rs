//! Opening: header, attributes with ids, features, and the events out of them.

use crate::abi::*;
use crate::bounds::MOST_EVENTS;
use crate::file::features::{self, Features};
use crate::file::frames::{Frames, Step};
use crate::file::header::{FileHeader, FileSection, section};
use crate::file::layout::Layouts;
use crate::file::names;
use crate::record::UpdateKind;
use crate::wire::Wire;
use crate::{Attr, Error, Event, Item, PerfData, ReadMode, Record};

pub(super) fn open(bytes: &[u8]) -> Result<PerfData<'_>, Error> {
    let header = FileHeader::parse(bytes)?;
    let mut file = PerfData {
        bytes,
        header,
        events: Vec::new(),
        features: Features::default(),
        appendix: None,
        archive: None,
        problems: Vec::new(),
        layouts: Layouts::default(),
    };
    match header.mode {
        ReadMode::File => open_file(&mut file),
        ReadMode::Pipe => open_pipe(&mut file),
    }
    names::name_events(&mut file.events, &file.features);
    for (event, e) in file.events.iter().enumerate() {
        if let Some((field, bits)) = crate::SampleFormat::new(&e.attr, header.endian).unknown_bits() {
            file.problems.push(Error::UnknownBits { event, field, bits });
        }
    }
    file.layouts = Layouts::new(&file.events, header.endian);
    Ok(file)
}

fn open_file(file: &mut PerfData<'_>) {
    let (data, have) = (file.header.data, file.data().len() as u64);
    if have < data.size {
        let what = "the data section";
        file.problems.push(Error::Truncated { what, offset: data.offset, needed: data.size, have });
    }
    read_attrs(file);
    features::read_sections(file);
    if file.is_unfinished() {
        read_early_names(file);
    }
    names::take_event_desc(&mut file.events, &file.features.event_desc);
}

/// Data about the events in the first records; the only data if the recorder was killed.
fn read_early_names(file: &mut PerfData<'_>) {
    let (base, endian) = (file.header.data.offset, file.header.endian);
    let mut frames = Frames::new(file.data(), base, endian);
    while let Step::Frame(frame) = frames.step() {
        if frame.header.type_ != PERF_RECORD_EVENT_UPDATE {
            break;
        }
        let offset = base + frame.offset as u64;
        if let Ok(Item { record, .. }) = Layouts::new(&[], endian).parse(&frame, offset) {
            pipe_record(file, &record, offset);
        }
    }
}

/// The part of the file a section names, as much of it as there is.
pub(super) fn slice(bytes: &[u8], section: FileSection) -> &[u8] {
    let start = usize::try_from(section.offset).unwrap_or(usize::MAX);
    let rest = bytes.get(start..).unwrap_or_default();
    rest.get(..usize::try_from(section.size).unwrap_or(usize::MAX)).unwrap_or(rest)
}

// Layout: { perf_event_attr attr (attr.size bytes); section ids; }[attrs.size / attr_size]
// Source: linux v7.2 tools/perf/util/header.c, read_attr(): the ids' section follows the attr by the attr's
//         own size, whatever the stride in attr_size is.
fn read_attrs(file: &mut PerfData<'_>) {
    let (header, endian) = (file.header, file.header.endian);
    let bytes = slice(file.bytes, header.attrs);
    if (bytes.len() as u64) < header.attrs.size {
        file.problems.push(Error::Truncated {
            what: "the attribute section",
            offset: header.attrs.offset,
            needed: header.attrs.size,
            have: bytes.len() as u64,
        });
    }
    let stride = usize::try_from(header.attr_size).unwrap_or(usize::MAX);
    if stride < PERF_ATTR_SIZE_VER0 as usize + 16 {
        file.problems.push(Error::BadValue { what: "attribute size", offset: 16, value: header.attr_size });
        return;
    }
    // Honest lists of ids do not overlap.
    let mut ids_left = file.bytes.len() / 8;
    for (index, entry) in bytes.chunks_exact(stride).enumerate() {
        let offset = header.attrs.offset + (index * stride) as u64;
        if !has_room(file, offset) {
            return;
        }
        let Some(attr) = Attr::parse(entry, endian) else {
            let value = Wire::new(entry.get(4..).unwrap_or_default(), endian).u32().unwrap_or(0);
            file.problems.push(Error::BadValue {
                what: "size of an attribute",
                offset,
                value: u64::from(value),
            });
            continue;
        };
        let mut ids = read_ids(file, entry, &attr, stride);
        if let Some(left) = ids_left.checked_sub(ids.len()) {
            ids_left = left;
        } else {
            let (what, value) = ("number of ids of events", ids.len() as u64);
            file.problems.push(Error::BadValue { what, offset, value });
            ids = Vec::new();
        }
        file.events.push(Event { attr, ids, name: String::new() });
    }
}

const TOO_MANY_EVENTS: &str = "number of events (the rest is left out)";

/// Whether the file may have another event; if not, the first one too many is a problem.
fn has_room(file: &mut PerfData<'_>, offset: u64) -> bool {
    if file.events.len() < MOST_EVENTS {
        return true;
    }
    let value = MOST_EVENTS as u64;
    let problem = Error::BadValue { what: TOO_MANY_EVENTS, offset, value };
    if !matches!(file.problems.last(), Some(Error::BadValue { what, .. }) if *what == TOO_MANY_EVENTS) {
        file.problems.push(problem);
    }
    false
}

fn read_ids(file: &mut PerfData<'_>, entry: &[u8], attr: &Attr, stride: usize) -> Vec<u64> {
    let endian = file.header.endian;
    // The size of the attr is that of the recorder's headers; a recorder that copies a smaller attr into its own
    // larger struct (perf 5.15) leaves a gap, so the end of the entry is tried as well.
    let own = attr.size.max(PERF_ATTR_SIZE_VER0) as usize;
    let places = [stride - 16, own.min(stride - 16)];
    let sane = |s: &FileSection| {
        s.size.is_multiple_of(8) && s.offset.saturating_add(s.size) <= file.bytes.len() as u64
    };
    let sections = places.into_iter().filter_map(|at| section(&mut Wire::new(entry.get(at..)?, endian)));
    let sections: Vec<FileSection> = sections.collect();
    let Some(found) = sections.iter().find(|s| sane(s) && s.size > 0).or(sections.iter().find(|s| sane(s)))
    else {
        let said = sections.first().copied().unwrap_or_default();
        let (what, have) = ("the ids of an event", file.bytes.len() as u64);
        file.problems.push(Error::Truncated { what, offset: said.offset, needed: said.size, have });
        return Vec::new();
    };
    let mut w = Wire::new(slice(file.bytes, *found), endian);
    std::iter::from_fn(|| w.u64()).collect()
}

/// Everything that describes the recording comes as records.
fn open_pipe(file: &mut PerfData<'_>) {
    let (base, endian) = (file.header.data.offset, file.header.endian);
    let mut frames = Frames::new(file.data(), base, endian);
    let mut type_names = Vec::new();
    loop {
        let frame = match frames.step() {
            Step::Frame(frame) => frame,
            Step::Damage(_) => continue,
            Step::End(_) => break,
        };
        if frame.header.type_ < PERF_RECORD_HEADER_ATTR {
            continue;
        }
        let Ok(Item { record, .. }) = Layouts::new(&[], endian).parse(&frame, base + frame.offset as u64)
        else {
            continue;
        };
        match record {
            Record::HeaderEventType { id, name } => type_names.push((id, lossy(name))),
            record => pipe_record(file, &record, base + frame.offset as u64),
        }
    }
    let desc = std::mem::take(&mut file.features.event_desc);
    names::take_event_desc(&mut file.events, &desc);
    file.features.event_desc = desc;
    for event in file.events.iter_mut().filter(|e| e.name.is_empty()) {
        if let Some((_, name)) = type_names.iter().find(|(id, _)| *id == event.attr.config) {
            event.name.clone_from(name);
        }
    }
}

fn pipe_record(file: &mut PerfData<'_>, record: &Record<'_>, offset: u64) {
    match record {
        Record::HeaderAttr(_) if !has_room(file, offset) => {}
        Record::HeaderAttr(a) => {
            file.events.push(Event { attr: a.attr, ids: a.ids.iter().collect(), name: String::new() });
        }
        Record::EventUpdate(u) => {
            let UpdateKind::Name(name) = u.update else { return };
            if let Some(event) = file.events.iter_mut().find(|e| e.ids.contains(&u.id)) {
                event.name = lossy(name);
            }
        }
        Record::HeaderFeature { feature, data } => {
            let number = u32::try_from(*feature).unwrap_or(u32::MAX);
            take_feature(file, number, data, offset);
        }
        Record::HeaderTracingData(data) => {
            take_feature(file, HEADER_TRACING_DATA, data, offset);
        }
        Record::HeaderBuildId(b) => file.features.build_ids.push(features::BuildIdEntry {
            misc: b.misc,
            pid: b.pid,
            build_id: b.build_id.to_vec(),
            filename: b.filename.to_vec(),
        }),
        _ => {}
    }
}

fn take_feature(file: &mut PerfData<'_>, feature: u32, data: &[u8], offset: u64) {
    if file.features.read(feature, data, file.header.endian).is_none() {
        file.problems.push(Error::BadFeature { feature, offset });
    }
}

/// Text out of bytes that should be UTF-8.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
