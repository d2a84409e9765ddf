//! The work of a reader: takes what was copied, and looks at processes for interpreters.

use std::sync::Arc;
use std::time::Duration;

use perfdata::PidTid;

use super::super::binary::FoundPython;
use super::super::engine::PythonEngine;
use super::super::frames::{PythonProcess, open_memory, read_memory};
use super::super::layout::{CopiedAt, RING_WORDS, RingRecord, layout_of};
use super::super::stack_store::PythonStack;
use super::super::weave::FramesEnd;
use super::{
    ANY_SPACE, CALM_TICK, QUIET_NS, QUIET_TICK, RawStack, Reader, SHARE_OF_AGE, SHORT_TICK, StackMoment,
    TICK, YOUNG_NS, YoungProcess,
};
use crate::sys::SharedSlots;
use crate::sys::time::Clock;

impl Reader {
    /// Looks at everything; how long to wait until the next time.
    pub(super) fn tick(&mut self) -> Duration {
        self.poll();
        let now_ns = Clock::Monotonic.now_ns();
        for young in std::mem::take(&mut self.young) {
            let is_found = has_python_name(young.pid) && self.look_at(young.pid, young.mm);
            if !is_found && now_ns < young.until_ns {
                self.young.push(young);
            }
        }
        self.wake_dormant();
        if self.is_pressed { SHORT_TICK } else { self.next_look(now_ns) }
    }

    /// Until the youngest program is looked at again.
    fn next_look(&self, now_ns: u64) -> Duration {
        let ages = self.young.iter().map(|young| now_ns.saturating_sub(young.since_ns));
        let least = ages.min().map(|age_ns| Duration::from_nanos(age_ns / SHARE_OF_AGE));
        let is_calm = self.processes.is_empty() && self.go_programs.layouts().is_empty();
        let calm = match is_calm {
            true if now_ns > self.came_ns + QUIET_NS => QUIET_TICK,
            true => CALM_TICK,
            false => TICK,
        };
        least.map_or(calm, |after| after.clamp(SHORT_TICK, TICK))
    }

    /// Takes what was copied at a sample of this time: it is in its ring before the sample is in its own.
    pub(super) fn poll_up_to(&mut self, time_ns: u64) {
        if self.polled_ns <= time_ns + TICK.as_nanos() as u64 / 4 {
            self.poll();
        }
    }

    fn poll(&mut self) {
        let now_ns = Clock::Monotonic.now_ns();
        let mut records = Vec::new();
        let mut words = std::mem::take(&mut self.words);
        let poll = |engine: &PythonEngine| engine.poll(&mut words, &mut |record| records.push(record));
        let most_words = self.engine.as_ref().map_or(0, poll);
        self.is_pressed = most_words > RING_WORDS / 16;
        self.words = words;
        self.polled_ns = now_ns;
        for record in records {
            if self.is_new(&record) {
                self.came_ns = now_ns;
            }
            self.take(record, now_ns);
        }
    }

    /// False for a question about a process that was asked about before.
    fn is_new(&mut self, record: &RingRecord) -> bool {
        /// More are forgotten.
        const MOST: usize = 4096;
        let RingRecord::Unknown { pid, mm } = *record else { return true };
        if self.asked.len() >= MOST {
            self.asked.clear();
        }
        self.asked.insert((pid, mm))
    }

    fn take(&mut self, record: RingRecord, now_ns: u64) {
        match record {
            RingRecord::Unknown { pid, mm } => {
                if self.look_at(pid, mm) {
                    return;
                }
                if self.go_programs.look_at(pid) {
                    self.know_go();
                }
                if has_python_name(pid) {
                    self.young.push(YoungProcess { pid, mm, since_ns: now_ns, until_ns: now_ns + YOUNG_NS });
                }
            }
            RingRecord::Labels { when, time_ns, tid, labels } => {
                self.labels.keep(tid, (when, time_ns), labels)
            }
            RingRecord::Goroutine { when, tid, goroutine, .. } => self.goroutines.keep(tid, when, goroutine),
            RingRecord::Frames { when, time_ns, pid, tid, end, frames } => {
                self.keep(PidTid { pid, tid }, when, RawStack { time_ns, end, frames });
            }
        }
    }

    /// Names a stack's functions, and keeps it.
    pub(super) fn keep(&mut self, task: PidTid, when: CopiedAt, stack: RawStack) {
        let Some(process) = self.processes.get_mut(&task.pid) else { return };
        let RawStack { time_ns, end, frames } = stack;
        let (groups, is_known) = process.groups_of(&frames, &mut self.functions, self.polled_ns);
        // The first thread has its program's name.
        if task.pid != task.tid && !groups.is_empty() {
            self.thread_names.extend(process.new_name(task.tid).map(|name| (task.tid, name)));
        }
        let end = if is_known { end } else { end.with_unknown() };
        self.store.keep(task.tid, when, PythonStack { time_ns, groups: Arc::new(groups), end });
    }

    /// The moment to ask the store for. Where timers take the samples, a long wait is written in pieces, and read once.
    pub(super) const fn moment_of_copy(&self, moment: StackMoment) -> StackMoment {
        match moment {
            StackMoment::Wait { time_ns, .. } if self.timers.is_some() => {
                StackMoment::Wait { since_ns: 0, time_ns }
            }
            other => other,
        }
    }

    /// The threads of a process just found that wait already.
    fn read_waiting(&mut self, pid: u32) {
        let waiting = self.processes.get(&pid).map_or_else(Vec::new, |process| process.waiting(pid));
        let time_ns = Clock::Monotonic.now_ns();
        for (tid, frames) in waiting {
            self.keep(
                PidTid { pid, tid },
                CopiedAt::Switch,
                RawStack { time_ns, end: FramesEnd::Start, frames },
            );
        }
    }

    /// Copies frames of a found process from now on.
    pub(super) fn watch(&mut self, pid: u32) {
        let Some(process) = self.processes.get(&pid) else { return };
        let layout = layout_of(&process.interpreter.offsets, process.interpreter.runtime);
        let words = layout.to_words(process.mm);
        if let Some(engine) = &mut self.engine {
            engine.watch(pid, words);
        }
        if let Some(slots) = self.slots() {
            slots.watch_python(pid, &words);
        }
    }

    /// Copies goroutines of the Go programs found.
    pub(super) fn know_go(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.know_go(self.go_programs.layouts());
            if !self.go_programs.layouts().is_empty() {
                engine.copy_at_switches();
            }
        }
    }

    /// Copies no more frames of a process.
    pub(super) fn forget(&mut self, pid: u32) {
        self.labels.forget_process(pid);
        if self.processes.remove(&pid).is_none() {
            return;
        }
        if let Some(engine) = &mut self.engine {
            engine.forget(pid);
        }
        if let Some(slots) = self.slots() {
            slots.forget_python(pid);
        }
    }

    fn slots(&self) -> Option<&SharedSlots> {
        self.timers.as_ref()?.slots.as_deref()
    }

    /// Looks at a process that timers have sampled, if it is not known: at its first sample, its second, its fourth …
    pub(super) fn meet(&mut self, pid: u32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        let Some(timers) = &mut self.timers else { return };
        let (samples, next) = timers.misses.entry(pid).or_insert((0, 1));
        *samples = samples.saturating_add(1);
        if *samples == *next {
            *next = next.saturating_mul(2);
            self.look_at(pid, ANY_SPACE);
        }
    }

    /// Looks which interpreters have begun since the last time.
    pub(super) fn wake_dormant(&mut self) {
        for pid in std::mem::take(&mut self.dormant) {
            let Some(process) = self.processes.get(&pid) else { continue };
            if !process.has_begun() {
                self.dormant.push(pid);
                continue;
            }
            let name = process.interpreter.binary.name.clone();
            if !self.runtimes.contains(&name) {
                self.runtimes.push(name);
            }
            if let Some(engine) = &mut self.engine {
                engine.copy_at_switches();
            }
            self.read_waiting(pid);
        }
    }

    /// Whether a process has a Python interpreter. If so its frames are copied from now on.
    pub(super) fn look_at(&mut self, pid: u32, mm: u64) -> bool {
        if pid == std::process::id() {
            return false;
        }
        let mm = if self.timers.is_some() { ANY_SPACE } else { mm };
        let memory = open_memory(pid);
        let read = |at: u64, into: &mut [u8]| memory.as_ref().is_some_and(|m| read_memory(m, at, into));
        match self.binaries.find_in(pid, &read) {
            FoundPython::Interpreter(interpreter) => {
                self.processes.insert(pid, PythonProcess::new(pid, *interpreter, mm));
                self.watch(pid);
                self.dormant.push(pid);
                self.wake_dormant();
                return true;
            }
            FoundPython::Unknown(version) if !self.unknown.contains(&version) => self.unknown.push(version),
            FoundPython::Unknown(_) | FoundPython::Nothing => {}
        }
        false
    }
}

/// Whether the program's file is named after Python.
fn has_python_name(pid: u32) -> bool {
    let file = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"))
}

#[cfg(test)]
mod tests {
    use super::super::PythonReader;
    use super::*;

    #[test]
    fn a_repeated_question_about_a_process_is_not_news() {
        let reader = PythonReader::new(None);
        let mut reader = reader.lock();
        let asked = |pid, mm| RingRecord::Unknown { pid, mm };
        assert!(reader.is_new(&asked(7, 77)));
        assert!(!reader.is_new(&asked(7, 77)));
        // Another process, and another program in the same one.
        assert!(reader.is_new(&asked(8, 77)) && reader.is_new(&asked(7, 78)));
        assert!(!reader.is_new(&asked(7, 77)) && !reader.is_new(&asked(8, 77)));
        let (when, time_ns, end) = (CopiedAt::Sample, 1, FramesEnd::Start);
        let frames = || RingRecord::Frames { when, time_ns, pid: 7, tid: 7, end, frames: Vec::new() };
        assert!(reader.is_new(&frames()) && reader.is_new(&frames()));
    }

    #[test]
    fn questions_asked_long_ago_are_forgotten() {
        let reader = PythonReader::new(None);
        let mut reader = reader.lock();
        let news = (0..10_000).filter(|&pid| reader.is_new(&RingRecord::Unknown { pid, mm: 1 })).count();
        assert_eq!(news, 10_000);
        assert!(reader.asked.len() <= 4096);
        assert!(reader.is_new(&RingRecord::Unknown { pid: 0, mm: 1 }));
    }

    #[test]
    fn the_rings_are_looked_at_seldom_once_nothing_new_has_come() {
        let reader = PythonReader::new(None);
        let mut reader = reader.lock();
        let later_ns = reader.came_ns + QUIET_NS + 1;
        assert_eq!(reader.next_look(reader.came_ns), CALM_TICK);
        assert_eq!(reader.next_look(later_ns), QUIET_TICK);
        reader.came_ns = later_ns;
        assert_eq!(reader.next_look(later_ns + QUIET_NS), CALM_TICK);
    }
}
