//! Control block of the BPF program: which processes to follow, and until when.
//
// Source: crates/record/bpf/shared.h (struct control, `WHOM_*`).

/// Targets are followed already, but no clock runs.
pub const NOT_BEGUN: u64 = 1;

/// `WHOM_*`: which threads have a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockScope {
    /// The processes in the map `targets` and what they fork.
    Processes = 0,
    /// The threads in the map `targets`.
    Threads = 1,
    /// All.
    All = 2,
    /// Those in the cgroups of the map `targets`, and below.
    Cgroup = 3,
}

/// `struct control`, as the words the map holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffCpuControl {
    /// Off-CPU ns per sample of a thread.
    pub period_ns: u64,
    /// Not 0: nothing counts after this moment, or [`NOT_BEGUN`].
    pub end_ns: u64,
    /// This process becomes a target with its exec; 0 = none.
    pub start_at_exec: u32,
    /// User stack to copy.
    pub stack_bytes: u32,
    /// The same as `period_ns`, for waits whose wake-up no program saw.
    pub unwoken_period_ns: u64,
    /// Another number whenever places were divided by words of their stacks.
    pub splits: u64,
}

impl OffCpuControl {
    /// In the map's form.
    #[must_use]
    pub fn to_words(self) -> [u64; 5] {
        let pair = |low: u32, high: u32| {
            let mut word = [0u8; 8];
            word[..4].copy_from_slice(&low.to_ne_bytes());
            word[4..].copy_from_slice(&high.to_ne_bytes());
            u64::from_ne_bytes(word)
        };
        [
            self.period_ns,
            self.end_ns,
            pair(self.start_at_exec, self.stack_bytes),
            self.unwoken_period_ns,
            self.splits,
        ]
    }
}
