//! Rules about threads that wait for others, for a time to come, or for work.

use super::running::{awaits_busiest, serial};
use super::{claim, grouped, list, pct, shares_first, time};
use crate::grow::{Grow as _, GrownSum as _};
use crate::off_cpu::WaitReason;
use crate::verdict::facts::REGULAR;
use crate::verdict::hot_stacks::PlaceList;
use crate::verdict::{Facts, Finding, INPUT, ShareBase, TARGET, TopStacks, called};
use crate::view::ranking::RankRows as _;
use crate::view::wall::{CLOSED, Part, Wall};
use std::collections::BTreeMap;

/// Reasons for waits that other threads end.
const OF_OTHERS: [WaitReason; 4] =
    [WaitReason::Socket, WaitReason::Pipe, WaitReason::Poll, WaitReason::Child];

/// Share of active time waiting for others: for what comes from outside, for children, for threads that work. Waits for
/// locks are another finding's.
pub(super) fn for_others(facts: &Facts) -> f64 {
    let ns = OF_OTHERS.iter().map(|&reason| of_others_ns(facts, reason)).grown_sum();
    facts.share(ns) + facts.share(facts.for_work_ns())
}

/// ns of waits for others of this reason.
fn of_others_ns(facts: &Facts, reason: WaitReason) -> u64 {
    let all = facts.times.blocked_ns.get(&reason).copied().unwrap_or(0);
    if reason == WaitReason::Poll { all.saturating_sub(polled_for_locks_ns(facts)) } else { all }
}

/// ns of event loops that wait for a lock.
fn polled_for_locks_ns(facts: &Facts) -> u64 {
    facts.waits.locks.iter().map(|site| site.polled_ns).grown_sum()
}

/// ns of waits for others with a known waker, by its name. A timer as the waker only shows that the others did not come
/// in time.
fn enders(facts: &Facts) -> Vec<(String, u64)> {
    let reasons = OF_OTHERS.iter().chain([&WaitReason::Futex]);
    let told = reasons.filter_map(|reason| facts.waits.enders.get(reason)).flatten();
    let mut names: Vec<(String, u64)> = Vec::new();
    for (name, ns) in told.filter(|(name, _)| !name.is_empty() && name != "irq:timer") {
        match names.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => sum.grow(*ns),
            None => names.push((name.clone(), *ns)),
        }
    }
    names.rank_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    names
}

/// True if threads of the target itself end most of these waits: their work meanwhile explains the wait.
pub(in crate::verdict) fn wait_for_each_other(facts: &Facts) -> bool {
    const MOST: f64 = 0.7;
    let reasons = OF_OTHERS.iter().chain([&WaitReason::Futex]);
    let own: u64 = reasons.filter_map(|reason| facts.waits.ended_by_own.get(reason).copied()).grown_sum();
    let told: u64 = enders(facts).iter().map(|(_, ns)| *ns).grown_sum();
    told > 0 && own as f64 > MOST * told as f64
}

/// True if the CPU is used little, and waits are for others: sockets, pipes, poll, children, threads that work.
#[must_use]
pub fn waits_for_others(facts: &Facts) -> bool {
    facts.undisturbed(facts.on()) < 0.5 && facts.undisturbed(for_others(facts)) > 0.4
}

/// Causes of the waits for others, by name, in ns, most first.
pub(in crate::verdict) fn targets(wall: &Wall) -> Vec<(String, u64)> {
    targets_of(wall, &OF_OTHERS)
}

/// The same for waits for the disk.
pub(in crate::verdict) fn files(wall: &Wall) -> Vec<(String, u64)> {
    targets_of(wall, &[WaitReason::Disk, WaitReason::Fsync])
}

/// The same for waits for locks of files.
pub(in crate::verdict) fn locked_files(wall: &Wall) -> Vec<(String, u64)> {
    targets_of(wall, &[WaitReason::FileLock])
}

fn targets_of(wall: &Wall, reasons: &[WaitReason]) -> Vec<(String, u64)> {
    let is_meant = |part| reasons.iter().any(|&reason| part == Part::Blocked(reason));
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    for target in wall.targets.iter().filter(|target| is_meant(target.part)) {
        names.entry(&target.name).or_default().grow(target.total_ns);
    }
    let mut names: Vec<(String, u64)> = names.into_iter().map(|(name, ns)| (name.to_owned(), ns)).collect();
    names.rank_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    names
}

/// The name of what most of the waits for others were for; `None` where nothing has the larger half of them.
fn target_of_most(facts: &Facts) -> Option<&str> {
    let (name, ns) = facts.waits.targets.first()?;
    let is_vague = name == CLOSED || name.ends_with("the process itself");
    // The latch of a lock is a target, too; which, the waits don't tell.
    let least_ns = ns.saturating_sub(polled_for_locks_ns(facts));
    (!is_vague && facts.share(least_ns) > for_others(facts) / 2.0).then_some(name.as_str())
}

/// The name of futex waits that are not for a lock, among the waits for others.
const THREADS_WORK: &str = "other threads' work";

/// The parts of [`for_others`], as shares of active time: `socket 43 %, poll 5 %`.
fn for_others_by_reason(facts: &Facts) -> String {
    let mut parts: Vec<(String, u64)> =
        OF_OTHERS.iter().map(|&reason| (reason.name().to_owned(), of_others_ns(facts, reason))).collect();
    let for_team_ns = facts.for_team_ns();
    parts.push(("threads of OpenMP".to_owned(), for_team_ns));
    let others_ns = facts.for_work_ns().saturating_sub(for_team_ns);
    parts.push((THREADS_WORK.to_owned(), others_ns));
    parts.rank_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    parts.retain(|(_, ns)| facts.share(*ns) >= 0.005);
    match parts.as_slice() {
        [(only, _)] => only.clone(),
        _ => list(&parts, facts.times.active_ns()),
    }
}

/// `49 % of thread time waits for others (socket 43 %, poll 5 %)`; `None` if next to nothing does.
pub(super) fn for_others_words(facts: &Facts) -> Option<String> {
    let share = for_others(facts);
    let words = || match for_others_by_reason(facts) {
        only if only == THREADS_WORK => format!("{} of thread time waits for {only}", pct(share)),
        reasons => format!("{} of thread time waits for others ({reasons})", pct(share)),
    };
    (share > 0.05).then(words)
}

/// 15: threads wait for others most of the time.
pub(super) fn waiting_for_others(facts: &Facts) -> Option<Finding> {
    // One finding says that the others wait for the busiest thread.
    if !waits_for_others(facts) || awaits_busiest(facts) && serial(facts).is_some() {
        return None;
    }
    let (share, parts) = (for_others(facts), for_others_by_reason(facts));
    let enders = enders(facts);
    let ended_ns = enders.iter().map(|(_, ns)| *ns).grown_sum();
    let woken = match shares_first(&enders, ended_ns) {
        none if none.is_empty() => none,
        enders => format!("who ended these waits: {enders}"),
    };
    let who = if wait_for_each_other(facts) { "Threads wait for each other" } else { "Waiting for others" };
    let text = format!("{who}: {} of thread time ({parts})", pct(share));
    let detail = match (&facts.waits.cause, target_of_most(facts)) {
        (Some(cause), _) => cause.because(),
        (None, Some(target)) => format!("most of it for {target}"),
        (None, None) => woken,
    };
    let mut evidence = Vec::new();
    if let Some(cause) = &facts.waits.cause {
        let share = format!("{} waits for that {} of its time", cause.root, pct(cause.share));
        let bound = format!("; it is {} of the critical path", pct(cause.bound));
        evidence.push(share + if cause.bound > 0.0 { &bound } else { "" });
    }
    if !facts.waits.targets.is_empty() {
        let whole = facts.waits.targets.iter().map(|(_, ns)| *ns).grown_sum();
        evidence.push(format!("waited for: {}", shares_first(&facts.waits.targets, whole)));
    }
    if !enders.is_empty() {
        evidence.push(format!("woken by: {}", list(&enders, ended_ns)));
    }
    let against = vec![
        format!("disk: {}", pct(facts.blocked(WaitReason::Disk))),
        format!("running: {}", pct(facts.on())),
    ];
    let reasons = [&OF_OTHERS[..], &[WaitReason::Futex]].concat();
    let (next, advice) = match facts.waits.cause.is_some() {
        true => (format!("tally report --blame{INPUT}"), "the whole chain of waits"),
        false => (format!("tally flame --wakers{INPUT} -o wakers.svg"), "who ends the waits"),
    };
    let fix = match (&facts.waits.cause, wait_for_each_other(facts)) {
        (Some(_), true) => "shorten that work, or do other work meanwhile",
        (None, true) => "shorten what they do before they wake others, or do other work meanwhile",
        (_, false) => "",
    };
    claim(share, text)
        .detail(detail)
        .fix(fix)
        .evidence(evidence)
        .stacks(TopStacks::blocked(facts, "where threads wait", &reasons))
        .against(against)
        .next(next, advice)
}

/// Functions of libraries that sleep or lock a file for a program, without leading underscores.
const SLEEPS: &[&str] = &[
    "flock",
    "GI___flock",
    "lockf",
    "lockf64",
    "fcntl",
    "fcntl64",
    "GI___fcntl64_nocancel",
    "clock_nanosleep",
    "GI___clock_nanosleep",
    "nanosleep",
    "GI___nanosleep",
    "usleep",
    "sleep",
    "select",
    "pselect",
    "poll",
    "ppoll",
    "epoll_wait",
    "syscall",
    "sccp",
    "syscall_cp",
    "syscall_cp_c",
    "g_usleep",
    "SDL_Delay",
];

/// The program's function that most of the time at these places is in, nearest to the wait. Where functions of Python are
/// on the stack, one of theirs.
pub(super) fn function_of_most(places: &PlaceList) -> Option<String> {
    let is_sleep = |name: &&str| {
        let plain = name.split('@').next().unwrap_or(name).trim_start_matches('_');
        SLEEPS.contains(&plain) || name.trim_start_matches('<').starts_with("std::")
    };
    let is_named = |name: &&str| !dso::is_unnamed_function(name) && !name.starts_with(['[', '…']);
    let function = |place: &str| {
        let python = place.split(" < ").find(|name| name.ends_with(".py)")).map(str::to_owned);
        let first = || place.split(" < ").find(|name| !is_sleep(name)).filter(is_named);
        python.or_else(|| first().map(called))
    };
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut all_ns = 0u64;
    for (place, ns) in places {
        all_ns.grow(*ns);
        if let Some(function) = function(place) {
            sums.entry(function).or_default().grow(*ns);
        }
    }
    let (function, ns) = sums.into_iter().max_by_key(|(_, ns)| *ns)?;
    (ns > all_ns / 2).then_some(function)
}

/// Whether threads sleep for half of their idle time or more. One that waits for others of the target is as idle as they
/// are.
const fn is_asleep(facts: &Facts) -> bool {
    let for_others_ns = facts.times.idle_ns.saturating_sub(facts.waits.idle_for_own_ns);
    facts.waits.idle_asleep_ns > for_others_ns / 2
}

/// The function that sleeps. An interpreter's functions can't be read yet in a program's first waits: then those of the
/// waits that count as idle decide.
fn sleeping_function(facts: &Facts) -> Option<String> {
    let is_python = |name: &String| name.ends_with(".py)");
    let is_asleep = is_asleep(facts);
    let waits = facts.places.blocked.get(&WaitReason::Timer).and_then(function_of_most);
    let idle = || function_of_most(&facts.places.idle).filter(|name| is_asleep && is_python(name));
    waits.clone().filter(is_python).or_else(idle).or(waits)
}

/// 16: timer waits of nearly one length, > 20 % of active time, or of any, > 50 %.
pub(super) fn polling(facts: &Facts) -> Option<Finding> {
    let (length_ns, variation, count) = facts.waits.timers?;
    let share = facts.blocked(WaitReason::Timer);
    let is_regular = variation < REGULAR;
    if facts.undisturbed(share) <= if is_regular { 0.2 } else { 0.5 } {
        return None;
    }
    let length = time(length_ns as u64);
    let text = match (is_regular, count) {
        (true, _) => {
            format!("{LOOP_WORDS} {} of thread time is timer waits of {length} each", pct(share))
        }
        (false, 1) => format!("Sleeping: {} of thread time is one sleep of {length}", pct(share)),
        (false, _) => format!(
            "Sleeping: {} of thread time is timer waits, half of it in waits of {length} or more",
            pct(share)
        ),
    };
    let mut evidence = Vec::new();
    if variation.is_finite() {
        evidence.push(format!(
            "{} waits; their lengths vary by {:.0} %",
            grouped(count as f64),
            variation * 100.0
        ));
    }
    let against = vec![
        format!("running: {}", pct(facts.on())),
        format!("waiting for a CPU: {}", pct(facts.waiting_for_cpu())),
    ];
    let function = sleeping_function(facts);
    claim(share, text)
        .detail(function.map_or_else(String::new, |function| format!("most of it in {function}")))
        .fix(if is_regular { LOOP_FIX } else { "" })
        .evidence(evidence)
        .stacks(TopStacks::blocked(facts, "where threads sleep", &[WaitReason::Timer]))
        .against(against)
        .next(format!("tally flame --off-cpu{INPUT} -o wait.svg"), "which code sleeps")
}

/// 20: nearly all time of nearly all threads is idle, or four fifths of it is sleep.
pub(super) fn idle(facts: &Facts) -> Option<Finding> {
    let total = facts.times.total_ns();
    let share = if total == 0 { 0.0 } else { facts.times.idle_ns as f64 / total as f64 };
    // Half of it, so that one sleeping thread among pools that wait for work changes nothing.
    let is_asleep = is_asleep(facts);
    let least = if is_asleep { 0.8 } else { NEARLY_ALL };
    if share < least || facts.cpus_used > 0.2 {
        return None;
    }
    let for_own = facts.waits.idle_for_own_ns > facts.times.idle_ns / 10;
    let text = format!("{}{}", idle_words(facts, share, for_own), idle_rest(facts, share));
    let places = if is_asleep { "where threads sleep" } else { "where threads wait for work" };
    let stacks = TopStacks::of(facts, places, ShareBase::All, &facts.places.idle)
        .or_missing("its waits have no stacks");
    let against = vec![
        format!("CPUs used: {:.2}", facts.cpus_used),
        format!("locks: {}", pct(facts.blocked_on_futexes())),
        format!("disk: {}", pct(facts.blocked(WaitReason::Disk))),
    ];
    let asleep_in = function_of_most(&facts.places.idle).filter(|_| is_asleep && !for_own);
    let whole = if matches!(facts.waits.timers, Some((_, _, 1))) { "in" } else { "most of it in" };
    let detail = asleep_in.map_or_else(String::new, |function| format!("{whole} {function}"));
    let claim = claim(share, text).detail(detail).stacks(stacks).against(against);
    if facts.children_left_out > 0 {
        let claim = claim.fix("record the child processes, too");
        return claim.next(format!("tally run {TARGET}"), "the children as well, where such servers work");
    }
    claim.fix(if loop_length(facts, for_own).is_some() { LOOP_FIX } else { "" }).next(
        format!("tally report --wall --idle --stdio{INPUT}"),
        "shows idle waits too; or put load on it and record again",
    )
}

const NEARLY_ALL: f64 = 0.9;
const LOOP_WORDS: &str = "Sleeping in a loop:";
const LOOP_FIX: &str = "wait for the event, not for a time";

fn idle_words(facts: &Facts, share: f64, for_own: bool) -> String {
    let share = pct(share);
    if let Some(length) = loop_length(facts, for_own) {
        return format!("{LOOP_WORDS} {share} of thread time is timer waits of {length} each");
    }
    match (is_asleep(facts), facts.waits.timers) {
        (true, Some((length_ns, _, 1))) => {
            format!("Sleeping: {share} of thread time is one sleep of {}", time(length_ns as u64))
        }
        (true, _) if for_own => {
            format!("Sleeping: threads and those they wait for sleep {share} of the time")
        }
        (true, _) => format!("Sleeping: threads sleep {share} of their time"),
        (false, _) => format!("Idle: threads wait for work {share} of their time"),
    }
}

/// Length of the waits of idle threads that sleep for nearly the same time again and again; `None` for others.
fn loop_length(facts: &Facts, for_own: bool) -> Option<String> {
    let (length_ns, variation, _) = facts.waits.timers?;
    (is_asleep(facts) && variation < REGULAR && !for_own).then(|| time(length_ns as u64))
}

/// The rest of that sentence.
fn idle_rest(facts: &Facts, share: f64) -> String {
    match facts.children_left_out {
        0 if share < NEARLY_ALL => String::new(),
        0 if super::goroutines::goroutines(facts).is_some() => String::new(),
        0 if is_asleep(facts) => "; nothing else takes time".to_owned(),
        0 => "; nothing holds them up".to_owned(),
        1 => "; 1 child process was not recorded".to_owned(),
        more => format!("; {more} child processes were not recorded"),
    }
}
