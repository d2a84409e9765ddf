//! Rules about threads that do not run: for a CPU, a lock, a disk, others, or nothing at all.

use super::machine::queued_by_quota;
use super::{claim, list, pct, time};
use crate::off_cpu::Reason;
use crate::verdict::facts::REGULAR;
use crate::verdict::places::{NOT_RECORDED, SPINNING};
use crate::verdict::{Entry, Facts, Finding, INPUT, LockSite, Stacks, TARGET, Whole, brief};
use crate::view::io::Latencies;
use crate::view::wall::Histogram;

/// 6: > 10 % of active time waits for a CPU. What a lock's waiters wait on after it was let go is the lock's,
/// what a quota makes them wait the quota's.
pub(super) fn saturation(facts: &Facts) -> Option<Finding> {
    let waiting = facts.waiting_for_cpu() - queued_by_quota(facts);
    if waiting <= 0.1 {
        return None;
    }
    let text = format!(
        "CPU saturation: {} of thread time is spent waiting for a CPU ({}){}.",
        pct(waiting),
        who_has_the_cpus(facts),
        if wants_nothing_else(facts) { "; the program is CPU bound" } else { "" }
    );
    let mut evidence = Vec::new();
    let (p50, p99, max) = facts.run_queue_ns;
    if max > 0 {
        let (p50, p99, max) = (time(p50), time(p99), time(max));
        evidence.push(format!("wait for a CPU after wake-up: p50 {p50}, p99 {p99}, longest {max}"));
    }
    if facts.share(facts.times.preempted_ns) > 0.02 {
        let by = facts.preempted_by_others.as_ref().filter(|(share, _)| *share > 0.01);
        let by = by.map_or_else(String::new, |(share, most)| {
            let most = if most.is_empty() { String::new() } else { format!(" (most for {most})") };
            format!("; {} of that for other programs{most}", pct(*share))
        });
        evidence.push(format!("preempted while running: {}{by}", pct(facts.share(facts.times.preempted_ns))));
    }
    if let Some(pressure) = facts.system.pressure_cpu {
        evidence.push(format!("the machine: some task waited for a CPU {} of the time", pct(pressure)));
    }
    let mut against = vec![format!("cgroup throttling: {}", pct(facts.system.throttled.unwrap_or(0.0)))];
    let after_locks = queued_after_locks(facts);
    if after_locks > 0.01 {
        against.push(format!("of it right after a wait for a lock: {}", pct(after_locks)));
    }
    if is_unseen(facts) {
        evidence.push("what the others ran was not recorded: tally run -a does".to_owned());
    }
    claim(waiting - after_locks, text)
        .evidence(evidence)
        .stacks(who_ran_instead(facts))
        .against(against)
        .next(
            format!("tally report --wall --stdio{INPUT}"),
            "the run queue, by thread; fewer threads or more CPUs",
        )
}

/// What others had the CPU for: where it was recorded, else where those stand that wait for it.
fn who_ran_instead(facts: &Facts) -> Stacks {
    let ran = || Stacks::running(facts, "what ran meanwhile", &Entry::ALL);
    if !is_unseen(facts) {
        return Stacks::of(facts, "who ran instead", Whole::Preempted, &facts.places.instead).or(ran);
    }
    Stacks::of(facts, "where threads wait for a CPU", Whole::Queued, &facts.places.queued)
        .or_missing("no wait for a CPU was long enough to have been taken with a stack")
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

fn who_has_the_cpus(facts: &Facts) -> String {
    let (wants, cpus) = (facts.wants_cpus(), facts.system.cpus);
    match (wants > f64::from(cpus), facts.others_have_the_cpus()) {
        (true, false) => format!("{wants:.0} of its threads at a time want one of {cpus}"),
        (true, true) => {
            format!("{wants:.0} of its threads at a time want one of {cpus}, and other programs run on them")
        }
        (false, _) => "other programs have the CPUs".to_owned(),
    }
}

/// Share of active time waiting for a CPU that the findings about locks, if they are made, count as theirs.
fn queued_after_locks(facts: &Facts) -> f64 {
    let user = locks(facts).and_then(|_| facts.contended().next());
    let user = user.map_or(0.0, |site| facts.share(site.queued_ns));
    let kernel = kernel_lock(facts).map_or(0.0, |_| facts.queued_after(Reason::KernelLock));
    user + kernel
}

/// 8: > 15 % of active time sleeps for locks in user space, or > 20 % of running time fights for one in the kernel.
pub(super) fn locks(facts: &Facts) -> Option<Finding> {
    let asleep: f64 = facts.contended().map(|site| facts.share(site.wait_ns)).sum();
    let top = facts.contended().next()?;
    if facts.undisturbed(asleep) <= 0.15 && facts.in_futex() <= 0.2 {
        return None;
    }
    let share = facts.share(top.total_ns());
    let (taker, caller) = (called(&top.taker), brief(&top.caller));
    let caller = if caller.is_empty() { caller } else { format!(", called from {caller}") };
    let which = match (top.known, top.in_library) {
        (Some(known), _) => format!("fighting over {}", known.name),
        _ if top.is_bare => {
            format!("fighting over a futex of {taker}{caller} (a lock of its own, or a signal)")
        }
        (None, true) => format!("fighting over the lock inside {taker}{caller}"),
        (None, false) => format!("fighting over the lock taken in {taker}{caller}"),
    };
    let (now, calm) = (facts.switches_per_s, facts.calm_switches_per_s(top));
    let times = now / calm;
    let switches = if times < 2.0 {
        String::new()
    } else {
        format!("; context switches {times:.*}× a calm run's", usize::from(times < 10.0))
    };
    let cure = match top.known {
        Some(known) => format!("; {}", known.cure),
        None if top.taker.starts_with("rand") => "; use a generator per thread".to_owned(),
        None => String::new(),
    };
    let text = format!(
        "{}: {} of thread time is spent waiting for or {which}{switches}{cure}.",
        if top.is_bare { "Futex" } else { "Lock contention" },
        pct(share)
    );
    let mut evidence: Vec<String> = facts.contended().take(3).map(|site| lock_line(facts, site)).collect();
    if facts.in_futex() > 0.01 {
        evidence.push(format!("{} of running time is inside the futex system call", pct(facts.in_futex())));
    }
    evidence.push(format!(
        "{now:.0} context switches a second; {calm:.0} would be left without the waits for this lock"
    ));
    let against = vec![
        format!(
            "waiting for a CPU for other reasons: {}",
            pct(facts.waiting_for_cpu() - facts.share(top.queued_ns))
        ),
        format!("locks inside the kernel: {}", pct(facts.blocked(Reason::KernelLock))),
    ];
    let stacks = Stacks::of(facts, "where threads sleep for it", Whole::Active, &facts.places.locks)
        .or_missing("no wait for it was long enough to have been taken with a stack");
    claim(share, text)
        .evidence(evidence)
        .stacks(stacks)
        .against(against)
        .next(format!("tally locks{INPUT}"), "holders and waiters; hold the lock shorter, or split it")
}

/// A function as one says it; of those without a name that they have none.
fn called(name: &str) -> String {
    if name.starts_with('[') { "a function without a name".to_owned() } else { format!("{}()", brief(name)) }
}

fn lock_line(facts: &Facts, site: &LockSite) -> String {
    let parts = [
        (site.wait_ns, "asleep for it"),
        (site.queued_ns, "woken, waiting for a CPU"),
        (site.run_ns, "taking it and passing it on"),
    ];
    let told = parts.iter().filter(|(ns, _)| facts.share(*ns) >= 0.0005);
    let told: Vec<String> =
        told.map(|(ns, what)| format!("{:.1} % {what}", facts.share(*ns) * 100.0)).collect();
    let caller = if site.caller.is_empty() { String::new() } else { format!(" < {}", brief(&site.caller)) };
    format!("{}{caller}: {}", brief(&site.taker), told.join(", "))
}

/// 9: > 1,000 preemptions a second and core used.
pub(super) fn preemption(facts: &Facts) -> Option<Finding> {
    let rate = facts.preemptions_per_s / facts.cpus_used.max(0.1);
    if rate <= 1000.0 {
        return None;
    }
    let preempted = facts.share(facts.times.preempted_ns);
    let text = format!("Preemption: threads are taken off their CPU {rate:.0} times a second and CPU used.");
    let mut evidence = vec![format!("preempted: {} of thread time", pct(preempted))];
    if let Some((share, most)) = facts.preempted_by_others.as_ref().filter(|(share, _)| *share > 0.01) {
        evidence.push(format!("{} of that for other programs, most for {most}", pct(*share)));
    }
    let threads = facts.active_threads;
    let against = vec![format!("{threads} threads that do something on {} CPUs", facts.system.cpus)];
    let stacks = Stacks::of(facts, "where it was taken off", Whole::Preempted, &facts.places.preempted)
        .or_missing("no preemption was long enough to have been taken with a stack");
    claim(preempted, text).evidence(evidence).stacks(stacks).against(against).next(
        format!("tally report --wall --stdio{INPUT}"),
        "by thread; fewer runnable threads, or longer turns",
    )
}

/// 10: > 20 % of active time waits for the disk.
pub(super) fn disk(facts: &Facts) -> Option<Finding> {
    let (read, sync) = (facts.blocked(Reason::Disk), facts.blocked(Reason::Fsync));
    if facts.undisturbed(read + sync) <= 0.2 {
        return None;
    }
    let text = format!(
        "Disk: {} of thread time waits for it ({} reading and writing, {} fsync).",
        pct(read + sync),
        pct(read),
        pct(sync)
    );
    let mut evidence = Vec::new();
    if let (Some((name, busy)), Some(ns)) = (&facts.system.busiest_disk, facts.system.disk_await_ns) {
        evidence.push(format!("{name}: busy {} of the time, {} a request", pct(*busy), time(ns)));
    }
    evidence.extend(facts.system.disk_times.as_ref().map(|(name, times)| queue_and_device(name, times)));
    let refused = facts.system.disk_times_refused.as_ref();
    evidence.extend(refused.map(|why| format!("time in the queue and in the device is not known: {why}")));
    let against = vec![
        format!("page faults that read: {}", pct(facts.blocked(Reason::PageFault))),
        format!("running: {}", pct(facts.on())),
    ];
    let stacks = Stacks::blocked(facts, "where threads wait for it", &[Reason::Disk, Reason::Fsync]);
    claim(read + sync, text).evidence(evidence).stacks(stacks).against(against).next(
        format!("tally io -o io.data {TARGET}"),
        "each request's time in the queue and in the device, and who caused it",
    )
}

/// 11: a disk busy > 70 % with > 10 ms a request.
pub(super) fn disk_saturated(facts: &Facts) -> Option<Finding> {
    let (name, busy) = facts.system.busiest_disk.as_ref()?;
    let ns = facts.system.disk_await_ns.unwrap_or(0);
    let waits = facts.blocked(Reason::Disk) + facts.blocked(Reason::Fsync) + facts.blocked(Reason::PageFault);
    if *busy <= 0.7 || ns <= 10_000_000 || waits <= 0.05 {
        return None;
    }
    let text =
        format!("The disk {name} is saturated: busy {} of the time, {} a request.", pct(*busy), time(ns));
    let evidence = facts.system.disk_times.as_ref().map(|(name, times)| queue_and_device(name, times));
    const FOR_DISK: [Reason; 3] = [Reason::Disk, Reason::Fsync, Reason::PageFault];
    claim(waits * 0.99, text)
        .evidence(evidence.into_iter().collect())
        .stacks(Stacks::blocked(facts, "where threads wait for it", &FOR_DISK))
        .against(vec![format!("threads of the target wait for it {}", pct(waits))])
        .next(
            "tally io -a -o io.data -- sleep 10".to_owned(),
            "queue and device, and who causes the requests",
        )
}

/// Where requests spent their time: waiting to be given to the device, or in it.
fn queue_and_device(name: &str, times: &Latencies) -> String {
    let part = |of: &Histogram| {
        format!("p50 {}, p99 {}", time(of.percentile_ns(50.0)), time(of.percentile_ns(99.0)))
    };
    let device = format!("in the device {}", part(&times.device));
    let requests = times.device.count();
    if times.queue.count() == 0 {
        return format!(
            "{name}: {requests} requests went straight to the device, none waited in a queue; {device}"
        );
    }
    let queue_share =
        times.queue_total_ns as f64 / (times.queue_total_ns + times.device_total_ns).max(1) as f64;
    let most = match queue_share > 0.5 {
        true => format!("{} of their time was in the queue", pct(queue_share)),
        false => format!("{} of their time was in the device", pct(1.0 - queue_share)),
    };
    format!("{name}: {requests} requests; in the queue {}, {device}: {most}", part(&times.queue))
}

/// 12: > 50 major faults a second, memory pressure > 5 %, or swapping.
pub(super) fn memory_pressure(facts: &Facts) -> Option<Finding> {
    let major = facts.faults_per_s.1;
    let pressure = facts.system.pressure_memory.unwrap_or(0.0);
    let swapped = facts.system.swapped_pages.unwrap_or(0);
    let waits = facts.blocked(Reason::PageFault) + facts.blocked(Reason::Memory);
    if (major <= 50.0 && pressure <= 0.05 && swapped == 0) || waits.max(pressure) < 0.02 {
        return None;
    }
    let short = pressure > 0.05 || swapped > 0;
    let text = match short {
        true if waits >= 0.01 => format!(
            "Memory is short: {} of thread time waits for pages ({major:.0} major faults a second, {swapped} pages \
             swapped).",
            pct(waits)
        ),
        true => format!(
            "Memory is short on this machine: some task waited for it {} of the time, the target's hardly ({swapped} \
             pages swapped).",
            pct(pressure)
        ),
        false => format!(
            "Cold files: {} of thread time waits until pages of mapped files and programs are read from the disk.",
            pct(waits)
        ),
    };
    let evidence = vec![format!("{major:.0} major faults a second")];
    let stacks = Stacks::blocked(facts, "where threads wait for pages", &[Reason::PageFault, Reason::Memory])
        .or(|| Stacks::running(facts, "where threads run in page faults", &[Entry::Fault]))
        .or_missing(
            "none of the target's threads was seen in a page fault: the machine is short, not the target",
        );
    let against = vec![format!("memory pressure: {}", pct(pressure)), format!("pages swapped: {swapped}")];
    let advice = match short {
        true => "then tally report -i faults.data: which code waits; more memory, or less of it in use",
        false => "then tally report -i faults.data: which code waits; read ahead (madvise, readahead)",
    };
    claim(waits.max(if short { pressure } else { 0.0 }), text)
        .evidence(evidence)
        .stacks(stacks)
        .against(against)
        .next(format!("tally record -e major-faults -c 1 -g -o faults.data {TARGET}"), advice)
}

/// 14: > 5 % of running time spins on kernel locks, or > 5 % of active time sleeps for them.
pub(super) fn kernel_lock(facts: &Facts) -> Option<Finding> {
    let (spin, sleep) = (facts.in_kernel(SPINNING), facts.blocked(Reason::KernelLock));
    if spin <= 0.05 && sleep <= 0.05 {
        return None;
    }
    let queued = facts.queued_after(Reason::KernelLock);
    let share = sleep + queued + spin * facts.on();
    let (text, cure) = match facts.kernel_locks.first().filter(|((lock, _), _)| *lock != Facts::SOME_LOCK) {
        Some(((lock, _), _)) => {
            let told = |((of, _), ns): &&((&str, &str), u64)| of == lock && facts.share(*ns) >= 0.01;
            let by = facts.kernel_locks.iter().filter(told).take(3);
            let by: Vec<String> =
                by.map(|((_, what), ns)| format!("{what} {}", pct(facts.share(*ns)))).collect();
            let text =
                format!("Kernel lock: {} of thread time waits for {lock}, in {}.", pct(share), by.join(", "));
            let maps = lock.contains("address space");
            (
                text,
                if maps {
                    "from where; map once and keep it, or read() into own buffers"
                } else {
                    "from where"
                },
            )
        }
        None => {
            let text =
                format!("Kernel lock: {} of thread time waits for locks inside the kernel.", pct(share));
            (text, "from where")
        }
    };
    let mut evidence = Vec::new();
    if queued > 0.01 {
        evidence.push(format!("{} asleep for it, {} woken, waiting for a CPU", pct(sleep), pct(queued)));
    }
    if spin > 0.01 {
        evidence.push(format!("{} of running time spins on locks inside the kernel", pct(spin)));
    }
    let against = vec![
        format!("locks in user space: {}", pct(facts.blocked(Reason::Futex))),
        format!("disk: {}", pct(facts.blocked(Reason::Disk))),
    ];
    let spinning = || Stacks::of(facts, "where threads spin", Whole::Running, &facts.places.spinning);
    let stacks = Stacks::blocked(facts, "where threads wait for it", &[Reason::KernelLock]).or(spinning);
    claim(share, text)
        .evidence(evidence)
        .stacks(stacks.or_missing("neither a wait for it nor a sample in it was taken with a stack"))
        .against(against)
        .next(format!("tally flame --off-cpu{INPUT} -o wait.svg"), cure)
}

/// What threads wait for that others do.
const OF_OTHERS: [Reason; 4] = [Reason::Socket, Reason::Pipe, Reason::Poll, Reason::Child];

/// Share of active time waiting for others: for what comes from outside, for children, for threads that work.
fn for_others(facts: &Facts) -> f64 {
    OF_OTHERS.iter().map(|&reason| facts.blocked(reason)).sum::<f64>() + facts.share(facts.for_work_ns())
}

/// ns of waits for others of which it is told who ended them, by name. A timer that ended one says only that the others
/// did not come in time.
fn enders(facts: &Facts) -> Vec<(String, u64)> {
    let reasons = OF_OTHERS.iter().chain([&Reason::Futex]);
    let told = reasons.filter_map(|reason| facts.enders.get(reason)).flatten();
    let mut names: Vec<(String, u64)> = Vec::new();
    for (name, ns) in told.filter(|(name, _)| !name.is_empty() && name != "irq:timer") {
        match names.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += ns,
            None => names.push((name.clone(), *ns)),
        }
    }
    names.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    names
}

/// True if it is threads of the target itself that end most of these waits: what those do meanwhile is what it takes.
pub(in crate::verdict) fn wait_for_each_other(facts: &Facts) -> bool {
    const MOST: f64 = 0.7;
    let reasons = OF_OTHERS.iter().chain([&Reason::Futex]);
    let own: u64 = reasons.filter_map(|reason| facts.ended_by_own.get(reason)).sum();
    let told: u64 = enders(facts).iter().map(|(_, ns)| ns).sum();
    told > 0 && own as f64 > MOST * told as f64
}

/// 15: the CPU is used little, and waits are for others: sockets, pipes, poll, children, threads that work.
pub(super) fn waiting_for_others(facts: &Facts) -> Option<Finding> {
    let share = for_others(facts);
    if facts.undisturbed(facts.on()) >= 0.5 || facts.undisturbed(share) <= 0.4 {
        return None;
    }
    let mut parts: Vec<(String, u64)> = Vec::new();
    for reason in OF_OTHERS {
        parts.push((reason.name().to_owned(), facts.times.blocked_ns.get(&reason).copied().unwrap_or(0)));
    }
    parts.push(("conditions and joins".to_owned(), facts.for_work_ns()));
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let parts = list(&parts, facts.times.active_ns());
    let enders = enders(facts);
    let enders = list(&enders, enders.iter().map(|(_, ns)| ns).sum());
    let text = match wait_for_each_other(facts) {
        true => format!(
            "Its threads wait for each other: {} of thread time ({parts}); what takes time is what {} meanwhile.",
            pct(share),
            if enders.is_empty() {
                "the others do".to_owned()
            } else {
                format!("those do that end the waits ({enders})")
            }
        ),
        false => format!("Waiting for others: {} of thread time ({parts}).", pct(share)),
    };
    let mut evidence = Vec::new();
    if !enders.is_empty() {
        evidence.push(format!("ended by: {enders}"));
    }
    let against =
        vec![format!("disk: {}", pct(facts.blocked(Reason::Disk))), format!("running: {}", pct(facts.on()))];
    let reasons = [&OF_OTHERS[..], &[Reason::Futex]].concat();
    claim(share, text)
        .evidence(evidence)
        .stacks(Stacks::blocked(facts, "where threads wait", &reasons))
        .against(against)
        .next(format!("tally flame --wakers{INPUT} -o wakers.svg"), "who ends the waits")
}

/// 16: timer waits of nearly one length, > 20 % of active time, or of any, > 50 %.
pub(super) fn polling(facts: &Facts) -> Option<Finding> {
    let (length_ns, variation, count) = facts.timers?;
    let share = facts.blocked(Reason::Timer);
    let is_regular = variation < REGULAR;
    if facts.undisturbed(share) <= if is_regular { 0.2 } else { 0.5 } {
        return None;
    }
    let length = time(length_ns as u64);
    let text = match (is_regular, count) {
        (true, _) => format!(
            "Sleeping in a loop: {} of thread time is timer waits of {length}, again and again.",
            pct(share)
        ),
        (false, 1) => {
            format!("Sleeping: {} of thread time is one sleep of {length} that it asked for.", pct(share))
        }
        (false, _) => format!(
            "Sleeping: {} of thread time is timer waits that it asked for, half of it in those of {length} and more.",
            pct(share)
        ),
    };
    let mut evidence = Vec::new();
    if variation.is_finite() {
        evidence.push(format!("{count} waits sampled, varying {:.0} %", variation * 100.0));
    }
    let against = vec![
        format!("running: {}", pct(facts.on())),
        format!("waiting for a CPU: {}", pct(facts.waiting_for_cpu())),
    ];
    claim(share, text)
        .evidence(evidence)
        .stacks(Stacks::blocked(facts, "where threads sleep", &[Reason::Timer]))
        .against(against)
        .next(
            format!("tally flame --off-cpu{INPUT} -o wait.svg"),
            "from where; wait for the event itself, not for time",
        )
}

/// 20: nearly all time of nearly all threads is idle.
pub(super) fn idle(facts: &Facts) -> Option<Finding> {
    let total = facts.times.total_ns();
    let share = if total == 0 { 0.0 } else { facts.times.idle_ns as f64 / total as f64 };
    if share < 0.9 || facts.cpus_used > 0.2 {
        return None;
    }
    let text = format!("Idle: threads wait for work {} of their time; nothing holds them up.", pct(share));
    let stacks = Stacks::of(facts, "where threads wait for work", Whole::All, &facts.places.idle)
        .or_missing("its waits are told without stacks");
    let against = vec![
        format!("CPUs used: {:.2}", facts.cpus_used),
        format!("locks: {}", pct(facts.blocked(Reason::Futex))),
        format!("disk: {}", pct(facts.blocked(Reason::Disk))),
    ];
    claim(share, text).stacks(stacks).against(against).next(
        format!("tally report --wall --idle --stdio{INPUT}"),
        "its waits counted like all others; or put load on it and look again",
    )
}
