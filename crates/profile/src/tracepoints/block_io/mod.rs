//! Block I/O: requests to disks, put together from the kernel's `block:*` tracepoints.
//!
//! ```text
//!   insert ── in the queue ── issue ── in the device ── complete
//! ```
//! Requests are joined by device, first sector and operation: the only name a request has in these events.
//! Conservation: each event belongs to a request or is counted in [`OtherEvents`] under what it was.

mod join;
mod live_events;
mod op;

pub use join::Join;
pub use live_events::BlockEvents;
pub use op::{Op, Rwbs};

use crate::profile::TaskId;
use crate::table::CallsiteId;

/// Bytes of a sector in these events, whatever the disk's own are.
pub const SECTOR_BYTES: u64 = 512;

/// Kind of an event in a request's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockTracepoint {
    /// A request enters the scheduler's queue.
    Insert,
    /// It goes to the driver.
    Issue,
    /// It, or its first part, is done.
    Complete,
    /// The driver gave it back to the queue.
    Requeue,
    /// A request became part of the one before it.
    RequestMerge,
    /// A bio was added at the end of a request.
    BackMerge,
    /// A bio was added before the beginning of a request.
    FrontMerge,
    /// A bio was too large for the device and was split.
    Split,
    /// A bio comes to the block layer. Only those without data count: they ask for a flush.
    Queue,
}

impl BlockTracepoint {
    /// All, with the names of their tracepoints.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Insert, "block_rq_insert"),
        (Self::Issue, "block_rq_issue"),
        (Self::Complete, "block_rq_complete"),
        (Self::Requeue, "block_rq_requeue"),
        (Self::RequestMerge, "block_rq_merge"),
        (Self::BackMerge, "block_bio_backmerge"),
        (Self::FrontMerge, "block_bio_frontmerge"),
        (Self::Split, "block_split"),
        (Self::Queue, "block_bio_queue"),
    ];

    /// The kind of the event with this name (`block:block_rq_issue`); `None` for all others.
    #[must_use]
    pub fn of(event: &str) -> Option<Self> {
        let mut parts = event.split([':', '/']).filter(|part| !part.is_empty() && *part != "block");
        let name = parts.next()?;
        Self::ALL.into_iter().find(|(_, of)| *of == name).map(|(tracepoint, _)| tracepoint)
    }
}

/// One event of the block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEvent {
    /// Kind of event.
    pub tracepoint: BlockTracepoint,
    /// Time, ns of the recording's clock.
    pub time_ns: u64,
    /// The device as the kernel numbers it: major × 2^20 + minor.
    pub dev: u32,
    /// First sector, in units of 512 bytes.
    pub sector: u64,
    /// Bytes; 0 for a flush.
    pub bytes: u64,
    /// Operation and flags.
    pub rwbs: Rwbs,
    /// The kernel's error of a completion; 0 if all is well.
    pub error: i64,
    /// The running thread: the submitter for insert and (mostly) issue, an arbitrary one for the others.
    pub task: TaskId,
    /// The path there; `None` if none was recorded.
    pub callsite: Option<CallsiteId>,
}

/// A request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The device as the kernel numbers it: major × 2^20 + minor.
    pub dev: u32,
    /// First sector, in units of 512 bytes.
    pub sector: u64,
    /// Bytes, merged ones included.
    pub bytes: u64,
    /// Operation and flags.
    pub rwbs: Rwbs,
    /// Thread that caused it, as far as the events show: a kernel thread if it works for others.
    pub task: TaskId,
    /// The path there; `None` if none was recorded.
    pub callsite: Option<CallsiteId>,
    /// Time of entry into the queue, ns; `None` if that was not seen.
    pub insert_ns: Option<u64>,
    /// Time when it was given to the driver (the last one), ns; `None` if that was not seen.
    pub issue_ns: Option<u64>,
    /// Time of completion, ns; `None` if that was not seen.
    pub complete_ns: Option<u64>,
    /// Times the driver gave it back.
    pub requeues: u32,
    /// The kernel's error; 0 if all went well.
    pub error: i64,
    /// It became part of another request, which has its time.
    pub merged: bool,
}

impl Request {
    /// Bytes that went to or came from the device: none where the request only names a range to forget.
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        if self.rwbs.op == Op::Discard { 0 } else { self.bytes }
    }

    /// ns in the queue; `None` if its way through it was not seen whole.
    #[must_use]
    pub fn queue_ns(&self) -> Option<u64> {
        Some(self.issue_ns?.saturating_sub(self.insert_ns?))
    }

    /// ns in the device; `None` if it was not seen issued and done.
    #[must_use]
    pub fn device_ns(&self) -> Option<u64> {
        Some(self.complete_ns?.saturating_sub(self.issue_ns?))
    }
}

/// Counts of events other than those that became requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtherEvents {
    /// Completions of requests that began before the recording, or whose beginning was lost.
    pub only_completed: u64,
    /// Writes without data that ended with the flush they requested.
    pub flush_bios: u64,
    /// Bios and requests that became part of other requests.
    pub merges: u64,
    /// Times a driver gave a request back.
    pub requeues: u64,
    /// Bios split because they were too large.
    pub splits: u64,
    /// Events whose payload could not be read: the file lacks their format.
    pub unreadable: u64,
}

/// All block I/O of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockIo {
    /// Requests in the order of their first event, open ones included.
    pub requests: Vec<Request>,
    /// The other events.
    pub counts: OtherEvents,
    /// Kinds of events that the recording requested. Other kinds are unknown, not zero.
    pub recorded: std::collections::BTreeSet<BlockTracepoint>,
    /// Files of the requests.
    pub files: perfdata::appendix::disk_files::DiskFiles,
}
