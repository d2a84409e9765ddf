//! Rules about threads that hold each other up: they take turns, line up for a lock, wait for a peer, for what
//! TCP holds back, or for an event loop.

use super::locks::{gil_lines, holders_line, is_gil, whole_lock_parts, whole_lock_percent};
use super::running::{ENOUGH_NS, LEAST_HOT, called_at, serial};
use super::waiting::{for_others, for_others_words};
use super::{claim, grouped, list, pct, time};
use crate::off_cpu::WaitReason;
use crate::verdict::rules::locks::locked;
use crate::verdict::{
    BlockedLoop, EntryReason, Facts, Finding, HotFunction, INPUT, LEAST, LockSite, PathFacts, PathTop,
    ShareBase, TopStacks, quoted,
};

/// Waits for a CPU that are worth a number of their own, as a share of the critical path.
const LEAST_QUEUED: f64 = 0.1;

/// Threads that want a CPU at a time, on average, where nothing runs in parallel.
const ALONE: f64 = 1.5;

/// True if so few threads want a CPU at a time that they may be taking turns.
#[must_use]
pub fn may_take_turns(facts: &Facts) -> bool {
    facts.wants_cpus() < ALONE && facts.active_threads + facts.idle_threads > 1
}

/// 21: threads take turns: < 1.5 of them want a CPU at a time, most of the critical path runs, and it often passes from
/// one to another.
pub(super) fn serial_chain(facts: &Facts) -> Option<Finding> {
    const LEAST_ON: f64 = 0.5;
    const LEAST_HANDOVERS: usize = 10;
    let path = facts.waits.path.as_ref()?;
    let top = path.top.as_ref()?;
    let turns = may_take_turns(facts) && path.most_of_one.1 < 1.0;
    if !turns || path.on < LEAST_ON || path.handovers < LEAST_HANDOVERS {
        return None;
    }
    if serial(facts).is_some() || convoy(facts).is_some() {
        return None;
    }
    // Short handovers without a function to change are how a program starts, not what holds it up.
    const LEAST_FOR_OTHERS: f64 = 0.2;
    if !is_of_one(path) && !top.is_large() && for_others(facts) < LEAST_FOR_OTHERS {
        return None;
    }
    let mut evidence = vec![
        format!("the critical path passes from thread to thread {} times", path.handovers),
        on_path_words(path),
    ];
    let others = for_others_words(facts);
    let stacks = match is_of_one(path) {
        true => {
            TopStacks::of(facts, "where the busiest thread runs", ShareBase::Busiest, &facts.places.busiest)
                .or_missing("none of its samples has a stack")
        }
        false => TopStacks::running(facts, "where the threads run", &EntryReason::ALL),
    };
    let against = vec![format!("running: {}", pct(facts.on())), format!("CPUs used: {:.2}", facts.cpus_used)];
    let (text, fix) = chain_words(facts, path);
    // Its waits for CPUs that other programs have are theirs: that finding comes first where it is more.
    let weight = if facts.others_have_the_cpus() { path.on - path.queued } else { path.on };
    let detail = chain_detail(path, top, others.as_deref());
    evidence.extend(others.filter(|words| !detail.contains(words)));
    claim(weight, text)
        .detail(detail)
        .fix(fix)
        .evidence(evidence)
        .stacks(stacks)
        .against(against)
        .next(format!("tally report --critical-path{INPUT}"), "the path by function, and its longest pieces")
}

/// `62 % of it runs or waits for a CPU; the rest: timer 38 %`; `15 % of it runs, 82 % waits for a CPU; the rest: disk 3 %`.
fn on_path_words(path: &PathFacts) -> String {
    let large = path.asleep.iter().filter(|(_, share)| *share >= 0.01).take(3);
    let rest: Vec<String> = large.map(|(state, share)| format!("{state} {}", pct(*share))).collect();
    let rest = if rest.is_empty() { String::new() } else { format!("; the rest: {}", rest.join(", ")) };
    if path.queued >= LEAST_QUEUED {
        let runs = pct(path.on - path.queued);
        return format!("{runs} of it runs, {} waits for a CPU{rest}", pct(path.queued));
    }
    format!("{} of it runs or waits for a CPU{rest}", pct(path.on))
}

/// The function with most of the path, and the wait with most of it; without such a function, or where threads take
/// turns, the waits of the others.
fn chain_detail(path: &PathFacts, top: &PathTop, others: Option<&str>) -> String {
    let words = top.most_words();
    match (&path.wait, others) {
        (_, Some(others)) if !top.is_large() || !is_of_one(path) => format!("{words}; {others}"),
        (Some((does, share)), _) if top.is_large() => {
            format!("{words}; for {} of the path {does}", pct(*share))
        }
        _ => words,
    }
}

/// True if one thread has nearly all of the path.
fn is_of_one(path: &PathFacts) -> bool {
    const MOST_OF_ONE: f64 = 0.8;
    path.most_of_one.1 >= MOST_OF_ONE
}

/// The remedy in place of Python's threads.
const ONE_AT_A_TIME: &str = "processes, because Python's GIL lets one thread run at a time";

/// The claim and its remedy, by whether one thread has nearly all of the path.
fn chain_words(facts: &Facts, path: &PathFacts) -> (String, String) {
    let threads = facts.active_threads + facts.idle_threads;
    let of_processes = match facts.processes {
        0 | 1 => String::new(),
        several => format!(" of {} processes", grouped(several as f64)),
    };
    let wants =
        format!("on average {:.1} of {} threads{of_processes}", facts.wants_cpus(), grouped(threads as f64));
    let function = path.top.as_ref().filter(|top| top.is_large()).map(|top| &top.function);
    let (name, share) = &path.most_of_one;
    if is_of_one(path) {
        let share = pct(*share);
        let text = format!(
            "One thread sets the pace: {name} has {share} of the critical path; {wants} run or wait for a CPU"
        );
        let fix = match (function, &path.wait) {
            (Some(function), Some((does, _))) => match does.rsplit_once(" in ") {
                Some((_, place)) => {
                    let place = place.split(" (").next().unwrap_or(place);
                    format!("make {function} faster and wait less in {place}, or ")
                }
                None => format!("make {function} faster and that wait shorter, or "),
            },
            (Some(function), None) => format!("make {function} and what it calls faster, or "),
            (None, _) => String::new(),
        };
        let more = if facts.contended().any(is_gil) { ONE_AT_A_TIME } else { "threads" };
        return (text, format!("{fix}give the thread's work to more {more}"));
    }
    let whole = 1_000_000;
    let shares: Vec<(String, u64)> =
        path.threads.iter().map(|(name, share)| (name.clone(), (share * whole as f64) as u64)).collect();
    // Threads of one name are no answer, unless one of them has most of it.
    let shares = match shares.as_slice() {
        [_] if *share > 0.5 => format!("; {} of the critical path is in {name}", pct(*share)),
        [_] => String::new(),
        _ => format!("; critical path: {}", list(&shares, whole)),
    };
    let who = if facts.processes * 2 > threads { "processes" } else { "threads" };
    let text = format!("Threads take turns: {wants} run or wait for a CPU{shares}");
    let bound = path.top.as_ref().map_or(0.0, |top| top.bound);
    let faster = function.map(|function| format!("make {function} faster ({} of the path)", pct(bound)));
    let remedies = match facts.contended().any(is_gil) {
        true => [Some(format!("use {ONE_AT_A_TIME}")), faster],
        false => [faster, Some(format!("let the {who} work at the same time"))],
    };
    (text, remedies.into_iter().flatten().collect::<Vec<_>>().join(", or "))
}

/// 22: ≥ 1.5 threads at a time are blocked on one lock, which takes ≥ 40 % of active time, while ≤ 1.5 CPUs are used.
pub(super) fn convoy(facts: &Facts) -> Option<Finding> {
    let top = facts.contended().next().filter(|top| !top.is_bare)?;
    let in_line = top.wait_ns as f64 / 1e9 / facts.wall_s.max(1e-9);
    let share = facts.share(top.total_ns());
    if in_line < 1.5 || facts.undisturbed(share) < 0.4 || facts.cpus_used > ALONE {
        return None;
    }
    let text = format!("Lock convoy: {in_line:.1} threads at a time wait for {}", locked(top));
    let stacks =
        TopStacks::of(facts, "where threads are blocked on locks", ShareBase::Active, &facts.places.locks)
            .or_missing("no wait for it was long enough to be sampled with a stack");
    let against = vec![
        format!("CPUs used: {:.2}", facts.cpus_used),
        format!("waiting for a CPU: {}", pct(facts.waiting_for_cpu())),
    ];
    claim(share, text)
        .detail(convoy_detail(facts, top))
        .fix(top.known.map_or("do less while the lock is held, or split it", |known| known.cure))
        .evidence(convoy_evidence(facts, top))
        .stacks(stacks)
        .against(against)
        .next(format!("tally locks{INPUT}"), "holders and waiters")
}

/// ` (85 % blocked, 2 % runnable after wake-up)`; empty where one part is all.
fn in_parts(facts: &Facts, top: &LockSite) -> String {
    let parts = whole_lock_parts(facts, top);
    if parts.len() > 1 { format!(" ({})", parts.join(", ")) } else { String::new() }
}

fn convoy_detail(facts: &Facts, top: &LockSite) -> String {
    let of_time =
        format!("{} % of thread time goes to it{}", whole_lock_percent(facts, top), in_parts(facts, top));
    let of_gil = is_gil(top).then(|| facts.waits.gil.words());
    if let Some(words) = of_gil.filter(|words| !words.is_empty()) {
        return format!("{of_time}; {words}");
    }
    if let Some(holders) = &facts.waits.holders {
        return format!("{of_time}; meanwhile the holder {}", holders.activity);
    }
    let is_large = |hot: &&HotFunction| hot.share >= LEAST_HOT && facts.times.on_ns >= ENOUGH_NS;
    match facts.code.hottest.as_ref().filter(is_large) {
        Some(hot) => {
            format!("{of_time}; meanwhile {} of CPU time is in {}", pct(hot.share), called_at(hot))
        }
        None => of_time,
    }
}

/// `8 threads; 1 more thread is idle`.
fn threads_words(facts: &Facts) -> String {
    let active = format!("{} threads", grouped(facts.active_threads as f64));
    match facts.idle_threads {
        0 => active,
        1 => format!("{active}; 1 more thread is idle"),
        idle => format!("{active}; {} more threads are idle", grouped(idle as f64)),
    }
}

fn convoy_evidence(facts: &Facts, top: &LockSite) -> Vec<String> {
    let length = time(top.wait_ns / top.waits.max(1));
    let waits = if facts.waits.by_looks {
        "waits seen by looks at /proc (several may count as one)"
    } else {
        "waits"
    };
    let mut evidence = vec![
        format!(
            "{} {waits} of {length} on average: {} in all, in a run of {:.2} s",
            grouped(top.waits as f64),
            time(top.wait_ns),
            facts.wall_s
        ),
        format!("{:.2} CPUs used by {}", facts.cpus_used, threads_words(facts)),
    ];
    evidence.extend(super::locks::lock_line(facts, top));
    match is_gil(top) {
        true => evidence.extend(gil_lines(facts)),
        false => evidence.extend(holders_line(facts)),
    }
    evidence
}

/// 23: > 40 % of active time waits for one peer that isn't in the recording, and the program uses little CPU.
pub(super) fn slow_peer(facts: &Facts) -> Option<Finding> {
    let peer = facts.waits.peer.as_ref()?;
    let share = facts.share(peer.ns);
    if facts.undisturbed(share) <= 0.4 || facts.undisturbed(facts.on()) >= 0.5 {
        return None;
    }
    let who = match &peer.process {
        Some((name, pid)) => format!("{name} {pid} at {}", peer.address),
        None => peer.address.clone(),
    };
    let text = format!("Slow peer: {} of thread time waits for {who}", pct(share));
    let lengths = format!(
        "{} waits: half of them at most {}, the longest {}",
        grouped(peer.waits as f64),
        time(peer.p50_ns),
        time(peer.longest_ns)
    );
    let (next, advice) = match &peer.process {
        Some((_, pid)) => (format!("tally run -p {pid} -- sleep 5"), "what that process does meanwhile"),
        None => (format!("tally report --wall --stdio{INPUT}"), "all waits by what they were for"),
    };
    let against = vec![
        format!("running: {}", pct(facts.on())),
        format!("waiting for a CPU: {}", pct(facts.waiting_for_cpu())),
    ];
    claim(share, text)
        .detail(lengths)
        .stacks(TopStacks::blocked(facts, "where threads wait", &[WaitReason::Socket, WaitReason::Poll]))
        .against(against)
        .next(next, advice)
}

/// 27: > 5 % of active time waits for sockets until a delayed acknowledgement, at least five times.
pub(super) fn delayed_ack(facts: &Facts) -> Option<Finding> {
    const LEAST_WAITS: u64 = 5;
    let of = facts.waits.held_back.as_ref()?;
    let share = facts.share(of.ns);
    if facts.undisturbed(share) <= 0.05 || of.waits < LEAST_WAITS {
        return None;
    }
    let text = format!(
        "TCP holds data back: at least {} of thread time waits for small messages, mostly {} each",
        pct(share),
        time(of.p50_ns)
    );
    let number = grouped(of.waits as f64);
    claim(share, text)
        .detail(format!("{number} waits, most in {} for {}", of.thread, of.socket))
        .fix(format!("TCP_NODELAY {}, or one write for each message", of.sender_words()))
        .evidence(vec![
            "each ended when a delayed acknowledgement was sent: until then the sender kept the rest (Nagle's algorithm)".to_owned(),
        ])
        .stacks(TopStacks::blocked(facts, "where threads wait", &[WaitReason::Socket, WaitReason::Poll]))
        .against(vec![format!("running: {}", pct(facts.on()))])
        .next(format!("tally report --wall --stdio{INPUT}"), "all waits by what they were for")
}

/// 24: an event loop blocks in a handler: > 15 % of its life, once for ≥ 10 ms; or computes in one for ≥ 10 ms at a
/// time, > 5 % of its life.
pub(super) fn head_of_line(facts: &Facts) -> Option<Finding> {
    const LEAST_NS: u64 = 10_000_000;
    let least = |of: &BlockedLoop| if of.computes() { 0.05 } else { 0.15 };
    let is_bad = |of: &&BlockedLoop| of.of_loop > least(of) && of.longest_ns >= LEAST_NS;
    let of = facts.waits.blocked_loops.iter().find(is_bad)?;
    if of.computes() {
        return busy_loop(facts, of);
    }
    let text = format!(
        "Event loop blocked: {} waits in {} for {} of its time, the longest {}",
        of.thread,
        of.handler,
        pct(of.of_loop),
        time(of.longest_ns)
    );
    let target = if of.target.is_empty() { String::new() } else { format!(" for {}", of.target) };
    let others: Vec<String> = facts
        .waits
        .blocked_loops
        .iter()
        .filter(|other| *other != of && !other.computes())
        .take(2)
        .map(|other| {
            format!(
                "{}: {} ({}), up to {}",
                other.handler,
                pct(facts.share(other.ns)),
                other.reason,
                time(other.longest_ns)
            )
        })
        .collect();
    let reasons: Vec<WaitReason> =
        facts.places.blocked.keys().copied().filter(|reason| reason.name() == of.reason).collect();
    claim(facts.share(of.ns).max(LEAST), text)
        .detail(format!("{} waits ({}{target}); other events wait meanwhile", of.waits, of.reason))
        .fix("do it in another thread, or without waiting")
        .evidence(others)
        .stacks(TopStacks::blocked(facts, "where threads wait", &reasons))
        .against(vec![format!("running: {}", pct(facts.on()))])
        .next(
            format!("tally report --wall --stdio{INPUT} --thread {}", quoted(&of.thread)),
            "all its time by function",
        )
}

/// The same for a loop that computes.
fn busy_loop(facts: &Facts, of: &BlockedLoop) -> Option<Finding> {
    let text = format!(
        "Event loop blocked: {} is busy in {}, {} of its time",
        of.thread,
        of.handler,
        pct(of.of_loop)
    );
    let longest = time(of.longest_ns);
    let times = match of.waits {
        1 => format!("once, for {longest}"),
        waits => format!("{waits} times for 10 ms or more, the longest {longest}"),
    };
    claim(facts.share(of.ns).max(LEAST), text)
        .detail(format!("{times}; other events wait meanwhile"))
        .fix("do it in another thread or process, or in pieces")
        .stacks(TopStacks::running(facts, "where the program runs", &[EntryReason::User]))
        .against(vec![format!("waiting for a CPU: {}", pct(facts.waiting_for_cpu()))])
        .next(
            format!("tally report --wall --stdio{INPUT} --thread {}", quoted(&of.thread)),
            "all its time by function",
        )
}
