//! The goroutines of one process, look after look.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use dso::unwind::GoProgram;
use dso::{FileOffset, MapLine, ObjectFile, Svma, system_file};
use perfdata::appendix::go_waits::{GoProcessWaits, GoWaitKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::places::{self, Places};
use crate::sys::time::Clock;

/// More goroutines are read in part: every second, every third …
const MOST_READ: usize = 1024;
/// A longer list isn't believed.
const MOST_LISTED: u64 = 1 << 24;
/// Frames of a goroutine that are followed.
const MOST_FRAMES: usize = 96;
/// Words from the frame pointer where a goroutine left off to its status: since Go 1.23, and before.
const WORDS_TO_STATUS: [u32; 2] = [6, 5];
/// Bytes of a goroutine that are read after its status.
const BYTES_AFTER_STATUS: usize = 48;
/// A status has this bit while the collector reads the goroutine's stack.
const SCANNED: u32 = 0x1000;
/// Looks after which a list that was never as expected is given up.
const PATIENCE: u32 = 20;

// Source: runtime/runtime2.go, _Gidle …
mod status {
    pub(super) const IDLE: u32 = 0;
    pub(super) const WAITING: u32 = 4;
    pub(super) const DEAD: u32 = 6;
    pub(super) const LAST: u32 = 11;
}

/// How far the code is from where its file states it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bias(u64);

/// Where a mapping of the program's code is, relative to its file.
pub(super) fn bias_of(object: &ObjectFile, line: &MapLine) -> Option<Bias> {
    let svma = object.svma_of_mapping(FileOffset(line.pgoff), line.end.checked_sub(line.start)?)?;
    Some(Bias(line.start.wrapping_sub(svma.0)))
}

/// A running Go program.
#[derive(Debug)]
pub(super) struct GoProcess {
    program: Arc<GoProgram>,
    memory: File,
    bias: u64,
    /// Where in a goroutine its status is; `None` before it was found.
    status_at: Option<usize>,
    failed: u32,
    waits: FxHashMap<u64, KnownWait>,
    places: Places,
    sums: GoProcessWaits,
}

/// A goroutine as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    address: u64,
    sp: u64,
    pc: u64,
    bp: u64,
    status: u32,
    id: u64,
    /// Since when the collector has found it waiting, ns; 0 if it hasn't, or it ran since.
    found_ns: u64,
    /// Fields of which each run changes one.
    marks: [u8; 16],
}

/// The wait that a goroutine was found in.
#[derive(Debug, Clone, Copy)]
struct KnownWait {
    seen: Seen,
    since_ns: u64,
    /// Its place; `None` for the runtime's own goroutines.
    place: Option<usize>,
}

impl GoProcess {
    /// `None` if its memory can't be read.
    pub(super) fn open(pid: u32, program: Arc<GoProgram>, bias: &Bias) -> Option<Self> {
        Some(Self {
            program,
            memory: system_file::open(format!("/proc/{pid}/mem")).ok()?,
            bias: bias.0,
            status_at: None,
            failed: 0,
            waits: FxHashMap::default(),
            places: Places::default(),
            sums: GoProcessWaits { pid, ..GoProcessWaits::default() },
        })
    }

    pub(super) fn finish(self) -> GoProcessWaits {
        GoProcessWaits { places: self.places.into_sums(), ..self.sums }
    }

    /// Reads the list and adds up where its goroutines wait.
    pub(super) fn look(&mut self) {
        if self.status_at.is_none() && self.failed >= PATIENCE {
            return;
        }
        let Some(list) = self.list().filter(|list| !list.is_empty()) else { return };
        let step = list.len().div_ceil(MOST_READ);
        let addresses: Vec<u64> = list.iter().copied().step_by(step).collect();
        let Some(status_at) = self.status_at.or_else(|| self.find_status(&addresses)) else {
            self.failed += 1;
            return;
        };
        self.status_at = Some(status_at);
        self.sums.looks = self.sums.looks.saturating_add(1);
        let time_ns = Clock::Monotonic.now_ns();
        let mut waits = FxHashMap::default();
        for address in addresses {
            self.add(address, step as u64, time_ns, &mut waits);
        }
        self.waits = waits;
    }

    /// Addresses of all goroutines that there ever were at a time.
    fn list(&self) -> Option<Vec<u64>> {
        let at = |svma: Svma| self.word(svma.0.wrapping_add(self.bias));
        // The address is stored before the length: a longer list may be found, never a shorter one.
        let count = at(self.program.count_at)?;
        let list = at(self.program.list_at)?;
        let mut bytes = vec![0; usize::try_from(count).ok().filter(|_| count <= MOST_LISTED)? * 8];
        self.memory.read_exact_at(&mut bytes, list).ok()?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        Some(bytes.chunks_exact(8).map(word).collect())
    }

    /// The place of the status where all goroutines have a known one, and numbers of their own after it.
    fn find_status(&self, addresses: &[u64]) -> Option<usize> {
        let is_right = |at: &usize| {
            let mut ids = FxHashSet::default();
            let mut all = addresses.iter().map(|address| self.seen(*address, *at));
            all.all(|seen| {
                seen.is_some_and(|of| {
                    of.status <= status::LAST && (1..1 << 48).contains(&of.id) && ids.insert(of.id)
                })
            })
        };
        WORDS_TO_STATUS
            .map(|words| (self.program.layout.sched_bp + 8 * words) as usize)
            .into_iter()
            .find(is_right)
    }

    fn seen(&self, address: u64, status_at: usize) -> Option<Seen> {
        let mut bytes = [0; 512];
        let bytes = bytes.get_mut(..status_at + BYTES_AFTER_STATUS)?;
        self.memory.read_exact_at(bytes, address).ok()?;
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let layout = &self.program.layout;
        Some(Seen {
            address,
            sp: word(layout.sched_sp as usize)?,
            pc: word(layout.sched_pc as usize)?,
            bp: word(layout.sched_bp as usize)?,
            status: (word(status_at)? as u32) & !SCANNED,
            id: word(status_at + 8)?,
            found_ns: word(status_at + 24)?,
            marks: bytes.get(status_at + 32..)?.try_into().ok()?,
        })
    }

    fn add(&mut self, address: u64, weight: u64, time_ns: u64, waits: &mut FxHashMap<u64, KnownWait>) {
        let Some((seen, status_at)) = self.status_at.and_then(|at| Some((self.seen(address, at)?, at)))
        else {
            return;
        };
        match seen.status {
            status::IDLE | status::DEAD => return,
            status::WAITING => {}
            _ => return self.sums.goroutines = self.sums.goroutines.saturating_add(weight),
        }
        let before = self.waits.get(&seen.id).filter(|wait| wait.seen.is_at_the_place_of(&seen)).copied();
        let place = match before {
            Some(wait) => wait.place,
            None => match self.place_of(&seen, status_at) {
                Ok(place) => place,
                Err(Torn) => {
                    self.sums.torn = self.sums.torn.saturating_add(weight);
                    return self.sums.goroutines = self.sums.goroutines.saturating_add(weight);
                }
            },
        };
        let since_ns =
            before.filter(|wait| wait.seen.is_same_wait(&seen)).map_or(time_ns, |wait| wait.since_ns);
        waits.insert(seen.id, KnownWait { seen, since_ns, place });
        let Some(place) = place else { return };
        self.sums.goroutines = self.sums.goroutines.saturating_add(weight);
        let found_ns = Some(seen.found_ns).filter(|ns| *ns > 0 && *ns < time_ns).unwrap_or(time_ns);
        self.places.add(place, weight, time_ns.saturating_sub(since_ns.min(found_ns)));
    }

    /// The place of a wait that was not known; `None` for a goroutine of the runtime's.
    fn place_of(&mut self, seen: &Seen, status_at: usize) -> Result<Option<usize>, Torn> {
        let mut return_addresses = vec![Svma(seen.pc.wrapping_sub(self.bias))];
        let mut frame = seen.bp;
        while return_addresses.len() < MOST_FRAMES && frame != 0 {
            let mut words = [0; 16];
            self.memory.read_exact_at(&mut words, frame).map_err(|_| Torn)?;
            let [next, back] = [&words[..8], &words[8..]]
                .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
            return_addresses.push(Svma(back.wrapping_sub(self.bias)));
            // Callers are further up.
            if next <= frame {
                break;
            }
            frame = next;
        }
        if self.seen(seen.address, status_at).is_none_or(|now| !now.is_same_wait(seen)) {
            return Err(Torn);
        }
        let frames: Vec<_> = return_addresses.iter().map_while(|at| self.program.frame_of(*at)).collect();
        let names: Vec<&str> = frames.iter().map(|frame| frame.function).collect();
        let function = places::waiting_function(&names).filter(|_| !places::is_of_runtime(&names));
        let kind = places::kind_of(&names).unwrap_or(GoWaitKind::Other);
        Ok(function.map(|at| self.places.find(kind, frames[at])))
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}

/// The goroutine went on while it was read.
#[derive(Debug, Clone, Copy)]
struct Torn;

impl Seen {
    /// Whether it has the same frames.
    fn is_at_the_place_of(&self, now: &Self) -> bool {
        (self.id, self.sp, self.pc, self.bp) == (now.id, now.sp, now.pc, now.bp)
    }

    /// Whether it has waited all the time between both.
    fn is_same_wait(&self, now: &Self) -> bool {
        let is_found = self.found_ns != 0 && self.found_ns == now.found_ns;
        self.is_at_the_place_of(now) && self.status == now.status && (self.marks == now.marks || is_found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_goes_on_until_a_mark_changes_unless_the_collector_knows_it() {
        let seen = Seen { address: 0, sp: 1, pc: 2, bp: 3, status: 4, id: 5, found_ns: 0, marks: [0; 16] };
        assert!(seen.is_same_wait(&Seen { found_ns: 7, ..seen }));
        let again = Seen { marks: [1; 16], ..seen };
        assert!(!seen.is_same_wait(&again) && seen.is_at_the_place_of(&again));
        let found = Seen { found_ns: 7, ..seen };
        assert!(found.is_same_wait(&Seen { found_ns: 7, ..again }));
        assert!(!found.is_same_wait(&Seen { found_ns: 8, ..again }));
        assert!(!seen.is_same_wait(&Seen { sp: 9, ..seen }));
    }
}
