//! Rules about threads that could run and do not: others have the CPU.

use super::chains::serial_chain;
use super::locks::{kernel_lock, locks, most_contended};
use super::machine::queued_by_quota;
use super::running::serial;
use super::{claim, grouped, pct, time};
use crate::off_cpu::WaitReason;
use crate::verdict::hot_stacks::{NOT_RECORDED, OURSELVES};
use crate::verdict::{EntryReason, Facts, Finding, INPUT, LockSite, OthersRan, ShareBase, TopStacks};

/// CPUs that other programs use. The kernel counts in ticks: less means nothing.
const LEAST_OF_OTHERS: f64 = 0.25;

/// 6: > 10 % of active time waits for a CPU. Run-queue waits after a lock was released count for the lock, and waits
/// caused by a quota count for the quota.
pub(super) fn saturation(facts: &Facts) -> Option<Finding> {
    /// From here on the shares of all else are uncertain.
    const MOST: f64 = 0.6;
    /// Share of waits that no lock is blamed for; with less the finding about the lock is the answer.
    const LEAST_OF_OWN: f64 = 0.05;
    let waiting = facts.waiting_for_cpu() - queued_by_quota(facts);
    let after_locks = queued_after_locks(facts);
    if waiting <= 0.1 || waiting - after_locks <= LEAST_OF_OWN {
        return None;
    }
    // Threads that take turns don't get in each other's way for long.
    let take_turns = serial_chain(facts).is_some();
    if take_turns && !facts.others_have_the_cpus() && !wants_more_cpus(facts) {
        return None;
    }
    let text =
        format!("CPU saturation: {} of thread time waits for {}", pct(waiting), who_has_the_cpus(facts));
    let detail = match after_locks > 0.01 {
        true => format!(
            "{} of these {} follow lock waits and count in the lock's finding, too",
            pct(after_locks).trim_end_matches(" %"),
            pct(waiting)
        ),
        false if wants_nothing_else(facts) && facts.times.idle_ns > 0 => {
            "when not idle, the threads hardly wait for anything but CPUs".to_owned()
        }
        false if wants_nothing_else(facts) => "the threads hardly wait for anything but CPUs".to_owned(),
        false => String::new(),
    };
    let lock = lock_that_runs(facts);
    let fix = match facts.others_have_the_cpus() {
        true if tally_has_the_cpus(facts) => "tally record -g disturbs less, but records no waits",
        true if wants_more_cpus(facts) => "run fewer threads at a time, and take other load off this machine",
        true if hides_own_queue(facts) => {
            "take other load off this machine, and measure again: the program itself may have too many threads"
        }
        true if waiting >= MOST => "take other load off this machine, and measure again",
        true => "take other load off this machine",
        false if shares_the_cpus(facts) => "run fewer threads at a time, or take other load off this machine",
        false if lock.is_some() => "run fewer threads at a time",
        false => "run fewer threads at a time, or use more CPUs",
    };
    let mut evidence = Vec::new();
    let (p50, p99, max) = facts.queue.run_queue_ns;
    if max > 0 {
        let (p50, p99, max) = (time(p50), time(p99), time(max));
        evidence.push(format!("wait for a CPU after wake-up: p50 {p50}, p99 {p99}, longest {max}"));
    }
    if facts.share(facts.times.preempted_ns) > 0.02 {
        evidence.push(format!("preempted while running: {}", pct(facts.share(facts.times.preempted_ns))));
    }
    if is_unseen(facts) {
        evidence.extend(others_words(facts));
    }
    if let Some(others) = facts.others_use_cpus() {
        let cpus = f64::from(facts.system.cpus);
        let idle = (cpus - facts.cpus_used - facts.recorder_cpus - others).max(0.0);
        let (this, tally) = (facts.cpus_used, facts.recorder_cpus);
        let within = match facts.recorder_bpf_cpus {
            bpf if bpf < 0.005 => String::new(),
            bpf => format!(" ({bpf:.2} of them by tally's BPF programs in it)"),
        };
        evidence.push(format!(
            "{cpus} CPUs: {this:.2} used by this program{within}, {tally:.2} by tally, {others:.2} by others, \
             {idle:.2} idle"
        ));
    }
    if let Some(pressure) = facts.system.pressure_cpu {
        evidence.push(format!("the machine: some task waited for a CPU {} of the time", pct(pressure)));
    }
    let mut against = vec![format!("cgroup throttling: {}", pct(facts.system.throttled.unwrap_or(0.0)))];
    if after_locks > 0.01 {
        against.push(format!("waits for a CPU right after a lock: {}", pct(after_locks)));
    }
    if is_unseen(facts) {
        evidence.push("the code of other programs was not recorded; tally run -a records it".to_owned());
    }
    // The lock's finding comes first.
    let weight = lock.map_or(1.0, |share| share * 0.99).min(waiting - after_locks);
    claim(weight, text)
        .detail(detail)
        .fix(fix)
        .evidence(evidence)
        .stacks(who_ran_instead(facts))
        .against(against)
        .next(format!("tally report --wall --stdio{INPUT}"), "how long each thread waited for a CPU")
}

/// The share of thread time of a lock whose own code has most of the CPU time: on more CPUs, more threads would wait for it.
fn lock_that_runs(facts: &Facts) -> Option<f64> {
    let lock = blamed_lock(facts)?;
    let has_most = lock.run_ns.saturating_mul(2) > facts.times.on_ns;
    has_most.then(|| facts.share(lock.total_ns()))
}

/// Share of other programs in the waits for a CPU; `None` without waits for which it is known.
fn others_words(facts: &Facts) -> Option<String> {
    let others = facts.queue.others_ran.as_ref().filter(|others| others.share > 0.01)?;
    let most = if others.most.is_empty() { String::new() } else { format!(" (most: {})", others.most) };
    Some(format!("where it is known who had the CPU: other programs {}{most}", pct(others.share)))
}

/// True if most of the CPU time that the target didn't get is the recorder's: by its own count, or, in short runs, by who
/// ran instead.
fn tally_has_the_cpus(facts: &Facts) -> bool {
    let is_tally = |of: &OthersRan| of.most == OURSELVES && of.share_of_most * 2.0 > of.share;
    match facts.others_use_cpus() {
        Some(others) => facts.recorder_cpus > others,
        None => facts.queue.others_ran.as_ref().is_some_and(is_tally),
    }
}

/// Code that others ran meanwhile, if recorded, else the places of threads that waited for the CPU.
fn who_ran_instead(facts: &Facts) -> TopStacks {
    let ran = || TopStacks::running(facts, "what ran meanwhile", &EntryReason::ALL);
    if !is_unseen(facts) {
        return TopStacks::of(facts, "who ran instead", ShareBase::Queued, &facts.places.instead).or(ran);
    }
    TopStacks::of(facts, "where threads wait for a CPU", ShareBase::Queued, &facts.places.queued)
        .or_missing("no wait for a CPU was long enough to be sampled with a stack")
}

/// True if others have the CPUs and none of them was recorded.
fn is_unseen(facts: &Facts) -> bool {
    let recorded = facts.places.instead.iter().any(|(place, _)| !place.ends_with(NOT_RECORDED));
    !recorded && facts.others_have_the_cpus()
}

/// True if its threads run whenever they can.
fn wants_nothing_else(facts: &Facts) -> bool {
    facts.on() > 0.0 && facts.undisturbed(facts.on()) >= 0.85 && !facts.others_have_the_cpus()
}

/// True if its own threads alone would wait for each other. `2.0 threads want 2 CPUs` would be no reason.
fn wants_more_cpus(facts: &Facts) -> bool {
    // A program that gets little has a queue as long as others make it.
    let shows_own_queue = !facts.others_have_the_cpus() || !facts.gets_little();
    facts.wants_cpus() >= f64::from(facts.system.cpus) + 0.2 && shows_own_queue
}

/// True if other programs leave it so little that waits of its threads for each other can't be distinguished from waits for others.
fn hides_own_queue(facts: &Facts) -> bool {
    let is_one_thread = serial_chain(facts).is_some() || serial(facts).is_some();
    facts.gets_little() && facts.active_threads > facts.system.cpus as usize && !is_one_thread
}

/// Share of thread time from which on preemption is worth a finding.
const LEAST_PREEMPTED: f64 = 0.05;

/// True if both its own threads and other programs have the CPUs when its threads wait for one.
fn shares_the_cpus(facts: &Facts) -> bool {
    let others_run = facts.others_use_cpus().is_some_and(|cpus| cpus >= LEAST_OF_OTHERS);
    facts.own_threads_have_the_cpus_too() && (facts.others_have_the_cpus() || others_run)
}

/// ` and others`, ` and tally itself`, `, tally itself and others`.
fn and_others(facts: &Facts) -> &'static str {
    let uses_much = |cpus: f64| cpus >= LEAST_OF_OTHERS;
    let has_most = tally_has_the_cpus(facts);
    let tally = has_most || uses_much(facts.recorder_cpus);
    let others = facts.others_use_cpus().map_or(!has_most, uses_much);
    match (tally, others) {
        (true, true) => ", tally itself and others",
        (true, false) => " and tally itself",
        (false, _) => " and others",
    }
}

/// `CPUs that other programs use`.
fn who_has_the_cpus(facts: &Facts) -> String {
    /// Share of the waits for a CPU: less may be chance.
    const LEAST_TO_NAME: f64 = 0.1;
    let (wanted, cpus) = (facts.wants_cpus(), facts.system.cpus);
    let others = facts.others_use_cpus().unwrap_or(0.0);
    let others_ran = facts.queue.others_ran.as_ref().map_or(0.0, |others| others.share);
    let is_tally = tally_has_the_cpus(facts);
    let number = if wanted < f64::from(cpus) + 1.0 { format!("{wanted:.1}") } else { format!("{wanted:.0}") };
    let wants = format!("{number} threads at a time");
    match (wants_more_cpus(facts), facts.others_have_the_cpus()) {
        (true, _) if others >= LEAST_OF_OTHERS => {
            format!("a CPU; {wants} want {cpus} CPUs; other programs use {others:.1} CPUs")
        }
        (true, false) if others_ran < LEAST_TO_NAME => format!("a CPU; {wants} want {cpus} CPUs"),
        (true, true) if is_tally => {
            let tally = facts.recorder_cpus;
            format!("a CPU; {wants} want {cpus} CPUs, tally itself uses {tally:.1} of them")
        }
        (true, _) => format!("a CPU; {wants} want {cpus} CPUs, which other programs use, too"),
        (false, true) if is_tally && !facts.own_threads_have_the_cpus_too() => {
            "CPUs that tally itself uses".to_owned()
        }
        (false, _) if shares_the_cpus(facts) => format!("CPUs that this program{} use", and_others(facts)),
        (false, true) => "CPUs that other programs use".to_owned(),
        (false, false) => "a CPU; the threads compute in bursts, several at the same time".to_owned(),
    }
}

/// The lock of the finding about locks, if it is made.
fn blamed_lock(facts: &Facts) -> Option<LockSite> {
    locks(facts)?;
    most_contended(facts).map(|(kind, _)| kind)
}

/// Share of active time waiting for a CPU that the findings about locks, if they are made, count as theirs.
fn queued_after_locks(facts: &Facts) -> f64 {
    let user = blamed_lock(facts).map_or(0.0, |kind| facts.share(kind.queued_ns));
    let kernel = kernel_lock(facts).map_or(0.0, |_| facts.queued_after(WaitReason::KernelLock));
    user + kernel
}

/// 9: > 1,000 preemptions a second and core used, > 5 % of active time preempted.
pub(super) fn preemption(facts: &Facts) -> Option<Finding> {
    let rate = facts.rates.preemptions_per_s / facts.cpus_used.max(0.1);
    let preempted = facts.share(facts.times.preempted_ns);
    if rate <= 1000.0 || preempted < LEAST_PREEMPTED {
        return None;
    }
    let text = format!("Preemption: threads lose their CPU {} times a second per CPU used", grouped(rate));
    let mut evidence = vec![format!("preempted: {} of thread time", pct(preempted))];
    evidence.extend(others_words(facts));
    let threads = facts.active_threads;
    let against = vec![format!("{threads} threads that do something on {} CPUs", facts.system.cpus)];
    let stacks =
        TopStacks::of(facts, "where it was taken off", ShareBase::Preempted, &facts.places.preempted)
            .or_missing("no preemption was long enough to be sampled with a stack");
    let claim = claim(preempted, text).fix("have fewer runnable threads");
    claim
        .evidence(evidence)
        .stacks(stacks)
        .against(against)
        .next(format!("tally report --wall --stdio{INPUT}"), "which threads were preempted")
}
