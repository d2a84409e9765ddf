//! Event texts turned into requests: groups, terms, filters.

use perfdata::AttrFlags;
use perfdata::abi::PERF_TYPE_BREAKPOINT;
use record::event::{CallGraphTerm, EventSpec, SystemSource};
use record::opts::EventRequest;

use crate::event_args::EventArgs;

/// The events to sample, in order.
///
/// # Errors
/// An event text that can't be read.
pub fn parse(args: &EventArgs) -> Result<Vec<EventRequest>, record::event::Error> {
    let specs = args.parse(&SystemSource::new())?;
    Ok(specs.iter().enumerate().map(|(index, spec)| request(index, spec)).collect())
}

fn request(index: usize, spec: &EventSpec) -> EventRequest {
    let mut attr = spec.attr;
    let terms = &spec.terms;
    let own_rate = terms.period.or(terms.freq_hz).is_some();
    if let Some(period) = terms.period.or(terms.freq_hz) {
        attr.sample_period = period;
        attr.flags.set(AttrFlags::FREQ, terms.period.is_none());
    } else if attr.type_ == PERF_TYPE_BREAKPOINT {
        // Every hit, unless told otherwise.
        attr.sample_period = 1;
    }
    if let Some(most) = terms.max_stack {
        attr.sample_max_stack = most;
    }
    if terms.inherit == Some(false) {
        attr.flags.set(AttrFlags::INHERIT, false);
    }
    EventRequest {
        name: spec.name.clone(),
        attr,
        leader: spec.leader_of(index),
        own_rate: own_rate || attr.sample_period != 0,
        leader_samples: spec.reads_group(),
        without_chain: terms.call_graph == Some(CallGraphTerm::No),
        filter: spec.filter.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_and_groups_reach_the_request() {
        let args = EventArgs::of(&["{cpu-clock,page-faults}:S", "task-clock/period=1000/"]);
        let events = parse(&args).expect("all software events");
        assert_eq!(events.len(), 3);
        assert_eq!((events[0].leader, events[1].leader), (None, Some(0)));
        assert!(events[1].leader_samples);
        assert!(events[2].own_rate && events[2].attr.sample_period == 1000);
    }
}
