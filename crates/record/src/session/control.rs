//! `--control`: commands that another program writes into a pipe while counting or recording goes on.
//!
//! The words are perf's, one a line: `enable [EVENT]`, `disable [EVENT]`, `snapshot`, `evlist`, `ping`, `stop`. Each
//! is answered by `ack` once it has been carried out, if there is a second pipe for that.
//
// Source: perf-record(1) and perf-stat(1), --control.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::sys::Poller;

/// Where commands come from and answers go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlPaths {
    /// Commands are read here.
    pub commands: PathBuf,
    /// Answers are written here; `None`: nobody wants them.
    pub answers: Option<PathBuf>,
}

/// A text that names no pipes for commands.
#[derive(Debug, thiserror::Error)]
#[error("'{0}': want fd:NUMBER[,NUMBER] or fifo:FILE[,FILE]")]
pub struct BadControlPaths(pub String);

impl ControlPaths {
    /// Reads `fd:CTL[,ACK]` or `fifo:CTL[,ACK]`.
    ///
    /// # Errors
    /// The text is neither.
    pub fn parse(text: &str) -> Result<Self, BadControlPaths> {
        let wrong = || BadControlPaths(text.to_owned());
        let (kind, names) = text.split_once(':').ok_or_else(wrong)?;
        let path = |name: &str| match kind {
            "fd" => name.parse::<u32>().ok().map(|fd| PathBuf::from(format!("/proc/self/fd/{fd}"))),
            "fifo" if !name.is_empty() => Some(PathBuf::from(name)),
            _ => None,
        };
        let (commands, answers) = names.split_once(',').map_or((names, None), |(c, a)| (c, Some(a)));
        let commands = path(commands).ok_or_else(wrong)?;
        let answers = answers.map(|name| path(name).ok_or_else(wrong)).transpose()?;
        Ok(Self { commands, answers })
    }
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Switch events on: all, or those of this name.
    Enable(Option<String>),
    /// Switch events off: all, or those of this name.
    Disable(Option<String>),
    /// Write what a recording holds in memory.
    Snapshot,
    /// Report the events.
    List,
    /// Only answer.
    Ping,
    /// End.
    Stop,
    /// None of these. It is reported to the user, and not answered.
    Unknown(String),
}

impl Command {
    /// Reads one line.
    #[must_use]
    pub fn parse(line: &str) -> Self {
        let (word, rest) = line.trim().split_once(' ').map_or((line.trim(), ""), |(w, r)| (w, r.trim()));
        let name = || (!rest.is_empty()).then(|| rest.to_owned());
        match word {
            "enable" => Self::Enable(name()),
            "disable" => Self::Disable(name()),
            "snapshot" => Self::Snapshot,
            "evlist" => Self::List,
            "ping" => Self::Ping,
            "stop" => Self::Stop,
            _ => Self::Unknown(line.trim().to_owned()),
        }
    }
}

/// Opened pipes.
#[derive(Debug)]
pub struct Control {
    commands: File,
    answers: Option<File>,
    /// The received part of an incomplete line.
    partial: Vec<u8>,
}

impl Control {
    /// Opens both pipes. For reading and writing, so that a writer may come and go without ending it.
    ///
    /// # Errors
    /// A path that is not there or may not be opened, with the path.
    pub fn open(paths: &ControlPaths) -> io::Result<Self> {
        let open = |path: &PathBuf| {
            let mut how = File::options();
            let how = how.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
            how.open(path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
        };
        let answers = paths.answers.as_ref().map(open).transpose()?;
        Ok(Self { commands: open(&paths.commands)?, answers, partial: Vec::new() })
    }

    /// Makes `poller` report `token` when a command comes. Files that can't be polled (/dev/null, a plain file)
    /// aren't watched, because all their commands are there from the beginning.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn watch(&self, poller: &Poller, token: u64) -> io::Result<()> {
        match poller.add(self.as_fd(), token) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => Ok(()),
            result => result,
        }
    }

    /// The commands that have come since the last call, in order. Does not wait.
    pub fn commands(&mut self) -> Vec<Command> {
        let mut chunk = [0; 512];
        while let Ok(n @ 1..) = self.commands.read(&mut chunk) {
            self.partial.extend_from_slice(chunk.get(..n).unwrap_or_default());
        }
        take_lines(&mut self.partial)
    }

    /// Acknowledges a command that has been carried out.
    pub fn answer(&mut self) {
        if let Some(answers) = &mut self.answers {
            // A program that doesn't read the answers gets none.
            let _ = answers.write_all(b"ack\n");
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.commands.as_fd()
    }
}

/// Takes whole lines off the front of `bytes`; they end with a newline or a zero. Empty ones are nothing.
fn take_lines(bytes: &mut Vec<u8>) -> Vec<Command> {
    let Some(end) = bytes.iter().rposition(|&b| b == b'\n' || b == 0) else {
        // No command is this long, so the text doesn't contain commands.
        bytes.truncate(4096);
        return Vec::new();
    };
    let rest = bytes.split_off(end + 1);
    let text = String::from_utf8_lossy(bytes).into_owned();
    *bytes = rest;
    let lines = text.split(['\n', '\0']).filter(|line| !line.trim().is_empty());
    lines.map(Command::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_of_pipes_is_two_numbers_or_two_files() {
        let fds = ControlPaths::parse("fd:10,11").expect("two numbers");
        assert_eq!(fds.commands, PathBuf::from("/proc/self/fd/10"));
        assert_eq!(fds.answers, Some(PathBuf::from("/proc/self/fd/11")));
        let fifo = ControlPaths::parse("fifo:/run/ctl").expect("one file");
        assert_eq!((fifo.commands, fifo.answers), (PathBuf::from("/run/ctl"), None));
        for wrong in ["", "fd:", "fd:x", "fd:1,", "fifo:", "pipe:1", "10,11"] {
            assert!(ControlPaths::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn commands_come_by_lines_and_the_rest_waits() {
        let mut bytes = b"enable\ndisable sched:sched_switch\n\nping\0stop now\nhello\nsnap".to_vec();
        let some = |name: &str| Some(name.to_owned());
        let expected = [
            Command::Enable(None),
            Command::Disable(some("sched:sched_switch")),
            Command::Ping,
            Command::Stop,
            Command::Unknown("hello".to_owned()),
        ];
        assert_eq!(take_lines(&mut bytes), expected);
        assert_eq!(bytes, b"snap");
        bytes.extend_from_slice(b"shot\n");
        assert_eq!(take_lines(&mut bytes), [Command::Snapshot]);
        assert!(bytes.is_empty());
    }
}
