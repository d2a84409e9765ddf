//! The flow of execution: packets and code together give the branches that were taken.
//!
//! Packets drive. A TNT packet's bits are used up walking from block to block; a TIP gives the target of the
//! indirect branch, far transfer or uncompressed return walked to; a FUP says where something asynchronous
//! happened. Between packets the walk rests behind the last branch a packet decided, so what comes after is
//! stamped with the time of the packet that proves it.
//!
//! ```text
//!              TIP.PGE / FUP in PSB+ / FUP after OVF
//!   Off ─────────────────────────────────────────────→ On(ip) ──TNT, TIP, FUP+TIP──→ On(ip')
//!    ↑ ←──────────────────── TIP.PGD ────────────────────┘
//!    └──── anything that does not fit: a gap, and on to the next address the trace states
//! ```

use crate::block::{Block, BlockCache, BlockId, Branch, Image, Missing};
use crate::last_ip::LastIp;
use crate::packet::{Ip, Packet, PacketError, Packets};
use crate::ret_stack::RetStack;
use crate::time::{Time, TimeParams};
use crate::tnt::Tnt;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A call.
    Call,
    /// A return.
    Return,
    /// A jump that leaves its function (see [`Image::unit`]).
    Jump,
    /// Tracing begins at `to`.
    Begin,
    /// Tracing ends behind the instruction at `from`: it left the traced range, by a system call for one.
    End,
    /// Tracing ends before the instruction at `from`, asynchronously: an interrupt, a fault.
    EndAsync,
    /// The instruction at `from` was not executed: control went to `to`, an interrupt's or signal's handler.
    Interrupt,
    /// A far transfer within the traced range, such as a system call into a traced kernel.
    Far,
    /// A piece of the trace is missing or can't be understood.
    Gap(Gap),
}

/// Why the flow was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Gap {
    /// The processor dropped packets (OVF).
    Overflow,
    /// The code at an address can't be had.
    Code(Missing),
    /// Bytes that are no packet.
    Packet,
    /// A packet that does not fit the code: another build of the file, or an erratum.
    Mismatch,
    /// The code goes in a circle without a branch that the trace would tell of.
    Loop,
}

/// One event of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Estimated TSC; `None` before the first TSC packet.
    pub tsc: Option<u64>,
    /// What happened.
    pub what: What,
    /// Address of the branch (or as `what` says); 0 where there is none.
    pub from: u64,
    /// Address behind the branch: where a call returns to, a system call goes on; 0 where there is none.
    pub next: u64,
    /// Address it went to; 0 where there is none.
    pub to: u64,
    /// The number of the function at `to` (see [`Image::unit`]); 0 where there is no `to`.
    pub unit: u32,
    /// `to` is that function's first instruction.
    pub at_start: bool,
}

/// A defect found, beside the [`Gap`] in the stream: where in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowError {
    /// Offset of the packet.
    pub at: usize,
    /// Why the flow was lost there.
    pub gap: Gap,
    /// The address reached; 0 if none.
    pub ip: u64,
}

/// A FUP in hand, and what it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fup {
    /// None expected, none seen.
    None,
    /// The next one only gives an event's address.
    Bound,
    /// Something asynchronous happened at this address; a TIP or TIP.PGD follows.
    Async(u64),
    /// OVF came: the next FUP or TIP.PGE says where tracing goes on.
    Overflow,
}

/// Most blocks walked without a packet's help.
const MAX_WALK: u32 = 1 << 20;

/// Follows one buffer's trace.
pub struct Flow<'a, 'c> {
    packets: Packets<'a>,
    cache: &'c mut BlockCache,
    time: Time,
    last_ip: LastIp,
    returns: RetStack,
    tnt: Tnt,
    /// Where execution is: behind the last branch decided. `None`: tracing is off or the flow is lost.
    ip: Option<u64>,
    /// The block at `ip`, when known.
    here: Option<BlockId>,
    bits: u8,
    fup: Fup,
    in_psb: bool,
    at: usize,
    instructions: u64,
    errors: Vec<FlowError>,
}

/// How far a walk came.
enum Stop {
    /// At a branch that needs a target: its block.
    Target(BlockId),
    /// All bits are used.
    NoBits,
    /// At the address looked for.
    Reached,
}

impl<'a, 'c> Flow<'a, 'c> {
    /// From the first PSB at or after `from`.
    pub fn new(bytes: &'a [u8], from: usize, params: TimeParams, cache: &'c mut BlockCache) -> Self {
        let mut packets = Packets::new(bytes, from);
        packets.resync();
        Self {
            packets,
            cache,
            time: Time::new(params),
            last_ip: LastIp::default(),
            returns: RetStack::default(),
            tnt: Tnt::default(),
            ip: None,
            here: None,
            bits: 64,
            fup: Fup::None,
            in_psb: false,
            at: from,
            instructions: 0,
            errors: Vec::new(),
        }
    }

    /// Instructions walked so far.
    #[must_use]
    pub const fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Defects found so far, in the order of the trace.
    #[must_use]
    pub fn errors(&self) -> &[FlowError] {
        &self.errors
    }

    /// Offset of the packet decoded last.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// Where execution stands; `None` while tracing is off or out of sight.
    #[must_use]
    pub const fn standing_at(&self) -> Option<u64> {
        self.ip
    }

    /// Estimated TSC now.
    #[must_use]
    pub const fn now(&self) -> Option<u64> {
        self.time.now()
    }

    /// The image changed: blocks and what was known of the present one are forgotten.
    pub fn image_changed(&mut self) {
        self.cache.clear();
        self.here = None;
    }

    /// Decodes packets that begin before offset `end`; events go to `sink`. False at the trace's end.
    pub fn run(&mut self, image: &impl Image, end: usize, sink: &mut impl FnMut(&Event)) -> bool {
        while self.packets.offset() < end {
            let Some(next) = self.packets.next() else { return false };
            if !self.step(image, next, sink) {
                return false;
            }
        }
        true
    }

    /// Decodes packets until the time passes `tsc` or the trace ends; false at its end.
    pub fn run_until(&mut self, image: &impl Image, tsc: u64, sink: &mut impl FnMut(&Event)) -> bool {
        while self.time.now().is_none_or(|now| now <= tsc) {
            let Some(next) = self.packets.next() else { return false };
            if !self.step(image, next, sink) {
                return false;
            }
        }
        true
    }

    fn step(
        &mut self,
        image: &impl Image,
        next: Result<(usize, Packet), PacketError>,
        sink: &mut impl FnMut(&Event),
    ) -> bool {
        match next {
            Ok((at, packet)) => {
                self.at = at;
                if let Err(gap) = self.packet(image, packet, sink) {
                    self.lose(gap, sink);
                }
                true
            }
            Err(error) => {
                self.at = error.at();
                self.lose(Gap::Packet, sink);
                self.packets.resync()
            }
        }
    }

    fn emit(&self, what: What, from: u64, to: u64, sink: &mut impl FnMut(&Event)) {
        sink(&Event { tsc: self.time.now(), what, from, next: 0, to, unit: 0, at_start: false });
    }

    /// A branch at the end of `block` to `to`, whose block is `target` if it could be had.
    #[inline]
    fn emit_branch(
        &self,
        image: &impl Image,
        (what, block): (What, &Block),
        (to, target): (u64, Option<BlockId>),
        sink: &mut impl FnMut(&Event),
    ) {
        let (unit, at_start) = match target {
            Some(id) => {
                let target = self.cache.block(id);
                (target.unit, target.at_start)
            }
            None => image.unit(to),
        };
        sink(&Event { tsc: self.time.now(), what, from: block.last, next: block.next, to, unit, at_start });
    }

    /// Execution goes on at `to`, after it was off or out of sight.
    fn begin_at(&mut self, image: &impl Image, to: u64, sink: &mut impl FnMut(&Event)) {
        let tsc = self.time.now();
        self.cache.enter(image.space(tsc));
        self.set(Some(to), None);
        let (unit, at_start) = image.unit(to);
        sink(&Event { tsc, what: What::Begin, from: 0, next: 0, to, unit, at_start });
    }

    /// The flow is lost here; what follows starts at the next address the trace states.
    #[cold]
    fn lose(&mut self, gap: Gap, sink: &mut impl FnMut(&Event)) {
        let ip = self.ip.take().unwrap_or(0);
        self.errors.push(FlowError { at: self.at, gap, ip });
        self.here = None;
        self.tnt.clear();
        self.returns.clear();
        self.fup = if gap == Gap::Overflow { Fup::Overflow } else { Fup::None };
        self.emit(What::Gap(gap), ip, 0, sink);
    }

    fn packet(
        &mut self,
        image: &impl Image,
        packet: Packet,
        sink: &mut impl FnMut(&Event),
    ) -> Result<(), Gap> {
        match packet {
            Packet::Tnt { bits, count } => {
                if self.ip.is_some() {
                    if !self.tnt.push(bits, count) {
                        return Err(Gap::Mismatch);
                    }
                    self.use_bits(image, sink)?;
                }
            }
            Packet::Cyc(cycles) => self.time.cyc(cycles),
            Packet::Mtc(value) => self.time.mtc(value),
            Packet::Tsc(low) => self.time.tsc(low),
            Packet::Tma { ctc, fast } => self.time.tma(ctc, fast),
            Packet::Cbr(ratio) => self.time.cbr(ratio),
            Packet::Tip(ip) => self.tip(image, ip, sink)?,
            Packet::TipPge(ip) => self.begin(image, ip, sink),
            Packet::TipPgd(ip) => self.end(image, ip, sink)?,
            Packet::Fup(ip) => self.fup(image, ip, sink)?,
            Packet::Psb => {
                self.in_psb = true;
                self.last_ip = LastIp::default();
                self.returns.clear();
                if !self.tnt.is_empty() {
                    self.tnt.clear();
                    return Err(Gap::Mismatch);
                }
            }
            Packet::PsbEnd => self.in_psb = false,
            Packet::Ovf => {
                self.in_psb = false;
                return Err(Gap::Overflow);
            }
            Packet::ModeExec { bits, .. } => {
                if bits != self.bits {
                    self.bits = bits;
                    self.image_changed();
                }
            }
            Packet::ModeTsx { abort, .. } => self.transaction(abort),
            Packet::Ptw { fup, .. }
            | Packet::Exstop { fup }
            | Packet::Bep { fup }
            | Packet::Cfe { fup, .. } => {
                if fup && self.ip.is_some() {
                    self.fup = Fup::Bound;
                }
            }
            Packet::Pad { .. }
            | Packet::Pip { .. }
            | Packet::Vmcs(_)
            | Packet::TraceStop
            | Packet::Mnt(_)
            | Packet::Mwait { .. }
            | Packet::Pwre { .. }
            | Packet::Pwrx { .. }
            | Packet::Bbp { .. }
            | Packet::Bip { .. }
            | Packet::Evd { .. } => {}
        }
        Ok(())
    }

    /// MODE.TSX: at a transaction's begin, commit and abort; a FUP with the address follows when tracing.
    fn transaction(&mut self, abort: bool) {
        // An abort's FUP is followed by the TIP of the fallback path: that is an ordinary asynchronous branch.
        if self.ip.is_some() && !self.in_psb && !abort {
            self.fup = Fup::Bound;
        }
    }

    fn begin(&mut self, image: &impl Image, ip: Ip, sink: &mut impl FnMut(&Event)) {
        let to = self.last_ip.update(ip);
        self.fup = Fup::None;
        self.tnt.clear();
        match to {
            Some(to) => self.begin_at(image, to, sink),
            None => self.set(None, None),
        }
    }

    fn set(&mut self, ip: Option<u64>, here: Option<BlockId>) {
        self.ip = ip;
        self.here = here;
    }

    fn fup(&mut self, image: &impl Image, ip: Ip, sink: &mut impl FnMut(&Event)) -> Result<(), Gap> {
        let Some(ip) = self.last_ip.update(ip) else { return Ok(()) };
        if self.in_psb {
            return self.sync(image, ip, sink);
        }
        match self.fup {
            Fup::Overflow => {
                self.fup = Fup::None;
                self.begin_at(image, ip, sink);
            }
            Fup::Bound => {
                self.fup = Fup::None;
                self.walk_to(image, ip, sink)?;
            }
            Fup::None | Fup::Async(_) if self.ip.is_some() => {
                self.walk_to(image, ip, sink)?;
                self.fup = Fup::Async(ip);
            }
            _ => {}
        }
        Ok(())
    }

    /// The FUP of a PSB+: where execution is.
    fn sync(&mut self, image: &impl Image, ip: u64, sink: &mut impl FnMut(&Event)) -> Result<(), Gap> {
        if self.ip.is_none() {
            self.fup = Fup::None;
            self.begin_at(image, ip, sink);
        } else if let Err(gap) = self.walk_to(image, ip, sink) {
            // What the trace states outweighs what was walked.
            self.lose(gap, sink);
            self.begin_at(image, ip, sink);
        }
        Ok(())
    }

    fn tip(&mut self, image: &impl Image, ip: Ip, sink: &mut impl FnMut(&Event)) -> Result<(), Gap> {
        let to = self.last_ip.update(ip);
        if let Fup::Async(from) = std::mem::replace(&mut self.fup, Fup::None) {
            let to = to.ok_or(Gap::Mismatch)?;
            self.set(Some(to), None);
            let (unit, at_start) = image.unit(to);
            sink(&Event {
                tsc: self.time.now(),
                what: What::Interrupt,
                from,
                next: from,
                to,
                unit,
                at_start,
            });
            return Ok(());
        }
        if self.ip.is_none() {
            // The flow was lost; here it is again.
            if let Some(to) = to {
                self.begin_at(image, to, sink);
            }
            return Ok(());
        }
        let to = to.ok_or(Gap::Mismatch)?;
        let Stop::Target(id) = self.walk(image, None, sink)? else { return Err(Gap::Mismatch) };
        self.go(image, id, to, sink)?;
        // Bits that came before a deferred TIP go on behind it.
        if self.tnt.is_empty() { Ok(()) } else { self.use_bits(image, sink) }
    }

    /// The branch at the end of block `id` goes to `to`.
    fn go(
        &mut self,
        image: &impl Image,
        id: BlockId,
        to: u64,
        sink: &mut impl FnMut(&Event),
    ) -> Result<(), Gap> {
        let block = *self.cache.block(id);
        self.instructions += u64::from(block.instructions);
        let what = match block.branch {
            Branch::CallIndirect => {
                self.returns.push(block.next);
                Some(What::Call)
            }
            Branch::Return => {
                self.returns.pop();
                Some(What::Return)
            }
            Branch::JumpIndirect => {
                let target = self.cache.computed(image, (id, to), self.bits).map_err(Gap::Code);
                let leaves = target.is_ok_and(|target| self.cache.block(target).unit != block.unit);
                (leaves || target.is_err()).then_some(What::Jump)
            }
            _ => Some(What::Far),
        };
        let here = self.cache.computed(image, (id, to), self.bits).ok();
        self.set(Some(to), here);
        if let Some(what) = what {
            self.emit_branch(image, (what, &block), (to, here), sink);
        }
        Ok(())
    }

    fn end(&mut self, image: &impl Image, ip: Ip, sink: &mut impl FnMut(&Event)) -> Result<(), Gap> {
        let to = self.last_ip.update(ip);
        let fup = std::mem::replace(&mut self.fup, Fup::None);
        if self.ip.is_none() {
            return Ok(());
        }
        if let Fup::Async(from) = fup {
            self.set(None, None);
            self.emit(What::EndAsync, from, to.unwrap_or(0), sink);
            return Ok(());
        }
        let stop = match to {
            // It went to an address outside the traced range, perhaps by a direct branch.
            Some(to) => self.walk_out(image, to, sink)?,
            None => match self.walk(image, None, sink)? {
                Stop::Target(id) => Some(id),
                _ => None,
            },
        };
        let id = stop.ok_or(Gap::Mismatch)?;
        let block = *self.cache.block(id);
        self.set(None, None);
        self.tnt.clear();
        let (unit, at_start) = to.map_or((0, false), |to| image.unit(to));
        let (tsc, to) = (self.time.now(), to.unwrap_or(0));
        sink(&Event { tsc, what: What::End, from: block.last, next: block.next, to, unit, at_start });
        Ok(())
    }

    /// Walks to the branch that leaves for `to`: one that needs a target, or a direct one with this target.
    fn walk_out(
        &mut self,
        image: &impl Image,
        to: u64,
        sink: &mut impl FnMut(&Event),
    ) -> Result<Option<BlockId>, Gap> {
        for _ in 0..MAX_WALK {
            let id = self.block_here(image)?;
            let block = *self.cache.block(id);
            match block.branch {
                Branch::Jump | Branch::Call | Branch::Conditional if block.target == to => {
                    return Ok(Some(id));
                }
                Branch::None | Branch::Jump | Branch::Call => {}
                Branch::Conditional => return Ok(None),
                _ => return Ok(Some(id)),
            }
            self.follow(image, id, sink)?;
        }
        Err(Gap::Loop)
    }

    fn block_here(&mut self, image: &impl Image) -> Result<BlockId, Gap> {
        if let Some(id) = self.here {
            return Ok(id);
        }
        let ip = self.ip.ok_or(Gap::Mismatch)?;
        let id = self.cache.at(image, ip, self.bits).map_err(Gap::Code)?;
        self.here = Some(id);
        Ok(id)
    }

    /// Goes over the end of a block that needs no packet: none, direct jump, direct call.
    fn follow(&mut self, image: &impl Image, id: BlockId, sink: &mut impl FnMut(&Event)) -> Result<(), Gap> {
        let block = *self.cache.block(id);
        self.instructions += u64::from(block.instructions);
        if block.branch == Branch::None {
            self.ip = Some(block.next);
            self.here = Some(self.cache.after(image, id, self.bits).map_err(Gap::Code)?);
            return Ok(());
        }
        self.ip = Some(block.target);
        let target = self.cache.taken(image, id, self.bits);
        self.here = target.ok();
        match block.branch {
            Branch::Call => {
                // A call of the next instruction only reads the address: nothing returns from it.
                if block.target != block.next {
                    self.returns.push(block.next);
                }
                self.emit_branch(image, (What::Call, &block), (block.target, target.ok()), sink);
            }
            _ if target.is_ok_and(|target| self.cache.block(target).unit == block.unit) => {}
            _ => self.emit_branch(image, (What::Jump, &block), (block.target, target.ok()), sink),
        }
        target.map(|_| ()).map_err(Gap::Code)
    }

    /// Uses up the bits in hand.
    fn use_bits(&mut self, image: &impl Image, sink: &mut impl FnMut(&Event)) -> Result<(), Gap> {
        // Waiting at a branch that needs a target, bits stay in hand for behind it (deferred TIP).
        self.walk(image, None, sink).map(|_| ())
    }

    /// Walks on; to the instruction at `to`, or until bits or a target are needed.
    fn walk(
        &mut self,
        image: &impl Image,
        to: Option<u64>,
        sink: &mut impl FnMut(&Event),
    ) -> Result<Stop, Gap> {
        let wanted_bits = to.is_none() && !self.tnt.is_empty();
        let mut free = 0;
        loop {
            if wanted_bits && self.tnt.is_empty() {
                return Ok(Stop::NoBits);
            }
            let id = self.block_here(image)?;
            let block = *self.cache.block(id);
            if let Some(to) = to
                && (block.start..=block.last).contains(&to)
            {
                self.set(Some(to), (to == block.start).then_some(id));
                return Ok(Stop::Reached);
            }
            match block.branch {
                Branch::None | Branch::Jump | Branch::Call => {
                    free += 1;
                    if free > MAX_WALK {
                        return Err(Gap::Loop);
                    }
                    self.follow(image, id, sink)?;
                }
                Branch::Conditional => {
                    let Some(taken) = self.tnt.pop() else { return Err(Gap::Mismatch) };
                    free = 0;
                    self.conditional(image, id, taken, sink)?;
                }
                Branch::Return => match self.tnt.pop() {
                    Some(true) => {
                        free = 0;
                        self.compressed_return(image, id, sink)?;
                    }
                    Some(false) => return Err(Gap::Mismatch),
                    None => return Ok(Stop::Target(id)),
                },
                _ => return Ok(Stop::Target(id)),
            }
        }
    }

    #[inline]
    fn conditional(
        &mut self,
        image: &impl Image,
        id: BlockId,
        taken: bool,
        sink: &mut impl FnMut(&Event),
    ) -> Result<(), Gap> {
        let block = *self.cache.block(id);
        self.instructions += u64::from(block.instructions);
        if !taken {
            self.ip = Some(block.next);
            self.here = None;
            self.here = Some(self.cache.after(image, id, self.bits).map_err(Gap::Code)?);
            return Ok(());
        }
        self.ip = Some(block.target);
        self.here = None;
        let target = self.cache.taken(image, id, self.bits).map_err(Gap::Code)?;
        self.here = Some(target);
        if self.cache.block(target).unit != block.unit {
            self.emit_branch(image, (What::Jump, &block), (block.target, Some(target)), sink);
        }
        Ok(())
    }

    #[inline]
    fn compressed_return(
        &mut self,
        image: &impl Image,
        id: BlockId,
        sink: &mut impl FnMut(&Event),
    ) -> Result<(), Gap> {
        let to = self.returns.pop().ok_or(Gap::Mismatch)?;
        let block = *self.cache.block(id);
        self.instructions += u64::from(block.instructions);
        self.ip = Some(to);
        self.here = None;
        let here = self.cache.computed(image, (id, to), self.bits);
        self.here = here.ok();
        self.emit_branch(image, (What::Return, &block), (to, self.here), sink);
        here.map(|_| ()).map_err(Gap::Code)
    }

    /// Walks to the instruction at `to`, which needs no further packet.
    fn walk_to(&mut self, image: &impl Image, to: u64, sink: &mut impl FnMut(&Event)) -> Result<(), Gap> {
        if self.ip == Some(to) {
            return Ok(());
        }
        match self.walk(image, Some(to), sink)? {
            Stop::Reached => Ok(()),
            _ => Err(Gap::Mismatch),
        }
    }
}
