//! The bytes that `bpf/calls.bpf.c` and this side share.
//!
//! Layout and source: `bpf/calls_shared.h`, which a test below compares with.

/// Bytes of one ring record.
pub const EVENT_BYTES: usize = 32;
/// Buckets of durations; see `profile`'s histogram, which has the same.
pub const BUCKETS: usize = 704;
/// Words of one function's sums, buckets included.
pub const SUM_WORDS: usize = FIRST_BUCKET + BUCKETS;
/// Words before the buckets.
pub const FIRST_BUCKET: usize = 9;
/// Words of `struct call_control`.
pub const CONTROL_WORDS: usize = 11;
/// Ends of calls that were seen while all probes were in place, and not their beginnings.
pub const STRAYS: &str = "returns from calls whose entry was not seen";
/// Slots of the per-CPU counters that are in use.
pub const COUNT_NAMES: [&str; 5] = [
    "entries and exits lost: the ring was full",
    "calls nested too deep to be timed in the kernel (more than a million are open)",
    "entries and exits of threads that could not be followed",
    STRAYS,
    "stacks forgotten with their open calls: more than 64 in a thread",
];

/// Index of the count of returns from calls whose entry was not seen.
pub const COUNT_STRAY: usize = 3;

/// An attach cookie's bits below the function's number.
pub const COOKIE_SHIFT: u32 = 16;
/// Cookie bit: the function may end by a jump that is not probed.
pub const COOKIE_TAIL: u64 = 1;
/// Cookie bit: the function jumps back to its probed first instruction.
pub const COOKIE_LOOPS: u64 = 4;
/// Cookie bit: the jump leaves only if the stack pointer is as at entry.
pub const COOKIE_MAYBE: u64 = 8;
/// Cookie bit: the jump leaves only if a condition of the flags holds.
pub const COOKIE_CONDITION: u64 = 16;
/// Place of the condition's four bits.
pub const COOKIE_CONDITION_SHIFT: u32 = 8;
/// Cookie bit: the function is called by a goroutine.
pub const COOKIE_GOROUTINE: u64 = 64;
/// Marks [`CallEvent::tid`] of one; what is left is of its address.
pub const GOROUTINE: u32 = 1 << 31;
/// Cookie bit: only calls that lead to the function count.
pub const COOKIE_CALLER: u64 = 32;
/// Cookie bit: calls in it do not count.
pub const COOKIE_NOT: u64 = 4096;
/// Cookie bit: only calls in it count.
pub const COOKIE_ONLY: u64 = 8192;
/// Cookie bit: from its call on, the thread's calls count.
pub const COOKIE_START: u64 = 16384;
/// Cookie bit: from its call on, they do not.
pub const COOKIE_STOP: u64 = 32768;

/// The data to hand out from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMode {
    /// Every entry and exit.
    Events,
    /// Entries and exits of calls of at least this many ns.
    Slow(u64),
    /// Sums by function only.
    Totals,
}

impl CallMode {
    /// As `(mode, min_ns)` of `struct call_control`.
    #[must_use]
    pub const fn to_words(self) -> (u32, u64) {
        match self {
            Self::Events => (0, 0),
            Self::Slow(min_ns) => (1, min_ns),
            Self::Totals => (2, 0),
        }
    }
}

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEventKind {
    /// A function was entered.
    Enter,
    /// It returned.
    Exit,
    /// It was left by longjmp or an exception (only from [`CallMode::Slow`]).
    Unwound,
    /// The process forked; the event's `function` is the child's id.
    Fork,
    /// The process runs another program from here on.
    Exec,
    /// A system call began; `function` is its number.
    System,
    /// It ended.
    SystemEnd,
    /// A page fault; `sp` is the address.
    Fault,
    /// The thread was off the CPU for `sp` ns, up to now.
    Off,
    /// A block request of `function` bytes was issued.
    Block,
    /// A function of the kernel was entered; `function` is its number among those.
    Kernel,
    /// It returned.
    KernelEnd,
}

/// One record of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEvent {
    /// ns of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Address of the return address in the thread's stack (Avma); another meaning for some kinds.
    pub sp: u64,
    /// Thread id; of a goroutine's call its number in its process, from 1 on, in the order in which they were seen.
    pub tid: u32,
    /// Process id.
    pub pid: u32,
    /// Number of the function, as the cookie had it; another meaning for some kinds.
    pub function: u32,
    /// Kind of event.
    pub kind: CallEventKind,
    /// Which of two overlapping links saw it.
    pub generation: bool,
    /// The function jumps back to where its entry is seen.
    pub loops: bool,
    /// It is an exit only if the function was entered at this place of the stack.
    pub maybe: bool,
}

impl CallEvent {
    /// The same moment as an event of this kind.
    #[must_use]
    pub fn ends_as(self, kind: CallEventKind) -> Self {
        Self { kind, ..self }
    }
}

/// Reads a ring record; `None` when its size or kind is unknown.
#[must_use]
pub fn parse_call_event(bytes: &[u8]) -> Option<CallEvent> {
    let bytes: &[u8; EVENT_BYTES] = bytes.try_into().ok()?;
    let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    let word = u32_at(28);
    let kind = match word & 0xff {
        1 => CallEventKind::Enter,
        2 => CallEventKind::Exit,
        3 => CallEventKind::Unwound,
        4 => CallEventKind::Fork,
        5 => CallEventKind::Exec,
        6 => CallEventKind::System,
        7 => CallEventKind::SystemEnd,
        8 => CallEventKind::Fault,
        9 => CallEventKind::Off,
        10 => CallEventKind::Block,
        11 => CallEventKind::Kernel,
        12 => CallEventKind::KernelEnd,
        _ => return None,
    };
    Some(CallEvent {
        time_ns: u64_at(0),
        sp: u64_at(8),
        tid: u32_at(16),
        pid: u32_at(20),
        function: u32_at(24),
        kind,
        generation: word & 0x100 != 0,
        loops: word & 0x200 != 0,
        maybe: word & 0x400 != 0,
    })
}

/// Bytes as words, in this machine's order: as BPF maps have them.
#[must_use]
pub fn words_of(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

/// Sums of one function, made in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionSums {
    /// Finished calls.
    pub count: u64,
    /// Time of all finished calls, ns.
    pub finished_ns: u64,
    /// Time in it, recursion counted once, ns.
    pub total_ns: u64,
    /// Time in itself, as far as what it called was probed too, ns.
    pub self_ns: u64,
    /// Shortest call, ns; `None` without one.
    pub min_ns: Option<u64>,
    /// Longest call, ns.
    pub max_ns: u64,
    /// Finished without returning.
    pub unwound: u64,
    /// Begun and not finished; of those whose thread has ended, the time is in the total and in itself.
    pub open: u64,
    /// Calls by duration: (bucket, count), ascending, none empty.
    pub buckets: Vec<(u32, u64)>,
}

impl FunctionSums {
    /// Whether any call was seen, by the words of `struct call_totals`.
    #[must_use]
    pub fn any(words: &[u64]) -> bool {
        words[..FIRST_BUCKET].iter().any(|word| *word > 0)
    }

    /// Sums of functions whose entries alone were counted, by number. Their times are unknown, so there is no
    /// shortest call.
    #[must_use]
    pub fn of_entries(entries: &[u64]) -> Vec<(u32, Self)> {
        let called = (0u32..).zip(entries).filter(|(_, count)| **count > 0);
        called.map(|(number, count)| (number, Self { count: *count, ..Self::default() })).collect()
    }

    /// From the words of `struct call_totals`.
    #[must_use]
    pub fn from_words(words: &[u64; SUM_WORDS]) -> Self {
        let buckets = (0u32..)
            .zip(&words[FIRST_BUCKET..])
            .filter(|(_, count)| **count > 0)
            .map(|(at, count)| (at, *count));
        Self {
            count: words[0],
            finished_ns: words[1],
            total_ns: words[2],
            self_ns: words[3],
            min_ns: words[4].checked_sub(1),
            max_ns: words[5],
            unwound: words[6],
            // For threads that still run, only the calls that began are known.
            open: words[8].max(words[7].saturating_sub(words[0])),
            buckets: buckets.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(name: &str) -> usize {
        let header = include_str!("../../bpf/calls_shared.h");
        let line = header.lines().find(|line| line.split_whitespace().nth(1) == Some(name));
        line.and_then(|line| line.split_whitespace().nth(2)?.parse().ok()).expect(name)
    }

    /// Bytes of a struct, by its members' types.
    fn struct_bytes(name: &str) -> usize {
        let header = include_str!("../../bpf/calls_shared.h");
        let (_, body) = header.split_once(&format!("struct {name} {{\n")).expect(name);
        let body = body.split_once("};").expect("it ends").0;
        let member = |line: &str| {
            let declared = line.split(';').next().unwrap_or_default().trim();
            let width = if declared.contains("long long") { 8 } else { 4 };
            let names = declared.split(',').count();
            if declared.contains("BUCKETS") { width * BUCKETS } else { width * names }
        };
        body.lines().filter(|line| line.trim().starts_with("unsigned")).map(member).sum()
    }

    #[test]
    fn both_sides_mean_the_same_bytes() {
        assert_eq!(constant("BUCKETS"), BUCKETS);
        assert_eq!(constant("COOKIE_SHIFT"), COOKIE_SHIFT as usize);
        assert_eq!(constant("COOKIE_TAIL"), COOKIE_TAIL as usize);
        assert_eq!(constant("COOKIE_LOOPS"), COOKIE_LOOPS as usize);
        assert_eq!(constant("COOKIE_MAYBE"), COOKIE_MAYBE as usize);
        assert_eq!(constant("COOKIE_CONDITION"), COOKIE_CONDITION as usize);
        assert_eq!(constant("COOKIE_CONDITION_SHIFT"), COOKIE_CONDITION_SHIFT as usize);
        for (name, bit) in [
            ("COOKIE_GOROUTINE", COOKIE_GOROUTINE),
            ("COOKIE_CALLER", COOKIE_CALLER),
            ("COOKIE_NOT", COOKIE_NOT),
            ("COOKIE_ONLY", COOKIE_ONLY),
            ("COOKIE_START", COOKIE_START),
            ("COOKIE_STOP", COOKIE_STOP),
        ] {
            assert_eq!(constant(name), bit as usize);
        }
        assert_eq!(constant("STACK_STEP"), super::super::stacks::STEP_BYTES as usize);
        for (name, mode) in [
            ("MODE_EVENTS", CallMode::Events),
            ("MODE_SLOW", CallMode::Slow(0)),
            ("MODE_TOTALS", CallMode::Totals),
        ] {
            assert_eq!(constant(name), mode.to_words().0 as usize);
        }
        assert_eq!(struct_bytes("call_event"), EVENT_BYTES);
        assert_eq!(struct_bytes("call_totals"), SUM_WORDS * 8);
        assert_eq!(struct_bytes("call_control"), CONTROL_WORDS * 8);
    }

    #[test]
    fn every_kind_of_the_header_is_read_and_others_are_not() {
        let kinds = [
            ("CALL_ENTER", CallEventKind::Enter),
            ("CALL_EXIT", CallEventKind::Exit),
            ("CALL_UNWOUND", CallEventKind::Unwound),
            ("CALL_FORK", CallEventKind::Fork),
            ("CALL_EXEC", CallEventKind::Exec),
            ("CALL_SYSTEM", CallEventKind::System),
            ("CALL_SYSTEM_END", CallEventKind::SystemEnd),
            ("CALL_FAULT", CallEventKind::Fault),
            ("CALL_OFF", CallEventKind::Off),
            ("CALL_BLOCK", CallEventKind::Block),
            ("CALL_KERNEL", CallEventKind::Kernel),
            ("CALL_KERNEL_END", CallEventKind::KernelEnd),
        ];
        let mut bytes = [7u8; EVENT_BYTES];
        for (name, kind) in kinds {
            bytes[28..].copy_from_slice(&(constant(name) as u32 | 7 << 8).to_le_bytes());
            let event = parse_call_event(&bytes).expect(name);
            assert_eq!(
                (event.kind, event.generation, event.loops, event.maybe, event.tid),
                (kind, true, true, true, 0x0707_0707)
            );
        }
        bytes[28..].copy_from_slice(&200u32.to_le_bytes());
        assert_eq!(parse_call_event(&bytes), None);
        assert_eq!(parse_call_event(&bytes[1..]), None);
    }
}
