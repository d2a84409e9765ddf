//! Threads on each CPU, and when threads were off it: from records or samples of switches, in the order of time.

use perfdata::PidTid;
use profile::grow::GrownSum as _;
use profile::view::ranking::RankRows as _;
use rustc_hash::FxHashMap;

use super::switch_samples::Switch;

/// A thread came onto a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SwitchIn {
    time_ns: u64,
    task: PidTid,
}

/// A thread's time off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffCpu {
    from_ns: u64,
    to_ns: u64,
}

/// All switches of a recording.
#[derive(Debug, Default)]
pub(super) struct Occupancy {
    ins: FxHashMap<u32, Vec<SwitchIn>>,
    off: FxHashMap<i32, Vec<OffCpu>>,
    out_since: FxHashMap<i32, u64>,
    process_of: FxHashMap<i32, i32>,
}

impl Occupancy {
    /// A thread is one of this process.
    pub fn belongs(&mut self, tid: i32, pid: i32) {
        self.process_of.insert(tid, pid);
    }

    /// The process of a thread; of an unknown one, itself.
    pub fn process_of(&self, tid: i32) -> i32 {
        self.process_of.get(&tid).copied().unwrap_or(tid)
    }

    /// One thread left a CPU, another came.
    pub fn switched(&mut self, switch: Switch, time_ns: u64) {
        self.went_out(switch.prev, time_ns);
        let task = PidTid::from_signed(self.process_of(switch.next), switch.next);
        self.came_in(switch.cpu, time_ns, task);
        self.was_off(switch.next, time_ns);
    }

    /// A thread left its CPU.
    pub fn went_out(&mut self, tid: i32, time_ns: u64) {
        self.out_since.insert(tid, time_ns);
    }

    /// A thread is back on a CPU.
    pub fn was_off(&mut self, tid: i32, time_ns: u64) {
        if let Some(from_ns) = self.out_since.remove(&tid) {
            self.off.entry(tid).or_default().push(OffCpu { from_ns, to_ns: time_ns });
        }
    }

    /// A thread has the CPU from here on; `None`: the record has no CPU.
    pub fn came_in(&mut self, cpu: Option<u32>, time_ns: u64, task: PidTid) {
        self.belongs(task.signed_tid(), task.signed_pid());
        let list = self.ins.entry(cpu.unwrap_or(u32::MAX)).or_default();
        if list.last().is_none_or(|last| last.task != task) {
            list.push(SwitchIn { time_ns, task });
        }
    }

    /// Sorts the switch-ins once all are known. Queries are valid after it.
    pub fn arrange(&mut self) {
        self.ins.values_mut().for_each(|ins| ins.rank_by_key(|entry| entry.time_ns));
    }

    /// The thread on a CPU at a time, ns. Without a time it can only be the one who ever ran there, `None`
    /// if there were several.
    pub fn on_cpu(&self, cpu: u32, time_ns: Option<u64>) -> Option<PidTid> {
        let ins = self.ins.get(&cpu)?;
        let Some(time_ns) = time_ns else {
            let first = ins.first()?;
            return ins.iter().all(|entry| entry.task.tid == first.task.tid).then_some(first.task);
        };
        let after = ins.partition_point(|entry| entry.time_ns <= time_ns);
        // The first switch-in may be recorded a little after the trace begins.
        ins.get(after.saturating_sub(1)).map(|entry| entry.task)
    }

    /// Time a thread spent off the CPU within (`from_ns`, `to_ns`], ns.
    pub fn off_cpu_ns(&self, tid: i32, from_ns: u64, to_ns: u64) -> u64 {
        let Some(list) = self.off.get(&tid) else { return 0 };
        let first = list.partition_point(|off| off.to_ns <= from_ns);
        list.iter()
            .skip(first)
            .take_while(|off| off.from_ns < to_ns)
            .map(|off| off.to_ns.min(to_ns).saturating_sub(off.from_ns.max(from_ns)))
            .grown_sum()
    }
}
