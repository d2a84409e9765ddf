//! Requests that threads worked on, by OpenTelemetry's thread context: tally's appendix, after the files of one path.
//
// Layout: docs/formats/thread-contexts.md. In the byte order of the file.

use crate::appendix::same_paths::SamePaths;
use crate::appendix::section::{Section, read_section};
use crate::wire::{Endian, Put, Wire};

const MAGIC: [u8; 4] = *b"tTC1";

/// A look at a thread that found another context than the look before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextChange {
    /// The look, ns of the recording's clock.
    pub time_ns: u64,
    /// The thread's look before, or the end of a wait since then; 0 if there was none.
    pub before_ns: u64,
    /// How long the thread was off the CPU in the context before, ns: waiting, or for a CPU.
    pub off_ns: u64,
    /// Process, as the recording numbers it.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// False: the thread has none any more.
    pub has_context: bool,
    /// Index into [`ThreadContexts::routes`], + 1; 0 if no attribute names a route.
    pub route: u32,
    /// Trace id; zeros if the program gives none.
    pub trace: [u8; 16],
    /// Span id.
    pub span: [u8; 8],
}

/// All changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadContexts {
    /// Processes that publish contexts.
    pub processes: u64,
    /// Changes that were lost.
    pub lost: u64,
    /// Looks at a pointer that led nowhere.
    pub unreadable: u64,
    /// Looks at a record that was marked neither valid nor invalid.
    pub invalid: u64,
    /// Changes whose attributes are longer than what is kept of them.
    pub cut: u64,
    /// Changes whose attributes end in the middle of one, or aren't text.
    pub damaged: u64,
    /// Names of routes, each once.
    pub routes: Vec<String>,
    /// In the order of time for each thread.
    pub changes: Vec<ContextChange>,
}

impl ThreadContexts {
    /// Reads them from an appendix ([`crate::PerfData::appendix`]); `None` if it holds none, or damaged ones.
    #[must_use]
    pub fn read(appendix: &[u8], endian: Endian) -> Option<Self> {
        read_section(appendix, endian)
    }

    /// The bytes to write after the files of one path; none where no process publishes contexts.
    #[must_use]
    pub fn to_bytes(&self, endian: Endian) -> Vec<u8> {
        let mut p = Put::new(endian);
        if self.processes == 0 {
            return p.bytes;
        }
        p.raw(&MAGIC);
        p.u32(u32::try_from(self.routes.len()).unwrap_or(u32::MAX));
        for count in [self.processes, self.lost, self.unreadable, self.invalid, self.cut, self.damaged] {
            p.u64(count);
        }
        p.u64(self.changes.len() as u64);
        for name in &self.routes {
            p.u32(u32::try_from(name.len()).unwrap_or(u32::MAX));
            p.u32(0);
            p.raw(name.as_bytes());
            p.pad(8);
        }
        for change in &self.changes {
            p.u64(change.time_ns);
            p.u64(change.before_ns);
            p.u64(change.off_ns);
            p.u32(change.pid);
            p.u32(change.tid);
            p.u32(u32::from(change.has_context));
            p.u32(change.route);
            p.raw(&change.trace);
            p.raw(&change.span);
        }
        p.bytes
    }
}

impl Section for ThreadContexts {
    const MAGIC: [u8; 4] = MAGIC;
    type Before = SamePaths;

    fn read_content(w: &mut Wire<'_>) -> Option<Self> {
        let routes = w.u32()?;
        let (processes, lost, unreadable) = (w.u64()?, w.u64()?, w.u64()?);
        let (invalid, cut, damaged, changes) = (w.u64()?, w.u64()?, w.u64()?, w.u64()?);
        let mut read = Self { processes, lost, unreadable, invalid, cut, damaged, ..Self::default() };
        for _ in 0..routes {
            let length = w.u32()?;
            let _reserved = w.u32()?;
            let padded = u64::from(length).checked_next_multiple_of(8)?;
            let name = w.take(padded)?.get(..usize::try_from(length).ok()?)?;
            read.routes.push(String::from_utf8_lossy(name).into_owned());
        }
        for _ in 0..changes {
            read.changes.push(ContextChange {
                time_ns: w.u64()?,
                before_ns: w.u64()?,
                off_ns: w.u64()?,
                pid: w.u32()?,
                tid: w.u32()?,
                has_context: w.u32()? != 0,
                route: w.u32()?,
                trace: w.array()?,
                span: w.array()?,
            });
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::appendix::same_paths::FileAtPath;

    #[test]
    fn changes_survive_after_files_and_without_them() {
        let change = ContextChange {
            time_ns: 9,
            before_ns: 7,
            off_ns: 5,
            pid: 1,
            tid: 2,
            has_context: true,
            route: 1,
            trace: [3; 16],
            span: [4; 8],
        };
        let routes = vec!["GET /a".to_owned()];
        let counts =
            ThreadContexts { processes: 1, lost: 2, unreadable: 3, invalid: 4, ..Default::default() };
        let all = ThreadContexts { cut: 5, damaged: 6, routes, changes: vec![change; 2], ..counts };
        let file = FileAtPath { path: b"/lib/libc.so.6".to_vec(), inode: 7, build_id: vec![1; 20] };
        for endian in [Endian::Little, Endian::Big] {
            let bytes = all.to_bytes(endian);
            assert_eq!(ThreadContexts::read(&bytes, endian), Some(all.clone()));
            let files = SamePaths { files: vec![file.clone()] }.to_bytes(endian);
            assert_eq!(ThreadContexts::read(&[files, bytes.clone()].concat(), endian), Some(all.clone()));
            for end in 0..bytes.len() {
                assert_eq!(ThreadContexts::read(&bytes[..end], endian), None);
            }
        }
        assert!(ThreadContexts::default().to_bytes(Endian::Little).is_empty());
    }
}
