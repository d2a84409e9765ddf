//! Paths of precise samples, without skid.
//!
//! PEBS, IBS and SPE give the address of the instruction that caused the event. The interrupt comes
//! some instructions later, and the kernel walks the stack from there. Recorded are therefore an
//! address and a chain that begins elsewhere, nearly always in the same function:
//!
//! ```text
//!   recorded                 what happened before the interrupt      path
//!   f+8   f+c   main         nothing                                 f+8  main
//!   f+8   g+2   f+d  main    f called g (or entered the kernel)      f+8  main
//!   f+8   g+2   main         f jumped to g: g's first instructions   f+8  main
//!   f+8   g+40  main         f returned to g                         f+8  g+40  main
//! ```
//! Only functions distinguish these cases, so paths are settled once names are known. Self time is always that of the
//! precise address. perf shows the same row for it, with the interrupt's chain as its callers.

use crate::machine::Mode;
use crate::profile::Profile;
use crate::table::{DsoId, FrameId};

/// A function is taken as just entered when the interrupt met it at most this many bytes after its start.
const ENTRY_BYTES: u64 = 64;
/// Length of the longest instruction: a call ends at most this many bytes after it begins.
const LONGEST_CALL_BYTES: u64 = 16;

impl Profile {
    /// Replaces each path of a precise sample by the one that its functions' names give. To be called when names have
    /// arrived. Calling it again does no harm.
    pub fn settle_precise_paths(&mut self) {
        for id in self.callsites.precise().to_vec() {
            let recorded = self.callsites.recorded_path(id);
            let (leaf, chain) = (recorded[0], &recorded[1..]);
            let callers = &chain[self.skid_frames(leaf, chain)..];
            let path: Vec<FrameId> = std::iter::once(leaf).chain(callers.iter().copied()).collect();
            let shown = self.callsites.intern_leaf_first(&path).expect("invariant: the path has its leaf");
            self.callsites.settle(id, shown);
        }
    }

    /// How many frames of `chain`, leaf first, are the leaf's own function or came after it.
    fn skid_frames(&self, leaf: FrameId, chain: &[FrameId]) -> usize {
        if let Some(at) = chain.iter().position(|&frame| self.is_same_function(leaf, frame)) {
            return at + 1;
        }
        // In user code and interrupted in the kernel, which it called: the calling user frame counts.
        let in_kernel = |&frame: &FrameId| self.is_kernel_code(frame);
        let kernel =
            if in_kernel(&leaf) { 0 } else { chain.iter().take_while(|frame| in_kernel(frame)).count() };
        let Some(&interrupted) = chain.get(kernel) else { return kernel };
        let caller = chain.get(kernel + 1).filter(|&&caller| self.is_call_before(leaf, caller));
        match (self.function_of(leaf), self.function_of(interrupted)) {
            (None, None) if caller.is_some() => kernel + 2,
            (None, None) => kernel + usize::from(self.is_same_dso(leaf, interrupted)),
            _ => kernel + usize::from(self.is_just_entered(interrupted)),
        }
    }

    fn is_same_function(&self, a: FrameId, b: FrameId) -> bool {
        self.function_of(a).is_some_and(|function| self.function_of(b) == Some(function))
    }

    /// DSO and start of the function that holds a frame; `None` without a name.
    fn function_of(&self, frame: FrameId) -> Option<(DsoId, u64)> {
        let symbol = self.symbols.of(self.frame_names(frame).last()?.symbol);
        Some((symbol.dso, symbol.start))
    }

    fn is_same_dso(&self, a: FrameId, b: FrameId) -> bool {
        self.frames.of(a).dso == self.frames.of(b).dso
    }

    fn is_kernel_code(&self, frame: FrameId) -> bool {
        self.dsos.of(self.frames.of(frame).dso).level == Mode::Kernel.level()
    }

    /// Can the instruction at `leaf` be the call that returns to `caller`?
    fn is_call_before(&self, leaf: FrameId, caller: FrameId) -> bool {
        let (call, back) = (self.frames.of(leaf), self.frames.of(caller));
        call.dso == back.dso && (1..=LONGEST_CALL_BYTES).contains(&back.addr.wrapping_sub(call.addr))
    }

    fn is_just_entered(&self, frame: FrameId) -> bool {
        let entry = self.function_of(frame).map(|(_, start)| start);
        entry.is_some_and(|start| self.frames.of(frame).addr.wrapping_sub(start) <= ENTRY_BYTES)
    }
}
