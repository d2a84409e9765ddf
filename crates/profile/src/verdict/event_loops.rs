//! Event loops that wait where they should not: in the handler of one event, while all others wait for the loop.

use super::busy_loops::busy_loops;
use super::called;
use super::script_functions::script_function;
use crate::grow::{Grow as _, GrownSum as _, ratio};
use crate::off_cpu::known_lock::lock_by_latch;
use crate::off_cpu::{ThreadTotals, WaitReason};
use crate::profile::{Profile, TaskId};
use crate::table::CallsiteId;
use crate::view::ranking::RankRows as _;
use crate::view::wall::{
    Classes, Classified, NamedTarget, Part, WallOpts, is_kernel, members_in, name_of, waits_for,
};
use rustc_hash::FxHashMap;

/// A handler that blocks its event loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockedLoop {
    /// Name of the loop's thread.
    pub thread: String,
    /// As in a sentence: `save()`.
    pub handler: String,
    /// Why it blocks, by the reason with most time; [`BlockedLoop::computes`] without a wait.
    pub reason: String,
    /// Target of the wait; empty if that has no name.
    pub target: String,
    /// How long in all, ns.
    pub ns: u64,
    /// Share of the loop's life, 0 to 1.
    pub of_loop: f64,
    /// The longest of these waits or stretches, ns.
    pub longest_ns: u64,
    /// How many they are.
    pub waits: u64,
}

/// A thread with fewer waits for events is no loop.
const LEAST_POLLS: u64 = 10;

/// Handlers by time, most first. Only of loops that wait for several descriptors.
pub(super) fn blocked_loops(profile: &Profile) -> Vec<BlockedLoop> {
    let classes = Classes::of(profile, &WallOpts { with_idle: true, ..WallOpts::default() });
    let all: Vec<Classified<'_>> = classes.iter(profile).collect();
    let loops = loops(profile, &all);
    let mut found: FxHashMap<(TaskId, String), BlockedLoop> = FxHashMap::default();
    let mut most: FxHashMap<(TaskId, String), u64> = FxHashMap::default();
    let busy = busy_loops(profile, &loops, &all)
        .into_iter()
        .map(|(task, row)| BlockedLoop { of_loop: ratio(row.ns, life_ns(profile, task)), ..row });
    let busy: Vec<BlockedLoop> = busy.collect();
    for Classified { wait, part } in all {
        let (Some(names), Part::Blocked(reason), Some(callsite)) =
            (loops.get(&wait.task), part, wait.callsite)
        else {
            continue;
        };
        let user = user_names(profile, callsite);
        // A server that waits for a lock by way of its events holds up none of its clients: it has only one.
        if lock_by_latch(user.iter().map(String::as_str)).is_some() {
            continue;
        }
        let Some(outermost) = handler(&names.path, &user).filter(|_| wait.since_ns >= names.first_ns) else {
            continue;
        };
        let target = NamedTarget::of(profile, wait, part).and_then(NamedTarget::known).unwrap_or_default();
        let comm = profile.strings.of(profile.last_comm(wait.task));
        if is_of_same_program(&target, comm) {
            continue;
        }
        let scripted = script_function(profile, callsite, &names.path);
        let handler = scripted.unwrap_or_else(|| called(&outermost));
        let key = (wait.task, handler.clone());
        let row = found.entry(key.clone()).or_default();
        row.ns.grow(wait.weight_ns);
        row.longest_ns = row.longest_ns.max(wait.longest_ns());
        row.waits.grow(wait.stands_for());
        let best = most.entry(key).or_default();
        if wait.weight_ns >= *best {
            *best = wait.weight_ns;
            row.thread = comm.to_owned();
            row.handler = handler;
            row.reason = reason.name().to_owned();
            row.target = target;
        }
    }
    for ((task, _), row) in &mut found {
        row.of_loop = ratio(row.ns, life_ns(profile, *task));
    }
    let mut rows: Vec<BlockedLoop> = found.into_values().collect();
    rows.extend(busy);
    rows.rank_by(|a, b| (b.ns, &a.handler).cmp(&(a.ns, &b.handler)));
    rows
}

fn life_ns(profile: &Profile, task: TaskId) -> u64 {
    let of = profile.off_cpu.totals.iter().filter(|totals| totals.task == task);
    of.map(ThreadTotals::life_ns).grown_sum()
}

/// A thread's loop.
#[derive(Default)]
pub(super) struct EventLoop {
    polls: u64,
    ns: u64,
    has_several: bool,
    /// Begin of its first wait for events, ns: what comes before is the program's start.
    first_ns: u64,
    /// Functions on the way to its wait for events, root first.
    pub path: Vec<String>,
}

fn loops(profile: &Profile, all: &[Classified<'_>]) -> FxHashMap<TaskId, EventLoop> {
    let mut loops: FxHashMap<TaskId, EventLoop> = FxHashMap::default();
    let mut most: FxHashMap<(TaskId, CallsiteId), u64> = FxHashMap::default();
    let polls = |of: &&Classified<'_>| waits_for(profile, of.wait, of.part, WaitReason::Poll);
    for Classified { wait, part } in all.iter().filter(polls) {
        let of = loops.entry(wait.task).or_default();
        let begin_ns = wait.sums.as_ref().map_or(0, |sums| sums.since_ns);
        let begin_ns = if begin_ns == 0 { wait.since_ns } else { begin_ns.min(wait.since_ns) };
        of.first_ns = if of.polls == 0 { begin_ns } else { of.first_ns.min(begin_ns) };
        of.polls.grow(wait.stands_for());
        of.has_several |=
            NamedTarget::of(profile, wait, *part).is_some_and(|target| is_of_several(target.set_name()));
        let Some(callsite) = wait.callsite else { continue };
        let ns = most.entry((wait.task, callsite)).or_default();
        ns.grow(wait.weight_ns);
        if *ns > of.ns || of.path.is_empty() {
            of.ns = *ns;
            of.path = user_names(profile, callsite);
        }
    }
    loops.retain(|_, of| {
        of.polls >= LEAST_POLLS
            && of.has_several
            && !of.path.is_empty()
            && !is_of_go(&of.path)
            && !is_of_postgres(&of.path)
    });
    loops
}

/// True for a process of PostgreSQL: besides its latch it has one client.
fn is_of_postgres(path: &[String]) -> bool {
    path.iter().any(|name| name == "WaitEventSetWait")
}

/// True for the scheduler of a Go program: while one of its threads waits elsewhere, another one polls.
fn is_of_go(path: &[String]) -> bool {
    path.iter().any(|name| name.starts_with("runtime.netpoll"))
}

/// By the name of a set: [`NamedTarget`].
fn is_of_several(name: &str) -> bool {
    members_in(name).is_some_and(|of| {
        of.starts_with("sockets ") || of.contains(" other sockets") || of.ends_with(" more)")
    })
}

/// True for a connection to another process of the program, as rsync's processes have: those are partners with one job,
/// not a loop and one of its clients.
fn is_of_same_program(target: &str, comm: &str) -> bool {
    let peer = target.split_once(" to ").and_then(|(_, peer)| peer.strip_prefix(comm));
    peer.and_then(|rest| rest.strip_prefix(' '))
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// User functions of a path, root first.
fn user_names(profile: &Profile, callsite: CallsiteId) -> Vec<String> {
    let user = profile.callsites.leaf_first(callsite).filter(|&frame| !is_kernel(profile, frame));
    let mut names: Vec<String> = user.map(|frame| name_of(profile, frame).unwrap_or("").to_owned()).collect();
    names.reverse();
    names
}

/// The function that a loop called on the way to another wait than its own; `None` if that isn't below the loop, or is
/// the library's function that waits.
fn handler(of_loop: &[String], of_wait: &[String]) -> Option<String> {
    let common = of_loop.iter().zip(of_wait).take_while(|(one, other)| one == other).count();
    // Another way to the same function that waits is no handler; what is called directly has one more below it.
    let is_below = common >= 2 && of_loop.len() > common && of_wait.len() > common + 1;
    let name = of_wait.get(common).filter(|name| is_below && !name.is_empty())?;
    (!of_loop.contains(name)).then(|| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_handler_is_what_the_loop_calls_besides_waiting() {
        let of_loop = names("_start main serve epoll_wait");
        let of = |text: &str| handler(&of_loop, &names(text));
        assert_eq!(of("_start main serve save write_all fsync").as_deref(), Some("save"));
        // Before the loop, the loop's own wait, and a call of the library right in the loop.
        assert_eq!(of("_start load read"), None);
        assert_eq!(of("_start main serve epoll_wait"), None);
        assert_eq!(of("_start main serve usleep"), None);
    }

    #[test]
    fn processes_of_one_program_hold_up_no_clients() {
        assert!(is_of_same_program("socket to rsync 8499", "rsync"));
        assert!(!is_of_same_program("socket to postgres 12", "app"));
        assert!(
            !is_of_same_program("socket to app-db 12", "app") && !is_of_same_program("/tmp/app 12", "app")
        );
    }

    #[test]
    fn the_scheduler_of_go_is_no_loop() {
        assert!(is_of_postgres(&names("main PostgresMain secure_read WaitEventSetWait epoll_wait")));
        assert!(is_of_go(&names(
            "runtime.mcall runtime.schedule runtime.findRunnable runtime.netpoll Syscall6"
        )));
        assert!(!is_of_go(&names("_start main serve epoll_wait")));
    }

    #[test]
    fn a_loop_over_one_descriptor_holds_nobody_up() {
        let several = ["epoll of sockets 80 from a (b 1)", "epoll of pipe from a 1 (and 2 more)"];
        assert!(several.iter().all(|name| is_of_several(name)));
        assert!(!is_of_several("epoll of socket to a 2") && !is_of_several("/tmp/a (and 2 more)"));
    }
}
