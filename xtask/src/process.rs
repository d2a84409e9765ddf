//! Runs other programs, without input and with a time limit.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::leftovers;

/// Time at which all programs end, whatever their own limits are.
static DEADLINE: Mutex<Option<Instant>> = Mutex::new(None);

/// Sets the time at which running programs end, and after which none is started.
pub fn set_deadline(deadline: Instant) {
    *DEADLINE.lock().unwrap_or_else(PoisonError::into_inner) = Some(deadline);
}

fn time_for(name: &str, limit: Duration) -> Result<Duration> {
    time_until(*DEADLINE.lock().unwrap_or_else(PoisonError::into_inner), name, limit)
}

/// `limit`, or the time left until the deadline if that is less.
fn time_until(deadline: Option<Instant>, name: &str, limit: Duration) -> Result<Duration> {
    let left = deadline.map_or(limit, |deadline| deadline.saturating_duration_since(Instant::now()));
    if left.is_zero() {
        bail!("{name} not started: the time of this step is over");
    }
    Ok(limit.min(left))
}

/// Result of a program.
pub struct Finished {
    /// Exit status; that of `SIGKILL` if it ran out of time.
    pub status: ExitStatus,
    /// Whole standard output.
    pub stdout: Vec<u8>,
    /// Whole standard error.
    pub stderr: Vec<u8>,
    /// Whether the limit ended it.
    pub timed_out: bool,
    /// From start to end.
    pub wall: Duration,
}

impl Finished {
    /// Ended by itself with exit code 0.
    pub fn ok(&self) -> bool {
        self.status.success() && !self.timed_out
    }

    /// Standard output as text; foreign bytes replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The last `lines` lines of both outputs, for a message.
    pub fn tail(&self, lines: usize) -> String {
        let both = format!("{}{}", self.text(), String::from_utf8_lossy(&self.stderr));
        let all: Vec<&str> = both.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// How it ended, in words.
    pub fn how(&self) -> String {
        if self.timed_out { "ran out of time".to_owned() } else { self.status.to_string() }
    }
}

/// The shared libraries that a program of this machine needs, and its loader; none of a static one.
pub fn libraries(program: &std::path::Path) -> Result<Vec<std::path::PathBuf>> {
    let text = capture(Command::new("ldd").arg(program), Duration::from_secs(60))?.text();
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(Into::into).collect())
}

/// Runs `command` with no input and both outputs kept, for at most `limit`.
pub fn capture(command: &mut Command, limit: Duration) -> Result<Finished> {
    let start = Instant::now();
    let name = command.get_program().to_string_lossy().into_owned();
    let limit = time_for(&name, limit)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let out = drain(child.stdout.take());
    let err = drain(child.stderr.take());
    let (status, timed_out) = wait(&mut child, limit)?;
    let wall = start.elapsed();
    kill_group(child.id());
    Ok(Finished { status, stdout: drained(&out), stderr: drained(&err), timed_out, wall })
}

/// Result of a program without its output.
pub struct Ended {
    status: ExitStatus,
    timed_out: bool,
    /// Whether Ctrl-C ended it.
    pub interrupted: bool,
}

impl Ended {
    /// Ended by itself with exit code 0.
    pub fn ok(&self) -> bool {
        self.status.success() && !self.timed_out
    }

    /// How it ended, in words.
    pub fn how(&self) -> String {
        if self.timed_out { "ran out of time".to_owned() } else { self.status.to_string() }
    }
}

/// Runs `command` with no input and its output dropped, for at most `limit`.
pub fn silently(command: &mut Command, limit: Duration) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    let limit = time_for(&name, limit)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let (status, timed_out) = wait(&mut child, limit)?;
    Ok(Ended { status, timed_out, interrupted: leftovers::is_interrupted() })
}

/// Runs `command` with no input and its output passed on, for at most `limit`; true when it ended well.
pub fn passed_on(command: &mut Command, limit: Duration) -> Result<bool> {
    let name = command.get_program().to_string_lossy().into_owned();
    let limit = time_for(&name, limit)?;
    let mut child = command
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let (status, timed_out) = wait(&mut child, limit)?;
    if timed_out {
        println!("{name}: ran out of time ({} s)", limit.as_secs());
    }
    Ok(status.success() && !timed_out)
}

/// Path of a program, as the shell would find it.
pub fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// True if this user may do everything.
pub fn is_root() -> bool {
    capture(Command::new("id").arg("-u"), Duration::from_secs(10)).is_ok_and(|id| id.text().trim() == "0")
}

/// Reads a pipe to its end on a thread of its own.
fn drain(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (to, from) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut block = [0; 64 << 10];
        while let Ok(bytes @ 1..) = pipe.read(&mut block) {
            if to.send(block[..bytes].to_vec()).is_err() {
                return;
            }
        }
    });
    from
}

/// The bytes read from the pipe. A daemon that left the group may keep the pipe open for ever, so the wait is short.
fn drained(from: &Receiver<Vec<u8>>) -> Vec<u8> {
    const QUIET: Duration = Duration::from_secs(2);
    let mut all = Vec::new();
    while let Ok(block) = from.recv_timeout(QUIET) {
        all.extend(block);
    }
    all
}

fn wait(child: &mut Child, limit: Duration) -> Result<(ExitStatus, bool)> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        if start.elapsed() > limit || leftovers::is_interrupted() {
            kill_group(child.id());
            return Ok((child.wait()?, true));
        }
        let pause = if start.elapsed() < Duration::from_millis(200) { 1 } else { 20 };
        std::thread::sleep(Duration::from_millis(pause));
    }
}

/// Kills a whole process group, so that no grandchild keeps a pipe open.
fn kill_group(leader: u32) {
    let kill = ["-KILL", "--", &format!("-{leader}")];
    let _ = Command::new("kill").args(kill).stderr(Stdio::null()).status();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_runs_past_the_deadline_or_starts_after_it() {
        let (now, minute) = (Instant::now(), Duration::from_secs(60));
        assert_eq!(time_until(None, "true", minute).ok(), Some(minute));
        assert_eq!(time_until(Some(now + 9 * minute), "true", minute).ok(), Some(minute));
        assert!(time_until(Some(now + minute), "true", 9 * minute).is_ok_and(|time| time <= minute));
        assert!(time_until(Some(now), "true", minute).is_err());
    }

    #[test]
    fn a_program_that_hangs_is_killed_at_its_limit() {
        let ran = capture(Command::new("sleep").arg("600"), Duration::from_millis(50)).expect("sleep starts");
        assert!(ran.timed_out && !ran.ok());
    }
}
