//! Profiles on their way to a receiver: kept in a folder until it takes them.

use super::net;
use anyhow::{Context, bail};
use dso::MappedFile;
use exchange::fleet::SpoolLimits;
use exchange::http::{HttpPost, HttpUrl};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a receiver may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Path of requests where the address has none.
const USUAL_PATH: &str = "v1development/profiles";

/// The receiver, and what it has not taken yet.
pub struct Spool {
    /// The receiver.
    pub url: HttpUrl,
    /// Folder of files, named by their moments.
    pub folder: PathBuf,
    /// Limits of the spool.
    pub limits: SpoolLimits,
    /// Files that were dropped since the agent began.
    pub dropped: u64,
    failures: u32,
    /// No attempt before this moment, s since 1970.
    not_before_s: u64,
}

/// Result of an attempt to send.
pub enum Delivery {
    /// The number that was sent: all that waited, unless that takes too long.
    Sent(u64),
    /// It is not time for an attempt.
    Waits,
}

impl Spool {
    /// To `url`, through files in `folder`.
    #[must_use]
    pub fn new(mut url: HttpUrl, folder: PathBuf, limits: SpoolLimits) -> Self {
        if url.path.is_empty() {
            USUAL_PATH.clone_into(&mut url.path);
        }
        Self { url, folder, limits, dropped: 0, failures: 0, not_before_s: 0 }
    }

    /// A file for a profile that began then: a clock that was set back may come to the same second again.
    #[must_use]
    pub fn free_file(&self, began_s: u64) -> PathBuf {
        let file = |second: u64| self.folder.join(format!("{second:012}.otlp"));
        let free = (began_s..began_s.saturating_add(3600)).find(|&second| !file(second).exists());
        file(free.unwrap_or(began_s))
    }

    /// Files and sizes, oldest first.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let entries = self.folder.read_dir().into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".otlp"));
        let mut files: Vec<(PathBuf, u64)> =
            named.map(|entry| (entry.path(), entry.metadata().map_or(0, |meta| meta.len()))).collect();
        files.sort();
        files
    }

    /// Removes the oldest files that are too many; returns how many.
    pub fn shrink(&mut self) -> u64 {
        let files = self.files();
        let sizes: Vec<u64> = files.iter().map(|(_, size)| *size).collect();
        let surplus = self.limits.surplus(&sizes);
        files[..surplus].iter().for_each(|(path, _)| drop(std::fs::remove_file(path)));
        self.dropped += surplus as u64;
        surplus as u64
    }

    /// Sends all files if it is time.
    ///
    /// # Errors
    /// The receiver can't be reached, or is busy: the rest waits for the next attempt. Files that it refuses for good
    /// are dropped.
    pub fn deliver(&mut self, now_s: u64) -> anyhow::Result<Delivery> {
        if now_s < self.not_before_s {
            return Ok(Delivery::Waits);
        }
        let (mut sent, began) = (0, Instant::now());
        for (path, _) in self.files() {
            // A slow receiver shall not take the time of the next round: the rest waits.
            if sent > 0 && began.elapsed().as_secs() >= self.limits.every_s / 2 {
                break;
            }
            if let Err(why) = self.send(&path) {
                self.failures += 1;
                let pause_s = self.limits.pause_s(self.failures);
                self.not_before_s = now_s.saturating_add(pause_s);
                let waiting = self.files().len();
                return Err(why.context(format!(
                    "can't send: {waiting} waiting, {} dropped, next attempt in {pause_s} s",
                    self.dropped
                )));
            }
            let _ = std::fs::remove_file(&path);
            sent += 1;
        }
        self.failures = 0;
        Ok(Delivery::Sent(sent))
    }

    fn send(&mut self, path: &Path) -> anyhow::Result<()> {
        let body = MappedFile::open(path).with_context(|| path.display().to_string())?;
        let stream = net::connect(&self.url, PATIENCE)?;
        let headers = [("Content-Type", "application/x-protobuf")];
        let answer = HttpPost { url: &self.url, headers: &headers, body: &body }.send(stream)?;
        match answer.status {
            200..=299 => Ok(()),
            // OTLP/HTTP: these are worth another attempt.
            408 | 429 | 500..=599 => bail!("status {}", answer.status),
            status => {
                self.dropped += 1;
                crate::terminal::out::note(&format!(
                    "tally agent: the receiver refuses a profile: status {status}"
                ));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::scratch::ScratchFolder;

    #[test]
    fn a_profile_of_the_same_second_replaces_none_that_waits() {
        let scratch = ScratchFolder::private("spool").expect("a folder");
        let url = HttpUrl::parse("http://h", "http://", 80).expect("an address");
        let limits = SpoolLimits { bytes: 1 << 20, every_s: 60 };
        let spool = Spool::new(url, scratch.path().to_owned(), limits);
        let write = || std::fs::write(spool.free_file(7), "x").expect("is written");
        (0..3).for_each(|_| write());
        let names: Vec<_> =
            spool.files().iter().filter_map(|(path, _)| path.file_stem().map(ToOwned::to_owned)).collect();
        assert_eq!(names, ["000000000007", "000000000008", "000000000009"]);
    }
}
