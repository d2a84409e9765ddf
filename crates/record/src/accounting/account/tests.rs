//! The books balance.

use super::*;
use crate::accounting::summary::StopReason;

#[test]
fn a_thread_told_from_before_the_start_lives_from_the_start_on() {
    let mut account = Account::default();
    account.fork(7, 7, 1, 0);
    account.start(1000);
    account.exec(7, 7, 1010);
    account.switch(PidTid { pid: 7, tid: 7 }, SwitchKind::OutBlocked, 1100);
    let Closed { threads, .. } = account.finish(1300);
    assert_eq!((threads[0].life_ns, threads[0].on_ns, threads[0].off_ns), (300, 90, 210));
}

#[test]
fn what_comes_after_the_end_of_a_thread_is_not_another_thread() {
    let mut account = Account::default();
    account.start(100);
    account.fork(7, 7, 1, 150);
    account.comm(7, b"sleep");
    account.switch(PidTid { pid: 7, tid: 7 }, SwitchKind::In, 160);
    account.exit(7, 190);
    account.sample(7, 7, 195);
    account.switch(PidTid { pid: u32::MAX, tid: u32::MAX }, SwitchKind::OutBlocked, 197);
    account.fork(7, 7, 1, 300);
    account.comm(7, b"next");
    let Closed { threads, .. } = account.finish(400);
    let shown: Vec<_> = threads.iter().map(|t| (&*t.comm, t.on_ns, t.life_ns)).collect();
    assert_eq!(shown, [("sleep", 35, 45), ("next", 0, 100)]);
}

#[test]
fn what_happens_before_the_start_tells_the_state_but_counts_no_time() {
    let mut account = Account::on_hold();
    account.fork(7, 7, 1, 0);
    account.fork(7, 8, 7, 40);
    account.switch(PidTid { pid: 7, tid: 8 }, SwitchKind::In, 50);
    account.start(100);
    account.switch(PidTid { pid: 7, tid: 8 }, SwitchKind::OutBlocked, 130);
    account.switch(PidTid { pid: 7, tid: 7 }, SwitchKind::OutBlocked, 150);
    let Closed { threads, .. } = account.finish(200);
    assert_eq!(
        threads.iter().map(|t| (t.tid, t.on_ns, t.off_ns)).collect::<Vec<_>>(),
        [(7, 50, 50), (8, 30, 70)]
    );
}

#[test]
fn after_a_loss_a_thread_is_not_taken_to_run_for_ever() {
    let mut account = Account::default();
    account.start(100);
    account.switch(PidTid { pid: 7, tid: 7 }, SwitchKind::In, 150);
    account.switch(PidTid { pid: 8, tid: 8 }, SwitchKind::In, 150);
    account.sample(8, 8, 170);
    account.lost(7, 12, 200);
    account.switch(PidTid { pid: 8, tid: 8 }, SwitchKind::OutBlocked, 260);
    account.switch(PidTid { pid: 9, tid: 9 }, SwitchKind::OutBlocked, 300);
    let Closed { threads, loss, .. } = account.finish(1000);
    let shown: Vec<_> = threads.iter().map(|t| (t.tid, t.on_ns, t.life_ns)).collect();
    assert_eq!(shown, [(8, 80, 900), (7, 0, 900), (9, 0, 700)]);
    assert_eq!(loss.by_thread, [(7, String::new(), 12)]);
}

#[test]
fn on_and_off_add_up_to_the_life_of_a_thread() {
    let mut account = Account::default();
    account.start(100);
    account.exec(7, 7, 100);
    account.comm(7, b"main");
    account.fork(7, 8, 7, 150);
    account.switch(PidTid { pid: 7, tid: 7 }, SwitchKind::OutBlocked, 200);
    account.switch(PidTid { pid: 7, tid: 8 }, SwitchKind::In, 210);
    account.switch(PidTid { pid: 7, tid: 8 }, SwitchKind::OutReady, 260);
    account.switch(PidTid { pid: 7, tid: 8 }, SwitchKind::In, 300);
    account.exit(8, 340);
    account.switch(PidTid { pid: 7, tid: 7 }, SwitchKind::In, 345);
    let Closed { threads, .. } = account.finish(400);
    let by = |tid| threads.iter().find(|t| t.tid == tid).expect("watched");
    let (main, child) = (by(7), by(8));
    assert_eq!((main.life_ns, main.on_ns, main.off_ns), (300, 155, 145));
    assert_eq!((main.voluntary_switches, main.involuntary_switches), (1, 0));
    assert_eq!((child.life_ns, child.on_ns, child.off_ns, child.preempted_ns), (190, 90, 100, 100));
    assert_eq!(child.comm, "main");
}

#[test]
fn a_thread_first_seen_leaving_was_on_since_the_start() {
    let mut account = Account::default();
    account.start(1000);
    account.switch(PidTid { pid: 3, tid: 3 }, SwitchKind::OutBlocked, 1600);
    account.switch(PidTid { pid: 4, tid: 4 }, SwitchKind::In, 1500);
    let Closed { threads, .. } = account.finish(2000);
    assert_eq!(threads[0].tid, 3);
    assert_eq!((threads[0].on_ns, threads[0].off_ns), (600, 400));
    assert_eq!((threads[1].on_ns, threads[1].off_ns), (500, 500));
}

#[test]
fn stacks_are_conserved_over_their_endings() {
    let mut account = Account::default();
    account.comm(5, b"worker");
    account.stack(5, 0, StackEnding::Complete);
    account.stack(5, 0, StackEnding::Joined);
    let dso: Arc<str> = "/lib/y.so".into();
    account.stack(6, 0, StackEnding::Stopped(StopReason::NoUnwindInfo, Some(dso.clone())));
    account.stack(5, 0, StackEnding::Stopped(StopReason::NoUnwindInfo, Some(dso.clone())));
    account.stack(5, 0, StackEnding::Stopped(StopReason::NoUnwindInfo, Some(dso)));
    let notes = account.notes().expect("there were stacks");
    assert_eq!(notes.stacks, notes.complete + notes.stops.len() as u64);
    assert_eq!(notes.causes.len(), 2);
    let Closed { quality, .. } = account.finish(0);
    let stopped: u64 = quality.stopped.iter().map(|s| s.count).sum();
    assert_eq!(quality.stacks, quality.complete + quality.joined + stopped);
    assert_eq!(quality.stopped[0].thread, (5, "worker".to_owned()));
}

#[test]
fn a_sample_read_after_its_threads_totals_makes_no_second_thread() {
    let mut account = Account::default();
    account.start(1000);
    let task = PidTid { pid: 5, tid: 5 };
    account.sample(5, 5, 1500);
    let totals = OffCpuTotals {
        start_ns: 1400,
        end_ns: 1600,
        total_ns: [150, 0, 0, 50, 0, 0, 0, 0],
        switches: 1,
        preemptions: 0,
        migrations: 0,
        faults: [0, 0],
        queue: None,
        title: String::new(),
        flags: perfdata::off_cpu::flag::EXITED,
        comm: "as".into(),
    };
    account.totals(task, &totals);
    account.sample(5, 5, 1550);
    let Closed { threads, .. } = account.finish(9000);
    let shown: Vec<_> = threads.iter().map(|t| (t.tid, t.life_ns, t.on_ns, t.samples)).collect();
    assert_eq!(shown, [(5, 200, 150, 2)]);
}

#[test]
fn threads_that_ended_long_ago_are_forgotten_but_counted() {
    let mut account = Account::default();
    account.start(1000);
    let threads = 3 * EXITING as u32;
    for tid in 10..10 + threads {
        let time_ns = 1000 + u64::from(tid) * 10;
        account.fork(tid, tid, 1, time_ns);
        account.comm(tid, b"short");
        account.switch(PidTid { pid: tid, tid }, SwitchKind::In, time_ns + 2);
        account.exit(tid, time_ns + 7);
    }
    assert!(
        account.threads.len() <= EXITING && account.comms.len() <= EXITING && account.exited.len() <= EXITING
    );
    let Closed { threads: listed, more_threads, .. } = account.finish(1_000_000);
    assert_eq!(listed.len() as u64 + more_threads.threads, u64::from(threads));
    assert!(listed.iter().all(|thread| thread.comm == "short" && (thread.on_ns, thread.life_ns) == (5, 7)));
}

#[test]
fn a_number_used_again_is_not_forgotten_with_its_first_thread() {
    let mut account = Account::default();
    account.start(1000);
    account.fork(9, 9, 1, 1000);
    account.exit(9, 1100);
    account.fork(9, 9, 1, 1200);
    for tid in 10..12 + EXITING as u32 {
        account.fork(tid, tid, 1, 1300);
        account.exit(tid, 1300);
    }
    assert!(account.threads.contains_key(&9));
}
