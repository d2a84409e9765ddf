//! The effect of each packet on the flow.

use super::{Flow, FlowEvent, Fup, Gap};
use crate::block::Image;
use crate::erratum::Erratum;
use crate::last_ip::LastIp;
use crate::packet::Packet;
use crate::tnt::BranchBits;

/// Control flow events (CFE) that come between two instructions, so that their FUP has the address.
// Source: SDM Vol. 3C, table "CFE Packet Definition": INTR, SMI, VMEXIT, VMEXIT_INTR, SHUTDOWN, UINTR.
const ASYNCHRONOUS: [u8; 6] = [1, 3, 8, 9, 10, 12];

impl Flow<'_, '_> {
    pub(super) fn packet(
        &mut self,
        image: &impl Image,
        packet: Packet,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> Result<(), Gap> {
        match packet {
            Packet::Tnt { bits, count } => {
                self.bits(image, BranchBits { bits, count: count.into() }, sink)?
            }
            Packet::Cyc(cycles) => self.cycles(cycles),
            Packet::Mtc(value) => {
                self.time.mtc(value);
                self.mark_mtc();
                self.look_again(image);
            }
            Packet::Tsc(low) => {
                self.time.tsc(low);
                self.mark_tsc();
                self.look_again(image);
            }
            Packet::Tma { ctc, fast } => self.time.tma(ctc, fast),
            Packet::Cbr(ratio) => self.time.cbr(ratio),
            Packet::Tip(ip) => self.tip(image, ip, sink)?,
            Packet::TipPge(ip) => self.begin(image, ip, sink),
            Packet::TipPgd(ip) => self.end(image, ip, sink)?,
            Packet::Fup(ip) => self.fup(image, ip, sink)?,
            Packet::Psb => self.psb()?,
            Packet::PsbEnd => self.in_psb = false,
            Packet::Ovf => {
                self.in_psb = false;
                return Err(Gap::Overflow);
            }
            Packet::ModeExec { bits, .. } => self.mode(bits),
            Packet::ModeTsx { abort, .. } => self.transaction(abort),
            Packet::Cfe { kind, fup, .. } => {
                if fup && !ASYNCHRONOUS.contains(&kind) {
                    self.bound();
                }
            }
            Packet::Ptw { fup, .. } | Packet::Exstop { fup } | Packet::Bep { fup } => {
                if fup {
                    self.bound();
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

    fn psb(&mut self) -> Result<(), Gap> {
        self.in_psb = true;
        self.last_ip = LastIp::default();
        self.returns.clear();
        self.forgot = Gap::Mismatch;
        if self.errata.has(Erratum::Skl168) {
            self.time.forget_cycles();
        }
        if self.tnt.is_empty() {
            return Ok(());
        }
        self.tnt.clear();
        Err(Gap::Mismatch)
    }

    /// Instructions are read in another mode from here on.
    fn mode(&mut self, bits: u8) {
        if bits != self.bits {
            self.bits = bits;
            self.enter_space(self.space);
        }
    }

    /// Another process may run, or other code: asks whose addresses these are from here on.
    pub(super) fn look_where(&mut self, image: &impl Image) {
        self.enter_space(image.space(self.time.now()));
    }

    /// Time has passed: code may have been replaced where execution goes on.
    fn look_again(&mut self, image: &impl Image) {
        if self.ip.is_some() && image.is_stale(self.time.now()) {
            self.look_where(image);
        }
    }

    /// Addresses mean this space's code, in the present mode.
    fn enter_space(&mut self, space: u32) {
        self.space = space;
        if self.cache.enter(space, self.bits) {
            self.set(self.standing_at(), None);
            self.returns.forget_blocks();
        }
    }

    /// The next FUP gives the address of an event that changes nothing.
    fn bound(&mut self) {
        if !self.is_off() {
            self.fup = Fup::Bound;
        }
    }

    /// MODE.TSX: at a transaction's begin, commit and abort; a FUP with the address follows when tracing.
    fn transaction(&mut self, abort: bool) {
        if !self.is_off() && !self.in_psb {
            self.fup = if abort { Fup::Aborts } else { Fup::Bound };
        }
    }
}
