//! A command whose outputs are collected, ended after its time.

use crate::sys::signal::{SIGKILL, SIGTERM, send};
use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Most bytes kept of an output.
const MOST_BYTES: u64 = 8 << 20;
/// Time that a command gets to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(60);

/// Result of an ended command.
#[derive(Debug, Default)]
pub struct EndedCommand {
    /// Beginning of its standard output, at most 8 MiB.
    pub stdout: Vec<u8>,
    /// Beginning of its standard error, at most 8 MiB.
    pub stderr: Vec<u8>,
    /// Exit status; `None` if a signal ended it.
    pub status: Option<i32>,
}

/// Runs the command without input, and waits for its end. It gets SIGTERM after `time`, SIGKILL a minute later.
///
/// # Errors
/// It can't be started or waited for.
pub fn run(mut command: Command, time: Duration) -> io::Result<EndedCommand> {
    let ((stdout, its_stdout), (stderr, its_stderr)) = (io::pipe()?, io::pipe()?);
    // Before the command: it must not run without somebody who reads.
    let outputs = (collected(stdout)?, collected(stderr)?);
    let mut child = command.stdin(Stdio::null()).stdout(its_stdout).stderr(its_stderr).spawn()?;
    // It holds the other ends of the pipes.
    drop(command);
    let (mut ends, mut signal) = (Instant::now() + time, SIGTERM);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= ends {
            // It may have ended just now.
            let _ = send(child.id(), signal);
            (ends, signal) = (Instant::now() + PATIENCE, SIGKILL);
        }
        thread::sleep(Duration::from_millis(5));
    };
    let bytes = |output: JoinHandle<Vec<u8>>| output.join().unwrap_or_default();
    Ok(EndedCommand { stdout: bytes(outputs.0), stderr: bytes(outputs.1), status: status.code() })
}

/// The beginning of an output, read to its end.
fn collected(mut from: impl Read + Send + 'static) -> io::Result<JoinHandle<Vec<u8>>> {
    thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.by_ref().take(MOST_BYTES).read_to_end(&mut bytes);
        let _ = io::copy(&mut from, &mut io::sink());
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn outputs_and_status_are_kept() {
        let ended = run(shell("echo out; echo err >&2; exit 3"), Duration::from_secs(60)).expect("sh runs");
        assert_eq!((ended.stdout.as_slice(), ended.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(ended.status, Some(3));
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let ended = run(shell("exec sleep 1000"), Duration::from_millis(50)).expect("sh runs");
        assert_eq!(ended.status, None);
    }
}
