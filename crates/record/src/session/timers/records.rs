//! Records as the kernel would have written them.

use perfdata::abi::*;
use perfdata::record::{Comm, TaskRecord};
use perfdata::{
    Avma, Callchain, CpuMode, Event, Record, Sample, SampleId, SampleRegs, UserStack, record_to_bytes,
};
use tracer::layout::slots::word;

use super::{SlotEvent, event_id};
use crate::machine::proc::MapLine;
use crate::machine::synthesize;
use crate::open::plan::Plan;
use crate::sys::SlotRecord;
use crate::sys::perf_abi::register;
use perfdata::PidTid;

/// Numbers of the program counter and stack pointer in perf's order.
const PC: usize = register::PC as usize;

/// Makes records in the layouts of a plan.
#[derive(Debug)]
pub(super) struct RecordMaker {
    sampling: (Event, u64),
    tracking: (Event, u64),
}

/// Where a sample was taken.
pub(super) fn pc_of(record: &SlotRecord) -> u64 {
    record.words[word::REGS + PC]
}

impl RecordMaker {
    pub(super) fn new(plan: &Plan) -> Self {
        let of = |at: usize| {
            let attr = plan.opened.get(at).map(|event| event.attr).unwrap_or_default();
            (Event { attr, ..Event::default() }, event_id(at))
        };
        let samples = plan.opened.iter().position(|event| event.attr.samples(PERF_SAMPLE_IP)).unwrap_or(0);
        Self { sampling: of(samples), tracking: of(plan.tracking().unwrap_or(samples)) }
    }

    fn put(&self, record: &Record<'_>, task: PidTid, time_ns: u64, out: &mut Vec<u8>) {
        let (event, id) = &self.tracking;
        let id = SampleId {
            pid_tid: Some(task.to_record()),
            time_ns: Some(time_ns),
            id: Some(*id),
            identifier: Some(*id),
            cpu: Some(0),
            ..SampleId::default()
        };
        out.extend(record_to_bytes(event, record, &id).unwrap_or_default());
    }

    /// A thread `(pid, tid)` begins; `parent` is its process or the process that forked.
    pub(super) fn fork(&self, of: PidTid, parent: u32, time_ns: u64, out: &mut Vec<u8>) {
        let PidTid { pid, tid } = of;
        let task = TaskRecord { pid, ppid: parent, tid, ptid: parent, time_ns };
        self.put(&Record::Fork(task), PidTid::leader(parent), time_ns, out);
    }

    pub(super) fn exit(&self, of: PidTid, time_ns: u64, out: &mut Vec<u8>) {
        let PidTid { pid, tid } = of;
        let task = TaskRecord { pid, ppid: pid, tid, ptid: pid, time_ns };
        self.put(&Record::Exit(task), of, time_ns, out);
    }

    /// A process begins a program of this name.
    pub(super) fn exec(&self, of: PidTid, name: &[u8], time_ns: u64, out: &mut Vec<u8>) {
        let comm = Comm { pid: of.pid, tid: of.tid, comm: name, exec: true };
        self.put(&Record::Comm(comm), of, time_ns, out);
    }

    pub(super) fn mmaps(&self, pid: u32, lines: &[MapLine], time_ns: u64, out: &mut Vec<u8>) {
        for line in lines {
            self.put(
                &Record::Mmap(synthesize::user_mmap(pid, line, true)),
                PidTid::leader(pid),
                time_ns,
                out,
            );
        }
    }

    /// True if samples have the number of their cgroup.
    pub(super) fn wants_cgroups(&self) -> bool {
        self.sampling.0.attr.samples(PERF_SAMPLE_CGROUP)
    }

    /// A sample of `weight_ns` of CPU time.
    pub(super) fn sample(&self, record: &SlotRecord, of: &SlotEvent, weight_ns: u64, out: &mut Vec<u8>) {
        let (event, id) = &self.sampling;
        let mask = event.attr.sample_regs_user;
        let wanted = (0..64).filter(|bit| mask >> bit & 1 == 1);
        let values: Vec<u64> =
            wanted.map(|bit| record.words.get(word::REGS + bit).copied().unwrap_or(0)).collect();
        let most = event.attr.sample_stack_user as usize;
        let stack = &record.bytes[..record.bytes.len().min(most) & !7];
        let sample = Sample {
            misc: CpuMode::User.to_misc(),
            identifier: Some(*id),
            id: Some(*id),
            ip: Some(Avma(pc_of(record))),
            pid_tid: Some((of.task.pid, of.task.tid)),
            time_ns: Some(of.time_ns),
            cpu: Some(0),
            period: Some(weight_ns),
            cgroup: of.cgroup,
            callchain: Some(Callchain([].as_slice().into())),
            regs_user: Some(SampleRegs { abi: register::FORM, mask, values: values.as_slice().into() }),
            stack_user: Some(UserStack { bytes: stack, reserved: stack.len().max(16) as u64 }),
            ..Sample::default()
        };
        let record = Record::Sample(sample);
        out.extend(record_to_bytes(event, &record, &SampleId::default()).unwrap_or_default());
    }
}
