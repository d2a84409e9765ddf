//! One item of the data stream: a typed view of each record the kernel and perf's user space write.
//!
//! Knows the layouts, but not which event a record belongs to or what it means for processes. Each family has
//! its own file with parse next to write.

mod aux;
mod kernel;
pub mod live;
mod lost;
mod mmap;
mod name;
mod pid_tid;
pub(crate) mod sample_id;
mod task;
mod user;

pub use aux::{Aux, Auxtrace, AuxtraceError, AuxtraceInfo};
pub use kernel::{BpfEvent, CallchainDeferred, Cgroup, Ksymbol, TextPoke};
pub use lost::{Lost, Read, Throttle};
pub use mmap::{FileId, Mmap};
pub use name::type_name;
pub use pid_tid::PidTid;
pub use task::{Comm, Namespaces, Switch, TaskRecord};
pub(crate) use user::PERF_RECORD_MISC_BUILD_ID_SIZE;
pub use user::{
    BuildId, CpuMap, EventUpdate, HeaderAttr, IdIndexEntry, Stat, StatRound, ThreadMapEntry, TimeConv,
    UpdateKind,
};

use crate::abi::*;
use crate::sample::Sample;
use crate::wire::{Endian, Put, Wire};

/// The 8 bytes every record begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Header {
    /// `PERF_RECORD_*`.
    pub type_: u32,
    /// `PERF_RECORD_MISC_*`; meaning depends on the type.
    pub misc: u16,
    /// Bytes of the record, this header included.
    pub size: u16,
}

impl Header {
    /// Bytes of a header.
    pub const SIZE: usize = 8;

    /// Reads a header from the beginning of `bytes`; `None` if there are fewer than 8.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &[u8], endian: Endian) -> Option<Header> {
        let mut w = Wire::new(bytes, endian);
        Some(Header { type_: w.u32()?, misc: w.u16()?, size: w.u16()? })
    }
}

/// One record. Byte strings are without their NUL; they are names as the kernel has them, not always UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "samples are the common case and must not allocate")]
pub enum Record<'a> {
    /// A file (or anonymous memory) was mapped: `MMAP` and `MMAP2`.
    Mmap(Mmap<'a>),
    /// The ring was full and records were dropped.
    Lost(Lost),
    /// A thread got a name.
    Comm(Comm<'a>),
    /// A thread ended.
    Exit(TaskRecord),
    /// A thread or process began.
    Fork(TaskRecord),
    /// The event was stopped for a while because it fired too often.
    Throttle(Throttle),
    /// It runs again.
    Unthrottle(Throttle),
    /// A counter's value at a task's end (`inherit_stat`).
    Read(Read<'a>),
    /// A hit.
    Sample(Sample<'a>),
    /// New AUX data is in the AUX area.
    Aux(Aux),
    /// Instruction tracing of this thread began: process, thread.
    ItraceStart {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
    },
    /// Samples were dropped (count).
    LostSamples(u64),
    /// A context switch: `SWITCH` and `SWITCH_CPU_WIDE`.
    Switch(Switch),
    /// A task's namespaces.
    Namespaces(Namespaces<'a>),
    /// A kernel symbol came or went.
    Ksymbol(Ksymbol<'a>),
    /// A BPF program was loaded or unloaded.
    BpfEvent(BpfEvent),
    /// A cgroup with its id and path.
    Cgroup(Cgroup<'a>),
    /// The kernel patched its own code.
    TextPoke(TextPoke<'a>),
    /// Hardware id of an event that writes to the AUX area.
    AuxOutputHwId(u64),
    /// The user part of a call chain, sampled when returning to user space.
    CallchainDeferred(CallchainDeferred<'a>),

    /// Pipe mode: an event.
    HeaderAttr(HeaderAttr<'a>),
    /// Very old pipe mode: name of an event type number.
    HeaderEventType {
        /// Number.
        id: u64,
        /// Name.
        name: &'a [u8],
    },
    /// Pipe mode: tracing data (the bytes after the record).
    HeaderTracingData(&'a [u8]),
    /// Pipe mode: the build-id of a file.
    HeaderBuildId(BuildId<'a>),
    /// All rings were drained once: see the sorter.
    FinishedRound,
    /// Which id belongs to which CPU and thread.
    IdIndex(Vec<IdIndexEntry>),
    /// Contents of the AUX area.
    AuxtraceInfo(AuxtraceInfo<'a>),
    /// A piece of an AUX area (the bytes after the record).
    Auxtrace(Auxtrace<'a>),
    /// Something went wrong while tracing.
    AuxtraceError(AuxtraceError<'a>),
    /// The threads recorded.
    ThreadMap(Vec<ThreadMapEntry<'a>>),
    /// The CPUs recorded.
    CpuMap(CpuMap),
    /// `perf stat record`: settings as (tag, value).
    StatConfig(Vec<(u64, u64)>),
    /// `perf stat record`: one counter.
    Stat(Stat),
    /// `perf stat record`: an interval's end.
    StatRound(StatRound),
    /// Something more about an event.
    EventUpdate(EventUpdate<'a>),
    /// How TSC ticks become ns.
    TimeConv(TimeConv),
    /// Pipe mode: a header feature.
    HeaderFeature {
        /// `HEADER_*` number.
        feature: u64,
        /// Section's bytes.
        data: &'a [u8],
    },
    /// zstd data of further records; [`crate::PerfData::visit`] hands out those records right after it.
    Compressed(&'a [u8]),
    /// The synthesized records are complete.
    FinishedInit,
    /// Any other type: its payload.
    Other {
        /// The record's type.
        type_: u32,
        /// Payload after the header.
        payload: &'a [u8],
    },
}

/// Facts about the file that reading a record needs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Context {
    pub(crate) endian: Endian,
    pub(crate) read_format: u64,
}

impl<'a> Record<'a> {
    /// Reads a record other than a sample. `body` is the payload after the header, without the sample id;
    /// `behind` is the data after the record's own size (tracing data, AUX data). `None`: too short.
    pub(crate) fn parse(
        header: Header,
        body: &'a [u8],
        behind: &'a [u8],
        context: Context,
    ) -> Option<Record<'a>> {
        let mut w = Wire::new(body, context.endian);
        if header.type_ >= PERF_RECORD_HEADER_ATTR {
            return user::parse(header, &mut w, behind);
        }
        let w = &mut w;
        Some(match header.type_ {
            PERF_RECORD_MMAP | PERF_RECORD_MMAP2 => Record::Mmap(Mmap::parse(header, w)?),
            PERF_RECORD_LOST => Record::Lost(Lost { id: w.u64()?, lost: w.u64()? }),
            PERF_RECORD_COMM => Record::Comm(Comm::parse(header.misc, w)?),
            PERF_RECORD_EXIT => Record::Exit(TaskRecord::parse(w)?),
            PERF_RECORD_FORK => Record::Fork(TaskRecord::parse(w)?),
            PERF_RECORD_THROTTLE => Record::Throttle(Throttle::parse(w)?),
            PERF_RECORD_UNTHROTTLE => Record::Unthrottle(Throttle::parse(w)?),
            PERF_RECORD_READ => Record::Read(Read::parse(w, context.read_format)?),
            PERF_RECORD_AUX => Record::Aux(Aux::parse(w)?),
            PERF_RECORD_ITRACE_START => Record::ItraceStart { pid: w.u32()?, tid: w.u32()? },
            PERF_RECORD_LOST_SAMPLES => Record::LostSamples(w.u64()?),
            PERF_RECORD_SWITCH | PERF_RECORD_SWITCH_CPU_WIDE => Record::Switch(Switch::parse(header, w)?),
            PERF_RECORD_NAMESPACES => Record::Namespaces(Namespaces::parse(w)?),
            PERF_RECORD_KSYMBOL => Record::Ksymbol(Ksymbol::parse(w)?),
            PERF_RECORD_BPF_EVENT => Record::BpfEvent(BpfEvent::parse(w)?),
            PERF_RECORD_CGROUP => Record::Cgroup(Cgroup::parse(w)?),
            PERF_RECORD_TEXT_POKE => Record::TextPoke(TextPoke::parse(w)?),
            PERF_RECORD_AUX_OUTPUT_HW_ID => Record::AuxOutputHwId(w.u64()?),
            PERF_RECORD_CALLCHAIN_DEFERRED => Record::CallchainDeferred(CallchainDeferred::parse(w)?),
            type_ => Record::Other { type_, payload: body },
        })
    }

    /// Type and misc of the header this record is written with.
    #[must_use]
    pub fn type_and_misc(&self) -> (u32, u16) {
        match self {
            Record::Mmap(m) => m.type_and_misc(),
            Record::Lost(_) => (PERF_RECORD_LOST, 0),
            Record::Comm(c) => (PERF_RECORD_COMM, if c.exec { PERF_RECORD_MISC_COMM_EXEC } else { 0 }),
            Record::Exit(_) => (PERF_RECORD_EXIT, 0),
            Record::Fork(_) => (PERF_RECORD_FORK, 0),
            Record::Throttle(_) => (PERF_RECORD_THROTTLE, 0),
            Record::Unthrottle(_) => (PERF_RECORD_UNTHROTTLE, 0),
            Record::Read(_) => (PERF_RECORD_READ, 0),
            Record::Sample(s) => (PERF_RECORD_SAMPLE, s.misc),
            Record::Aux(_) => (PERF_RECORD_AUX, 0),
            Record::ItraceStart { .. } => (PERF_RECORD_ITRACE_START, 0),
            Record::LostSamples(_) => (PERF_RECORD_LOST_SAMPLES, 0),
            Record::Switch(s) => s.type_and_misc(),
            Record::Namespaces(_) => (PERF_RECORD_NAMESPACES, 0),
            Record::Ksymbol(_) => (PERF_RECORD_KSYMBOL, 0),
            Record::BpfEvent(_) => (PERF_RECORD_BPF_EVENT, 0),
            Record::Cgroup(_) => (PERF_RECORD_CGROUP, 0),
            Record::TextPoke(_) => (PERF_RECORD_TEXT_POKE, 0),
            Record::AuxOutputHwId(_) => (PERF_RECORD_AUX_OUTPUT_HW_ID, 0),
            Record::CallchainDeferred(_) => (PERF_RECORD_CALLCHAIN_DEFERRED, PERF_RECORD_MISC_USER),
            user => (user::type_of(user), 0),
        }
    }

    /// Appends the body of a record other than a sample, without header and sample id.
    pub(crate) fn write_body(&self, p: &mut Put, read_format: u64) {
        match self {
            Record::Mmap(m) => m.write(p),
            Record::Lost(l) => {
                p.u64(l.id);
                p.u64(l.lost);
            }
            Record::Comm(c) => c.write(p),
            Record::Exit(t) | Record::Fork(t) => t.write(p),
            Record::Throttle(t) | Record::Unthrottle(t) => t.write(p),
            Record::Read(r) => r.write(p, read_format),
            Record::Sample(_) => {}
            Record::Aux(a) => a.write(p),
            Record::ItraceStart { pid, tid } => {
                p.u32(*pid);
                p.u32(*tid);
            }
            Record::LostSamples(v) | Record::AuxOutputHwId(v) => p.u64(*v),
            Record::Switch(s) => s.write(p),
            Record::Namespaces(n) => n.write(p),
            Record::Ksymbol(k) => k.write(p),
            Record::BpfEvent(b) => b.write(p),
            Record::Cgroup(c) => c.write(p),
            Record::TextPoke(t) => t.write(p),
            Record::CallchainDeferred(c) => c.write(p),
            user => user::write(user, p),
        }
    }
}
