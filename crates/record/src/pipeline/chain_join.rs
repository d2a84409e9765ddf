//! Deep stacks: the outer part of a chain taken from an earlier, complete chain of the same thread.
//!
//! A copy of the stack shows the inner frames; where it ends, the chain has a return address *r* at stack pointer
//! *s*. An earlier complete chain of this thread that has *r* at *s* goes on from there, if that part of the stack
//! has not been popped and overwritten in between. That is proved as far as can be: several inner frames must agree
//! in both chains, and the return addresses of the outer part must still be in the thread's memory.

use dso::Avma;
use rustc_hash::FxHashMap;

use perfdata::PidTid;

/// Complete chains of threads with deep stacks.
#[derive(Debug, Default)]
pub struct Earlier {
    by_thread: FxHashMap<PidTid, Vec<Frame>>,
}

/// A frame of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainFrame {
    /// Address where the frame goes on.
    pub pc: Avma,
    /// It made no call: a signal interrupted it there, or it is the signal's return trampoline. (Not of the leaf.)
    pub is_exact: bool,
    /// Address in chains of the method that an interpreter runs there.
    pub method: Option<Avma>,
}

impl ChainFrame {
    /// A frame that made a call, which returns there.
    #[must_use]
    pub fn returning_to(pc: Avma) -> Self {
        Self { pc, is_exact: false, method: None }
    }

    /// Its address in chains.
    #[must_use]
    pub fn in_chain(&self) -> u64 {
        self.method.unwrap_or(self.pc).0
    }
}

/// A frame with the stack pointer at its call instruction's return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    sp: u64,
    at: ChainFrame,
}

/// Frames at the seam that must be the same in both chains (fewer only if the copy shows fewer).
const SAME_AT_SEAM: usize = 3;

/// Return addresses of the outer part that are looked up in memory.
const PROBES: usize = 12;

impl Earlier {
    /// Keeps a complete chain: `frames` leaf first, `sps` the stack pointer of each.
    pub fn remember(&mut self, thread: PidTid, frames: &[ChainFrame], sps: &[u64]) {
        let frames = frames.iter().zip(sps).map(|(&at, &sp)| Frame { sp, at }).collect();
        self.by_thread.insert(thread, frames);
    }

    /// Forgets a thread.
    pub fn forget(&mut self, thread: PidTid) {
        self.by_thread.remove(&thread);
    }

    /// Extends `frames` (cut by the end of the copy) with the outer part of the remembered chain, if that is
    /// provably the same stack. `read` gives the eight bytes at an address of the thread's memory now, `None` if it
    /// can't be read (then the seam alone decides).
    pub fn join(
        &mut self,
        thread: PidTid,
        frames: &mut Vec<ChainFrame>,
        sps: &[u64],
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> bool {
        let Some(earlier) = self.by_thread.get_mut(&thread) else { return false };
        let count = frames.len().min(sps.len());
        // Stack pointers rise from leaf to root, so the seam is found by bisection.
        let Some(&seam_sp) = sps.get(count.wrapping_sub(1)) else { return false };
        let at = earlier.partition_point(|f| f.sp < seam_sp);
        let compared = SAME_AT_SEAM.min(count.saturating_sub(1)).max(1);
        let same = (0..compared).all(|back| {
            let here = count.checked_sub(1 + back).map(|i| (sps[i], frames[i].pc));
            let there = at.checked_sub(back).and_then(|i| earlier.get(i)).map(|f| (f.sp, f.at.pc));
            here == there
        });
        let outer = earlier.get(at + 1..).unwrap_or_default();
        if !same || outer.is_empty() || !stands(outer, read) {
            return false;
        }
        frames.truncate(count);
        // The copy may end before the word that names the last frame's method.
        let last = &mut frames[count - 1];
        last.method = last.method.or(earlier[at].at.method);
        if at < count {
            // The new chain is the deeper one: the next may be deeper still, and join to it.
            let shown = frames.iter().zip(sps).map(|(&at, &sp)| Frame { sp, at });
            earlier.splice(..=at, shown);
            frames.extend(earlier[count..].iter().map(|f| f.at));
        } else {
            frames.extend(outer.iter().map(|f| f.at));
        }
        true
    }
}

/// Whether the return addresses of these frames are in memory where they were: the outermost ones and a spread of the
/// others. A frame's own return address is right below the stack pointer after it was popped.
#[cfg(target_arch = "x86_64")]
fn stands(outer: &[Frame], read: &mut impl FnMut(u64) -> Option<u64>) -> bool {
    let step = outer.len().div_ceil(PROBES).max(1);
    outer
        .iter()
        .rev()
        .step_by(step)
        .all(|f| read(f.sp.wrapping_sub(8)).is_none_or(|value| value == f.at.pc.0))
}

/// Elsewhere the place of a return address in a frame varies: the seam alone decides.
#[cfg(not(target_arch = "x86_64"))]
fn stands(_outer: &[Frame], _read: &mut impl FnMut(u64) -> Option<u64>) -> bool {
    let _ = PROBES;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: PidTid = PidTid { pid: 1, tid: 2 };

    fn frame(pc: u64) -> ChainFrame {
        ChainFrame { is_exact: pc == 0x4008, ..ChainFrame::returning_to(Avma(pc)) }
    }

    fn earlier() -> Earlier {
        let mut earlier = Earlier::default();
        let sps: Vec<u64> = (1..=10).map(|i| i * 0x100).collect();
        let frames: Vec<ChainFrame> = (1..=10).map(|i| frame(0x4000 + i)).collect();
        earlier.remember(THREAD, &frames, &sps);
        earlier
    }

    fn join(pcs: &[u64], sps: &[u64], memory: impl Fn(u64) -> Option<u64>) -> Option<Vec<u64>> {
        let mut frames: Vec<ChainFrame> = pcs.iter().map(|&pc| frame(pc)).collect();
        let mut read = |a| memory(a);
        earlier().join(THREAD, &mut frames, sps, &mut read).then(|| frames.iter().map(|f| f.pc.0).collect())
    }

    #[test]
    fn a_cut_chain_goes_on_where_the_earlier_one_has_the_same_frames() {
        let joined = join(&[0x9999, 0x4003, 0x4004, 0x4005], &[0x250, 0x300, 0x400, 0x500], |_| None);
        let expected = [0x9999, 0x4003, 0x4004, 0x4005, 0x4006, 0x4007, 0x4008, 0x4009, 0x400a];
        assert_eq!(joined.expect("the same stack"), expected);
    }

    #[test]
    fn an_interrupted_frame_of_the_earlier_chain_stays_one() {
        let mut frames = vec![frame(0x4005)];
        assert!(earlier().join(THREAD, &mut frames, &[0x500], &mut |_| None));
        assert_eq!(frames, [5, 6, 7, 8, 9, 10].map(|i| frame(0x4000 + i)));
    }

    #[test]
    fn one_other_frame_at_the_seam_forbids_joining() {
        assert_eq!(join(&[0x4003, 0x7777, 0x4005], &[0x300, 0x400, 0x500], |_| None), None);
        assert_eq!(join(&[0x4003, 0x4004, 0x4005], &[0x300, 0x408, 0x500], |_| None), None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn an_outer_part_written_anew_since_forbids_joining() {
        let memory = |a: u64| Some(if a == 0x800 - 8 { 0xbad } else { 0x4000 + (a + 8) / 0x100 });
        assert_eq!(join(&[0x4003, 0x4004, 0x4005], &[0x300, 0x400, 0x500], memory), None);
        let intact = |a: u64| Some(0x4000 + (a + 8) / 0x100);
        assert!(join(&[0x4003, 0x4004, 0x4005], &[0x300, 0x400, 0x500], intact).is_some());
    }
}
