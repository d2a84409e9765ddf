//! Callers in Go programs while a thread is on its own stack: the goroutine's, which grows, or calls the runtime.
//!
//! The BPF program of samples (`bpf/python/goroutine.h`) follows the goroutine's frame pointers, once it knows where
//! this version of Go keeps them. The unwinding thread appends what it found to the frames of the thread's own stack.

use std::path::Path;

use dso::unwind::{GoStackChange, GoroutineLayout};
use dso::{MapLine, ObjectFile};
use rustc_hash::FxHashMap;

use crate::machine::objects::{FileMapping, open_object};
use crate::machine::proc;

/// Frames of one goroutine: deeper recursion doesn't fit a sample.
const MOST_FRAMES: usize = 8192;
/// A word's address; the bits above count its repeats.
const ADDRESS: u64 = 0x0000_ffff_ffff_ffff;

/// A goroutine as it was copied at a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goroutine {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// The thread's stack pointer at the sample.
    pub sp: u64,
    /// `PY_GO`'s words.
    pub words: Vec<u64>,
    /// It has more frames than were copied.
    pub is_cut: bool,
}

impl Goroutine {
    /// Return addresses, innermost first, where the thread changed stacks so; `None` if the thread has left it.
    #[must_use]
    pub fn callers(&self, change: GoStackChange) -> Option<Vec<u64>> {
        let [left_off, at_sp, rest @ ..] = &self.words[..] else { return None };
        // `systemstack` pretends to have left off in another function; its own frame is known already.
        let left_off = Some(*left_off).filter(|_| change == GoStackChange::Growth);
        let at_sp = Some(*at_sp).filter(|address| *address != 0);
        let repeated = |word: &u64| std::iter::repeat_n(word & ADDRESS, 1 + (word >> 48) as usize);
        let frames = rest.iter().flat_map(repeated);
        Some(left_off.into_iter().chain(at_sp).chain(frames).take(MOST_FRAMES).collect())
    }
}

/// The programs looked at, by name and inode, and what is different among Go's.
#[derive(Debug, Default)]
pub struct GoPrograms {
    known: FxHashMap<(Vec<u8>, u64), Option<GoroutineLayout>>,
    layouts: Vec<GoroutineLayout>,
}

impl GoPrograms {
    /// Looks at the program that this process runs; true if it is Go's and has a layout that was not known.
    pub fn look_at(&mut self, pid: u32) -> bool {
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let program = program.as_os_str().as_encoded_bytes();
        let lines = proc::maps(pid).unwrap_or_default();
        let code = |of: &&MapLine| of.prot & libc::PROT_EXEC as u32 != 0 && of.name == program;
        lines.iter().find(code).is_some_and(|line| self.look_at_file(pid, line))
    }

    fn look_at_file(&mut self, pid: u32, line: &MapLine) -> bool {
        let key = (line.name.clone(), line.inode);
        let read = || {
            let object = open_object(&[pid], &FileMapping::of_line(line))?;
            GoroutineLayout::of_object(&object)
        };
        let layout = *self.known.entry(key).or_insert_with(read);
        layout.is_some_and(|layout| self.add(layout))
    }

    /// True if that changes the layouts. A thread is of the first one that its registers fit, so a program that never sets
    /// labels must not have one of its own before that of a program that does.
    fn add(&mut self, layout: GoroutineLayout) -> bool {
        let without_labels = |of: &GoroutineLayout| GoroutineLayout { labels: None, ..*of };
        let is_alike = |of: &GoroutineLayout| without_labels(of) == without_labels(&layout);
        if self.layouts.iter().any(|of| is_alike(of) && (layout.labels.is_none() || *of == layout)) {
            return false;
        }
        match self.layouts.iter_mut().find(|of| is_alike(of) && of.labels.is_none()) {
            Some(known) => known.labels = layout.labels,
            None => self.layouts.push(layout),
        }
        true
    }

    /// Adds the layout of the program in this file, if it is Go's.
    pub fn learn(&mut self, file: &Path) {
        let object =
            dso::elf::file_rule().open(file).ok().and_then(|of| ObjectFile::from_file(of, file).ok());
        let layout = object.and_then(|object| GoroutineLayout::of_object(&object));
        let _ = layout.is_some_and(|layout| self.add(layout));
    }

    /// All layouts found.
    #[must_use]
    pub fn layouts(&self) -> &[GoroutineLayout] {
        &self.layouts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goroutine(time_ns: u64, words: &[u64]) -> Goroutine {
        Goroutine { time_ns, sp: 0, words: words.to_vec(), is_cut: false }
    }

    #[test]
    fn a_program_without_labels_does_not_hide_those_of_another_one() {
        let of = |labels| GoroutineLayout {
            g_m: 48,
            m_g0: 0,
            m_curg: 192,
            sched_sp: 56,
            sched_pc: 64,
            sched_bp: 104,
            labels,
        };
        let mut programs = GoPrograms::default();
        assert!(programs.add(of(None)) && !programs.add(of(None)));
        assert!(programs.add(of(Some(360))));
        assert!(!programs.add(of(Some(360))) && !programs.add(of(None)));
        assert_eq!(programs.layouts(), [of(Some(360))]);
        // Another version of Go.
        assert!(programs.add(GoroutineLayout { m_curg: 184, ..of(None) }));
        assert_eq!(programs.layouts().len(), 2);
    }

    #[test]
    fn a_growing_functions_own_address_is_the_first_of_its_callers() {
        let copied = goroutine(0, &[10, 20, 30 | 2 << 48, 40]);
        assert_eq!(copied.callers(GoStackChange::Growth), Some(vec![10, 20, 30, 30, 30, 40]));
        let copied = goroutine(0, &[10, 0, 30, 40]);
        assert_eq!(copied.callers(GoStackChange::Call), Some(vec![30, 40]));
        assert_eq!(goroutine(0, &[]).callers(GoStackChange::Growth), None);
        let endless = goroutine(0, &[10, 0, 30 | 0xffff << 48]);
        assert_eq!(endless.callers(GoStackChange::Call).map(|all| all.len()), Some(MOST_FRAMES));
    }
}
