//! Arguments of each system call: what they are, and what memory they point to.
//!
//! Source: the prototypes in include/linux/syscalls.h of Linux 6.18.

mod calls;

use super::argument::ArgKind;
use crate::layout::{CallCopy, CallSpec, SPECS};
use crate::numbers;
use calls::CALLS;
use std::collections::HashMap;

/// Calls that change what descriptors, names and processes are: seen whichever calls are selected.
const TRACKED: &[&str] = &[
    "open",
    "openat",
    "openat2",
    "creat",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "fcntl",
    "socket",
    "socketpair",
    "accept",
    "accept4",
    "pipe",
    "pipe2",
    "epoll_create",
    "epoll_create1",
    "eventfd",
    "eventfd2",
    "signalfd",
    "signalfd4",
    "timerfd_create",
    "inotify_init",
    "inotify_init1",
    "memfd_create",
    "pidfd_open",
    "io_uring_setup",
    "perf_event_open",
    "userfaultfd",
    "chdir",
    "fchdir",
    "prctl",
    "execve",
    "execveat",
];

/// Arguments of one system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSignature {
    /// Name.
    pub name: &'static str,
    /// Arguments, in order.
    pub arguments: Vec<ArgKind>,
    /// Type of its result.
    pub returns: ArgKind,
}

/// All system calls of this processor, by number.
#[derive(Debug)]
pub struct CallTable {
    signatures: Vec<Option<CallSignature>>,
}

impl CallTable {
    /// The table of the processor that this runs on.
    #[must_use]
    pub fn of_this_processor() -> Self {
        let arguments: HashMap<&str, &str> =
            CALLS.lines().map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
        let known = |name: &'static str| arguments.get(name).map(|rest| signature(name, rest));
        let hex = || vec![ArgKind::Hex; 6];
        let of = |number| {
            let name = numbers::name(number)?;
            let unknown = || CallSignature { name, arguments: hex(), returns: ArgKind::Number };
            Some(known(name).unwrap_or_else(unknown))
        };
        Self { signatures: (0..SPECS).map(of).collect() }
    }

    /// The signature of a number; `None` if Linux has no such call.
    #[must_use]
    pub fn of(&self, nr: u16) -> Option<&CallSignature> {
        self.signatures.get(usize::from(nr))?.as_ref()
    }

    /// Names of all system calls, by number.
    pub fn names(&self) -> impl Iterator<Item = (u16, &'static str)> {
        let all = (0u16..).zip(&self.signatures);
        all.filter_map(|(nr, signature)| Some((nr, signature.as_ref()?.name)))
    }

    /// Kernel side's actions at each: `is_wanted` decides by number; `buffer_bytes` of buffers are read.
    #[must_use]
    pub fn specs(&self, is_wanted: &dyn Fn(u16) -> bool, buffer_bytes: u16) -> Vec<CallSpec> {
        let of = |nr: u16| {
            let mut spec = CallSpec { is_wanted: is_wanted(nr), nargs: 6, ..CallSpec::default() };
            if let Some(CallSignature { name, arguments, .. }) = self.of(nr) {
                spec.is_tracked = TRACKED.contains(name);
                spec.no_return = matches!(*name, "exit" | "exit_group");
                spec.is_fork = matches!(*name, "clone" | "clone3" | "fork" | "vfork");
                spec.nargs = arguments.len() as u8;
                let copies = copies(arguments, buffer_bytes);
                copies.iter().zip(&mut spec.copies).for_each(|(copy, place)| *place = *copy);
            }
            spec
        };
        (0..SPECS as u16).map(of).collect()
    }
}

/// The memory that these arguments point to, in their order.
fn copies(arguments: &[ArgKind], buffer_bytes: u16) -> Vec<CallCopy> {
    let mut found = Vec::new();
    for (arg, argument) in (0u8..).zip(arguments) {
        if let Some((length, unit, most)) = argument.memory(buffer_bytes) {
            found.push(CallCopy { arg, length, unit, most, is_output: argument.is_output() });
        }
    }
    found
}

fn signature(name: &'static str, rest: &'static str) -> CallSignature {
    let (arguments, returns) = rest.split_once('=').unwrap_or((rest, "d"));
    let parse = |word| ArgKind::parse(word).unwrap_or(ArgKind::Hex);
    let arguments = arguments.split_whitespace().map(parse).collect();
    CallSignature { name, arguments, returns: parse(returns.trim()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::CopyLength;

    #[test]
    fn every_line_is_a_system_call_whose_arguments_are_known() {
        for line in CALLS.lines() {
            let mut words = line.split_whitespace();
            let name = words.next().expect("a name");
            assert!(words.clone().filter(|word| *word != "=").count() <= 7, "{line}");
            let unknown: Vec<_> =
                words.filter(|word| *word != "=" && ArgKind::parse(word).is_none()).collect();
            assert!(unknown.is_empty(), "{name}: {unknown:?}");
            let arguments = signature("x", line.split_once(' ').map_or("", |(_, rest)| rest)).arguments;
            assert!(copies(&arguments, 32).len() <= 3, "{line}");
        }
    }

    #[test]
    fn calls_of_this_processor_have_lines() {
        let table = CallTable::of_this_processor();
        let names: Vec<&str> = table.names().map(|(_, name)| name).collect();
        let unknown: Vec<_> = CALLS.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
        let missing: Vec<_> = names.iter().filter(|name| !unknown.contains(name)).collect();
        // Calls that no kernel implements any more, and those that few programs ever made.
        assert!(missing.len() < 30, "{missing:?}");
        assert!(TRACKED.iter().all(|name| cfg!(not(target_arch = "x86_64")) || names.contains(name)));
    }

    #[test]
    fn the_kernel_side_reads_what_a_call_points_to() {
        let table = CallTable::of_this_processor();
        let specs = table.specs(&|_| true, 32);
        let (nr, _) = table.names().find(|(_, name)| *name == "openat").expect("openat");
        let spec = specs[usize::from(nr)];
        assert!(spec.is_wanted && spec.is_tracked && !spec.no_return);
        assert_eq!((spec.nargs, spec.copies[0].arg, spec.copies[0].length), (4, 1, CopyLength::String));
        assert_eq!(spec.copies[1].length, CopyLength::None);
    }
}
