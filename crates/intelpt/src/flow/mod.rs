//! The flow of execution: packets and code together give the branches that were taken.
//!
//! Packets drive. A TNT packet's bits are used up walking from block to block; a TIP gives the target of the
//! indirect branch, far transfer or uncompressed return walked to; a FUP gives the address of an asynchronous
//! event. Between packets the walk rests after the last branch a packet decided, so later branches get the time
//! of the packet that proves them.
//!
//! ```text
//!              TIP.PGE / FUP in PSB+ / FUP after OVF
//!   Off ─────────────────────────────────────────────→ On(ip) ──TNT, TIP, FUP+TIP──→ On(ip')
//!    ↑ ←──────────────────── TIP.PGD ────────────────────┘
//!    └──── anything that does not fit: a gap, and on to the next address the trace states
//! ```

mod boundary;
mod event;
pub(crate) mod pace;
mod packets;
mod walk;

use crate::block::{Block, BlockCache, BlockId, Image};
use crate::erratum::Errata;
use crate::last_ip::LastIp;
use crate::packet::{Packet, PacketError};
use crate::packets::{Hot, Packets};
use crate::ret_stack::RetStack;
use crate::time::{Time, TimeParams};
use crate::tnt::{BranchBits, Tnt};

pub use event::{FlowError, FlowEvent, FlowKind, Gap};

/// A FUP in hand, and what it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fup {
    /// None expected, none seen.
    None,
    /// The next one only gives an event's address.
    Bound,
    /// The next one is the address where a transaction was aborted.
    Aborts,
    /// A transaction was aborted at this address; the TIP of its fallback follows.
    Aborted(u64),
    /// Something asynchronous happened at this address; a TIP or TIP.PGD follows.
    Async(u64),
    /// OVF came: the next FUP or TIP.PGE has the address where tracing resumes.
    Overflow,
}

/// A branch at the end of `block`.
#[derive(Clone, Copy)]
struct Taken<'b> {
    block: &'b Block,
    /// Address that it went to.
    to: u64,
    /// The block there; `None` where no code could be had.
    target: Option<BlockId>,
}

/// Control that came to `to` not by a branch within the traced range.
#[derive(Clone, Copy)]
struct Arrival {
    /// Address of the instruction that it came from.
    from: u64,
    /// Address after that instruction.
    next: u64,
    /// `None`: unknown.
    to: Option<u64>,
}

/// Follows one buffer's trace.
pub struct Flow<'a, 'c> {
    packets: Packets<'a>,
    cache: &'c mut BlockCache,
    errata: Errata,
    time: Time,
    last_ip: LastIp,
    returns: RetStack,
    /// Why the return stack lacks calls that are still open, if that is known.
    forgot: Gap,
    /// Bits that wait for a TIP.
    tnt: Tnt,
    /// Address of execution, after the last branch decided; used while `here` is `None`.
    ip: Option<u64>,
    /// The block at whose start execution is. If both are `None`, tracing is off or the flow is lost.
    here: Option<BlockId>,
    space: u32,
    bits: u8,
    fup: Fup,
    in_psb: bool,
    at: usize,
    instructions: u64,
    errors: Vec<FlowError>,
    /// Jumps within a function are reported, too.
    every: bool,
    pace: pace::Pace,
}

impl<'a, 'c> Flow<'a, 'c> {
    /// From the first PSB at or after `from`.
    pub fn new(bytes: &'a [u8], from: usize, params: TimeParams, cache: &'c mut BlockCache) -> Self {
        let mut packets = Packets::new(bytes, from);
        packets.resync();
        // Blocks found by another flow are valid here; the first address determines the space of this one.
        cache.enter(0, 64);
        Self {
            packets,
            cache,
            errata: Errata::NONE,
            time: Time::new(params),
            last_ip: LastIp::default(),
            returns: RetStack::default(),
            forgot: Gap::Mismatch,
            tnt: Tnt::default(),
            ip: None,
            here: None,
            space: 0,
            bits: 64,
            fup: Fup::None,
            in_psb: false,
            at: 0,
            instructions: 0,
            errors: Vec::new(),
            every: false,
            pace: pace::Pace::default(),
        }
    }

    /// The processor that wrote the trace has these errata.
    #[must_use]
    pub fn with_errata(mut self, errata: Errata) -> Self {
        self.errata = errata;
        self.packets.set_errata(errata);
        self
    }

    /// Reports jumps within a function, too.
    #[must_use]
    pub const fn with_every_branch(mut self, every: bool) -> Self {
        self.every = every;
        self
    }

    /// Instructions executed so far, between and including the branches decided.
    #[must_use]
    pub const fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Mismatches so far.
    #[must_use]
    pub fn errors(&self) -> &[FlowError] {
        &self.errors
    }

    /// Offset of the packet decoded last.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// Current address of execution; `None` while tracing is off or out of sight.
    #[must_use]
    pub fn standing_at(&self) -> Option<u64> {
        self.here.map_or(self.ip, |id| Some(self.cache.block(id).start))
    }

    /// Estimated TSC now.
    #[must_use]
    pub fn now(&self) -> Option<u64> {
        self.time.now()
    }

    /// Decodes packets that begin before offset `end`; events go to `sink`. False at the trace's end.
    pub fn run(&mut self, image: &impl Image, end: usize, sink: &mut impl FnMut(&FlowEvent)) -> bool {
        while self.packets.offset() < end {
            let offset = self.packets.offset();
            match self.packets.next_hot() {
                Some(Hot::Cycles(cycles)) => self.cycles(cycles),
                Some(Hot::Bits(bits, count)) => {
                    self.at = offset;
                    if let Err(gap) = self.bits(image, BranchBits { bits, count }, sink) {
                        self.lose(gap, sink);
                    }
                    self.settle(sink);
                }
                None => {
                    let Some(next) = self.packets.next() else { return false };
                    if !self.step(image, next, sink) {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn step(
        &mut self,
        image: &impl Image,
        next: Result<(usize, Packet), PacketError>,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> bool {
        match next {
            Ok((at, packet)) => {
                self.at = at;
                if let Err(gap) = self.packet(image, packet, sink) {
                    self.lose(gap, sink);
                }
                self.settle(sink);
                true
            }
            Err(error) => {
                self.at = error.at();
                self.lose(Gap::Packet, sink);
                self.packets.resync()
            }
        }
    }

    fn emit(&mut self, what: FlowKind, from: u64, to: u64, sink: &mut impl FnMut(&FlowEvent)) {
        self.settle(sink);
        sink(&FlowEvent {
            tsc: self.paced(),
            what,
            from,
            next: 0,
            to,
            unit: 0,
            at_start: false,
            bits: self.bits,
        });
    }

    /// Reports an arrival.
    fn emit_arrival(
        &mut self,
        image: &impl Image,
        what: FlowKind,
        arrival: Arrival,
        sink: &mut impl FnMut(&FlowEvent),
    ) {
        let Arrival { from, next, to } = arrival;
        self.settle(sink);
        let (unit, at_start) = to.map_or((0, false), |to| image.unit(to));
        if what == FlowKind::Begin {
            self.mark_arrival();
        }
        sink(&FlowEvent {
            tsc: self.paced(),
            what,
            from,
            next,
            to: to.unwrap_or(0),
            unit,
            at_start,
            bits: self.bits,
        });
    }

    /// Reports a branch.
    #[inline(always)]
    fn emit_branch(
        &mut self,
        image: &impl Image,
        what: FlowKind,
        taken: Taken<'_>,
        sink: &mut impl FnMut(&FlowEvent),
    ) {
        let Taken { block, to, target } = taken;
        let (unit, at_start) = match target {
            Some(id) => {
                let target = self.cache.hop(id);
                (target.unit, target.at_start)
            }
            None => image.unit(to),
        };
        let (from, next, bits) = (block.last, block.next, self.bits);
        self.hand_out(FlowEvent { tsc: None, what, from, next, to, unit, at_start, bits }, sink);
    }

    /// The flow is lost here; what follows starts at the next address the trace states.
    #[cold]
    fn lose(&mut self, gap: Gap, sink: &mut impl FnMut(&FlowEvent)) {
        let ip = self.standing_at().unwrap_or(0);
        self.errors.push(FlowError { at: self.at, gap, ip });
        self.set(None, None);
        self.tnt.clear();
        self.returns.clear();
        self.forgot = gap;
        self.fup = if gap == Gap::Overflow { Fup::Overflow } else { Fup::None };
        self.emit(FlowKind::Gap(gap), ip, 0, sink);
    }
}
