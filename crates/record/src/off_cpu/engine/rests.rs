//! Waits without a sample: handed out at their thread's end, or all at the recording's.

use super::super::layout::{EndRecord, ExecRecord, LIFE_MASK, OffCpuRecord, SiteRest, SiteSums};
use super::Engine;

/// The end of a life of a thread: its exit, or the exec of another program.
pub(super) struct LifeEnd {
    tid: u32,
    life: u32,
    time_ns: u64,
    /// Last stack still exists.
    has_stack: bool,
}

impl LifeEnd {
    pub(super) fn of_end(end: &EndRecord) -> Self {
        Self { tid: end.tid, life: end.life, time_ns: end.end_ns, has_stack: true }
    }

    pub(super) fn of_exec(exec: &ExecRecord) -> Self {
        Self { tid: exec.tid, life: exec.life, time_ns: exec.time_ns, has_stack: false }
    }
}

impl Engine {
    /// A life of a thread has ended: the sums of its places that no sample took along.
    pub(super) fn hand_out_rests(&mut self, end: &LifeEnd, sink: &mut dyn FnMut(OffCpuRecord<'_>)) {
        let LifeEnd { tid, life, .. } = *end;
        let Some(prints) = self.prints.get_mut(&tid) else { return };
        let mut of_life: Vec<u64> = prints.extract_if(|print| print & LIFE_MASK == u64::from(life)).collect();
        if prints.is_empty() {
            self.prints.remove(&tid);
        }
        of_life.sort_unstable();
        for print in of_life {
            self.hand_out_rest([print, u64::from(tid)], end.time_ns, end.has_stack, sink);
        }
    }

    fn hand_out_rest(
        &mut self,
        key: [u64; 2],
        time_ns: u64,
        has_stack: bool,
        sink: &mut dyn FnMut(OffCpuRecord<'_>),
    ) {
        let Ok(words) = self.sites.get(&key, 0) else { return };
        // Where it can't be removed it is looked at again at the end, and must have been: its room is lost till then.
        if self.sites.remove(&key).is_ok() {
            let (sums, tid) = (SiteSums::from_words(&words), (key[1] & 0xffff_ffff) as u32);
            sink(OffCpuRecord::Rest(SiteRest { sums, tid, time_ns, has_stack }));
        }
    }

    /// Hands out the sums left in the map: the full ring had no room for a record of their place or of their thread's
    /// end.
    pub(super) fn hand_out_all_rests(&mut self, sink: &mut dyn FnMut(OffCpuRecord<'_>)) {
        let mut keys: Vec<[u64; 2]> = self.sites.keys().flatten().collect();
        keys.sort_unstable();
        for key in keys {
            self.hand_out_rest(key, self.control.end_ns, true, sink);
        }
    }
}
