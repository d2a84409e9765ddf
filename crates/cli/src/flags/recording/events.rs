//! Event texts turned into requests: groups, terms, filters.

use perfdata::AttrFlags;
use perfdata::abi::PERF_TYPE_BREAKPOINT;
use record::event::{CallGraphTerm, Error, EventSpec, Fault, SystemSource, Terms, parse_branch_filter};
use record::opts::{CallGraph, EventRequest};

use crate::flags::event_args::EventArgs;

/// The events to sample, in order.
///
/// # Errors
/// An event text that can't be read.
pub fn parse(args: &EventArgs) -> Result<Vec<EventRequest>, Error> {
    let specs = args.parse(&SystemSource::new())?;
    specs.iter().enumerate().map(|(index, spec)| request(index, spec)).collect()
}

/// Terms that a recording can't follow, with the reason.
fn refusal(terms: &Terms) -> Option<Fault> {
    let refuse = |term, why| Some(Fault::NotRecorded { term, why });
    match terms {
        Terms { time: Some(false), .. } => {
            refuse("time", "records of all CPUs are put in order by their times")
        }
        Terms { overwrite: Some(true), .. } => {
            refuse("overwrite", "rings are emptied all the time; --max-size bounds the file instead")
        }
        Terms { percore: true, .. } => refuse("percore", "only counts are had per core: tally stat"),
        Terms { max_events: Some(_), .. } => {
            refuse("nr", "events don't end one by one; --max-size bounds the file")
        }
        _ => None,
    }
}

/// How one event's stacks are recorded, if its terms specify it.
fn call_graph(terms: &Terms) -> Option<CallGraph> {
    let bytes = terms.stack_size_bytes;
    match terms.call_graph {
        Some(CallGraphTerm::No) => Some(CallGraph::None),
        Some(CallGraphTerm::FramePointer) => Some(CallGraph::FramePointer),
        Some(CallGraphTerm::Lbr) => Some(CallGraph::Lbr),
        Some(CallGraphTerm::Live) => Some(CallGraph::Live),
        Some(CallGraphTerm::Dwarf) => Some(CallGraph::Dwarf(bytes.unwrap_or(8192))),
        None => bytes.map(CallGraph::Dwarf),
    }
}

fn request(index: usize, spec: &EventSpec) -> Result<EventRequest, Error> {
    let at_fault = |fault| Error {
        text: spec.name.clone(),
        span: 0..spec.name.len(),
        fault: Box::new(fault),
        nearest: Vec::new(),
    };
    if let Some(fault) = refusal(&spec.terms) {
        return Err(at_fault(fault));
    }
    let mut attr = spec.attr;
    let terms = &spec.terms;
    let own_rate = terms.period.or(terms.freq_hz).is_some();
    if let Some(period) = terms.period.or(terms.freq_hz) {
        attr.sample_period = period;
        attr.flags.set(AttrFlags::FREQ, terms.period.is_none());
    } else if attr.type_ == PERF_TYPE_BREAKPOINT {
        // Every hit, unless requested otherwise.
        attr.sample_period = 1;
    }
    if let Some(most) = terms.max_stack {
        attr.sample_max_stack = most;
    }
    if let Some(filter) = &terms.branch_type {
        attr.branch_sample_type = parse_branch_filter(filter).map_err(at_fault)?;
    }
    Ok(EventRequest {
        name: spec.name.clone(),
        attr,
        leader: spec.leader_of(index),
        own_rate: own_rate || attr.sample_period != 0,
        leader_samples: spec.reads_group(),
        call_graph: call_graph(terms),
        filter: spec.filter.clone(),
        no_inherit: terms.inherit == Some(false),
        aux: spec.aux,
    })
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
    #[test]
    fn stacks_are_had_as_each_events_terms_say_and_terms_that_cannot_be_followed_are_refused() {
        let of = |text: &str| parse(&EventArgs::of(&[text])).map(|events| events[0].clone());
        let mode = |text: &str| of(text).expect("a software event").call_graph;
        assert_eq!(mode("cpu-clock/call-graph=dwarf,stack-size=4096/"), Some(CallGraph::Dwarf(4096)));
        assert_eq!(mode("cpu-clock/call-graph=no/"), Some(CallGraph::None));
        assert_eq!(mode("cpu-clock/period=9/"), None);
        let deep = of("cpu-clock/max-stack=7,branch_type=any_call/").expect("a software event");
        assert_eq!((deep.attr.sample_max_stack, deep.attr.branch_sample_type), (7, 0x10));
        for refused in ["time=0", "overwrite", "percore", "nr=3", "branch_type=zig"] {
            assert!(of(&format!("cpu-clock/{refused}/")).is_err(), "{refused}");
        }
    }
}
