//! Opens the requested events, or the best the machine allows, with notices about the changes.

use dso::Machine;
use dso::unwind::Regs;
use perfdata::abi::*;
use perfdata::{Attr, AttrFlags};

use crate::accounting::summary::Notice;
use crate::error::Error;
use crate::event::SystemSource;
use crate::machine::attach;
use crate::machine::proc;
use crate::machine::refusal::remedy_of_open;
use crate::open::plan::{MAX_SNAPSHOT_BYTES, Offer, Plan, mode_of, plan};
use crate::open::{OpenedEvents, Places, RefusedEvent, Start};
use crate::pt;
use crate::pt::info::Info;
use crate::pt::pmu::PtPmu;
use crate::session::opts::{CallGraph, EventRequest, Rate, RecordOpts};
use crate::sys::mem;

/// The first step of the snapshot ladder: enough for most programs.
const FIRST_SNAPSHOT_BYTES: u32 = 24 << 10;

/// On machines with more CPUs, tasks don't inherit two sizes of snapshot per CPU, but one.
const CPUS_FOR_LADDER: usize = 16;

/// The opened events, and how they were opened.
pub struct Setup {
    /// The events.
    pub plan: Plan,
    /// Descriptors and rings.
    pub opened: OpenedEvents,
    /// Notices about options that were changed.
    pub notices: Vec<Notice>,
    /// The events as they were finally requested from the kernel.
    pub events: Vec<EventRequest>,
    /// The kernel may be sampled.
    pub kernel: bool,
    /// The file's description of a processor's trace, if one is taken.
    pub trace: Option<Info>,
}

/// Opens the events of `opts` in `places`. Each refusal of the kernel that a smaller wish can cure is cured.
pub fn open(opts: &RecordOpts, places: &mut Places, start: Start) -> Result<Setup, Error> {
    let mut attempt = Attempt::new(opts, places)?;
    loop {
        let plan = plan(&attempt.opts, &attempt.events, &attempt.offer);
        let opened = OpenedEvents::open(&plan, places, start, attempt.pages)
            .and_then(|o| filled(o, places))
            .and_then(|mut o| attach::adopt(&mut o, &plan, &opts.target, places).map(|()| o));
        match opened {
            Ok(mut opened) => {
                opened.set_filters(&plan)?;
                attempt.say_ring_size();
                let trace = attempt.map_areas(&plan, &mut opened)?;
                let (notices, events, kernel) = (attempt.notices, attempt.events, attempt.offer.kernel);
                return Ok(Setup { plan, opened, notices, events, kernel, trace });
            }
            Err(refused) => attempt.give_way(&plan, refused, places)?,
        }
    }
}

/// A recording without any ring would never end.
fn filled(opened: OpenedEvents, places: &Places) -> Result<OpenedEvents, RefusedEvent> {
    if opened.rings.is_empty() {
        let place = places.tids.first().map_or_else(String::new, |t| format!(" for thread {t}"));
        let source = std::io::Error::from_raw_os_error(libc::ESRCH);
        return Err(RefusedEvent { event: Some(0), place, source });
    }
    Ok(opened)
}

struct Attempt {
    opts: RecordOpts,
    events: Vec<EventRequest>,
    offer: Offer,
    pages: usize,
    asked_pages: Option<usize>,
    notices: Vec<Notice>,
}

impl Attempt {
    fn new(opts: &RecordOpts, places: &Places) -> Result<Self, Error> {
        let max_rate_hz =
            proc::sysctl("kernel/perf_event_max_sample_rate").and_then(|r| u64::try_from(r).ok());
        let max_rate_hz = max_rate_hz.unwrap_or(100_000);
        let mut notices = Vec::new();
        let asked = match opts.sampling.rate {
            Rate::Hz(hz) => Some(hz),
            Rate::Usual => Some(Rate::usual_hz(opts.off_cpu.is_some())),
            Rate::MaxHz | Rate::Period(_) => None,
        };
        if let Some(asked) = asked.filter(|hz| *hz > max_rate_hz) {
            if opts.sampling.strict_rate {
                return Err(Error::RateTooHigh { asked, limit: max_rate_hz });
            }
            notices.push(Notice::LowerFrequency(asked, max_rate_hz));
        }
        let cpus = places.cpus.len().max(1);
        let pages = opts.ring_pages.unwrap_or_else(|| default_pages(cpus)).next_power_of_two();
        let mut events = if opts.events.is_empty() { vec![hardware_cycles()] } else { opts.events.clone() };
        for event in events.iter_mut().filter(|event| event.aux) {
            event.filter = event.filter.as_deref().map(pt::filter::to_kernel).transpose()?;
        }
        let offer = Offer {
            unwind_regs: Regs::perf_mask(Machine::host()),
            max_rate_hz,
            snapshot_steps: steps(opts, pages, cpus),
            kernel: true,
            // The kernel (5.12 to at least 6.18) leaves the flag "has a build-id" in the header of the record when the
            // next event, which did not ask for it, gets the same mapping (perf_event_mmap_output in
            // kernel/events/core.c): an event of all tasks with build-ids spoils what every other profiler on the
            // machine records; perf 6.1 aborts over it. Files are known by their inode then.
            build_id_records: !opts.target.is_system_wide(),
            lost_counts: true,
        };
        let opts = opts.clone();
        Ok(Self { asked_pages: opts.ring_pages, opts, events, offer, pages, notices })
    }

    /// Changes one wish so that the refusal won't come again, or gives up with an error that has the remedy.
    fn give_way(&mut self, plan: &Plan, refused: RefusedEvent, places: &Places) -> Result<(), Error> {
        let errno = refused.source.raw_os_error().unwrap_or(0);
        let Some(event) = refused.event else { return self.shrink(refused, places) };
        let opened = &plan.opened[event];
        if opened.probe.is_some() {
            return self.without_spans(refused);
        }
        let Some(asked) = self.events.get(opened.file_event) else {
            // A tracepoint that should replace the off-CPU engine.
            let (event, place, source) = (opened.name.clone(), refused.place, refused.source);
            let remedy = remedy_of_open(&source, proc::sysctl("kernel/perf_event_paranoid"), true);
            return Err(Error::Open { event, place, source, remedy });
        };
        let user_too = !asked.attr.flags.has(AttrFlags::EXCLUDE_USER);
        match errno {
            libc::EACCES | libc::EPERM
                if self.offer.kernel && user_too && !self.opts.target.is_system_wide() =>
            {
                self.offer.kernel = false;
                self.notices.push(Notice::UserOnly(proc::sysctl("kernel/perf_event_paranoid").unwrap_or(2)));
            }
            libc::EOPNOTSUPP | libc::EINVAL if mode_of(asked, &self.opts) == CallGraph::Lbr => {
                self.replace(CallGraph::Lbr, CallGraph::Live);
                self.notices.push(Notice::NoBranchRecords);
            }
            // The newest first: Linux 6.0, then 5.12.
            libc::EINVAL if self.offer.lost_counts => self.offer.lost_counts = false,
            libc::EINVAL if self.offer.build_id_records => self.offer.build_id_records = false,
            libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL
                if is_cycles(asked) && !self.wants_branches(asked) =>
            {
                self.events.iter_mut().filter(|event| is_cycles(event)).for_each(use_clock);
                self.notices.push(Notice::NoHardwareCounters("cycles".to_owned(), "cpu-clock"));
            }
            libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP
                if self.events.len() == 1 && is_hardware(asked) && !self.wants_branches(asked) =>
            {
                let name = asked.name.clone();
                let event = &mut self.events[0];
                use_clock(event);
                // A period in occurrences isn't valid for an event that counts nanoseconds.
                event.own_rate = false;
                if matches!(self.opts.sampling.rate, Rate::Period(_)) {
                    self.opts.sampling.rate = Rate::default();
                }
                self.notices.push(Notice::NoHardwareCounters(name, "cpu-clock"));
            }
            libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP
                if is_hardware(asked)
                    && !self.wants_branches(asked)
                    && self.may_leave_out(opened.file_event) =>
            {
                let event = self.leave_out(opened.file_event);
                let why = "this CPU or virtual machine does not count it".to_owned();
                self.notices.push(Notice::EventLeftOut(event.name, why));
            }
            libc::EINVAL | libc::EOPNOTSUPP if mode_of(asked, &self.opts) == CallGraph::Live => {
                self.replace(CallGraph::Live, CallGraph::FramePointer);
                self.notices.push(Notice::FramePointersOnly("the kernel copies no registers for this event"));
            }
            _ => {
                let paranoid = proc::sysctl("kernel/perf_event_paranoid");
                let no_branches = self.wants_branches(asked) && errno != libc::EACCES && errno != libc::EPERM;
                let remedy = if no_branches {
                    "; this machine has no branch records".to_owned()
                } else {
                    remedy_of_open(&refused.source, paranoid, self.opts.target.is_system_wide())
                };
                // The user didn't ask for the event that only reports processes.
                let name = if Some(event) == plan.tracking() { &asked.name } else { &opened.name };
                let (event, place, source) = (name.clone(), refused.place, refused.source);
                return Err(Error::Open { event, place, source, remedy });
            }
        }
        Ok(())
    }

    /// Maps the areas of a processor's trace and gathers its description for the file; `None` if none is taken.
    fn map_areas(&mut self, plan: &Plan, opened: &mut OpenedEvents) -> Result<Option<Info>, Error> {
        let Some(event) = plan.opened.iter().find(|event| event.aux) else { return Ok(None) };
        let options = self.opts.trace;
        let asked = options.area_bytes();
        let kib = |bytes: usize| bytes as u64 >> 10;
        let mapped = opened.map_areas(plan, asked, options.aux_mode());
        let mapped = mapped.map_err(|source| Error::MapArea { kib: kib(asked), source })?;
        if mapped < asked {
            self.notices.push(Notice::SmallerAreas(kib(asked), kib(mapped)));
        }
        let clock = opened.rings.first().and_then(crate::sys::Ring::tsc_factors);
        if clock.is_none() {
            self.notices.push(Notice::NoTraceClock);
        }
        let pmu = PtPmu::read(&SystemSource::new()).unwrap_or_default();
        let (system_wide, filter) = (self.opts.target.is_system_wide(), event.filter.clone());
        Ok(Some(Info { pmu, clock, options, system_wide, filter }))
    }

    /// Probes are refused: the recording goes on without them.
    fn without_spans(&mut self, refused: RefusedEvent) -> Result<(), Error> {
        let names: Vec<String> = self.opts.spans.drain(..).map(|span| span.name).collect();
        let source = refused.source;
        let why = match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => "probes need root or CAP_PERFMON".to_owned(),
            _ => format!("the kernel refuses a probe there: {source}"),
        };
        self.notices.push(Notice::NoSpans(names.join(", "), why));
        Ok(())
    }

    /// There are others, and none of them is read with it.
    fn may_leave_out(&self, event: usize) -> bool {
        self.events.len() > 1 && self.events.iter().all(|other| other.leader != Some(event))
    }

    fn leave_out(&mut self, at: usize) -> EventRequest {
        let gone = self.events.remove(at);
        for leader in self.events.iter_mut().filter_map(|event| event.leader.as_mut()) {
            *leader -= usize::from(*leader > at);
        }
        gone
    }

    fn wants_branches(&self, event: &EventRequest) -> bool {
        self.opts.extra.branches != 0 || event.attr.branch_sample_type != 0
    }

    /// Stacks are had in another way than was asked.
    fn replace(&mut self, from: CallGraph, to: CallGraph) {
        let modes = self.events.iter_mut().filter_map(|event| event.call_graph.as_mut());
        modes
            .chain([&mut self.opts.stacks.call_graph])
            .filter(|mode| **mode == from)
            .for_each(|mode| *mode = to);
    }

    /// The rings were too large for the locked-memory limit: half of it.
    fn shrink(&mut self, refused: RefusedEvent, places: &Places) -> Result<(), Error> {
        let smallest = 2;
        if refused.source.raw_os_error() != Some(libc::EPERM)
            && refused.source.raw_os_error() != Some(libc::ENOMEM)
            || self.pages <= smallest
        {
            let kib = (self.pages * mem::page_bytes()) as u64 >> 10;
            return Err(Error::Map { kib, source: refused.source });
        }
        self.pages /= 2;
        let cpus = places.cpus.len().max(1);
        self.offer.snapshot_steps = steps(&self.opts, self.pages, cpus);
        Ok(())
    }

    /// Reports smaller rings if they were asked for, or if they are too small for deep stacks.
    fn say_ring_size(&mut self) {
        let kib = |pages: usize| (pages * mem::page_bytes()) as u64 >> 10;
        let wanted = self.asked_pages.map(usize::next_power_of_two);
        if let Some(asked) = wanted.filter(|&asked| asked > self.pages) {
            self.notices.push(Notice::SmallerRings(kib(asked), kib(self.pages)));
        }
    }
}

/// Rings that hold some hundred milliseconds of large snapshots, within a total that no machine misses.
fn default_pages(cpus: usize) -> usize {
    const TOTAL_BYTES: usize = 128 << 20;
    let bytes = (TOTAL_BYTES / cpus).clamp(512 << 10, 8 << 20);
    let pages = bytes / mem::page_bytes();
    // Down to a power of two.
    1 << pages.max(2).ilog2()
}

/// Snapshot sizes for these rings, no larger than was asked for.
fn steps(opts: &RecordOpts, pages: usize, cpus: usize) -> [u32; 2] {
    let [small, large] = snapshot_steps(pages, cpus, opts.target.is_system_wide());
    opts.stacks.snapshot_bytes.map_or([small, large], |[first, most]| [small.min(first), large.min(most)])
}

/// Snapshot sizes so that at least a dozen samples fit a ring.
fn snapshot_steps(pages: usize, cpus: usize, system_wide: bool) -> [u32; 2] {
    let most = u32::try_from(pages * mem::page_bytes() / 12).unwrap_or(u32::MAX) & !7;
    let large = MAX_SNAPSHOT_BYTES.min(most).max(512);
    let small = FIRST_SNAPSHOT_BYTES.min(large);
    if cpus > CPUS_FOR_LADDER && !system_wide { [large, large] } else { [small, large] }
}

fn is_cycles(event: &EventRequest) -> bool {
    (event.attr.type_, event.attr.config) == (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES)
}

/// Counted by the CPU's PMU: a generic, cache or raw event.
fn is_hardware(event: &EventRequest) -> bool {
    matches!(event.attr.type_, PERF_TYPE_HARDWARE | PERF_TYPE_HW_CACHE | PERF_TYPE_RAW)
}

/// Makes it a sample of time; its modifiers stay.
fn use_clock(event: &mut EventRequest) {
    let clock = cpu_clock();
    event.name = event.name.replacen(bare_name(&event.name), &clock.name, 1);
    let (type_, config) = (clock.attr.type_, clock.attr.config);
    event.attr = Attr { type_, config, config1: 0, config2: 0, ..event.attr };
    // Features of the PMU alone: counting by guests, and exact addresses.
    event.attr.flags.set(AttrFlags::EXCLUDE_GUEST | AttrFlags::EXCLUDE_HOST, false);
    event.attr.flags.set_precise_ip(0);
}

/// "cycles" of "cycles:k".
fn bare_name(name: &str) -> &str {
    name.split([':', '/']).next().unwrap_or(name)
}

fn hardware_cycles() -> EventRequest {
    let attr = Attr { type_: PERF_TYPE_HARDWARE, config: PERF_COUNT_HW_CPU_CYCLES, ..Attr::default() };
    EventRequest::plain("cycles", attr)
}

pub(crate) fn cpu_clock() -> EventRequest {
    let attr = Attr { type_: PERF_TYPE_SOFTWARE, config: PERF_COUNT_SW_CPU_CLOCK, ..Attr::default() };
    EventRequest::plain("cpu-clock", attr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::opts::StackOpts;

    #[test]
    fn snapshots_fit_a_dozen_times_into_the_ring() {
        let page = mem::page_bytes();
        assert_eq!(snapshot_steps((8 << 20) / page, 2, false), [24 << 10, 65_528]);
        let small = snapshot_steps((128 << 10) / page, 2, false);
        assert!(small[1] as usize * 12 <= 128 << 10 && small[0] == small[1]);
        assert_eq!(snapshot_steps((8 << 20) / page, 64, false), [65_528; 2]);
        let asked = RecordOpts {
            stacks: StackOpts { snapshot_bytes: Some([4 << 10, 24 << 10]), ..StackOpts::default() },
            ..RecordOpts::default()
        };
        assert_eq!(steps(&asked, (8 << 20) / page, 2), [4 << 10, 24 << 10]);
        assert_eq!(steps(&RecordOpts::default(), (8 << 20) / page, 2), [24 << 10, 65_528]);
    }
}
