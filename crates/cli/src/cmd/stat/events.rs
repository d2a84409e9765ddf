//! Which events `tally stat` counts: those of -e, or perf's choice, in the cgroups asked for.

use anyhow::bail;
use record::event::{self, EventGroup, EventSpec, SystemSource};

use super::Args;

/// The counts that Intel's top-down method starts from, where the kernel offers them.
const TOPDOWN: [&str; 5] =
    ["slots", "topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound"];

/// perf's choice for -T.
const TRANSACTION: &str =
    "task-clock,{instructions,cycles,cpu/cycles-t/,cpu/tx-start/,cpu/el-start/,cpu/cycles-ct/}";

impl Args {
    /// The events with the cgroups of -G or --for-each-cgroup.
    pub(super) fn in_cgroups(&self, mut events: Vec<EventSpec>) -> anyhow::Result<Vec<EventSpec>> {
        let given = self.cgroups.is_some() || !self.for_each_cgroup.is_empty();
        if given && !self.is_system_wide() {
            bail!("-G and --for-each-cgroup count on CPUs, not in a command: add -a or -C CPUS");
        }
        if let Some(cgroups) = &self.cgroups {
            let names: Vec<&str> = cgroups.split(',').collect();
            if names.len() > events.len() {
                bail!("-G {cgroups}: {} cgroups for {} events", names.len(), events.len());
            }
            for (nth, event) in events.iter_mut().enumerate() {
                let name = if names.len() == 1 { names.first() } else { names.get(nth) };
                event.cgroup = name.filter(|name| !name.is_empty()).map(|name| (*name).to_owned());
            }
        }
        let each = self.for_each_cgroup.iter().enumerate().flat_map(|(nth, cgroup)| {
            let first = nth * events.len();
            events.iter().map(move |event| event.clone().in_cgroup(cgroup, first))
        });
        let each: Vec<EventSpec> = each.collect();
        Ok(if each.is_empty() { events } else { each })
    }

    /// The events, before cgroups.
    pub(super) fn choose_events(&self) -> Result<Vec<EventSpec>, event::Error> {
        let source = SystemSource::new();
        if self.topdown {
            return event::parse(&format!("{{{}}}", TOPDOWN.join(",")), &source);
        }
        if self.transaction {
            return event::parse(TRANSACTION, &source);
        }
        let mut events = if self.null {
            Vec::new()
        } else if self.events.is_empty() {
            event::parse(&self.usual_events(), &source)?
        } else {
            self.events.parse(&source)?
        };
        for event in &mut events {
            if self.all_user {
                event.only_user();
            } else if self.all_kernel {
                event.only_kernel();
            }
        }
        if self.group && events.iter().all(|event| event.group.is_none()) {
            events.iter_mut().for_each(|event| event.group = Some(EventGroup { leader: 0, name: None }));
        }
        Ok(events)
    }

    /// perf's choice: what nearly every run wants to know, and more with each -d.
    fn usual_events(&self) -> String {
        let clock = if self.is_system_wide() { "cpu-clock" } else { "task-clock" };
        let stalled = |side: &str| {
            let file = format!("/sys/bus/event_source/devices/cpu/events/stalled-cycles-{side}");
            if std::fs::exists(file).unwrap_or(false) {
                format!("stalled-cycles-{side},")
            } else {
                String::new()
            }
        };
        let mut all = format!(
            "{clock},context-switches,cpu-migrations,page-faults,cycles,{}{}instructions,branches,branch-misses",
            stalled("frontend"),
            stalled("backend")
        );
        let more = [
            ",L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses",
            ",L1-icache-loads,L1-icache-load-misses,dTLB-loads,dTLB-load-misses,iTLB-loads,iTLB-load-misses",
            ",L1-dcache-prefetches,L1-dcache-prefetch-misses",
        ];
        more.iter().take(self.detailed.into()).for_each(|m| all.push_str(m));
        all
    }
}
