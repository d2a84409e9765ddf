//! Signals that end a recording, and the effect of each on the command. Every recorder uses this module.
//!
//! | signal | ends a recording |
//! |---|---|
//! | INT, TERM, QUIT | also where the shell that started us ignores them (`sh -c 'tally … &'`), as perf |
//! | HUP | unless it is ignored (`nohup tally …`) |
//! | PIPE | where standard output is watched: the program that read it has ended (`\| head`) |
//!
//! Without a command the recording ends at once, and processes that it attached to go on as before. A command is asked
//! to end; the recording ends with it and the exit status is the command's:
//!
//! 1. The first signal is passed on, unless the terminal sent it to the command as well. A command that only sets the
//!    recording time gets TERM.
//! 2. The second signal sends TERM, the third KILL.
//!
//! `timeout` and `kill -- -GROUP` send the same signal to several processes, some of which pass it on. A signal
//! within a moment of the last one counts as the same.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::machine::proc;
use crate::sys::signal::{self, SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM, Signal};
use crate::sys::{Child, Poller, SignalReader};

const SIGNALS: u64 = 0;
const STDOUT: u64 = 1;

/// Signals that follow each other faster are one request.
const MOMENT: Duration = Duration::from_millis(300);

/// A command that runs this long after the first signal is worth a hint.
const OVERDUE: Duration = Duration::from_millis(600);

/// Role of a command in the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRole {
    /// It is recorded.
    Recorded,
    /// Others are recorded for as long as it runs.
    Stopwatch,
    /// It records the command that it started, and obeys these rules as well.
    Recorder,
}

/// A command that runs.
#[derive(Debug, Clone, Copy)]
pub struct RunningCommand {
    /// PID of the command.
    pub pid: u32,
    /// Role of the command.
    pub role: SignalRole,
}

impl RunningCommand {
    /// A child in this role.
    #[must_use]
    pub fn of(child: &Child, role: SignalRole) -> Self {
        Self { pid: child.pid(), role }
    }
}

/// The signals of one recording. Make it before any thread starts: threads inherit which signals are blocked. Signals
/// that have come and were not taken are forgotten when it is dropped, because their recording is over.
#[derive(Debug)]
pub struct StopSignals {
    reader: Option<SignalReader>,
    poller: Poller,
    watches_stdout: bool,
    came: Option<i32>,
    last: Option<Instant>,
    requests: u32,
    /// The requests after which a hint was given.
    hinted: u32,
}

impl StopSignals {
    /// Waits for signals from now on; also for `others`, which [`Self::take`] returns.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(others: &[i32]) -> io::Result<Self> {
        let mut numbers = vec![SIGINT, SIGTERM, SIGQUIT, SIGCHLD];
        numbers.extend((!signal::is_ignored(SIGHUP)).then_some(SIGHUP));
        numbers.extend(others);
        let reader = SignalReader::new(&numbers)?;
        let mut signals = Self::none()?;
        signals.poller.add(reader.as_fd(), SIGNALS)?;
        signals.reader = Some(reader);
        Ok(signals)
    }

    /// No signals: another part of the program waits for them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn none() -> io::Result<Self> {
        Ok(Self {
            reader: None,
            poller: Poller::new()?,
            watches_stdout: false,
            came: None,
            last: None,
            requests: 0,
            hinted: 0,
        })
    }

    /// The end of the program that reads our standard output counts as SIGPIPE.
    pub fn watch_stdout(&mut self) {
        // A file has no reader whose end could be waited for.
        self.watches_stdout = self.poller.add_end(io::stdout().as_fd(), STDOUT).is_ok();
    }

    /// For a child to undo the signal mask.
    #[must_use]
    pub fn reader(&self) -> Option<&SignalReader> {
        self.reader.as_ref()
    }

    /// The signal that ended the recording, once one did.
    #[must_use]
    pub fn came(&self) -> Option<i32> {
        self.came
    }

    /// Number of requests to end.
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Waits for a signal, a child's end included.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&self, most: Duration) -> io::Result<()> {
        self.poller.wait(Some(most)).map(drop)
    }

    /// Takes what has come, and asks the command to end if it is to. Returns the signals that mean something else.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take(&mut self, command: Option<RunningCommand>) -> io::Result<Vec<i32>> {
        let mut others = Vec::new();
        while let Some(signal) = self.reader.as_ref().map_or(Ok(None), SignalReader::next)? {
            match signal.number {
                SIGCHLD => {}
                SIGINT | SIGTERM | SIGQUIT | SIGHUP => self.request(signal, command),
                other => others.push(other),
            }
        }
        if self.watches_stdout
            && self.poller.wait(Some(Duration::ZERO))?.iter().any(|ready| ready.token == STDOUT)
        {
            self.watches_stdout = false;
            let _ = self.poller.remove(io::stdout().as_fd());
            self.request(Signal { number: SIGPIPE, sender: None }, command);
        }
        Ok(others)
    }

    /// One more request to end.
    fn request(&mut self, signal: Signal, command: Option<RunningCommand>) {
        let now = Instant::now();
        if self.last.replace(now).is_some_and(|last| now - last < MOMENT) {
            return;
        }
        self.requests += 1;
        self.came.get_or_insert(signal.number);
        let sent =
            command.and_then(|command| Some((command.pid, answer(self.requests, signal, command.role)?)));
        if let Some((pid, number)) = sent {
            // It may be gone already.
            let _ = signal::send(pid, number);
        }
    }

    /// A line for the user, once for each request, when a command goes on although it was asked to end.
    pub fn hint(&mut self, command: Option<RunningCommand>) -> Option<String> {
        let is_overdue = self.last.is_some_and(|last| last.elapsed() >= OVERDUE);
        if !is_overdue || self.hinted >= self.requests {
            return None;
        }
        self.hinted = self.requests;
        hint_after(self.requests, command?)
    }
}

impl AsFd for StopSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        self.reader.iter().for_each(SignalReader::forget_waiting);
    }
}

/// The hint for the user when a command has not ended some time after the n-th request, counted from 1.
fn hint_after(request: u32, command: RunningCommand) -> Option<String> {
    let name = proc::status(command.pid)?.comm;
    let name = format!("{} ({})", String::from_utf8_lossy(&name), command.pid);
    match request {
        1 => Some(format!("tally: {name} goes on; Ctrl-C again sends it TERM, which ends the recording too")),
        2 => Some(format!("tally: {name} goes on after TERM; a third Ctrl-C kills it")),
        _ => None,
    }
}

/// The signal sent to a command at the n-th request, counted from 1.
fn answer(request: u32, signal: Signal, role: SignalRole) -> Option<i32> {
    match (request, role) {
        (1, SignalRole::Stopwatch) => Some(SIGTERM),
        // The command gets TERM instead, because tally was the writer of the pipe.
        (1, _) if signal.number == SIGPIPE => Some(SIGTERM),
        // The kernel sends it to the leader of a session alone.
        (1, _) if signal.sender.is_some() || signal.number == SIGHUP => Some(signal.number),
        (1, _) => None,
        (2, _) | (_, SignalRole::Recorder) => Some(SIGTERM),
        _ => Some(SIGKILL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_is_passed_on_once_the_second_is_term_the_third_kill() {
        let sent = |number| Signal { number, sender: Some(1) };
        let typed = |number| Signal { number, sender: None };
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            assert_eq!(answer(1, sent(number), SignalRole::Recorded), Some(number));
            assert_eq!(answer(1, sent(number), SignalRole::Stopwatch), Some(SIGTERM));
            assert_eq!(answer(2, sent(number), SignalRole::Recorded), Some(SIGTERM));
            assert_eq!(answer(3, typed(number), SignalRole::Recorded), Some(SIGKILL));
            assert_eq!(
                answer(3, typed(number), SignalRole::Recorder),
                Some(SIGTERM),
                "it kills its own command"
            );
        }
        assert_eq!(answer(1, typed(SIGINT), SignalRole::Recorded), None, "the terminal sent it to both");
        assert_eq!(answer(1, typed(SIGHUP), SignalRole::Recorded), Some(SIGHUP));
        assert_eq!(answer(1, typed(SIGPIPE), SignalRole::Recorded), Some(SIGTERM));
    }

    #[test]
    fn a_command_that_goes_on_is_named_once_for_each_request_with_what_the_next_does() {
        let command = RunningCommand { pid: std::process::id(), role: SignalRole::Recorded };
        let mut signals = StopSignals::none().expect("epoll");
        assert_eq!(signals.hint(Some(command)), None, "nobody asked");
        let pid = format!("({})", command.pid);
        for (request, expected) in [(1, "Ctrl-C again sends it TERM"), (2, "a third Ctrl-C kills it")] {
            signals.request(Signal { number: SIGINT, sender: None }, None);
            assert_eq!(signals.requests(), request);
            signals.last = signals.last.and_then(|last| last.checked_sub(OVERDUE));
            let hint = signals.hint(Some(command)).expect("overdue");
            assert!(hint.contains(&pid) && hint.contains(expected), "{hint}");
            assert_eq!(signals.hint(Some(command)), None, "once");
        }
    }

    #[test]
    fn signals_of_one_moment_are_one_request() {
        let mut signals = StopSignals::none().expect("epoll");
        let signal = Signal { number: SIGINT, sender: None };
        signals.request(signal, None);
        signals.request(Signal { number: SIGTERM, ..signal }, None);
        assert_eq!((signals.came(), signals.requests()), (Some(SIGINT), 1));
        signals.last = signals.last.and_then(|last| last.checked_sub(MOMENT));
        signals.request(signal, None);
        assert_eq!((signals.came(), signals.requests()), (Some(SIGINT), 2));
    }
}
