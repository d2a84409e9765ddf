//! Records about the AUX area: the kernel's `AUX` and perf's `AUXTRACE*`.
//
// Layout: AUX { u64 aux_offset, aux_size, flags; }
//         AUXTRACE_INFO { u32 type, reserved; u64 priv[]; }
//         AUXTRACE { u64 size, offset, reference; u32 idx, tid, cpu, reserved; } u8 data[size] after the record
//         AUXTRACE_ERROR { u32 type, code, cpu, pid, tid, fmt; u64 ip, time; char msg[64]; u32 machine_pid, vcpu; }
// Source: linux v7.2 kernel/events/core.c perf_event_aux_event(); tools/perf/util/auxtrace.c.

use super::Header;
use crate::abi::PERF_RECORD_AUXTRACE;
use crate::addr::Avma;
use crate::wire::{Endian, Put, U64s, Wire};

/// New data is in the AUX area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Aux {
    /// Offset in the AUX area.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// `PERF_AUX_FLAG_*`.
    pub flags: u64,
}

impl Aux {
    pub(super) fn parse(w: &mut Wire<'_>) -> Option<Self> {
        Some(Aux { offset: w.u64()?, size: w.u64()?, flags: w.u64()? })
    }

    pub(super) fn write(&self, p: &mut Put) {
        for v in [self.offset, self.size, self.flags] {
            p.u64(v);
        }
    }
}

/// Kind of trace in the AUX area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuxtraceInfo<'a> {
    /// `PERF_AUXTRACE_*` (1 = Intel PT).
    pub type_: u32,
    /// Settings, meaning by type.
    pub private: U64s<'a>,
}

impl<'a> AuxtraceInfo<'a> {
    pub(super) fn parse(w: &mut Wire<'a>) -> Option<Self> {
        let type_ = w.u32()?;
        w.u32()?;
        Some(AuxtraceInfo { type_, private: w.u64s(w.len() as u64 / 8)? })
    }

    pub(super) fn write(&self, p: &mut Put) {
        p.u32(self.type_);
        p.u32(0);
        p.u64s(&self.private);
    }
}

/// A piece of an AUX area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Auxtrace<'a> {
    /// Offset in that AUX area's whole stream.
    pub offset: u64,
    /// A number both this and the AUX record's data have in common.
    pub reference: u64,
    /// Which AUX area.
    pub idx: u32,
    /// Thread, or -1.
    pub tid: u32,
    /// CPU, or -1.
    pub cpu: u32,
    /// Number of bytes after the record, from its size field.
    pub size: u64,
    /// Those bytes; fewer if the file ends first.
    pub data: &'a [u8],
}

impl<'a> Auxtrace<'a> {
    /// Bytes of the record without the trace after it.
    pub const HEAD_BYTES: usize = Self::HEAD_SIZE as usize;
    const HEAD_SIZE: u16 = 48;

    pub(super) fn parse(w: &mut Wire<'a>, behind: &'a [u8]) -> Option<Self> {
        let (size, offset, reference) = (w.u64()?, w.u64()?, w.u64()?);
        let (idx, tid, cpu) = (w.u32()?, w.u32()?, w.u32()?);
        Some(Auxtrace { offset, reference, idx, tid, cpu, size, data: behind })
    }

    /// The record's own bytes, header included and in this machine's order; the trace follows them.
    #[must_use]
    pub fn head_bytes(&self) -> Vec<u8> {
        let mut p = Put::new(Endian::NATIVE);
        p.u32(PERF_RECORD_AUXTRACE);
        p.u16(0);
        p.u16(Self::HEAD_SIZE);
        self.write(&mut p);
        p.bytes
    }

    /// The record at the beginning of `bytes` in this machine's order, all that follows being its trace; `None` if it
    /// is another one, or cut.
    #[must_use]
    pub fn of_bytes(bytes: &'a [u8]) -> Option<Self> {
        let (head, data) = bytes.split_at_checked(Self::HEAD_BYTES)?;
        let header = Header::parse(head, Endian::NATIVE)?;
        let body = head.get(Header::SIZE..)?;
        let is_one = header.type_ == PERF_RECORD_AUXTRACE && usize::from(header.size) == Self::HEAD_BYTES;
        is_one.then(|| Self::parse(&mut Wire::new(body, Endian::NATIVE), data)).flatten()
    }

    pub(super) fn write(&self, p: &mut Put) {
        for v in [self.size, self.offset, self.reference] {
            p.u64(v);
        }
        for v in [self.idx, self.tid, self.cpu, 0] {
            p.u32(v);
        }
    }
}

/// Something went wrong while tracing or decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuxtraceError<'a> {
    /// Kind of trace.
    pub type_: u32,
    /// Error number.
    pub code: u32,
    /// CPU, or -1.
    pub cpu: u32,
    /// Process and thread, or -1.
    pub pid_tid: (u32, u32),
    /// Layout version of the record; `time_ns` is valid from 1 on.
    pub format: u32,
    /// Where.
    pub ip: Avma,
    /// When, ns.
    pub time_ns: u64,
    /// Text of the error.
    pub message: &'a [u8],
}

impl<'a> AuxtraceError<'a> {
    pub(super) fn parse(w: &mut Wire<'a>) -> Option<Self> {
        let (type_, code, cpu) = (w.u32()?, w.u32()?, w.u32()?);
        let (pid_tid, format) = ((w.u32()?, w.u32()?), w.u32()?);
        let ip = Avma(w.u64()?);
        // The time field came with format 1; before, the message followed directly.
        let time_ns = if format >= 1 { w.u64()? } else { 0 };
        Some(AuxtraceError {
            type_,
            code,
            cpu,
            pid_tid,
            format,
            ip,
            time_ns,
            message: w.cstr(w.len().min(64) as u64)?,
        })
    }

    pub(super) fn write(&self, p: &mut Put) {
        for v in [self.type_, self.code, self.cpu, self.pid_tid.0, self.pid_tid.1, self.format] {
            p.u32(v);
        }
        p.u64(self.ip.0);
        if self.format >= 1 {
            p.u64(self.time_ns);
        }
        let message = self.message.get(..63).unwrap_or(self.message);
        p.raw(message);
        p.bytes.resize(p.bytes.len() + 64 - message.len(), 0);
        if self.format >= 2 {
            p.u64(0);
        }
    }
}
