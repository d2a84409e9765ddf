//! Adds the waker's call chain to the sample of the wait it ended.

use perfdata::off_cpu::{OtherThread, Payload};
use rustc_hash::FxHashMap;

use perfdata::PidTid;

/// Keeps the chains of wakers until the sample of the wait they ended comes by.
#[derive(Debug, Default)]
pub struct WakerJoin {
    by_sleeper: FxHashMap<u32, (u64, OtherThread)>,
}

impl WakerJoin {
    /// A waker's sample was unwound to `chain`.
    pub fn waker(&mut self, task: PidTid, raw: &[u8], chain: &[u64]) {
        let Some(Payload::Interval(of)) = Payload::parse(raw) else {
            return;
        };
        let other = OtherThread { pid: task.pid, tid: task.tid, comm: of.other.comm, chain: chain.to_vec() };
        self.by_sleeper.insert(of.other.tid, (of.since_ns, other));
    }

    /// The payload of a sleeper's sample with its waker in it; `None` if there is nothing to add.
    pub fn join(&mut self, tid: u32, raw: &[u8]) -> Option<Vec<u8>> {
        let (since_ns, other) = self.by_sleeper.remove(&tid)?;
        let Some(Payload::Interval(mut of)) = Payload::parse(raw) else {
            return None;
        };
        if of.since_ns != since_ns {
            return None;
        }
        of.other = other;
        Some(of.to_bytes())
    }
}
