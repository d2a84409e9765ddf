//! Each tier of time off the CPU, live: for every thread the times by state add up to its life. The time represented
//! by samples plus the rest is the thread's time in that state. Skips with a message where a tier does not work.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use perfdata::off_cpu::{OffCpuTotals, Payload, State, flag};
use perfdata::{Order, PerfData, Record};
use record::off_cpu::{OffCpuOpts, Tier};
use record::opts::{CallGraph, FileOpts, KeepFiles, Output, RecordOpts, StackOpts};
use record::summary::Notice;
use record::{RunSummary, Target};

/// One recording at a time: each minds all children and signals of the process.
static ONE: Mutex<()> = Mutex::new(());

/// Weights by thread and state, and the totals of each thread.
#[derive(Default)]
struct TierReport {
    weights: HashMap<u32, [u64; 8]>,
    with_chain: u64,
    samples: u64,
    totals: HashMap<u32, OffCpuTotals>,
}

fn report(bytes: &[u8]) -> TierReport {
    let mut report = TierReport::default();
    let file = PerfData::open(bytes).expect("our own file");
    let diagnostics = file.visit(Order::Time, |item| {
        if let Record::Sample(sample) = &item.record
            && let (Some(payload), Some((_, tid))) = (sample.raw.and_then(Payload::parse), sample.pid_tid)
        {
            match payload {
                Payload::Interval(of) => {
                    report.weights.entry(tid).or_default()[usize::from(of.state.code())] +=
                        sample.period.unwrap_or(0);
                    let can_have_one = of.flags & (flag::REST | flag::NEW) == 0;
                    report.samples += u64::from(can_have_one);
                    report.with_chain += u64::from(sample.callchain.is_some_and(|chain| chain.len() > 4));
                }
                Payload::Totals(totals) => {
                    report.totals.insert(tid, totals);
                }
            }
        }
        ControlFlow::Continue(())
    });
    drop(diagnostics);
    report
}

/// Processes and a pipe, waits and work: 20 naps of 10 ms among others.
const SCRIPT: &str =
    "i=0; while [ $i -lt 20 ]; do sleep 0.01; i=$((i+1)); done; yes | head -c 2000000 >/dev/null";

fn recorded(best: Tier) -> Option<(RunSummary, TierReport)> {
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tiers-{}.data", std::process::id()));
    let opts = RecordOpts {
        target: Target { command: ["sh", "-c", SCRIPT].map(Into::into).to_vec(), ..Target::default() },
        stacks: StackOpts { call_graph: CallGraph::Live, ..StackOpts::default() },
        file: FileOpts {
            output: Output::File(path.clone()),
            keep_files: KeepFiles::None,
            ..FileOpts::default()
        },
        summary: true,
        off_cpu: Some(OffCpuOpts { best, ..OffCpuOpts::default() }),
        ..RecordOpts::default()
    };
    let summary = match record::record(&opts) {
        Ok(summary) => summary,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let bytes = std::fs::read(&path).expect("the file is there");
    std::fs::remove_file(&path).expect("ours to remove");
    Some((summary, report(&bytes)))
}

/// Switches that the kernel hid from every tracer: the waits before them have no stack.
fn unseen_switches(summary: &RunSummary) -> u64 {
    let unseen = summary.notices.iter().find_map(|notice| match notice {
        Notice::OffCpuLost(count, what) if what.starts_with("switch-ins not shown") => Some(*count),
        _ => None,
    });
    unseen.unwrap_or_default()
}

/// `least` is the smallest share of samples with stacks, in percent.
fn check(summary: &RunSummary, report: &TierReport, least: u64) {
    assert!(report.totals.len() >= 20, "{} threads", report.totals.len());
    for (tid, totals) in &report.totals {
        let sum: u64 = totals.total_ns.iter().sum();
        assert!(sum.abs_diff(totals.life_ns()) * 100 <= totals.life_ns(), "{tid}: {totals:?}");
        let weights = report.weights.get(tid).copied().unwrap_or_default();
        for state in State::ALL.into_iter().filter(|state| !matches!(state, State::On | State::Idle)) {
            let at = usize::from(state.code());
            assert_eq!(weights[at], totals.total_ns[at], "{tid} {state:?}: {totals:?}");
        }
    }
    // The screen's threads and counters are the same numbers.
    for thread in &summary.threads {
        assert_eq!(thread.on_ns + thread.off_ns, thread.life_ns, "{thread:?}");
    }
    let switches: u64 =
        summary.threads.iter().map(|thread| thread.voluntary_switches + thread.involuntary_switches).sum();
    let counted = summary.counter("context-switches").expect("counted").value;
    // perf's counter leaves a thread a moment before its last switches, and some kernels keep a few from tracepoints.
    assert!(counted.abs_diff(switches) <= counted / 10 + 20, "{counted} switches, threads say {switches}");
    let asleep: u64 = report.totals.values().map(|totals| totals.total_ns[3]).sum();
    assert!(asleep >= 200_000_000, "{asleep} ns asleep");
    let unseen = unseen_switches(summary);
    assert!(
        (report.with_chain + unseen) * 100 >= report.samples * least,
        "{} of {} samples have stacks, {unseen} could not: {:?} {:?}",
        report.with_chain,
        report.samples,
        summary.lost,
        summary.notices
    );
}

#[test]
#[ignore = "live: records on this machine"]
fn with_bpf_times_add_up_for_every_thread_and_counters_are_the_engines() {
    let Some((summary, report)) = recorded(Tier::Engine) else { return };
    let why = summary.notices.iter().find_map(|notice| match notice {
        Notice::NoOffCpu(why) | Notice::ByTracepoints(why) => Some(why),
        _ => None,
    });
    if let Some(why) = why {
        assert!(
            ["run as root", "btf", "seccomp"].iter().any(|cause| why.contains(cause)),
            "the engine must load where it may: {why}"
        );
        println!("skipped: no BPF here: {why}");
        return;
    }
    check(&summary, &report, 90);
    assert!(summary.counter("minor-faults").expect("counted by the engine").value > 1000);
}

#[test]
#[ignore = "live: records on this machine"]
fn by_tracepoints_times_add_up_for_every_thread() {
    let Some((summary, report)) = recorded(Tier::Tracepoints) else { return };
    if summary.notices.iter().any(|n| matches!(n, Notice::NoOffCpu(_))) {
        println!("skipped: tracepoints may not be opened for CPUs here");
        return;
    }
    // On a machine with much else to do, rings of whole CPUs run full, and a process of 10 ms has ended before its
    // stack is unwound: 7 % were left next to four rivals. That times add up does not depend on it.
    check(&summary, &report, 1);
}
