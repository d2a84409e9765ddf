//! Rules about threads that run: in which code, on how many CPUs.

use super::disk::disk;
use super::locks::locks;
use super::{claim, grouped, list, pct};
use crate::grow::Grow as _;
use crate::off_cpu::WaitReason;
use crate::verdict::hot_stacks::{SPINNING, most_first};
use crate::verdict::{
    EntryReason, Facts, Finding, HotCode, HotFunction, INPUT, PathTop, ShareBase, TARGET, TopStacks, called,
    called_at_line, quoted,
};
use crate::view::hot_functions::call_work;
use std::collections::BTreeMap;

/// A function with less own time isn't one to name.
pub(super) const LEAST_HOT: f64 = 0.1;

/// With so much of a function's time, a caller is named as its only one.
const NEARLY_ALL: f64 = 0.95;

/// 1: running ≥ 85 % of the time not spent waiting for a CPU, > 70 % of it in user code.
pub(super) fn cpu_bound(facts: &Facts) -> Option<Finding> {
    let user = facts.code.user?;
    let blocked = facts.share(facts.times.blocked_total_ns());
    if facts.on() < 0.85 * (facts.on() + blocked) || facts.on() == 0.0 || user <= 0.7 {
        return None;
    }
    let waiting = facts.waiting_for_cpu();
    let below = facts.code.below.as_ref();
    let own = below.filter(|below| below.calls_most);
    let hottest = facts.code.hottest.as_ref();
    let large = hottest.filter(|hot| hot.share >= LEAST_HOT);
    let text = match (own, large, hottest) {
        (Some(own), ..) => {
            format!("CPU bound in {} and what it calls: {} of CPU time", called_at(own), pct(own.share))
        }
        (_, Some(hot), _) => format!("CPU bound in {}", hot_words(hot)),
        (_, _, Some(hot)) => {
            format!(
                "CPU bound, and no function of the program has more than {:.0} % of CPU time itself",
                (hot.share * 100.0).ceil()
            )
        }
        (None, None, None) => "CPU bound".to_owned(),
    };
    let rest = if waiting > 0.1 {
        format!("; {} waiting for a CPU (runnable, preempted)", pct(waiting))
    } else {
        String::new()
    };
    let below = match (own, large, below) {
        (Some(own), ..) if !own.calls.is_empty() => {
            format!("{} · ", calls_words(own))
        }
        (Some(_), Some(hot), _) => format!("{} in {} itself · ", pct(hot.share), called_at(hot)),
        (None, _, Some(below)) => {
            format!("{} of CPU time is in {} and what it calls · ", pct(below.share), called_at(below))
        }
        _ => String::new(),
    };
    let detail = format!(
        "{below}{} of thread time running, {} of that in user code{rest}",
        pct(facts.on()),
        pct(user)
    );
    let against = vec![format!("waiting for a CPU: {}", pct(waiting)), format!("blocked: {}", pct(blocked))];
    let shown = show_hottest(facts);
    claim(facts.on(), text)
        .detail(detail)
        .fix(first_step(own.or(large), &shown))
        .stacks(TopStacks::running(facts, "where the program runs", &[EntryReason::User]))
        .against(against)
        .next(shown.command, shown.advice)
}

/// `27 of these 47 % are in JsonParse(), 15 in ObjectKeys()`.
fn calls_words(own: &HotFunction) -> String {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let mut parts: Vec<String> =
        own.calls.iter().map(|(name, share)| format!("{} in {}", percent(*share), called(name))).collect();
    if let (Some(first), Some((name, share))) = (parts.first_mut(), own.calls.first()) {
        *first = format!("{} of these {} are in {}", percent(*share), pct(own.share), called(name));
    }
    parts.join(", ")
}

/// Where to look first, with the command; empty if the command is too long for a line.
fn first_step(hot: Option<&HotFunction>, shown: &HottestShown) -> String {
    /// Columns of a command on a line of the screen, with the words before it.
    const MOST: usize = 54;
    let (sought, command) = match hot {
        Some(hot) if hot.calls_most || hot.calls_much() => ("what it calls", shown.command.clone()),
        Some(hot) if shown.has_instructions && hot.has_lines() => ("its lines", shown.command.clone()),
        _ if shown.has_instructions => ("its instructions", shown.command.clone()),
        _ => ("who calls what", shown.command.clone()),
    };
    let is_short = command.replace(INPUT, "").chars().count() <= MOST;
    if is_short { format!("see {sought}: {command}") } else { String::new() }
}

/// The hottest function, with its share: `fill() (knapsack.c:18), 99 % of CPU time`. Where much of it is in functions
/// that it calls: `heavy() (aio.py:4) and what it calls: 86 % of CPU time (12 % its own)`.
fn hot_words(hot: &HotFunction) -> String {
    let own = pct(hot.share);
    if hot.calls_much() {
        return format!(
            "{} and what it calls: {} of CPU time ({own} its own)",
            called_at(hot),
            pct(hot.total)
        );
    }
    let Some(caller) = &hot.named_caller else { return format!("{}, {own} of CPU time", called_at(hot)) };
    // Those who call a library don't know its lines.
    let place = if hot.has_lines() { called(&hot.name) } else { called_at(hot) };
    let below = called_at_line(&called(&caller.name), caller.at.as_deref());
    match caller.share < NEARLY_ALL {
        true => format!("{place}, {own} of CPU time, mostly for {below}"),
        false => format!("{place} below {below}, {own} of CPU time"),
    }
}

/// The command that shows the hottest code.
struct HottestShown {
    command: String,
    /// A description of its result.
    advice: &'static str,
    /// It shows the instructions of a function; else who calls the hottest ones.
    has_instructions: bool,
}

fn show_hottest(facts: &Facts) -> HottestShown {
    let callers = |advice| HottestShown {
        command: format!("tally flame --on-cpu{INPUT} -o hot.svg"),
        advice,
        has_instructions: false,
    };
    let hottest = facts.code.hottest.as_ref();
    let calls_most = facts.code.below.as_ref().is_some_and(|below| below.calls_most);
    if calls_most || hottest.is_some_and(|hot| hot.share >= LEAST_HOT && hot.calls_much()) {
        return callers("its callers, and what it calls");
    }
    // The lines of one function show nothing, or they are a library's.
    let shows_nothing = |hot: &HotFunction| hot.share < LEAST_HOT || hot.is_called_from_program();
    if hottest.is_some_and(shows_nothing) {
        return callers("who calls the hottest functions");
    }
    let function = match &facts.code.hot_user {
        Some(HotCode::Jit) => {
            return callers("who calls the hottest functions; JIT code has no lines to show");
        }
        Some(HotCode::Function(name)) => format!(" -s {}", quoted(name)),
        None => String::new(),
    };
    HottestShown {
        command: format!("tally annotate{INPUT}{function}"),
        advice: "the lines or instructions that take the time",
        has_instructions: true,
    }
}

/// 2: one thread runs ≥ 95 % of its life while the process uses ≤ 1.2 of ≥ 4 CPUs and other threads are there; or one
/// runs ≥ 85 %, and > 20 % of active time others wait until it ends their waits. Waits for a CPU are left out.
pub(super) fn serial(facts: &Facts) -> Option<Finding> {
    let (name, busy, of_all) = facts.busiest.as_ref()?;
    let others = facts.active_threads + facts.idle_threads > 1;
    let alone = *busy >= 0.95 && facts.cpus_used <= 1.2 && facts.system.cpus >= 4;
    let awaited = facts.blocked_by(name);
    let is_awaited = awaits_busiest(facts);
    if !others || !alone && !is_awaited {
        return None;
    }
    let rest = match is_awaited {
        true => format!("{} of thread time waits for it", pct(awaited)),
        false => format!("{:.1} of {} CPUs are used", facts.cpus_used, facts.system.cpus),
    };
    let text = format!(
        "One thread does the work: {name} runs or waits for a CPU {} of its time; {rest}",
        pct(*busy)
    );
    let evidence = vec![format!("{name}: {} of all running time", pct(*of_all))];
    let stacks = TopStacks::of(facts, "where that thread runs", ShareBase::Busiest, &facts.places.busiest)
        .or_missing("none of its samples has a stack");
    let share = if is_awaited { *of_all * facts.on() + awaited } else { *of_all * facts.on().max(0.5) };
    let against = vec![format!("disk: {}", pct(facts.blocked(WaitReason::Disk)))];
    let bound = facts.waits.path.as_ref().and_then(|path| path.top.as_ref()).map(PathTop::bound_words);
    let claim = claim(share, text)
        .detail(bound.unwrap_or_default())
        .fix(format!("give the work of {name} to more threads"));
    claim.evidence(evidence).stacks(stacks).against(against).next(
        format!("tally report --wall --stdio{INPUT} --thread {}", quoted(name)),
        "all its time by function",
    )
}

/// True if others wait > 20 % of active time until one thread, which does most of the work and runs ≥ 85 %, ends their waits.
pub(super) fn awaits_busiest(facts: &Facts) -> bool {
    let Some((name, busy, of_all)) = &facts.busiest else { return false };
    *busy >= 0.85 && facts.undisturbed(facts.blocked_by(name)) > 0.2 && *of_all > 0.5
}

/// Rules about how code runs want this much of it.
pub(super) const ENOUGH_NS: u64 = 50_000_000;

/// 3: the kernel takes > 30 % of running time, and it is neither page faults nor locks, nor disk requests that
/// threads then wait for.
pub(super) fn system_calls(facts: &Facts) -> Option<Finding> {
    let kernel = 1.0 - facts.code.user?;
    let disk = disk(facts).map_or(0.0, |_| facts.in_disk_requests());
    // Without threads that wait for locks the futex call is a call like any.
    let futex = locks(facts).map_or(0.0, |_| facts.in_futex());
    let others = disk + handing_out_memory(facts) + facts.in_kernel(SPINNING) + futex;
    // Waiting for a CPU doesn't contradict that it wants the CPU.
    let blocked = facts.share(facts.times.blocked_total_ns());
    let wants_cpu = facts.on() >= 0.2 * (facts.on() + blocked) && facts.times.on_ns >= ENOUGH_NS;
    if kernel < 0.3 || others > kernel / 2.0 || !wants_cpu {
        return None;
    }
    let calls = list(&kernel_work(facts), facts.times.on_ns);
    let calls = if calls.is_empty() { String::new() } else { format!(" ({calls})") };
    let is_bound = facts.on() >= 0.85 * (facts.on() + blocked);
    let bound = if is_bound { "CPU bound, much of it in system calls" } else { "System calls" };
    let text = format!("{bound}: {} of CPU time is in the kernel{calls}", pct(kernel));
    let stacks = TopStacks::running(facts, "where the calls are made", &[EntryReason::Call]);
    let evidence = if stacks.top.is_empty() { top_kernel(facts) } else { Vec::new() };
    let against =
        vec![format!("the kernel's page faults, locks and disk requests: {} of CPU time", pct(others))];
    let command = format!("tally flame --on-cpu{INPUT} -o calls.svg");
    claim(kernel * facts.on(), text)
        .fix(format!("see who makes them: {command}"))
        .evidence(evidence)
        .stacks(stacks.or_missing("the kernel's frames don't show which calls these are"))
        .against(against)
        .next(command, "who makes the calls and what they cost")
}

/// Time in the kernel by what is done there: calls that do the same are one, and page faults are among them.
fn kernel_work(facts: &Facts) -> Vec<(String, u64)> {
    let mut by_work: BTreeMap<String, u64> = BTreeMap::new();
    for (call, ns) in &facts.running.calls {
        by_work.entry(call_work(call).to_owned()).or_default().grow(*ns);
    }
    by_work.insert("page faults".to_owned(), facts.running.total_ns(EntryReason::Fault));
    most_first(by_work)
}

/// `parse() (parse.c:14)`, with the line if it is known.
pub(super) fn called_at(hot: &HotFunction) -> String {
    called_at_line(&called(&hot.name), hot.at.as_deref())
}

/// Kernel functions by own running time.
fn top_kernel(facts: &Facts) -> Vec<String> {
    let top = facts.code.hot_kernel.iter().take(3);
    top.map(|(name, share)| format!("{:.1} % of running time  {name}", share * 100.0)).collect()
}

/// Share of running time for page faults and for calls that change what memory the program has; without stacks by what
/// functions are called.
fn handing_out_memory(facts: &Facts) -> f64 {
    const CALLS: [&str; 5] = ["mmap", "munmap", "madvise", "brk", "mremap"];
    (facts.running_by(EntryReason::Fault) + facts.in_calls(&CALLS)).max(facts.in_kernel(FAULTS))
}

pub(super) const FAULTS: &[&str] = &[
    "clear_page",
    "do_anonymous_page",
    "handle_mm_fault",
    "__handle_mm_fault",
    "exc_page_fault",
    "asm_exc_page_fault",
    "do_user_addr_fault",
    "get_page_from_freelist",
    "__alloc_",
    "folio_",
    "lru_",
    "zap_",
    "unmap_",
    "free_unref",
    "release_pages",
    "mm_",
    "vma_",
    "mas_",
    "__mod_",
    "charge_",
    "mem_cgroup",
    "rmqueue",
    "flush_tlb",
    "clear_huge",
    "free_pages",
    "tlb_",
    "do_fault",
    "filemap_map",
    "next_uptodate",
    "set_pte",
    "native_flush",
    "__rmqueue",
    "prep_",
];

/// 13: > 20,000 minor faults a second, > 10 % of running time in the memory manager.
pub(super) fn page_faults(facts: &Facts) -> Option<Finding> {
    let (minor, share) = (facts.rates.faults_per_s.0, handing_out_memory(facts));
    if minor <= 20_000.0 || share <= 0.1 {
        return None;
    }
    let text = format!(
        "Page faults: {} a second; {} of CPU time goes to handing out memory and taking it back",
        grouped(minor),
        pct(share)
    );
    let stacks = TopStacks::running(facts, "what makes the kernel do it", &[EntryReason::Fault])
        .or(|| TopStacks::running(facts, "system calls", &[EntryReason::Call]))
        .or_missing("the kernel's frames don't show which page faults these are");
    let evidence = if stacks.top.is_empty() { top_kernel(facts) } else { Vec::new() };
    let against = vec![format!("major faults: {:.0} a second", facts.rates.faults_per_s.1)];
    let claim = claim(share * facts.on(), text)
        .fix("reuse buffers and objects instead of allocating new ones, or use huge pages");
    claim.evidence(evidence).stacks(stacks).against(against).next(
        format!(
            "tally record -e page-faults -c 100 -g -o faults.data {TARGET} && tally report -i faults.data"
        ),
        "who touches new memory",
    )
}

/// 18: needs hardware counters: fewer than 0.7 instructions per cycle while running most of the time.
pub(super) fn memory_bound(facts: &Facts) -> Option<Finding> {
    let ipc = facts.rates.ipc.filter(|&ipc| ipc < 0.7)?;
    if facts.on() < 0.5 || facts.times.on_ns < ENOUGH_NS {
        return None;
    }
    let text = format!(
        "Memory bound, probably: {ipc:.2} instructions per cycle; the CPU waits for memory (or, less often, \
         for mispredicted branches)"
    );
    let against = vec![format!("time in the kernel: {}", pct(1.0 - facts.code.user.unwrap_or(1.0)))];
    claim(facts.on() * 0.5, text)
        .fix("make the hot data smaller or denser")
        .stacks(TopStacks::running(facts, "where the program runs", &[EntryReason::User, EntryReason::Call]))
        .against(against)
        .next(
            format!(
                "tally record -e cache-misses -c 10000 -g -o misses.data {TARGET} && tally report -i misses.data"
            ),
            "which code waits for memory",
        )
}
