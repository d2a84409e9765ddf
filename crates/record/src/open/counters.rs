//! The opened counters of a recording at work: switched on and off, stepped, asked for their ids and losses.

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use perfdata::abi::{PERF_FORMAT_LOST, PERF_SAMPLE_IP};

use super::{OpenCounter, OpenedEvents};
use crate::error::Error;
use crate::off_cpu::convert;
use crate::open::plan::{OpenedEvent, Plan};
use crate::sys::Counter;

/// Records that the kernel dropped of one event in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// Index of its file event; `None` if it only reports processes.
    pub file_event: Option<usize>,
    /// Id.
    pub id: u64,
    /// Number of records, including those reported by `PERF_RECORD_LOST`.
    pub records: u64,
}

impl OpenedEvents {
    /// Stops (`false`) or starts again all that writes traces.
    pub fn trace(&self, plan: &Plan, on: bool) -> io::Result<()> {
        let traces = self.counters.iter().filter(|c| plan.opened[c.event].aux);
        let mut traces = traces.map(|c| &c.counter);
        if on { traces.try_for_each(Counter::enable) } else { traces.try_for_each(Counter::disable) }
    }

    /// Sets the filters of tracepoints.
    pub fn set_filters(&self, plan: &Plan) -> Result<(), Error> {
        for open in &self.counters {
            let event = &plan.opened[open.event];
            let Some(filter) = &event.filter else { continue };
            let refuse = |source| Error::Filter { filter: filter.clone(), event: event.name.clone(), source };
            let text =
                CString::new(filter.as_str()).map_err(|_| refuse(io::ErrorKind::InvalidInput.into()))?;
            open.counter.set_filter(&text).map_err(refuse)?;
        }
        Ok(())
    }

    /// Asks this BPF program at each hit of a sampling event whether it shall be a sample.
    pub fn set_bpf(&self, plan: &Plan, program: BorrowedFd<'_>) -> io::Result<()> {
        let takes_program = |c: &&OpenCounter| {
            plan.opened[c.event].attr.sample_type & PERF_SAMPLE_IP != 0 && !plan.is_probe(c.event)
        };
        self.counters.iter().filter(takes_program).try_for_each(|c| c.counter.set_bpf(program))
    }

    /// Starts every event that is always on, and those of one step of the ladder.
    pub fn enable(&self, plan: &Plan, step: usize) -> io::Result<()> {
        self.each(plan, |of| of.is_none_or(|s| s == step), Counter::enable)
    }

    /// Stops every event.
    pub fn disable(&self, plan: &Plan) -> io::Result<()> {
        self.each(plan, |_| true, Counter::disable)
    }

    /// Stops or starts the file events that `which` chooses; events that report processes go on.
    pub fn switch(&self, plan: &Plan, step: Option<usize>, which: impl Fn(usize) -> bool) -> io::Result<()> {
        let tracking = plan.tracking();
        let chosen = |c: &&OpenCounter| {
            let event = &plan.opened[c.event];
            let on_step = step.is_none() || event.step.is_none() || event.step == step;
            Some(c.event) != tracking && event.leader.is_none() && on_step && which(event.file_event)
        };
        let act = if step.is_some() { Counter::enable } else { Counter::disable };
        self.counters.iter().filter(chosen).try_for_each(|c| act(&c.counter))
    }

    /// Records that the kernel has dropped of each event in each place so far; nothing where it does not count them.
    #[must_use]
    pub fn dropped(&self, plan: &Plan) -> Vec<Dropped> {
        let counts =
            self.counters.iter().filter(|c| plan.opened[c.event].attr.read_format == PERF_FORMAT_LOST);
        let read = counts.filter_map(|c| {
            let mut words = [0; 2];
            let records = (c.counter.read(&mut words).ok()? == words.len()).then_some(words[1])?;
            let event = &plan.opened[c.event];
            let file_event = event.attr.samples(PERF_SAMPLE_IP).then_some(event.file_event);
            Some(Dropped { file_event, id: c.id, records })
        });
        read.chain(self.dropped_before.iter().copied()).collect()
    }

    /// Bytes of all rings together.
    #[must_use]
    pub fn ring_bytes(&self) -> usize {
        self.rings.len() * self.pages * crate::sys::mem::page_bytes()
    }

    /// Changes the step of the ladder that samples.
    pub fn change_step(&self, plan: &Plan, from: usize, to: usize) -> io::Result<()> {
        self.each(plan, |s| s == Some(to), Counter::enable)?;
        self.each(plan, |s| s == Some(from), Counter::disable)
    }

    fn each(
        &self,
        plan: &Plan,
        which: impl Fn(Option<usize>) -> bool,
        act: impl Fn(&Counter) -> io::Result<()>,
    ) -> io::Result<()> {
        let leads = |e: &OpenedEvent| e.leader.is_none() && which(e.step);
        self.counters.iter().filter(|c| leads(&plan.opened[c.event])).try_for_each(|c| act(&c.counter))
    }

    /// The ids of each file event, in the order of the places.
    #[must_use]
    pub fn ids(&self, plan: &Plan) -> Vec<Vec<u64>> {
        let mut ids = vec![Vec::new(); plan.file.len()];
        for open in &self.counters {
            // Tracepoints that replace the engine aren't events of the file.
            if let Some(ids) = ids.get_mut(plan.opened[open.event].file_event) {
                ids.push(open.id);
            }
        }
        for (id, event) in &self.made {
            if let Some(ids) = ids.get_mut(plan.opened[*event].file_event) {
                ids.push(*id);
            }
        }
        let first = plan.first_off_cpu();
        for (i, ids) in ids.iter_mut().skip(first).enumerate() {
            ids.push(convert::event_id(i));
        }
        ids
    }
}
