//! The state in which a thread left its CPU, from the bits or the text of a switch.

use perfdata::off_cpu::State;
use rustc_hash::FxHashMap;
use sched::{StateNames, ThreadState};

/// The states of the file format.
pub(super) const STATES: StateNames<State> = StateNames {
    running: State::On,
    runnable: State::Runnable,
    preempted: State::Preempted,
    unknown: State::Unknown,
};

/// Off the CPU in a state that no event reported: switch records have none.
pub(super) const NOT_REPORTED: ThreadState<State> = ThreadState::Blocked(State::Unknown);

/// Whether the state that `sched_switch` prints is that of a thread's last switch.
pub(crate) fn is_last_switch(text: &str) -> bool {
    let text = text.trim();
    text.parse::<u64>().map_or_else(|_| text.starts_with(['X', 'Z', 'x']), |bits| bits & 0x30 != 0)
}

/// States by the number that a switch has for them: printing one takes longer than all else about the switch.
#[derive(Default)]
pub(crate) struct SwitchStates {
    /// By event and number: the state, and whether the thread ends.
    known: FxHashMap<(usize, i64), (State, bool)>,
}

/// States kept; the kernel has some tens.
const MOST_STATES: usize = 1024;

impl SwitchStates {
    /// The state with this number at an event, and whether the thread ends; by its `text` if the number is not known.
    pub fn of(
        &mut self,
        event: usize,
        number: Option<i64>,
        text: impl FnOnce() -> Option<String>,
    ) -> (State, bool) {
        if let Some(known) = number.and_then(|number| self.known.get(&(event, number))) {
            return *known;
        }
        let text = text().unwrap_or_default();
        let state = (state_of_text(&text), is_last_switch(&text));
        if let Some(number) = number.filter(|_| self.known.len() < MOST_STATES) {
            self.known.insert((event, number), state);
        }
        state
    }
}

/// The state `sched_switch` prints: its letters, or the bits of a file that prints numbers.
pub(crate) fn state_of_text(text: &str) -> State {
    let text = text.trim();
    if let Ok(bits) = text.parse::<u64>() {
        return state_of_bits(bits);
    }
    if text.contains('R') {
        return State::Preempted;
    }
    match text.chars().next() {
        Some('S') => State::Sleep,
        Some('D') => State::Disk,
        Some('I') => State::Idle,
        Some('T' | 't' | 'P') => State::Stopped,
        _ => State::Unknown,
    }
}

// Source: linux v6.18 include/trace/events/sched.h, __trace_sched_switch_state(): TASK_REPORT bits, 0x100 = preempted
fn state_of_bits(bits: u64) -> State {
    match bits {
        0 => State::Preempted,
        bits if bits & 0x100 != 0 && bits & 0xff == 0 => State::Preempted,
        bits if bits & 0x402 == 0x402 || bits & 0x80 != 0 => State::Idle,
        bits if bits & 0x2 != 0 => State::Disk,
        bits if bits & 0x1 != 0 => State::Sleep,
        bits if bits & 0xc != 0 => State::Stopped,
        _ => State::Unknown,
    }
}
