//! Names of the descriptors that threads wait for: files, sockets with their peers, pipes with their other ends.
//!
//! What a descriptor refers to is read when a wait for it becomes a sample, within milliseconds of its end. Finding
//! the process at the other end takes a look at all processes; a thread of its own does that, seldom.

mod faults;
mod members;
mod names;
mod open_file;
mod other_ends;
mod seen_sockets;
mod sets;
pub(crate) mod sockets;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use perfdata::appendix::descriptors::{
    CallOfWait, NAMED_ONE_BY_ONE, NamedDescriptor, NamedDescriptors, NamedSet, PAGE_FAULT,
};
use rustc_hash::{FxHashMap, FxHashSet};
use syscalls::table::CallTable;

use super::WaitDetail;
use super::layout::{OffCpuRecord, OffCpuRecordKind, OffRecord, SiteSums};
use super::proc_sampler::ProcSample;
use super::registers::{syscall_of, user_sp};
use crate::machine::proc;
use faults::faulted_file;
use members::MemberTable;
use names::name_of;
use open_file::{NotOpen, OpenFile, open_file};
use other_ends::{Found, OtherEnds, WantedEnd};
use seen_sockets::SeenSockets;
use sets::{SetCalls, UserStack, WaitingCall};

/// More descriptors than these stay without name: a program that opens files all the time has no end of them.
const MOST_NAMES: usize = 20_000;
/// The pause after a look at an epoll is this many times as long as the look: a fifth of a percent of a CPU, or a
/// twentieth in a recording that goes on all the time.
const REST_TIMES: [u32; 2] = [500, 2000];
/// Looks at all processes take one part in this many of a CPU.
const LOOKS_ONE_PART_IN: [u64; 2] = [100, 1000];
/// A recording that goes on all the time forgets what was seen so long ago, once there is much of it.
const KEPT_NS: u64 = 120_000_000_000;
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Both are so many times longer where the look before found the same descriptors.
const LONGER_UNCHANGED: u32 = 4;
/// The set at one place isn't looked at more often.
const SETS_EVERY_NS: u64 = 10_000_000;

/// The descriptors of one recording.
#[derive(Debug)]
pub struct Descriptors {
    /// Numbers of the system calls whose first argument is a descriptor.
    calls: Vec<u32>,
    /// By process and number: what it was at the last look.
    current: FxHashMap<(u32, u32), LookedAtFile>,
    seen: Vec<SeenDescriptor>,
    set_calls: SetCalls,
    /// By process, call and first argument: the set at the last look.
    current_sets: FxHashMap<(u32, u32, u64), LookedAtSet>,
    seen_sets: Vec<SeenSet>,
    /// By process and thread: the file of the last page fault.
    last_faults: FxHashMap<(u32, u32), String>,
    faults: Vec<NamedSet>,
    sockets: SeenSockets,
    /// `None` where they aren't wanted.
    other_ends: Option<OtherEnds>,
    detail: WaitDetail,
}

/// The descriptors of a recording, for the threads that record and that write files.
#[derive(Debug, Clone)]
pub struct SharedDescriptors(Arc<Mutex<Descriptors>>);

#[derive(Debug)]
struct SeenDescriptor {
    pid: u32,
    number: u32,
    since_ns: u64,
    file: OpenFile,
}

#[derive(Debug)]
struct SeenSet {
    pid: u32,
    syscall: u32,
    argument: u64,
    since_ns: u64,
    file: OpenFile,
}

#[derive(Debug)]
struct LookedAtFile {
    /// Where it is an epoll, whose descriptors take a system call each: no look before.
    next_look: Instant,
    file: OpenFile,
}

#[derive(Debug)]
struct LookedAtSet {
    /// Begin of the wait that was looked at.
    since_ns: u64,
    file: OpenFile,
}

impl Descriptors {
    /// Reads the table of calls: not while threads are looked at, whose looks are the rarer the longer they take.
    #[must_use]
    pub fn new(detail: WaitDetail) -> Self {
        let table = CallTable::of_this_processor();
        Self {
            calls: calls_with_descriptor(&table),
            current: FxHashMap::default(),
            seen: Vec::new(),
            set_calls: SetCalls::of(&table),
            current_sets: FxHashMap::default(),
            seen_sets: Vec::new(),
            last_faults: FxHashMap::default(),
            faults: Vec::new(),
            sockets: SeenSockets::default(),
            other_ends: (detail != WaitDetail::Few)
                .then(|| OtherEnds::new(of_detail(LOOKS_ONE_PART_IN, detail))),
            detail,
        }
    }
}

impl SharedDescriptors {
    /// See [`Descriptors::new`].
    #[must_use]
    pub fn new(detail: WaitDetail) -> Self {
        Self(Arc::new(Mutex::new(Descriptors::new(detail))))
    }

    /// For the thread that records.
    pub fn lock(&self) -> MutexGuard<'_, Descriptors> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names so far, for a file in the middle of a recording. The recording thread doesn't wait for the look.
    #[must_use]
    pub fn names(&self) -> NamedDescriptors {
        let results = self.lock().other_ends.as_ref().map(OtherEnds::results);
        let found = results.map(|results| results.found()).unwrap_or_default();
        self.lock().named(found)
    }
}

/// The second where a recording goes on all the time.
fn of_detail<T: Copy>(values: [T; 2], detail: WaitDetail) -> T {
    values[usize::from(detail == WaitDetail::Always)]
}

fn calls_with_descriptor(table: &CallTable) -> Vec<u32> {
    let takes_descriptor = |nr: &u16| {
        let signature = table.of(*nr);
        signature.and_then(|signature| signature.arguments.first()).is_some_and(|first| first.is_fd())
    };
    table.names().map(|(nr, _)| nr).filter(takes_descriptor).map(u32::from).collect()
}

impl Descriptors {
    /// A record of the engine: looks at the descriptor that its wait was for.
    pub fn note(&mut self, record: &OffCpuRecord<'_>) {
        match record {
            OffCpuRecord::Sample(sample) => {
                let (syscall, args) = syscall_of(sample.regs());
                let (pid, since_ns) = (sample.pid(), sample.since_ns());
                let stack = UserStack { sp: user_sp(sample), bytes: sample.stack() };
                match syscall {
                    None => self.look_at_fault(sample),
                    Some(_) => self.look_at(&WaitingCall { pid, syscall, args, since_ns, stack }),
                }
            }
            OffCpuRecord::Rest(rest) => {
                let SiteSums { pid, syscall, arg, since_ns, .. } = rest.sums;
                self.look_at(&WaitingCall {
                    pid,
                    syscall,
                    args: [arg, 0, 0],
                    since_ns,
                    stack: UserStack::default(),
                });
            }
            _ => {}
        }
    }

    /// A thread that was seen waiting.
    pub fn note_look(&mut self, look: &ProcSample) {
        let ProcSample { pid, syscall, args, time_ns: since_ns, .. } = *look;
        let stack = UserStack { sp: look.sp, bytes: &look.stack };
        self.look_at(&WaitingCall { pid, syscall, args, since_ns, stack });
    }

    fn look_at(&mut self, call: &WaitingCall<'_>) {
        let Some(syscall) = call.syscall.filter(|_| call.pid != 0) else { return };
        if self.seen.len() + self.seen_sets.len() >= MOST_NAMES {
            self.forget_before(call.since_ns.saturating_sub(KEPT_NS));
            if self.seen.len() + self.seen_sets.len() >= MOST_NAMES {
                return;
            }
        }
        if self.set_calls.contains(syscall) {
            self.look_at_set(call, syscall);
        } else if self.calls.contains(&syscall) {
            self.look_at_descriptor(call);
        }
    }

    /// A wait outside of system calls, but not for a CPU, is one of a page fault nearly always.
    fn look_at_fault(&mut self, sample: &OffRecord<'_>) {
        let is_wait = matches!(sample.kind(), OffCpuRecordKind::Sleep | OffCpuRecordKind::Disk);
        if !is_wait || sample.regs().is_empty() || self.faults.len() >= MOST_NAMES {
            return;
        }
        let (pid, tid) = (sample.pid(), sample.tid());
        let name = faulted_file(pid, sample.regs()).unwrap_or_default();
        if self.last_faults.get(&(pid, tid)) == Some(&name) {
            return;
        }
        self.last_faults.insert((pid, tid), name.clone());
        let (argument, since_ns) = (u64::from(tid), sample.since_ns());
        self.faults.push(NamedSet { pid, syscall: PAGE_FAULT, argument, since_ns, name });
    }

    fn look_at_descriptor(&mut self, call: &WaitingCall<'_>) {
        let WaitingCall { pid, args, since_ns, .. } = *call;
        let Some(number) = u32::try_from(args[0]).ok().filter(|number| *number < 1 << 20) else { return };
        let begin = Instant::now();
        let known = self.current.get(&(pid, number));
        if known.is_some_and(|known| begin < known.next_look) {
            return;
        }
        let file = match open_file(pid, number, &mut self.sockets) {
            Ok(file) => file,
            // What was seen before still holds for the time before.
            Err(NotOpen::Gone) => return,
            Err(NotOpen::Denied) => OpenFile { link: String::new(), members: None },
        };
        let is_new = known.is_none_or(|known| known.file != file);
        let longer = if is_new { 1 } else { LONGER_UNCHANGED };
        let pause = if file.members.is_some() {
            begin.elapsed() * of_detail(REST_TIMES, self.detail)
        } else {
            Duration::ZERO
        };
        let next_look = begin + pause.min(LONGEST_PAUSE) * longer;
        self.current.insert((pid, number), LookedAtFile { next_look, file: file.clone() });
        if !is_new {
            return;
        }
        self.want_other_ends(pid, &file);
        self.seen.push(SeenDescriptor { pid, number, since_ns, file });
    }

    fn look_at_set(&mut self, call: &WaitingCall<'_>, syscall: u32) {
        let WaitingCall { pid, args, since_ns, .. } = *call;
        let key = (pid, syscall, args[0]);
        let known = self.current_sets.get(&key);
        if known.is_some_and(|known| since_ns < known.since_ns.saturating_add(SETS_EVERY_NS)) {
            return;
        }
        let Some(file) = self.set_calls.set_of(syscall, call, &mut self.sockets) else { return };
        let is_new = known.is_none_or(|known| known.file != file);
        self.current_sets.insert(key, LookedAtSet { since_ns, file: file.clone() });
        if is_new {
            self.want_other_ends(pid, &file);
            self.seen_sets.push(SeenSet { pid, syscall, argument: args[0], since_ns, file });
        }
    }

    fn want_other_ends(&mut self, pid: u32, file: &OpenFile) {
        let Some(other_ends) = &mut self.other_ends else { return };
        for link in file.links() {
            other_ends.want(WantedEnd { pid, link: link.to_owned(), ends: self.sockets.ends_of(link) });
        }
    }

    /// Forgets descriptors of processes that have ended, and those that were others by then. Only in a recording that
    /// goes on all the time: any other keeps all its waits.
    fn forget_before(&mut self, ns: u64) {
        if self.detail != WaitDetail::Always {
            return;
        }
        let mut lives = FxHashMap::default();
        let mut is_kept = |pid: u32, since_ns: u64, is_current: bool| {
            since_ns >= ns || is_current && *lives.entry(pid).or_insert_with(|| proc::is_alive(pid))
        };
        let (current, sets) = (&self.current, &self.current_sets);
        self.seen.retain(|of| {
            let now = current.get(&(of.pid, of.number));
            is_kept(of.pid, of.since_ns, now.is_some_and(|now| now.file == of.file))
        });
        self.seen_sets.retain(|of| {
            let now = sets.get(&(of.pid, of.syscall, of.argument));
            is_kept(of.pid, of.since_ns, now.is_some_and(|now| now.file == of.file))
        });
        self.faults.retain(|of| is_kept(of.pid, of.since_ns, false));
        self.last_faults.clear();
        self.current.retain(|(pid, _), _| is_kept(*pid, 0, true));
        self.current_sets.retain(|(pid, _, _), of| is_kept(*pid, of.since_ns, true));
        let files = self.seen.iter().map(|of| &of.file).chain(self.seen_sets.iter().map(|of| &of.file));
        let links: FxHashSet<&str> = files.flat_map(OpenFile::links).collect();
        self.sockets.keep(&links);
        self.other_ends.iter_mut().for_each(|ends| ends.keep(&links));
    }

    /// All names, once recording has ended.
    pub fn finish(&mut self) -> NamedDescriptors {
        let found = self.other_ends.take().map(OtherEnds::finish).unwrap_or_default();
        self.named(found)
    }

    fn named(&self, mut ends: Found) -> NamedDescriptors {
        ends.add_seen(self.sockets.all());
        let mut table = MemberTable::new(&ends);
        for SeenDescriptor { pid, number, since_ns, file } in &self.seen {
            let call = CallOfWait { pid: *pid, syscall: NAMED_ONE_BY_ONE, argument: u64::from(*number) };
            table.add(call, *since_ns, file);
        }
        for SeenSet { pid, syscall, argument, since_ns, file } in &self.seen_sets {
            table.add(CallOfWait { pid: *pid, syscall: *syscall, argument: *argument }, *since_ns, file);
        }
        let members = table.finish();
        let named = |seen: &SeenDescriptor| NamedDescriptor {
            pid: seen.pid,
            number: seen.number,
            since_ns: seen.since_ns,
            name: name_of(&seen.file, &|link| ends.name(seen.pid, link)),
        };
        let named_set = |seen: &SeenSet| NamedSet {
            pid: seen.pid,
            syscall: seen.syscall,
            argument: seen.argument,
            since_ns: seen.since_ns,
            name: name_of(&seen.file, &|link| ends.name(seen.pid, link)),
        };
        let mut all: Vec<_> = self.seen.iter().map(named).collect();
        all.sort_by_key(|named| (named.pid, named.number, named.since_ns));
        let mut sets: Vec<_> = self.seen_sets.iter().map(named_set).collect();
        sets.extend(self.faults.iter().cloned());
        sets.sort_by_key(|set| (set.pid, set.syscall, set.argument, set.since_ns));
        NamedDescriptors {
            calls: self.calls.clone(),
            all,
            set_calls: self.set_calls.numbers(),
            sets,
            members,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_takes_a_descriptor_and_waiting_for_a_child_does_not() {
        let table = CallTable::of_this_processor();
        let calls = calls_with_descriptor(&table);
        let nr = |wanted: &str| {
            table.names().find(|(_, name)| *name == wanted).map(|(nr, _)| u32::from(nr)).expect("it exists")
        };
        for call in ["read", "epoll_pwait", "accept4", "recvfrom", "flock"] {
            assert!(calls.contains(&nr(call)), "{call}");
        }
        for call in ["wait4", "futex", "clock_nanosleep", "ppoll"] {
            assert!(!calls.contains(&nr(call)), "{call}");
        }
    }
}
