//! The verdict of a recording: facts put together from file, counters and /proc, and the findings as lines.

pub mod first_screen;

use crate::events::io::block_events_here;
use crate::events::io::device;
use exchange::text::evidence::why_not_judged;
use profile::Profile;
use profile::tracepoints::block_io::{BlockIo, Join};
use profile::verdict::{Facts, Finding, INPUT, SystemFacts, TARGET, TopStacks, running_samples, verdict};
use profile::view::io::Latencies;
use profile::view::wall::{ThreadRow, Wall, WallOpts, wall};
use record::disk_watch::DiskState;
use record::opts::Watched;
use record::summary::RunSummary;
use record::system::SystemChange;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Findings, and the wall clock they are from.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// The wall-clock view.
    pub wall: Wall,
    /// At most three, by the share of thread time they explain.
    pub findings: Vec<Finding>,
    /// Why nothing is judged, if so.
    pub withheld: Option<String>,
    /// Samples of running threads.
    pub samples: u64,
    /// Share of active time in futex waits for other threads' work, not for locks.
    pub futex_for_work: f64,
}

/// State of the machine while the target ran.
#[derive(Debug)]
pub struct MachineChange {
    /// Counters.
    pub change: SystemChange,
    /// Disks' requests, if there were some to look at.
    pub disks: Option<DiskState>,
}

/// Judges a run. Without off-CPU data, running threads and counters are all there is to judge by. `target`: as on the
/// command line, for the next commands: `-p 123 -- sleep 5`, `-- ./app`.
#[must_use]
pub fn judge(profile: &Profile, summary: &RunSummary, machine: &MachineChange, target: &str) -> Judgement {
    let mut view = wall(profile, &WallOpts { longest: 3, ..WallOpts::default() });
    let mut facts = Facts::of(profile, &view);
    if view.threads.iter().all(ThreadRow::is_idle) {
        // As in all other views: the reasons of its waits are all there is to show.
        view = wall(profile, &WallOpts { longest: 3, never_empty: true, ..WallOpts::default() });
    }
    if view.source.is_none() {
        return Judgement { wall: view, ..Judgement::default() };
    }
    let samples = running_samples(profile);
    if let Some(why) = why_not_judged(&view, samples, summary.wall_ns) {
        return Judgement { wall: view, withheld: Some(why), samples, ..Judgement::default() };
    }
    add_counters(&mut facts, summary);
    facts.children_left_out = summary.children_left_out;
    facts.system = system_facts(&machine.change);
    (facts.recorder_cpus, facts.recorder_bpf_cpus) = summary.recorder_cpus_by_place();
    facts.system.disk_times = machine.disks.as_ref().and_then(disk_times);
    facts.system.disk_times_refused = machine.disks.as_ref().and_then(|seen| seen.refused.clone());
    facts.follow_waits(profile);
    let mut findings = verdict(&facts);
    for finding in &mut findings {
        finding.next = finding.next.replace(TARGET, target);
    }
    let futex_for_work = facts.share(facts.for_work_ns());
    Judgement { findings, wall: view, withheld: None, samples, futex_for_work }
}

/// Counts over the whole run.
fn add_counters(facts: &mut Facts, summary: &RunSummary) {
    let seconds = (summary.wall_ns as f64 / 1e9).max(1e-9);
    let rate = |name: &str| summary.counter(name).map_or(0.0, |counter| counter.value as f64 / seconds);
    facts.rates.faults_per_s = (rate("minor-faults"), rate("major-faults"));
    let listed: u64 = summary.threads.iter().map(|thread| thread.involuntary_switches).sum();
    facts.rates.preemptions_per_s = (listed + summary.more_threads.involuntary_switches) as f64 / seconds;
    // A recording read again has no summary; its threads' times are known.
    if summary.wall_ns > 0 {
        facts.cpus_used = summary.cpus_used();
    }
    let hardware = summary.counter("cycles").zip(summary.counter("instructions"));
    facts.rates.ipc = hardware.filter(|(c, _)| c.value > 0).map(|(c, i)| i.value as f64 / c.value as f64);
}

/// The disk of which requests took most time, and where they spent it.
fn disk_times(seen: &DiskState) -> Option<(String, Latencies)> {
    let (mut events, mut join, mut io) = (block_events_here(), Join::default(), BlockIo::default());
    for event in &seen.events {
        let Watched::Sample { time_ns, pid, raw, .. } = event else { continue };
        if let Some(event) = events.read(*time_ns, *pid, raw) {
            join.push(&event, &mut io);
        }
    }
    let mut disks: BTreeMap<u32, Latencies> = BTreeMap::new();
    for request in io.requests.iter().filter(|request| !request.merged) {
        disks.entry(request.dev).or_default().add(request);
    }
    let time_ns = |times: &Latencies| times.queue_total_ns.saturating_add(times.device_total_ns);
    let (dev, times) = disks.into_iter().max_by_key(|(_, times)| time_ns(times))?;
    Some((device::name(dev, true), times)).filter(|(_, times)| times.device.count() > 0)
}

fn system_facts(change: &SystemChange) -> SystemFacts {
    SystemFacts {
        cpus: change.cpus,
        busy: change.busy,
        steal: change.steal,
        interrupts: change.interrupts,
        interrupts_of_one_cpu: change.interrupts_of_one_cpu,
        iowait: change.iowait,
        pressure_cpu: change.pressure[0],
        pressure_io: change.pressure[1],
        pressure_memory: change.pressure[2],
        swapped_pages: change.swapped_pages,
        throttled: change.throttled.map(|(share, _)| share),
        throttled_ns: change.throttled.map(|(_, ns)| ns),
        throttled_by: change.throttled_by.clone(),
        steal_of_one_cpu: change.steal_of_one_cpu,
        soft_interrupts: change.soft_interrupts.clone(),
        tcp_retransmitted: change.tcp_retransmitted,
        listen_drops: change.listen_drops,
        busiest_disk: change.busiest_disk.as_ref().map(|(name, busy, _)| (name.clone(), *busy)),
        disk_await_ns: change.busiest_disk.as_ref().map(|(_, _, ns)| *ns),
        disk_times: None,
        disk_times_refused: None,
    }
}

fn stacks(finding: &Finding) -> Vec<Value> {
    let TopStacks { what, of, top, .. } = &finding.stacks;
    top.iter()
        .map(|(share, stack)| json!({ "share": share, "of": of.name(), "what": what, "stack": stack }))
        .collect()
}

/// Findings and wall clock for scripts: ns and shares. `input`: the option that names the recording, ` -i FILE`.
#[must_use]
pub fn to_json(judgement: &Judgement, input: &str) -> Value {
    let whole = &judgement.wall.whole;
    let blocked: serde_json::Map<String, Value> =
        whole.blocked_ns.iter().map(|(reason, ns)| (reason.name().to_owned(), json!(ns))).collect();
    let finding = |f: &Finding| {
        json!({
            "rule": f.rule, "name": f.name, "share": f.share, "claim": f.claim, "detail": f.detail,
            "fix": f.fix.replace(INPUT, input), "evidence": f.evidence,
            "stacks": stacks(f), "no_stacks": (!f.stacks.missing.is_empty()).then_some(f.stacks.missing),
            "checked_against": f.against, "next": f.next.replace(INPUT, input), "advice": f.advice,
        })
    };
    json!({
        "recorded": judgement.wall.source.is_some(),
        "no_verdict": judgement.withheld,
        "on_ns": whole.on_ns,
        "runnable_ns": whole.runnable_ns,
        "preempted_ns": whole.preempted_ns,
        "idle_ns": whole.idle_ns,
        "blocked_ns": blocked,
        "verdict": judgement.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

/// The findings as `tally why` reads them, with a placeholder for the recording's path.
#[must_use]
pub fn to_note(judgement: &Judgement, command: &str, warnings: &[String]) -> Value {
    let clock = to_json(judgement, INPUT);
    json!({
        "schema_version": first_screen::SCHEMA_VERSION, "command": command,
        "no_verdict": clock["no_verdict"], "findings": clock["verdict"], "warnings": warnings,
    })
}

/// Puts the option that names the recording into the commands of a finding of [`to_note`].
pub fn name_input(finding: &mut Value, input: &str) {
    for part in ["fix", "next"] {
        finding[part] = json!(finding[part].as_str().unwrap_or_default().replace(INPUT, input));
    }
}

/// Bytes of a note for the end of the recording.
#[must_use]
pub fn note_bytes(note: &Value) -> Vec<u8> {
    perfdata::appendix::findings_note::to_bytes(note.to_string().as_bytes())
}

#[cfg(test)]
mod tests;
