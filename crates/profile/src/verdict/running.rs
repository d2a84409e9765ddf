//! Where threads run: in the program's own code or in the kernel, what brought them there, and from where.

use super::brief;
use crate::grow::{Grow as _, GrownSum as _};
use crate::profile::Profile;
use crate::table::CallsiteId;
use crate::view::wall::{
    Wall, is_kernel, is_thread_start, kernel_frames, name_of, place_names, running_paths,
};
use std::collections::BTreeMap;

/// Ways into the code that a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryReason {
    /// The program's code, its libraries'.
    User,
    /// The kernel, for a system call.
    Call,
    /// The kernel, for a page fault.
    Fault,
    /// The kernel, for an interrupt that hit this thread by chance.
    Interrupt,
    /// The kernel, for none of these, or not known from its frames.
    Other,
}

impl EntryReason {
    /// All of them.
    pub(super) const ALL: [Self; 5] = [Self::User, Self::Call, Self::Fault, Self::Interrupt, Self::Other];
}

/// Running time by place. Places are user functions, leaf first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// ns by place, most first.
    pub places: BTreeMap<EntryReason, Vec<(String, u64)>>,
    /// System calls with ns, most first.
    pub calls: Vec<(String, u64)>,
}

impl Running {
    /// Breakdown of all running time that has samples.
    #[must_use]
    pub(super) fn of(profile: &Profile, wall: &Wall) -> Self {
        let mut places: BTreeMap<EntryReason, BTreeMap<String, u64>> = BTreeMap::new();
        let mut calls: BTreeMap<String, u64> = BTreeMap::new();
        for (callsite, ns) in running_paths(profile, wall) {
            let names = kernel_frames(profile, callsite).map(|frame| name_of(profile, frame).unwrap_or(""));
            let (entry, call) = entry_of(&names.collect::<Vec<_>>());
            places.entry(entry).or_default().entry(place_of(profile, callsite)).or_default().grow(ns);
            if let Some(call) = call {
                calls.entry(call).or_default().grow(ns);
            }
        }
        let places =
            places.into_iter().map(|(entry, list)| (entry, super::hot_stacks::most_first(list))).collect();
        Self { places, calls: super::hot_stacks::most_first(calls) }
    }

    /// All ns of threads with samples.
    #[must_use]
    pub fn sampled_ns(&self) -> u64 {
        EntryReason::ALL.into_iter().map(|entry| self.total_ns(entry)).grown_sum()
    }

    /// All ns of this kind.
    #[must_use]
    pub fn total_ns(&self, entry: EntryReason) -> u64 {
        self.places.get(&entry).map_or(0, |list| list.iter().map(|(_, ns)| *ns).grown_sum())
    }
}

/// The innermost user functions of a path, files in brackets where they have no names, `pread < load < main`; without any
/// the kernel's: `[kernel] pipe_read < vfs_read`.
pub(super) fn place_of(profile: &Profile, callsite: CallsiteId) -> String {
    const SHOWN: usize = 4;
    let user = profile.callsites.leaf_first(callsite).filter(|&frame| !is_kernel(profile, frame));
    let file = |frame| profile.dsos.of(profile.frames.of(frame).dso).bracketed_name();
    let names = user.flat_map(|frame| {
        let is_unnamed = profile.frame_names(frame).is_empty();
        place_names(profile, frame).map(brief).chain(is_unnamed.then(|| file(frame)))
    });
    let mut innermost: Vec<String> = Vec::with_capacity(SHOWN);
    for name in names.take_while(|name| !is_thread_start(name)) {
        let is_repeated = name.starts_with('[') && innermost.last() == Some(&name);
        if !is_repeated {
            innermost.push(name);
        }
        if innermost.len() == SHOWN {
            break;
        }
    }
    if !innermost.is_empty() {
        return innermost.join(" < ");
    }
    // How a thread goes to sleep is the same for all.
    let is_sleep =
        |name: &&str| ["schedule", "__schedule", "io_schedule"].iter().any(|begin| name.starts_with(begin));
    let kernel = kernel_frames(profile, callsite).filter_map(|frame| name_of(profile, frame));
    let names: Vec<&str> = kernel.skip_while(is_sleep).take(SHOWN - 1).collect();
    format!("[kernel] {}", names.join(" < ")).trim_end().to_owned()
}

/// The way a thread entered the kernel, from its kernel functions (leaf first), and the name of a system call.
pub(crate) fn entry_of(names: &[&str]) -> (EntryReason, Option<String>) {
    const FAULTS: [&str; 4] =
        ["asm_exc_page_fault", "exc_page_fault", "do_mem_abort", "do_translation_fault"];
    const INTERRUPTS: [&str; 5] =
        ["asm_sysvec_", "asm_common_interrupt", "el0_irq", "el1_irq", "gic_handle_irq"];
    // Functions between the kernel's entry and a system call's own function.
    const GATES: [&str; 8] = [
        "do_syscall_64",
        "x64_sys_call",
        "do_fast_syscall_32",
        "do_int80_emulation",
        "entry_",
        "do_el0_svc",
        "el0_svc",
        "invoke_syscall",
    ];
    // Work on the way in and out doesn't belong to a call.
    const PASSAGE: [&str; 3] = ["exit_to_user_mode", "syscall_", "do_notify_resume"];
    if names.is_empty() {
        return (EntryReason::User, None);
    }
    let begins = |name: &str, with: &[&str]| with.iter().any(|prefix| name.starts_with(prefix));
    for (at, name) in names.iter().enumerate() {
        match name {
            _ if FAULTS.contains(name) => return (EntryReason::Fault, None),
            _ if begins(name, &INTERRUPTS) => return (EntryReason::Interrupt, None),
            _ if begins(name, &GATES) => {
                let below = at.checked_sub(1).map(|below| names[below]);
                let call = below.filter(|name| !begins(name, &PASSAGE)).map(call_name);
                return (EntryReason::Call, call.filter(|call| !call.is_empty()));
            }
            _ => {}
        }
    }
    (EntryReason::Other, None)
}

/// The system call's name by the kernel function that begins it: `__x64_sys_writev`, `do_writev`: `writev`.
fn call_name(function: &str) -> String {
    const BEGINS: [&str; 10] = [
        "__x64_sys_",
        "__ia32_sys_",
        "__arm64_sys_",
        "__do_sys_",
        "__se_sys_",
        "ksys_",
        "__vm_",
        "vm_",
        "do_",
        "__",
    ];
    let name = function.split('.').next().unwrap_or(function);
    let name = BEGINS.iter().find_map(|begin| name.strip_prefix(begin)).unwrap_or(name);
    name.trim_end_matches("_pgoff").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_brought_a_thread_into_the_kernel_is_told_by_the_innermost_entry() {
        let of = |names: &str| {
            let (entry, call) = entry_of(&names.split_whitespace().collect::<Vec<_>>());
            (entry, call.unwrap_or_default())
        };
        let call = |name: &str| (EntryReason::Call, name.to_owned());
        assert_eq!(of(""), (EntryReason::User, String::new()));
        assert_eq!(
            of("sock_write_iter do_writev do_syscall_64 entry_SYSCALL_64_after_hwframe"),
            call("writev")
        );
        assert_eq!(of("vfs_read ksys_read do_syscall_64"), call("read"));
        assert_eq!(of("vfs_read ksys_read __x64_sys_read x64_sys_call do_syscall_64"), call("read"));
        assert_eq!(of("vm_mmap_pgoff do_syscall_64"), call("mmap"));
        assert_eq!(of("ksys_read __arm64_sys_read invoke_syscall.constprop.0 el0_svc"), call("read"));
        let fault =
            "clear_page_erms handle_mm_fault exc_page_fault asm_exc_page_fault copy_to_user do_syscall_64";
        assert_eq!(of(fault).0, EntryReason::Fault);
        // Work that a call's own packets cause on its way out belongs to the call.
        assert_eq!(
            of("net_rx_action handle_softirqs do_softirq tcp_sendmsg ksys_write do_syscall_64"),
            call("write")
        );
        assert_eq!(
            of("handle_softirqs sysvec_apic asm_sysvec_apic_timer_interrupt do_syscall_64").0,
            EntryReason::Interrupt
        );
        assert_eq!(of("worker_thread kthread ret_from_fork").0, EntryReason::Other);
        assert_eq!(of("do_syscall_64"), call(""));
        assert_eq!(of("schedule exit_to_user_mode_loop do_syscall_64"), call(""));
    }
}
