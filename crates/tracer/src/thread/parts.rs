//! Parts of a thread's state, which the modules that work with them share.

use super::slow_filter::SlowCalls;
use crate::frame::OpenCall;
use crate::gate::Gate;
use crate::process::recording_folder::ThreadFile;

/// A thread's file, of which the newest part is mapped.
pub struct TraceFile {
    /// The chunk that is mapped …
    pub chunk: *mut u8,
    /// … and its bytes.
    pub chunk_bytes: usize,
    /// The one before, mapped yet; null: none.
    pub old: *mut u8,
    /// Bytes.
    pub old_bytes: usize,
    /// Bytes of the file so far.
    pub bytes: u64,
    /// The descriptor, unless the program has closed it.
    pub fd: i32,
    /// Location of the file, if there is one.
    pub place: Option<ThreadFile>,
    /// Which it is: [`sys::identity`].
    pub identity: [u64; 2],
    /// Bytes that the file keeps; 0: all.
    pub keep_bytes: u64,
    /// Why nothing more can be written, an errno; 0: it can.
    pub refusal: i32,
}

/// Whether the slow half of the hooks runs on a thread.
pub struct SlowHalf {
    /// It runs.
    pub busy: u32,
    /// Where on the stack it runs.
    pub holder: u64,
    /// Signals are held back.
    pub held: u32,
    /// Signals that were blocked before.
    pub mask: u64,
}

/// Which calls of a thread are written.
pub struct ThreadRules {
    /// Value of [`super::ThreadState::limit`] while calls are recorded.
    pub depth_limit: *mut OpenCall,
    pub gate: Gate,
    /// Only calls that lead to a function of `sleds::CALLER` are written.
    pub callers_only: bool,
    /// Open calls that are dropped unless they are slow.
    pub slow: SlowCalls,
    /// Signals that switch recording, as far as this thread has followed them.
    pub seen: u32,
}
