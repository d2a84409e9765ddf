//! Counting without samples: open events over tasks and CPUs, switch them on, read them.
//!
//! Knows nothing of aggregation or text; `tally stat` sums the readings up by place.

mod topology;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use perfdata::{Attr, AttrFlags, abi};

use crate::error::Error;
use crate::event::EventSpec;
use crate::machine::proc;
use crate::machine::refusal::remedy_of_open;
use crate::open::target::open_cgroup;
use crate::sys::mem::raise_open_files;
use crate::sys::{Counter, CounterPlace, Cpu};

pub use counts::{CountPlace, CpuPlace, Reading, Support};
pub use topology::cpu_place;

/// How to open the counters.
#[derive(Debug, Clone, Copy)]
pub struct CountOpts {
    /// Children of the tasks count too.
    pub inherit: bool,
    /// Counting begins at the task's next exec; otherwise with [`Counters::enable`].
    pub enable_on_exec: bool,
}

/// Opened counters: events × places.
#[derive(Debug)]
pub struct Counters {
    slots: Vec<Slot>,
    user_only: bool,
}

#[derive(Debug)]
struct Slot {
    support: Support,
    /// One per place, in the order of the places; `None`: not opened there.
    counters: Vec<Option<Counter>>,
    follows_leader: bool,
}

/// Opens the event for a moment, on our own task or (PMUs that count no tasks) on its CPU: does this machine have it?
/// `Err` is a refusal for want of permission or the like.
pub fn probe(event: &EventSpec) -> Result<Support, Error> {
    let own = CountPlace { cpu: None, tid: Some(std::process::id()) };
    let opts = CountOpts { inherit: false, enable_on_exec: false };
    let mut alone = event.clone();
    alone.group = None;
    let on_task = Counters::open(std::slice::from_ref(&alone), &[own], opts)?.support(0);
    if !matches!(on_task, Support::None(_)) || event.attr.type_ <= abi::PERF_TYPE_BREAKPOINT {
        return Ok(on_task);
    }
    let cpu = event.cpus.as_ref().and_then(|cpus| cpus.first().copied()).unwrap_or(0);
    let on_cpu = CountPlace { cpu: Some(cpu), tid: None };
    Ok(Counters::open(&[alone], &[on_cpu], opts)?.support(0))
}

/// Why one event could not be opened at one place.
enum Refusal {
    NotSupported(i32),
    TaskGone,
    Fatal(Error),
}

impl Counters {
    /// Opens each event at each place. Events the machine lacks are marked, not errors; so are tool events.
    pub fn open(events: &[EventSpec], places: &[CountPlace], opts: CountOpts) -> Result<Self, Error> {
        let mut all = Self { slots: Vec::with_capacity(events.len()), user_only: false };
        for (index, event) in events.iter().enumerate() {
            let slot = all.open_event(event, event.leader_of(index), places, opts)?;
            let lost = matches!(slot.support, Support::None(_));
            all.slots.push(slot);
            if lost && event.group_is_weak() && event.leader_of(index).is_some() {
                all.ungroup(events, index, places, opts)?;
            }
        }
        Ok(all)
    }

    /// The weak group of the event at `last` does not fit on the PMU: its events up to there are opened alone.
    fn ungroup(
        &mut self,
        events: &[EventSpec],
        last: usize,
        places: &[CountPlace],
        opts: CountOpts,
    ) -> Result<(), Error> {
        let first = events[last].leader_of(last).unwrap_or(last);
        self.slots.truncate(first);
        for event in &events[first..=last] {
            let slot = self.open_event(event, None, places, opts)?;
            self.slots.push(slot);
        }
        Ok(())
    }

    fn open_event(
        &mut self,
        event: &EventSpec,
        leader: Option<usize>,
        places: &[CountPlace],
        opts: CountOpts,
    ) -> Result<Slot, Error> {
        let mut slot =
            Slot { support: Support::Full, counters: Vec::new(), follows_leader: leader.is_some() };
        if event.tool.is_some() {
            return Ok(slot);
        }
        if let Some(Support::None(errno)) = leader.map(|l| self.slots[l].support) {
            slot.support = Support::None(errno);
            return Ok(slot);
        }
        let mut attr = attr_of(event, opts, leader.is_some());
        if self.user_only {
            narrow_to_user(&mut attr, event);
        }
        let cgroup = event.cgroup.as_deref().map(open_cgroup).transpose()?;
        for (nth, place) in places.iter().enumerate() {
            if event.cpus.as_ref().is_some_and(|cpus| place.cpu.is_some_and(|c| !cpus.contains(&c))) {
                slot.counters.push(None);
                continue;
            }
            let leader = leader.and_then(|l| self.slots[l].counters.get(nth)?.as_ref());
            match open_at(&mut attr, event, *place, Beside { leader, cgroup: cgroup.as_ref() }) {
                Ok(counter) => slot.counters.push(Some(counter)),
                Err(Refusal::TaskGone) => slot.counters.push(None),
                Err(Refusal::NotSupported(errno)) => {
                    slot.support = Support::None(errno);
                    slot.counters.clear();
                    return Ok(slot);
                }
                Err(Refusal::Fatal(error)) => return Err(error),
            }
        }
        if is_narrowed(&attr, event) {
            self.user_only = true;
            slot.support = Support::UserOnly;
        }
        Ok(slot)
    }

    /// The extent to which an event is counted, by its index.
    #[must_use]
    pub fn support(&self, event: usize) -> Support {
        self.slots[event].support
    }

    /// Switches all on; members of groups go with their leader.
    pub fn enable(&self) -> io::Result<()> {
        self.leaders().try_for_each(Counter::enable)
    }

    /// Switches all off.
    pub fn disable(&self) -> io::Result<()> {
        self.leaders().try_for_each(Counter::disable)
    }

    /// Switches only the events that `which` chooses by index; members of groups go with their leader.
    pub fn switch(&self, on: bool, which: impl Fn(usize) -> bool) -> io::Result<()> {
        let chosen = self.slots.iter().enumerate().filter(|(index, s)| !s.follows_leader && which(*index));
        let mut counters = chosen.flat_map(|(_, slot)| slot.counters.iter().flatten());
        counters.try_for_each(|c| if on { c.enable() } else { c.disable() })
    }

    fn leaders(&self) -> impl Iterator<Item = &Counter> {
        self.slots.iter().filter(|s| !s.follows_leader).flat_map(|s| s.counters.iter().flatten())
    }

    /// The event's readings, one per place; `None` where it is not open.
    pub fn read(&self, event: usize) -> io::Result<Vec<Option<Reading>>> {
        self.slots[event].counters.iter().map(|c| c.as_ref().map(read_one).transpose()).collect()
    }
}

fn read_one(counter: &Counter) -> io::Result<Reading> {
    let mut words = [0u64; 3];
    match counter.read(&mut words)? {
        3 => Ok(Reading { value: words[0], enabled_ns: words[1], running_ns: words[2] }),
        // A pinned event that the PMU had no room for reads as nothing.
        _ => Ok(Reading::default()),
    }
}

fn attr_of(event: &EventSpec, opts: CountOpts, follows_leader: bool) -> Attr {
    let mut attr = event.attr;
    attr.read_format = abi::PERF_FORMAT_TOTAL_TIME_ENABLED | abi::PERF_FORMAT_TOTAL_TIME_RUNNING;
    attr.flags.set(AttrFlags::INHERIT, event.terms.inherit.unwrap_or(opts.inherit));
    attr.flags.set(AttrFlags::DISABLED, !follows_leader);
    attr.flags.set(AttrFlags::ENABLE_ON_EXEC, opts.enable_on_exec && !follows_leader);
    attr
}

/// The descriptor that a counter is opened under: the leader of its group, a cgroup's folder.
#[derive(Clone, Copy)]
struct Beside<'a> {
    leader: Option<&'a Counter>,
    cgroup: Option<&'a File>,
}

/// Opens one counter, giving way where the kernel refuses only a detail; `attr` keeps what was given up.
fn open_at(
    attr: &mut Attr,
    event: &EventSpec,
    place: CountPlace,
    beside: Beside<'_>,
) -> Result<Counter, Refusal> {
    let tid = place.tid.map_or(-1, |t| i32::try_from(t).unwrap_or(i32::MAX));
    let (leader, cgroup) = (beside.leader, beside.cgroup.map(AsFd::as_fd));
    let at = CounterPlace { tid, cpu: place.cpu.map_or(Cpu::Any, Cpu::One), leader, cgroup };
    let mut raised = false;
    loop {
        let error = match Counter::open(&attr.to_bytes(), at) {
            Ok(counter) => return set_filter(counter, event).map_err(Refusal::Fatal),
            Err(error) => error,
        };
        match error.raw_os_error().unwrap_or(0) {
            libc::EACCES | libc::EPERM if narrow_to_user(attr, event) => {}
            libc::EINVAL | libc::EOPNOTSUPP if widen_to_guests(attr, event) => {}
            libc::EMFILE if !raised => {
                raised = true;
                let _ = raise_open_files();
            }
            libc::ESRCH if place.tid.is_some() => return Err(Refusal::TaskGone),
            errno @ (libc::ENOENT | libc::EOPNOTSUPP | libc::ENXIO | libc::ENODEV | libc::EINVAL) => {
                return Err(Refusal::NotSupported(errno));
            }
            _ => return Err(Refusal::Fatal(open_error(event, place, error))),
        }
    }
}

fn open_error(event: &EventSpec, place: CountPlace, source: io::Error) -> Error {
    let system_wide = place.tid.is_none();
    let remedy = remedy_of_open(&source, proc::sysctl("kernel/perf_event_paranoid"), system_wide);
    let place = match place {
        CountPlace { cpu: Some(cpu), tid: None } => format!(" on CPU {cpu}"),
        CountPlace { tid: Some(tid), .. } => format!(" for thread {tid}"),
        CountPlace { .. } => String::new(),
    };
    Error::Open { event: event.name.clone(), place, source, remedy }
}

fn set_filter(counter: Counter, event: &EventSpec) -> Result<Counter, Error> {
    let Some(filter) = &event.filter else { return Ok(counter) };
    let refused = |source| Error::Filter { filter: filter.clone(), event: event.name.clone(), source };
    let text = CString::new(filter.as_str()).map_err(|_| refused(io::ErrorKind::InvalidInput.into()))?;
    counter.set_filter(&text).map_err(refused)?;
    Ok(counter)
}

/// Leaves kernel and hypervisor out; `false` if the user chose the modes or they are out already.
fn narrow_to_user(attr: &mut Attr, event: &EventSpec) -> bool {
    let out = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    if event.modes_said() || event.is_tracepoint() || attr.flags.has(out) {
        return false;
    }
    attr.flags = attr.flags.with(out);
    true
}

fn is_narrowed(attr: &Attr, event: &EventSpec) -> bool {
    attr.flags.has(AttrFlags::EXCLUDE_KERNEL) && !event.attr.flags.has(AttrFlags::EXCLUDE_KERNEL)
}

/// Some PMUs can't distinguish guests from the host. Then both are counted, unless the user gave G or H.
fn widen_to_guests(attr: &mut Attr, event: &EventSpec) -> bool {
    let said = event.attr.flags.has(AttrFlags::EXCLUDE_HOST);
    let asked = attr.flags.has(AttrFlags::EXCLUDE_GUEST);
    attr.flags.set(AttrFlags::EXCLUDE_GUEST, asked && said);
    asked && !said
}
