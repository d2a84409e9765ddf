//! The screen's numbers as JSON: times in ns, shares in percent.

use crate::text::run_screen::{FunctionShare, RunScreen};
use record::summary::{MoreThreads, RunSummary, StoppedStacks, ThreadUse};
use serde_json::{Value, json};

/// All the screen shows, without its limits.
pub fn of(screen: &RunScreen<'_>) -> Value {
    let summary = screen.summary;
    let shares = |list: &[FunctionShare]| list.iter().map(share).collect::<Vec<_>>();
    let counters = summary
        .counters
        .iter()
        .map(|c| (c.name.clone(), json!({ "value": c.value, "running_percent": c.running_pct })));
    json!({
        "command": screen.title,
        "exit_status": summary.exit.map(|exit| exit.shell_code()),
        "wall_ns": summary.wall_ns,
        "attached_processes": summary.attached_processes,
        "children_left_out": summary.children_left_out,
        "samples": screen.samples,
        "cpu_ns": summary.cpu_ns(),
        "cpus_used": summary.cpus_used(),
        "counters": counters.collect::<serde_json::Map<_, _>>(),
        "threads": summary.threads.iter().map(thread).collect::<Vec<_>>(),
        "more_threads": more_threads(&summary.more_threads),
        "functions_self": shares(&screen.own),
        "functions_total": shares(&screen.with_callees),
        "hottest_path": shares(&screen.path),
        "stacks": stacks(summary),
        "lost": lost(summary),
        "recorder": recorder(summary),
        "event": summary.event,
        "frequency_hz": summary.frequency_hz,
        "notices": summary.notices.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "record_better": screen.better,
        "name_hints": screen.name_hints,
        "file": summary.file,
    })
}

fn share(function: &FunctionShare) -> Value {
    let line = function.line.as_ref().map(|at| json!({ "file": at.file, "line": at.line }));
    json!({ "function": function.name, "dso": function.dso, "percent": function.percent, "hottest_line": line })
}

fn thread(thread: &ThreadUse) -> Value {
    json!({
        "pid": thread.pid,
        "tid": thread.tid,
        "comm": thread.comm,
        "title": thread.title,
        "life_ns": thread.life_ns,
        "on_cpu_ns": thread.on_ns,
        "off_cpu_ns": thread.off_ns,
        "preempted_ns": thread.preempted_ns,
        "voluntary_switches": thread.voluntary_switches,
        "involuntary_switches": thread.involuntary_switches,
        "samples": thread.samples,
    })
}

fn more_threads(more: &MoreThreads) -> Value {
    json!({
        "threads": more.threads,
        "on_cpu_ns": more.on_ns,
        "voluntary_switches": more.voluntary_switches,
        "involuntary_switches": more.involuntary_switches,
        "samples": more.samples,
    })
}

fn stacks(summary: &RunSummary) -> Value {
    let quality = &summary.quality;
    let stopped = |stopped: &StoppedStacks| {
        json!({
            "reason": format!("{:?}", stopped.reason),
            "dso": stopped.dso,
            "tid": stopped.thread.0,
            "comm": stopped.thread.1,
            "count": stopped.count,
        })
    };
    json!({
        "total": quality.stacks,
        "complete": quality.complete,
        "joined": quality.joined,
        "stopped": quality.stopped.iter().map(stopped).collect::<Vec<_>>(),
    })
}

fn lost(summary: &RunSummary) -> Value {
    let lost = &summary.lost;
    json!({
        "samples": lost.samples,
        "lost_records": lost.lost_records,
        "lost_samples": lost.lost_samples,
        "throttled": lost.throttled,
    })
}

fn recorder(summary: &RunSummary) -> Value {
    let used = &summary.recorder;
    json!({
        "user_ns": used.user_ns,
        "system_ns": used.system_ns,
        "while_running_ns": used.while_running_ns,
        "bpf_ns": used.programs_ns,
        "peak_memory_bytes": used.peak_memory_bytes,
        "file_bytes": used.file_bytes,
        "sample_bytes": used.sample_bytes,
    })
}
