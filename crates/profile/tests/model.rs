//! The model, fed with a few records each: attribution, and the laws of sums.

#[path = "model/exec.rs"]
mod exec;
#[path = "model/inlined.rs"]
mod inlined;
#[path = "model/one_thread.rs"]
mod one_thread;

use perfdata::appendix::stack_notes::{StackCause, StackEnd, StackNotes, StackStop, StopReason};
use perfdata::record::{Comm, FileId, Mmap, TaskRecord};
use perfdata::{Avma, Callchain, CpuMode, Endian, Event, Item, Record, Sample};
use profile::Profile;
use profile::machine::file_name;
use profile::session::{Dimensions, Session, SessionOpts};
use profile::source::{DsoSource, NamedFrame, Want};
use profile::table::Dso;
use profile::view::diff::{Change, DiffOpts, Norm, diff};
use profile::view::report::{
    GraphMode, GraphNode, GraphOpts, GraphOrder, Report, ReportField, ReportOpts, ReportRow, SortKey, report,
};
use proptest::prelude::*;

/// Functions of 0x100 bytes: file offset 0x1234 is `f12`.
struct Functions;

impl DsoSource for Functions {
    fn symbolize(&self, dso: &Dso, addrs: &[u64], _: Want) -> Vec<Result<Vec<NamedFrame>, dso::Missing>> {
        let named = |&addr: &u64| {
            if dso.is_unknown() {
                return Err(dso::Missing::Anonymous);
            }
            let name = format!("f{:x}", addr >> 8);
            Ok(vec![NamedFrame { name, start: addr & !0xff, size: 0x100, ..NamedFrame::default() }])
        };
        addrs.iter().map(named).collect()
    }
}

/// Reads lines such as `sample 7/8 period=10 chain=0x1010,0x2020`.
fn profile_of(text: &str) -> Profile {
    profile_with(text, Dimensions { cpu: true, ..Dimensions::default() })
}

fn profile_with(text: &str, dimensions: Dimensions) -> Profile {
    let event = |name: &str| Event { name: name.to_owned(), ..Event::default() };
    let opts = SessionOpts { dimensions, ..SessionOpts::default() };
    let mut session = Session::new(&[event("cpu-clock"), event("requests")], Endian::Little, opts);
    fed(&mut session, text);
    let mut profile = session.finish();
    profile.symbolize(&Functions, Want::Names);
    profile
}

fn fed(session: &mut Session, text: &str) {
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        push(session, line);
    }
}

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).expect("hex"),
        None => text.parse().expect("number"),
    }
}

fn ids(word: &str) -> (u32, u32) {
    let (pid, tid) = word.split_once('/').expect("pid/tid");
    (number(pid) as u32, number(tid) as u32)
}

fn push(session: &mut Session, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let (pid, tid) = ids(words[1]);
    let value = |key: &str| words.iter().find_map(|w| w.strip_prefix(key).and_then(|w| w.strip_prefix('=')));
    let chain: Vec<u64> = value("chain").map(|c| c.split(',').map(number).collect()).unwrap_or_default();
    let event = value("event").map_or(0, number) as usize;
    let record = match words[0] {
        "comm" => Record::Comm(Comm { pid, tid, comm: words[2].as_bytes(), exec: words.contains(&"exec") }),
        "fork" => {
            let (ppid, ptid) = ids(words[2]);
            Record::Fork(TaskRecord { pid, tid, ppid, ptid, time_ns: 0 })
        }
        "exit" => Record::Exit(TaskRecord { pid, tid, ppid: pid, ptid: tid, time_ns: 0 }),
        "mmap" => Record::Mmap(Mmap {
            pid,
            tid,
            addr: Avma(number(words[2])),
            len: number(words[3]),
            pgoff: value("off").map_or(0, number),
            filename: words[4].as_bytes(),
            file_id: FileId::None,
            prot_flags: Some((5, 2)),
            cpu_mode: if words.contains(&"kernel") { CpuMode::Kernel } else { CpuMode::User },
            is_data: false,
            parse_timeout: false,
        }),
        "sample" => Record::Sample(Sample {
            misc: if words.contains(&"kernel") { 1 } else { 2 },
            ip: chain.iter().find(|&&a| a < u64::MAX - 4095).map(|&a| Avma(a)),
            pid_tid: Some((pid, tid)),
            period: Some(value("period").map_or(1, number)),
            time_ns: value("t").map(number),
            cpu: value("cpu").map(|c| number(c) as u32),
            callchain: Some(Callchain(chain.as_slice().into())),
            ..Sample::default()
        }),
        other => panic!("unknown record {other}"),
    };
    let item = Item { offset: 0, record, sample_id: None, event: Some(event), raw: &[] };
    assert!(session.push(&item).is_none());
}

/// Rows as `self% [children%] value value …`, in the report's order.
fn rows(profile: &Profile, opts: &ReportOpts) -> Vec<String> {
    let report = report(profile, opts);
    let section = &report.sections[0];
    let base = section.base_periods[0] as f64 / 100.0;
    let line = |row: &ReportRow| {
        let mut line = format!("{:.2}%", row.own[0].period as f64 / base);
        if opts.children {
            line = format!("{:.2}% {line}", row.children[0].period as f64 / base);
        }
        for (key, value) in section.keys.iter().zip(&row.values) {
            line += &format!(" {}", profile.value_text(key, value).trim());
        }
        line
    };
    section.rows.iter().map(line).collect()
}

fn by(keys: &[SortKey]) -> ReportOpts {
    ReportOpts { sort: keys.to_vec(), ..ReportOpts::default() }
}

#[test]
fn files_of_processes_that_share_the_number_0_are_not_mixed_up() {
    let two = "mmap 0/0 0x1000 0x1000 /first\nmmap 0/0 0x1800 0x1000 /second\nmmap 7/7 0x1000 0x1000 /own
        mmap 7/7 0x1800 0x1000 /newer\n";
    let dso_at = |ids: &str, addr: u64| {
        let profile = profile_of(&format!("{two}sample {ids} chain={addr:#x}"));
        rows(&profile, &by(&[SortKey::Dso])).remove(0)
    };
    assert_eq!(dso_at("0/0", 0x1100), "100.00% first", "only one has mapped this");
    assert_eq!(dso_at("0/0", 0x1900), "100.00% [unknown]", "one of the two");
    assert_eq!(dso_at("0/0", 0x2100), "100.00% [unknown]", "the other has what is next to it");
    assert_eq!(dso_at("7/7", 0x1900), "100.00% newer", "a process with its own number has its own mappings");
}

#[test]
fn code_without_a_name_is_in_no_total_if_it_is_hidden() {
    let text =
        "mmap 7/7 0x1000 0x1000 /app\nsample 7/7 period=30 chain=0x1100\nsample 7/7 period=70 chain=0x9900";
    let opts = ReportOpts { hide_unresolved: true, ..by(&[SortKey::Dso]) };
    assert_eq!(rows(&profile_of(text), &opts), ["100.00% app"]);
    assert_eq!(rows(&profile_of(text), &by(&[SortKey::Dso])), ["70.00% [unknown]", "30.00% app"]);
}

#[test]
fn columns_are_where_they_were_asked_for() {
    let opts = by(&[SortKey::Comm, SortKey::Dso]);
    let more = vec![
        ReportField::Key(SortKey::Comm),
        ReportField::Samples,
        ReportField::Key(SortKey::Dso),
        ReportField::Overhead,
    ];
    let [comm, dso] = [SortKey::Comm, SortKey::Dso].map(ReportField::Key);
    assert_eq!(opts.columns(), [ReportField::Overhead, comm.clone(), dso.clone()]);
    let opts = ReportOpts { more_fields: more, ..opts };
    assert_eq!(opts.columns(), [ReportField::Overhead, comm, ReportField::Samples, dso]);
    let only = ReportOpts { more_fields: vec![ReportField::Key(SortKey::Cpu)], ..by(&[]) };
    assert_eq!(only.keys(), [SortKey::Cpu], "a key is one wherever it is listed");
}

#[test]
fn chains_that_the_recorder_noted_as_cut_are_told_as_cut() {
    let stop = |time_ns, cause| StackStop { time_ns, tid: 8, cause };
    let cut = StopReason::CopyEnd(8192);
    let ends = [StackEnd::Stopped(cut), StackEnd::Joined];
    let notes = StackNotes {
        stacks: 3,
        complete: 1,
        causes: ends.map(|end| StackCause { end, dso: Vec::new() }).to_vec(),
        stops: vec![stop(20, 0), stop(30, 1)],
    };
    let mut session = Session::new(&[Event::default()], Endian::Little, SessionOpts::default());
    session.set_stack_notes(notes);
    fed(
        &mut session,
        "mmap 7/7 0x1000 0x1000 /bin/sh
         sample 7/8 t=10 chain=0xfffffffffffffe00,0x1010
         sample 7/8 t=20 chain=0xfffffffffffffe00,0x1010
         sample 7/8 t=30 chain=0xfffffffffffffe00,0x1010
         sample 7/9 t=20 chain=0xfffffffffffffe00,0x1010",
    );
    let found = session.finish().diagnostics.stack_ends;
    let told: Vec<_> =
        found.iter().map(|(end, count)| (end.to_string(), *count, end.is_complete())).collect();
    assert_eq!(
        told,
        [
            ("as recorded".to_owned(), 2, true),
            ("complete with a part of another moment".to_owned(), 1, true),
            ("cut after 8192 bytes".to_owned(), 1, false),
        ]
    );
}

#[test]
fn a_child_has_the_parents_name_and_mappings_until_it_makes_its_own() {
    let profile = profile_of(
        "comm 7/7 make
         mmap 7/7 0x1000 0x1000 /bin/make
         fork 8/8 7/7
         sample 8/8 period=1 chain=0x1010
         mmap 8/8 0x1000 0x800 /bin/cc
         sample 8/8 period=2 chain=0x1010
         sample 7/7 period=4 chain=0x1010
         sample 8/8 period=1 chain=0x1810",
    );
    let got = rows(&profile, &by(&[SortKey::Tgid, SortKey::Dso]));
    assert_eq!(got, ["50.00% 7:make make", "25.00% 8:make cc", "25.00% 8:make make"]);
}

#[test]
fn a_pid_used_again_is_another_process() {
    let profile = profile_of(
        "comm 1/1 init
         mmap 1/1 0x1000 0x1000 /sbin/init
         comm 7/7 first
         mmap 7/7 0x5000 0x1000 /bin/first
         exit 7/7
         fork 7/7 1/1
         sample 7/7 chain=0x5010
         sample 7/7 chain=0x1010",
    );
    let got = rows(&profile, &by(&[SortKey::Comm, SortKey::Dso]));
    assert_eq!(got, ["50.00% init [unknown]", "50.00% init init"]);
}

#[test]
fn the_file_offset_counts_the_mappings_own() {
    let profile = profile_of(
        "comm 7/7 app
         mmap 7/7 0x400000 0x2000 /bin/app off=0x3000
         sample 7/7 chain=0x400110",
    );
    assert_eq!(rows(&profile, &by(&[SortKey::Symbol])), ["100.00% [.] f31"]);
}

#[test]
fn return_addresses_are_looked_up_one_byte_before() {
    let profile = profile_of(
        "comm 7/7 app
         mmap 7/7 0x1000 0x9000 /bin/app
         sample 7/7 chain=0xfffffffffffffe00,0x1200,0x1500",
    );
    let opts = ReportOpts { children: true, ..by(&[SortKey::Symbol]) };
    assert_eq!(rows(&profile, &opts), ["100.00% 100.00% [.] f2", "100.00% 0.00% [.] f4"]);
}

#[test]
fn kernel_and_user_parts_follow_their_markers() {
    let profile = profile_of(
        "comm 7/7 app
         mmap 4294967295/0 0xffffffff81000000 0x1000000 [kernel.kallsyms]_text kernel
         mmap 4294967295/0 0xffffffffc0000000 0x4000 /lib/modules/6.1/kernel/fs/ext4/ext4.ko kernel
         mmap 7/7 0x1000 0x9000 /bin/app
         sample 7/7 kernel chain=0xffffffffffffff80,0xffffffffc0000010,0xffffffff81000020,0xfffffffffffffe00,0x1010",
    );
    let opts = ReportOpts { children: true, ..by(&[SortKey::Dso]) };
    let mut got = rows(&profile, &opts);
    got.sort();
    assert_eq!(got, ["100.00% 0.00% [kernel.kallsyms]", "100.00% 0.00% app", "100.00% 100.00% [ext4]"]);
}

#[test]
fn code_past_the_kernels_text_is_the_kernels() {
    // start_kernel is in .init.text, past the end of the mapping; modules are past that.
    let profile = profile_of(
        "mmap 4294967295/0 0xffffffff81000000 0x1000000 [kernel.kallsyms]_text kernel
         mmap 4294967295/0 0xffffffff85000000 0x4000 /lib/modules/6.1/kernel/fs/ext4/ext4.ko kernel
         sample 7/7 kernel chain=0xffffffffffffff80,0xffffffff85000010,0xffffffff83783ef0",
    );
    let opts = ReportOpts { children: true, ..by(&[SortKey::Dso]) };
    let mut got = rows(&profile, &opts);
    got.sort();
    assert_eq!(got, ["100.00% 0.00% [kernel.kallsyms]", "100.00% 100.00% [ext4]"]);
}

#[test]
fn jit_code_goes_to_the_map_file_of_its_process() {
    let profile = profile_of(
        "comm 7/7 java
         mmap 7/7 0x1000 0x9000 //anon
         sample 7/7 chain=0x1010",
    );
    let (_, dso) = profile.dsos.iter().next().expect("a dso");
    assert_eq!((dso.path.as_str(), dso.short_name.as_str()), ("/tmp/perf-7.map", "[JIT] tid 7"));
    assert_eq!(file_name(&dso.path), "perf-7.map");
}

#[test]
fn recursion_counts_a_function_once() {
    let profile = profile_of(
        "comm 7/7 app
         mmap 7/7 0x1000 0x9000 /bin/app
         sample 7/7 period=3 chain=0x1010,0x1050,0x1050,0x1210
         sample 7/7 period=1 chain=0x1210",
    );
    let opts = ReportOpts { children: true, ..by(&[SortKey::Symbol]) };
    assert_eq!(rows(&profile, &opts), ["100.00% 25.00% [.] f2", "75.00% 75.00% [.] f0"]);
}

fn graph_text(profile: &Profile, report: &Report, nodes: &[GraphNode], depth: usize, out: &mut String) {
    for node in nodes {
        let names: Vec<String> = (node.entries.iter())
            .map(|&entry| profile.chain_entry_text(&report.chain_entries[entry as usize]))
            .collect();
        *out += &format!("{}{} {}/{}\n", "  ".repeat(depth), names.join(";"), node.own, node.cumulative);
        graph_text(profile, report, &node.children, depth + 1, out);
    }
}

#[test]
fn runs_without_a_fork_are_one_node_and_small_ones_are_left_out() {
    let profile = profile_of(
        "comm 7/7 app
         mmap 7/7 0x1000 0x9000 /bin/app
         sample 7/7 period=30 chain=0x1010,0x1110,0x1210,0x1310
         sample 7/7 period=50 chain=0x1010,0x1110,0x1410,0x1310
         sample 7/7 period=19 chain=0x1010,0x1110
         sample 7/7 period=1 chain=0x1010,0x1510",
    );
    let graph = |order, mode| {
        let graph = Some(GraphOpts { mode, min_percent: 2.0, order, ..GraphOpts::default() });
        let opts = ReportOpts { graph, ..by(&[SortKey::Comm]) };
        let report = report(&profile, &opts);
        let mut out = String::new();
        graph_text(&profile, &report, &report.sections[0].rows[0].graph, 0, &mut out);
        out
    };
    assert_eq!(
        graph(GraphOrder::Callee, GraphMode::Graph),
        "f0 0/100\n  f1 19/99\n    f4;f3 50/50\n    f2;f3 30/30\n"
    );
    assert_eq!(
        graph(GraphOrder::Caller, GraphMode::Graph),
        "f3 0/80\n  f4;f1;f0 50/50\n  f2;f1;f0 30/30\nf1;f0 19/19\n"
    );
    assert_eq!(
        graph(GraphOrder::Callee, GraphMode::Folded),
        "f0;f1;f4;f3 50/50\nf0;f1;f2;f3 30/30\nf0;f1 19/19\n"
    );
}

#[test]
fn ignored_callees_fold_into_their_caller() {
    let profile = profile_of(
        "comm 7/7 app
         mmap 7/7 0x1000 0x9000 /bin/app
         sample 7/7 period=3 chain=0x1010,0x1110,0x1210
         sample 7/7 period=1 chain=0x1310,0x1210",
    );
    let ignore = regex_lite::Regex::new("^f1$").expect("a pattern");
    let opts = ReportOpts { ignore_callees: Some(ignore), ..by(&[SortKey::Symbol]) };
    assert_eq!(rows(&profile, &opts), ["75.00% [.] f1", "25.00% [.] f3"]);
}

#[test]
fn fields_alone_set_columns_and_order() {
    let opts = ReportOpts {
        sort: Vec::new(),
        fields: Some(vec![ReportField::Key(SortKey::Comm), ReportField::Overhead, ReportField::Samples]),
        ..ReportOpts::default()
    };
    assert_eq!(
        opts.columns(),
        [ReportField::Key(SortKey::Comm), ReportField::Overhead, ReportField::Samples]
    );
    assert_eq!(opts.keys(), [SortKey::Comm]);
}

fn timed(text: &str) -> Profile {
    profile_with(text, Dimensions { time_slice_ns: Some(10), ..Dimensions::default() })
}

/// 400 samples, one per 10 ns. One in `rare` of them is in f2 instead of f1.
fn steady(rare: u64) -> Profile {
    let mut text = "comm 7/7 app\nmmap 7/7 0x1000 0x9000 /bin/app\n".to_owned();
    for i in 0..400 {
        let at = if i % rare == 0 { 0x1210 } else { 0x1110 };
        text += &format!("sample 7/7 t={} period=10 chain={at:#x},0x1010\n", i * 10);
    }
    timed(&text)
}

#[test]
fn a_profile_does_not_differ_from_itself() {
    let profile = steady(10);
    let diff = diff(
        std::slice::from_ref(&profile),
        std::slice::from_ref(&profile),
        &DiffOpts { paths: true, ..DiffOpts::default() },
    );
    let section = &diff.sections[0];
    assert_eq!(section.rows.len(), 2);
    assert!(section.rows.iter().all(|row| row.own.delta == 0.0 && row.own.change == Change::Unclear));
    assert!(section.paths.iter().all(|path| path.own.delta == 0.0));
    assert_eq!(section.total.delta, 0.0);
}

#[test]
fn a_change_beyond_the_noise_is_told_and_a_new_function_is_new() {
    let current = {
        let mut profile = steady(2);
        let mut text = "comm 7/7 app\nmmap 7/7 0x1000 0x9000 /bin/app\n".to_owned();
        for i in 0..20 {
            text += &format!("sample 7/7 t={} period=10 chain=0x1510\n", i * 200);
        }
        // Five samples against none may be chance.
        for i in 0..5 {
            text += &format!("sample 7/7 t={} period=10 chain=0x1610\n", i * 800);
        }
        profile.merge(&timed(&text));
        profile
    };
    let diff = diff(&[steady(10)], &[current], &DiffOpts::default());
    let section = &diff.sections[0];
    let of = |name: &str| {
        let named = |row: &&profile::view::diff::DiffRow| {
            diff.profile.value_text(&SortKey::Symbol, &row.values[1]) == name
        };
        section.rows.iter().find(named).expect("a row").own
    };
    assert_eq!(of("[.] f1").change, Change::Less);
    assert_eq!(of("[.] f2").change, Change::More);
    assert_eq!(of("[.] f5").change, Change::New);
    assert_eq!(of("[.] f6").change, Change::Unclear);
    assert!((of("[.] f2").delta - (200.0 / 4.25 - 10.0)).abs() < 0.01);
    assert_eq!(section.most_changed().map(|row| row.own.change), Some(Change::Less), "f1 went most");
    assert!(section.noise_floor.is_some_and(|floor| floor < 10.0));
}

#[test]
fn work_counts_are_compared_per_unit() {
    let run = |work: u64, cost: u64| {
        let text = format!(
            "comm 7/7 app\nmmap 7/7 0x1000 0x9000 /bin/app\nsample 7/7 t=1 period={cost} chain=0x1010\n\
             sample 7/7 t=2 event=1 period={work} chain=0x1110"
        );
        timed(&text)
    };
    let opts = DiffOpts { norm: Norm::Work("requests".to_owned()), ..DiffOpts::default() };
    let diff = diff(&[run(10, 1000)], &[run(20, 1000)], &opts);
    let own = diff.sections[0].rows[0].own;
    assert_eq!((own.baseline, own.current, own.relative_pct()), (100.0, 50.0, Some(-50.0)));
}

/// A recording of a few processes: (process, period, chain of functions).
fn samples() -> impl Strategy<Value = Vec<(u8, u16, Vec<u8>)>> {
    prop::collection::vec((0u8..3, 1u16..100, prop::collection::vec(0u8..6, 1..8)), 1..40)
}

const SETUP: &str = "comm 0/0 idle\nmmap 0/0 0x1000 0x9000 /bin/a\ncomm 1/1 one\nmmap 1/1 0x1000 0x9000 /bin/a\n\
                     comm 2/2 two\nmmap 2/2 0x21000 0x9000 /bin/b\nmmap 2/2 0x1000 0x100 /bin/a\n";

fn text_of(samples: &[(u8, u16, Vec<u8>)]) -> String {
    let mut text = SETUP.to_owned();
    for (process, period, chain) in samples {
        let chain: Vec<String> =
            chain.iter().map(|f| format!("{:#x}", 0x1010 + 0x100 * u64::from(*f))).collect();
        text += &format!("sample {process}/{process} period={period} chain={}\n", chain.join(","));
    }
    text
}

fn all_rows(profile: &Profile) -> Vec<String> {
    let mut rows = rows(profile, &ReportOpts { children: true, ..ReportOpts::default() });
    rows.sort();
    rows
}

proptest! {
    #[test]
    fn self_sums_to_the_total_and_children_are_never_less(samples in samples()) {
        let profile = profile_of(&text_of(&samples));
        prop_assert!(profile.diagnostics.is_conserved());
        let report = report(&profile, &ReportOpts { children: true, ..ReportOpts::default() });
        let section = &report.sections[0];
        let total: u64 = samples.iter().map(|s| u64::from(s.1)).sum();
        prop_assert_eq!(section.totals[0].period, total);
        prop_assert_eq!(section.rows.iter().map(|row| row.own[0].period).sum::<u64>(), total);
        for row in &section.rows {
            prop_assert!(row.children[0].period >= row.own[0].period);
            prop_assert!(row.children[0].period <= total);
        }
    }

    #[test]
    fn graphs_hold_every_period(samples in samples()) {
        let profile = profile_of(&text_of(&samples));
        let graph = Some(GraphOpts { min_percent: 0.0, ..GraphOpts::default() });
        let report = report(&profile, &ReportOpts { graph, ..ReportOpts::default() });
        for row in &report.sections[0].rows {
            prop_assert_eq!(row.graph.iter().map(|node| node.cumulative).sum::<u64>(), row.own[0].period);
        }
    }

    #[test]
    fn the_order_of_samples_does_not_matter(samples in samples(), turn in 0usize..40) {
        let mut turned = samples.clone();
        let by = turn % samples.len();
        turned.rotate_left(by);
        let (a, b) = (profile_of(&text_of(&samples)), profile_of(&text_of(&turned)));
        prop_assert_eq!(all_rows(&a), all_rows(&b));
    }

    #[test]
    fn merging_is_addition_in_either_order(a in samples(), b in samples()) {
        let both = profile_of(&text_of(&[a.clone(), b.clone()].concat()));
        let (a, b) = (profile_of(&text_of(&a)), profile_of(&text_of(&b)));
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b);
        ba.merge(&a);
        prop_assert_eq!(all_rows(&ab), all_rows(&both));
        prop_assert_eq!(all_rows(&ba), all_rows(&both));
    }
}
