//! Processes with their descendants, as `/proc` shows them now.
//!
//! A server that forks its workers beforehand (postgres, nginx, gunicorn) does its work in children that lived before
//! tally attached: no fork record reports them.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::proc;
use dso::system_file;

/// The descendants of `roots` that live now and that this user may record, ascending; the roots are not among them. tally
/// and what it started are left out, also when one of the roots started tally.
#[must_use]
pub fn descendants(roots: &[u32]) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        proc::pids().into_iter().filter_map(|pid| Some((pid, proc::status(pid)?.parent))).collect();
    let mut found = below(roots, &parents, std::process::id());
    found.retain(|&pid| may_be_recorded(pid));
    found
}

/// True if `pid` descends from one of `ancestors`.
pub(crate) fn is_below(pid: u32, ancestors: &[u32]) -> bool {
    /// Numbers that were read while processes ended can form a circle.
    const MOST_GENERATIONS: usize = 1000;
    let parent = |pid: &u32| proc::status(*pid).map(|status| status.parent).filter(|&parent| parent != 0);
    std::iter::successors(parent(&pid), parent).take(MOST_GENERATIONS).any(|pid| ancestors.contains(&pid))
}

/// Events are opened under the rule that `/proc/PID/maps` goes by; children that sudo started belong to others. Those that
/// have ended without being waited for have no maps.
fn may_be_recorded(pid: u32) -> bool {
    system_file::open(format!("/proc/{pid}/maps")).is_ok()
}

/// The descendants of `roots` by (process, parent), ascending, without `ours` and what is below it.
fn below(roots: &[u32], parents: &[(u32, u32)], ours: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &(pid, parent) in parents {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = BTreeSet::new();
    let mut left = roots.to_vec();
    while let Some(parent) = left.pop() {
        for &child in children.get(&parent).into_iter().flatten() {
            if child != ours && !roots.contains(&child) && found.insert(child) {
                left.push(child);
            }
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_generations_are_found_once_and_tally_is_left_out() {
        let parents = [(10, 1), (11, 10), (12, 10), (13, 12), (14, 10), (15, 14), (20, 1)];
        assert_eq!(below(&[10], &parents, 999), [11, 12, 13, 14, 15]);
        assert_eq!(below(&[10], &parents, 14), [11, 12, 13], "a shell that started tally");
        assert_eq!(below(&[10, 12], &parents, 999), [11, 13, 14, 15], "a root is no descendant");
        assert!(below(&[20], &parents, 999).is_empty());
    }

    #[test]
    fn numbers_that_were_read_while_they_changed_end_no_walk_in_a_circle() {
        assert_eq!(below(&[10], &[(11, 10), (12, 11), (11, 12)], 999), [11, 12]);
    }

    #[test]
    fn a_child_is_found_while_it_lives() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
        // tally itself would be left out; its children are found from themselves only.
        assert!(below(&[std::process::id()], &[(child.id(), std::process::id())], 0).contains(&child.id()));
        assert!(may_be_recorded(child.id()));
        child.kill().expect("ours to kill");
        child.wait().expect("ours to wait for");
        assert!(!may_be_recorded(child.id()));
    }
}
