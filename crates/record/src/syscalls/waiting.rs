//! System calls that threads are in at this moment, as `/proc/TID/syscall` shows them.

use crate::off_cpu::proc_sampler;
use crate::sys::time::Clock;
use syscalls::layout::{CallRecord, Copied, RecordKind};

/// The call that this thread of process `tgid` waits in; `None` if it runs, or may not be looked at. Its begin and its
/// memory are not known.
#[must_use]
pub fn waiting_call(tid: u32, tgid: u32) -> Option<CallRecord<'static>> {
    let text = dso::system_file::read_text(format!("/proc/{tid}/syscall")).ok()?;
    let call = proc_sampler::parse_syscall(&text)?;
    Some(CallRecord {
        kind: RecordKind::Call,
        start_ns: 0,
        end_ns: Clock::Monotonic.now_ns(),
        ret: 0,
        tid,
        tgid,
        nr: u16::try_from(call.syscall?).ok()?,
        is_open: true,
        is_compat: false,
        args: call.args,
        copies: [Copied::Fault; 3],
    })
}
