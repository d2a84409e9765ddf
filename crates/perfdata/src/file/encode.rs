//! The bytes of single records and of the attributes, as the writer appends them.

use crate::abi::*;
use crate::file::header::FileSection;
use crate::wire::Put;
use crate::{AttrFlags, Endian, Event, Record, Sample, SampleFormat, SampleId};

/// Appends the ids and then the attributes, each followed by where its ids are. `base`: what file offset the
/// buffer's first byte has.
pub(super) fn put_attrs(p: &mut Put, events: &[Event], base: u64) -> FileSection {
    let mut places = Vec::new();
    for e in events {
        places.push(FileSection { offset: base + p.bytes.len() as u64, size: e.ids.len() as u64 * 8 });
        e.ids.iter().for_each(|id| p.u64(*id));
    }
    let (offset, size) = (base + p.bytes.len() as u64, attr_size(events));
    for (e, ids) in events.iter().zip(places) {
        p.raw(&e.attr.to_bytes_sized(size, p.endian));
        p.u64(ids.offset);
        p.u64(ids.size);
    }
    FileSection { offset, size: base + p.bytes.len() as u64 - offset }
}

/// The bytes of one record in the layout of `event`, header included: what `Writer::write_record` appends.
/// `None` if it would exceed 65,535 bytes.
#[must_use]
pub fn record_to_bytes(event: &Event, record: &Record<'_>, id: &SampleId) -> Option<Vec<u8>> {
    to_bytes(&SampleFormat::new(&event.attr, Endian::NATIVE), event.attr.flags, record, id)
}

/// A user record, for which no event matters.
pub(super) fn to_record(record: &Record<'_>) -> Option<Vec<u8>> {
    to_bytes(
        &SampleFormat { endian: Endian::NATIVE, ..SampleFormat::default() },
        AttrFlags(0),
        record,
        &SampleId::default(),
    )
}

/// The same in any byte order.
pub(crate) fn to_bytes(
    format: &SampleFormat,
    flags: AttrFlags,
    record: &Record<'_>,
    id: &SampleId,
) -> Option<Vec<u8>> {
    let (type_, misc) = record.type_and_misc();
    let mut p = Put::new(format.endian);
    if let Record::Sample(Sample { stack_user: Some(stack), raw, .. }) = record {
        /// Bytes of all else in most samples.
        const USUAL_BYTES: usize = 1024;
        p.bytes.reserve(stack.bytes.len() + raw.map_or(0, <[u8]>::len) + USUAL_BYTES);
    }
    p.u32(type_);
    p.u16(misc);
    p.u16(0);
    if let Record::Sample(s) = record {
        s.write(&mut p, format);
    } else {
        record.write_body(&mut p, format.read_format);
        if type_ < PERF_RECORD_HEADER_ATTR && flags.has(AttrFlags::SAMPLE_ID_ALL) {
            id.write(&mut p, format.sample_type);
        }
    }
    let size = u16::try_from(p.bytes.len()).ok()?;
    let size = match format.endian {
        Endian::Little => size.to_le_bytes(),
        Endian::Big => size.to_be_bytes(),
    };
    p.bytes.iter_mut().skip(6).zip(size).for_each(|(to, from)| *to = from);
    match record {
        Record::Auxtrace(a) => p.raw(a.data),
        Record::HeaderTracingData(data) => p.raw(data),
        _ => {}
    }
    Some(p.bytes)
}

/// The size all attributes of a file are written with: what the kernel headers of perf 6.1 know, unless an
/// event uses a newer field (older readers refuse what is larger than they know).
pub(crate) fn attr_size(events: &[Event]) -> u32 {
    let newest = |e: &Event| match e.attr {
        a if a.config4 != 0 => PERF_ATTR_SIZE_VER9,
        a if a.config3 != 0 => PERF_ATTR_SIZE_VER8,
        _ => PERF_ATTR_SIZE_VER7,
    };
    events.iter().map(newest).max().unwrap_or(PERF_ATTR_SIZE_VER7)
}
