//! A tree in fewer frames: without the code between a program and the kernel's work, start-up code, and repeats.

use super::start_up::{is_runtime_start, is_start_of_main, is_start_up};
use super::{FrameKind, NameId, Node, NodeId, NodeNote, Tree};
use rustc_hash::FxHashMap;

/// Functions that call each other in a circle of at most this many are folded.
const LONGEST_CIRCLE: usize = 4;

/// Role of a frame's function, as far as folding asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Before the program's own functions.
    StartUp,
    /// The same; its caller is `_start`, whether it has a name or not.
    StartMain,
    /// The same of a runtime, right below a process or its start-up code.
    StartRuntime,
    /// The way into the kernel, without a name for its work.
    Entry,
    /// The way into the kernel; the frame in its place.
    Work(NameId),
    /// The same right after [`Part::Entry`], elsewhere a function like others.
    Call(NameId),
    /// Puts the thread to sleep.
    Sleep,
    /// Any other of the kernel.
    Kernel,
    /// A state or a waker.
    Waiting,
    /// All others.
    Own,
}

impl Tree {
    /// The same stacks in fewer frames, for pictures. The way into the kernel is one frame with the kernel's work:
    /// `kernel: read()`. All the kernel's frames of a wait are that frame. Start-up frames are left out. Functions that
    /// call themselves, directly or in a short circle, are there once, with a note. Of a waker's request only the kernel's
    /// work is left. Values are the same.
    #[must_use]
    pub fn condensed(&self) -> Self {
        let mut fold = Fold::new(self);
        for leaf in self.leaves().filter(|&leaf| leaf != Self::ROOT) {
            let path = fold.names(&self.path(leaf));
            fold.add(&path, self.node(leaf));
        }
        fold.copy_notes(self);
        fold.tree
    }
}

struct Fold {
    tree: Tree,
    parts: Vec<Part>,
    entry: NameId,
}

impl Fold {
    fn new(of: &Tree) -> Self {
        let mut tree = Tree { nodes: vec![of.nodes[0].clone()], ..Tree::new(of.unit.clone()) };
        (tree.names, tree.by_name, tree.waiting) = (of.names.clone(), of.by_name.clone(), of.waiting);
        let parts: Vec<Part> = of.names().map(|(name, kind)| part_of(&mut tree, name, kind)).collect();
        let entry = tree.intern("kernel", FrameKind::Kernel);
        Self { tree, parts, entry }
    }

    fn part(&self, name: NameId) -> Part {
        self.parts.get(name.index()).copied().unwrap_or(Part::Kernel)
    }

    /// The path without start-up frames, and with the kernel's parts folded.
    fn names(&self, path: &[NameId]) -> Vec<NameId> {
        let is_kernel = |name: NameId| {
            matches!(
                self.part(name),
                Part::Entry | Part::Work(_) | Part::Call(_) | Part::Sleep | Part::Kernel
            )
        };
        let mut names = Vec::with_capacity(path.len());
        let mut runs = path.chunk_by(|&a, &b| is_kernel(a) == is_kernel(b)).peekable();
        while let Some(run) = runs.next() {
            let after_wait = names.last().is_some_and(|&name| self.part(name) == Part::Waiting);
            if is_kernel(run[0]) && after_wait {
                self.waker_kernel(run, &mut names);
            } else if is_kernel(run[0]) {
                let is_wait = runs.peek().is_some_and(|next| self.part(next[0]) == Part::Waiting);
                self.kernel(run, is_wait, &mut names);
            } else {
                self.outside(run, &mut names);
            }
        }
        names
    }

    /// Frames outside the kernel, outermost first.
    fn outside(&self, run: &[NameId], names: &mut Vec<NameId>) {
        let mut has_start = false;
        for &name in run {
            match self.part(name) {
                // Its caller, if that is all there is below the process.
                Part::StartMain if names.len() == 2 => _ = names.pop(),
                Part::StartUp | Part::StartMain => has_start = true,
                Part::StartRuntime if has_start && names.len() == 1 => {}
                _ => names.push(name),
            }
        }
    }

    /// Frames of the kernel, outermost first.
    fn kernel(&self, run: &[NameId], is_wait: bool, names: &mut Vec<NameId>) {
        let begin = names.len();
        let mut rest = run;
        while let [first, ..] = rest {
            let (way, work) = self.way_in(rest);
            if way == 0 && !(is_wait && self.part(*first) == Part::Sleep) {
                names.push(*first);
            }
            if way > 0 {
                names.push(work.unwrap_or(self.entry));
            }
            if work.is_some() && is_wait && names.len() == begin + 1 {
                return;
            }
            rest = &rest[way.max(1)..];
        }
    }

    /// Frames of the kernel in a waker's stack, innermost first: its request, if there is one, else all.
    fn waker_kernel(&self, run: &[NameId], names: &mut Vec<NameId>) {
        let outermost_first: Vec<NameId> = run.iter().rev().copied().collect();
        match self.way_in(&outermost_first) {
            (_, Some(work)) => names.push(work),
            _ => names.extend_from_slice(run),
        }
    }

    /// How many frames at the begin are the way in, and the frame for the kernel's work.
    fn way_in(&self, run: &[NameId]) -> (usize, Option<NameId>) {
        let is_way = |name: &&NameId| matches!(self.part(**name), Part::Entry | Part::Work(_));
        let way = run.iter().take_while(is_way).count();
        let work = run[..way].iter().find_map(|&name| match self.part(name) {
            Part::Work(work) => Some(work),
            _ => None,
        });
        match (work, run.get(way).map(|&name| self.part(name))) {
            (None, Some(Part::Call(call))) if way > 0 => (way + 1, Some(call)),
            _ => (way, work),
        }
    }

    /// Adds a stack, its repeats once.
    fn add(&mut self, path: &[NameId], of: &Node) {
        let mut once: Vec<(NameId, u32)> = Vec::with_capacity(path.len());
        for &name in path {
            once.push((name, 1));
            while let Some(circle) = circle_at_end(&once) {
                once.truncate(once.len() - circle);
                let last = once.last_mut().expect("invariant: a circle was before this one");
                last.1 = last.1.saturating_add(1);
            }
        }
        let mut node = Tree::ROOT;
        for (name, times) in once {
            node = self.tree.child(node, name);
            if times > 1 {
                let note = self.tree.notes.entry(node).or_insert(NodeNote::Repeats(times));
                *note = (*note).max(NodeNote::Repeats(times));
            }
        }
        self.tree.add(node, of.own, of.samples);
    }

    /// Notes of processes, which are at the root in both.
    fn copy_notes(&mut self, of: &Tree) {
        let tops: FxHashMap<NameId, NodeId> = self
            .tree
            .nodes_with_parents()
            .filter(|(_, parent)| *parent == Tree::ROOT)
            .map(|(id, _)| (self.tree.node(id).name, id))
            .collect();
        for (&node, &note) in of.notes.iter().filter(|(node, _)| of.node(**node).parent == Tree::ROOT) {
            if let Some(&here) = tops.get(&of.node(node).name) {
                self.tree.notes.insert(here, note);
            }
        }
    }
}

/// Functions at the end that are the same as those before them: how many.
fn circle_at_end(path: &[(NameId, u32)]) -> Option<usize> {
    let same = |&circle: &usize| {
        let Some(begin) = path.len().checked_sub(2 * circle) else { return false };
        let (before, now) = path[begin..].split_at(circle);
        before.iter().zip(now).all(|(a, b)| a.0 == b.0)
    };
    (1..=LONGEST_CIRCLE).find(same)
}

fn part_of(tree: &mut Tree, name: &str, kind: FrameKind) -> Part {
    match kind {
        FrameKind::Waiting => Part::Waiting,
        FrameKind::Kernel => {
            let name = name.strip_suffix("_[k]").unwrap_or(name);
            let mut call =
                |call: &str| tree.intern(&format!("kernel: {}()", call.trim_start_matches("new")), kind);
            match kernel_work(name) {
                Some("page fault") => Part::Work(tree.intern("kernel: page fault", kind)),
                Some("interrupt") => Part::Work(tree.intern("kernel: interrupt", kind)),
                Some(work) => Part::Work(call(work)),
                None if is_entry(name) => Part::Entry,
                None if is_sleep(name) => Part::Sleep,
                None => call_after_entry(name).map_or(Part::Kernel, |work| Part::Call(call(work))),
            }
        }
        _ if is_start_of_main(name) => Part::StartMain,
        _ if is_start_up(name) => Part::StartUp,
        _ if is_runtime_start(name) => Part::StartRuntime,
        _ => Part::Own,
    }
}

/// Request to the kernel, by the function that serves it: `futex`, `page fault`.
pub(crate) fn kernel_work(name: &str) -> Option<&str> {
    let call = ["__x64_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_"];
    if let Some(call) = call.iter().find_map(|prefix| name.strip_prefix(prefix)) {
        return Some(call);
    }
    match name {
        "asm_exc_page_fault" | "exc_page_fault" | "do_user_addr_fault" | "el0_da" => Some("page fault"),
        _ if name.starts_with("asm_sysvec_") || name.starts_with("sysvec_") => Some("interrupt"),
        "asm_common_interrupt" | "common_interrupt" => Some("interrupt"),
        _ => None,
    }
}

/// The system call by the first function in the kernel, where the one that serves the call left no frame.
pub(crate) fn call_after_entry(name: &str) -> Option<&str> {
    ["ksys_", "do_sys_", "kernel_", "do_"].iter().find_map(|prefix| name.strip_prefix(prefix))
}

/// Between the instruction that enters the kernel and the function that serves a system call.
pub(crate) fn is_entry(name: &str) -> bool {
    let name = name.split_once('.').map_or(name, |(name, _)| name);
    name.starts_with("entry_SYSCALL")
        || name.starts_with("entry_INT80")
        || matches!(
            name,
            "do_syscall_64"
                | "x64_sys_call"
                | "do_int80_syscall_32"
                | "el0t_64_sync"
                | "el0t_64_sync_handler"
                | "el0_svc"
                | "do_el0_svc"
                | "el0_svc_common"
                | "invoke_syscall"
                | "asm_exc_nmi"
        )
}

fn is_sleep(name: &str) -> bool {
    name.starts_with("schedule") || matches!(name, "__schedule" | "io_schedule" | "preempt_schedule_common")
}

#[cfg(test)]
mod tests {
    use super::super::Unit;
    use super::*;

    /// Stacks as `name;name`: those with `k:` are of the kernel, those in brackets states.
    fn condensed(stacks: &[(&str, u64)]) -> (Vec<(String, u64)>, Tree) {
        let mut tree = Tree::new(Unit::Samples);
        for (stack, count) in stacks {
            let kind = |name: &str| match name {
                _ if name.starts_with('[') => FrameKind::Waiting,
                _ if name.starts_with("k:") => FrameKind::Kernel,
                "app" => FrameKind::Task,
                _ => FrameKind::Program,
            };
            let names: Vec<NameId> =
                stack.split(';').map(|name| tree.intern(name.trim_start_matches("k:"), kind(name))).collect();
            tree.add_path(&names, *count, *count);
        }
        let condensed = tree.condensed();
        assert_eq!(condensed.totals()[0], tree.totals()[0], "values are the same");
        let text = |leaf: NodeId| {
            let path = condensed.path(leaf);
            let names: Vec<&str> = path.iter().map(|&name| condensed.name(name)).collect();
            (names.join(";"), condensed.node(leaf).own)
        };
        (condensed.leaves().map(text).collect(), condensed)
    }

    fn paths(stacks: &[(&str, u64)]) -> Vec<(String, u64)> {
        condensed(stacks).0
    }

    const WAY: &str = "k:entry_SYSCALL_64_after_hwframe;k:do_syscall_64;k:x64_sys_call;k:__x64_sys_read";

    #[test]
    fn a_wait_has_one_frame_of_the_kernel_and_running_keeps_its_functions() {
        let wait = format!("app;_start;main;{WAY};k:vfs_read;k:schedule;[disk]");
        let runs = format!("app;_start;main;{WAY};k:vfs_read;k:copy_page");
        assert_eq!(
            paths(&[(&wait, 3), (&runs, 2)]),
            [
                ("app;main;kernel: read();[disk]".to_owned(), 3),
                ("app;main;kernel: read();vfs_read;copy_page".to_owned(), 2)
            ]
        );
    }

    #[test]
    fn a_waker_has_one_frame_of_the_kernel_unless_an_interrupt_ran_it() {
        let sleeper = format!("app;main;{WAY};k:schedule;[disk];[woken by it]");
        let kill = "k:try_to_wake_up;k:__wake_up;k:__x64_sys_kill;k:do_syscall_64;kill;work";
        assert_eq!(
            paths(&[
                (&format!("{sleeper};{kill}"), 2),
                (&format!("{sleeper};k:try_to_wake_up;k:timer_fn"), 1)
            ]),
            [
                ("app;main;kernel: read();[disk];[woken by it];kernel: kill();kill;work".to_owned(), 2),
                ("app;main;kernel: read();[disk];[woken by it];try_to_wake_up;timer_fn".to_owned(), 1)
            ]
        );
    }

    #[test]
    fn waits_of_kernel_threads_lose_only_their_sleeping() {
        let stack = "app;k:kthread;k:worker;k:schedule_timeout;k:__schedule;[timer]";
        assert_eq!(paths(&[(stack, 1)]), [("app;kthread;worker;[timer]".to_owned(), 1)]);
    }

    #[test]
    fn an_interrupt_in_a_call_and_a_way_without_a_name_stay_visible() {
        let stack = format!("app;main;{WAY};k:do_read;k:asm_sysvec_x;k:sysvec_x;k:irq_exit");
        let exit = "app;main;k:do_syscall_64;k:exit_to_user_mode";
        assert_eq!(
            paths(&[(&stack, 1), (exit, 1)]),
            [
                ("app;main;kernel: read();do_read;kernel: interrupt;irq_exit".to_owned(), 1),
                ("app;main;kernel;exit_to_user_mode".to_owned(), 1)
            ]
        );
    }

    #[test]
    fn a_call_has_its_name_from_the_function_after_the_way_in_and_a_nameless_start_is_left_out() {
        let stack = "app;function 0x3df0;__libc_start_main@@GLIBC_2.34;__libc_start_call_main;main;\
                     k:do_syscall_64;k:ksys_write;k:pipe_write;[pipe]";
        assert_eq!(paths(&[(stack, 1)]), [("app;main;kernel: write();[pipe]".to_owned(), 1)]);
    }

    #[test]
    fn a_runtimes_start_is_left_out_below_a_threads_start_only() {
        let started =
            "app;clone3;start_thread;Thread._bootstrap (threading.py);Thread.run (threading.py);work";
        let called = "app;work;Thread.run (threading.py);f";
        let cut = "app;Thread.run (threading.py);g";
        assert_eq!(
            paths(&[(started, 1), (called, 2), (cut, 3)]),
            [
                ("app;work".to_owned(), 1),
                ("app;work;Thread.run (threading.py);f".to_owned(), 2),
                ("app;Thread.run (threading.py);g".to_owned(), 3)
            ]
        );
    }

    #[test]
    fn recursion_is_one_frame_that_counts_and_so_is_a_circle() {
        let (paths, tree) = condensed(&[("app;f;f;f;g", 1), ("app;f;f", 2), ("app;a;b;a;b;a;b;a;c", 4)]);
        let shown: Vec<(&str, u64)> = paths.iter().map(|(path, own)| (path.as_str(), *own)).collect();
        assert_eq!(shown, [("app;f", 2), ("app;f;g", 1), ("app;a;b;a;c", 4)]);
        let noted: Vec<(&str, NodeNote)> = (0..tree.len())
            .filter_map(|at| Some((at, tree.note(NodeId::from_index(at))?)))
            .map(|(at, note)| (tree.name(tree.nodes[at].name), note))
            .collect();
        assert_eq!(noted, [("f", NodeNote::Repeats(3)), ("b", NodeNote::Repeats(3))]);
    }
}
