use super::*;
use ThreadState::{Blocked, Preempted, Runnable, Running, Unknown};
use proptest::prelude::*;

type Thread = ThreadTimeline<char, u32>;

fn parts(ended: &SchedInterval<char, u32>) -> Vec<(ThreadState<char>, u64)> {
    ended.parts().map(|part| (part.state, part.length_ns())).collect()
}

#[test]
fn a_wait_is_divided_at_its_first_wake_up() {
    let mut thread = Thread::new(0, Running);
    assert_eq!(parts(&thread.leave(100, Blocked('S'), Some(9))), [(Running, 100)]);
    thread.wake(160, 1);
    thread.wake(170, 2);
    let waited = thread.enter(180);
    assert_eq!((parts(&waited), waited.cause), (vec![(Blocked('S'), 60), (Runnable, 20)], Some(1)));
}

#[test]
fn a_preempted_thread_waits_for_its_successor_and_no_wake_up_counts() {
    let mut thread = Thread::new(0, Running);
    thread.leave(100, Preempted, Some(9));
    thread.wake(110, 1);
    let waited = thread.enter(150);
    assert_eq!((parts(&waited), waited.cause), (vec![(Preempted, 50)], Some(9)));
    thread.leave(160, Blocked('S'), None);
    assert_eq!(thread.enter(170).cause, None, "a successor belongs to its own wait");
}

#[test]
fn time_next_to_a_lost_event_is_unknown() {
    let mut thread = Thread::new(0, Running);
    thread.leave(100, Blocked('S'), None);
    assert_eq!(parts(&thread.leave(150, Blocked('D'), None)), [(Unknown, 50)]);
    assert_eq!(parts(&thread.enter(180)), [(Blocked('D'), 30)]);
    assert_eq!(parts(&thread.enter(190)), [(Unknown, 10)]);
    thread.lose();
    assert_eq!(parts(&thread.leave(200, Blocked('S'), None)), [(Unknown, 10)]);
    thread.wake(210, 1);
    thread.lose();
    assert_eq!(parts(&thread.finish(230)), [(Unknown, 30)]);
}

#[test]
fn an_assumed_state_is_settled_by_the_first_switch() {
    let mut ran = Thread::assumed(0, Unknown, Unknown);
    assert!(ran.is_assumed());
    assert_eq!(parts(&ran.leave(50, Blocked('S'), None)), [(Running, 50)]);
    assert!(!ran.is_assumed());
    let mut waited = Thread::assumed(0, Running, Runnable);
    assert_eq!(parts(&waited.enter(50)), [(Runnable, 50)]);
    assert_eq!(parts(&waited.finish(60)), [(Running, 10)]);
    assert_eq!(parts(&Thread::assumed(0, Running, Runnable).finish(60)), [(Running, 60)]);
}

#[derive(Debug, Clone)]
enum Event {
    Leave(ThreadState<char>),
    Wake,
    Enter,
    Lose,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Leave(Preempted)),
        Just(Event::Leave(Blocked('S'))),
        Just(Event::Leave(Unknown)),
        Just(Event::Wake),
        Just(Event::Enter),
        Just(Event::Lose),
    ]
}

fn beginning() -> impl Strategy<Value = (ThreadState<char>, Option<ThreadState<char>>)> {
    let state = prop_oneof![Just(Running), Just(Runnable), Just(Blocked('S')), Just(Unknown)];
    let if_enters = prop_oneof![Just(None), Just(Some(Runnable)), Just(Some(Unknown))];
    (state, if_enters)
}

proptest! {
    /// Whatever is lost, repeated or out of order: the parts cover the wall clock without gap.
    #[test]
    fn running_runnable_and_blocked_add_up_to_the_wall_clock(
        (state, if_enters) in beginning(),
        begin in 0u64..100,
        events in prop::collection::vec((event(), 0u64..1000), 0..40),
        end in 0u64..1200,
    ) {
        let mut thread = match if_enters {
            Some(if_enters) => Thread::assumed(begin, state, if_enters),
            None => Thread::new(begin, state),
        };
        let mut ended = Vec::new();
        for (event, time_ns) in events {
            match event {
                Event::Leave(state) => ended.push(thread.leave(time_ns, state, None)),
                Event::Wake => thread.wake(time_ns, 1),
                Event::Enter => ended.push(thread.enter(time_ns)),
                Event::Lose => thread.lose(),
            }
        }
        ended.push(thread.finish(end));
        let mut at = begin;
        for part in ended.iter().flat_map(SchedInterval::parts) {
            prop_assert_eq!(part.begin_ns, at);
            prop_assert!(part.end_ns >= part.begin_ns);
            at = part.end_ns;
        }
        prop_assert!(at >= end);
    }

    /// A complete history gives back exactly the times it was made of.
    #[test]
    fn a_complete_history_is_given_back(
        turns in prop::collection::vec((1u64..1000, 1u64..1000, 0u64..1000), 1..30),
    ) {
        let mut thread = Thread::new(0, Running);
        let (mut now, mut sums) = (0, [0; 3]);
        for &(run, blocked, ready) in &turns {
            now += run;
            let ran = thread.leave(now, Blocked('S'), None);
            prop_assert_eq!(ran.state, Running);
            sums[0] += ran.length_ns();
            thread.wake(now + blocked, 1);
            now += blocked + ready;
            for part in thread.enter(now).parts() {
                sums[if part.state == Runnable { 2 } else { 1 }] += part.length_ns();
            }
        }
        let of = |pick: fn(&(u64, u64, u64)) -> u64| turns.iter().map(pick).sum::<u64>();
        prop_assert_eq!(sums, [of(|turn| turn.0), of(|turn| turn.1), of(|turn| turn.2)]);
        prop_assert_eq!(sums.iter().sum::<u64>(), now);
    }
}

#[test]
fn a_reported_state_keeps_its_name_even_if_it_is_the_unknown_one() {
    let names = crate::StateNames { running: 'R', runnable: 'r', preempted: 'p', unknown: '?' };
    for state in ['R', 'r', 'p', '?', 'S'] {
        assert_eq!(names.name(names.reported(state)), state);
    }
    assert_eq!((names.reported('?'), names.name(Unknown)), (Blocked('?'), '?'));
}
