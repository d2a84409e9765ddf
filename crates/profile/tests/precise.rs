//! Samples whose address and chain were taken at different instructions: precise events, LBR call
//! stacks, chains without their kernel or user part.

use perfdata::text::to_perf_data;
use perfdata::{Order, PerfData};
use profile::Profile;
use profile::reason::StackEnd;
use profile::session::{Session, SessionOpts, UnwoundStack};
use profile::source::{DsoSource, NamedFrame, Want};
use profile::table::Dso;
use std::ops::ControlFlow;

/// Functions of 0x100 bytes: offset 0x1234 of a file is `f12`, of the kernel `k12`. `/bin/stripped` has none.
struct Functions;

impl DsoSource for Functions {
    fn symbolize(&self, dso: &Dso, addrs: &[u64], _: Want) -> Vec<Result<Vec<NamedFrame>, dso::Missing>> {
        let named = |&addr: &u64| {
            if dso.is_unknown() || dso.path == "/bin/stripped" {
                return Err(dso::Missing::NoSymbolTable);
            }
            let name = format!("{}{:x}", if dso.level == 'k' { 'k' } else { 'f' }, (addr & 0xffff) >> 8);
            Ok(vec![NamedFrame { name, start: addr & !0xff, size: 0x100, ..NamedFrame::default() }])
        };
        addrs.iter().map(named).collect()
    }
}

const HEAD: &str = "comm 7/7 t=1 exec app
    mmap2 7/7 t=1 [0x1000,0x9000) off=0x1000 /bin/app
    mmap2 7/7 t=1 [0x21000,0x29000) off=0x1000 /bin/stripped
    mmap -1/0 t=0 [0xffffffff81000000,0xffffffff82000000) off=0xffffffff81000000 mode=kernel [kernel.kallsyms]_text";

fn unsymbolized(events: &str, samples: &str, opts: SessionOpts) -> Profile {
    let bytes = to_perf_data(&format!("{events}\n{HEAD}\n{samples}")).expect("session text");
    let file = PerfData::open(&bytes).expect("a perf.data file");
    let mut session = Session::new(file.events(), file.endian(), opts);
    file.visit(Order::Time, |item| {
        if let Some(job) = session.push(item) {
            // The user part from the "registers": a list of addresses.
            let addrs: Vec<u64> = job.regs.values.iter().collect();
            // Functions are interrupted at their first instruction.
            let exact: Vec<_> = (1..addrs.len()).filter(|&at| addrs[at] & 0xff == 0).collect();
            session.complete(
                job,
                &UnwoundStack { addrs: &addrs, exact: &exact, known: &[], end: StackEnd::ReachedRoot },
            );
        }
        ControlFlow::Continue(())
    });
    session.finish()
}

/// Each distinct path as `leaf <- caller …: period`, unnamed frames by their address.
fn paths_of(profile: &Profile) -> Vec<String> {
    let name = |frame| match profile.frame_names(frame).last() {
        Some(inline) => profile.strings.of(profile.symbols.of(inline.symbol).name).to_owned(),
        None => format!("{:#x}", profile.frames.of(frame).addr),
    };
    let path = |callsite| profile.callsites.leaf_first(callsite).map(name).collect::<Vec<_>>().join(" <- ");
    profile.cells().iter().map(|(key, sums)| format!("{}: {}", path(key.callsite), sums.period)).collect()
}

fn paths(events: &str, samples: &str) -> Vec<String> {
    let mut profile = unsymbolized(events, samples, SessionOpts::default());
    profile.symbolize(&Functions, Want::Names);
    paths_of(&profile)
}

fn one(sample: &str) -> String {
    let all = paths("", sample);
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone()
}

#[test]
fn a_precise_address_replaces_the_interrupts_in_the_same_function() {
    assert_eq!(one("sample 7/7 t=5 ip=0x1210 chain=user,0x1220,0x1310,0x1410"), "f12 <- f13 <- f14: 1");
    let profile =
        unsymbolized("", "sample 7/7 t=5 ip=0x1210 chain=user,0x1220,0x1310", SessionOpts::default());
    let mut named = profile.clone();
    named.symbolize(&Functions, Want::Names);
    let (key, _) = named.cells()[0];
    assert_eq!(named.frames.of(named.callsites.of(key.callsite).frame).addr, 0x1210, "annotate counts there");
}

#[test]
fn a_call_between_event_and_interrupt_leaves_no_callee_in_the_path() {
    assert_eq!(one("sample 7/7 t=5 ip=0x1210 chain=user,0x1501,0x1215,0x1310"), "f12 <- f13: 1");
    assert_eq!(one("sample 7/7 t=5 ip=0x1210 chain=user,0x1680,0x1580,0x1215,0x1310"), "f12 <- f13: 1");
}

#[test]
fn a_jump_between_event_and_interrupt_leaves_one_leaf() {
    assert_eq!(one("sample 7/7 t=5 ip=0x1210 chain=user,0x1504,0x1310"), "f12 <- f13: 1");
}

#[test]
fn a_return_between_event_and_interrupt_keeps_the_caller() {
    assert_eq!(one("sample 7/7 t=5 ip=0x1210 chain=user,0x1380,0x1410"), "f12 <- f13 <- f14: 1");
}

#[test]
fn a_system_call_between_event_and_interrupt_leaves_no_kernel_code_in_the_path() {
    let chain = "chain=kernel,0xffffffff81000210,0xffffffff81000310,user,0x1212,0x1310";
    assert_eq!(one(&format!("sample 7/7 t=5 mode=user ip=0x1210 {chain}")), "f12 <- f13: 1");
    let without_user = "sample 7/7 t=5 mode=user ip=0x1210 chain=kernel,0xffffffff81000210";
    assert_eq!(one(without_user), "f12: 1");
}

#[test]
fn kernel_code_that_has_just_returned_to_user_code_is_its_callee() {
    let sample = "sample 7/7 t=5 mode=kernel ip=0xffffffff81000210 chain=user,0x1212,0x1310";
    assert_eq!(one(sample), "k2 <- f12 <- f13: 1");
}

#[test]
fn kernel_code_has_no_false_caller_either() {
    let user = "user,0x1210,0x1310";
    let sample = format!(
        "sample 7/7 t=5 mode=kernel ip=0xffffffff81000210 chain=kernel,0xffffffff81000220,0xffffffff81000310,{user}"
    );
    assert_eq!(one(&sample), "k2 <- k3 <- f12 <- f13: 1");
}

#[test]
fn without_names_the_interrupts_address_of_the_same_file_is_left_out() {
    assert_eq!(one("sample 7/7 t=5 ip=0x21210 chain=user,0x21220,0x21310"), "0x1210 <- 0x1310: 1");
    let into_a_callee = "sample 7/7 t=5 ip=0x21210 chain=user,0x21500,0x21215,0x21310";
    assert_eq!(one(into_a_callee), "0x1210 <- 0x1310: 1");
}

#[test]
fn chains_without_their_kernel_part_keep_the_sampled_address_as_leaf() {
    // exclude_callchain_kernel leaves the user part, exclude_callchain_user only the kernel's.
    let only_user = "sample 7/7 t=5 mode=kernel ip=0xffffffff81000210 chain=user,0x1410,0x1310";
    assert_eq!(one(only_user), "k2 <- f14 <- f13: 1");
    let only_kernel =
        "sample 7/7 t=5 mode=kernel ip=0xffffffff81000210 chain=kernel,0xffffffff81000210,0xffffffff81000310";
    assert_eq!(one(only_kernel), "k2 <- k3: 1");
    assert_eq!(one("sample 7/7 t=5 ip=0x1210 chain=user"), "f12: 1");
}

/// Attributes of `perf record --call-graph lbr`: user, call stack, no flags, no cycles, hardware index.
const LBR: &str = "event cycles type=0 config=0 sample_type=0x109ef branch_sample_type=0x2c801 \
    flags=sample_id_all,exclude_guest ids=1";

#[test]
fn a_hardware_call_stack_begins_with_the_sampled_address_once() {
    let samples = "sample 7/7 t=5 ip=0x1210 chain=user,0x1210,0x1310 branches=0x1311>0x1200,0x1410>0x1300";
    assert_eq!(paths(LBR, samples), ["f12 <- f13 <- f14: 1"]);
}

#[test]
fn a_leaf_that_the_hardware_call_stack_does_not_know_is_no_callee_of_the_last_call() {
    let samples = "sample 7/7 t=5 ip=0x1510 chain=user,0x1510 branches=0x1311>0x1200,0x1410>0x1300";
    assert_eq!(paths(LBR, samples), ["f15 <- f13 <- f14: 1"]);
}

#[test]
fn a_kernel_threads_sample_gets_no_stale_hardware_call_stack() {
    let samples = "sample 7/7 t=5 mode=kernel ip=0xffffffff81000210 \
        chain=kernel,0xffffffff81000210,0xffffffff81000310 branches=0x1311>0x1200";
    assert_eq!(paths(LBR, samples), ["k2 <- k3: 1"]);
}

const DWARF: &str = "event cycles type=0 config=0 precise=3 sample_type=0x131ef regs_user=0x7 stack_user=8 \
    flags=sample_id_all,exclude_guest,exclude_callchain_user ids=1";

#[test]
fn an_unwound_stack_that_begins_at_the_interrupt_has_one_leaf() {
    let at = |ip: &str, regs: &str| format!("sample 7/7 t=5 ip={ip} chain=user regs_user=2,{regs} stack=8/8");
    let unwound = |ip, regs| paths(DWARF, &at(ip, regs));
    assert_eq!(unwound("0x1210", "0x1210,0x1311,0x1411"), ["f12 <- f13 <- f14: 1"]);
    assert_eq!(unwound("0x1210", "0x1220,0x1311,0x1411"), ["f12 <- f13 <- f14: 1"]);
    assert_eq!(unwound("0x1210", "0x1501,0x1216,0x1311"), ["f12 <- f13: 1"]);
    let kernel = "sample 7/7 t=5 mode=kernel ip=0xffffffff81000210 chain=kernel,0xffffffff81000210 \
        regs_user=2,0x1210,0x1311,0x1411 stack=8/8";
    assert_eq!(paths(DWARF, kernel), ["k2 <- f12 <- f13 <- f14: 1"]);
}

#[test]
fn a_frame_that_a_signal_interrupted_is_looked_up_where_it_was() {
    let unwound = "sample 7/7 t=5 ip=0x1210 chain=user regs_user=2,0x1210,0x1300,0x1400 stack=8/8";
    assert_eq!(paths(DWARF, unwound), ["f12 <- f13 <- f14: 1"]);
    // A live unwinder puts a marker before it.
    assert_eq!(one("sample 7/7 t=5 chain=user,0x1210,user,0x1300,0x1400"), "f12 <- f13 <- f13: 1");
}

#[test]
fn guests_samples_are_of_the_guest() {
    let guest = "sample 7/7 t=5 mode=guest_kernel ip=0xffffffff81000210 chain=kernel,user";
    assert_eq!(one(guest), "0xffffffff81000210: 1");
}

#[test]
fn the_limit_of_frames_counts_the_chain() {
    let opts = SessionOpts { max_frames: 2, ..SessionOpts::default() };
    let sample = "sample 7/7 t=5 ip=0x1210 chain=user,0x1220,0x1310,0x1410";
    let mut profile = unsymbolized("", sample, opts);
    profile.symbolize(&Functions, Want::Names);
    assert_eq!(paths_of(&profile), ["f12 <- f13: 1"]);
    assert_eq!(profile.diagnostics.stack_ends[&StackEnd::MaxStack], 1);
}

#[test]
fn merged_profiles_keep_what_their_paths_stand_for() {
    let sample = "sample 7/7 t=5 ip=0x1210 chain=user,0x1220,0x1310";
    let raw = unsymbolized("", sample, SessionOpts::default());
    let mut late = Profile::default();
    late.merge(&raw);
    late.merge(&raw);
    late.symbolize(&Functions, Want::Names);
    assert_eq!(paths_of(&late), ["f12 <- f13: 2"]);
    let mut named = raw;
    named.symbolize(&Functions, Want::Names);
    let mut sum = Profile::default();
    sum.merge(&named);
    assert_eq!(paths_of(&sum), ["f12 <- f13: 1"]);
}
