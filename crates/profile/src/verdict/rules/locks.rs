//! Rules about locks: of user space, and inside the kernel.

use super::chains::convoy;
use super::waiting::function_of_most;
use super::{claim, grouped, list, pct, whole_percents};
use crate::grow::GrownSum as _;
use crate::off_cpu::{WaitReason, known_lock};
use crate::verdict::hot_stacks::SPINNING;
use crate::verdict::{Facts, Finding, INPUT, LockSite, ShareBase, TopStacks, brief, called, is_python_at};
use crate::view::ranking::RankRows as _;

/// From this part of a kind of lock's time on, the findings name its first taker only.
const ONE_TAKER: f64 = 0.9;

/// 8: > 15 % of active time sleeps for locks in user space, or > 20 % of running time fights for one in the kernel.
pub(super) fn locks(facts: &Facts) -> Option<Finding> {
    let asleep: f64 = facts.contended().map(|site| facts.share(site.wait_ns)).sum();
    let (top, takers) = most_contended(facts)?;
    let top = &top;
    if facts.undisturbed(asleep) <= 0.15 && facts.in_futex() <= 0.2 {
        return None;
    }
    let share = facts.share(top.total_ns());
    let which = locked(top);
    let (now, calm) = (facts.rates.switches_per_s, facts.calm_switches_per_s(top));
    let fix = match top.known {
        Some(known) => known.cure,
        None if top.taker.starts_with("rand") => "give each thread its own generator",
        None if top.is_bare => "",
        None => "hold it for less time, or split it",
    };
    let text = format!(
        "{}: {} % of thread time goes to {which}",
        if top.is_bare { "Futex" } else { "Lock contention" },
        whole_lock_percent(facts, top)
    );
    let mut evidence: Vec<String> =
        facts.contended().take(3).filter_map(|site| lock_line(facts, site)).collect();
    if is_gil(top) {
        evidence.extend(gil_lines(facts));
    }
    if facts.in_futex() > 0.01 {
        evidence.push(format!("{} of running time is inside the futex system call", pct(facts.in_futex())));
    }
    evidence.extend(holders_line(facts).filter(|_| !is_gil(top)));
    evidence.push(format!(
        "{} context switches a second; the waits for this lock cause about {} of them",
        grouped(now),
        grouped((now - calm).max(0.0))
    ));
    let against = vec![
        format!(
            "waiting for a CPU for other reasons: {}",
            pct(facts.waiting_for_cpu() - facts.share(top.queued_ns))
        ),
        format!("locks inside the kernel: {}", pct(facts.blocked(WaitReason::KernelLock))),
    ];
    let stacks =
        TopStacks::of(facts, "where threads are blocked on locks", ShareBase::Active, &facts.places.locks)
            .or_missing("no wait for it was long enough to be sampled with a stack");
    claim(share, text)
        .detail(
            [lock_detail(facts, top), takers]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(" · "),
        )
        .fix(fix)
        .evidence(evidence)
        .stacks(stacks)
        .against(against)
        .next(format!("tally locks{INPUT}"), "holders and waiters")
}

/// The lock that takes most time, or the kind of well-known lock; where several functions take one of its kind, their
/// names and shares, else empty.
pub(super) fn most_contended(facts: &Facts) -> Option<(LockSite, String)> {
    let mut kinds: Vec<(LockSite, Vec<&LockSite>)> = Vec::new();
    for site in facts.contended() {
        match kinds.iter_mut().find(|(kind, _)| site.known.is_some() && kind.known == site.known) {
            Some((kind, sites)) => {
                kind.add(site);
                sites.push(site);
            }
            None => kinds.push((site.clone(), vec![site])),
        }
    }
    let (mut kind, sites) = kinds.into_iter().rev().max_by_key(|(kind, _)| kind.total_ns())?;
    if facts.share(sites[0].total_ns()) >= ONE_TAKER * facts.share(kind.total_ns()) {
        return Some((kind, String::new()));
    }
    kind.caller.clear();
    let named = sites.into_iter().filter(|site| !site.caller.is_empty()).take(2);
    let named = named.map(|site| format!("{} {}", called(&site.caller), pct(facts.share(site.total_ns()))));
    Some((kind, format!("taken in {}", named.collect::<Vec<_>>().join(", "))))
}

/// Whether a finding about locks asks for what their holders do.
#[must_use]
pub fn waits_for_locks(facts: &Facts) -> bool {
    convoy(facts).is_some() || locks(facts).is_some()
}

/// Activity of those who hold the locks.
pub(super) fn holders_line(facts: &Facts) -> Option<String> {
    let holders = facts.waits.holders.as_ref()?;
    Some(format!("in {} of the waiting time its holder {}", pct(holders.share), holders.activity))
}

pub(super) fn is_gil(site: &LockSite) -> bool {
    site.known == Some(known_lock::PYTHON)
}

/// The parts of a lock's time; for Python's also who waits for it and who runs meanwhile.
fn lock_detail(facts: &Facts, site: &LockSite) -> String {
    let parts = whole_lock_parts(facts, site).join(" · ");
    match facts.waits.gil.words() {
        words if is_gil(site) && !words.is_empty() => format!("{parts}; {words}"),
        _ => parts,
    }
}

/// Functions that wait for Python's lock, with their shares of the waits, and those that run meanwhile.
pub(super) fn gil_lines(facts: &Facts) -> impl Iterator<Item = String> {
    let gil = &facts.waits.gil;
    let lists = [("waits for it", &gil.waiters), ("runs Python meanwhile", &gil.runners)];
    lists.into_iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| {
        let whole = names.iter().map(|(_, ns)| *ns).grown_sum();
        format!("{what}: {}", list(names, whole))
    })
}

/// The lock in a sentence: `the lock taken in work() (convoy.c:25)`.
pub(super) fn locked(site: &LockSite) -> String {
    let place = lock_place(site);
    match (site.known, site.in_library) {
        (Some(known), _) if site.caller.is_empty() => known.name.to_owned(),
        (Some(known), _) => format!("{}, taken in {}", known.name, called(&site.caller)),
        _ if site.is_bare => {
            format!("a futex of {} (a lock of its own, or a signal)", taker_called(&site.taker))
        }
        (None, true) => format!("the lock inside {place}"),
        (None, false) => format!("the lock taken in {place}"),
    }
}

/// `rand() ← draw (rand.c:14)`: the function that takes the lock, the one that called it, and the line of the innermost
/// one with line information. `hashing() (p.py:7) ← run (threading.py)` where the line is that of the first.
fn lock_place(site: &LockSite) -> String {
    let taker = taker_called(&site.taker);
    let caller = if site.caller.is_empty() { String::new() } else { format!(" ← {}", brief(&site.caller)) };
    let line = if site.line.is_empty() { String::new() } else { format!(" ({})", site.line) };
    if is_python_at(&site.taker, &site.line) {
        return format!("{taker}{line}{caller}");
    }
    format!("{taker}{caller}{line}")
}

/// Name of a function in a sentence; a phrase for unresolved ones.
fn taker_called(name: &str) -> String {
    if name.starts_with('[') { "a function without a name".to_owned() } else { called(name) }
}

/// Cost of a lock; `None` if that is next to nothing.
pub(super) fn lock_line(facts: &Facts, site: &LockSite) -> Option<String> {
    let caller = if site.caller.is_empty() { String::new() } else { format!(" ← {}", brief(&site.caller)) };
    // Any function may be interrupted to give Python's lock away: its line means nothing.
    let is_vague = site.line.is_empty() || is_gil(site);
    let line = if is_vague { String::new() } else { format!(" ({})", site.line) };
    let parts = whole_lock_parts(facts, site).join(", ");
    (!parts.is_empty()).then(|| format!("{}{caller}{line}: {parts}", brief(&site.taker)))
}

/// The parts of a lock's time, as shares of thread time.
fn lock_parts(facts: &Facts, site: &LockSite) -> [(f64, &'static str); 3] {
    [
        (facts.share(site.wait_ns), "blocked"),
        (facts.share(site.queued_ns), "runnable after wake-up"),
        (facts.share(site.run_ns), "lock and unlock code"),
    ]
}

/// These parts, largest first, in whole percent: `63 % blocked`.
pub(super) fn whole_lock_parts(facts: &Facts, site: &LockSite) -> Vec<String> {
    let mut parts = lock_parts(facts, site);
    parts.rank_by(|a, b| b.0.total_cmp(&a.0));
    let (percents, _) = whole_percents(&parts.map(|(share, _)| share));
    let shown = percents.iter().zip(parts).filter(|(percent, _)| **percent > 0);
    shown.map(|(percent, (_, what))| format!("{percent} % {what}")).collect()
}

/// All of a lock's time in whole percent: what its parts add up to.
pub(super) fn whole_lock_percent(facts: &Facts, site: &LockSite) -> u64 {
    whole_percents(&lock_parts(facts, site).map(|(share, _)| share)).1
}

/// 14: > 5 % of running time spins on kernel locks, or > 5 % of active time sleeps for them.
pub(super) fn kernel_lock(facts: &Facts) -> Option<Finding> {
    let (spin, sleep) = (facts.in_kernel(SPINNING), facts.blocked(WaitReason::KernelLock));
    if spin <= 0.05 && sleep <= 0.05 {
        return None;
    }
    let queued = facts.queued_after(WaitReason::KernelLock);
    let share = sleep + queued + spin * facts.on();
    let (text, fix) =
        match facts.waits.kernel_locks.first().filter(|((lock, _), _)| *lock != Facts::SOME_LOCK) {
            Some(((lock, _), _)) => {
                let told = |((of, _), ns): &&((&str, &str), u64)| of == lock && facts.share(*ns) >= 0.01;
                let by = facts.waits.kernel_locks.iter().filter(told).take(3);
                let by: Vec<String> =
                    by.map(|((_, what), ns)| format!("{what} {}", pct(facts.share(*ns)))).collect();
                let text = format!(
                    "Kernel lock: {} of thread time waits for {lock}, in {}",
                    pct(share),
                    by.join(", ")
                );
                let maps = lock.contains("address space");
                (text, if maps { "map files once and keep them, or read() into own buffers" } else { "" })
            }
            None => {
                let text =
                    format!("Kernel lock: {} of thread time waits for locks inside the kernel", pct(share));
                (text, "")
            }
        };
    let mut evidence = Vec::new();
    if queued > 0.01 {
        evidence.push(format!("blocked {}, runnable after wake-up {}", pct(sleep), pct(queued)));
    }
    if spin > 0.01 {
        evidence.push(format!("{} of running time spins on locks inside the kernel", pct(spin)));
    }
    let against = vec![
        format!("locks in user space: {}", pct(facts.blocked_on_futexes())),
        format!("disk: {}", pct(facts.blocked(WaitReason::Disk))),
    ];
    let spinning = || TopStacks::of(facts, "where threads spin", ShareBase::Running, &facts.places.spinning);
    let stacks =
        TopStacks::blocked(facts, "where threads wait for it", &[WaitReason::KernelLock]).or(spinning);
    claim(share, text)
        .fix(fix)
        .evidence(evidence)
        .stacks(stacks.or_missing("neither a wait for it nor a sample in it was taken with a stack"))
        .against(against)
        .next(format!("tally flame --off-cpu{INPUT} -o wait.svg"), "which code waits")
}

/// 26: > 15 % of active time waits for locks of files.
pub(super) fn file_lock(facts: &Facts) -> Option<Finding> {
    const REASON: WaitReason = WaitReason::FileLock;
    let asleep = facts.blocked(REASON);
    if facts.undisturbed(asleep) <= 0.15 {
        return None;
    }
    let share = asleep + facts.queued_after(REASON);
    let files = &facts.waits.locked_files;
    let which = match files.as_slice() {
        [(name, _)] => format!("the lock of {name}"),
        _ => "locks of files".to_owned(),
    };
    let whole = files.iter().map(|(_, ns)| *ns).grown_sum();
    let named = (!files.is_empty()).then(|| format!("files: {}", list(files, whole)));
    let function = facts.places.blocked.get(&REASON).and_then(function_of_most);
    claim(share, format!("File lock: {} of thread time waits for {which}", pct(share)))
        .detail(function.map_or_else(String::new, |function| format!("most of it in {function}")))
        .fix("hold it for less time, or lock a part of the file")
        .evidence(named.into_iter().collect())
        .stacks(TopStacks::blocked(facts, "where threads wait for it", &[REASON]))
        .against(vec![
            format!("locks in user space: {}", pct(facts.blocked_on_futexes())),
            format!("disk: {}", pct(facts.blocked(WaitReason::Disk) + facts.blocked(WaitReason::Fsync))),
        ])
        .next(format!("tally locks{INPUT}"), "holders and waiters")
}
