//! Entries and exits of calls matched by their place on the stack.

use super::*;

/// `+A@90 5` enters function A at stack place 90 at 5 ns; `-` leaves it.
fn run(mode: CallMode, script: &[(char, u32, u64, u64)]) -> (StackMatcher, Vec<CallEvent>) {
    run_counted(mode, CountRules::default(), script)
}

fn run_counted(
    mode: CallMode,
    counted: CountRules,
    script: &[(char, u32, u64, u64)],
) -> (StackMatcher, Vec<CallEvent>) {
    let mut tracked = StackMatcher::new(mode, counted, 4);
    let mut out = Vec::new();
    for &(what, function, sp, time_ns) in script {
        let kind = if what == '+' { CallEventKind::Enter } else { CallEventKind::Exit };
        let event = CallEvent {
            time_ns,
            sp,
            tid: 7,
            pid: 7,
            function,
            kind,
            generation: false,
            loops: false,
            maybe: false,
        };
        tracked.take(&event, false, &mut |event| out.push(event));
    }
    (tracked, out)
}

#[test]
fn recursion_counts_once_in_the_total_and_each_call_in_the_count() {
    let script = [('+', 0, 90, 10), ('+', 0, 80, 20), ('-', 0, 80, 50), ('-', 0, 90, 110)];
    let sums = run(CallMode::Totals, &script).0.sums();
    let (_, f) = &sums[0];
    assert_eq!((f.count, f.finished_ns, f.total_ns, f.self_ns), (2, 130, 100, 100));
    assert_eq!((f.min_ns, f.max_ns, f.unwound), (Some(30), 100, 0));
    assert_eq!(f.buckets.iter().map(|(_, calls)| calls).sum::<u64>(), 2);
}

#[test]
fn a_longjmp_ends_what_lies_below_it_as_unwound() {
    let script = [('+', 0, 90, 10), ('+', 1, 80, 20), ('+', 2, 70, 30), ('-', 0, 90, 40)];
    let sums = run(CallMode::Totals, &script).0.sums();
    let unwound: Vec<_> = sums.iter().map(|(number, sums)| (*number, sums.count, sums.unwound)).collect();
    assert_eq!(unwound, [(0, 1, 0), (1, 1, 1), (2, 1, 1)]);
}

#[test]
fn a_call_on_another_stack_ends_nothing_on_this_one() {
    const FAR: u64 = 64 << 20;
    let script = [
        ('+', 0, FAR, 10),
        ('+', 1, 90, 20),
        ('-', 0, FAR, 30),
        ('+', 2, FAR, 40),
        ('-', 1, 90, 50),
        ('-', 2, FAR, 60),
    ];
    let tracked = run(CallMode::Totals, &script).0;
    let ends: Vec<_> =
        tracked.sums().iter().map(|(number, sums)| (*number, sums.count, sums.unwound)).collect();
    assert_eq!((ends, tracked.strays), (vec![(0, 1, 0), (1, 1, 0), (2, 1, 0)], 0));
}

#[test]
fn two_coroutines_whose_stacks_are_near_keep_their_calls_open() {
    const OWN: u64 = 1 << 40;
    const NEAR: u64 = 64 << 10;
    // main; 1 on the lower stack, 2 on the higher, in turns 3 within them; both return at last.
    let script = [
        ('+', 0, OWN, 0),
        ('+', 1, 2 * NEAR, 10),
        ('+', 2, 3 * NEAR, 20),
        ('+', 3, 2 * NEAR - 64, 30),
        ('-', 3, 2 * NEAR - 64, 40),
        ('+', 3, 3 * NEAR - 64, 50),
        ('-', 3, 3 * NEAR - 64, 60),
        ('-', 1, 2 * NEAR, 70),
        ('-', 2, 3 * NEAR, 80),
        ('-', 0, OWN, 90),
    ];
    let tracked = run(CallMode::Totals, &script).0;
    let seen: Vec<_> =
        tracked.sums().iter().map(|(_, sums)| (sums.count, sums.total_ns, sums.unwound)).collect();
    assert_eq!(seen, [(1, 90, 0), (1, 60, 0), (1, 60, 0), (2, 20, 0)]);
    assert_eq!(tracked.strays, 0);
}

#[test]
fn sums_are_of_the_calls_that_the_filters_mean() {
    // 0 calls 1, which calls 2; 0 calls 2.
    let script = [
        ('+', 0, 90, 0),
        ('+', 1, 80, 10),
        ('+', 2, 70, 20),
        ('-', 2, 70, 60),
        ('-', 1, 80, 70),
        ('+', 2, 80, 80),
        ('-', 2, 80, 85),
        ('-', 0, 90, 100),
    ];
    let of = |rule: u32, counted: CountRules| {
        let rules = vec![0, rule, 0];
        let counted = CountRules { rules, ..counted };
        let sums = run_counted(CallMode::Totals, counted, &script).0.sums();
        sums.iter().map(|(number, sums)| (*number, sums.count, sums.self_ns)).collect::<Vec<_>>()
    };
    let default = CountRules::default;
    assert_eq!(of(0, default()), [(0, 1, 35), (1, 1, 20), (2, 2, 45)]);
    assert_eq!(of(sleds::NOT, default()), [(0, 1, 95), (2, 1, 5)]);
    assert_eq!(of(sleds::ONLY, CountRules { any_only: true, ..default() }), [(1, 1, 20), (2, 1, 40)]);
    assert_eq!(of(sleds::CALLER, CountRules { callers: true, ..default() }), [(0, 1, 40), (1, 1, 60)]);
    assert_eq!(of(0, CountRules { depth: 2, ..default() }), [(0, 1, 35), (1, 1, 60), (2, 1, 5)]);
    assert_eq!(of(0, CountRules { min_ns: 40, ..default() }), [(0, 1, 40), (1, 1, 20), (2, 1, 40)]);
    assert_eq!(of(sleds::START, CountRules { starts_off: true, ..default() }), [(1, 1, 20), (2, 2, 45)]);
}

#[test]
fn calls_that_never_end_are_counted_as_open() {
    let sums = run(CallMode::Totals, &[('+', 0, 90, 10), ('+', 1, 80, 20), ('-', 1, 80, 30)]).0.sums();
    let open: Vec<_> = sums.iter().map(|(number, sums)| (*number, sums.count, sums.open)).collect();
    assert_eq!(open, [(0, 0, 1), (1, 1, 0)]);
}

#[test]
fn only_slow_calls_and_those_around_them_come_out() {
    let script = [
        ('+', 0, 90, 0),
        ('+', 1, 80, 10),
        ('-', 1, 80, 20),
        ('+', 2, 80, 30),
        ('-', 2, 80, 530),
        ('-', 0, 90, 600),
    ];
    let out = run(CallMode::Slow(100), &script).1;
    let seen: Vec<_> = out.iter().map(|event| (event.kind, event.function, event.time_ns)).collect();
    assert_eq!(
        seen,
        [
            (CallEventKind::Enter, 0, 0),
            (CallEventKind::Enter, 2, 30),
            (CallEventKind::Exit, 2, 530),
            (CallEventKind::Exit, 0, 600)
        ]
    );
}

#[test]
fn buckets_are_sixteen_to_a_power_of_two() {
    assert_eq!([0, 15, 16, 31, 32, 33, 34, 63, 64].map(bucket_of), [0, 15, 16, 31, 32, 32, 33, 47, 48]);
    assert!(bucket_of(1 << 46) < BUCKETS);
}
