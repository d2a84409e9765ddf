//! Adopts processes that outlive the step that started them, and ends them with this process.
//!
//! A daemon that a test left running (a tmux server, a recorded program) would keep the pipe open that a caller reads
//! our output from. The caller would then wait for the daemon after this process has ended.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Makes orphaned descendants our children instead of init's from now on.
pub fn adopt() {
    // SAFETY: takes no pointer; a kernel without the option returns an error and nothing changes.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_interrupt(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Only notes Ctrl-C from now on: it ends the programs waited for, and the findings are still written.
pub fn note_interrupts() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the function stores to an atomic and does nothing else, which a signal handler may.
        unsafe { libc::signal(signal, note_interrupt as *const () as libc::sighandler_t) };
    }
}

/// Whether Ctrl-C came since [`note_interrupts`].
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Kills every descendant of this process.
pub fn end_all() {
    // Twice: a process may fork between being listed and being killed.
    for _ in 0..2 {
        reap();
        let found = descendants(std::process::id());
        if found.is_empty() {
            return;
        }
        let ids: Vec<String> = found.iter().map(u32::to_string).collect();
        println!("ending {} leftover processes", ids.len());
        let _ = Command::new("kill").arg("-KILL").args(&ids).status();
    }
}

/// Reaps adopted processes that have ended, otherwise they would be listed again and again.
fn reap() {
    // SAFETY: without a place for the status, which may be null; returns 0 or -1 when none has ended.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

/// Ends all processes, including this one, after `limit`, because a gate that hangs is worse than one that fails.
pub fn end_after(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        println!("\nnot done after {} minutes: ended\nci FAILED", limit.as_secs() / 60);
        end_all();
        std::process::exit(1);
    });
}

/// All processes below `root`, found in /proc.
fn descendants(root: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pairs: Vec<(u32, u32)> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| Some((pid, parent(pid)?)))
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(of) = found.get(at).copied() {
        found.extend(pairs.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

/// The fourth field of `/proc/PID/stat`; the name before it may contain anything but ends at the last `)`.
fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
