//! Tier A: the BPF program of `bpf/off_cpu.bpf.c`, loaded, attached, read.
//!
//! Knows BPF and nothing of perf.data. It hands out [`OffCpuRecord`]s in the order the kernel wrote them. The kernel
//! detaches everything when our process ends, however it ends.

mod iterators;
mod load;
mod rests;
mod wake_link;
mod wake_program;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use aya::maps::{Array, HashMap, Map, MapData, PerCpuArray, Queue, RingBuf};
use rustc_hash::{FxHashMap, FxHashSet};

use super::layout;
use super::layout::{COUNT_FIRST, COUNT_LEAVING, COUNT_NAMES, COUNT_RING_FULL, COUNT_SAMPLES};
use super::layout::{OffCpuControl, OffCpuRecord, SITE_WORDS};
use super::pace::{self, Pace, Spent};
use super::site_chains::SiteSplit;
use super::{Error, OffCpuOpts, Scope, WaitDetail};
use crate::sys::bpf::{self, Attach};
use crate::sys::bpf_error::map_error;
use crate::sys::bpf_object::LoadedObject;
use crate::sys::time::Clock;
use load::TRACEPOINTS;
use rests::LifeEnd;
use wake_program::{ON_WAKING, WakeProgram};

/// Sums of the kernel side's counters, in the order of [`COUNT_NAMES`].
pub type EngineCounts = [u64; COUNT_NAMES.len()];

/// How long threads that have ended may wait for the CPU that they leave with their last switch, ns.
const LAST_SWITCHES_NS: u64 = 200_000_000;

/// The attached programs. Dropping it detaches them.
pub struct Engine {
    object: LoadedObject,
    /// The programs of tracepoints; closed, they run no more.
    _links: Vec<OwnedFd>,
    /// The program of [`Engine::sample_filter`].
    filter: Option<OwnedFd>,
    ring: RingBuf<MapData>,
    ends: RingBuf<MapData>,
    /// Sums of places that threads are not at; of threads that have ended, all.
    sites: HashMap<MapData, [u64; 2], [u64; SITE_WORDS]>,
    /// Places of each thread whose sums may be in `sites`.
    prints: FxHashMap<u32, FxHashSet<u64>>,
    control: OffCpuControl,
    /// It follows what the map `targets` lists, and not all there is.
    follows_list: bool,
    copies_in_iterators: bool,
    pace: Pace,
    wake_program: WakeProgram,
    /// Found in the rings at the last look.
    polled_bytes: usize,
    ring_bytes: usize,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("control", &self.control).finish_non_exhaustive()
    }
}

impl Engine {
    /// [`Engine::load`] and [`Engine::begin`] in one.
    pub fn start(scope: &Scope, options: &OffCpuOpts) -> Result<Self, Error> {
        let mut engine = Self::load(scope, options)?;
        engine.begin(&mut |_| {})?;
        Ok(engine)
    }

    /// Loads and attaches. Later children of the targets are followed from here on; no clock runs yet.
    pub fn load(scope: &Scope, options: &OffCpuOpts) -> Result<Self, Error> {
        let (mut object, copies_in_iterators, on_switch) = load::load_for(scope, options)?;
        let control = OffCpuControl {
            period_ns: options.period_ns.max(1),
            end_ns: layout::NOT_BEGUN,
            start_at_exec: if let Scope::Command(pid) = scope { *pid } else { 0 },
            stack_bytes: options.stack_bytes,
            unwoken_period_ns: options.period_ns.max(1),
            splits: 0,
        };
        set_control(&mut object, control)?;
        fill_free_slots(&mut object, options.slots)?;
        add_targets(&mut object, scope)?;
        let others = TRACEPOINTS.map(|(name, _)| name).into_iter().filter(|name| *name != ON_WAKING);
        let names = std::iter::once(on_switch).chain(others);
        let links = names.map(|name| object.attach_tracepoint(name)).collect::<Result<_, _>>()?;
        let now_ns = Clock::Monotonic.now_ns();
        let wake_program = WakeProgram::attach(&object, now_ns)?;
        let (ring, ends) = (take_ring(&mut object, "ring")?, take_ring(&mut object, "ends")?);
        let sites =
            object.take_map("sites").ok_or(Error::Map { map: "sites", reason: "missing".to_owned() })?;
        let sites = HashMap::try_from(sites).map_err(|error| map_error("sites", &error))?;
        let samples_per_second = match options.detail {
            WaitDetail::Always => pace::SAMPLES_PER_SECOND_ALWAYS,
            WaitDetail::All | WaitDetail::Few => pace::SAMPLES_PER_SECOND,
        };
        let pace = Pace::new(options.period_ns, now_ns, samples_per_second);
        let follows_list = !matches!(scope, Scope::System | Scope::Cgroup(_));
        let ring_bytes = options.ring_bytes as usize;
        Ok(Self {
            object,
            _links: links,
            filter: None,
            ring,
            ends,
            sites,
            prints: FxHashMap::default(),
            control,
            follows_list,
            copies_in_iterators,
            pace,
            wake_program,
            polled_bytes: 0,
            ring_bytes,
        })
    }

    /// Follows these as well, which began while the engine was loaded.
    ///
    /// # Errors
    /// The map is full.
    pub fn follow(&mut self, scope: &Scope) -> Result<(), Error> {
        add_targets(&mut self.object, scope)
    }

    /// Starts the clocks. Those of existing threads in the scope start now, those of a command with its exec.
    pub fn begin(&mut self, sink: &mut dyn FnMut(OffCpuRecord<'_>)) -> Result<(), Error> {
        self.control.end_ns = 0;
        set_control(&mut self.object, self.control)?;
        self.run_iterator("seed", sink)
    }

    /// Hands out what waits in the rings, a ring's worth at most: they may fill as fast as they are read. Never blocks.
    pub fn poll(&mut self, sink: &mut dyn FnMut(OffCpuRecord<'_>)) {
        self.polled_bytes = 0;
        // Ends first: what they end is in the other ring by then.
        let mut ended = Vec::new();
        while let Some(item) = self.ends.next() {
            self.polled_bytes += item.len();
            match layout::parse(&item) {
                Some(OffCpuRecord::End(end)) => ended.push(OffCpuRecord::End(end)),
                Some(OffCpuRecord::Exec(exec)) => ended.push(OffCpuRecord::Exec(exec)),
                _ => {}
            }
        }
        let mut ring_bytes = 0;
        while ring_bytes < self.ring_bytes
            && let Some(item) = self.ring.next()
        {
            ring_bytes += item.len();
            match layout::parse(&item) {
                Some(OffCpuRecord::Site(site)) => {
                    self.prints.entry(site.tid).or_default().insert(site.print);
                }
                Some(record) => sink(record),
                None => {}
            }
        }
        self.polled_bytes += ring_bytes;
        for record in ended {
            match &record {
                OffCpuRecord::End(end) => self.hand_out_rests(&LifeEnd::of_end(end), sink),
                OffCpuRecord::Exec(exec) => self.hand_out_rests(&LifeEnd::of_exec(exec), sink),
                _ => {}
            }
            sink(record);
        }
    }

    /// True if the ring would have been full soon: it should be looked at again at once.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.polled_bytes > self.ring_bytes / 8
    }

    /// Makes the period longer while samples come too often or take too much time, and shorter again. Call now and then;
    /// `own_cpu_ns` is all the CPU time that the samples took of us so far, but for what the kernel takes for them.
    pub fn adapt(&mut self, own_cpu_ns: u64) {
        let at_ns = Clock::Monotonic.now_ns();
        self.turn_wake_program(at_ns);
        if !self.pace.is_due(at_ns, self.is_pressed()) {
            return;
        }
        // Those that found the ring full were too many as well.
        let [handed_out, lost, first] = [COUNT_SAMPLES, COUNT_RING_FULL, COUNT_FIRST].map(|i| self.count(i));
        let all = handed_out + lost;
        // First samples of places come with any period, and are few by another rule.
        let samples = all.saturating_sub(first);
        let cpu_ns = u128::from(own_cpu_ns) * u128::from(samples) / u128::from(all.max(1));
        let cpu_ns = u64::try_from(cpu_ns).unwrap_or(u64::MAX);
        if let Some(period_ns) = self.pace.look(Spent { at_ns, samples, cpu_ns }) {
            // Where there are samples the command has begun: its next exec is an exec as any.
            (self.control.period_ns, self.control.start_at_exec) = (period_ns, 0);
            self.set_periods();
        }
    }

    /// Attaches or detaches the program at wake-ups when its time has come.
    fn turn_wake_program(&mut self, at_ns: u64) {
        if !self.wake_program.is_due(at_ns) {
            return;
        }
        self.wake_program.turn(&self.object, at_ns);
        if self.unwoken_period_ns() != self.control.unwoken_period_ns {
            self.control.start_at_exec = 0;
            self.set_periods();
        }
        self.wake_program.follow_windows();
    }

    fn unwoken_period_ns(&self) -> u64 {
        self.wake_program.windows.unwoken_period_ns(self.control.period_ns)
    }

    /// Hands the periods to the programs.
    fn set_periods(&mut self) {
        self.control.unwoken_period_ns = self.unwoken_period_ns();
        // Should it be refused, the periods stay as they were, which costs more and is right.
        let _ = set_control(&mut self.object, self.control);
    }

    /// Time until the program at wake-ups is to be attached or detached, as [`Engine::adapt`] does.
    #[must_use]
    pub fn turns_in(&self) -> Duration {
        Duration::from_nanos(self.wake_program.left_ns(Clock::Monotonic.now_ns()))
    }

    /// Waits whose end was not seen by a program because of a high rate of switches, and for how long it was so, ns;
    /// `None` if there were none.
    #[must_use]
    pub fn unwoken(&self) -> Option<(u64, u64)> {
        let closed_ns = self.wake_program.windows.closed_ns();
        (closed_ns > 0).then(|| (wake_program::unwoken(&self.object), closed_ns))
    }

    /// From now on copies up to `bytes` of user stack for this process's threads.
    pub fn want_stack(&mut self, pid: u32, bytes: u32) {
        if let Some(map) = self.object.map_mut("stack_want")
            && let Ok(mut map) = HashMap::<_, u32, u32>::try_from(map)
        {
            // A full table leaves this process with the usual size.
            let _ = map.insert(pid, bytes, 0);
        }
    }

    /// The same for every process that has no size of its own.
    pub fn want_stacks(&mut self, bytes: u32) {
        (self.control.stack_bytes, self.control.start_at_exec) = (bytes, 0);
        // It did work when the engine began.
        let _ = set_control(&mut self.object, self.control);
    }

    /// Divides the waits at these places by a word of their stacks from now on.
    pub fn split_sites(&mut self, splits: &[SiteSplit]) {
        if splits.is_empty() {
            return;
        }
        if let Some(map) = self.object.map_mut("splits")
            && let Ok(mut map) = HashMap::<_, [u64; 2], u32>::try_from(map)
        {
            for SiteSplit { site, word } in splits {
                // Should it be refused, the place's time stays shared among its stacks by samples.
                let _ = map.insert([site.print, u64::from(site.tid)], u32::from(*word) + 1, 0);
            }
        }
        // Odd: it meets no number again before 2^64 of them.
        self.control.splits = self.control.splits.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.control.start_at_exec = 0;
        let _ = set_control(&mut self.object, self.control);
    }

    /// Stops the clocks at this moment and hands out open intervals and every thread's totals.
    pub fn finish(mut self, sink: &mut dyn FnMut(OffCpuRecord<'_>)) -> Result<EngineCounts, Error> {
        self.control.end_ns = Clock::Monotonic.now_ns();
        set_control(&mut self.object, self.control)?;
        self.poll(sink);
        self.run_iterator("flush", sink)?;
        self.poll(sink);
        // No clock runs any more: it comes to an end.
        while self.polled_bytes >= self.ring_bytes {
            self.poll(sink);
        }
        self.wait_for_last_switches(sink);
        self.hand_out_all_rests(sink);
        Ok(self.counts())
    }

    /// A thread that ends leaves the list of threads before its CPU, and waits for one in between if they are scarce.
    fn wait_for_last_switches(&mut self, sink: &mut dyn FnMut(OffCpuRecord<'_>)) {
        let until_ns = Clock::Monotonic.now_ns() + LAST_SWITCHES_NS;
        while self.count(COUNT_LEAVING) > 0 && Clock::Monotonic.now_ns() < until_ns {
            std::thread::sleep(Duration::from_millis(1));
            self.poll(sink);
        }
    }

    /// Counts of the kernel side so far.
    #[must_use]
    pub fn counts(&self) -> EngineCounts {
        std::array::from_fn(|i| self.count(i))
    }

    /// One of them, by its index in [`COUNT_NAMES`]: a system call.
    pub(super) fn count(&self, index: usize) -> u64 {
        let map = self.object.map("counts").and_then(|map| PerCpuArray::<_, u64>::try_from(map).ok());
        let values = map.and_then(|map| map.get(&(index as u32), 0).ok());
        values.map_or(0, |values| values.iter().fold(0u64, |sum, &n| sum.wrapping_add(n)))
    }

    /// The program that lets events opened for whole CPUs sample followed threads only ([`crate::sys::Counter::set_bpf`]);
    /// `None` if the kernel refuses it.
    pub fn sample_filter(&mut self) -> Option<BorrowedFd<'_>> {
        if self.filter.is_none() {
            self.filter = self.object.loaded("only_followed", Attach::Sample).ok();
        }
        self.filter.as_ref().map(AsFd::as_fd)
    }

    /// After [`Engine::sample_filter`] has chosen a sample, this program runs as well; false if the kernel refuses it.
    pub fn go_on_with(&mut self, program: BorrowedFd<'_>) -> bool {
        let Some(Map::ProgramArray(next)) = self.object.map("next_program") else { return false };
        let program = (program.as_raw_fd() as u32).to_ne_bytes();
        bpf::update_map(next.fd().as_fd(), &0u32.to_ne_bytes(), &program).is_ok()
    }

    /// True while a process or thread of the scope lives; always, for the whole system or a cgroup.
    #[must_use]
    pub fn has_targets(&self) -> bool {
        if !self.follows_list {
            return true;
        }
        let map = self.object.map("targets").and_then(|map| HashMap::<_, u64, u32>::try_from(map).ok());
        map.is_none_or(|map| map.keys().next().is_some())
    }

    /// The longest period that was used, ns, if it is longer than the requested one.
    #[must_use]
    pub fn period_grown_to(&self) -> Option<u64> {
        self.pace.grown_to()
    }
}

fn set_control(object: &mut LoadedObject, control: OffCpuControl) -> Result<(), Error> {
    let map =
        object.map_mut("controls").ok_or_else(|| Error::Map { map: "controls", reason: "missing".into() })?;
    let mut map = Array::<_, [u64; 5]>::try_from(map).map_err(|error| map_error("controls", &error))?;
    map.set(0, control.to_words(), 0).map_err(|error| map_error("controls", &error))
}

fn fill_free_slots(object: &mut LoadedObject, slots: u32) -> Result<(), Error> {
    let map = object.map_mut("free_slots");
    let map = map.ok_or_else(|| Error::Map { map: "free_slots", reason: "missing".into() })?;
    let mut map = Queue::<_, u32>::try_from(map).map_err(|error| map_error("free_slots", &error))?;
    for slot in 0..slots {
        map.push(slot, 0).map_err(|error| map_error("free_slots", &error))?;
    }
    Ok(())
}

fn take_ring(object: &mut LoadedObject, name: &'static str) -> Result<RingBuf<MapData>, Error> {
    let map = object.take_map(name).ok_or(Error::Map { map: name, reason: "missing".to_owned() })?;
    RingBuf::try_from(map).map_err(|error| map_error(name, &error))
}

fn add_targets(object: &mut LoadedObject, scope: &Scope) -> Result<(), Error> {
    let keys: Vec<u64> = match scope {
        Scope::System | Scope::Command(_) => Vec::new(),
        Scope::Processes(pids) => pids.iter().map(|&pid| u64::from(pid)).collect(),
        Scope::Threads(tids) => tids.iter().map(|&tid| 1 << 32 | u64::from(tid)).collect(),
        Scope::Cgroup(id) => vec![*id],
    };
    let map =
        object.map_mut("targets").ok_or_else(|| Error::Map { map: "targets", reason: "missing".into() })?;
    let mut map = HashMap::<_, u64, u32>::try_from(map).map_err(|error| map_error("targets", &error))?;
    keys.into_iter().try_for_each(|key| map.insert(key, 1, 0).map_err(|error| map_error("targets", &error)))
}
