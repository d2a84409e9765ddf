//! Notices for the user about how a recording was made, in sentences.

mod sentences;

use std::path::PathBuf;

use crate::sys::bpf_error::BPF_RIGHTS;

/// The same of .NET.
pub const COMMAND_OF_DOTNET: &str = "EnablePerfMap";
/// HotSpot's command that writes a map of its code.
pub const COMMAND_OF_JVM: &str = "Compiler.perfmap";

/// Something the user should know about how the recording was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Calls of these functions are not recorded, and why.
    NoSpans(String, String),
    /// CPython of these versions runs, whose functions can't be read.
    UnknownPython(Vec<(u8, u8)>),
    /// The command's runtime was asked to name its code: the runtime, and the variable or the options it got, or a command.
    RuntimeSupport(&'static str, &'static str),
    /// No hardware counters: this software event (the second) was used in place of the first.
    NoHardwareCounters(String, &'static str),
    /// The kernel may not be sampled (`kernel.perf_event_paranoid` is this): user space only.
    UserOnly(i64),
    /// Rings were made smaller than asked (asked, got; in KiB per CPU) because of the locked-memory limit.
    SmallerRings(u64, u64),
    /// The sampling rate was lowered to the kernel's limit (asked, got; in Hz).
    LowerFrequency(u64, u64),
    /// Registers and stacks aren't available for this event: frame pointers are used.
    FramePointersOnly(&'static str),
    /// The CPU has no branch records: stacks are unwound while recording instead.
    NoBranchRecords,
    /// Writing failed: what was recorded until then is kept.
    WriteStopped(String),
    /// Number of samples that were overwritten by newer ones, as requested.
    Overwritten(u64),
    /// The output has reached this size, as asked.
    SizeReached(u64),
    /// An event of several could not be opened and is left out: its name and why.
    EventLeftOut(String, String),
    /// Time off the CPU by tracepoints of all CPUs: why not by BPF.
    ByTracepoints(String),
    /// Sampled by timers inside the program: why not by events, and the remedy.
    ByTimers(String, String),
    /// No folder can hold the library with the timers.
    NoPlaceForTimers,
    /// There is no /proc.
    NoProc,
    /// Records of timers that found no room.
    TimerSamplesLost(u64),
    /// Threads that got no timer.
    ThreadsUntimed {
        /// How many.
        count: u64,
        /// The last error of the kernel; 0 if there was no room for more.
        errno: u64,
        /// Stops took their CPU samples.
        is_stopped: bool,
    },
    /// Events are denied, and the kernel gave no timer to any thread: why, and what allows events.
    TimersRefused(String, String),
    /// Events are denied, and the library with the timers was not loaded by any program: why, and what allows events.
    TimersNotLoaded(String, String),
    /// No program has loaded the timers, so stops took the CPU samples.
    TimersReplacedByStops,
    /// Processes of the target whose programs have not loaded the timers, among others that have.
    SomeWithoutTimers(usize),
    /// Events are denied: why, and what allows them. Running threads are stopped to sample them.
    ByStops(String, String),
    /// A debugger, by name and process id, has the target at the start.
    TracedBy(String, u32),
    /// Threads that block the signal of their timer, and are sampled by stops.
    TimersBlocked(u64),
    /// Processes that forbade themselves system calls, after which stops sample them.
    TimersRestricted(u64),
    /// Stops that the kernel refused: how many, why, and what allows them.
    StopsRefused(u64, String),
    /// System calls that a stop had ended with `EINTR`, and that were made again.
    CallsRestarted(u64),
    /// Cost of processing each switch, in thousandths of a CPU, and the number of switches a second.
    SwitchesCost(u64, u64),
    /// These CPUs went offline while events of whole CPUs were recorded.
    CpusWent(Vec<u32>),
    /// CPUs that went offline and came back: they have events again.
    CpusAgain(Vec<u32>),
    /// CPUs that came online while recording.
    CpusNew(Vec<u32>),
    /// The machine was suspended so long while recording, in ns.
    Suspended(u64),
    /// Time off the CPU by switch records only: why.
    NoOffCpu(String),
    /// Too many waits per second: the off-CPU time that a sample represents now, in ns.
    OffCpuPeriod(u64),
    /// So many switches that wakers were recorded in windows only: waits outside of them, and for how long in all, in ns.
    OffCpuUnwoken(u64, u64),
    /// The off-CPU engine lost some of its records: how many, and of which kind.
    OffCpuLost(u64, &'static str),
    /// The unwinder was late: number of bytes of registers and stacks that waited for it on disk.
    Spilled(u64),
    /// They could not wait there: why, and how many bytes could not be read back.
    SpillFailed(String, u64),
    /// AUX areas were made smaller than asked (asked, got; in KiB each): no memory, or the locked-memory limit.
    SmallerAreas(u64, u64),
    /// The kernel does not report how the processor's time stamps relate to the records' times.
    NoTraceClock,
    /// Number of times the processor had to stop tracing because an AUX area was full.
    TraceStopped(u64),
    /// Number of holes in the trace for other reasons (a virtual machine was entered, tracing collided).
    TraceHoles(u64),
    /// Snapshots were to be taken on a signal, and none came.
    NoSnapshot,
    /// Number of living children of the selected processes that are not recorded.
    ChildrenLeftOut(usize),
    /// Processes that the command left running when it ended: PID and name.
    GoesOn(Vec<(u32, String)>),
    /// Another recording has taken the name of the output (the first); it is here now, or replaced.
    OutputMoved(PathBuf, Option<PathBuf>),
    /// A process of the target could not be described from /proc: pid and why.
    ProcessUnreadable(u32, String),
}

impl Notice {
    /// For those who want to know what it means to them and not how it came about.
    #[must_use]
    pub fn brief(&self) -> String {
        match self {
            Self::NoOffCpu(why) if why.contains(BPF_RIGHTS) => {
                format!("off-CPU times are estimated (no BPF): {BPF_RIGHTS}")
            }
            Self::ByTracepoints(why) if why.contains(BPF_RIGHTS) => {
                format!("off-CPU times by tracepoints (no BPF), 3 µs a switch: {BPF_RIGHTS}")
            }
            Self::ByTimers(why, remedy) => {
                format!(
                    "{why}: timers sample the program; no kernel frames, waits are estimates; for exact numbers: {remedy}"
                )
            }
            Self::ByStops(why, remedy) => format!(
                "{why}: running threads are stopped for some µs to sample them; no kernel frames, waits are estimates; for \
                 exact numbers: {remedy}"
            ),
            Self::TimersNotLoaded(why, remedy) => {
                format!(
                    "{why}, and no program has loaded the timers: no CPU samples, waits are estimates; for exact \
                     numbers: {remedy}"
                )
            }
            Self::TimersRefused(why, remedy) => {
                format!("{why}, and so are timers: no CPU samples, waits estimated; exact: {remedy}")
            }
            _ => self.to_string(),
        }
    }

    /// A remark on how the recording was made or ended, as asked: nothing is lacking.
    #[must_use]
    pub const fn is_information(&self) -> bool {
        matches!(
            self,
            Self::RuntimeSupport(..)
                | Self::GoesOn(_)
                | Self::SizeReached(_)
                | Self::Overwritten(_)
                | Self::CallsRestarted(_)
        )
    }

    /// The notice about a machine that was suspended while recording. The arguments are the ns suspended since boot,
    /// before and after the recording. `None` if the difference is within the noise of reading two clocks.
    #[must_use]
    pub fn of_suspension(before_ns: u64, after_ns: u64) -> Option<Self> {
        const NOISE_NS: u64 = 10_000_000;
        Some(after_ns.saturating_sub(before_ns)).filter(|&ns| ns > NOISE_NS).map(Self::Suspended)
    }

    /// The notice about a system without /proc; `None` if there is one.
    #[must_use]
    pub fn of_missing_proc() -> Option<Self> {
        (!std::path::Path::new("/proc/self").exists()).then_some(Self::NoProc)
    }

    /// The notice about the cost of switches in `wall_ns`, processed in `own_ns` of CPU time; `None` up to 1 % of a
    /// CPU.
    #[must_use]
    pub fn of_switches(switches: u64, own_ns: u64, wall_ns: u64) -> Option<Self> {
        let per_wall = |amount: u64, of: u128| u128::from(amount) * of / u128::from(wall_ns.max(1));
        let [thousandths, per_second] = [per_wall(own_ns, 1000), per_wall(switches, 1_000_000_000)]
            .map(|number| u64::try_from(number).unwrap_or(u64::MAX));
        (thousandths > 10).then_some(Self::SwitchesCost(thousandths, per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_suspended_while_recording_is_told_and_the_difference_of_two_readings_is_not() {
        assert_eq!(Notice::of_suspension(7_000_000_000, 7_000_900_000), None);
        assert_eq!(Notice::of_suspension(7_000_000_000, 6_999_900_000), None);
        let told = Notice::of_suspension(7_000_000_000, 19_300_000_000).expect("12.3 s").to_string();
        assert!(told.contains("suspended for 12.3 s"), "{told}");
    }

    #[test]
    fn what_goes_on_after_the_command_is_named_with_the_way_to_attach() {
        let one = Notice::GoesOn(vec![(2002, "redis-server".to_owned())]).to_string();
        let text =
            "the command has ended, but redis-server (2002) still runs; to record on: tally run -p 2002";
        assert_eq!(one, text);
        let many = (1..=5).map(|pid| (pid, "w".to_owned())).collect();
        let many = Notice::GoesOn(many).to_string();
        assert!(many.contains("w (1), w (2), w (3) and 2 more still run; ") && many.ends_with("-p 1,2,3"));
    }

    #[test]
    fn what_each_switch_costs_is_told_where_it_is_more_than_a_hundredth_of_a_cpu() {
        assert_eq!(Notice::of_switches(5000, 20_000_000, 2_000_000_000), None);
        let told = Notice::of_switches(150_000, 186_000_000, 2_000_000_000);
        assert_eq!(told, Some(Notice::SwitchesCost(93, 75_000)));
        let text = told.map(|told| told.to_string()).unwrap_or_default();
        assert!(text.contains("75000 switches a second") && text.contains("9.3 % of a CPU"), "{text}");
    }
}
