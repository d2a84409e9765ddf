//! From branches back to instructions: all between a branch's target and the next branch was
//! run, in order.

use intelpt::{FlowEvent, FlowKind, instruction_len};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

use super::kinds::Every;

/// Most instructions without a branch taken: more means that code and trace do not fit.
const MOST: usize = 1 << 16;
/// Most callers kept: as many as may be asked for.
const MOST_CALLERS: usize = 1 << 10;

/// An event up to which instructions are reported.
#[derive(Clone, Copy)]
pub struct SampledEvent<'e> {
    /// The event.
    pub event: &'e FlowEvent,
    /// Number of the code mappings at its time.
    pub space: u32,
    /// Distance between two reported instructions.
    pub every: Every,
    /// Time, ns.
    pub time_ns: u64,
}

/// The instructions of one buffer's execution.
#[derive(Default)]
pub struct Walk {
    /// Where execution went last; `None` while out of sight.
    ip: Option<u64>,
    /// Instructions since the last one reported.
    since: u64,
    /// When that was, ns or ticks.
    last: Option<u64>,
    /// Addresses from one to another, both included, by space.
    known: FxHashMap<(u32, u64, u64), Arc<[u64]>>,
}

impl Walk {
    /// Follows execution to an event: the instructions to report, and how many have run since the one before.
    pub fn follow<'c>(
        &mut self,
        sampled: SampledEvent<'_>,
        code: impl Fn(u64) -> &'c [u8],
    ) -> Vec<(u64, u64)> {
        let SampledEvent { event, space, .. } = sampled;
        let mut told = Vec::new();
        if let Some(start) = self.ip.take() {
            let until = Self::until(event);
            if let Some((end, included)) = until {
                let run = self.run((space, start, end), event.bits, code);
                let run = if included { &run[..] } else { &run[..run.len().saturating_sub(1)] };
                self.choose(run, sampled, &mut told);
            }
        }
        self.ip = match event.what {
            FlowKind::End | FlowKind::EndAsync | FlowKind::Gap(_) => None,
            _ => Some(event.to),
        };
        told
    }

    /// The address of the last instruction before an event, and whether it was run; `None` after what was not seen.
    fn until(event: &FlowEvent) -> Option<(u64, bool)> {
        match event.what {
            FlowKind::Gap(_) | FlowKind::Begin => None,
            FlowKind::EndAsync | FlowKind::Interrupt | FlowKind::Abort => Some((event.from, false)),
            _ => Some((event.from, true)),
        }
    }

    fn choose(&mut self, run: &[u64], sampled: SampledEvent<'_>, told: &mut Vec<(u64, u64)>) {
        match sampled.every {
            Every::Instructions(count) => {
                let mut at = (count - self.since).saturating_sub(1);
                while let Some(ip) = usize::try_from(at).ok().and_then(|at| run.get(at)) {
                    told.push((*ip, count));
                    at += count;
                    self.since = 0;
                }
                let behind = told.last().map_or(0, |_| at + 1 - count);
                self.since += run.len() as u64 - behind;
            }
            Every::Ns(count) => self.by_time(run, count, sampled.time_ns, told),
            Every::Ticks(count) => self.by_time(run, count, sampled.event.tsc.unwrap_or(0), told),
        }
    }

    /// The time is known at the event only: the last instruction before it is reported if it is time.
    fn by_time(&mut self, run: &[u64], count: u64, now: u64, told: &mut Vec<(u64, u64)>) {
        self.since += run.len() as u64;
        let last = *self.last.get_or_insert(now);
        if now.saturating_sub(last) >= count
            && let Some(ip) = run.last()
        {
            // After a long wait it goes on from now: no sample is made up for time without instructions.
            self.last = Some(now - (now - last) % count.max(1));
            told.push((*ip, std::mem::take(&mut self.since)));
        }
    }

    fn run<'c>(&mut self, place: (u32, u64, u64), bits: u8, code: impl Fn(u64) -> &'c [u8]) -> Arc<[u64]> {
        if let Some(known) = self.known.get(&place) {
            return Arc::clone(known);
        }
        let (_, start, end) = place;
        let mut all = vec![start];
        let mut ip = start;
        while ip < end && all.len() < MOST {
            let Some(length) = instruction_len(code(ip), bits.into()) else { break };
            ip += length as u64;
            all.push(ip);
        }
        // Code that does not lead there was not run so.
        let run: Arc<[u64]> = if ip == end { all.into() } else { Arc::from([]) };
        self.known.insert(place, Arc::clone(&run));
        run
    }
}

/// Where each thread's calls go back to.
#[derive(Default)]
pub struct Chains(FxHashMap<i32, VecDeque<u64>>);

impl Chains {
    /// The thread's next event.
    pub fn take(&mut self, tid: i32, event: &FlowEvent) {
        let open = self.0.entry(tid).or_default();
        match event.what {
            FlowKind::Call if event.next != event.to => {
                open.push_front(event.next);
                open.truncate(MOST_CALLERS);
            }
            FlowKind::Return => {
                // Calls above the one that this goes back to were left.
                if let Some(at) = open.iter().position(|back| *back == event.to) {
                    open.drain(..=at);
                }
            }
            FlowKind::Gap(_) => open.clear(),
            _ => {}
        }
    }

    /// Return addresses of the open calls, innermost first.
    pub fn callers(&self, tid: i32, most: usize) -> Vec<u64> {
        self.0.get(&tid).into_iter().flatten().take(most).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: FlowKind, from: u64, to: u64) -> FlowEvent {
        FlowEvent { tsc: Some(from), what, from, next: from + 1, to, unit: 0, at_start: false, bits: 64 }
    }

    const fn up_to(event: &FlowEvent, every: Every) -> SampledEvent<'_> {
        SampledEvent { event, space: 1, every, time_ns: 0 }
    }

    /// One-byte instructions everywhere.
    fn nop(_: u64) -> &'static [u8] {
        &[0x90]
    }

    #[test]
    fn every_so_many_instructions_are_told_over_branches_and_not_over_gaps() {
        let mut walk = Walk::default();
        let every = Every::Instructions(4);
        let mut told = |what, from, to| walk.follow(up_to(&event(what, from, to), every), nop);
        assert_eq!(told(FlowKind::Begin, 0, 100), []);
        assert_eq!(told(FlowKind::Jump, 105, 200), [(103, 4)]);
        assert_eq!(told(FlowKind::Call, 209, 300), [(201, 4), (205, 4), (209, 4)]);
        // Not run: the instruction before which it was interrupted.
        assert_eq!(told(FlowKind::EndAsync, 303, 0), []);
        assert_eq!(told(FlowKind::Begin, 0, 303), []);
        assert_eq!(told(FlowKind::Jump, 304, 9), [(303, 4)]);
    }

    #[test]
    fn code_of_32_bits_is_decoded_as_such() {
        // inc eax; inc eax; ret: with 64-bit addresses one instruction, a return with two prefixes.
        const CODE: [u8; 3] = [0x40, 0x40, 0xc3];
        let code = |ip: u64| usize::try_from(ip - 100).ok().and_then(|at| CODE.get(at..)).unwrap_or_default();
        for (bits, expected) in [(32, vec![(100, 1), (101, 1), (102, 1)]), (64, vec![])] {
            let mut walk = Walk::default();
            let mut told = |what, from, to| {
                let event = FlowEvent { bits, ..event(what, from, to) };
                walk.follow(up_to(&event, Every::Instructions(1)), code)
            };
            assert_eq!(told(FlowKind::Begin, 0, 100), []);
            assert_eq!(told(FlowKind::Return, 102, 200), expected, "{bits} bits");
        }
    }

    #[test]
    fn callers_are_those_whose_calls_did_not_return() {
        let mut chains = Chains::default();
        chains.take(1, &event(FlowKind::Call, 10, 100));
        chains.take(1, &event(FlowKind::Call, 110, 200));
        chains.take(1, &event(FlowKind::Call, 210, 300));
        assert_eq!((chains.callers(1, 2), chains.callers(2, 9)), (vec![211, 111], vec![]));
        chains.take(1, &event(FlowKind::Return, 305, 111));
        assert_eq!(chains.callers(1, 9), [11]);
    }
}
