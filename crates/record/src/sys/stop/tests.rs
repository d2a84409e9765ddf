use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::machine::proc;
use crate::sys::signal;

const LONG: Duration = Duration::from_secs(20);

fn stopped(tid: u32) -> StoppedThread {
    let begin = Instant::now();
    match stop(tid, || begin.elapsed() < LONG) {
        StopAttempt::Stopped(stopped) => stopped,
        other => panic!("{other:?}"),
    }
}

/// A child that is killed with its test.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shell(script: &str) -> Shell {
    let mut child = Command::new("sh");
    Shell(child.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("sh runs"))
}

fn state(pid: u32) -> Option<u8> {
    proc::state_letter(&dso::system_file::read(format!("/proc/{pid}/stat")).ok()?)
}

fn wait_for_state(pid: u32, wanted: u8) {
    let begin = Instant::now();
    while state(pid) != Some(wanted) {
        assert!(begin.elapsed() < LONG, "{:?} is not {wanted}", state(pid));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[ignore = "live: stops processes"]
fn a_running_thread_shows_its_registers_and_runs_on() {
    let child = shell("while :; do :; done");
    let pid = child.0.id();
    wait_for_state(pid, b'R');
    for _ in 0..20 {
        let stopped = stopped(pid);
        assert_eq!(state(pid), Some(b't'));
        let registers = stopped.registers().expect("a thread of 64 bits");
        assert!(registers.iter().filter(|&&register| register != 0).count() >= 2);
        drop(stopped);
        wait_for_state(pid, b'R');
    }
}

#[test]
#[ignore = "live: stops processes"]
fn a_signal_that_comes_during_a_stop_is_delivered_after_it() {
    let mut child = shell("trap 'exit 9' USR1; while :; do :; done");
    let pid = child.0.id();
    // The trap is set once the loop runs.
    std::thread::sleep(Duration::from_millis(100));
    wait_for_state(pid, b'R');
    let stopped = stopped(pid);
    signal::send(pid, libc::SIGUSR1).expect("ours");
    drop(stopped);
    assert_eq!(child.0.wait().expect("ours to wait for").code(), Some(9));
}

#[test]
#[ignore = "live: stops processes"]
fn a_thread_in_a_group_stop_stays_in_it_until_it_is_continued() {
    let mut child = shell("exec sleep 1000");
    let pid = child.0.id();
    signal::send(pid, libc::SIGSTOP).expect("ours");
    wait_for_state(pid, b'T');
    drop(stopped(pid));
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(state(pid), Some(b'T'));
    signal::send(pid, libc::SIGCONT).expect("ours");
    wait_for_state(pid, b'S');
    child.0.kill().expect("ours to kill");
    assert_eq!(child.0.wait().expect("ours to wait for").signal(), Some(libc::SIGKILL));
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "live: stops processes"]
fn an_epoll_wait_that_a_stop_interrupts_returns_no_error() {
    // SAFETY: the child calls only functions that are safe in it, and ends by _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: a system call without memory of ours.
        let events = unsafe { libc::epoll_create1(0) };
        // SAFETY: the buffer is live and has room for one event.
        let found = unsafe { libc::epoll_wait(events, &raw mut event, 1, 700) };
        // SAFETY: ends the child without our destructors.
        unsafe { libc::_exit(found.abs()) };
    }
    let tid = pid.cast_unsigned();
    let begin = Instant::now();
    let is_in_call = || {
        let call = dso::system_file::read_text(format!("/proc/{tid}/syscall")).unwrap_or_default();
        call.starts_with("232 ")
    };
    while !is_in_call() {
        assert!(begin.elapsed() < LONG);
    }
    let stopped = stopped(tid);
    assert!(stopped.restart_interrupted_call(), "the kernel ends epoll_wait at any stop");
    drop(stopped);
    let mut status = 0;
    // SAFETY: the pointer is to a live int; the child is ours.
    while unsafe { libc::waitpid(pid, &mut status, 0) } == pid && !libc::WIFEXITED(status) {}
    assert_eq!(libc::WEXITSTATUS(status), 0, "a time-out, no error");
}

#[test]
fn only_signals_that_are_not_blocked_wait() {
    let status = |pending: u64, shared: u64, blocked: u64| {
        format!("Name:\tx\nSigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n")
    };
    assert!(has_unblocked_signal(&status(2, 0, 0)) && has_unblocked_signal(&status(0, 4, 2)));
    assert!(!has_unblocked_signal(&status(2, 4, 6)) && !has_unblocked_signal(""));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn only_a_call_that_ended_by_eintr_is_made_again() {
    // SAFETY: a structure of numbers.
    let zero: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let call = |nr: i64, result: i64| libc::user_regs_struct {
        orig_rax: nr as u64,
        rax: result as u64,
        rip: 0x1002,
        ..zero
    };
    let made = again(call(232, -4)).expect("epoll_wait ended by EINTR");
    assert_eq!((made.rax, made.rip), (232, 0x1000));
    assert!(
        again(call(232, 1)).is_none() && again(call(232, -512)).is_none() && again(call(-1, -4)).is_none()
    );
}
