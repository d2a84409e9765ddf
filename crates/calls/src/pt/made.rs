//! Code made or changed while it was traced, by the times of the recording.

use profile::view::ranking::RankRows as _;
use std::ops::Range;

use perfdata::jitdump::{JitDump, JitKind};

use super::code::MadeCode;
use super::info::TscClock;

/// A change that the kernel made in its own code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poke {
    /// Time, ns of the recording's clock.
    pub time_ns: u64,
    /// First address.
    pub start: u64,
    /// The bytes before.
    pub old: Vec<u8>,
    /// The bytes after.
    pub new: Vec<u8>,
}

impl Poke {
    /// Whether it changes anything there.
    #[must_use]
    pub fn touches(&self, range: &Range<u64>) -> bool {
        let bytes = self.old.len().max(self.new.len()) as u64;
        self.start < range.end && range.start < self.start.saturating_add(bytes)
    }
}

/// The code that a runtime reported, in the order of time. Without a `clock` for its times all of it exists from the
/// beginning, except for code that shares addresses. That code is left out, and counted.
pub(super) fn made_of(dump: &JitDump<'_>, clock: Option<TscClock>) -> (Vec<MadeCode>, usize) {
    let mut made: Vec<MadeCode> = Vec::new();
    for event in &dump.events {
        let from_ns = clock.map_or(0, |clock| clock.ns_at(event.time));
        match event.kind {
            JitKind::Load { addr, name, code } => {
                let name = String::from_utf8_lossy(name).into_owned();
                made.push(MadeCode { from_ns, start: addr.0, name, code: code.into() });
            }
            JitKind::Move { from, to, .. } => {
                let moved = made.iter().rev().find(|made| made.start == from.0).cloned();
                made.extend(moved.map(|moved| MadeCode { from_ns, start: to.0, ..moved }));
            }
        }
    }
    if clock.is_some() {
        made.rank_by_key(|made| made.from_ns);
        return (made, 0);
    }
    let count = made.len();
    let alone = apart(made);
    let left_out = count - alone.len();
    (alone, left_out)
}

/// Those that share no address with another.
fn apart(mut made: Vec<MadeCode>) -> Vec<MadeCode> {
    let end = |made: &MadeCode| made.start.saturating_add(made.code.len() as u64);
    made.rank_by_key(|made| made.start);
    let mut reached = 0;
    let mut shares = vec![false; made.len()];
    for at in 0..made.len() {
        let next = made.get(at + 1).is_some_and(|next| next.start < end(&made[at]));
        shares[at] = made[at].start < reached || next;
        reached = reached.max(end(&made[at]));
    }
    made.into_iter().zip(shares).filter(|(_, shares)| !shares).map(|(made, _)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::Avma;
    use perfdata::jitdump::JitEvent;

    fn dump(events: &[(u64, JitKind<'static>)]) -> JitDump<'static> {
        let events = events.iter().map(|(time, kind)| JitEvent { time: *time, kind: *kind }).collect();
        JitDump { pid: 7, machine: 62, is_tsc: true, events, cut: None }
    }

    const fn load(addr: u64, name: &'static str) -> JitKind<'static> {
        JitKind::Load { addr: Avma(addr), name: name.as_bytes(), code: &[0x90; 16] }
    }

    #[test]
    fn moved_code_is_there_anew_and_times_are_the_recordings() {
        let moved = JitKind::Move { from: Avma(0x1000), to: Avma(0x3000), bytes: 16 };
        let dump = dump(&[(20, load(0x1000, "f")), (10, load(0x2000, "g")), (30, moved)]);
        let clock = TscClock { shift: 1, mult: 1, zero_ns: 100 };
        let (made, left_out) = made_of(&dump, Some(clock));
        let found: Vec<_> = made.iter().map(|made| (made.from_ns, made.start, made.name.as_str())).collect();
        assert_eq!(found, [(105, 0x2000, "g"), (110, 0x1000, "f"), (115, 0x3000, "f")]);
        assert_eq!(left_out, 0);
    }

    #[test]
    fn without_a_clock_code_that_shares_addresses_is_left_out() {
        let dump = dump(&[(1, load(0x1000, "f")), (2, load(0x1008, "g")), (3, load(0x1018, "h"))]);
        let (made, left_out) = made_of(&dump, None);
        assert_eq!((made.len(), left_out), (1, 2));
        assert_eq!((made[0].name.as_str(), made[0].from_ns), ("h", 0));
    }
}
