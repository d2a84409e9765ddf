//! A thread that records into memory of the test's own, and the stacks it runs on.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use super::return_address;
use crate::frame::OpenCall;
use crate::gate::{Gate, GateStart};
use crate::instrumented_fn::Site;
use crate::layout::{
    ADDR_BITS, CONTROL_ADDR_HIGH, CONTROL_ARGUMENTS, CONTROL_BACKTRACE, CONTROL_RESULT, CONTROL_TIME_HIGH,
    EVENT_BYTES, RecordedEvent, words_after,
};
use crate::registers::Registers;
use crate::sys::test_clock::set_ticks;
use crate::thread::{LIVE, ThreadState};

/// Events that fit, and frames.
const EVENTS: usize = 1024;
const FRAMES: usize = 64;
/// Kept free after the end, as in a file.
const SLACK: usize = 128;

/// All of it is leaked: it must stay where it is.
pub struct TestThread {
    pub state: &'static mut ThreadState,
    first: *mut u64,
}

impl TestThread {
    /// It records all calls.
    pub fn new() -> Self {
        let first = Box::leak(vec![0u64; EVENTS].into_boxed_slice()).as_mut_ptr();
        let frames = vec![OpenCall::new(0, u64::MAX); FRAMES + 1];
        let sentinel = Box::leak(frames.into_boxed_slice()).as_mut_ptr();
        // SAFETY: all zero is how the assembly reserves a thread's state.
        let state = Box::leak(Box::new(unsafe { MaybeUninit::<ThreadState>::zeroed().assume_init() }));
        state.base = sentinel.wrapping_add(1);
        state.top = state.base;
        state.rules.depth_limit = state.base.wrapping_add(FRAMES);
        state.rules.gate = Gate::new(GateStart { any_only: false, starts_off: false });
        state.state = LIVE;
        (state.tsc_high, state.addr_high) = (u32::MAX, u32::MAX);
        (state.pos, state.end) = (first, first.wrapping_add(EVENTS - SLACK));
        (state.file.chunk, state.file.chunk_bytes) = (first.cast(), EVENTS * EVENT_BYTES);
        (state.file.bytes, state.file.fd) = ((EVENTS * EVENT_BYTES) as u64, -1);
        set_ticks(0);
        Self { state, first }
    }

    /// The same with a stack of its own.
    pub fn with_stack() -> (Self, TestStack) {
        let (thread, stack) = (Self::new(), TestStack::new());
        thread.state.stack = (stack.slot(0), stack.slot(TestStack::SLOTS));
        (thread, stack)
    }

    /// Room for entries that are not written at once.
    pub fn keep_unwritten(&mut self) {
        self.state.unwritten = Box::leak(vec![[0u64; 2]; FRAMES].into_boxed_slice()).as_mut_ptr();
    }

    /// State at a time.
    pub fn at(&mut self, ticks: u64) -> &mut ThreadState {
        set_ticks(ticks);
        self.state
    }

    /// A function is entered that returns by the address at `slot`.
    pub fn enter(&mut self, addr: u64, slot: u64, ticks: u64) {
        self.at(ticks).enter(addr, return_address(slot), false, None);
    }

    /// The same at a function with rules.
    pub fn enter_site(&mut self, site: &'static Site, slot: u64, ticks: u64) {
        let registers = registers(site, slot);
        self.at(ticks).enter(site.addr, return_address(slot), false, Some(&registers));
    }

    /// The function at `slot` returns; where to.
    pub fn exit(&mut self, slot: u64, ticks: u64) -> u64 {
        self.at(ticks).exit(slot, None)
    }

    /// Calls that are counted as lost.
    pub fn lost(&self) -> u32 {
        self.state.lost.load(Ordering::Relaxed)
    }

    /// Words that follow the events of `code`.
    pub fn words_of(&self, code: u64) -> Vec<u64> {
        let mut found = Vec::new();
        self.each_event(|event, words| {
            if matches!(event, RecordedEvent::Control { code: of, .. } if u64::from(of) == code) {
                found.extend_from_slice(words);
            }
        });
        found
    }

    /// All events written.
    pub fn all_events(&self) -> Vec<RecordedEvent> {
        let mut found = Vec::new();
        self.each_event(|event, _| found.push(event));
        found
    }

    /// Events but for high parts.
    pub fn events(&self) -> Vec<RecordedEvent> {
        let is_high = |event: &RecordedEvent| {
            let high = [CONTROL_ADDR_HIGH, CONTROL_TIME_HIGH];
            matches!(event, RecordedEvent::Control { code, .. } if high.contains(&u64::from(*code)))
        };
        self.all_events().into_iter().filter(|event| !is_high(event)).collect()
    }

    fn each_event(&self, mut each: impl FnMut(RecordedEvent, &[u64])) {
        let count = (self.state.pos as usize - self.first as usize) / EVENT_BYTES;
        // SAFETY: so many words of the leaked memory are written.
        let mut left = unsafe { std::slice::from_raw_parts(self.first, count) };
        while let Some((word, rest)) = left.split_first() {
            let event = RecordedEvent::from_word(*word);
            let following = match event {
                RecordedEvent::Control { code, argument }
                    if [CONTROL_ARGUMENTS, CONTROL_RESULT, CONTROL_BACKTRACE].contains(&u64::from(code)) =>
                {
                    words_after(u64::from(code), argument)
                }
                _ => 0,
            };
            let (words, rest) = rest.split_at(following);
            each(event, words);
            left = rest;
        }
    }
}

/// Registers at the entry of a function with rules.
pub fn registers(site: &'static Site, slot: u64) -> Registers {
    let site = &raw const *site as u64;
    Registers { general: [0; 6], slot, site, more: [0; 2], vector: [[0; 2]; 8] }
}

/// A stack whose every word is a return address of its own.
pub struct TestStack {
    words: *mut u64,
}

impl TestStack {
    /// Words of it.
    pub const SLOTS: usize = 64;

    /// Nothing is hooked there.
    pub fn new() -> Self {
        let stack = Self { words: Box::leak(vec![0; Self::SLOTS].into_boxed_slice()).as_mut_ptr() };
        (0..Self::SLOTS).for_each(|at| stack.call(at));
        stack
    }

    /// The address of a word, lowest first.
    pub fn slot(&self, at: usize) -> u64 {
        self.words as u64 + (at * size_of::<u64>()) as u64
    }

    /// Where the call at a slot returns to.
    pub fn way_back(&self, at: usize) -> u64 {
        self.slot(at) ^ 0xff_0000
    }

    /// A call instruction writes its return address.
    pub fn call(&self, at: usize) {
        // SAFETY: one of the leaked words.
        unsafe { self.words.add(at).write(self.way_back(at)) };
    }

    /// Whether the tracer has replaced the return address.
    pub fn is_hooked(&self, at: usize) -> bool {
        // SAFETY: as above.
        let word = unsafe { self.words.add(at).read() };
        crate::entry::addresses::is_ours(word)
    }
}

/// An entry of a function at a time.
pub fn entry(addr: u64, ticks: u64) -> RecordedEvent {
    let addr_low = (addr & ((1 << ADDR_BITS) - 1)) as u32;
    RecordedEvent::Entry { addr_low, tsc_low: ticks as u32 }
}

/// A return at a time.
pub fn exit(ticks: u64) -> RecordedEvent {
    RecordedEvent::Exit { tsc_low: ticks as u32 }
}

/// A control event.
pub fn control(code: u64, argument: u32) -> RecordedEvent {
    RecordedEvent::Control { code: code as u32, argument }
}
