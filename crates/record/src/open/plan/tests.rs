//! The plan of events to open for given options.

use super::*;
use crate::session::opts::{Rate, SampleExtras, SamplingOpts, SpanOpts, StackOpts};

fn offer() -> Offer {
    Offer {
        unwind_regs: 0xff_01ff,
        max_rate_hz: 4000,
        snapshot_steps: [24_576, 65_528],
        kernel: true,
        build_id_records: true,
        lost_counts: true,
    }
}

fn event(config: u64) -> EventRequest {
    EventRequest::plain("e", Attr { type_: PERF_TYPE_SOFTWARE, config, ..Attr::default() })
}

fn sampled_at(rate: Rate, opts: RecordOpts) -> RecordOpts {
    RecordOpts { sampling: SamplingOpts { rate, ..opts.sampling }, ..opts }
}

fn live() -> RecordOpts {
    RecordOpts {
        stacks: StackOpts { call_graph: CallGraph::Live, ..StackOpts::default() },
        ..RecordOpts::default()
    }
}

#[test]
fn a_live_recording_has_callchains_in_the_file_and_stacks_only_in_the_kernel() {
    let plan = plan(&live(), &[event(0)], &offer());
    assert_eq!(plan.opened.len(), 3);
    assert_eq!(plan.tracking(), Some(0));
    let [file] = &plan.file[..] else { panic!("one event") };
    assert!(file.attr.samples(PERF_SAMPLE_CALLCHAIN));
    assert_eq!(file.attr.sample_type & (PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER), 0);
    assert!(file.attr.flags.has(AttrFlags::MMAP2 | AttrFlags::COMM | AttrFlags::TASK));
    assert_eq!(plan.opened[1].attr.sample_stack_user, 24_576);
    assert!(!plan.opened[1].attr.flags.has(AttrFlags::EXCLUDE_CALLCHAIN_USER));
}

#[test]
fn members_of_a_group_follow_the_leader_of_their_own_step() {
    let member = EventRequest { leader: Some(0), ..event(2) };
    let plan = plan(&live(), &[event(0), member], &offer());
    let leaders: Vec<_> = plan.opened.iter().map(|e| (e.step, e.leader)).collect();
    assert_eq!(
        leaders,
        [(None, None), (Some(0), None), (Some(1), None), (Some(0), Some(1)), (Some(1), Some(2))]
    );
}

#[test]
fn a_sampling_leader_has_one_snapshot_size_and_is_not_inherited() {
    let leader = EventRequest { leader_samples: true, ..event(0) };
    let member = EventRequest { leader: Some(0), leader_samples: true, ..event(2) };
    let plan = plan(&live(), &[leader, member], &offer());
    assert_eq!(plan.opened.len(), 3);
    assert_eq!((plan.opened[1].step, plan.opened[2].leader), (None, Some(1)));
    assert!(!plan.opened[1].attr.flags.has(AttrFlags::INHERIT));
    assert_eq!(plan.opened[2].attr.sample_period, 0);
}

#[test]
fn each_event_may_have_stacks_of_its_own_kind() {
    let of = |call_graph| EventRequest { call_graph: Some(call_graph), ..event(0) };
    let events = [event(0), of(CallGraph::Dwarf(4096)), of(CallGraph::FramePointer), of(CallGraph::None)];
    let plan = plan(&live(), &events, &offer());
    let stack_bytes: Vec<u32> = plan.opened[1..].iter().map(|e| e.attr.sample_stack_user).collect();
    assert_eq!(stack_bytes, [24_576, 65_528, 4096, 0, 0]);
    let in_file: Vec<_> = plan.file.iter().map(|e| e.attr.samples(PERF_SAMPLE_STACK_USER)).collect();
    assert_eq!(in_file, [false, true, false, false]);
    assert!(plan.file[2].attr.samples(PERF_SAMPLE_CALLCHAIN));
    assert!(!plan.file[3].attr.samples(PERF_SAMPLE_CALLCHAIN));
    assert_eq!(plan.unwound(), [false, true, true, false, false, false]);
}

#[test]
fn an_event_that_the_kernel_counts_has_no_period_in_its_samples_if_it_is_to_wait_for_a_hundred() {
    let of = |config, rate| {
        let attr = plan(&sampled_at(rate, live()), &[event(config)], &offer()).file[0].attr;
        (attr.sample_period, attr.samples(PERF_SAMPLE_PERIOD))
    };
    assert_eq!(of(PERF_COUNT_SW_PAGE_FAULTS, Rate::Period(100)), (100, false));
    assert_eq!(of(PERF_COUNT_SW_PAGE_FAULTS, Rate::Period(1)), (1, true));
    assert_eq!(of(PERF_COUNT_SW_CPU_CLOCK, Rate::Period(100)), (100, true));
    assert!(of(PERF_COUNT_SW_PAGE_FAULTS, Rate::Hz(99)).1);
}

#[test]
fn without_samples_events_only_tell_of_processes() {
    let plan = plan(
        &RecordOpts { sampling: SamplingOpts { no_samples: true, ..SamplingOpts::default() }, ..live() },
        &[event(0)],
        &offer(),
    );
    assert!(plan.opened.iter().all(|e| e.attr.sample_period == 0 && e.attr.sample_stack_user == 0));
    assert!(plan.opened[0].attr.flags.has(AttrFlags::MMAP2));
}

#[test]
fn what_is_lost_is_counted_where_no_record_has_to_hold_it() {
    let counts = |opts: &RecordOpts, event| {
        let plan = plan(opts, &[event], &offer());
        assert!(plan.file.iter().all(|e| e.attr.read_format & PERF_FORMAT_LOST == 0));
        plan.opened.iter().all(|e| e.attr.read_format == PERF_FORMAT_LOST)
    };
    assert!(counts(&live(), event(0)));
    let stat =
        RecordOpts { extra: SampleExtras { stat: true, ..SampleExtras::default() }, ..RecordOpts::default() };
    assert!(!counts(&stat, event(0)));
    assert!(!counts(&RecordOpts::default(), EventRequest { leader_samples: true, ..event(0) }));
}

#[test]
fn samples_are_fewer_beside_time_off_the_cpu_and_each_hit_of_a_tracepoint_counts_unless_a_rate_was_given() {
    let tracepoint = EventRequest::plain("t", Attr { type_: PERF_TYPE_TRACEPOINT, ..Attr::default() });
    let rate = |event: &EventRequest, opts: RecordOpts| {
        let plan = plan(&opts, std::slice::from_ref(event), &offer());
        (plan.file[0].attr.sample_period, plan.file[0].attr.is_freq())
    };
    let off_cpu = || RecordOpts { off_cpu: Some(crate::off_cpu::OffCpuOpts::default()), ..live() };
    let asked = |opts, hz| sampled_at(Rate::Hz(hz), opts);
    assert_eq!(rate(&event(0), live()), (997, true));
    assert_eq!(rate(&event(0), off_cpu()), (499, true));
    assert_eq!(rate(&event(0), asked(off_cpu(), 997)), (997, true));
    assert_eq!(rate(&tracepoint, off_cpu()), (1, false));
    assert_eq!(rate(&tracepoint, asked(live(), 997)), (997, true));
}

#[test]
fn mappings_are_told_while_sampling_waits() {
    let opts =
        RecordOpts { span: SpanOpts { delay: Delay::Off, ..SpanOpts::default() }, ..RecordOpts::default() };
    assert_eq!(plan(&opts, &[event(0)], &offer()).tracking(), Some(0));
    assert_eq!(plan(&RecordOpts::default(), &[event(0)], &offer()).tracking(), None);
}

#[test]
fn dwarf_mode_copies_what_was_asked_into_the_file() {
    let opts = RecordOpts {
        stacks: StackOpts { call_graph: CallGraph::Dwarf(8192), ..StackOpts::default() },
        ..RecordOpts::default()
    };
    let plan = plan(&opts, &[event(0)], &offer());
    assert_eq!(plan.opened.len(), 1);
    assert_eq!(plan.file[0].attr.sample_stack_user, 8192);
}
