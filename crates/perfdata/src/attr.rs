//! `perf_event_attr`: how one event was opened.
//!
//! Knows the struct's layout in all its published sizes and both byte orders; knows nothing of event names.
//
// Layout: linux v7.2 include/uapi/linux/perf_event.h, struct perf_event_attr (VER0 = 64 .. VER9 = 144 bytes).
// Source: the same; a shorter struct reads as if the missing tail were zero (kernel: perf_copy_attr()).

use crate::abi::{PERF_ATTR_SIZE_VER0, PERF_ATTR_SIZE_VER9};
use crate::wire::{Endian, Put, Wire};

/// The one-bit fields of `perf_event_attr` after `read_format`, in little-endian bit positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct AttrFlags(pub u64);

macro_rules! attr_flags {
    ($($name:ident = $bit:literal, $c:literal, $doc:literal;)*) => {
        impl AttrFlags {
            $(#[doc = $doc] pub const $name: AttrFlags = AttrFlags(1 << $bit);)*

            /// Every one-bit flag with the name it has in the C struct, in bit order.
            pub const NAMES: &[(AttrFlags, &str)] = &[$((AttrFlags::$name, $c)),*];
        }
    };
}

attr_flags! {
    DISABLED = 0, "disabled", "Off by default.";
    INHERIT = 1, "inherit", "Children inherit it.";
    PINNED = 2, "pinned", "Must always be on the PMU.";
    EXCLUSIVE = 3, "exclusive", "Only group on the PMU.";
    EXCLUDE_USER = 4, "exclude_user", "Don't count user space.";
    EXCLUDE_KERNEL = 5, "exclude_kernel", "Don't count the kernel.";
    EXCLUDE_HV = 6, "exclude_hv", "Don't count the hypervisor.";
    EXCLUDE_IDLE = 7, "exclude_idle", "Don't count when idle.";
    MMAP = 8, "mmap", "Include executable mmap records.";
    COMM = 9, "comm", "Include comm records.";
    FREQ = 10, "freq", "`sample_period` is a frequency in Hz.";
    INHERIT_STAT = 11, "inherit_stat", "Per-task counts.";
    ENABLE_ON_EXEC = 12, "enable_on_exec", "The next exec enables it.";
    TASK = 13, "task", "Include fork and exit records.";
    WATERMARK = 14, "watermark", "`wakeup` is a watermark in bytes.";
    MMAP_DATA = 17, "mmap_data", "Include non-executable mmap records.";
    SAMPLE_ID_ALL = 18, "sample_id_all", "All records end with a sample id.";
    EXCLUDE_HOST = 19, "exclude_host", "Don't count in the host.";
    EXCLUDE_GUEST = 20, "exclude_guest", "Don't count in guests.";
    EXCLUDE_CALLCHAIN_KERNEL = 21, "exclude_callchain_kernel", "No kernel part in callchains.";
    EXCLUDE_CALLCHAIN_USER = 22, "exclude_callchain_user", "No user part in callchains.";
    MMAP2 = 23, "mmap2", "Mmap records carry inode data.";
    COMM_EXEC = 24, "comm_exec", "Comm records from exec are marked.";
    USE_CLOCKID = 25, "use_clockid", "Times are of `clockid`.";
    CONTEXT_SWITCH = 26, "context_switch", "Include switch records.";
    WRITE_BACKWARD = 27, "write_backward", "The ring is written from its end.";
    NAMESPACES = 28, "namespaces", "Include namespaces records.";
    KSYMBOL = 29, "ksymbol", "Include ksymbol records.";
    BPF_EVENT = 30, "bpf_event", "Include BPF load records.";
    AUX_OUTPUT = 31, "aux_output", "Generate AUX records instead of samples.";
    CGROUP = 32, "cgroup", "Include cgroup records.";
    TEXT_POKE = 33, "text_poke", "Include text poke records.";
    BUILD_ID = 34, "build_id", "Mmap2 records carry the build-id.";
    INHERIT_THREAD = 35, "inherit_thread", "Only threads of the process inherit.";
    REMOVE_ON_EXEC = 36, "remove_on_exec", "Removed from the task at exec.";
    SIGTRAP = 37, "sigtrap", "Synchronous SIGTRAP on each hit.";
    DEFER_CALLCHAIN = 38, "defer_callchain", "User callchains may come later, as records.";
    DEFER_OUTPUT = 39, "defer_output", "Include deferred callchain records.";
}

const PRECISE_SHIFT: u32 = 15;

impl AttrFlags {
    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn has(self, other: AttrFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets or clears the bits of `other`.
    pub fn set(&mut self, other: AttrFlags, on: bool) {
        self.0 = if on { self.0 | other.0 } else { self.0 & !other.0 };
    }

    /// These flags with the bits of `other` set.
    #[must_use]
    pub fn with(self, other: AttrFlags) -> Self {
        AttrFlags(self.0 | other.0)
    }

    /// 0 = any skid … 3 = must have none.
    #[must_use]
    pub fn precise_ip(self) -> u8 {
        u8::from(self.0 >> PRECISE_SHIFT & 1 != 0) | (u8::from(self.0 >> (PRECISE_SHIFT + 1) & 1 != 0) << 1)
    }

    /// Sets the two precision bits; above 3 counts as 3.
    pub fn set_precise_ip(&mut self, precise: u8) {
        self.0 = self.0 & !(3 << PRECISE_SHIFT) | u64::from(precise.min(3)) << PRECISE_SHIFT;
    }

    /// From the field's value as a big- or little-endian machine's compiler laid it out.
    //
    // In C bitfields a big-endian compiler starts at the most significant bit, so the positions are mirrored,
    // while inside a field of two bits (precise_ip) significance keeps its order. perf's swap_bitfield()
    // mirrors those two as well, which makes 1 of 2 and 2 of 1: here they are put right.
    fn from_wire(value: u64, endian: Endian) -> Self {
        match endian {
            Endian::Little => AttrFlags(value),
            Endian::Big => AttrFlags(swap_precise(value.reverse_bits())),
        }
    }

    fn to_wire(self, endian: Endian) -> u64 {
        match endian {
            Endian::Little => self.0,
            Endian::Big => swap_precise(self.0).reverse_bits(),
        }
    }
}

/// Three one-bit fields, mirrored on big-endian machines as well; the conversion is its own inverse.
fn aux_action(value: u32, endian: Endian) -> u32 {
    match endian {
        Endian::Little => value,
        Endian::Big => value.reverse_bits(),
    }
}

fn swap_precise(v: u64) -> u64 {
    let (low, high) = (v >> PRECISE_SHIFT & 1, v >> (PRECISE_SHIFT + 1) & 1);
    v & !(3 << PRECISE_SHIFT) | low << (PRECISE_SHIFT + 1) | high << PRECISE_SHIFT
}

impl std::ops::BitOr for AttrFlags {
    type Output = AttrFlags;
    fn bitor(self, rhs: Self) -> Self {
        AttrFlags(self.0 | rhs.0)
    }
}

/// How one event was opened; the kernel's `perf_event_attr`, with every field of the newest version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Attr {
    /// `PERF_TYPE_*` or a dynamic PMU's number.
    pub type_: u32,
    /// Size in bytes as found in the file; 0 in a new one ([`Attr::to_bytes`] writes the newest size).
    pub size: u32,
    /// Which event of the type.
    pub config: u64,
    /// Event occurrences per sample, or the frequency in Hz with [`AttrFlags::FREQ`]; 0 = counting only.
    pub sample_period: u64,
    /// `PERF_SAMPLE_*` bits.
    pub sample_type: u64,
    /// `PERF_FORMAT_*` bits.
    pub read_format: u64,
    /// All one-bit fields and `precise_ip`.
    pub flags: AttrFlags,
    /// Samples (or bytes, with [`AttrFlags::WATERMARK`]) until a wake-up.
    pub wakeup: u32,
    /// `HW_BREAKPOINT_*` kind of a breakpoint event.
    pub bp_type: u32,
    /// Breakpoint address, or second config word, or (on open) a pointer for probes.
    pub config1: u64,
    /// Breakpoint length, or third config word, or probe offset.
    pub config2: u64,
    /// `PERF_SAMPLE_BRANCH_*` bits.
    pub branch_sample_type: u64,
    /// Mask of user registers to dump.
    pub sample_regs_user: u64,
    /// Bytes of user stack to dump.
    pub sample_stack_user: u32,
    /// `CLOCK_*` of all times, with [`AttrFlags::USE_CLOCKID`].
    pub clockid: i32,
    /// Mask of registers to dump as of the interrupt.
    pub sample_regs_intr: u64,
    /// Bytes of AUX data until a wake-up.
    pub aux_watermark: u32,
    /// Most frames of a callchain; 0 = the sysctl's value.
    pub sample_max_stack: u16,
    /// Bytes of AUX data in a sample.
    pub aux_sample_size: u32,
    /// `aux_start_paused` (bit 0), `aux_pause` (1), `aux_resume` (2).
    pub aux_action: u32,
    /// User data handed back in the siginfo with [`AttrFlags::SIGTRAP`].
    pub sig_data: u64,
    /// Fourth config word.
    pub config3: u64,
    /// Fifth config word.
    pub config4: u64,
}

impl Attr {
    /// Whether `sample_period` is a frequency in Hz.
    #[must_use]
    pub fn is_freq(&self) -> bool {
        self.flags.has(AttrFlags::FREQ)
    }

    /// Whether all of these `PERF_SAMPLE_*` bits are in `sample_type`.
    #[must_use]
    pub fn samples(&self, bits: u64) -> bool {
        self.sample_type & bits == bits
    }

    /// Reads the struct from the beginning of `bytes`, as many fields as its own `size` covers (0 means 64).
    /// `None` if `bytes` is shorter than the smallest struct.
    #[must_use]
    pub fn parse(bytes: &[u8], endian: Endian) -> Option<Attr> {
        let said = Wire::new(bytes.get(4..)?, endian).u32()?;
        let len = if said == 0 { PERF_ATTR_SIZE_VER0 } else { said };
        if bytes.len() < PERF_ATTR_SIZE_VER0 as usize || len < PERF_ATTR_SIZE_VER0 {
            return None;
        }
        let known = bytes.get(..(len as usize).min(bytes.len())).unwrap_or(bytes);
        let mut full = [0u8; PERF_ATTR_SIZE_VER9 as usize];
        full.iter_mut().zip(known).for_each(|(to, from)| *to = *from);
        let mut attr = Attr::parse_full(Wire::new(&full, endian))?;
        attr.size = said;
        Some(attr)
    }

    fn parse_full(mut w: Wire<'_>) -> Option<Attr> {
        let endian = w.endian();
        Some(Attr {
            type_: w.u32()?,
            size: w.u32()?,
            config: w.u64()?,
            sample_period: w.u64()?,
            sample_type: w.u64()?,
            read_format: w.u64()?,
            flags: AttrFlags::from_wire(w.u64()?, endian),
            wakeup: w.u32()?,
            bp_type: w.u32()?,
            config1: w.u64()?,
            config2: w.u64()?,
            branch_sample_type: w.u64()?,
            sample_regs_user: w.u64()?,
            sample_stack_user: w.u32()?,
            clockid: w.i32()?,
            sample_regs_intr: w.u64()?,
            aux_watermark: w.u32()?,
            sample_max_stack: {
                let v = w.u16()?;
                let _reserved_2 = w.u16()?;
                v
            },
            aux_sample_size: w.u32()?,
            aux_action: aux_action(w.u32()?, endian),
            sig_data: w.u64()?,
            config3: w.u64()?,
            config4: w.u64()?,
        })
    }

    /// The struct's bytes in this machine's byte order, of the newest size, for `perf_event_open`. Kernels
    /// older than a field accept it as long as the bytes they don't know are zero.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_bytes_sized(PERF_ATTR_SIZE_VER9, Endian::NATIVE)
    }

    /// The struct's first `size` bytes in the given byte order, with `size` in its size field; the part
    /// beyond the newest known size is zero.
    #[must_use]
    pub fn to_bytes_sized(&self, size: u32, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        p.u32(self.type_);
        p.u32(size);
        for v in [self.config, self.sample_period, self.sample_type, self.read_format] {
            p.u64(v);
        }
        p.u64(self.flags.to_wire(endian));
        p.u32(self.wakeup);
        p.u32(self.bp_type);
        for v in [self.config1, self.config2, self.branch_sample_type, self.sample_regs_user] {
            p.u64(v);
        }
        p.u32(self.sample_stack_user);
        p.u32(self.clockid.cast_unsigned());
        p.u64(self.sample_regs_intr);
        p.u32(self.aux_watermark);
        p.u16(self.sample_max_stack);
        p.u16(0);
        p.u32(self.aux_sample_size);
        p.u32(aux_action(self.aux_action, endian));
        for v in [self.sig_data, self.config3, self.config4] {
            p.u64(v);
        }
        p.bytes.resize(size as usize, 0);
        p.bytes
    }
}
