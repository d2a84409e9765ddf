//! Functions with rules: which calls they keep, and the values written at them.

use super::fixture::{TestThread, control, entry, exit, registers};
use crate::instrumented_fn::{Site, ValueSpecs};
use crate::layout::sleds;
use crate::layout::values::{
    FROM_GENERAL, FROM_STACK, HOW_PLAIN, HOW_SLICE, HOW_TEXT, HOW_WIDE, TEXT_BYTES_MAX, VALUE_NULL,
    VALUE_UNREADABLE, ValueItem, spec,
};
use crate::layout::{CONTROL_ARGUMENTS, CONTROL_BACKTRACE};
use crate::process::options;

/// A function with these rules; leaked, as those of a program are never unmapped.
fn site(addr: u64, rules: u32) -> &'static mut Site {
    let spec = std::ptr::null();
    Box::leak(Box::new(Site { target: 0, addr, spec, spec_bytes: 0, rules, depth: u32::MAX, min_ticks: 0 }))
}

#[test]
fn calls_within_a_muted_function_are_not_written_and_those_after_it_are() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.enter_site(site(0x100, sleds::NOT), stack.slot(20), 1);
    thread.enter(0x200, stack.slot(10), 2);
    assert!(stack.is_hooked(20) && !stack.is_hooked(10), "its own end has to be seen");
    thread.exit(stack.slot(20), 3);
    thread.enter(0x300, stack.slot(10), 4);
    assert_eq!(thread.events(), [entry(0x300, 4)]);
}

#[test]
fn a_function_that_is_off_is_left_out_but_not_what_it_calls() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.enter_site(site(0x100, sleds::OFF), stack.slot(20), 1);
    thread.enter(0x200, stack.slot(10), 2);
    assert_eq!(thread.events(), [entry(0x200, 2)]);
}

#[test]
fn callers_are_written_with_their_own_times_once_a_wanted_function_is_called() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.keep_unwritten();
    thread.state.rules.callers_only = true;
    thread.enter(0x100, stack.slot(30), 1);
    thread.enter(0x200, stack.slot(20), 2);
    thread.exit(stack.slot(20), 3);
    stack.call(20);
    thread.enter(0x300, stack.slot(20), 4);
    assert_eq!(thread.events(), [], "nothing leads there yet");
    thread.enter_site(site(0x400, sleds::CALLER), stack.slot(10), 5);
    assert_eq!(thread.events(), [entry(0x100, 1), entry(0x300, 4), entry(0x400, 5)]);
    [10, 20, 30].iter().for_each(|at| {
        thread.exit(stack.slot(*at), 6);
    });
    assert_eq!(thread.events()[3..], [exit(6), exit(6), exit(6)]);
}

#[test]
fn a_call_kept_only_if_slow_goes_with_all_calls_in_it() {
    let (mut thread, stack) = TestThread::with_stack();
    let slow = site(0x100, sleds::SLOW);
    slow.min_ticks = 50;
    let slow: &Site = slow;
    for (begin, end) in [(100, 120), (200, 260)] {
        stack.call(20);
        thread.enter_site(slow, stack.slot(20), begin);
        stack.call(10);
        thread.enter(0x200, stack.slot(10), begin + 1);
        thread.exit(stack.slot(10), begin + 2);
        thread.exit(stack.slot(20), end);
    }
    assert_eq!(thread.events(), [entry(0x100, 200), entry(0x200, 201), exit(202), exit(260)]);
}

#[test]
fn a_depth_of_its_own_holds_until_the_function_returns() {
    options::activate();
    let (mut thread, stack) = TestThread::with_stack();
    let shallow = site(0x100, sleds::DEPTH);
    shallow.depth = 1;
    thread.enter_site(shallow, stack.slot(30), 1);
    thread.enter(0x200, stack.slot(20), 2);
    thread.exit(stack.slot(30), 3);
    thread.enter(0x300, stack.slot(20), 4);
    assert_eq!(thread.events(), [entry(0x100, 1), exit(3), entry(0x300, 4)]);
}

#[test]
fn a_backtrace_has_the_open_calls_that_are_not_written() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.keep_unwritten();
    thread.enter_site(site(0x100, sleds::OFF), stack.slot(30), 1);
    thread.enter(0x200, stack.slot(20), 2);
    thread.enter_site(site(0x300, sleds::BACKTRACE), stack.slot(10), 3);
    assert_eq!(thread.events(), [entry(0x200, 2), entry(0x300, 3), control(CONTROL_BACKTRACE, 1)]);
    assert_eq!(thread.words_of(CONTROL_BACKTRACE), [0x100]);
}

fn item(from: u8, how: u8, number: u8) -> ValueItem {
    ValueItem { from, number, how, bytes: 8, offset: 0 }
}

/// The bytes that a call writes of these arguments, its general registers being `general`.
fn written(items: &[ValueItem], general: [u64; 6]) -> Vec<u8> {
    let (thread, stack) = TestThread::with_stack();
    let of = site(0x100, sleds::VALUES);
    let bytes = Box::leak(spec(items, &[]).into_boxed_slice());
    (of.spec, of.spec_bytes) = (bytes.as_ptr(), bytes.len());
    let mut registers = registers(of, stack.slot(10));
    registers.general = general;
    assert_eq!(of.items(ValueSpecs::Results).count(), 0);
    thread.state.write_values(CONTROL_ARGUMENTS, of.items(ValueSpecs::Arguments), &registers);
    let Some(crate::layout::RecordedEvent::Control { argument, .. }) = thread.events().first().copied()
    else {
        return Vec::new();
    };
    let words = thread.words_of(CONTROL_ARGUMENTS);
    words.iter().flat_map(|word| word.to_le_bytes()).take(argument as usize).collect()
}

#[test]
fn plain_values_have_their_length_before_them() {
    let narrow = ValueItem { bytes: 2, ..item(FROM_GENERAL, HOW_PLAIN, 1) };
    let bytes = written(&[item(FROM_GENERAL, HOW_PLAIN, 0), narrow], [0x0102, 0x0a0b_0c0d, 0, 0, 0, 0]);
    assert_eq!(bytes, [8, 2, 1, 0, 0, 0, 0, 0, 0, 2, 0x0d, 0x0c]);
}

#[test]
fn values_that_are_not_there_are_marked() {
    let items = [
        item(FROM_GENERAL, HOW_TEXT, 0),
        item(FROM_GENERAL, HOW_TEXT, 1),
        // No register has this number.
        item(FROM_GENERAL, HOW_PLAIN, 60),
    ];
    assert_eq!(written(&items, [0, 8, 0, 0, 0, 0]), [VALUE_NULL, VALUE_UNREADABLE, VALUE_UNREADABLE]);
}

#[test]
fn values_beyond_the_room_for_one_call_are_left_out() {
    let wide = item(FROM_GENERAL, HOW_WIDE, 0);
    let bytes = written(&[wide; 20], [1; 6]);
    let whole = bytes.chunks_exact(17).filter(|chunk| chunk[0] == 16).count();
    assert_eq!((whole, bytes.len() - 17 * whole), (14, 2), "two marks take what 14 values leave");
}

#[test]
#[cfg_attr(miri, ignore = "reads memory by a system call")]
fn text_ends_at_its_zero_its_length_or_the_most_that_is_kept() {
    let text = b"some text\0and more";
    let long = [b'x'; 200];
    let at = |bytes: &[u8]| bytes.as_ptr() as u64;
    let zero = written(&[item(FROM_GENERAL, HOW_TEXT, 0)], [at(text), 0, 0, 0, 0, 0]);
    assert_eq!((zero[0], &zero[1..]), (9, &text[..9]));
    let slice = ValueItem { offset: 1, ..item(FROM_GENERAL, HOW_SLICE, 0) };
    assert_eq!(written(&[slice], [at(text), 4, 0, 0, 0, 0]), [&[4], &text[..4]].concat());
    let cut = written(&[ValueItem { offset: 1, ..slice }], [at(&long), 200, 0, 0, 0, 0]);
    assert_eq!(usize::from(cut[0]), TEXT_BYTES_MAX);
}

#[test]
#[cfg_attr(miri, ignore = "reads memory by a system call")]
fn arguments_on_the_stack_are_above_the_return_address() {
    let (bytes, stack) = {
        let (thread, stack) = TestThread::with_stack();
        let of = site(0x100, sleds::VALUES);
        let specs = Box::leak(spec(&[item(FROM_STACK, HOW_PLAIN, 0)], &[]).into_boxed_slice());
        (of.spec, of.spec_bytes) = (specs.as_ptr(), specs.len());
        let registers = registers(of, stack.slot(10));
        thread.state.write_values(CONTROL_ARGUMENTS, of.items(ValueSpecs::Arguments), &registers);
        (thread.words_of(CONTROL_ARGUMENTS), stack)
    };
    let expected = [&[8], &stack.way_back(11).to_le_bytes()[..]].concat();
    let written: Vec<u8> = bytes.iter().flat_map(|word| word.to_le_bytes()).take(9).collect();
    assert_eq!(written, expected);
}
