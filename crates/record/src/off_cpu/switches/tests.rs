//! Context switches turned into waits.

use super::*;
use crate::off_cpu::place_waits::PlacePrint;

fn at(time_ns: u64, tid: u32) -> Moment {
    Moment { time_ns, cpu: 0, task: PidTid { pid: 1, tid } }
}

fn switch(prev: u32, state: State, next: u32) -> SwitchPayload<'static> {
    SwitchPayload { prev, prev_comm: b"p", state, dies: state == State::Unknown, next, next_comm: b"n" }
}

fn ends(switches: &mut Switches) -> Vec<EndRecord> {
    let told = switches
        .take_finished()
        .filter_map(|told| if let ClockResult::End(end) = told { Some(end) } else { None });
    told.collect()
}

#[test]
fn a_commands_clock_begins_with_its_exec_and_ends_with_its_last_switch() {
    let mut switches = Switches::new(ClockedThreads::Command(7), 10);
    switches.switched(at(50, 7), &switch(7, State::Sleep, 9), None, false);
    switches.switched(at(60, 9), &switch(9, State::Preempted, 7), None, false);
    switches.exec(PidTid { pid: 7, tid: 7 }, 100);
    switches.switched(at(150, 7), &switch(7, State::Sleep, 9), None, false);
    // Reported again, with its stack.
    switches.switched(
        at(151, 7),
        &switch(7, State::Sleep, 9),
        Some(Spot { chain: [1].into(), ..Spot::default() }),
        true,
    );
    switches.woken(at(200, 9), 7, false, &[]);
    switches.switched(at(220, 9), &switch(9, State::Preempted, 7), None, false);
    switches.fork(PidTid { pid: 7, tid: 8 }, 7, 230);
    switches.switched(at(250, 7), &switch(7, State::Unknown, 8), None, false);
    let told: Vec<ClockResult> = switches.take_finished().collect();
    let ClockResult::Interval(at @ Moment { time_ns: 220, cpu: 0, .. }, ended) = &told[0] else {
        panic!("{told:?}")
    };
    assert_eq!(
        (at.task.to_record(), ended.weight_ns, ended.interval.other.tid, ended.chain.len()),
        ((7, 7), 50, 9, 1)
    );
    let of_seven: Vec<_> =
        told.iter().filter(|told| matches!(told, ClockResult::End(end) if end.tid == 7)).collect();
    let [ClockResult::End(end)] = of_seven[..] else { panic!("{told:?}") };
    assert_eq!((end.start_ns, end.end_ns, end.total_ns), (100, 250, [80, 20, 0, 50, 0, 0, 0, 0]));
    switches.finish(300);
    assert_eq!(
        ends(&mut switches).iter().map(|end| (end.tid, end.total_ns[0])).collect::<Vec<_>>(),
        [(8, 50)]
    );
}

#[test]
fn a_command_whose_exec_was_lost_is_followed_once_it_is_known_to_run() {
    let mut switches = Switches::new(ClockedThreads::Command(7), 10);
    switches.runs_since(90);
    assert!(!switches.follows(7), "its exec is still to come");
    switches.lost();
    switches.runs_since(100);
    switches.runs_since(120);
    switches.switched(at(150, 7), &switch(7, State::Sleep, 9), None, false);
    switches.fork(PidTid { pid: 8, tid: 8 }, 7, 160);
    switches.finish(200);
    let ends = ends(&mut switches);
    assert_eq!(ends.iter().map(|end| end.tid).collect::<Vec<_>>(), [7, 8]);
    assert_eq!((ends[0].start_ns, ends[0].total_ns), (100, [0, 0, 0, 50, 0, 0, 0, 50]));
    let mut ended = Switches::new(ClockedThreads::Command(7), 10);
    ended.lost();
    ended.switched(at(50, 7), &switch(7, State::Unknown, 9), None, false);
    ended.runs_since(60);
    assert!(!ended.follows(7));
}

#[test]
fn a_switch_reported_with_its_stack_first_keeps_it_when_the_second_report_is_late() {
    const LATE_NS: u64 = 2_000_000;
    let mut switches = Switches::new(ClockedThreads::Processes, 10);
    switches.begin(PidTid { pid: 1, tid: 7 }, 0, State::On, None);
    let spot = |chain: &[u64]| Some(Spot { chain: chain.into(), ..Spot::default() });
    switches.switched(at(100, 7), &switch(7, State::Sleep, 9), spot(&[1, 2]), true);
    switches.switched(at(100 + LATE_NS, 7), &switch(7, State::Sleep, 9), spot(&[]), false);
    switches.switched(at(200 + LATE_NS, 9), &switch(9, State::Preempted, 7), None, false);
    let finished: Vec<ClockResult> = switches.take_finished().collect();
    let [ClockResult::Interval(_, ended)] = &finished[..] else { panic!("{finished:?}") };
    assert_eq!((ended.weight_ns, &*ended.chain), (LATE_NS + 100, &[1, 2][..]));
    assert_eq!(switches.seen(), 2, "one switch each");
}

#[test]
fn of_the_whole_system_every_thread_has_a_clock_but_our_own_and_the_idle_task() {
    let mut switches = Switches::new(ClockedThreads::AllBut(5), 10);
    switches.begin(PidTid { pid: 5, tid: 5 }, 0, State::On, None);
    switches.begin(PidTid { pid: 1, tid: 20 }, 0, State::Sleep, None);
    switches.switched(at(10, 7), &switch(7, State::Sleep, 0), None, false);
    switches.switched(
        Moment { task: PidTid::default(), ..at(30, 0) },
        &switch(0, State::Preempted, 7),
        None,
        false,
    );
    switches.finish(40);
    let of: Vec<_> = ends(&mut switches).iter().map(|end| (end.tid, end.total_ns[3])).collect();
    assert_eq!(of, [(7, 20), (20, 40)]);
}

#[test]
fn in_a_pid_namespace_the_first_switch_out_tells_who_came_before() {
    let mut switches = Switches::new(ClockedThreads::Command(2), 10).nested(true);
    switches.exec(PidTid { pid: 2, tid: 2 }, 100);
    switches.switched(at(150, 2), &switch(5002, State::Sleep, 9), None, false);
    switches.fork(PidTid { pid: 3, tid: 3 }, 2, 150);
    switches.switched(
        Moment { task: PidTid::default(), ..at(200, 0) },
        &switch(9, State::Preempted, 5003),
        None,
        false,
    );
    assert_eq!((switches.own_id(5002), switches.own_id(5003)), (Some(2), None));
    switches.switched(at(230, 3), &switch(5003, State::Unknown, 5002), None, false);
    switches.switched(at(250, 2), &switch(5002, State::Unknown, 9), None, false);
    let of: Vec<_> = ends(&mut switches).iter().map(|end| (end.tid, end.total_ns)).collect();
    assert_eq!(of, [(3, [30, 50, 0, 0, 0, 0, 0, 0]), (2, [70, 0, 0, 80, 0, 0, 0, 0])]);
}

#[test]
fn interrupts_are_no_threads() {
    let mut switches = Switches::new(ClockedThreads::Processes, 1);
    switches.begin(PidTid { pid: 1, tid: 7 }, 0, State::Sleep, None);
    switches.woken(at(10, 3), 7, true, &[]);
    switches.switched(at(20, 3), &switch(3, State::Preempted, 7), None, false);
    let Some(ClockResult::Interval(_, ended)) = switches.take_finished().next() else { panic!("told") };
    assert_eq!((ended.interval.other.tid, ended.interval.other.comm.as_str()), (0, "irq"));
}

#[test]
fn a_thread_that_leaves_an_idle_cpu_came_when_it_was_woken() {
    let mut switches = Switches::new(ClockedThreads::Processes, 10);
    switches.begin(PidTid { pid: 1, tid: 7 }, 0, State::On, None);
    switches.switched(at(100, 7), &switch(7, State::Sleep, 0), None, false);
    switches.woken(at(300, 3), 7, false, &[]);
    switches.switched(at(350, 7), &switch(7, State::Disk, 0), None, false);
    switches.finish(400);
    let ends = ends(&mut switches);
    assert_eq!(ends[0].total_ns, [150, 0, 0, 200, 50, 0, 0, 0]);
}

#[test]
fn a_look_at_a_long_wait_adds_its_stack_and_starts_no_clock_of_a_command_before_its_exec() {
    let look = || Some(Spot { chain: [5].into(), syscall: Some(202), ..Spot::default() });
    let mut switches = Switches::new(ClockedThreads::Command(7), 10);
    let task = PidTid { pid: 7, tid: 7 };
    switches.begin(task, 50, State::Sleep, look());
    switches.exec(task, 100);
    let place = Some(PlacePrint { print: 1, stack_print: 1 });
    switches.switched(
        at(110, 7),
        &switch(7, State::Sleep, 0),
        Some(Spot { place, ..Spot::default() }),
        false,
    );
    switches.begin(task, 160, State::Sleep, look());
    switches.woken(at(200, 3), 7, false, &[]);
    switches.finish(200);
    let told: Vec<ClockResult> = switches.take_finished().collect();
    let [ClockResult::Interval(_, ended), ClockResult::End(end)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((ended.weight_ns, ended.chain.len(), ended.interval.syscall), (90, 1, Some(202)));
    assert_eq!((end.start_ns, end.total_ns[3], end.carry_ns), (100, 90, [0; 8]));
}

#[test]
fn waits_without_a_stack_are_where_the_others_of_their_place_were_seen() {
    let spot = |print, chain: &[u64]| {
        let place = Some(PlacePrint { print, stack_print: print });
        Some(Spot { chain: chain.into(), place, ..Spot::default() })
    };
    let mut switches = Switches::new(ClockedThreads::Processes, 10);
    switches.begin(PidTid { pid: 1, tid: 7 }, 0, State::On, None);
    // Long ones before and after the first stack, a short one, and one of another place.
    let waits =
        [(100, 50, 1, &[][..]), (200, 40, 1, &[5]), (300, 30, 1, &[]), (400, 3, 1, &[]), (500, 20, 2, &[])];
    for (since, length, print, chain) in waits {
        switches.switched(at(since, 7), &switch(7, State::Sleep, 3), spot(print, chain), !chain.is_empty());
        switches.switched(at(since + length, 3), &switch(3, State::Preempted, 7), None, false);
    }
    switches.finish(600);
    let told = switches.take_finished().filter_map(|told| match told {
        ClockResult::Interval(_, of) => Some((of.weight_ns, of.chain.len(), of.interval.length_ns)),
        ClockResult::End(_) => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(40, 1, 40), (30, 1, 30), (53, 1, 0), (20, 0, 0)]);
}
