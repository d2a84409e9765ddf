//! Packets: the contents of a trace, one packet at a time.
//
// Source: SDM Vol. 3C, "Trace Packets and Data Types", one table per packet.

/// An instruction pointer as a packet carries it: compressed against the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// The IPBytes field: 0 none, 1 low 16 bits, 2 low 32, 3 48 bits sign-extended, 4 low 48, 6 all 64.
    pub ip_bytes: u8,
    /// The bits carried; the others are 0.
    pub payload: u64,
}

impl Ip {
    /// No address: it is suppressed (tracing went out of the traced range).
    pub const NONE: Self = Self { ip_bytes: 0, payload: 0 };

    /// Bytes of payload of an IPBytes value; `None` for the reserved ones.
    #[must_use]
    pub const fn payload_bytes(ip_bytes: u8) -> Option<usize> {
        match ip_bytes {
            0 => Some(0),
            1 => Some(2),
            2 => Some(4),
            3 | 4 => Some(6),
            6 => Some(8),
            _ => None,
        }
    }
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Filler. A run of them is one packet here.
    Pad {
        /// Bytes of the run.
        count: usize,
    },
    /// Packet stream boundary: all state is reset.
    Psb,
    /// End of what follows a PSB.
    PsbEnd,
    /// Packets were lost.
    Ovf,
    /// Taken and not taken branches and compressed returns.
    Tnt {
        /// The bits, oldest highest: bit `count − 1` came first.
        bits: u64,
        /// How many, 1 to 47.
        count: u8,
    },
    /// Target of an indirect branch, an uncompressed return, an interrupt.
    Tip(Ip),
    /// Tracing begins here.
    TipPge(Ip),
    /// Tracing ends; the address it ends for, if any.
    TipPgd(Ip),
    /// Where something asynchronous happened, or a state packet is bound to.
    Fup(Ip),
    /// CR3 and whether it is a guest's.
    Pip {
        /// CR3, its low 5 bits 0.
        cr3: u64,
        /// In non-root operation.
        non_root: bool,
    },
    /// Time stamp counter, low 56 bits.
    Tsc(u64),
    /// TSC and crystal clock together.
    Tma {
        /// Low 16 bits of the crystal clock counter.
        ctc: u16,
        /// TSC ticks since that counter's last step.
        fast: u16,
    },
    /// 8 bits of the crystal clock counter.
    Mtc(u8),
    /// Core cycles since the last of these.
    Cyc(u64),
    /// Core to bus clock ratio.
    Cbr(u8),
    /// Execution mode.
    ModeExec {
        /// 16, 32 or 64.
        bits: u8,
        /// Interrupts enabled (RFLAGS.IF), where reported.
        interrupts: bool,
    },
    /// Transactional state.
    ModeTsx {
        /// Within a transaction.
        in_tx: bool,
        /// It was aborted.
        abort: bool,
    },
    /// VMCS base address.
    Vmcs(u64),
    /// Tracing was stopped by a TraceStop range.
    TraceStop,
    /// Maintenance, meaning model specific.
    Mnt(u64),
    /// PTWRITE's operand.
    Ptw {
        /// The operand.
        value: u64,
        /// 4 or 8 bytes.
        bytes: u8,
        /// A FUP with its address follows.
        fup: bool,
    },
    /// Execution stopped.
    Exstop {
        /// A FUP with its address follows.
        fup: bool,
    },
    /// MWAIT was executed.
    Mwait {
        /// Hints, EAX.
        hints: u8,
        /// Extensions, ECX.
        extensions: u8,
    },
    /// Entry into a power state.
    Pwre {
        /// Asked for by hardware.
        hardware: bool,
        /// Thread C-state.
        state: u8,
        /// Thread sub-C-state.
        sub_state: u8,
    },
    /// Exit from a power state.
    Pwrx {
        /// Last core C-state.
        last: u8,
        /// Deepest core C-state.
        deepest: u8,
        /// Why it woke.
        reason: u8,
    },
    /// A block of items begins.
    Bbp {
        /// Items have 4 bytes instead of 8.
        short: bool,
        /// Kind of the items.
        kind: u8,
    },
    /// An item of a block.
    Bip {
        /// Which.
        id: u8,
        /// Value.
        value: u64,
        /// 4 bytes instead of 8.
        short: bool,
    },
    /// A block ends.
    Bep {
        /// A FUP with its address follows.
        fup: bool,
    },
    /// A control flow event: interrupt, IRET, SMI …
    Cfe {
        /// Which.
        kind: u8,
        /// Vector.
        vector: u8,
        /// A FUP with its address follows.
        fup: bool,
    },
    /// Data of an event.
    Evd {
        /// Which.
        kind: u8,
        /// The data.
        value: u64,
    },
}

impl Packet {
    /// Whether it is only about time, or padding.
    pub(crate) const fn is_timing(&self) -> bool {
        matches!(
            self,
            Self::Pad { .. }
                | Self::Tsc(_)
                | Self::Tma { .. }
                | Self::Mtc(_)
                | Self::Cyc(_)
                | Self::Cbr(_)
                | Self::ModeExec { .. }
        )
    }
}

/// Bytes that are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// The trace ends within a packet.
    #[error("the trace ends within the packet at {at:#x}")]
    Truncated {
        /// Offset of the packet's first byte.
        at: usize,
    },
    /// No packet begins so.
    #[error("no packet begins with {first:#04x} {second:#04x}, at {at:#x}")]
    Unknown {
        /// Offset of the first byte.
        at: usize,
        /// The first byte.
        first: u8,
        /// The second, 0 if there is none.
        second: u8,
    },
}

impl PacketError {
    /// Offset of the byte it is about.
    #[must_use]
    pub const fn at(self) -> usize {
        match self {
            Self::Truncated { at } | Self::Unknown { at, .. } => at,
        }
    }
}
