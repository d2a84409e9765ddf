//! The log that V8 leaves in the working folder of a Node started with `--perf-basic-prof`: nobody asked for it.
//!
//! Its name is `isolate-ADDRESS-PID-v8.log` (`PrepareLogFileName` in V8's `src/logging/log.cc`). Node takes no option for
//! it in `NODE_OPTIONS`.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use dso::system_file;

/// The working folder of a process, for when it has ended.
#[derive(Debug)]
pub struct OwnLogs(File);

impl OwnLogs {
    /// `None` if the folder can't be read.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        system_file::open(format!("/proc/{pid}/cwd")).ok().map(Self)
    }

    /// Removes the logs of a process that has ended; `pid` is the number it knew itself by.
    pub fn remove(&self, pid: u32) {
        let Ok(entries) = fs::read_dir(format!("/proc/self/fd/{}", self.0.as_raw_fd())) else { return };
        let is_log = |name: &str| is_log_of(name, pid);
        for entry in entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_log)) {
            // Should that fail, it is left, as V8 would.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_log_of(name: &str, pid: u32) -> bool {
    let parts = name.strip_prefix("isolate-0x").and_then(|rest| rest.strip_suffix("-v8.log"));
    parts.and_then(|parts| parts.split_once('-')).is_some_and(|(address, number)| {
        address.bytes().all(|byte| byte.is_ascii_hexdigit()) && number.parse() == Ok(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_logs_of_the_process_itself_are_removed() {
        assert!(is_log_of("isolate-0x6255ca0-19266-v8.log", 19266));
        for other in [
            "isolate-0x6255ca0-1926-v8.log",
            "isolate-0x6255ca0-19266-v8.log.gz",
            "v8.log",
            "isolate-0xzz-19266-v8.log",
        ] {
            assert!(!is_log_of(other, 19266), "{other}");
        }
    }
}
