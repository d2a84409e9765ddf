//! Rules about waits for a disk, and for pages that come from one.

use super::{claim, grouped, most_and_others, pct, time, whole_percents};
use crate::grow::GrownSum as _;
use crate::off_cpu::WaitReason;
use crate::verdict::{EntryReason, Facts, Finding, TARGET, TopStacks};
use crate::view::io::Latencies;
use crate::view::wall::Histogram;

/// 10: > 20 % of active time waits for the disk.
pub(super) fn disk(facts: &Facts) -> Option<Finding> {
    let (read, sync) = (facts.blocked(WaitReason::Disk), facts.blocked(WaitReason::Fsync));
    if facts.undisturbed(read + sync) <= 0.2 {
        return None;
    }
    let (parts, whole) = whole_percents(&[read, sync]);
    let text = format!(
        "Disk: {whole} % of thread time waits for {}",
        match (read > 0.005, sync > 0.005) {
            (true, true) => format!("it ({} % reading and writing, {} % fsync)", parts[0], parts[1]),
            (false, true) => "fsync".to_owned(),
            _ => "reads and writes".to_owned(),
        }
    );
    let mut evidence = Vec::new();
    if !facts.waits.files.is_empty() {
        let whole = facts.waits.files.iter().map(|(_, ns)| *ns).grown_sum();
        evidence.push(format!("these waits by file: {}", most_and_others(&facts.waits.files, whole)));
    }
    if let (Some((name, busy)), Some(ns)) = (&facts.system.busiest_disk, facts.system.disk_await_ns) {
        evidence.push(format!("{name}: busy {} of the time, {} a request", pct(*busy), time(ns)));
    }
    evidence.extend(facts.system.disk_times.as_ref().map(|(name, times)| queue_and_device(name, times)));
    let refused = facts.system.disk_times_refused.as_ref();
    evidence.extend(refused.map(|why| format!("time in the queue and in the device is not known: {why}")));
    let against = vec![
        format!("page faults that read: {}", pct(facts.blocked(WaitReason::PageFault))),
        format!("running: {}", pct(facts.on())),
    ];
    let stacks =
        TopStacks::blocked(facts, "where threads wait for it", &[WaitReason::Disk, WaitReason::Fsync]);
    let leaf = facts.places.blocked.get(&WaitReason::Disk).and_then(|places| places.first());
    let fix = match leaf.and_then(|(place, _)| place.split(" < ").next()) {
        _ if sync > read && facts.undisturbed(read) > 0.2 => {
            "sync less often, and read ahead or keep the data in memory"
        }
        _ if sync > read => "sync less often",
        // Nobody can read folders ahead, and what is known about files.
        Some(leaf) if ["getdents", "stat", "open"].iter().any(|part| leaf.contains(part)) => {
            "visit fewer folders and files; once read, they stay in memory: compare a second run"
        }
        Some(leaf) if leaf.contains("read") => "read ahead, or keep the data in memory",
        Some(leaf) if leaf.contains("write") => "write less often and more at a time",
        _ => "read and write less, or more at a time",
    };
    claim(read + sync, text).fix(fix).evidence(evidence).stacks(stacks).against(against).next(
        format!("tally io -o io.data {TARGET}"),
        "each request's time in the queue and in the device, and who caused it",
    )
}

/// 11: a disk busy > 70 % with > 10 ms a request.
pub(super) fn disk_saturated(facts: &Facts) -> Option<Finding> {
    let (name, busy) = facts.system.busiest_disk.as_ref()?;
    let ns = facts.system.disk_await_ns.unwrap_or(0);
    let waits = facts.blocked(WaitReason::Disk)
        + facts.blocked(WaitReason::Fsync)
        + facts.blocked(WaitReason::PageFault);
    if *busy <= 0.7 || ns <= 10_000_000 || waits <= 0.05 {
        return None;
    }
    let text = format!("Disk {name} is saturated: busy {} of the time, {} per request", pct(*busy), time(ns));
    let evidence = facts.system.disk_times.as_ref().map(|(name, times)| queue_and_device(name, times));
    const FOR_DISK: [WaitReason; 3] = [WaitReason::Disk, WaitReason::Fsync, WaitReason::PageFault];
    claim(waits * 0.99, text)
        .fix("make fewer and larger requests")
        .evidence(evidence.into_iter().collect())
        .stacks(TopStacks::blocked(facts, "where threads wait for it", &FOR_DISK))
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
    let queue_share = times.queue_total_ns as f64
        / times.queue_total_ns.saturating_add(times.device_total_ns).max(1) as f64;
    let most = match queue_share > 0.5 {
        true => format!("{} of their time was in the queue", pct(queue_share)),
        false => format!("{} of their time was in the device", pct(1.0 - queue_share)),
    };
    format!("{name}: {requests} requests; in the queue {}, {device}: {most}", part(&times.queue))
}

/// 12: > 50 major faults a second, memory pressure > 5 %, or swapping; and > 2 % of active time waits for pages. Memory is
/// short only where pressure or swapping explains these waits: a machine that is short of it while this program does not
/// wait is no finding about this program.
pub(super) fn memory_pressure(facts: &Facts) -> Option<Finding> {
    /// Pages. A busy machine swaps some at any time.
    const MANY: u64 = 256;
    const LEAST_S: f64 = 1.0;
    let major = facts.rates.faults_per_s.1;
    let pressure = facts.system.pressure_memory.unwrap_or(0.0);
    let swapped = facts.system.swapped_pages.unwrap_or(0);
    let waits = facts.blocked(WaitReason::PageFault) + facts.blocked(WaitReason::Memory);
    // A wait for want of memory is part of the pressure. With much less pressure most waits are for files, and in
    // a program's first moments they always are.
    let is_pressed = pressure > 0.05 && pressure >= waits / 2.0 && facts.wall_s >= LEAST_S;
    let short = swapped >= MANY || is_pressed;
    if (major <= 50.0 && !short) || waits < 0.02 {
        return None;
    }
    let text = match short {
        true => format!(
            "Memory is short: {} of thread time waits for pages ({} major faults a second, {} pages swapped)",
            pct(waits),
            grouped(major),
            grouped(swapped as f64)
        ),
        false => format!(
            "Cold files: {} of thread time waits until parts of programs and mapped files are read from the disk",
            pct(waits)
        ),
    };
    let evidence = vec![format!("{major:.0} major faults a second")];
    let stacks = TopStacks::blocked(
        facts,
        "where threads wait for pages",
        &[WaitReason::PageFault, WaitReason::Memory],
    )
    .or(|| TopStacks::running(facts, "where threads run in page faults", &[EntryReason::Fault]))
    .or_missing("no wait for a page was taken with a stack");
    let against = vec![format!("memory pressure: {}", pct(pressure)), format!("pages swapped: {swapped}")];
    let fix = match short {
        true => "use less memory, or add some",
        false => "read ahead (madvise, readahead)",
    };
    claim(waits, text).fix(fix).evidence(evidence).stacks(stacks).against(against).next(
        format!(
            "tally record -e major-faults -c 1 -g -o faults.data {TARGET} && tally report -i faults.data"
        ),
        "which code waits",
    )
}
