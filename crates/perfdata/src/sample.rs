//! `PERF_RECORD_SAMPLE`: one hit of one event.
//!
//! Knows the kernel's field order and nothing else: no processes, no symbols.
//! Parse and build stand side by side, one arm per `PERF_SAMPLE_*` bit, in ABI order.
//
// Source: linux v7.2 kernel/events/core.c, perf_output_sample().
//         (The comment in uapi/linux/perf_event.h puts AUX too early and GROUP's fields differently; the code is right.)

use crate::abi::*;
use crate::addr::Avma;
use crate::attr::Attr;
use crate::wire::{Endian, Put, U64s, Wire};

mod branch;
mod chain;
mod read;

pub use branch::{Branch, BranchFlags, BranchStack};
pub use chain::{Callchain, ChainEntry, Context};
pub use read::{ReadGroup, ReadValue};

/// What decides the layout of an event's samples; made from its [`Attr`].
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
    /// Not said.
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

/// A dump of registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regs<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`: 0 = none were there, 1 = 32-bit, 2 = 64-bit task.
    pub abi: u64,
    /// Which registers of the architecture's `perf_regs.h` are in `values`.
    pub mask: u64,
    /// One value per bit of `mask`, lowest bit first; empty if `abi` is 0.
    pub values: U64s<'a>,
}

impl Regs<'_> {
    /// The value of register number `reg` of `asm/perf_regs.h`; `None` if it was not dumped.
    #[must_use]
    pub fn reg(&self, reg: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(reg)?;
        (self.mask & bit != 0).then(|| self.values.get((self.mask & (bit - 1)).count_ones() as usize))?
    }
}

/// A copy of the top of the user stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// The bytes from the stack pointer upwards, as many as are valid.
    pub bytes: &'a [u8],
    /// How many bytes the record keeps room for; `bytes` is shorter when the stack ended or could not be read.
    pub reserved: u64,
}

/// The hardware-given cost of a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// `PERF_SAMPLE_WEIGHT`: one number.
    Full(u64),
    /// `PERF_SAMPLE_WEIGHT_STRUCT`: three numbers whose meaning is the architecture's (x86: latency, instruction latency, retire latency).
    Struct {
        /// `var1_dw`.
        var1: u32,
        /// `var2_w`.
        var2: u16,
        /// `var3_w`.
        var3: u16,
    },
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
    /// Event occurrences this sample stands for; `None` if the attr fixes the period.
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
    pub regs_user: Option<Regs<'a>>,
    /// Top of the user stack.
    pub stack_user: Option<UserStack<'a>>,
    /// Hardware-given cost.
    pub weight: Option<Weight>,
    /// `perf_mem_data_src`, as `PERF_MEM_*` fields.
    pub data_src: Option<u64>,
    /// `PERF_TXN_*` bits and abort code.
    pub transaction: Option<u64>,
    /// Registers as of the interrupt.
    pub regs_intr: Option<Regs<'a>>,
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

    /// Reads a sample's payload (the record behind its 8-byte header). `None` if it is too short for its
    /// format.
    #[must_use]
    pub fn parse(misc: u16, payload: &'a [u8], format: &SampleFormat) -> Option<Sample<'a>> {
        let w = Wire::new(payload, format.endian);
        let ambiguous = format.branch_sample_type & PERF_SAMPLE_BRANCH_HW_INDEX != 0
            && format.sample_type & PERF_SAMPLE_BRANCH_STACK != 0;
        match parse(misc, w, format, true) {
            // The kernel writes only `nr = 0`, without hw_index, if there was no branch stack at all; then
            // reading one consumes a word too many, and something does not fit.
            Some((s, rest)) if !ambiguous || rest == 0 => Some(s),
            other if ambiguous => match parse(misc, w, format, false) {
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

/// The sample and the number of bytes left over.
fn parse<'a>(
    misc: u16,
    mut w: Wire<'a>,
    format: &SampleFormat,
    hw_index_if_empty: bool,
) -> Option<(Sample<'a>, usize)> {
    let mut s = Sample { misc, ..Sample::default() };
    s.parse_fixed(&mut w, format.sample_type)?;
    s.parse_variable(&mut w, format, hw_index_if_empty)?;
    s.parse_tail(&mut w, format)?;
    Some((s, w.len()))
}

impl<'a> Sample<'a> {
    #[inline]
    fn parse_fixed(&mut self, w: &mut Wire<'a>, bits: u64) -> Option<()> {
        let has = |bit| bits & bit != 0;
        if has(PERF_SAMPLE_IDENTIFIER) {
            self.identifier = Some(w.u64()?);
        }
        if has(PERF_SAMPLE_IP) {
            self.ip = Some(Avma(w.u64()?));
        }
        if has(PERF_SAMPLE_TID) {
            self.pid_tid = Some((w.u32()?, w.u32()?));
        }
        if has(PERF_SAMPLE_TIME) {
            self.time_ns = Some(w.u64()?);
        }
        if has(PERF_SAMPLE_ADDR) {
            self.addr = Some(Avma(w.u64()?));
        }
        if has(PERF_SAMPLE_ID) {
            self.id = Some(w.u64()?);
        }
        if has(PERF_SAMPLE_STREAM_ID) {
            self.stream_id = Some(w.u64()?);
        }
        if has(PERF_SAMPLE_CPU) {
            self.cpu = Some(w.u32()?);
            w.u32()?;
        }
        if has(PERF_SAMPLE_PERIOD) {
            self.period = Some(w.u64()?);
        }
        Some(())
    }

    fn write_fixed(&self, p: &mut Put, bits: u64) {
        let has = |bit| bits & bit != 0;
        let avma = |a: Option<Avma>| a.unwrap_or_default().0;
        if has(PERF_SAMPLE_IDENTIFIER) {
            p.u64(self.event_id().unwrap_or_default());
        }
        if has(PERF_SAMPLE_IP) {
            p.u64(avma(self.ip));
        }
        if has(PERF_SAMPLE_TID) {
            let (pid, tid) = self.pid_tid.unwrap_or_default();
            p.u32(pid);
            p.u32(tid);
        }
        if has(PERF_SAMPLE_TIME) {
            p.u64(self.time_ns.unwrap_or_default());
        }
        if has(PERF_SAMPLE_ADDR) {
            p.u64(avma(self.addr));
        }
        if has(PERF_SAMPLE_ID) {
            p.u64(self.event_id().unwrap_or_default());
        }
        if has(PERF_SAMPLE_STREAM_ID) {
            p.u64(self.stream_id.or(self.event_id()).unwrap_or_default());
        }
        if has(PERF_SAMPLE_CPU) {
            p.u32(self.cpu.unwrap_or_default());
            p.u32(0);
        }
        if has(PERF_SAMPLE_PERIOD) {
            p.u64(self.period.unwrap_or_default());
        }
    }

    fn parse_variable(
        &mut self,
        w: &mut Wire<'a>,
        format: &SampleFormat,
        hw_index_if_empty: bool,
    ) -> Option<()> {
        let has = |bit| format.sample_type & bit != 0;
        if has(PERF_SAMPLE_READ) {
            self.read = Some(ReadGroup::parse(w, format.read_format)?);
        }
        if has(PERF_SAMPLE_CALLCHAIN) {
            let nr = w.u64()?;
            self.callchain = Some(Callchain(w.u64s(nr)?));
        }
        if has(PERF_SAMPLE_RAW) {
            let size = w.u32()?;
            self.raw = Some(w.take(u64::from(size))?);
        }
        if has(PERF_SAMPLE_BRANCH_STACK) {
            self.branches = Some(BranchStack::parse(w, format.branch_sample_type, hw_index_if_empty)?);
        }
        if has(PERF_SAMPLE_REGS_USER) {
            self.regs_user = Some(parse_regs(w, format.regs_user)?);
        }
        if has(PERF_SAMPLE_STACK_USER) {
            self.stack_user = Some(parse_stack(w)?);
        }
        Some(())
    }

    fn write_variable(&self, p: &mut Put, format: &SampleFormat) {
        let has = |bit| format.sample_type & bit != 0;
        if has(PERF_SAMPLE_READ) {
            self.read.unwrap_or_default().write(p, format.read_format);
        }
        if has(PERF_SAMPLE_CALLCHAIN) {
            let chain = self.callchain.unwrap_or_default().0;
            p.count(chain.len());
            p.u64s(&chain);
        }
        if has(PERF_SAMPLE_RAW) {
            write_raw(p, self.raw.unwrap_or_default());
        }
        if has(PERF_SAMPLE_BRANCH_STACK) {
            self.branches.unwrap_or_default().write(p, format.branch_sample_type);
        }
        if has(PERF_SAMPLE_REGS_USER) {
            write_regs(p, self.regs_user, format.regs_user);
        }
        if has(PERF_SAMPLE_STACK_USER) {
            write_stack(p, self.stack_user);
        }
    }

    fn parse_tail(&mut self, w: &mut Wire<'a>, format: &SampleFormat) -> Option<()> {
        let has = |bit| format.sample_type & bit != 0;
        if has(PERF_SAMPLE_WEIGHT) {
            self.weight = Some(Weight::Full(w.u64()?));
        } else if has(PERF_SAMPLE_WEIGHT_STRUCT) {
            self.weight = Some(parse_weight(w.u64()?));
        }
        if has(PERF_SAMPLE_DATA_SRC) {
            self.data_src = Some(w.u64()?);
        }
        if has(PERF_SAMPLE_TRANSACTION) {
            self.transaction = Some(w.u64()?);
        }
        if has(PERF_SAMPLE_REGS_INTR) {
            self.regs_intr = Some(parse_regs(w, format.regs_intr)?);
        }
        if has(PERF_SAMPLE_PHYS_ADDR) {
            self.phys_addr = Some(w.u64()?);
        }
        if has(PERF_SAMPLE_CGROUP) {
            self.cgroup = Some(w.u64()?);
        }
        if has(PERF_SAMPLE_DATA_PAGE_SIZE) {
            self.data_page_size = Some(w.u64()?);
        }
        if has(PERF_SAMPLE_CODE_PAGE_SIZE) {
            self.code_page_size = Some(w.u64()?);
        }
        if has(PERF_SAMPLE_AUX) {
            let size = w.u64()?;
            self.aux = Some(w.take(size)?);
        }
        Some(())
    }

    fn write_tail(&self, p: &mut Put, format: &SampleFormat) {
        let has = |bit| format.sample_type & bit != 0;
        if has(PERF_SAMPLE_WEIGHT) || has(PERF_SAMPLE_WEIGHT_STRUCT) {
            p.u64(weight_word(self.weight));
        }
        if has(PERF_SAMPLE_DATA_SRC) {
            p.u64(self.data_src.unwrap_or_default());
        }
        if has(PERF_SAMPLE_TRANSACTION) {
            p.u64(self.transaction.unwrap_or_default());
        }
        if has(PERF_SAMPLE_REGS_INTR) {
            write_regs(p, self.regs_intr, format.regs_intr);
        }
        let words = [
            (PERF_SAMPLE_PHYS_ADDR, self.phys_addr),
            (PERF_SAMPLE_CGROUP, self.cgroup),
            (PERF_SAMPLE_DATA_PAGE_SIZE, self.data_page_size),
            (PERF_SAMPLE_CODE_PAGE_SIZE, self.code_page_size),
        ];
        for (_, word) in words.into_iter().filter(|(bit, _)| has(*bit)) {
            p.u64(word.unwrap_or_default());
        }
        if has(PERF_SAMPLE_AUX) {
            let aux = self.aux.unwrap_or_default();
            p.count(aux.len().next_multiple_of(8));
            p.raw(aux);
            p.pad(8);
        }
    }
}

/// `u64 abi; u64 regs[popcount(mask)]`, the latter only if abi is not 0.
fn parse_regs<'a>(w: &mut Wire<'a>, mask: u64) -> Option<Regs<'a>> {
    let abi = w.u64()?;
    let count = if abi == PERF_SAMPLE_REGS_ABI_NONE { 0 } else { mask.count_ones() };
    Some(Regs { abi, mask, values: w.u64s(u64::from(count))? })
}

fn write_regs(p: &mut Put, regs: Option<Regs<'_>>, mask: u64) {
    let Some(regs) = regs.filter(|r| r.abi != PERF_SAMPLE_REGS_ABI_NONE) else { return p.u64(0) };
    p.u64(regs.abi);
    for reg in (0..64).filter(|reg| mask >> reg & 1 != 0) {
        p.u64(regs.reg(reg).unwrap_or_default());
    }
}

/// `u64 size; u8 data[size]; u64 dyn_size`, the latter two only if size is not 0.
fn parse_stack<'a>(w: &mut Wire<'a>) -> Option<UserStack<'a>> {
    let reserved = w.u64()?;
    if reserved == 0 {
        return Some(UserStack { bytes: &[], reserved });
    }
    let all = w.take(reserved)?;
    let valid = usize::try_from(w.u64()?).unwrap_or(usize::MAX);
    Some(UserStack { bytes: all.get(..valid).unwrap_or(all), reserved })
}

fn write_stack(p: &mut Put, stack: Option<UserStack<'_>>) {
    let bytes = stack.map(|s| s.bytes).unwrap_or_default();
    let reserved = (bytes.len() as u64).max(stack.map_or(0, |s| s.reserved)).next_multiple_of(8);
    p.u64(reserved);
    if reserved != 0 {
        p.raw(bytes);
        let room = usize::try_from(reserved).unwrap_or(0).saturating_sub(bytes.len());
        p.bytes.resize(p.bytes.len() + room, 0);
        p.count(bytes.len());
    }
}

/// `u32 size; u8 data[size]`, size + 4 padded to a multiple of 8.
fn write_raw(p: &mut Put, raw: &[u8]) {
    let size = (raw.len() + 4).next_multiple_of(8) - 4;
    p.u32(u32::try_from(size).unwrap_or(u32::MAX));
    p.raw(raw);
    p.bytes.resize(p.bytes.len() + (size - raw.len()), 0);
}

/// The struct is declared in both bit orders, so that the word has the same value on all machines.
fn parse_weight(word: u64) -> Weight {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    Weight::Struct {
        var1: u32::from_le_bytes([a, b, c, d]),
        var2: u16::from_le_bytes([e, f]),
        var3: u16::from_le_bytes([g, h]),
    }
}

fn weight_word(weight: Option<Weight>) -> u64 {
    match weight {
        None => 0,
        Some(Weight::Full(w)) => w,
        Some(Weight::Struct { var1, var2, var3 }) => {
            u64::from(var1) | u64::from(var2) << 32 | u64::from(var3) << 48
        }
    }
}

#[cfg(test)]
mod tests;
