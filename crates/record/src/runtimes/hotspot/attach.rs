//! Asks a running JVM for the names of its code: `Compiler.perfmap`, which `jcmd` sends too, by HotSpot's attach
//! mechanism. JDK 17 and later write `/tmp/perf-PID.map` then.
//!
//! The JVM listens on a socket in its own `/tmp`, after a file in its folder or there and SIGQUIT have asked for that.
//! Source: HotSpot's attachListener_linux.cpp and os_linux.cpp, JDK 17 to 21.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dso::system_file;

use super::is_library;
use crate::machine::proc;
use crate::sys::signal;

/// How long a JVM may take to listen, and to write its map: on a machine where everything waits for a CPU, or with much
/// code, it takes seconds.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Most bytes read of the answer: only its first line counts.
const ANSWER_BYTES: u64 = 256;
/// Version of the protocol, command and its three arguments.
const REQUEST: &[u8] = b"1\0jcmd\0Compiler.perfmap\0\0\0";

/// Whether the process runs HotSpot.
#[must_use]
pub fn is_jvm(pid: u32) -> bool {
    let maps = system_file::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.split(|byte| *byte == b'\n').any(is_library)
}

/// Has the JVM write its map; false if it refused, is too old or took too long.
#[must_use]
pub fn write_map(pid: u32) -> bool {
    // A stopped one wouldn't answer.
    if proc::is_stopped(pid) {
        return false;
    }
    let until = Instant::now() + PATIENCE;
    connect(pid, until).is_some_and(|socket| ask(socket).is_some())
}

/// Sends the request and reads whether it was done.
fn ask(mut socket: UnixStream) -> Option<()> {
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket.set_write_timeout(Some(PATIENCE)).ok()?;
    socket.write_all(REQUEST).ok()?;
    let mut answer = Vec::new();
    socket.take(ANSWER_BYTES).read_to_end(&mut answer).ok()?;
    is_done(&answer).then_some(())
}

/// Whether the answer, a number in a line and text, reports success. A JVM without the command says so in the text.
fn is_done(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let mut lines = text.lines();
    lines.next() == Some("0") && !lines.any(|line| line.contains("Exception"))
}

fn connect(pid: u32, until: Instant) -> Option<UnixStream> {
    let inner = proc::innermost_pid(pid).unwrap_or(pid);
    let path = PathBuf::from(format!("/proc/{pid}/root/tmp/.java_pid{inner}"));
    if !is_socket_of(&path, pid) {
        let _request = AttachFile::create(pid, inner)?;
        signal::send(pid, libc::SIGQUIT).ok()?;
        while !is_socket_of(&path, pid) {
            if Instant::now() >= until || !proc::is_alive(pid) {
                return None;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
    UnixStream::connect(path).ok()
}

/// Whether this is a socket that the process itself, or root, made.
fn is_socket_of(path: &Path, pid: u32) -> bool {
    let Ok(found) = std::fs::symlink_metadata(path) else { return false };
    found.file_type().is_socket() && (found.uid() == 0 || Some(found.uid()) == proc::uid(pid))
}

/// The file that makes SIGQUIT a request to listen. Removed when dropped.
struct AttachFile(PathBuf);

impl AttachFile {
    /// In the JVM's working folder, or in its `/tmp`. `None` if SIGQUIT would end the process (`-Xrs`), or neither can
    /// be written to.
    fn create(pid: u32, inner: u32) -> Option<Self> {
        catches_quit(pid)?;
        let name = format!(".attach_pid{inner}");
        [format!("/proc/{pid}/cwd/{name}"), format!("/proc/{pid}/root/tmp/{name}")].into_iter().find_map(
            |path| {
                // Always a new file: nothing of others is written to.
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600).open(&path).ok()?;
                Some(Self(path.into()))
            },
        )
    }
}

impl Drop for AttachFile {
    fn drop(&mut self) {
        // The JVM may have removed it.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// `Some` if the process has a handler for SIGQUIT.
fn catches_quit(pid: u32) -> Option<()> {
    let status = system_file::read(format!("/proc/{pid}/status")).ok()?;
    catches(&String::from_utf8_lossy(&status), libc::SIGQUIT).then_some(())
}

/// Whether a `/proc/PID/status` has a handler for this signal.
fn catches(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sigquit_is_sent_only_to_a_process_that_handles_it() {
        // A JVM's, and the same with -Xrs.
        assert!(catches("Name:\tjava\nSigCgt:\t2000000181005ccf\n", libc::SIGQUIT));
        assert!(!catches("Name:\tjava\nSigCgt:\t2000000181001cc8\n", libc::SIGQUIT));
        assert!(!catches("Name:\tjava\n", libc::SIGQUIT));
    }

    #[test]
    fn an_answer_counts_if_the_command_was_done() {
        assert!(is_done(b"0\n"));
        assert!(!is_done(b"0\njava.lang.IllegalArgumentException: Unknown diagnostic command\n"));
        assert!(!is_done(b"101\nNo such operation\n"));
        assert!(!is_done(b""));
    }

    #[test]
    fn a_process_without_the_library_is_no_jvm() {
        assert!(!is_jvm(std::process::id()));
        assert!(!is_jvm(u32::MAX - 1));
    }
}
