//! Times of branches between two packets of time, by the instructions executed.
//!
//! A packet of branches proves up to 47 of them at once, and without cycle counts many packets share one time.
//!
//! - With CYC packets the last branch of a packet has the packet's time, and the first instruction the time of the packet
//!   before. The branches in between are spread by their instructions: they wait until the packet is decoded.
//! - With MTC packets only, execution goes on after each at the pace of the stretch before, at most to the next one's
//!   time.
//! - With TSC packets only, the same: the next one is looked for ahead. Before there is a stretch to learn from, an
//!   instruction takes two cycles. After the last packet nothing bounds an estimate: branches keep its time.

use super::{Flow, FlowEvent};

/// Pace of the first stretch, as in perf.
const CYCLES_PER_INSTRUCTION: f64 = 2.0;

/// Execution at a moment whose time is known.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Instructions executed before.
    instructions: u64,
    /// TSC ticks.
    tsc: u64,
}

/// How fast instructions are executed, and the branches that wait for their time.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The last moment with a known time.
    mark: Mark,
    /// The last MTC packet, if execution went on without a break since.
    mtc: Option<Mark>,
    /// There are MTC packets in this trace.
    has_mtc: bool,
    /// The last TSC packet, if no other packet of time came since.
    tsc: Option<Mark>,
    /// The TSC at the next one, if no other packet of time comes before it.
    next_tsc: Option<u64>,
    ticks_per_instruction: f64,
    /// Branches of the packet that is being decoded, with the instructions up to each.
    waiting: Vec<(u64, FlowEvent)>,
}

impl Pace {
    /// Learns the pace from the stretch between this mark and the present one.
    fn learn(&mut self, before: Option<Mark>) {
        let Some(before) = before else { return };
        let instructions = self.mark.instructions - before.instructions;
        if instructions > 0 {
            self.ticks_per_instruction =
                self.mark.tsc.saturating_sub(before.tsc) as f64 / instructions as f64;
        }
    }
}

impl Flow<'_, '_> {
    /// Cycles passed up to the next packet: what was walked so far has the time before.
    #[inline]
    pub(super) fn cycles(&mut self, cycles: u64) {
        if self.pace.mark.instructions != self.instructions {
            self.mark();
        }
        self.time.cyc(cycles);
    }

    /// Execution is here now.
    fn mark(&mut self) {
        let tsc = self.time.stamp().unwrap_or(0);
        self.pace.mark = Mark { instructions: self.instructions, tsc };
    }

    /// An MTC packet came: learns the pace from the stretch since the one before.
    pub(super) fn mark_mtc(&mut self) {
        if self.time.has_cycles() {
            return;
        }
        self.mark();
        if !self.pace.has_mtc {
            // The pace learned between TSC packets has the pauses in it.
            (self.pace.has_mtc, self.pace.next_tsc, self.pace.ticks_per_instruction) = (true, None, 0.0);
        }
        let before = self.pace.mtc.replace(self.pace.mark);
        self.pace.learn(before);
    }

    /// A TSC packet came.
    pub(super) fn mark_tsc(&mut self) {
        if self.time.has_cycles() {
            return;
        }
        self.mark();
        if self.pace.has_mtc {
            return;
        }
        self.pace.next_tsc = self.packets.find_next_tsc().map(|low| self.time.whole_tsc(low));
        let before = self.pace.tsc.take();
        if self.pace.next_tsc.is_some() {
            self.pace.tsc = Some(self.pace.mark);
            self.pace.learn(before);
        }
        if self.pace.ticks_per_instruction == 0.0 {
            self.pace.ticks_per_instruction = CYCLES_PER_INSTRUCTION * self.time.ticks_per_cycle();
        }
    }

    /// Execution begins here, after time in which no instruction was traced.
    pub(super) fn mark_arrival(&mut self) {
        // With TSC packets only, the pause is a part of the pace: times would go back to the packet before.
        if self.pace.next_tsc.is_none() {
            self.mark();
        }
        self.pace.mtc = None;
    }

    /// The time now, by the pace after an MTC or TSC packet.
    #[inline]
    pub(super) fn paced(&mut self) -> Option<u64> {
        let tsc = self.time.stamp()?;
        let next = self.pace.next_tsc.or_else(|| self.time.next_mtc());
        let Some(next) = next.filter(|_| !self.time.has_cycles()) else { return Some(tsc) };
        let instructions = self.instructions - self.pace.mark.instructions;
        let ticks = (instructions as i64 as f64 * self.pace.ticks_per_instruction) as u64;
        Some(tsc.saturating_add(ticks).min(next.saturating_sub(1)).max(tsc))
    }

    /// Hands out a branch, now or when its packet is decoded.
    #[inline]
    pub(super) fn hand_out(&mut self, mut event: FlowEvent, sink: &mut impl FnMut(&FlowEvent)) {
        if self.time.has_cycles() {
            self.pace.waiting.push((self.instructions, event));
        } else {
            event.tsc = self.paced();
            sink(&event);
        }
    }

    /// A packet is decoded: hands out its branches with their times.
    #[inline]
    pub(super) fn settle(&mut self, sink: &mut impl FnMut(&FlowEvent)) {
        if !self.pace.waiting.is_empty() {
            self.spread(sink);
        }
    }

    fn spread(&mut self, sink: &mut impl FnMut(&FlowEvent)) {
        let Mark { instructions: first, tsc: from } = self.pace.mark;
        let until = self.time.stamp();
        // Signed, for processors convert those at once.
        let ticks = until.map_or(0, |until| until.saturating_sub(from)) as i64 as f64;
        let per_instruction = ticks / (self.instructions - first).max(1) as i64 as f64;
        for (at, mut event) in self.pace.waiting.drain(..) {
            let passed = ((at - first) as i64 as f64 * per_instruction) as u64;
            event.tsc = until.map(|until| from.saturating_add(passed).min(until));
            sink(&event);
        }
        self.mark();
    }
}
