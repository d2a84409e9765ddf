//! CPUs that go offline while recording, and come. The kernel closes the events of a CPU that goes for good; when it
//! is back they are opened again ([`crate::open::OpenedEvents::open_again`]).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::accounting::summary::Notice;
use crate::machine::proc::OnlineCpus;

/// Time between looks. Tasks that begin on a CPU after it comes online and before the next look aren't reported.
const EVERY: Duration = Duration::from_millis(50);
/// The same in a recording that goes on all the time.
const SELDOM: Duration = Duration::from_millis(250);

/// Watches the CPUs whose events are not of tasks.
#[derive(Debug)]
pub struct CpuWatch {
    /// Those that have events.
    cpus: BTreeSet<u32>,
    /// Those that have none since they went offline.
    gone: BTreeSet<u32>,
    /// All that ever went, and of them those that have events again.
    went: BTreeSet<u32>,
    again: BTreeSet<u32>,
    /// CPUs that were not there when the recording began.
    new: BTreeSet<u32>,
    takes_new: bool,
    looked: Instant,
    every: Duration,
    online: OnlineCpus,
}

impl CpuWatch {
    /// For these CPUs, all online; `takes_new` if all CPUs are wanted, also those that come.
    #[must_use]
    pub fn new(cpus: &[u32], takes_new: bool) -> Self {
        Self {
            cpus: cpus.iter().copied().collect(),
            gone: BTreeSet::new(),
            went: BTreeSet::new(),
            again: BTreeSet::new(),
            new: BTreeSet::new(),
            takes_new: takes_new && !cpus.is_empty(),
            looked: Instant::now(),
            every: EVERY,
            online: OnlineCpus::open(),
        }
    }

    /// Looks less often.
    #[must_use]
    pub fn seldom(self) -> Self {
        Self { every: SELDOM, ..self }
    }

    /// To be called often: the CPUs that are online and whose events should be opened. Each is returned again until
    /// [`CpuWatch::opened`].
    #[must_use]
    pub fn look(&mut self) -> Vec<u32> {
        if self.cpus.is_empty() && self.gone.is_empty() || self.looked.elapsed() < self.every {
            return Vec::new();
        }
        self.looked = Instant::now();
        let online = self.online.read();
        self.compare(&online)
    }

    fn compare(&mut self, online: &[u32]) -> Vec<u32> {
        let left: Vec<u32> = self.cpus.iter().filter(|cpu| !online.contains(cpu)).copied().collect();
        for cpu in left {
            self.cpus.remove(&cpu);
            self.gone.insert(cpu);
            self.went.insert(cpu);
            self.again.remove(&cpu);
        }
        let wants = |cpu: &&u32| self.gone.contains(cpu) || self.takes_new && !self.cpus.contains(cpu);
        online.iter().filter(wants).copied().collect()
    }

    /// The events of this CPU are open.
    pub fn opened(&mut self, cpu: u32) {
        let has_been_here = self.gone.remove(&cpu);
        let list = if has_been_here { &mut self.again } else { &mut self.new };
        list.insert(cpu);
        self.cpus.insert(cpu);
    }

    /// Notices for the user; none if all CPUs stayed.
    pub fn notices(&self) -> impl Iterator<Item = Notice> {
        let list = |cpus: &BTreeSet<u32>| cpus.iter().copied().collect::<Vec<u32>>();
        let gone = self.went.difference(&self.again).copied().collect::<Vec<u32>>();
        let told =
            [Notice::CpusWent(gone), Notice::CpusAgain(list(&self.again)), Notice::CpusNew(list(&self.new))];
        let is_some = |notice: &Notice| !matches!(notice, Notice::CpusWent(c) | Notice::CpusAgain(c) | Notice::CpusNew(c) if c.is_empty());
        told.into_iter().filter(is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(watch: &CpuWatch) -> Vec<Notice> {
        watch.notices().collect()
    }

    #[test]
    fn a_cpu_that_went_is_opened_again_once_it_is_back() {
        let mut watch = CpuWatch::new(&[0, 1, 3], true);
        assert_eq!((watch.compare(&[0, 1, 3]), told(&watch)), (vec![], vec![]));
        assert!(watch.compare(&[0, 3]).is_empty());
        assert_eq!(told(&watch), [Notice::CpusWent(vec![1])]);
        // Until its events are open it has none.
        assert_eq!((watch.compare(&[0, 1, 3]), watch.compare(&[0, 1, 3])), (vec![1], vec![1]));
        watch.opened(1);
        assert_eq!((watch.compare(&[0, 1, 3]), told(&watch)), (vec![], vec![Notice::CpusAgain(vec![1])]));
        assert_eq!((watch.compare(&[0, 3]), told(&watch)), (vec![], vec![Notice::CpusWent(vec![1])]));
    }

    #[test]
    fn a_new_cpu_counts_only_where_all_are_wanted() {
        let mut watch = CpuWatch::new(&[0], true);
        assert_eq!(watch.compare(&[0, 1]), [1]);
        watch.opened(1);
        assert_eq!(told(&watch), [Notice::CpusNew(vec![1])]);
        assert!(CpuWatch::new(&[0], false).compare(&[0, 1]).is_empty());
        // Events of tasks are on all CPUs anyway.
        assert!(CpuWatch::new(&[], true).compare(&[0, 1]).is_empty());
    }
}
