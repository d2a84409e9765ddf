//! The kernel's numbers of a thread.

/// A thread by the kernel's labels. The kernel uses both numbers again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PidTid {
    /// Process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
}

impl PidTid {
    /// The first thread of a process.
    #[must_use]
    pub fn leader(pid: u32) -> Self {
        Self { pid, tid: pid }
    }

    /// From numbers of the kernel's type `pid_t`; −1 (no thread) becomes all ones.
    #[must_use]
    pub const fn from_signed(pid: i32, tid: i32) -> Self {
        Self { pid: pid.cast_unsigned(), tid: tid.cast_unsigned() }
    }

    /// The process as `pid_t`; −1 for no process.
    #[must_use]
    pub const fn signed_pid(self) -> i32 {
        self.pid.cast_signed()
    }

    /// The thread as `pid_t`; −1 for no thread.
    #[must_use]
    pub const fn signed_tid(self) -> i32 {
        self.tid.cast_signed()
    }

    /// As records have it; 0 and 0 where a record has none.
    #[must_use]
    pub fn of_record(pid_tid: Option<(u32, u32)>) -> Self {
        let (pid, tid) = pid_tid.unwrap_or_default();
        Self { pid, tid }
    }

    /// In the form of records.
    #[must_use]
    pub fn to_record(self) -> (u32, u32) {
        (self.pid, self.tid)
    }
}
