//! The order of a sample's fields: parse and build are next to each other, one arm per `PERF_SAMPLE_*` bit, in
//! ABI order.
//
// Source: linux v7.2 kernel/events/core.c, perf_output_sample().

use super::machine::{parse_regs, parse_stack, write_regs, write_stack};
use super::weight::{parse_weight, weight_word};
use super::{BranchStack, Callchain, ReadGroup, Sample, SampleFormat, Weight};
use crate::abi::*;
use crate::addr::Avma;
use crate::wire::{Put, Wire};

/// The sample and the number of bytes left over.
pub(super) fn parse<'a>(
    misc: u16,
    mut w: Wire<'a>,
    format: &SampleFormat,
    hw_index_if_empty: bool,
) -> Option<(Sample<'a>, usize)> {
    let mut s = Sample { misc, ..Sample::default() };
    s.parse_fixed(&mut w, format.sample_type)?;
    s.parse_variable(&mut w, format, hw_index_if_empty)?;
    s.parse_tail(&mut w, format)?;
    Some((s, w.len()))
}

impl<'a> Sample<'a> {
    #[inline]
    fn parse_fixed(&mut self, w: &mut Wire<'a>, bits: u64) -> Option<()> {
        let has = |bit| bits & bit != 0;
        w.u64_if(has(PERF_SAMPLE_IDENTIFIER), &mut self.identifier)?;
        w.avma_if(has(PERF_SAMPLE_IP), &mut self.ip)?;
        w.pair_if(has(PERF_SAMPLE_TID), &mut self.pid_tid)?;
        w.u64_if(has(PERF_SAMPLE_TIME), &mut self.time_ns)?;
        w.avma_if(has(PERF_SAMPLE_ADDR), &mut self.addr)?;
        w.u64_if(has(PERF_SAMPLE_ID), &mut self.id)?;
        w.u64_if(has(PERF_SAMPLE_STREAM_ID), &mut self.stream_id)?;
        w.padded_u32_if(has(PERF_SAMPLE_CPU), &mut self.cpu)?;
        w.u64_if(has(PERF_SAMPLE_PERIOD), &mut self.period)?;
        Some(())
    }

    pub(super) fn write_fixed(&self, p: &mut Put, bits: u64) {
        let has = |bit| bits & bit != 0;
        let addr = |avma: Option<Avma>| avma.map(|avma| avma.0);
        p.u64_if(has(PERF_SAMPLE_IDENTIFIER), self.event_id());
        p.u64_if(has(PERF_SAMPLE_IP), addr(self.ip));
        p.pair_if(has(PERF_SAMPLE_TID), self.pid_tid);
        p.u64_if(has(PERF_SAMPLE_TIME), self.time_ns);
        p.u64_if(has(PERF_SAMPLE_ADDR), addr(self.addr));
        p.u64_if(has(PERF_SAMPLE_ID), self.event_id());
        p.u64_if(has(PERF_SAMPLE_STREAM_ID), self.stream_id.or(self.event_id()));
        p.pair_if(has(PERF_SAMPLE_CPU), self.cpu.map(|cpu| (cpu, 0)));
        p.u64_if(has(PERF_SAMPLE_PERIOD), self.period);
    }

    fn parse_variable(
        &mut self,
        w: &mut Wire<'a>,
        format: &SampleFormat,
        hw_index_if_empty: bool,
    ) -> Option<()> {
        let has = |bit| format.sample_type & bit != 0;
        if has(PERF_SAMPLE_READ) {
            self.read = Some(ReadGroup::parse(w, format.read_format)?);
        }
        if has(PERF_SAMPLE_CALLCHAIN) {
            let nr = w.u64()?;
            self.callchain = Some(Callchain(w.u64s(nr)?));
        }
        if has(PERF_SAMPLE_RAW) {
            let size = w.u32()?;
            self.raw = Some(w.take(u64::from(size))?);
        }
        if has(PERF_SAMPLE_BRANCH_STACK) {
            self.branches = Some(BranchStack::parse(w, format.branch_sample_type, hw_index_if_empty)?);
        }
        if has(PERF_SAMPLE_REGS_USER) {
            self.regs_user = Some(parse_regs(w, format.regs_user)?);
        }
        if has(PERF_SAMPLE_STACK_USER) {
            self.stack_user = Some(parse_stack(w)?);
        }
        Some(())
    }

    pub(super) fn write_variable(&self, p: &mut Put, format: &SampleFormat) {
        let has = |bit| format.sample_type & bit != 0;
        if has(PERF_SAMPLE_READ) {
            self.read.unwrap_or_default().write(p, format.read_format);
        }
        if has(PERF_SAMPLE_CALLCHAIN) {
            let chain = self.callchain.unwrap_or_default().0;
            p.count(chain.len());
            p.u64s(&chain);
        }
        if has(PERF_SAMPLE_RAW) {
            write_raw(p, self.raw.unwrap_or_default());
        }
        if has(PERF_SAMPLE_BRANCH_STACK) {
            self.branches.unwrap_or_default().write(p, format.branch_sample_type);
        }
        if has(PERF_SAMPLE_REGS_USER) {
            write_regs(p, self.regs_user, format.regs_user);
        }
        if has(PERF_SAMPLE_STACK_USER) {
            write_stack(p, self.stack_user);
        }
    }

    fn parse_tail(&mut self, w: &mut Wire<'a>, format: &SampleFormat) -> Option<()> {
        let has = |bit| format.sample_type & bit != 0;
        if has(PERF_SAMPLE_WEIGHT) {
            self.weight = Some(Weight::Full(w.u64()?));
        } else if has(PERF_SAMPLE_WEIGHT_STRUCT) {
            self.weight = Some(parse_weight(w.u64()?));
        }
        w.u64_if(has(PERF_SAMPLE_DATA_SRC), &mut self.data_src)?;
        w.u64_if(has(PERF_SAMPLE_TRANSACTION), &mut self.transaction)?;
        if has(PERF_SAMPLE_REGS_INTR) {
            self.regs_intr = Some(parse_regs(w, format.regs_intr)?);
        }
        w.u64_if(has(PERF_SAMPLE_PHYS_ADDR), &mut self.phys_addr)?;
        w.u64_if(has(PERF_SAMPLE_CGROUP), &mut self.cgroup)?;
        w.u64_if(has(PERF_SAMPLE_DATA_PAGE_SIZE), &mut self.data_page_size)?;
        w.u64_if(has(PERF_SAMPLE_CODE_PAGE_SIZE), &mut self.code_page_size)?;
        if has(PERF_SAMPLE_AUX) {
            let size = w.u64()?;
            self.aux = Some(w.take(size)?);
        }
        Some(())
    }

    pub(super) fn write_tail(&self, p: &mut Put, format: &SampleFormat) {
        let has = |bit| format.sample_type & bit != 0;
        if has(PERF_SAMPLE_WEIGHT) || has(PERF_SAMPLE_WEIGHT_STRUCT) {
            p.u64(weight_word(self.weight));
        }
        p.u64_if(has(PERF_SAMPLE_DATA_SRC), self.data_src);
        p.u64_if(has(PERF_SAMPLE_TRANSACTION), self.transaction);
        if has(PERF_SAMPLE_REGS_INTR) {
            write_regs(p, self.regs_intr, format.regs_intr);
        }
        p.u64_if(has(PERF_SAMPLE_PHYS_ADDR), self.phys_addr);
        p.u64_if(has(PERF_SAMPLE_CGROUP), self.cgroup);
        p.u64_if(has(PERF_SAMPLE_DATA_PAGE_SIZE), self.data_page_size);
        p.u64_if(has(PERF_SAMPLE_CODE_PAGE_SIZE), self.code_page_size);
        if has(PERF_SAMPLE_AUX) {
            let aux = self.aux.unwrap_or_default();
            p.count(aux.len().next_multiple_of(8));
            p.raw(aux);
            p.pad(8);
        }
    }
}

/// `u32 size; u8 data[size]`, size + 4 padded to a multiple of 8.
fn write_raw(p: &mut Put, raw: &[u8]) {
    let size = (raw.len() + 4).next_multiple_of(8) - 4;
    p.u32(u32::try_from(size).unwrap_or(u32::MAX));
    p.raw(raw);
    p.bytes.resize(p.bytes.len() + (size - raw.len()), 0);
}
