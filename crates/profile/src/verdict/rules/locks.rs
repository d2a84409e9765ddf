//! Rules about locks: of user space, and inside the kernel.

use super::{claim, pct};
use crate::off_cpu::Reason;
use crate::verdict::places::SPINNING;
use crate::verdict::{Facts, Finding, INPUT, LockSite, Stacks, Whole, brief};

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
    let mut evidence: Vec<String> =
        facts.contended().take(3).filter_map(|site| lock_line(facts, site)).collect();
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

/// Name of a function in a sentence; a phrase for unresolved ones.
fn called(name: &str) -> String {
    if name.starts_with('[') { "a function without a name".to_owned() } else { format!("{}()", brief(name)) }
}

/// What a lock takes; `None` if that is next to nothing.
fn lock_line(facts: &Facts, site: &LockSite) -> Option<String> {
    let parts = [
        (site.wait_ns, "asleep for it"),
        (site.queued_ns, "woken, waiting for a CPU"),
        (site.run_ns, "taking it and passing it on"),
    ];
    let told = parts.iter().filter(|(ns, _)| facts.share(*ns) >= 0.0005);
    let told: Vec<String> =
        told.map(|(ns, what)| format!("{:.1} % {what}", facts.share(*ns) * 100.0)).collect();
    let caller = if site.caller.is_empty() { String::new() } else { format!(" < {}", brief(&site.caller)) };
    (!told.is_empty()).then(|| format!("{}{caller}: {}", brief(&site.taker), told.join(", ")))
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
