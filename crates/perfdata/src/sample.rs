//! `PERF_RECORD_SAMPLE`: one hit of one event.
//!
//! Knows the kernel's field order and nothing else: no processes, no symbols.
//
// Source: linux v7.2 kernel/events/core.c, perf_output_sample().
//         (The comment in uapi/linux/perf_event.h puts AUX too early and GROUP's fields differently; the code is right.)

use crate::abi::*;
use crate::addr::Avma;
use crate::attr::Attr;
use crate::wire::{Endian, Put, Wire};

mod branch;
mod chain;
pub(crate) mod data_src;
mod layout;
mod machine;
mod read;
mod weight;

pub use branch::{Branch, BranchFlags, BranchStack};
pub use chain::{Callchain, ChainEntry, Context};
pub use machine::{SampleRegs, UserStack};
pub use read::{GroupLayout, ReadGroup, ReadValue};
pub use weight::Weight;

/// Facts that decide the layout of an event's samples; made from its [`Attr`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleFormat {
    /// `PERF_SAMPLE_*` bits.
    pub sample_type: u64,
    /// `PERF_FORMAT_*` bits.
    pub read_format: u64,
    /// `PERF_SAMPLE_BRANCH_*` bits.
    pub branch_sample_type: u64,
    /// Mask of the user registers dumped.
    pub regs_user: u64,
    /// Mask of the interrupt registers dumped.
    pub regs_intr: u64,
    /// Byte order of the recording machine.
    pub endian: Endian,
}

impl SampleFormat {
    /// The layout of this event's samples.
    #[must_use]
    pub fn new(attr: &Attr, endian: Endian) -> Self {
        SampleFormat {
            sample_type: attr.sample_type,
            read_format: attr.read_format,
            branch_sample_type: attr.branch_sample_type,
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
            endian,
        }
    }

    /// Field name and bits of the first attr field that changes the layout in a way not known here.
    #[must_use]
    pub fn unknown_bits(&self) -> Option<(&'static str, u64)> {
        const SAMPLE: u64 = (PERF_SAMPLE_WEIGHT_STRUCT << 1) - 1;
        const READ: u64 = (PERF_FORMAT_LOST << 1) - 1;
        const BRANCH: u64 = (PERF_SAMPLE_BRANCH_COUNTERS << 1) - 1;
        [
            ("sample_type", self.sample_type & !SAMPLE),
            ("read_format", self.read_format & !READ),
            ("branch_sample_type", self.branch_sample_type & !BRANCH),
        ]
        .into_iter()
        .find(|(_, bits)| *bits != 0)
    }
}

/// In which mode the CPU was, from a record's `misc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum CpuMode {
    /// Not given.
    #[default]
    Unknown,
    /// The kernel.
    Kernel,
    /// User space.
    User,
    /// The hypervisor.
    Hypervisor,
    /// A guest's kernel.
    GuestKernel,
    /// A guest's user space.
    GuestUser,
}

impl CpuMode {
    /// From a record header's `misc`.
    #[must_use]
    pub fn from_misc(misc: u16) -> Self {
        match misc & PERF_RECORD_MISC_CPUMODE_MASK {
            PERF_RECORD_MISC_KERNEL => CpuMode::Kernel,
            PERF_RECORD_MISC_USER => CpuMode::User,
            PERF_RECORD_MISC_HYPERVISOR => CpuMode::Hypervisor,
            PERF_RECORD_MISC_GUEST_KERNEL => CpuMode::GuestKernel,
            PERF_RECORD_MISC_GUEST_USER => CpuMode::GuestUser,
            _ => CpuMode::Unknown,
        }
    }

    /// The bits for a record header's `misc`.
    #[must_use]
    pub fn to_misc(self) -> u16 {
        match self {
            CpuMode::Unknown => 0,
            CpuMode::Kernel => PERF_RECORD_MISC_KERNEL,
            CpuMode::User => PERF_RECORD_MISC_USER,
            CpuMode::Hypervisor => PERF_RECORD_MISC_HYPERVISOR,
            CpuMode::GuestKernel => PERF_RECORD_MISC_GUEST_KERNEL,
            CpuMode::GuestUser => PERF_RECORD_MISC_GUEST_USER,
        }
    }
}

/// One sample, borrowing its variable parts from the record's bytes. A field is `None` if the event's
/// `sample_type` lacks its bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample<'a> {
    /// The record header's `misc`: CPU mode and [`PERF_RECORD_MISC_EXACT_IP`].
    pub misc: u16,
    /// The event's id, at a fixed place.
    pub identifier: Option<u64>,
    /// Instruction pointer at the hit, in the sampled task's address space.
    pub ip: Option<Avma>,
    /// Process and thread.
    pub pid_tid: Option<(u32, u32)>,
    /// When, in ns of the recording's clock (`attr.clockid`).
    pub time_ns: Option<u64>,
    /// Data address of the event (fault address, load address …); 0 if it has none.
    pub addr: Option<Avma>,
    /// The event's id.
    pub id: Option<u64>,
    /// The id of this very file descriptor's event.
    pub stream_id: Option<u64>,
    /// CPU number.
    pub cpu: Option<u32>,
    /// Number of events that this sample represents; `None` if the attr fixes the period.
    pub period: Option<u64>,
    /// Counter values at the hit, of the event or of its whole group.
    pub read: Option<ReadGroup<'a>>,
    /// Kernel-collected chain, **leaf first**, context markers included.
    pub callchain: Option<Callchain<'a>>,
    /// Raw data: a tracepoint's record, padding included.
    pub raw: Option<&'a [u8]>,
    /// The last branches, newest first.
    pub branches: Option<BranchStack<'a>>,
    /// User registers.
    pub regs_user: Option<SampleRegs<'a>>,
    /// Top of the user stack.
    pub stack_user: Option<UserStack<'a>>,
    /// Hardware-given cost.
    pub weight: Option<Weight>,
    /// `perf_mem_data_src`, as `PERF_MEM_*` fields.
    pub data_src: Option<u64>,
    /// `PERF_TXN_*` bits and abort code.
    pub transaction: Option<u64>,
    /// Registers as of the interrupt.
    pub regs_intr: Option<SampleRegs<'a>>,
    /// Physical address of `addr`.
    pub phys_addr: Option<u64>,
    /// Cgroup id (its inode number).
    pub cgroup: Option<u64>,
    /// Size in bytes of the page `addr` is on.
    pub data_page_size: Option<u64>,
    /// Size in bytes of the page `ip` is on.
    pub code_page_size: Option<u64>,
    /// A piece of the AUX area.
    pub aux: Option<&'a [u8]>,
}

impl<'a> Sample<'a> {
    /// The id to look the event up by.
    #[must_use]
    pub fn event_id(&self) -> Option<u64> {
        self.identifier.or(self.id)
    }

    /// CPU mode of `ip`.
    #[must_use]
    pub fn cpu_mode(&self) -> CpuMode {
        CpuMode::from_misc(self.misc)
    }

    /// Reads a sample's payload (the record after its 8-byte header). `None` if it is too short for its format.
    #[must_use]
    pub fn parse(misc: u16, payload: &'a [u8], format: &SampleFormat) -> Option<Sample<'a>> {
        let w = Wire::new(payload, format.endian);
        let ambiguous = format.branch_sample_type & PERF_SAMPLE_BRANCH_HW_INDEX != 0
            && format.sample_type & PERF_SAMPLE_BRANCH_STACK != 0;
        match layout::parse(misc, w, format, true) {
            // The kernel writes only `nr = 0`, without hw_index, if it had no branch stack; then reading one
            // consumes a word too many, and something does not fit.
            Some((s, rest)) if !ambiguous || rest == 0 => Some(s),
            other if ambiguous => match layout::parse(misc, w, format, false) {
                Some((s, 0)) => Some(s),
                _ => other.map(|(s, _)| s),
            },
            _ => None,
        }
    }

    /// Appends the payload as the kernel would have written it. A field that is `None` though its bit is set
    /// becomes 0 or empty; one whose bit is clear is left out.
    pub(crate) fn write(&self, p: &mut Put, format: &SampleFormat) {
        self.write_fixed(p, format.sample_type);
        self.write_variable(p, format);
        self.write_tail(p, format);
    }
}

#[cfg(test)]
mod tests;
