use super::switch_state::{is_last_switch, state_of_text};
use super::*;

fn out(tid: u32, time_ns: u64, state: State) -> Out {
    Out { tid, task: TaskId(tid), time_ns, state, callsite: None, other: None, dies: false }
}

const WAKER: RelatedThread =
    RelatedThread { pid: 1, tid: 2, comm: crate::table::StringId(0), callsite: None };

#[test]
fn blocked_and_runnable_are_told_apart_and_add_up() {
    let (mut tracker, mut off_cpu) = (Tracker::default(), OffCpu::default());
    tracker.switch_out(out(7, 100, State::Sleep), &mut off_cpu.waits);
    tracker.wake(7, WAKER, 160);
    tracker.wake(7, WAKER, 170);
    tracker.switch_in(7, 180, &mut off_cpu.waits);
    tracker.switch_out(out(7, 200, State::Preempted), &mut off_cpu.waits);
    tracker.switch_in(7, 250, &mut off_cpu.waits);
    tracker.switch_out(out(7, 260, State::Disk), &mut off_cpu.waits);
    tracker.switch_out(out(8, 300, State::Sleep), &mut off_cpu.waits);
    tracker.finish(OffCpuSource::Tracepoints, &mut off_cpu);
    let lengths: Vec<_> = off_cpu.waits.iter().map(|w| (w.state, w.length_ns)).collect();
    assert_eq!(
        lengths,
        [
            (State::Sleep, 60),
            (State::Runnable, 20),
            (State::Preempted, 50),
            (State::Disk, 40),
            (State::Sleep, 0)
        ]
    );
    for totals in &off_cpu.totals {
        assert_eq!(totals.total_ns.iter().sum::<u64>(), totals.life_ns(), "{totals:?}");
    }
}

#[test]
fn what_a_lost_event_hides_is_unknown() {
    let (mut tracker, mut off_cpu) = (Tracker::default(), OffCpu::default());
    tracker.switch_out(out(7, 100, State::Sleep), &mut off_cpu.waits);
    tracker.switch_out(out(7, 150, State::Sleep), &mut off_cpu.waits);
    tracker.switch_in(7, 180, &mut off_cpu.waits);
    tracker.switch_in(7, 190, &mut off_cpu.waits);
    tracker.finish(OffCpuSource::Tracepoints, &mut off_cpu);
    assert_eq!(off_cpu.totals[0].of(State::Unknown), 60);
    assert_eq!(off_cpu.totals[0].total_ns.iter().sum::<u64>(), 90);
}

#[test]
fn a_thread_that_ended_has_no_time_after_it_but_what_it_still_runs() {
    let (mut tracker, mut off_cpu) = (Tracker::default(), OffCpu::default());
    tracker.switch_out(out(7, 100, State::Sleep), &mut off_cpu.waits);
    tracker.switch_in(7, 150, &mut off_cpu.waits);
    tracker.exit(7, TaskId(7), 170);
    // The kernel no longer knows who it is.
    tracker.switch_out(Out { task: TaskId(99), ..out(7, 180, State::Unknown) }, &mut off_cpu.waits);
    tracker.switch_in(7, 300, &mut off_cpu.waits);
    tracker.switch_out(Out { dies: true, ..out(7, 320, State::Unknown) }, &mut off_cpu.waits);
    tracker.switch_in(8, 400, &mut off_cpu.waits);
    tracker.finish(OffCpuSource::Tracepoints, &mut off_cpu);
    let of: Vec<_> = off_cpu.totals.iter().map(|t| (t.task, t.end_ns, t.of(State::On))).collect();
    assert_eq!(of, [(TaskId(7), 180, 30), (TaskId(7), 320, 20)]);
    assert_eq!(off_cpu.waits.iter().map(|w| w.weight_ns).sum::<u64>(), 50);
    assert!(is_last_switch("X") && is_last_switch("Z") && is_last_switch("16") && !is_last_switch("S"));
}

#[test]
fn a_look_at_one_short_wait_stands_for_those_before_it_and_the_sum_is_exact() {
    let (mut tracker, mut off_cpu) = (Tracker::default(), OffCpu::default());
    let look = WaitSample {
        state: State::Disk,
        syscall: Some(0),
        args: [3, 0, 0],
        told: Some(WaitReason::Pipe),
        callsite: None,
    };
    tracker.expect_looks();
    for begin in [100, 200, 300, 400] {
        tracker.switch_out(out(7, begin, State::Unknown), &mut off_cpu.waits);
        if begin == 300 {
            tracker.look(7, look);
        }
        tracker.switch_in(7, begin + 50, &mut off_cpu.waits);
    }
    // Running: nothing to report.
    tracker.look(7, look);
    tracker.switch_out(out(7, 500, State::Preempted), &mut off_cpu.waits);
    tracker.finish(OffCpuSource::SwitchRecords, &mut off_cpu);
    let weights: Vec<_> = off_cpu.waits.iter().filter(|w| w.weight_ns > 0).collect();
    assert_eq!(weights.len(), 2, "{weights:?}");
    assert_eq!((weights[0].weight_ns, weights[0].told), (150, Some(WaitReason::Pipe)));
    assert_eq!((weights[1].weight_ns, weights[1].flags), (50, flag::REST));
    assert_eq!(off_cpu.source, Some(OffCpuSource::Looks));
    assert_eq!(off_cpu.totals[0].of(State::Disk), 150);
    assert_eq!(off_cpu.totals[0].total_ns.iter().sum::<u64>(), off_cpu.totals[0].life_ns());
}

#[test]
fn states_are_read_in_letters_and_bits() {
    let of = ["S", "R+", "R", "D", "I", "T", "x"].map(state_of_text);
    use State::{Disk, Idle, Preempted, Sleep, Stopped, Unknown};
    assert_eq!(of, [Sleep, Preempted, Preempted, Disk, Idle, Stopped, Unknown]);
    assert_eq!(["0", "1", "2", "1026", "256"].map(state_of_text), [Preempted, Sleep, Disk, Idle, Preempted]);
}

#[test]
fn the_text_of_a_state_is_asked_for_once_an_event_and_number() {
    let mut states = SwitchStates::default();
    let mut asked = 0;
    let mut of = |event, number, text: &str| {
        states.of(event, number, || {
            asked += 1;
            Some(text.to_owned())
        })
    };
    assert_eq!([of(0, Some(1), "S"), of(0, Some(1), "D")], [(State::Sleep, false); 2]);
    assert_eq!(of(1, Some(1), "D"), (State::Disk, false));
    assert_eq!(of(0, Some(16), "X"), (State::Unknown, true));
    assert_eq!([of(0, None, "S"), of(0, None, "D")], [(State::Sleep, false), (State::Disk, false)]);
    assert_eq!(asked, 5);
}
