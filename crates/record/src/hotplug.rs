//! CPUs that go offline while recording. The kernel closes the events of such a CPU for good, also when it comes back.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::proc;
use crate::summary::Notice;

/// Looks so often: a CPU takes longer to go and come back.
const EVERY: Duration = Duration::from_millis(200);

/// Watches the CPUs whose events are not of tasks.
#[derive(Debug)]
pub struct CpuWatch {
    cpus: Vec<u32>,
    went: BTreeSet<u32>,
    looked: Instant,
}

impl CpuWatch {
    /// For these CPUs, all online.
    #[must_use]
    pub fn new(cpus: &[u32]) -> Self {
        Self { cpus: cpus.to_vec(), went: BTreeSet::new(), looked: Instant::now() }
    }

    /// To be called often.
    pub fn look(&mut self) {
        if !self.cpus.is_empty() && self.looked.elapsed() >= EVERY {
            self.looked = Instant::now();
            self.compare(&proc::online_cpus());
        }
    }

    fn compare(&mut self, online: &[u32]) {
        self.went.extend(self.cpus.iter().filter(|cpu| !online.contains(cpu)));
    }

    /// What the user should hear; `None` if all stayed.
    #[must_use]
    pub fn notice(&self) -> Option<Notice> {
        (!self.went.is_empty()).then(|| Notice::CpusWent(self.went.iter().copied().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_went_is_told_even_if_it_came_back() {
        let mut watch = CpuWatch::new(&[0, 1, 3]);
        watch.compare(&[0, 1, 2, 3]);
        assert_eq!(watch.notice(), None);
        watch.compare(&[0, 2, 3]);
        watch.compare(&[0, 1, 2, 3]);
        assert_eq!(watch.notice(), Some(Notice::CpusWent(vec![1])));
    }
}
