//! Tier B's events: `sched_switch` and `sched_waking` of whole CPUs, and the parsing of their payloads.
//!
//! Each is opened twice: once for every hit, without stacks, so that times are exact; once with stacks, at a rate that
//! is affordable. The kernel takes a sample whenever the last is long ago, so rare switches have stacks always. The
//! others have the registers that tell places from each other.

use perfdata::abi::*;
use perfdata::off_cpu::State;
use perfdata::tracepoint::Format;
use perfdata::{Attr, AttrFlags, Endian};

use super::registers::PLACE_REGS;
use crate::event::EventSource;

/// Stacks a second of each thread's (or CPU's) switches, and of each CPU's wake-ups: each costs about 20 µs to take
/// and as much to unwind. A stack represents all waits since the last one that had any.
const STACKS_HZ: [u64; 2] = [199, 97];
/// Bytes of stack that go with them. Until the kernel knows the rate it takes a stack at each hit: larger ones would
/// fill the ring. Deeper frames are read from the sleeper's memory, which doesn't change.
const STACK_BYTES: [u32; 2] = [8192, 4096];

/// The internal events, in opening order.
pub const EVENTS: [SchedEvent; 4] = [
    SchedEvent { point: SchedPoint::Switch, has_stacks: false },
    SchedEvent { point: SchedPoint::Waking, has_stacks: false },
    SchedEvent { point: SchedPoint::Switch, has_stacks: true },
    SchedEvent { point: SchedPoint::Waking, has_stacks: true },
];

/// One opening of a tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedEvent {
    /// The tracepoint.
    pub point: SchedPoint,
    /// At an affordable rate and with stacks, else for every hit and bare.
    pub has_stacks: bool,
}

/// A tracepoint of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedPoint {
    /// `sched:sched_switch`.
    Switch,
    /// `sched:sched_waking`.
    Waking,
}

impl SchedPoint {
    /// Name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Switch => "sched:sched_switch",
            Self::Waking => "sched:sched_waking",
        }
    }
}

/// A field of a payload: offset and size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PayloadField {
    offset: usize,
    size: usize,
}

/// Both tracepoints: their ids, and where their fields are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracepoints {
    switch_id: u64,
    waking_id: u64,
    prev_pid: PayloadField,
    prev_comm: PayloadField,
    prev_state: PayloadField,
    next_pid: PayloadField,
    next_comm: PayloadField,
    woken_pid: PayloadField,
}

/// Offset of `common_flags` in every payload, and its bits for hard and soft interrupts.
// Source: linux v6.18 include/linux/trace_events.h, struct trace_entry, enum trace_flag_type
const COMMON_FLAGS: PayloadField = PayloadField { offset: 2, size: 1 };
const IN_INTERRUPT: u64 = 0x08 | 0x10;

/// Payload of a `sched_switch`. Ids are those of the initial pid namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchPayload<'a> {
    /// The thread that leaves the CPU.
    pub prev: u32,
    /// Name.
    pub prev_comm: &'a [u8],
    /// State from now on.
    pub state: State,
    /// It never comes back.
    pub dies: bool,
    /// The thread that runs now.
    pub next: u32,
    /// Name.
    pub next_comm: &'a [u8],
}

impl Tracepoints {
    /// As this kernel has them; `None` where they can't be read.
    #[must_use]
    pub fn find(source: &dyn EventSource) -> Option<Self> {
        let format = |name: &str| {
            let text = source.read_tracefs(&format!("sched/{name}/format")).ok()?;
            Format::parse("sched", text.as_bytes(), Endian::NATIVE, 8)
        };
        let (switch, waking) = (format("sched_switch")?, format("sched_waking")?);
        let place = |format: &Format, name| {
            format.field(name).map(|field| PayloadField { offset: field.offset, size: field.size })
        };
        Some(Self {
            switch_id: switch.id,
            waking_id: waking.id,
            prev_pid: place(&switch, "prev_pid")?,
            prev_comm: place(&switch, "prev_comm")?,
            prev_state: place(&switch, "prev_state")?,
            next_pid: place(&switch, "next_pid")?,
            next_comm: place(&switch, "next_comm")?,
            woken_pid: place(&waking, "pid")?,
        })
    }

    /// The attribute of one of [`EVENTS`]; `common` has the fields that all events of the recording share; with
    /// stacks go these registers.
    #[must_use]
    pub fn attr(&self, event: SchedEvent, common: &Attr, regs: u64) -> Attr {
        let SchedEvent { point, has_stacks } = event;
        let config = if point == SchedPoint::Switch { self.switch_id } else { self.waking_id };
        let mut attr = Attr { type_: PERF_TYPE_TRACEPOINT, config, sample_period: 1, ..*common };
        attr.flags.set(AttrFlags::INHERIT, false);
        attr.sample_type |= PERF_SAMPLE_CPU | PERF_SAMPLE_RAW;
        if point == SchedPoint::Switch {
            attr.sample_type |= PERF_SAMPLE_REGS_USER;
            attr.sample_regs_user = PLACE_REGS;
        }
        if has_stacks {
            attr.sample_period = STACKS_HZ[point as usize];
            attr.flags = attr.flags.with(AttrFlags::FREQ | AttrFlags::EXCLUDE_CALLCHAIN_USER);
            attr.sample_type |= PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
            attr.sample_regs_user = regs;
            attr.sample_stack_user = STACK_BYTES[point as usize];
        }
        attr
    }

    /// A switch's payload.
    #[must_use]
    pub fn switch<'a>(&self, raw: &'a [u8]) -> Option<SwitchPayload<'a>> {
        let bits = number(raw, self.prev_state)?;
        Some(SwitchPayload {
            prev: number(raw, self.prev_pid)? as u32,
            prev_comm: text(raw, self.prev_comm),
            state: state_of_bits(bits),
            dies: bits & 0x30 != 0,
            next: number(raw, self.next_pid)? as u32,
            next_comm: text(raw, self.next_comm),
        })
    }

    /// From a wake-up's payload: the thread that is woken, and whether an interrupt wakes it.
    #[must_use]
    pub fn woken(&self, raw: &[u8]) -> Option<(u32, bool)> {
        let in_interrupt = number(raw, COMMON_FLAGS)? & IN_INTERRUPT != 0;
        Some((number(raw, self.woken_pid)? as u32, in_interrupt))
    }
}

/// One bit is the state; 0 and 0x100 are for threads that could have gone on.
// Source: linux v6.18 include/trace/events/sched.h, __trace_sched_switch_state()
fn state_of_bits(bits: u64) -> State {
    match bits {
        bits if bits & 0x80 != 0 => State::Idle,
        bits if bits & 0x2 != 0 => State::Disk,
        bits if bits & 0x1 != 0 => State::Sleep,
        bits if bits & 0x4c != 0 => State::Stopped,
        bits if bits & 0x30 != 0 => State::Unknown,
        _ => State::Preempted,
    }
}

fn number(raw: &[u8], field: PayloadField) -> Option<u64> {
    let PayloadField { offset, size } = field;
    let bytes = raw.get(offset..offset.checked_add(size)?)?;
    let mut word = [0; 8];
    let at = if cfg!(target_endian = "little") { 0 } else { 8_usize.checked_sub(size)? };
    word.get_mut(at..at + size)?.copy_from_slice(bytes);
    Some(u64::from_ne_bytes(word))
}

fn text(raw: &[u8], field: PayloadField) -> &[u8] {
    let bytes = raw.get(field.offset..field.offset.saturating_add(field.size)).unwrap_or_default();
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io;

    /// A tracefs with the two tracepoints as Linux 6.18 has them.
    struct Tracefs;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\nprint fmt: \"%d\", REC->prev_pid\n";
    const WAKING: &str = "name: sched_waking\nID: 374\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\nprint fmt: \"%d\", REC->pid\n";

    impl EventSource for Tracefs {
        fn read_pmu(&self, _: &str) -> io::Result<String> {
            Err(io::ErrorKind::NotFound.into())
        }
        fn list_pmu(&self, _: &str) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }
        fn read_tracefs(&self, path: &str) -> io::Result<String> {
            match path {
                "sched/sched_switch/format" => Ok(SWITCH.to_owned()),
                "sched/sched_waking/format" => Ok(WAKING.to_owned()),
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        }
        fn list_tracefs(&self, _: &str) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn payloads_are_read_by_the_kernels_own_description() {
        let points = Tracepoints::find(&Tracefs).expect("both are there");
        let mut raw = vec![0u8; 64];
        raw[8..14].copy_from_slice(b"worker");
        raw[24..28].copy_from_slice(&7u32.to_ne_bytes());
        raw[32..40].copy_from_slice(&2u64.to_ne_bytes());
        raw[56..60].copy_from_slice(&9u32.to_ne_bytes());
        let switch = points.switch(&raw).expect("whole");
        assert_eq!((switch.prev, switch.prev_comm, switch.next), (7, &b"worker"[..], 9));
        assert_eq!((switch.state, switch.dies), (State::Disk, false));
        assert_eq!((points.switch(&raw[..40]), points.switch(&[])), (None, None));
        raw[2] = 0x10;
        assert_eq!(points.woken(&raw), Some((7, true)));
        assert_eq!((points.switch_id, points.waking_id), (372, 374));
    }

    #[test]
    fn states_are_the_scheduler_s_bits() {
        let states = [0, 0x100, 1, 2, 4, 0x80, 0x10].map(state_of_bits);
        use State::{Disk, Idle, Preempted, Sleep, Stopped, Unknown};
        assert_eq!(states, [Preempted, Preempted, Sleep, Disk, Stopped, Idle, Unknown]);
    }
}
