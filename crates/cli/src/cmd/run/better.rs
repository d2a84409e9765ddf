//! The command that would record better, when something kept this recording from being good.

use super::Args;
use crate::flags::recording::TargetArgs;
use profile::verdict::quoted;
use record::opts::CallGraph;
use record::summary::{Notice, RunSummary, StopReason, StoppedStacks};

/// Shares of fewer samples are too uncertain.
const FEW: u64 = 200;

/// The one most useful thing to do, with the command; `None` if all is well.
pub fn command(args: &Args, summary: &RunSummary, samples: u64) -> Option<String> {
    let lost = summary.lost.lost_records + summary.lost.lost_samples;
    let quality = &summary.quality;
    let worst = quality.stopped.first().filter(|stopped| stopped.count * 100 > quality.stacks);
    if lost > 0 {
        let pages = args.sampling.mmap_pages.and_then(|sizes| sizes.pages).map_or(1024, |pages| pages * 4);
        return Some(format!("samples were lost; for larger rings: {}", again(args, &format!("-m {pages}"))));
    }
    let of_stacks = worst.and_then(|stopped| match stopped.reason {
            StopReason::CopyEnd(_) if args.sampling.call_graph.is_some_and(|how| how != CallGraph::Live) => {
                Some(format!("stacks are cut; to join them while recording: {}", again(args, "--call-graph live")))
            }
            StopReason::Behind => Some(format!("the recorder was late; for fewer samples: {}", again(args, "-F 499"))),
            StopReason::NoUnwindInfo if is_jit_code(stopped) => Some(
                "stacks end in JIT code: make it keep frame pointers (node --interpreted-frames-native-stack, \
                 java -XX:+PreserveFramePointer)"
                    .to_owned(),
            ),
            StopReason::NoUnwindInfo => Some(format!(
                "stacks end in {}: build it with -fasynchronous-unwind-tables (or frame pointers and --call-graph fp)",
                stopped.dso.as_deref().map_or("a file", profile::machine::file_name)
            )),
            _ => None,
    });
    if of_stacks.is_some() {
        return of_stacks;
    }
    if summary.notices.iter().any(|notice| matches!(notice, Notice::UserOnly(_))) {
        return Some("to see the kernel: sysctl kernel.perf_event_paranoid=1 as root, then again".to_owned());
    }
    if samples < FEW && summary.cpu_ns() > 20_000_000 && args.sampling.count.is_none() {
        let asked = args.sampling.freq.as_deref().and_then(|hz| hz.parse::<u64>().ok());
        let hz = asked.or(summary.frequency_hz).unwrap_or_default().saturating_mul(10).min(9973);
        return Some(format!("few samples; for more: {}", again(args, &format!("-F {hz}"))));
    }
    None
}

/// Memory without a file: no build can add tables to it.
fn is_jit_code(stopped: &StoppedStacks) -> bool {
    const MEMORY: [&str; 4] = ["//anon", "[", "/dev/zero", "/memfd:"];
    stopped
        .dso
        .as_deref()
        .is_none_or(|dso| dso.is_empty() || MEMORY.iter().any(|begin| dso.starts_with(begin)))
}

/// The same command line with `flag`.
fn again(args: &Args, flag: &str) -> String {
    let mut words = vec!["tally run".to_owned(), flag.to_owned()];
    words.extend(args.target.no_children.then(|| "--no-children".to_owned()));
    words.extend(target_words(args));
    words.join(" ")
}

/// The target, as a shell takes it.
pub fn target_words(args: &Args) -> Vec<String> {
    let target = &args.target;
    let mut words = Vec::new();
    match target {
        TargetArgs { all_cpus: true, .. } => words.push("-a".to_owned()),
        TargetArgs { pid, .. } if !pid.is_empty() => words.push(format!("-p {}", list(&target.pids()))),
        TargetArgs { tid, .. } if !tid.is_empty() => words.push(format!("-t {}", list(tid))),
        TargetArgs { uid: Some(user), .. } => words.push(format!("-u {}", quoted(user))),
        _ => {}
    }
    words.extend(target.cpu.as_ref().map(|cpus| format!("-C {}", quoted(cpus))));
    let by_name = [("-G", &target.cgroup), ("--container", &target.container), ("--unit", &target.unit)];
    words.extend(
        by_name.iter().filter_map(|(flag, name)| Some(format!("{flag} {}", quoted((*name).as_ref()?)))),
    );
    if !target.command.is_empty() {
        words.push("--".to_owned());
        words.extend(target.command.iter().map(|arg| quoted(&arg.to_string_lossy())));
    }
    words
}

/// `1,2,3`.
pub fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_without_a_file_is_code_that_no_build_can_mend() {
        let stopped = |dso: Option<&str>| StoppedStacks {
            reason: StopReason::NoUnwindInfo,
            dso: dso.map(str::to_owned),
            thread: (1, "node".to_owned()),
            count: 1,
        };
        let is_jit = [None, Some("//anon"), Some("[heap]"), Some("/usr/lib/libz.so.1")]
            .map(|dso| is_jit_code(&stopped(dso)));
        assert_eq!(is_jit, [true, true, true, false]);
    }
}
