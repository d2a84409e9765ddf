//! Files of requests: which ones are read and written, and how long that takes.

use super::Latencies;
use crate::grow::Grow as _;
use crate::profile::Profile;
use crate::tracepoints::block_io::{Op, Request};
use crate::view::ranking::RankRows as _;
use perfdata::appendix::disk_files::{DiskFile, DiskFiles, FileOwner, RequestPart};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Purpose of requests: a file, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FileTarget {
    /// A file with this path.
    Path {
        /// As mounted on the recorded machine.
        path: String,
        /// It was open only, without a name in a folder.
        is_deleted: bool,
    },
    /// A file whose name the kernel had forgotten, or that is the file system's own.
    Inode(u64),
    /// The journal of a file system.
    Journal,
    /// Folders, inodes and maps of blocks.
    Metadata,
    /// The disk itself, past the page cache.
    Disk,
    /// Direct I/O of a file that isn't known.
    DirectIo,
    /// Memory that was swapped.
    Swap,
    /// Buffers of the file system or of a layer below it.
    Buffers,
    /// Further files of requests with many files.
    More,
    /// The recording has no look at this request's memory.
    NotSeen,
}

impl FileTarget {
    /// The path, or the reason why there is none, as a user reads it.
    #[must_use]
    pub fn words(&self) -> String {
        let text = match self {
            Self::Path { path, is_deleted: false } => return path.clone(),
            Self::Path { path, is_deleted: true } => return format!("{path} (deleted)"),
            Self::Inode(inode) => return format!("(inode {inode}, name not known)"),
            Self::Journal => "(file system journal)",
            Self::Metadata => "(file system metadata)",
            Self::Disk => "(the disk itself)",
            Self::DirectIo => "(direct I/O, file not known)",
            Self::Swap => "(swap)",
            Self::Buffers => "(buffers without a file)",
            Self::More => "(further files)",
            Self::NotSeen => "(not seen)",
        };
        text.to_owned()
    }

    /// Its kind in one word, for scripts.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Path { .. } => "file",
            Self::Inode(_) => "inode",
            Self::Journal => "journal",
            Self::Metadata => "metadata",
            Self::Disk => "disk",
            Self::DirectIo => "direct",
            Self::Swap => "swap",
            Self::Buffers => "buffers",
            Self::More => "more",
            Self::NotSeen => "not_seen",
        }
    }

    /// True for what a user knows by this name: a file, or a part of the file system.
    #[must_use]
    pub fn is_named(&self) -> bool {
        matches!(self, Self::Path { .. } | Self::Journal | Self::Metadata | Self::Disk | Self::Swap)
    }

    fn of(file: &DiskFile, request: &Request, part: &RequestPart, comm: &str) -> Self {
        match file.owner {
            FileOwner::File if file.path.is_empty() => Self::Inode(file.inode),
            FileOwner::File => Self::Path { path: file.path.clone(), is_deleted: file.is_deleted },
            FileOwner::Device if part.is_direct => Self::Disk,
            FileOwner::Device | FileOwner::Buffers if comm.starts_with("jbd2") => Self::Journal,
            FileOwner::Device => Self::Metadata,
            FileOwner::Buffers if request.rwbs.meta => Self::Metadata,
            FileOwner::Buffers => Self::Buffers,
            FileOwner::Memory => Self::DirectIo,
            FileOwner::Swap => Self::Swap,
            FileOwner::More => Self::More,
        }
    }
}

/// Requests for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// The file, or what else they were for.
    pub target: FileTarget,
    /// Operation of the requests.
    pub op: Op,
    /// Kernel threads wrote what a program had written into memory before.
    pub by_writeback: bool,
    /// Requests; one for several files counts for each of them.
    pub requests: u64,
    /// Bytes of this file.
    pub bytes: u64,
    /// How long the requests took.
    pub latencies: Latencies,
}

/// Files of a recording's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRows {
    /// Why no files are known; empty if they are, or if nobody asked for them.
    pub refused: String,
    /// True if files were asked for.
    pub were_wanted: bool,
    /// Rows, most time in the device first. Their bytes are those of all requests.
    pub rows: Vec<FileRow>,
}

impl FileRows {
    /// Bytes that have a name, and all.
    #[must_use]
    pub fn named_bytes(&self) -> (u64, u64) {
        let sum = |rows: &mut dyn Iterator<Item = &FileRow>| {
            rows.fold(0, |sum: u64, row| sum.saturating_add(row.bytes))
        };
        (sum(&mut self.rows.iter().filter(|row| row.target.is_named())), sum(&mut self.rows.iter()))
    }
}

/// Files of one request, with the bytes of each; empty for requests without data, or if no files were recorded.
#[must_use]
pub fn files_of(profile: &Profile, request: &Request) -> Vec<(FileTarget, bool, u64)> {
    let comm = profile.strings.of(profile.last_comm(request.task));
    files_among(&profile.block_io.files, comm, request)
}

/// The same, among these files; `comm` is the name of the thread that made the request.
pub(super) fn files_among(all: &DiskFiles, comm: &str, request: &Request) -> Vec<(FileTarget, bool, u64)> {
    if !all.were_wanted() || request.moved_bytes() == 0 {
        return Vec::new();
    }
    // The kernel drops events when one interrupts another: any moment of the request shows which one it was.
    let moment = request.issue_ns.or(request.insert_ns).or(request.complete_ns);
    let parts = moment.map_or(&[][..], |moment| all.parts_of(request.dev, request.sector, moment));
    let mut left = request.moved_bytes();
    let mut files = Vec::new();
    for part in parts {
        let Some(file) = all.files.get(part.file as usize) else { continue };
        let bytes = u64::from(part.bytes).min(left);
        left -= bytes;
        let target = FileTarget::of(file, request, part, comm);
        let is_file = file.owner == FileOwner::File;
        files.push((target, is_file && part.by_kernel && request.rwbs.op == Op::Write, bytes));
    }
    if left > 0 {
        files.push((FileTarget::NotSeen, false, left));
    }
    files
}

/// Most time in the device first.
pub(super) fn files(profile: &Profile, requests: &[&Request]) -> FileRows {
    let all = &profile.block_io.files;
    let mut index: FxHashMap<(FileTarget, Op, bool), usize> = FxHashMap::default();
    let mut rows: Vec<FileRow> = Vec::new();
    // Without any, one row would have all bytes.
    let requests = if all.refused.is_empty() { requests } else { &[] };
    for request in requests {
        for (target, by_writeback, bytes) in files_of(profile, request) {
            let at = *index.entry((target.clone(), request.rwbs.op, by_writeback)).or_insert(rows.len());
            if at == rows.len() {
                let (op, latencies) = (request.rwbs.op, Latencies::default());
                rows.push(FileRow { target, op, by_writeback, requests: 0, bytes: 0, latencies });
            }
            rows[at].requests += 1;
            rows[at].bytes.grow(bytes);
            rows[at].latencies.add(request);
        }
    }
    rows.rank_by_key(|row| (Reverse(row.latencies.device_total_ns), Reverse(row.bytes)));
    FileRows { refused: all.refused.clone(), were_wanted: all.were_wanted(), rows }
}
