//! A thread's calls as its file has them: entered, returned, left, taken back, on several stacks.

mod fixture;
mod rules;

use super::EntryOutcome;
use crate::frame::{OpenCall, REPORTED, ReturnAddress};
use crate::layout::RecordedEvent::{Entry, Exit};
use crate::layout::{
    CONTROL_ADDR_HIGH, CONTROL_BELOW, CONTROL_LOST, CONTROL_TIME_HIGH, CONTROL_UNWOUND, RecordedEvent,
};
use fixture::{TestStack, TestThread, control, entry, exit};

#[test]
fn a_call_is_written_with_the_times_of_its_entry_and_its_return() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.enter(0x1234, stack.slot(10), 100);
    assert!(stack.is_hooked(10));
    assert_eq!(thread.exit(stack.slot(10), 150), stack.way_back(10));
    assert_eq!(thread.events(), [entry(0x1234, 100), exit(150)]);
    assert_eq!(thread.state.depth(), 0);
}

#[test]
fn high_parts_of_time_and_address_are_written_when_they_change() {
    let (mut thread, stack) = TestThread::with_stack();
    let far = 0x5555_0000_1234;
    thread.enter(far, stack.slot(10), 5 << 32 | 7);
    thread.enter(far + 8, stack.slot(8), 5 << 32 | 9);
    thread.exit(stack.slot(8), 6 << 32);
    let high = |code, argument: u64| control(code, argument as u32);
    let expected = [
        high(CONTROL_ADDR_HIGH, far >> 30),
        high(CONTROL_TIME_HIGH, 5),
        entry(far, 7),
        entry(far + 8, 9),
        high(CONTROL_TIME_HIGH, 6),
        exit(0),
    ];
    assert_eq!(thread.all_events(), expected);
}

#[test]
fn calls_inside_one_that_returns_were_left() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.enter(0x100, stack.slot(20), 1);
    thread.enter(0x200, stack.slot(10), 2);
    thread.exit(stack.slot(20), 3);
    assert_eq!(thread.events(), [entry(0x100, 1), entry(0x200, 2), control(CONTROL_UNWOUND, 3), exit(3)]);
}

#[test]
fn a_call_whose_place_on_the_stack_is_passed_was_left() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.enter(0x100, stack.slot(20), 1);
    thread.enter(0x200, stack.slot(10), 2);
    thread.enter(0x300, stack.slot(12), 3);
    assert_eq!(thread.events()[2..], [control(CONTROL_UNWOUND, 3), entry(0x300, 3)]);
    assert_eq!(thread.state.depth(), 2);
}

#[test]
fn a_call_taken_for_left_finds_its_way_back_and_teaches_where_its_stack_ends() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.enter(0x200, stack.slot(10), 2);
    thread.enter(0x300, stack.slot(12), 3);
    assert!(thread.state.same_stack(stack.slot(10), stack.slot(12)));
    assert_eq!(thread.exit(stack.slot(10), 4), stack.way_back(10));
    assert!(!thread.state.same_stack(stack.slot(10), stack.slot(12)));
    assert!(thread.state.same_stack(stack.slot(11), stack.slot(12)));
}

#[test]
fn a_call_on_another_stack_stays_open_when_the_one_around_it_returns() {
    let (mut thread, stack) = TestThread::with_stack();
    let other = TestStack::new();
    thread.enter(0x100, stack.slot(20), 1);
    thread.enter(0x200, other.slot(10), 2);
    thread.exit(stack.slot(20), 3);
    assert_eq!(thread.exit(other.slot(10), 4), other.way_back(10));
    let expected = [entry(0x100, 1), entry(0x200, 2), control(CONTROL_BELOW, 1), exit(3), exit(4)];
    assert_eq!(thread.events(), expected);
}

#[test]
fn a_tail_call_ends_the_call_in_whose_place_it_returns() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.enter(0x100, stack.slot(10), 1);
    thread.enter(0x200, stack.slot(10), 2);
    assert!(stack.is_hooked(10));
    assert_eq!(thread.exit(stack.slot(10), 3), stack.way_back(10));
    assert_eq!(thread.events(), [entry(0x100, 1), exit(2), entry(0x200, 2), exit(3)]);
}

#[test]
fn a_call_deeper_than_the_limit_is_not_hooked() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.state.rules.depth_limit = thread.state.base.wrapping_add(1);
    thread.enter(0x100, stack.slot(20), 1);
    thread.enter(0x200, stack.slot(10), 2);
    assert!(stack.is_hooked(20) && !stack.is_hooked(10));
    assert_eq!(thread.events(), [entry(0x100, 1)]);
}

#[test]
fn a_short_call_is_taken_back_unless_it_holds_one_that_is_kept() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.state.min_ticks = 50;
    thread.enter(0x100, stack.slot(20), 100);
    thread.enter(0x200, stack.slot(10), 110);
    thread.exit(stack.slot(10), 120);
    assert_eq!(thread.events(), [entry(0x100, 100)], "ten ticks are too few");
    stack.call(10);
    thread.enter(0x300, stack.slot(10), 125);
    thread.exit(stack.slot(10), 175);
    thread.exit(stack.slot(20), 176);
    assert_eq!(thread.events()[1..], [entry(0x300, 125), exit(175), exit(176)]);
}

#[test]
fn lost_calls_are_counted_before_the_next_event() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.state.lose();
    thread.state.lose();
    thread.enter(0x100, stack.slot(10), 1);
    assert_eq!(thread.events(), [control(CONTROL_LOST, 2), entry(0x100, 1)]);
}

#[test]
fn the_slow_half_refuses_to_run_within_itself() {
    let (mut thread, stack) = TestThread::with_stack();
    assert!(thread.state.lock());
    assert!(!thread.state.lock(), "as in a signal handler");
    assert!(thread.state.limit.is_null(), "the fast half is shut out");
    thread.state.unlock();
    assert_eq!(thread.state.limit, thread.state.rules.depth_limit);
    thread.enter(0x100, stack.slot(10), 1);
    assert_eq!(thread.events(), [control(CONTROL_LOST, 1), entry(0x100, 1)]);
}

#[test]
fn a_function_that_reports_itself_ends_by_its_own_report() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.at(1).enter_reported(0x100, stack.slot(20), None);
    thread.at(2).enter_reported(0x100, stack.slot(10), None);
    thread.at(3).exit_reported(0x100, stack.slot(10), false);
    thread.at(4).exit_reported(0x100, stack.slot(20), false);
    assert_eq!(thread.events(), [entry(0x100, 1), entry(0x100, 2), exit(3), exit(4)]);
}

#[test]
fn the_exit_of_a_refused_entry_ends_no_other_call() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.state.rules.depth_limit = thread.state.base.wrapping_add(1);
    thread.at(1).enter_reported(0x100, stack.slot(20), None);
    thread.at(2).enter_reported(0x100, stack.slot(10), None);
    thread.at(3).exit_reported(0x100, stack.slot(10), false);
    assert_eq!(thread.state.depth(), 1);
    thread.at(4).exit_reported(0x100, stack.slot(20), false);
    assert_eq!(thread.events(), [entry(0x100, 1), exit(4)]);
}

#[test]
fn a_call_without_room_for_its_entry_is_lost() {
    let (mut thread, stack) = TestThread::with_stack();
    thread.state.end = thread.state.pos;
    thread.state.file.refusal = 28;
    let frame = OpenCall::new(0x9, stack.slot(10));
    assert!(thread.at(1).open(0x100, frame, None, None) == EntryOutcome::Refused);
    assert_eq!((thread.events(), thread.lost()), (vec![], 1));
}

#[test]
fn random_calls_returns_and_jumps_leave_a_file_whose_ends_match_its_entries() {
    // A small generator of numbers: the same calls every time.
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (mut thread, stack) = TestThread::with_stack();
    let mut open: Vec<usize> = Vec::new();
    for tick in 1..300 {
        let lowest = open.last().copied().unwrap_or(TestStack::SLOTS - 1);
        match random(3) {
            0 if !open.is_empty() => {
                // A return, or a jump over some calls and then a return.
                let to = random(open.len() as u64) as usize;
                let slot = open[to];
                open.truncate(to);
                assert_eq!(thread.exit(stack.slot(slot), tick), stack.way_back(slot));
            }
            _ if lowest > 0 => {
                let slot = lowest - 1 - random(lowest.min(3) as u64) as usize;
                stack.call(slot);
                thread.enter(0x100, stack.slot(slot), tick);
                open.push(slot);
            }
            _ => {}
        }
        assert_eq!(thread.state.depth(), open.len());
    }
    let mut depth = 0u64;
    for event in thread.events() {
        let unwound = control(CONTROL_UNWOUND, 0);
        match event {
            Entry { .. } => depth += 1,
            Exit { .. } => depth -= 1,
            RecordedEvent::Control { code, .. } if control(u64::from(code), 0) == unwound => depth -= 1,
            // The next end is of a call around others, which end after it.
            RecordedEvent::Control { argument, .. } => assert!(u64::from(argument) < depth),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(depth, open.len() as u64);
}

#[test]
fn marks_of_a_frame_leave_its_place_as_it_is() {
    let mut frame = OpenCall::new(0x1234, 0x7ff0 | REPORTED);
    frame.slot |= crate::frame::SILENT | crate::frame::UNHOOKED | crate::frame::UNCOUNTED;
    assert_eq!(frame.place(), 0x7ff0 | REPORTED);
    assert!(frame.is_silent() && frame.is_uncounted() && frame.site().is_none());
}

/// The return address at a slot.
fn return_address(slot: u64) -> ReturnAddress {
    ReturnAddress { place: slot as *mut u64, slot }
}
