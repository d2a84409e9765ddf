//! Map of threads on CPUs, a line for each switch.

use crate::events::sched::{SeenEvent, Watcher};
use crate::reading::tracepoints::name_and_pid;
use crate::terminal::out::{self, TextOutput};
use display::number::seconds;
use profile::session::Session;
use profile::tracepoints::sched_events::SchedAction;
use profile::tracepoints::sched_events::cpu_map::CpuMap;
use rustc_hash::FxHashMap;
use std::io::Write;

/// Prints while the recording is read.
pub struct MapText {
    map: CpuMap,
    /// CPUs to show; all if there is none.
    cpus: Vec<i32>,
    /// The names printed so far: a line for each, and again after an exec.
    named: FxHashMap<i32, String>,
    out: TextOutput,
}

impl MapText {
    /// A map with a column for each CPU up to the highest one seen so far.
    pub fn new(cpus: Vec<i32>) -> Self {
        Self { map: CpuMap::default(), cpus, named: FxHashMap::default(), out: out::stdout() }
    }

    /// # Errors
    /// If printing fails.
    pub fn finish(mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }

    fn is_shown(&self, cpu: usize) -> bool {
        self.cpus.is_empty() || self.cpus.iter().any(|&shown| usize::try_from(shown) == Ok(cpu))
    }
}

impl Watcher for MapText {
    fn seen(&mut self, seen: SeenEvent, session: &mut Session) -> anyhow::Result<()> {
        let (SchedAction::Switch { next, .. }, Ok(cpu)) = (seen.event.action, u16::try_from(seen.event.cpu))
        else {
            return Ok(());
        };
        let name_of = self.map.switch_to(cpu, next);
        if !self.is_shown(cpu.into()) {
            return Ok(());
        }
        let mut columns = String::new();
        for (at, name) in self.map.current().iter().enumerate().filter(|(at, _)| self.is_shown(*at)) {
            let mark = if at == usize::from(cpu) { '*' } else { ' ' };
            let [first, second] = name.unwrap_or([' ', ' ']);
            columns.extend([mark, first, second, ' ']);
        }
        write!(self.out, "  {columns}  {:>12} secs ", seconds(seen.event.time_ns))?;
        let [first, second] = name_of;
        let (name, _) = name_and_pid(session, next);
        if self.named.get(&next) != Some(&name) {
            write!(self.out, "{first}{second} => {}:{next}", out::harmless(&name))?;
            self.named.insert(next, name);
        }
        writeln!(self.out)?;
        Ok(())
    }
}
