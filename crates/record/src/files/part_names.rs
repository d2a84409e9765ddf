//! The names of the files of one recording: FILE, or FILE.YYYYMMDDhhmmssNN for each of several, as perf has them.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::files::output_file;
use crate::session::opts::RecordOpts;
use crate::sys::time::Clock;
use perfdata::text::UtcTime;

/// State of the file made last.
#[derive(Debug, PartialEq, Eq)]
pub enum FileFate {
    /// It has the name that it was given.
    Kept,
    /// Another recording took its name: it is here now.
    Moved(PathBuf),
    /// Another recording replaced it.
    Replaced,
}

/// Names given so far, and the rule for the next.
#[derive(Debug)]
pub struct PartNames {
    path: PathBuf,
    /// Also the only file has its time in its name.
    stamped: bool,
    most_files: Option<usize>,
    /// Complete files, oldest first.
    complete: VecDeque<PathBuf>,
    tell: fn(&str),
    /// Device and inode of the file made last; `None` of a stream, which keeps its name.
    identity: Option<(u64, u64)>,
}

impl PartNames {
    /// With `path` as the plain name. A device or pipe keeps it.
    #[must_use]
    pub fn new(path: &Path, opts: &RecordOpts) -> Self {
        let several = opts.file.switch_output.as_ref();
        let is_asked = opts.file.timestamp_filename || several.is_some();
        Self {
            path: path.to_owned(),
            stamped: is_asked && !output_file::is_stream(path),
            most_files: several.and_then(|several| several.most_files),
            complete: VecDeque::new(),
            tell: opts.observers.on_notice,
            identity: None,
        }
    }

    /// A new, empty file under the plain name; an existing one becomes FILE.old.
    ///
    /// # Errors
    /// It can't be made.
    pub fn create(&mut self) -> io::Result<File> {
        let file = output_file::create_recording(&self.path)?;
        let found = file.metadata()?;
        self.identity = found.is_file().then(|| (found.dev(), found.ino()));
        Ok(file)
    }

    /// Where the file made last is now: another recording may have made it FILE.old. `None` if it has no name any more.
    #[must_use]
    pub fn whereabouts(&self) -> Option<PathBuf> {
        let Some(identity) = self.identity else { return Some(self.last().to_owned()) };
        let mut old = self.path.as_os_str().to_owned();
        old.push(".old");
        // `metadata`, because a path to an open descriptor is a link to a file that may have no name.
        let is_it =
            |path: &PathBuf| fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == identity);
        [self.last().to_owned(), self.path.clone(), old.into()].into_iter().find(is_it)
    }

    /// Whether another recording has taken the name of the file made last.
    #[must_use]
    pub fn fate(&self) -> FileFate {
        match self.whereabouts() {
            None => FileFate::Replaced,
            Some(path) if path == self.last() || path == self.path => FileFate::Kept,
            Some(path) => FileFate::Moved(path),
        }
    }

    /// The file last completed; the plain name while there is none.
    #[must_use]
    pub fn last(&self) -> &Path {
        self.complete.back().unwrap_or(&self.path)
    }

    /// The file under the plain name is complete: it gets its own name, and the oldest goes if there are too many.
    /// `announced`: its name is shown to the user now, not at the end of the recording.
    ///
    /// # Errors
    /// It can't be renamed, or the oldest not be removed.
    pub fn file_is_complete(&mut self, announced: bool) -> io::Result<()> {
        if !self.stamped {
            return Ok(());
        }
        let name = self.free_name(Clock::Realtime.now_ns());
        fs::rename(self.whereabouts().as_ref().unwrap_or(&self.path), &name)?;
        if announced {
            (self.tell)(&format!("[ tally record: dumped {} ]", name.display()));
        }
        self.complete.push_back(name);
        while self.most_files.is_some_and(|most| self.complete.len() > most) {
            self.complete.pop_front().map_or(Ok(()), fs::remove_file)?;
        }
        Ok(())
    }

    /// The file under the plain name goes. One that another recording has moved is that recording's.
    ///
    /// # Errors
    /// It can't be removed.
    pub fn remove_unfinished(&mut self) -> io::Result<()> {
        match self.whereabouts() {
            Some(path) if path == self.path => fs::remove_file(path),
            _ => Ok(()),
        }
    }

    /// The name for `now_ns`, or for the first hundredth of a second after it whose name is not taken: files completed
    /// within one would replace each other.
    fn free_name(&self, now_ns: u64) -> PathBuf {
        let name = |at_ns| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".{}", stamp(at_ns)));
            PathBuf::from(name)
        };
        let mut at_ns = now_ns;
        while name(at_ns).symlink_metadata().is_ok() {
            at_ns += 10_000_000;
        }
        name(at_ns)
    }
}

/// `YYYYMMDDhhmmssNN` in UTC, NN being hundredths, of ns since 1970.
fn stamp(ns: u64) -> String {
    let UtcTime { year, month, day, hour, minute, second } = UtcTime::from_seconds(ns / 1_000_000_000);
    let hundredths = ns / 10_000_000 % 100;
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{hundredths:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::opts::{FileOpts, SwitchOutput};

    #[test]
    fn a_stamp_is_the_date_in_digits() {
        assert_eq!(stamp(0), "1970010100000000");
        assert_eq!(stamp(951_782_399_990_000_000), "2000022823595999");
        assert_eq!(stamp(951_782_400_000_000_000), "2000022900000000");
        assert_eq!(stamp(1_795_343_727_250_000_000), "2026112210352725");
    }

    #[test]
    fn files_completed_within_a_hundredth_of_a_second_do_not_replace_each_other() {
        let dir = std::env::temp_dir().join(format!("tally-parts-at-once-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder for the test");
        let opts = RecordOpts {
            file: FileOpts { timestamp_filename: true, ..FileOpts::default() },
            ..RecordOpts::default()
        };
        let mut names = PartNames::new(&dir.join("p.data"), &opts);
        for _ in 0..20 {
            names.create().expect("room");
            names.file_is_complete(false).expect("ours");
        }
        assert_eq!(fs::read_dir(&dir).expect("ours").count(), 20);
        fs::remove_dir_all(&dir).expect("ours to remove");
    }

    #[test]
    fn a_file_that_another_recording_put_aside_is_found_and_one_that_it_replaced_is_not() {
        let dir = std::env::temp_dir().join(format!("tally-parts-moved-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder for the test");
        let (path, old) = (dir.join("p.data"), dir.join("p.data.old"));
        let create = || {
            let mut names = PartNames::new(&path, &RecordOpts::default());
            let mut file = names.create().expect("writable");
            io::Write::write_all(&mut file, b"records").expect("room");
            // As long as it is open, nobody else's file has its number.
            (names, file)
        };
        let (first, _open) = create();
        assert_eq!((first.whereabouts(), first.fate()), (Some(path.clone()), FileFate::Kept));
        let (second, _open_too) = create();
        assert_eq!((first.whereabouts(), first.fate()), (Some(old.clone()), FileFate::Moved(old)));
        assert_eq!((second.whereabouts(), second.fate()), (Some(path.clone()), FileFate::Kept));
        let _third = create();
        assert_eq!((first.whereabouts(), first.fate()), (None, FileFate::Replaced));
        fs::remove_dir_all(&dir).expect("removed");
        let device = PartNames::new(Path::new("/dev/null"), &RecordOpts::default());
        assert_eq!((device.whereabouts(), device.fate()), (Some("/dev/null".into()), FileFate::Kept));
    }

    #[test]
    fn only_the_newest_files_stay() {
        let dir = std::env::temp_dir().join(format!("tally-parts-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder for the test");
        let opts = RecordOpts {
            file: FileOpts {
                switch_output: Some(SwitchOutput { most_files: Some(2), ..SwitchOutput::default() }),
                ..FileOpts::default()
            },
            ..RecordOpts::default()
        };
        let path = dir.join("p.data");
        let mut names = PartNames::new(&path, &opts);
        for _ in 0..3 {
            drop(names.create().expect("writable"));
            names.file_is_complete(false).expect("renamed");
        }
        let left: Vec<_> = fs::read_dir(&dir).expect("readable").flatten().map(|e| e.path()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left.contains(&names.last().to_owned()) && !left.contains(&path));
        fs::remove_dir_all(&dir).expect("removed");
    }
}
