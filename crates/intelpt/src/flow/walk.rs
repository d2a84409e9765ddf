//! From block to block, as far as bits and direct branches lead.

use super::{Flow, FlowEvent, FlowKind, Fup, Gap, Taken};
use crate::block::{BlockEnd, BlockId, Image, MissingCode, UNLINKED};
use crate::ret_stack::OpenCall;
use crate::tnt::BranchBits;

/// Most blocks walked without a packet's help.
const MAX_WALK: u32 = 1 << 20;

/// How far a walk came.
pub(super) enum Stop {
    /// At a branch that needs a target: its block.
    Target(BlockId),
    /// At the address looked for.
    Reached,
}

impl Flow<'_, '_> {
    pub(super) fn set(&mut self, ip: Option<u64>, here: Option<BlockId>) {
        self.ip = ip;
        self.here = here;
    }

    /// Execution is at the start of this block.
    #[inline]
    fn stand(&mut self, id: BlockId) {
        self.here = Some(id);
    }

    /// Whether tracing is off or the flow is lost.
    #[inline]
    pub(super) fn is_off(&self) -> bool {
        self.here.is_none() && self.ip.is_none()
    }

    fn block_here(&mut self, image: &impl Image) -> Result<BlockId, Gap> {
        if let Some(id) = self.here {
            return Ok(id);
        }
        let ip = self.ip.ok_or(Gap::Mismatch)?;
        let id = self.cache.at(image, ip).map_err(Gap::Code)?;
        self.here = Some(id);
        Ok(id)
    }

    /// Execution goes to `to`, where no code could be had.
    #[cold]
    fn stuck(&mut self, to: u64, why: MissingCode) -> Gap {
        self.set(Some(to), None);
        Gap::Code(why)
    }

    /// Uses up branch bits.
    #[inline]
    pub(super) fn bits(
        &mut self,
        image: &impl Image,
        branches: BranchBits,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> Result<(), Gap> {
        let BranchBits { bits, count: mut left } = branches;
        if self.is_off() || left == 0 {
            return Ok(());
        }
        self.fup = Fup::None;
        if !self.tnt.is_empty() {
            return if self.tnt.push(branches) { Ok(()) } else { Err(Gap::Mismatch) };
        }
        let mut id = self.block_here(image)?;
        let mut free = 0;
        while left > 0 {
            let hop = *self.cache.hop(id);
            match hop.branch {
                BlockEnd::Conditional => {
                    left -= 1;
                    free = 0;
                    self.instructions += u64::from(hop.instructions);
                    let taken = (bits >> left & 1) as usize;
                    // By place in an array rather than by a condition, which nobody could foresee.
                    let mut next = hop.links[taken];
                    let mut leaves = hop.leaves;
                    if next == UNLINKED {
                        next = self.link_conditional(image, id, taken != 0)?;
                        leaves = self.cache.hop(id).leaves;
                    }
                    if (leaves | self.every) && taken != 0 {
                        self.jumped(image, id, next, sink);
                    }
                    id = next;
                }
                BlockEnd::Return => {
                    left -= 1;
                    free = 0;
                    if bits >> left & 1 == 0 {
                        self.stand(id);
                        return Err(Gap::Mismatch);
                    }
                    id = self.compressed_return(image, id, sink)?;
                }
                BlockEnd::None | BlockEnd::Jump | BlockEnd::Call => {
                    free += 1;
                    if free > MAX_WALK {
                        self.stand(id);
                        return Err(Gap::Loop);
                    }
                    id = self.follow(image, id, sink)?;
                }
                // The remaining bits apply after the target that is still to come (deferred TIP).
                _ => {
                    self.tnt.push(BranchBits { bits: bits & ((1 << left) - 1), count: left });
                    break;
                }
            }
        }
        self.stand(id);
        Ok(())
    }

    /// Block `id` ends in a jump to block `next`, in another function.
    #[inline(never)]
    fn jumped(&mut self, image: &impl Image, id: BlockId, next: BlockId, sink: &mut impl FnMut(&FlowEvent)) {
        let (block, to) = (*self.cache.block(id), self.cache.block(next).start);
        self.emit_branch(image, FlowKind::Jump, Taken { block: &block, to, target: Some(next) }, sink);
    }

    /// A conditional branch goes one way for the first time.
    #[cold]
    fn link_conditional(&mut self, image: &impl Image, id: BlockId, taken: bool) -> Result<BlockId, Gap> {
        let block = self.cache.block(id);
        let to = if taken { block.target } else { block.next };
        let linked = if taken { self.cache.taken(image, id) } else { self.cache.after(image, id) };
        linked.map_err(|why| self.stuck(to, why))
    }

    /// The block after a call; taken from the calling block if that is known.
    #[inline]
    pub(super) fn behind_call(&mut self, image: &impl Image, call: OpenCall) -> Result<BlockId, MissingCode> {
        if call.caller == UNLINKED {
            self.cache.at(image, call.back)
        } else {
            self.cache.after(image, call.caller)
        }
    }

    #[inline]
    fn compressed_return(
        &mut self,
        image: &impl Image,
        id: BlockId,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> Result<BlockId, Gap> {
        let Some(call) = self.returns.pop() else {
            self.stand(id);
            return Err(self.forgot);
        };
        let here = self.behind_call(image, call);
        let block = *self.cache.block(id);
        self.instructions += u64::from(self.cache.hop(id).instructions);
        self.emit_branch(
            image,
            FlowKind::Return,
            Taken { block: &block, to: call.back, target: here.ok() },
            sink,
        );
        here.map_err(|why| self.stuck(call.back, why))
    }

    /// Goes over the end of a block that needs no packet: none, direct jump, direct call.
    #[inline]
    fn follow(
        &mut self,
        image: &impl Image,
        id: BlockId,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> Result<BlockId, Gap> {
        let hop = *self.cache.hop(id);
        self.instructions += u64::from(hop.instructions);
        if hop.branch == BlockEnd::None {
            return self.cache.after(image, id).map_err(|why| self.stuck(self.cache.block(id).next, why));
        }
        let (target, mut leaves) = (self.cache.taken(image, id), hop.leaves);
        if hop.target_id() == UNLINKED {
            leaves = target.is_err() || self.cache.hop(id).leaves;
        }
        if hop.branch == BlockEnd::Jump && !(leaves | self.every) {
            return target.map_err(|why| self.stuck(self.cache.block(id).target, why));
        }
        let block = *self.cache.block(id);
        let (to, next) = (block.target, block.next);
        let what = if hop.branch == BlockEnd::Call { FlowKind::Call } else { FlowKind::Jump };
        // A call of the next instruction only reads the address: nothing returns from it.
        if what == FlowKind::Call && to != next {
            self.returns.push(next, id);
        }
        self.emit_branch(image, what, Taken { block: &block, to, target: target.ok() }, sink);
        target.map_err(|why| self.stuck(to, why))
    }

    /// Walks on without bits: to the instruction at `to`, or to a branch that needs a target.
    pub(super) fn walk(
        &mut self,
        image: &impl Image,
        to: Option<u64>,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> Result<Stop, Gap> {
        for _ in 0..MAX_WALK {
            let id = self.block_here(image)?;
            let block = self.cache.block(id);
            if let Some(to) = to
                && (block.start..=block.last).contains(&to)
            {
                let here = (to == block.start).then_some(id);
                self.set(Some(to), here);
                return Ok(Stop::Reached);
            }
            match self.cache.hop(id).branch {
                BlockEnd::None | BlockEnd::Jump | BlockEnd::Call => {
                    let next = self.follow(image, id, sink)?;
                    self.stand(next);
                }
                BlockEnd::Conditional => return Err(Gap::Mismatch),
                _ => return Ok(Stop::Target(id)),
            }
        }
        Err(Gap::Loop)
    }

    /// Walks to the instruction at `to`, which needs no further packet.
    pub(super) fn walk_to(
        &mut self,
        image: &impl Image,
        to: u64,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> Result<(), Gap> {
        if self.standing_at() == Some(to) {
            return Ok(());
        }
        match self.walk(image, Some(to), sink)? {
            Stop::Reached => Ok(()),
            Stop::Target(_) => Err(Gap::Mismatch),
        }
    }

    /// Walks to the instruction from which execution left for `to`, outside the traced range: a branch that
    /// needs a target, a direct one with this target, or the one before `to`. Its address and the address after
    /// it.
    pub(super) fn walk_out(
        &mut self,
        image: &impl Image,
        to: u64,
        sink: &mut impl FnMut(&FlowEvent),
    ) -> Result<(u64, u64), Gap> {
        for _ in 0..MAX_WALK {
            let id = self.block_here(image)?;
            let block = self.cache.block(id);
            if block.start < to && to <= block.last {
                return Ok((to, to));
            }
            let ends = (block.last, block.next);
            match self.cache.hop(id).branch {
                BlockEnd::Jump | BlockEnd::Call | BlockEnd::Conditional if block.target == to => {
                    return Ok(ends);
                }
                BlockEnd::Conditional if block.next == to => return Ok(ends),
                BlockEnd::None if block.next == to => return Ok(ends),
                BlockEnd::None | BlockEnd::Jump | BlockEnd::Call => {
                    let next = self.follow(image, id, sink)?;
                    self.stand(next);
                }
                BlockEnd::Conditional => return Err(Gap::Mismatch),
                _ => return Ok(ends),
            }
        }
        Err(Gap::Loop)
    }
}
