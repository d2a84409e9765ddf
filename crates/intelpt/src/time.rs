//! Time: an estimate of the TSC at every packet, from TSC, TMA, MTC, CYC and CBR.
//!
//! TSC packets are exact. Between them the crystal clock (MTC) ticks, every few dozen ns; between those, CYC
//! counts core cycles, which are turned into TSC ticks by the ratio seen over the last stretch, or by CBR where
//! no stretch is complete. The estimate never runs backwards.
//!
//! Branches between two packets of time are placed by the instructions executed: see [`crate::flow::pace`].

/// How the clocks of the machine relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeParams {
    /// TSC ticks per crystal tick: numerator and denominator (CPUID 15H EBX / EAX). 0/0 when not known.
    pub tsc_per_ctc: (u32, u32),
    /// MTC carries the crystal counter from this bit on.
    pub mtc_shift: u8,
    /// Highest ratio without turbo: TSC ticks per bus clock. 0 when not known.
    pub max_nonturbo_ratio: u8,
}

impl TimeParams {
    /// TSC ticks between two MTC packets; `None` when the clocks' ratio is not known.
    #[must_use]
    pub fn ticks_per_mtc(&self) -> Option<u64> {
        let (per, of) = self.tsc_per_ctc;
        (u64::from(per) << self.mtc_shift).checked_div(of.into())
    }
}

/// The running estimate.
#[derive(Clone, Debug)]
pub struct Time {
    params: TimeParams,
    tsc: Option<u64>,
    shown: u64,
    /// Crystal counter (as far as known) and the TSC at one moment.
    anchor: Option<(u64, u64)>,
    last_mtc: Option<u8>,
    ctc: u64,
    cycles: u64,
    /// Cycles and TSC when the last exact time was known: the ratio's base.
    base: Option<(u64, u64)>,
    ticks_per_cycle: f64,
    /// Answer of `now` since the last timing packet: most branches share a packet's time.
    stamp: Option<u64>,
    /// The TSC at the next MTC packet: until that comes, it is earlier.
    next_mtc: Option<u64>,
}

impl Time {
    /// Nothing known yet.
    #[must_use]
    pub fn new(params: TimeParams) -> Self {
        Self {
            params,
            tsc: None,
            shown: 0,
            anchor: None,
            last_mtc: None,
            ctc: 0,
            cycles: 0,
            base: None,
            ticks_per_cycle: 1.0,
            stamp: None,
            next_mtc: None,
        }
    }

    /// Whether cycles are counted: then each branch packet has its own time.
    #[inline]
    pub(crate) const fn has_cycles(&self) -> bool {
        self.cycles > 0
    }

    /// TSC ticks per core cycle, by the stretch before or the bus ratio.
    pub(crate) const fn ticks_per_cycle(&self) -> f64 {
        self.ticks_per_cycle
    }

    /// The TSC that is not reached before the next MTC packet; `None` without such packets.
    pub(crate) const fn next_mtc(&self) -> Option<u64> {
        self.next_mtc
    }

    /// The estimate now, in TSC ticks; `None` before the first TSC packet.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Option<u64> {
        let tsc = self.tsc?;
        // Signed, for processors convert those at once; 2^63 cycles are a century.
        let ticks = |cycles: u64| ((self.cycles - cycles) as i64 as f64 * self.ticks_per_cycle) as i64;
        let estimate = self.base.map_or(tsc, |(cycles, at)| at.saturating_add_signed(ticks(cycles)));
        Some(estimate.max(self.shown))
    }

    /// The same, remembered until a packet changes it.
    #[inline]
    pub(crate) fn stamp(&mut self) -> Option<u64> {
        if self.stamp.is_none() {
            self.stamp = self.now();
        }
        self.stamp
    }

    /// Called before the estimate gets a new base, so that times never go backwards.
    fn hold(&mut self) {
        self.stamp = None;
        self.shown = self.now().unwrap_or(0);
    }

    /// The time is exactly `tsc` now: learn how long a cycle is, and count from here.
    fn exact(&mut self, tsc: u64) {
        if let Some((cycles, at)) = self.base {
            let (cycles, ticks) = (self.cycles - cycles, tsc.saturating_sub(at));
            // A stretch of some length, so that one late packet does not bend the clock.
            if cycles > 200 && ticks > 0 {
                self.ticks_per_cycle = ticks as f64 / cycles as f64;
            }
        }
        self.base = Some((self.cycles, tsc));
        self.tsc = Some(tsc);
    }

    /// The time of a TSC packet with these 56 bits: the rest is taken from the time before.
    pub(crate) fn whole_tsc(&self, low: u64) -> u64 {
        const LOW: u64 = (1 << 56) - 1;
        let before = self.tsc.unwrap_or(0);
        let tsc = before & !LOW | low;
        let has_wrapped = self.tsc.is_some() && tsc.saturating_add(1 << 55) < before;
        if has_wrapped { tsc.wrapping_add(1 << 56) } else { tsc }
    }

    /// TSC packet: 56 bits.
    pub fn tsc(&mut self, low: u64) {
        let tsc = self.whole_tsc(low);
        self.hold();
        // A jump back happens only when the trace was joined to another: follow it.
        if tsc < self.shown {
            self.shown = tsc;
            self.base = None;
        }
        self.anchor = None;
        self.last_mtc = None;
        self.next_mtc = None;
        self.exact(tsc);
    }

    /// TMA packet: the crystal counter at the TSC just seen.
    pub fn tma(&mut self, ctc: u16, fast: u16) {
        let Some(tsc) = self.tsc else { return };
        self.ctc = u64::from(ctc);
        self.anchor = Some((self.ctc, tsc.saturating_sub(fast.into())));
        self.last_mtc = Some((self.ctc >> self.params.mtc_shift) as u8);
        self.next_mtc = self.tsc_at_next_mtc();
    }

    /// The TSC when the crystal counter's bits below `shift` are 0 again.
    fn tsc_at_next_mtc(&self) -> Option<u64> {
        let (per, of) = self.params.tsc_per_ctc;
        let (ctc, tsc) = self.anchor?;
        let next = ((self.ctc >> self.params.mtc_shift) + 1) << self.params.mtc_shift;
        let ticks = (u128::from(next.saturating_sub(ctc)) * u128::from(per)).checked_div(of.into())?;
        Some(tsc.saturating_add(u64::try_from(ticks).ok()?))
    }

    /// MTC packet: 8 bits of the crystal counter.
    pub fn mtc(&mut self, value: u8) {
        let (Some((ctc, tsc)), Some(last)) = (self.anchor, self.last_mtc) else { return };
        let (per, of) = self.params.tsc_per_ctc;
        if of == 0 {
            return;
        }
        let shift = self.params.mtc_shift;
        let passed = u64::from(value.wrapping_sub(last)) << shift;
        self.last_mtc = Some(value);
        // The counter as this packet shows it: its bits below `shift` are 0 at the moment of the packet.
        self.ctc = (self.ctc >> shift << shift) + passed;
        let ticks = (self.ctc - ctc.min(self.ctc)) as u128 * u128::from(per) / u128::from(of);
        self.hold();
        self.exact(tsc.saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX)));
        self.next_mtc = self.tsc_at_next_mtc();
    }

    /// CYC packet: core cycles since the last.
    #[inline]
    pub fn cyc(&mut self, cycles: u64) {
        self.stamp = None;
        self.cycles = self.cycles.saturating_add(cycles);
    }

    /// Cycles may be missing here: what was counted before measures nothing.
    pub fn forget_cycles(&mut self) {
        self.hold();
        if let Some(tsc) = self.tsc {
            self.tsc = Some(tsc.max(self.shown));
        }
        self.base = None;
    }

    /// CBR packet: the core's clock changed.
    pub fn cbr(&mut self, ratio: u8) {
        if ratio > 0 && self.params.max_nonturbo_ratio > 0 {
            self.hold();
            let now = self.now();
            self.ticks_per_cycle = f64::from(self.params.max_nonturbo_ratio) / f64::from(ratio);
            if let Some(now) = now {
                self.base = Some((self.cycles, now));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: TimeParams = TimeParams { tsc_per_ctc: (200, 2), mtc_shift: 3, max_nonturbo_ratio: 25 };

    #[test]
    fn mtc_ticks_from_the_counter_that_tma_gave() {
        let mut time = Time::new(PARAMS);
        assert_eq!(time.now(), None);
        time.tsc(1_000_000);
        time.tma(16, 50);
        time.mtc(3);
        // 24 − 16 crystal ticks of 100 each, from 50 before the TSC packet.
        assert_eq!(time.now(), Some(1_000_000 - 50 + 800));
        time.mtc(4);
        assert_eq!(time.now(), Some(1_000_000 - 50 + 1600));
    }

    #[test]
    fn cycles_are_scaled_by_the_bus_ratio() {
        let mut time = Time::new(PARAMS);
        time.tsc(1000);
        time.cbr(50);
        time.cyc(100);
        assert_eq!(time.now(), Some(1050));
    }

    #[test]
    fn the_estimate_never_runs_backwards_between_tsc_packets() {
        let mut time = Time::new(PARAMS);
        time.tsc(1_000_000);
        time.tma(16, 0);
        time.cyc(5000);
        let before = time.now();
        time.mtc(3);
        assert_eq!(time.now(), before);
    }
}
