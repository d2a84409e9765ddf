//! Where tracing begins and ends, and what happens between two instructions: FUP, TIP, TIP.PGE, TIP.PGD.

use super::walk::Stop;
use super::{Arrival, Flow, FlowEvent, FlowKind, Fup, Gap, Taken};
use crate::block::{BlockEnd, BlockId, Image};
use crate::erratum::Erratum;
use crate::packet::Ip;

impl Flow<'_, '_> {
    pub(super) fn begin(&mut self, image: &impl Image, ip: Ip, sink: &mut impl FnMut(&FlowEvent)) {
        let to = self.last_ip.update(ip);
        self.fup = Fup::None;
        self.tnt.clear();
        match to {
            Some(to) => self.begin_at(image, to, sink),
            None => self.set(None, None),
        }
    }

    /// Execution goes on at `to`, after it was off or out of sight.
    fn begin_at(&mut self, image: &impl Image, to: u64, sink: &mut impl FnMut(&FlowEvent)) {
        self.look_where(image);
        self.set(Some(to), None);
        self.emit_arrival(image, FlowKind::Begin, Arrival { from: 0, next: 0, to: Some(to) }, sink);
    }

    pub(super) fn fup(
        &mut self,
        image: &impl Image,
        ip: Ip,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> Result<(), Gap> {
        let Some(ip) = self.last_ip.update(ip) else { return Ok(()) };
        if self.in_psb {
            return self.sync(image, ip, sink);
        }
        match self.fup {
            Fup::Overflow => {
                self.fup = Fup::None;
                // Tracing was off and stays off; the TIP.PGE has the address where it begins.
                if !(self.errata.has(Erratum::Apl12) && self.packets.is_pge_next()) {
                    self.begin_at(image, ip, sink);
                }
            }
            Fup::Bound => {
                self.fup = Fup::None;
                self.walk_to(image, ip, sink)?;
            }
            Fup::Aborts => self.aborted(image, ip, sink)?,
            Fup::None | Fup::Async(_) | Fup::Aborted(_) if !self.is_off() => {
                self.walk_to(image, ip, sink)?;
                self.fup = Fup::Async(ip);
            }
            _ => {}
        }
        Ok(())
    }

    /// A transaction was aborted at `ip`.
    fn aborted(&mut self, image: &impl Image, ip: u64, sink: &mut impl FnMut(&FlowEvent)) -> Result<(), Gap> {
        let walked = self.walk_to(image, ip, sink);
        if walked.is_err() && self.errata.has(Erratum::Bdm64) {
            // The packet of the branch before the abort was wrong: the abort's address is right.
            self.set(Some(ip), None);
            self.tnt.clear();
        } else {
            walked?;
        }
        self.fup = Fup::Aborted(ip);
        Ok(())
    }

    /// The FUP of a PSB+: where execution is.
    fn sync(&mut self, image: &impl Image, ip: u64, sink: &mut impl FnMut(&FlowEvent)) -> Result<(), Gap> {
        if self.is_off() {
            self.fup = Fup::None;
            if !(self.errata.has(Erratum::Bdm70) && self.packets.is_pge_after_psb()) {
                self.begin_at(image, ip, sink);
            }
        } else if let Err(gap) = self.walk_to(image, ip, sink) {
            // The trace's own word outweighs the walk.
            self.lose(gap, sink);
            self.begin_at(image, ip, sink);
        }
        Ok(())
    }

    pub(super) fn tip(
        &mut self,
        image: &impl Image,
        ip: Ip,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> Result<(), Gap> {
        let to = self.last_ip.update(ip);
        let arrived = match std::mem::replace(&mut self.fup, Fup::None) {
            Fup::Async(from) => Some((FlowKind::Interrupt, from)),
            Fup::Aborted(from) => Some((FlowKind::Abort, from)),
            _ => None,
        };
        if let Some((what, from)) = arrived {
            let to = to.ok_or(Gap::Mismatch)?;
            self.set(Some(to), None);
            self.emit_arrival(image, what, Arrival { from, next: from, to: Some(to) }, sink);
            return Ok(());
        }
        if self.is_off() {
            // The flow was lost; here it is again.
            if let Some(to) = to {
                self.begin_at(image, to, sink);
            }
            return Ok(());
        }
        let to = to.ok_or(Gap::Mismatch)?;
        let Stop::Target(id) = self.walk(image, None, sink)? else { return Err(Gap::Mismatch) };
        self.go(image, id, to, sink)?;
        // Bits that came before a deferred TIP apply after it.
        let waiting = self.tnt.take();
        self.bits(image, waiting, sink)
    }

    /// The branch at the end of block `id` goes to `to`.
    fn go(
        &mut self,
        image: &impl Image,
        id: BlockId,
        to: u64,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> Result<(), Gap> {
        let (block, hop) = (*self.cache.block(id), *self.cache.hop(id));
        self.instructions += u64::from(hop.instructions);
        let mut caller = None;
        let what = match hop.branch {
            BlockEnd::CallIndirect => {
                self.returns.push(block.next, id);
                Some(FlowKind::Call)
            }
            BlockEnd::Return => {
                caller = self.returns.pop().filter(|call| call.back == to);
                Some(FlowKind::Return)
            }
            BlockEnd::JumpIndirect => None,
            _ => {
                self.look_where(image);
                Some(FlowKind::Far)
            }
        };
        let here = match caller {
            Some(call) => self.behind_call(image, call),
            None => self.cache.computed(image, id, to),
        }
        .ok();
        self.set(Some(to), here);
        let leaves = || self.every || here.is_none_or(|here| self.cache.hop(here).unit != hop.unit);
        if let Some(what) = what.or_else(|| leaves().then_some(FlowKind::Jump)) {
            self.emit_branch(image, what, Taken { block: &block, to, target: here }, sink);
        }
        Ok(())
    }

    pub(super) fn end(
        &mut self,
        image: &impl Image,
        ip: Ip,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> Result<(), Gap> {
        let to = self.last_ip.update(ip);
        let fup = std::mem::replace(&mut self.fup, Fup::None);
        if self.is_off() {
            return Ok(());
        }
        if let Fup::Async(from) | Fup::Aborted(from) = fup {
            self.set(None, None);
            self.emit(FlowKind::EndAsync, from, to.unwrap_or(0), sink);
            return Ok(());
        }
        let left = self.leave(image, to, sink);
        self.tnt.clear();
        let (from, next) = match left {
            Err(_) if to.is_none() && self.errata.has(Erratum::Skl014) => {
                // A direct branch left the traced range, and the trace has no target for it.
                let ip = self.standing_at().unwrap_or(0);
                (ip, ip)
            }
            left => left?,
        };
        self.set(None, None);
        self.emit_arrival(image, FlowKind::End, Arrival { from, next, to }, sink);
        Ok(())
    }

    /// Walks to the instruction that left the traced range; its address and the address after it.
    fn leave(
        &mut self,
        image: &impl Image,
        to: Option<u64>,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> Result<(u64, u64), Gap> {
        if let Some(to) = to {
            // It went to an address outside the traced range, perhaps by a direct branch.
            return self.walk_out(image, to, sink);
        }
        let Stop::Target(id) = self.walk(image, None, sink)? else { return Err(Gap::Mismatch) };
        let block = self.cache.block(id);
        Ok((block.last, block.next))
    }
}
