//! From a recording's options to the attributes to open: pure, no system calls.
//!
//! One event of the user becomes one *file event* (its description in the file) and one or more *opened events*
//! (passed to the kernel). For live unwinding they differ: the kernel copies registers and stack, the file holds
//! callchains. And there are several sizes of snapshot, opened as steps of a ladder of which one is enabled.

mod attrs;
mod probes;

use perfdata::abi::*;
use perfdata::{Attr, AttrFlags};

use crate::off_cpu::{convert, tracepoints};
use crate::session::opts::{CallGraph, Delay, EventRequest, RecordOpts};
use attrs::{common_attr, sampling_attr, track, tracking_event, with_snapshot};

pub use attrs::mode_of;
pub use probes::ProbedPlace;

/// The kernel's largest stack copy: a record's size is a u16, and the size must be a multiple of 8.
pub const MAX_SNAPSHOT_BYTES: u32 = 65_528;

/// Capabilities of the machine, found out before planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// User registers this machine's unwinder wants; 0 if it has none.
    pub unwind_regs: u64,
    /// `kernel.perf_event_max_sample_rate`.
    pub max_rate_hz: u64,
    /// Sizes of stack snapshots to open, ascending; one is enabled at a time.
    pub snapshot_steps: [u32; 2],
    /// The kernel may be sampled.
    pub kernel: bool,
    /// `attr.build_id` (Linux 5.12), where it disturbs nobody else.
    pub build_id_records: bool,
    /// `PERF_FORMAT_LOST` (Linux 6.0).
    pub lost_counts: bool,
}

/// An event as it is passed to the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedEvent {
    /// Name, for messages.
    pub name: String,
    /// All of the attribute but `disabled` and `enable_on_exec`.
    pub attr: Attr,
    /// Which of the plan's file events its ids belong to.
    pub file_event: usize,
    /// Index (in the plan's opened events) of its group leader.
    pub leader: Option<usize>,
    /// Step of the snapshot ladder; `None` if it is always on.
    pub step: Option<usize>,
    /// A tracepoint's filter, or an address filter as the kernel takes it.
    pub filter: Option<String>,
    /// Its data goes to an AUX area.
    pub aux: bool,
    /// Opened for the threads of the target even where all else is opened for CPUs.
    pub of_tasks: bool,
    /// The instruction where it hits, if it is a uprobe: opened for whole CPUs, whatever else is opened for.
    pub probe: Option<ProbedPlace>,
}

/// An event as it is described in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvent {
    /// Name.
    pub name: String,
    /// Attribute.
    pub attr: Attr,
}

/// All events of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In opening order; the first one carries the records of mappings, names and forks.
    pub opened: Vec<OpenedEvent>,
    /// In the file's order.
    pub file: Vec<FileEvent>,
    /// User stacks are unwound while recording.
    pub live: bool,
    /// Snapshot sizes of the ladder, in bytes; empty without one.
    pub steps: Vec<u32>,
    /// Layout of the samples that the off-CPU engine makes. The file has its events after all others.
    pub off_cpu: Option<Attr>,
    /// The tracepoints that replace the engine. Their events are opened but aren't in the file: their `file_event` is
    /// [`Plan::first_tracepoint`] and following.
    pub tracepoints: Option<tracepoints::Tracepoints>,
}

/// Makes the plan. `events` are the user's, or the default one; never empty.
#[must_use]
pub fn plan(opts: &RecordOpts, events: &[EventRequest], offer: &Offer) -> Plan {
    let may_live = !opts.stacks.without_user_chains && !opts.sampling.no_samples && offer.unwind_regs != 0;
    let is_live = |event: &EventRequest| may_live && !event.aux && mode_of(event, opts) == CallGraph::Live;
    let live = events.iter().any(is_live);
    let traces = events.iter().any(|event| event.aux);
    let several = events.len() > 1 || opts.off_cpu.is_some() || traces || !opts.spans.is_empty();
    let common = common_attr(opts, several);
    let mut made = Plan {
        opened: Vec::new(),
        file: Vec::new(),
        live,
        steps: Vec::new(),
        off_cpu: None,
        tracepoints: None,
    };
    if live {
        made.steps = offer.snapshot_steps.to_vec();
        made.steps.dedup();
    }
    // For tasks that already run, forks are followed from the first moment on, before any event samples. The same
    // applies when sampling starts later or is switched off for a while, because mappings are needed all the same.
    let switched = opts.span.delay != Delay::None || opts.span.control.is_some();
    let tracks_apart = live || switched || opts.target.is_attached() || traces;
    if tracks_apart {
        made.opened.push(tracking_event(opts, &common, offer));
    }
    for (index, event) in events.iter().enumerate() {
        let mut attr = sampling_attr(opts, event, &common, offer);
        if !tracks_apart && index == 0 {
            track(&mut attr, opts, offer);
        }
        let mut in_file = attr;
        if tracks_apart && index == 0 && !traces {
            track(&mut in_file, opts, offer);
        }
        made.file.push(FileEvent { name: event.name.clone(), attr: in_file });
        if attr.sample_period != 0 && !event.aux && is_live(event) {
            made.push_unwound(event, attr, index, offer);
        } else {
            made.push(event, attr, index, None);
        }
    }
    if traces {
        made.add_tracking_event(opts);
    }
    made.add_spans(&opts.spans, &common);
    if offer.lost_counts {
        made.opened.iter_mut().for_each(count_losses);
    }
    if let Some(off_cpu) = &opts.off_cpu {
        made.add_off_cpu(&common, offer);
        made.add_tracepoints(off_cpu.tracepoints, &common);
    }
    made
}

/// Lets the kernel count what it drops of the event, where no record holds what is read of it.
fn count_losses(event: &mut OpenedEvent) {
    let in_records = event.attr.samples(PERF_SAMPLE_READ) || event.attr.flags.has(AttrFlags::INHERIT_STAT);
    if event.attr.read_format == 0 && !in_records && !event.aux {
        event.attr.read_format = PERF_FORMAT_LOST;
    }
}

impl Plan {
    fn push(&mut self, event: &EventRequest, attr: Attr, file_event: usize, step: Option<usize>) {
        let leader = event.leader.and_then(|of| {
            let samples = |e: &OpenedEvent| e.attr.sample_type & PERF_SAMPLE_IP != 0;
            self.opened.iter().position(|e| samples(e) && e.file_event == of && e.step == step)
        });
        let (name, filter, aux) = (event.name.clone(), event.filter.clone(), event.aux);
        self.opened.push(OpenedEvent {
            name,
            attr,
            file_event,
            leader,
            step,
            filter,
            aux,
            of_tasks: false,
            probe: None,
        });
    }

    /// An event whose stacks are unwound while recording: one of each size of snapshot.
    fn push_unwound(&mut self, event: &EventRequest, attr: Attr, file_event: usize, offer: &Offer) {
        if event.leader_samples {
            // The members of its group can be read with one leader only: no ladder.
            let largest = self.steps.last().copied().unwrap_or(MAX_SNAPSHOT_BYTES);
            self.push(event, with_snapshot(attr, largest, offer), file_event, None);
            return;
        }
        for step in 0..self.steps.len() {
            let attr = with_snapshot(attr, self.steps[step], offer);
            self.push(event, attr, file_event, Some(step));
        }
    }

    /// Readers of processor traces look for the switches at an event of its own, as perf writes it.
    fn add_tracking_event(&mut self, opts: &RecordOpts) {
        let Some(event) = self.opened.first_mut() else { return };
        event.attr.flags.set(AttrFlags::CONTEXT_SWITCH, !opts.trace.per_thread || opts.extra.switches);
        event.file_event = self.file.len();
        self.file.push(FileEvent { name: event.name.clone(), attr: event.attr });
    }

    /// Index of the first file event of the off-CPU engine; the number of file events if it is not used.
    #[must_use]
    pub fn first_off_cpu(&self) -> usize {
        self.file.len() - if self.off_cpu.is_some() { convert::FILE_EVENTS.len() } else { 0 }
    }

    fn add_off_cpu(&mut self, common: &Attr, offer: &Offer) {
        let regs = self.opened.iter().find(|e| e.step.is_some()).map(|e| e.attr.sample_regs_user);
        self.off_cpu = Some(convert::snapshot_attr(common, regs.unwrap_or(offer.unwind_regs)));
        let attr = convert::file_attr(common);
        self.file
            .extend(convert::FILE_EVENTS.iter().map(|name| FileEvent { name: (*name).to_owned(), attr }));
    }

    /// The file event that the first of the tracepoints' events would be if the file had them.
    #[must_use]
    pub fn first_tracepoint(&self) -> usize {
        self.first_off_cpu() + convert::WAKER + 1
    }

    fn add_tracepoints(&mut self, points: Option<tracepoints::Tracepoints>, common: &Attr) {
        self.tracepoints = points;
        let (Some(points), Some(samples)) = (points, self.off_cpu) else { return };
        let first = self.first_tracepoint();
        for (index, event) in tracepoints::EVENTS.into_iter().enumerate() {
            let mut attr = points.attr(event, common, samples.sample_regs_user);
            let name = event.point.name().to_owned();
            // Its rate is each thread's own then: one that seldom waits has a stack each time.
            let of_tasks = event.point == tracepoints::SchedPoint::Switch && event.has_stacks;
            attr.flags.set(AttrFlags::INHERIT, of_tasks);
            self.opened.push(OpenedEvent {
                name,
                attr,
                file_event: first + index,
                leader: None,
                step: None,
                filter: None,
                aux: false,
                of_tasks,
                probe: None,
            });
        }
    }

    /// Index of the opened event that only reports processes; `None` if a sampling event does that as well.
    #[must_use]
    pub fn tracking(&self) -> Option<usize> {
        self.opened
            .iter()
            .position(|e| e.attr.sample_type & PERF_SAMPLE_IP == 0 && e.attr.flags.has(AttrFlags::MMAP2))
    }

    /// For each opened event: true if its snapshots are unwound while recording and aren't stored in the file.
    #[must_use]
    pub fn unwound(&self) -> Vec<bool> {
        let keeps = |e: &OpenedEvent| {
            self.file.get(e.file_event).is_some_and(|of| of.attr.samples(PERF_SAMPLE_STACK_USER))
        };
        self.opened.iter().map(|e| e.attr.sample_stack_user != 0 && !keeps(e)).collect()
    }

    /// True if samples of different events must be distinguished by their id.
    #[must_use]
    pub fn has_ids(&self) -> bool {
        self.file.len() > 1
    }
}

#[cfg(test)]
mod tests;
