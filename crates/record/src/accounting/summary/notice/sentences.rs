//! The sentence of each notice.

use super::{COMMAND_OF_DOTNET, COMMAND_OF_JVM, Notice};

fn listed(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// `redis-server (2002) still runs, and is not recorded any more: tally run -p 2002`.
fn gone_on(processes: &[(u32, String)]) -> String {
    const SHOWN: usize = 3;
    let names: Vec<String> =
        processes.iter().take(SHOWN).map(|(pid, name)| format!("{name} ({pid})")).collect();
    let more = match processes.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let runs = if processes.len() == 1 { "still runs" } else { "still run" };
    let pids: Vec<String> = processes.iter().take(SHOWN).map(|(pid, _)| pid.to_string()).collect();
    format!(
        "the command has ended, but {}{more} {runs}; to record on: tally run -p {}",
        names.join(", "),
        pids.join(",")
    )
}

/// `2 threads got no timer (Resource temporarily unavailable; ulimit -i limits timers): they were stopped ...`.
fn untimed(count: u64, errno: u64, is_stopped: bool) -> String {
    let threads = if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") };
    let error = std::io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0));
    let why = match error.raw_os_error() {
        Some(0) => String::new(),
        Some(libc::EAGAIN) => format!(" ({error}; ulimit -i limits timers)"),
        _ => format!(" ({error})"),
    };
    let instead =
        if is_stopped { "stopped for some µs to sample the CPU time" } else { "left without CPU samples" };
    let were = if count == 1 { "it was" } else { "they were" };
    format!("{threads} got no timer{why}: {were} {instead}")
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoHardwareCounters(asked, event) => {
                write!(f, "no hardware counters here: sampling {event} instead of {asked}")
            }
            Self::UserOnly(paranoid) => write!(
                f,
                "user space only: kernel.perf_event_paranoid={paranoid} hides the kernel \
                 (as root: sysctl kernel.perf_event_paranoid=1)"
            ),
            Self::SmallerRings(asked, got) => write!(
                f,
                "rings of {got} KiB instead of {asked} KiB per CPU: locked-memory limit \
                 (raise kernel.perf_event_mlock_kb or ulimit -l)"
            ),
            Self::LowerFrequency(asked, got) => {
                write!(f, "{got} Hz instead of {asked} Hz: kernel.perf_event_max_sample_rate is {got}")
            }
            Self::FramePointersOnly(why) => write!(f, "user stacks by frame pointers: {why}"),
            Self::NoBranchRecords => {
                write!(f, "no branch records (LBR) here: stacks are unwound while recording")
            }
            Self::WriteStopped(why) => {
                write!(f, "recording stopped early: {why}; everything until then is kept")
            }
            Self::Overwritten(samples) => {
                write!(
                    f,
                    "{samples} older samples gave way to newer ones (--overwrite; -m sets how much is kept)"
                )
            }
            Self::SizeReached(bytes) => write!(f, "recording stopped: the output reached {bytes} bytes"),
            Self::NoSpans(names, why) => write!(f, "no spans of {names}: {why}"),
            Self::EventLeftOut(name, why) => write!(f, "event {name} left out: {why}"),
            Self::ByTracepoints(why) => write!(
                f,
                "off the CPU (tier B): by the scheduler's tracepoints on all CPUs; times are exact unless records are \
                 lost, each switch costs the machine about 3 µs; up to 200 switches a second of each thread have stacks, \
                 other waits get those of their place: {why}"
            ),
            Self::ByTimers(why, remedy) => write!(
                f,
                "sampling with timers inside the program ({why}): 250 samples per CPU-second, no kernel frames, waits are \
                 estimates by looks at /proc · for exact numbers: {remedy}"
            ),
            Self::NoPlaceForTimers => write!(
                f,
                "timers inside the program would take more samples, but every temporary folder is full, read-only or \
                 mounted noexec: TMPDIR names another"
            ),
            Self::NoProc => write!(
                f,
                "/proc is not mounted: waits have no reasons, and code may have no names; remedy: mount -t proc proc /proc"
            ),
            Self::TimerSamplesLost(count) => {
                write!(
                    f,
                    "{count} samples of timers found no room: their CPU time is in the next sample of the thread"
                )
            }
            Self::ThreadsUntimed { count, errno, is_stopped } => {
                write!(f, "{}", untimed(*count, *errno, *is_stopped))
            }
            Self::TimersRefused(why, remedy) => write!(
                f,
                "no CPU samples ({why}), because the kernel refused timers as well: CPU times are exact, waits estimated \
                 by looks at /proc · exact with: {remedy}"
            ),
            Self::TimersNotLoaded(why, remedy) => write!(
                f,
                "no CPU samples ({why}), because no program has loaded the timers (statically linked, set-user-ID, or \
                 LD_PRELOAD cleared): CPU times are exact, waits are estimates by looks at /proc · for exact numbers: {remedy}"
            ),
            Self::TimersReplacedByStops => write!(
                f,
                "no program has loaded the timers (statically linked, set-user-ID, or LD_PRELOAD cleared): running threads \
                 were stopped for some µs to sample them"
            ),
            Self::SomeWithoutTimers(1) => write!(
                f,
                "1 process has not loaded the timers (statically linked, set-user-ID, or LD_PRELOAD cleared): its threads \
                 were stopped for some µs to sample them"
            ),
            Self::SomeWithoutTimers(count) => write!(
                f,
                "{count} processes have not loaded the timers (statically linked, set-user-ID, or LD_PRELOAD cleared): \
                 their threads were stopped for some µs to sample them"
            ),
            Self::ByStops(why, remedy) => write!(
                f,
                "sampling by short stops of running threads ({why}): up to 100 samples per CPU-second, at most 1 % of a \
                 thread's time, no kernel frames, waits are estimates by looks at /proc · for exact numbers: {remedy}"
            ),
            Self::TracedBy(name, pid) => {
                write!(
                    f,
                    "{name} (process {pid}) traces the target: there are no CPU samples until it detaches"
                )
            }
            Self::TimersBlocked(count) => write!(
                f,
                "{count} threads block the timers' signal (33): they were stopped for some µs to sample them"
            ),
            Self::TimersRestricted(count) => write!(
                f,
                "{count} processes forbade themselves system calls (seccomp): from then on running threads were \
                 stopped for some µs to sample them"
            ),
            Self::StopsRefused(count, why) => {
                let samples =
                    if *count == 1 { "1 sample is".to_owned() } else { format!("{count} samples are") };
                write!(f, "{samples} missing because threads could not be stopped: {why}")
            }
            Self::CallsRestarted(count) => {
                write!(f, "{count} system calls had returned EINTR because of a stop, and were made again")
            }
            Self::SwitchesCost(thousandths, per_second) => write!(
                f,
                "off the CPU (tier B): {per_second} switches a second, each of them a record, took tally itself {:.1} % of a \
                 CPU; a longer period does not lower that, BPF (tier A) does",
                *thousandths as f64 / 10.0
            ),
            Self::CpusWent(cpus) => {
                write!(
                    f,
                    "CPU {} went offline: the kernel closed its events, from then on there are no samples of it",
                    listed(cpus)
                )
            }
            Self::CpusAgain(cpus) => {
                write!(
                    f,
                    "CPU {} went offline and came back: its events were opened again; what began there in the twentieth \
                     of a second before is missing",
                    listed(cpus)
                )
            }
            Self::Suspended(ns) => write!(
                f,
                "the machine was suspended for {:.1} s meanwhile: no thread's times contain that, because \
                 CLOCK_MONOTONIC stops during suspend",
                *ns as f64 / 1e9
            ),
            Self::CpusNew(cpus) => {
                write!(f, "CPU {} came online while recording: it is recorded from then on", listed(cpus))
            }
            Self::NoOffCpu(why) => {
                write!(
                    f,
                    "off the CPU (tier C): when threads ran by switch records, why they waited by looks at /proc; \
                     short waits and wake-ups are not counted: {why}"
                )
            }
            Self::OffCpuPeriod(ns) => {
                write!(
                    f,
                    "high switch rate: off-CPU stacks were sampled every {} ms of waiting per call site to keep overhead \
                     low (times, counts and longest waits are exact)",
                    ns / 1_000_000
                )
            }
            Self::OffCpuUnwoken(waits, ns) => {
                write!(
                    f,
                    "high switch rate: wakers were recorded for 10 ms of every 100 ms to keep overhead low; {:.1} s and \
                     {waits} waits are outside of these windows (their times, counts and longest waits are exact)",
                    *ns as f64 / 1e9
                )
            }
            Self::OffCpuLost(count, what) => write!(f, "off-CPU: {count} {what}"),
            Self::Spilled(bytes) => write!(
                f,
                "unwinding was slower than sampling: {} MiB of stacks waited on disk; none is lost by that",
                bytes.div_ceil(1 << 20)
            ),
            Self::SpillFailed(why, 0) => {
                write!(f, "unwinding was slower than sampling, and stacks could not wait on disk: {why}")
            }
            Self::SpillFailed(why, bytes) => {
                write!(f, "{bytes} bytes of records that waited on disk could not be read back: {why}")
            }
            Self::SmallerAreas(asked, got) => write!(
                f,
                "AUX areas of {got} KiB instead of {asked} KiB: no memory, or the locked-memory limit \
                 (raise kernel.perf_event_mlock_kb or ulimit -l)"
            ),
            Self::NoTraceClock => write!(
                f,
                "the kernel has no relation between the trace's time stamps and its own times: threads on a CPU, and time \
                 off it, can't be distinguished (--per-thread does not need it)"
            ),
            Self::TraceStopped(times) => write!(
                f,
                "the trace was lost {times} times because an AUX area was full: give it more, -m,64M, or trace less \
                 (--filter, -S)"
            ),
            Self::TraceHoles(times) => write!(f, "the processor paused the trace {times} times by itself"),
            Self::NoSnapshot => write!(
                f,
                "no snapshot was asked for: kill -USR2 takes one while recording, -Se one at the end"
            ),
            Self::RuntimeSupport(runtime, means) => {
                // Java's methods have names without any option.
                let gain = match *runtime {
                    "Java" => "Java's frames in stacks".to_owned(),
                    other => format!("names of {other}'s functions"),
                };
                let is_asked = [COMMAND_OF_DOTNET, COMMAND_OF_JVM].contains(means);
                let deed = if is_asked { "asked for at the end" } else { "added by tally" };
                write!(f, "for {gain}: {means}, {deed}; --no-runtimes leaves that out")
            }
            Self::UnknownPython(versions) => {
                let names: Vec<_> =
                    versions.iter().map(|(major, minor)| format!("{major}.{minor}")).collect();
                write!(
                    f,
                    "functions of Python {} are not shown: tally reads CPython 3.8 to 3.14",
                    names.join(", ")
                )
            }
            Self::ChildrenLeftOut(1) => write!(f, "1 child process is not recorded: --children records it"),
            Self::ChildrenLeftOut(count) => {
                write!(f, "{count} child processes are not recorded: --children records them")
            }
            Self::GoesOn(processes) => write!(f, "{}", gone_on(processes)),
            Self::OutputMoved(path, Some(now)) => write!(
                f,
                "another recording was made in {} meanwhile: this one is {}",
                path.display(),
                now.display()
            ),
            Self::OutputMoved(path, None) => {
                write!(f, "other recordings were made in {} meanwhile: this one is lost", path.display())
            }
            Self::ProcessUnreadable(pid, why) => write!(f, "process {pid} could not be read: {why}"),
        }
    }
}
