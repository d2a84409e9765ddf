//! A recording while its target runs: the main loop, which drains the rings and minds signals, orders and ends.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::python::Arrival;
use super::{CONTROL, Recording, SIGNALS};
use crate::error::Error;
use crate::machine::proc;
use crate::off_cpu::{OffCpu, WaitDetail};
use crate::open::OpenedEvents;
use crate::open::again::Like;
use crate::open::target::Whom;
use crate::pipeline::queue::Room;
use crate::pipeline::ring_reader::{drain, drain_into};
use crate::pt::pieces;
use crate::session::opts::Delay;
use crate::session::stop_signals::{RunningCommand, SignalRole};
use crate::sys::signal::{self, SIGTERM, SIGUSR2};

/// The rings are looked at no less often, so that files of short processes are found while they live; more often
/// while stacks are deeper than their copies, so that memory still holds what was copied.
const TICKS: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(4), Duration::from_millis(1)];

/// The same while Python's programs are being loaded, which are to run at the first samples.
const LOADING_TICK: Duration = Duration::from_millis(2);

/// How often processes that are recorded by their ids are looked at, for their end.
const TARGETS_LOOK: Duration = Duration::from_millis(200);

/// Time between two calls of the observer of progress.
const PROGRESS: Duration = Duration::from_millis(500);
/// Most bytes that a pass over the rings makes room for ahead.
const MOST_RESERVED_BYTES: usize = 4 << 20;
/// Memory that mapped files may take at progress: the recorder's own code and rings of the kernel are 60 MB of it.
const MAPPED_BYTES: u64 = 112 << 20;

impl Recording<'_> {
    /// The main loop: until the target ends or a stop is requested.
    pub(super) fn wait(&mut self, begin: Instant) -> Result<(), Error> {
        let mut delayed = match self.opts.span.delay {
            Delay::After(delay) => Some(delay),
            Delay::None | Delay::Off => None,
        };
        let mut recording = true;
        let every = self.opts.file.switch_output.as_ref().and_then(|several| several.every);
        let mut last_look = begin;
        let mut next_progress = begin + PROGRESS;
        let mut next_file = every.map(|every| begin + every);
        loop {
            if let (Some(at), Some(every)) = (next_file, every)
                && Instant::now() >= at
            {
                next_file = Some(at + every);
                self.next_file();
            }
            if Instant::now() >= next_progress {
                next_progress += PROGRESS;
                dso::release_files_above(MAPPED_BYTES);
                (self.opts.observers.on_progress)(self.shared.samples.load(Ordering::Relaxed));
            }
            if delayed.is_some_and(|delay| begin.elapsed() >= delay) {
                delayed = None;
                self.enable()?;
            }
            let hurry = self.shared.hurry.load(Ordering::Relaxed).min(self.most_hurry());
            let tick = TICKS[hurry];
            let tick = self
                .sources
                .off_cpu
                .as_ref()
                .and_then(OffCpu::interval)
                .map_or(tick, |often| tick.min(often));
            let tick = self.sources.timers.as_ref().map_or(tick, |timers| tick.min(timers.interval()));
            let is_loading = self.sources.python_loading.is_going_on();
            let tick = if is_loading { tick.min(LOADING_TICK) } else { tick };
            let timeout = delayed.map_or(tick, |d| tick.min(d.saturating_sub(begin.elapsed())));
            let ready = self.rings.poller.wait(Some(timeout)).map_err(Error::system("epoll_wait"))?;
            self.take_signals()?;
            self.sources.python_arrives(Arrival::WhenLoaded, &self.setup);
            if ready.iter().any(|r| r.token == CONTROL) && self.obey()? {
                self.phase.is_stop_requested = true;
                if let Some(child) = &self.child {
                    let _ = signal::send(child.pid(), SIGTERM);
                }
            }
            for hung in ready.iter().filter(|r| r.hung_up && r.token != SIGNALS) {
                self.rings.hung_up(&self.setup.opened, hung.token as usize);
            }
            self.open_again();
            self.drain(false);
            if hurry > 0 {
                // A record waits until a later pass has found all that is older; let that be now.
                self.drain(false);
            }
            self.climb();
            if let Some(child) = &mut self.child {
                // Not only after a signal: it may have gone to a thread that does not block it.
                self.phase.ending = child.try_wait().map_err(Error::system("waitpid"))?;
            }
            let may_be_gone = last_look.elapsed() >= TARGETS_LOOK || ready.iter().any(|r| r.hung_up);
            if may_be_gone {
                last_look = Instant::now();
            }
            let targets_gone = self.child.is_none() && may_be_gone && self.are_targets_gone();
            let is_stopped = self.phase.is_stop_requested
                || self.signals.came().is_some()
                || self.opts.span.ends_after.is_some_and(|most| begin.elapsed() >= most);
            if self.phase.ending.is_some() || targets_gone || (is_stopped && self.child.is_none()) {
                return Ok(());
            }
            if recording && self.shared.must_stop.load(Ordering::Relaxed) {
                recording = false;
                let _ = self.setup.opened.disable(&self.setup.plan);
                if self.child.is_none() {
                    return Ok(());
                }
            }
        }
    }

    /// A thousand looks a second find a little more of deep stacks, and take a twentieth of a CPU.
    fn most_hurry(&self) -> usize {
        let waits = self.opts.off_cpu.as_ref();
        let is_cheap = waits.is_some_and(|waits| waits.detail == WaitDetail::Few);
        if is_cheap { 1 } else { TICKS.len() - 1 }
    }

    /// Signals that end the recording, and those that ask for a snapshot.
    fn take_signals(&mut self) -> Result<(), Error> {
        let is_recorded = self.opts.target.whom == Whom::Command;
        let role = if is_recorded { SignalRole::Recorded } else { SignalRole::Stopwatch };
        let command = self.child.as_ref().map(|child| RunningCommand::of(child, role));
        for number in self.signals.take(command).map_err(Error::system("signalfd"))? {
            if number == SIGUSR2 {
                self.keep_now()?;
            }
        }
        if let Some(hint) = self.signals.hint(command) {
            (self.opts.observers.on_notice)(&hint);
        }
        Ok(())
    }

    /// Takes the newest part of the trace while it is stopped.
    pub(super) fn snapshot(&mut self) -> Result<(), Error> {
        self.setup.opened.trace(&self.setup.plan, false).map_err(Error::system("PERF_EVENT_IOC_DISABLE"))?;
        self.take_snapshot();
        self.drain(false);
        self.setup.opened.trace(&self.setup.plan, true).map_err(Error::system("PERF_EVENT_IOC_ENABLE"))
    }

    /// The trace must be stopped.
    pub(super) fn take_snapshot(&mut self) {
        let OpenedEvents { rings, owners, .. } = &mut self.setup.opened;
        for (idx, (ring, owner)) in rings.iter_mut().zip(owners.iter()).enumerate() {
            if let Some(piece) = pieces::take_snapshot(ring, idx as u32, *owner) {
                self.shared.queue.push(piece);
            }
        }
    }

    /// True when nothing can be recorded any more.
    fn are_targets_gone(&self) -> bool {
        if self.tasks.roots.is_empty() {
            return self.rings.watched.iter().all(Option::is_none);
        }
        let has_forked = || self.sources.off_cpu.as_ref().is_some_and(OffCpu::has_targets);
        !self.tasks.roots.iter().any(|&tid| proc::is_alive(tid)) && !has_forked()
    }

    /// One pass over the rings. If there is no room at all, they are left to the kernel, which counts the dropped
    /// records. The `last` pass reads them anyway.
    pub(super) fn drain(&mut self, last: bool) {
        let room = self.shared.queue.room();
        if room == Room::None && !last {
            return;
        }
        // Room for as much as the last passes found: records with stacks are copied each time that it grows.
        let mut bytes = Vec::with_capacity(self.phase.pass_bytes.min(MOST_RESERVED_BYTES));
        drain_into(&mut self.setup.opened.rings, &self.rings.layouts, room, &mut bytes);
        if let Some(off_cpu) = &mut self.sources.off_cpu {
            off_cpu.poll(&self.shared.off_cpu, &mut bytes);
        }
        if let Some(timers) = &mut self.sources.timers {
            timers.poll(&mut bytes);
        }
        // After an empty pass nothing waits for another one, so that an idle target doesn't wake the worker.
        let is_empty = bytes.is_empty();
        self.phase.pass_bytes = bytes.len().max(self.phase.pass_bytes * 3 / 4);
        if !is_empty || last || self.phase.has_waiting {
            self.shared.queue.push(bytes);
        }
        self.phase.has_waiting = !is_empty;
        if self.setup.trace.is_some() {
            let OpenedEvents { rings, owners, .. } = &mut self.setup.opened;
            for (idx, (ring, owner)) in rings.iter_mut().zip(owners.iter()).enumerate() {
                let piece = pieces::take(ring, idx as u32, *owner);
                piece.into_iter().for_each(|piece| self.shared.queue.push(piece));
            }
        }
    }

    /// CPUs that came (back) get events like the others'. Tried again at the next look if that is refused.
    fn open_again(&mut self) {
        for cpu in self.tasks.cpus.look() {
            let filter = if self.tasks.is_filtered {
                self.sources.off_cpu.as_mut().and_then(OffCpu::sample_filter)
            } else {
                None
            };
            let step = self.phase.step_if_on();
            let like = Like { plan: &self.setup.plan, cgroup: self.tasks.cgroup.as_ref(), filter, step };
            let Ok(Some(again)) = self.setup.opened.open_again(cpu, &like) else { continue };
            self.tasks.cpus.opened(cpu);
            again.aliases.iter().for_each(|(new, known)| self.rings.layouts.alias(*new, *known));
            if let Some(before) = again.before {
                self.shared.queue.push(drain(&mut [before], &self.rings.layouts, false));
            }
            self.rings.watch_again(&self.setup.opened, again.ring);
        }
    }

    /// Changes to the snapshot size that the worker wants.
    fn climb(&mut self) {
        let wanted = self.shared.wanted_step.load(Ordering::Relaxed);
        if wanted != self.phase.step
            && !self.phase.is_paused
            && self.setup.opened.change_step(&self.setup.plan, self.phase.step, wanted).is_ok()
        {
            self.phase.step = wanted;
        }
    }
}
