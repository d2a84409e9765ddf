//! Numbers of a sample, and other data of it that the views requested.

use crate::profile::{ExtraDimensions, ExtraId, SampleWord, Sums};
use perfdata::{Sample, Weight};

use super::Session;

impl Session {
    pub(super) fn sums_of(&self, event: usize, sample: &Sample<'_>) -> Sums {
        let weight = weight_of(sample);
        let period = match self.opts.cost_as_period {
            // As perf: an access without a cost still happened.
            true => weight.max(1),
            false => sample.period.unwrap_or(self.events.of(event).fixed_period),
        };
        Sums { count: 1, period, weight, latency: self.latency_of(period) }
    }

    /// A period's part of the wall clock, in thousandths.
    fn latency_of(&self, period: u64) -> u64 {
        if self.opts.dimensions.parallelism { period.saturating_mul(1000) / self.running.now() } else { 0 }
    }

    pub(super) fn extra_of(&mut self, event: usize, sample: &Sample<'_>) -> ExtraId {
        if !self.opts.dimensions.has_extra() {
            return ExtraId::NONE;
        }
        let cgroup = if self.opts.dimensions.cgroup { self.cgroup_of(sample) } else { None };
        let wanted = &self.opts.dimensions;
        let trace = match (&self.opts.trace_text, sample.raw) {
            (Some(texts), Some(raw)) if wanted.trace => texts.text(event, raw),
            _ => None,
        };
        let mut fields = Vec::new();
        if let (Some(texts), Some(raw)) = (&self.opts.trace_text, sample.raw) {
            for name in &wanted.trace_fields {
                let text = texts.field(event, raw, name).unwrap_or_default();
                fields.push(self.profile.strings.intern(&text));
            }
        }
        let extra = ExtraDimensions {
            time_ns: wanted
                .time_slice_ns
                .and_then(|slice| Some(sample.time_ns? / slice.max(1) * slice.max(1))),
            weight: wanted.weight.then(|| weight_of(sample)),
            data_addr: sample.addr.filter(|_| wanted.data_addr).map(|addr| addr.0),
            cgroup,
            labels: if wanted.labels { self.labels.of_sample(sample) } else { None },
            branch: None,
            trace: trace.map(|text| self.profile.strings.intern(&text)),
            fields,
            transaction: sample.transaction.filter(|_| wanted.transaction),
            sample: wanted.sample.then_some(self.profile.diagnostics.samples_read),
            words: wanted
                .words
                .iter()
                .map(|word| match word {
                    SampleWord::Parallelism => Some(self.running.now()),
                    word => word.of(sample),
                })
                .collect(),
        };
        self.profile.intern_extra(extra)
    }

    /// The sample's own cgroup, or that of its process; `None` before the first sample that states it.
    fn cgroup_of(&mut self, sample: &Sample<'_>) -> Option<u64> {
        let (pid, _) = sample.pid_tid?;
        let own = sample.cgroup.filter(|id| *id != 0);
        if let Some(id) = own {
            self.cgroups.insert(pid, id);
        }
        own.or_else(|| self.cgroups.get(&pid).copied())
    }
}

fn weight_of(sample: &Sample<'_>) -> u64 {
    match sample.weight {
        None => 0,
        Some(Weight::Full(weight)) => weight,
        Some(Weight::Struct { var1, .. }) => u64::from(var1),
    }
}
