//! Asks a running .NET (8 and later) for the names of its code: the command `EnablePerfMap` of its diagnostics socket,
//! which `dotnet-trace` and the like use, too. It writes `/tmp/perf-PID.map` then.
//
// Source: Diagnostic IPC Protocol, documentation/design-docs/ipc-protocol.md of dotnet/diagnostics

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::machine::proc;

/// How long a runtime may take to write its map: with much code, on a machine where everything waits for a CPU, it
/// takes seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// First bytes of each message.
const MAGIC: &[u8; 14] = b"DOTNET_IPC_V1\0";
/// Bytes of a message before its content: the magic, `u16` size, `u8` command set, `u8` command, `u16` 0.
const HEADER_BYTES: usize = 20;
/// Command set of commands about the process.
const PROCESS: u8 = 4;
/// Its command to write maps, with a `u32`: which.
const ENABLE_PERF_MAP: u8 = 5;
/// Its command to end that.
const DISABLE_PERF_MAP: u8 = 6;
/// The map alone, without a jitdump.
const PERF_MAP: u32 = 3;
/// Command set of answers, and the answer that all is done.
const ANSWER: u8 = 0xff;
const DONE: u8 = 0;
/// Files of a `/tmp` that are looked at for the socket.
const MOST_FILES: usize = 100_000;

/// Whether the process has a diagnostics socket in its `/tmp`.
#[must_use]
pub fn is_dotnet(pid: u32) -> bool {
    socket_of(pid).is_some()
}

/// Has the runtime write its map; false if there is none, it refused, is too old or took too long.
#[must_use]
pub fn write_map(pid: u32) -> bool {
    // A stopped one wouldn't answer.
    !proc::is_stopped(pid) && ask_for_map(pid, PATIENCE)
}

fn ask_for_map(pid: u32, patience: Duration) -> bool {
    let Some(socket) = socket_of(pid) else { return false };
    let ask = |message: &[u8]| UnixStream::connect(&socket).ok().and_then(|of| ask(of, message, patience));
    let enabled = ask(&message(ENABLE_PERF_MAP, &PERF_MAP.to_le_bytes()));
    // It has written all methods that it has by now, and closes the file.
    enabled.is_some() && ask(&message(DISABLE_PERF_MAP, &[])).is_some()
}

fn message(command: u8, content: &[u8]) -> Vec<u8> {
    let size = u16::try_from(HEADER_BYTES + content.len()).unwrap_or(u16::MAX);
    [&MAGIC[..], &size.to_le_bytes(), &[PROCESS, command, 0, 0], content].concat()
}

/// Sends a message; `Some` if it was done.
fn ask(mut socket: UnixStream, message: &[u8], patience: Duration) -> Option<()> {
    socket.set_read_timeout(Some(patience)).ok()?;
    socket.set_write_timeout(Some(patience)).ok()?;
    socket.write_all(message).ok()?;
    let mut answer = [0; HEADER_BYTES];
    socket.read_exact(&mut answer).ok()?;
    is_done(&answer).then_some(())
}

/// Whether the answer reports success. Older runtimes don't know the command.
fn is_done(answer: &[u8]) -> bool {
    answer.starts_with(MAGIC) && answer.get(16..18) == Some(&[ANSWER, DONE])
}

/// `dotnet-diagnostic-PID-TIME-socket` in the process's `/tmp`, if it is the process's user's.
fn socket_of(pid: u32) -> Option<PathBuf> {
    let inner = proc::innermost_pid(pid).unwrap_or(pid);
    let begin = format!("dotnet-diagnostic-{inner}-");
    let user = proc::uid(pid)?;
    let files = std::fs::read_dir(format!("/proc/{pid}/root/tmp")).ok()?;
    let mut paths = files.take(MOST_FILES).filter_map(|file| Some(file.ok()?.path()));
    paths.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let found = std::fs::symlink_metadata(path).ok();
        name.starts_with(&begin)
            && name.ends_with("-socket")
            && found.is_some_and(|found| found.file_type().is_socket() && found.uid() == user)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::process::{Child, Command};

    const REFUSED: u8 = 0xff;

    /// A process that has a socket of ours.
    struct Runtime {
        process: Child,
        socket: PathBuf,
        listener: UnixListener,
    }

    impl Runtime {
        fn new() -> Self {
            let process = Command::new("sleep").arg("60").spawn().expect("coreutils are there");
            let socket = PathBuf::from(format!("/tmp/dotnet-diagnostic-{}-1-socket", process.id()));
            let listener = UnixListener::bind(&socket).expect("a socket of ours");
            Self { process, socket, listener }
        }

        /// Whether a map was written, and the commands that came, where each gets these answers.
        fn ask(&self, answers: &[Option<u8>]) -> (bool, Vec<Vec<u8>>) {
            std::thread::scope(|scope| {
                let server = scope.spawn(|| {
                    let mut commands = Vec::new();
                    let mut open = Vec::new();
                    for answer in answers {
                        let (mut socket, _) = self.listener.accept().expect("somebody asks");
                        let mut header = [0; HEADER_BYTES];
                        socket.read_exact(&mut header).expect("a message");
                        let mut content = vec![0; usize::from(header[14]) - HEADER_BYTES];
                        socket.read_exact(&mut content).expect("its content");
                        commands.push([&header[16..18], &content].concat());
                        let Some(answer) = answer else {
                            open.push(socket);
                            continue;
                        };
                        let header = [&MAGIC[..], &[24, 0, ANSWER, *answer, 0, 0, 0, 0, 0, 0]].concat();
                        socket.write_all(&header).expect("sent");
                    }
                    (commands, open)
                });
                let patience = Duration::from_millis(if answers.contains(&None) { 50 } else { 10_000 });
                let asked = ask_for_map(self.process.id(), patience);
                (asked, server.join().expect("no panic").0)
            })
        }
    }

    impl Drop for Runtime {
        fn drop(&mut self) {
            let _ = self.process.kill().and_then(|()| self.process.wait());
            let _ = std::fs::remove_file(&self.socket);
        }
    }

    #[test]
    fn a_runtime_is_asked_to_write_a_map_and_to_close_it() {
        let runtime = Runtime::new();
        assert!(is_dotnet(runtime.process.id()));
        let commands = vec![vec![4, 5, 3, 0, 0, 0], vec![4, 6]];
        assert_eq!(runtime.ask(&[Some(DONE), Some(DONE)]), (true, commands));
    }

    #[test]
    fn a_runtime_that_refuses_or_is_silent_writes_none() {
        let runtime = Runtime::new();
        let enable = || vec![4, 5, 3, 0, 0, 0];
        assert_eq!(runtime.ask(&[Some(REFUSED)]), (false, vec![enable()]));
        assert_eq!(runtime.ask(&[None]), (false, vec![enable()]));
        assert_eq!(runtime.ask(&[Some(DONE), Some(REFUSED)]), (false, vec![enable(), vec![4, 6]]));
        assert!(!is_done(b"DOTNET_IPC_V1\0") && !is_done(&message(ENABLE_PERF_MAP, &[])));
    }

    #[test]
    fn sockets_of_others_and_other_files_are_not_used() {
        let runtime = Runtime::new();
        let pid = runtime.process.id();
        if proc::uid(pid) == Some(0) {
            std::os::unix::fs::chown(&runtime.socket, Some(12345), None).expect("root may");
            assert!(!is_dotnet(pid));
        }
        std::fs::remove_file(&runtime.socket).expect("ours");
        std::fs::write(&runtime.socket, "").expect("a file");
        assert!(!is_dotnet(pid) && !write_map(pid));
        assert!(!is_dotnet(u32::MAX - 1));
    }
}
