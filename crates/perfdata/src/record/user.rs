//! Records that perf's user space writes into the stream.
//
// Source: linux v7.2 tools/lib/perf/include/perf/event.h; written by tools/perf/util/synthetic-events.c.

use super::{Auxtrace, AuxtraceError, AuxtraceInfo, Header, Record};
use crate::abi::*;
use crate::attr::Attr;
use crate::wire::{Put, U64s, Wire, until_nul};

mod maps;

pub use maps::{CpuMap, IdIndexEntry, Stat, StatRound, ThreadMapEntry, TimeConv};

/// Bit of a build-id record's `misc`: its size field is valid.
pub(crate) const PERF_RECORD_MISC_BUILD_ID_SIZE: u16 = 1 << 15;

/// Pipe mode: an event and its ids.
//
// Layout: struct perf_event_attr attr (attr.size bytes); u64 id[];
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderAttr<'a> {
    /// How the event was opened.
    pub attr: Attr,
    /// Ids.
    pub ids: U64s<'a>,
}

impl<'a> HeaderAttr<'a> {
    fn parse(w: &mut Wire<'a>) -> Option<Self> {
        let attr = Attr::parse(w.rest(), w.endian())?;
        w.take(u64::from(attr.size.max(PERF_ATTR_SIZE_VER0)))?;
        Some(HeaderAttr { attr, ids: w.u64s(w.len() as u64 / 8)? })
    }

    fn write(&self, p: &mut Put) {
        let size = if self.attr.size == 0 { PERF_ATTR_SIZE_VER7 } else { self.attr.size };
        p.raw(&self.attr.to_bytes_sized(size, p.endian));
        p.u64s(&self.ids);
    }
}

/// The build-id of a file: an entry of the header feature, or a record in pipe mode.
//
// Layout: s32 pid; u8 build_id[20]; u8 size; u8 reserved[3]; char filename[];
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildId<'a> {
    /// The record header's `misc`: CPU mode (kernel or user) and whether the size field is valid.
    pub misc: u16,
    /// -1 for the host.
    pub pid: i32,
    /// The id; 20 bytes unless the file has another size.
    pub build_id: &'a [u8],
    /// Path of the file.
    pub filename: &'a [u8],
}

impl<'a> BuildId<'a> {
    pub(crate) fn parse(misc: u16, w: &mut Wire<'a>) -> Option<Self> {
        let pid = w.i32()?;
        let bytes = w.take(20)?;
        let size = usize::from(w.u8()?);
        w.take(3)?;
        let sized = misc & PERF_RECORD_MISC_BUILD_ID_SIZE != 0 && size > 0;
        let build_id = if sized { bytes.get(..size).unwrap_or(bytes) } else { bytes };
        Some(BuildId { misc, pid, build_id, filename: w.cstr(w.len() as u64)? })
    }

    pub(crate) fn write(&self, p: &mut Put) {
        let id = self.build_id.get(..20).unwrap_or(self.build_id);
        p.u32(self.pid.cast_unsigned());
        p.raw(id);
        p.bytes.resize(p.bytes.len() + (20 - id.len()), 0);
        p.raw(&[u8::try_from(id.len()).unwrap_or(20), 0, 0, 0]);
        p.cstr_padded(self.filename);
    }
}

/// Something more about an event.
#[derive(Debug, Clone, PartialEq)]
pub struct EventUpdate<'a> {
    /// One of the event's ids.
    pub id: u64,
    /// Kind of fact.
    pub update: UpdateKind<'a>,
}

impl Eq for EventUpdate<'_> {}

/// Contents of an [`EventUpdate`].
#[derive(Debug, Clone, PartialEq)]
pub enum UpdateKind<'a> {
    /// Unit of its counts.
    Unit(&'a [u8]),
    /// Factor of its counts.
    Scale(f64),
    /// Name.
    Name(&'a [u8]),
    /// The CPUs it counts on.
    Cpus(CpuMap),
    /// Unknown kind and its payload.
    Other(u64, &'a [u8]),
}

impl<'a> EventUpdate<'a> {
    fn parse(w: &mut Wire<'a>) -> Option<Self> {
        let (kind, id) = (w.u64()?, w.u64()?);
        let update = match kind {
            0 => UpdateKind::Unit(until_nul(w.rest())),
            1 => UpdateKind::Scale(f64::from_bits(w.u64()?)),
            2 => UpdateKind::Name(until_nul(w.rest())),
            3 => UpdateKind::Cpus(CpuMap::parse(w)?),
            other => UpdateKind::Other(other, w.rest()),
        };
        Some(EventUpdate { id, update })
    }

    fn write(&self, p: &mut Put) {
        let kind = match &self.update {
            UpdateKind::Unit(_) => 0,
            UpdateKind::Scale(_) => 1,
            UpdateKind::Name(_) => 2,
            UpdateKind::Cpus(_) => 3,
            UpdateKind::Other(kind, _) => *kind,
        };
        p.u64(kind);
        p.u64(self.id);
        match &self.update {
            UpdateKind::Unit(s) | UpdateKind::Name(s) => p.cstr_padded(s),
            UpdateKind::Scale(f) => p.u64(f.to_bits()),
            UpdateKind::Cpus(map) => map.write(p),
            UpdateKind::Other(_, bytes) => p.raw(bytes),
        }
    }
}

/// Reads a record of a user type (64 and up).
pub(super) fn parse<'a>(header: Header, w: &mut Wire<'a>, behind: &'a [u8]) -> Option<Record<'a>> {
    Some(match header.type_ {
        PERF_RECORD_HEADER_ATTR => Record::HeaderAttr(HeaderAttr::parse(w)?),
        PERF_RECORD_HEADER_EVENT_TYPE => {
            Record::HeaderEventType { id: w.u64()?, name: w.cstr(w.len() as u64)? }
        }
        PERF_RECORD_HEADER_TRACING_DATA => Record::HeaderTracingData(behind),
        PERF_RECORD_HEADER_BUILD_ID => Record::HeaderBuildId(BuildId::parse(header.misc, w)?),
        PERF_RECORD_FINISHED_ROUND => Record::FinishedRound,
        PERF_RECORD_ID_INDEX => Record::IdIndex(maps::parse_id_index(w)?),
        PERF_RECORD_AUXTRACE_INFO => Record::AuxtraceInfo(AuxtraceInfo::parse(w)?),
        PERF_RECORD_AUXTRACE => Record::Auxtrace(Auxtrace::parse(w, behind)?),
        PERF_RECORD_AUXTRACE_ERROR => Record::AuxtraceError(AuxtraceError::parse(w)?),
        PERF_RECORD_THREAD_MAP => Record::ThreadMap(maps::parse_thread_map(w)?),
        PERF_RECORD_CPU_MAP => Record::CpuMap(CpuMap::parse(w)?),
        PERF_RECORD_STAT_CONFIG => Record::StatConfig(maps::parse_stat_config(w)?),
        PERF_RECORD_STAT => Record::Stat(Stat::parse(w)?),
        PERF_RECORD_STAT_ROUND => Record::StatRound(StatRound { kind: w.u64()?, time_ns: w.u64()? }),
        PERF_RECORD_EVENT_UPDATE => Record::EventUpdate(EventUpdate::parse(w)?),
        PERF_RECORD_TIME_CONV => Record::TimeConv(TimeConv::parse(w)?),
        PERF_RECORD_HEADER_FEATURE => Record::HeaderFeature { feature: w.u64()?, data: w.rest() },
        PERF_RECORD_COMPRESSED => Record::Compressed(w.rest()),
        PERF_RECORD_COMPRESSED2 => {
            let size = w.u64()?;
            Record::Compressed(w.take(size)?)
        }
        PERF_RECORD_FINISHED_INIT => Record::FinishedInit,
        type_ => Record::Other { type_, payload: w.rest() },
    })
}

/// `PERF_RECORD_*` of a user record (0 for records of the kernel).
pub(super) fn type_of(record: &Record<'_>) -> u32 {
    match record {
        Record::HeaderAttr(_) => PERF_RECORD_HEADER_ATTR,
        Record::HeaderEventType { .. } => PERF_RECORD_HEADER_EVENT_TYPE,
        Record::HeaderTracingData(_) => PERF_RECORD_HEADER_TRACING_DATA,
        Record::HeaderBuildId(_) => PERF_RECORD_HEADER_BUILD_ID,
        Record::FinishedRound => PERF_RECORD_FINISHED_ROUND,
        Record::IdIndex(_) => PERF_RECORD_ID_INDEX,
        Record::AuxtraceInfo(_) => PERF_RECORD_AUXTRACE_INFO,
        Record::Auxtrace(_) => PERF_RECORD_AUXTRACE,
        Record::AuxtraceError(_) => PERF_RECORD_AUXTRACE_ERROR,
        Record::ThreadMap(_) => PERF_RECORD_THREAD_MAP,
        Record::CpuMap(_) => PERF_RECORD_CPU_MAP,
        Record::StatConfig(_) => PERF_RECORD_STAT_CONFIG,
        Record::Stat(_) => PERF_RECORD_STAT,
        Record::StatRound(_) => PERF_RECORD_STAT_ROUND,
        Record::EventUpdate(_) => PERF_RECORD_EVENT_UPDATE,
        Record::TimeConv(_) => PERF_RECORD_TIME_CONV,
        Record::HeaderFeature { .. } => PERF_RECORD_HEADER_FEATURE,
        Record::Compressed(_) => PERF_RECORD_COMPRESSED,
        Record::FinishedInit => PERF_RECORD_FINISHED_INIT,
        Record::Other { type_, .. } => *type_,
        _ => 0,
    }
}

/// Appends a user record's body; the data after a record (tracing and AUX data) is not part of it.
pub(super) fn write(record: &Record<'_>, p: &mut Put) {
    match record {
        Record::HeaderAttr(a) => a.write(p),
        Record::HeaderEventType { id, name } => {
            p.u64(*id);
            let name = name.get(..63).unwrap_or(name);
            p.raw(name);
            p.bytes.resize(p.bytes.len() + 64 - name.len(), 0);
        }
        Record::HeaderTracingData(data) => {
            p.u32(u32::try_from(data.len()).unwrap_or(u32::MAX));
            p.u32(0);
        }
        Record::HeaderBuildId(b) => b.write(p),
        Record::IdIndex(entries) => maps::write_id_index(entries, p),
        Record::AuxtraceInfo(a) => a.write(p),
        Record::Auxtrace(a) => a.write(p),
        Record::AuxtraceError(a) => a.write(p),
        Record::ThreadMap(entries) => maps::write_thread_map(entries, p),
        Record::CpuMap(map) => map.write(p),
        Record::StatConfig(entries) => maps::write_stat_config(entries, p),
        Record::Stat(s) => s.write(p),
        Record::StatRound(s) => {
            p.u64(s.kind);
            p.u64(s.time_ns);
        }
        Record::EventUpdate(u) => u.write(p),
        Record::TimeConv(t) => t.write(p),
        Record::HeaderFeature { feature, data } => {
            p.u64(*feature);
            p.raw(data);
        }
        Record::Compressed(data) | Record::Other { payload: data, .. } => p.raw(data),
        _ => {}
    }
}
