//! The events of a CPU that came back, or came, while recording.

use std::fs::File;
use std::os::fd::BorrowedFd;

use super::{OpenedEvents, Places, RefusedEvent, Start};
use crate::open::plan::Plan;
use crate::sys::Ring;

/// The data needed to make the events of one more CPU like those of the others.
pub struct Like<'a> {
    /// The plan they were opened by.
    pub plan: &'a Plan,
    /// Only tasks of this cgroup.
    pub cgroup: Option<&'a File>,
    /// BPF program that decides which samples are wanted.
    pub filter: Option<BorrowedFd<'a>>,
    /// The step of the ladder that samples; `None` while nothing does.
    pub step: Option<usize>,
}

/// The events of a CPU, opened again.
#[derive(Debug)]
pub struct Again {
    /// Index of their ring.
    pub ring: usize,
    /// The ring that was there before, which may still hold records; none of a new CPU.
    pub before: Option<Ring>,
    /// The kernel's new ids, each with the id of the same event that the file knows already.
    pub aliases: Vec<(u64, u64)>,
}

impl OpenedEvents {
    /// Opens the events of this CPU again, in place of those that the kernel has closed. Those of tasks go on by
    /// themselves. `None` if the CPU is gone again, or its events write traces, which end with it.
    pub fn open_again(&mut self, cpu: u32, like: &Like<'_>) -> Result<Option<Again>, RefusedEvent> {
        if like.plan.opened.iter().any(|event| event.aux) {
            return Ok(None);
        }
        let cgroup = like.cgroup.and_then(|file| file.try_clone().ok());
        let places = Places { tids: Vec::new(), cpus: vec![cpu], cgroup, beside: Vec::new() };
        let mut new = match Self::open(like.plan, &places, Start::ByHand, self.pages) {
            Ok(new) => new,
            Err(refused) if refused.source.raw_os_error() == Some(libc::ENODEV) => return Ok(None),
            Err(refused) => return Err(refused),
        };
        // They have their own for the threads, which stay.
        new.counters
            .retain(|counter| !like.plan.opened[counter.event].of_tasks || self.are_of_cpus(counter.event));
        let refuse = |source| RefusedEvent { event: None, place: format!(" on CPU {cpu}"), source };
        if let Some(filter) = like.filter {
            new.set_bpf(like.plan, filter).map_err(refuse)?;
        }
        // A filter that was taken once is taken again; should it not be, more is recorded than was asked for.
        let _ = new.set_filters(like.plan);
        if let Some(step) = like.step {
            new.enable(like.plan, step).map_err(refuse)?;
        }
        Ok(Some(self.graft(like.plan, cpu, new)))
    }

    /// True if this event is opened for CPUs here.
    fn are_of_cpus(&self, event: usize) -> bool {
        self.counters.iter().any(|counter| counter.event == event && counter.of_cpu)
    }

    /// Puts them where those before were.
    fn graft(&mut self, plan: &Plan, cpu: u32, mut new: Self) -> Again {
        let key = (-1, Some(cpu));
        let known = self.ring_of.get(&key).copied();
        let ring = known.map_or(self.rings.len(), |(ring, _)| ring);
        let mut aliases = Vec::new();
        if known.is_some() {
            let lost = self.dropped(plan).into_iter();
            let closed: Vec<u64> =
                self.counters.iter().filter(|c| c.ring == ring && c.of_cpu).map(|c| c.id).collect();
            self.dropped_before = lost.filter(|dropped| closed.contains(&dropped.id)).collect();
        }
        for mut counter in new.counters.drain(..) {
            counter.ring = ring;
            let event = counter.event;
            let same = |other: &&mut super::OpenCounter| other.event == event && other.of_cpu;
            let here = self.counters.iter_mut().filter(same).find(|other| other.ring == ring);
            if let Some(before) = here {
                aliases.push((counter.id, before.id));
                counter.id = before.id;
                *before = counter;
                continue;
            }
            if let Some(any) = self.counters.iter_mut().find(same) {
                aliases.push((counter.id, any.id));
                counter.id = any.id;
            }
            self.counters.push(counter);
        }
        let before = new.rings.pop().and_then(|new| match self.rings.get_mut(ring) {
            Some(old) => Some(std::mem::replace(old, new)),
            None => {
                self.rings.push(new);
                self.owners.push(crate::pt::pieces::Owner::Cpu(cpu));
                let owner = self.counters.iter().position(|counter| counter.ring == ring).unwrap_or(0);
                self.ring_of.insert(key, (ring, owner));
                None
            }
        });
        self.redirect(ring, cpu);
        Again { ring, before, aliases }
    }

    /// Events of tasks on this CPU write to its ring.
    fn redirect(&self, ring: usize, cpu: u32) {
        let Some(owner) = self.ring_of.get(&(-1, Some(cpu))).and_then(|(_, owner)| self.counters.get(*owner))
        else {
            return;
        };
        for counter in self.counters.iter().filter(|counter| counter.ring == ring && !counter.of_cpu) {
            // Refused for a task that has ended: it has nothing more to report.
            let _ = counter.counter.set_output(&owner.counter);
        }
    }
}
