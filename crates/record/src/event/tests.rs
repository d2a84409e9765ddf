//! The event grammar against a machine of the tests' own, and against perf on this one.

mod machine;

use perfdata::{AttrFlags, abi};

use super::*;
use machine::machine;

fn events(text: &str) -> Vec<EventSpec> {
    parse(text, &machine()).unwrap_or_else(|e| panic!("{text}: {e}\n{}", e.caret()))
}

fn one(text: &str) -> EventSpec {
    let mut all = events(text);
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0)
}

/// `type:config[,config1,config2,config3]` of one event.
fn numbers(text: &str) -> String {
    let a = one(text).attr;
    let tail = [a.config1, a.config2, a.config3];
    let tail =
        if tail == [0; 3] { String::new() } else { format!(",{:#x},{:#x},{:#x}", tail[0], tail[1], tail[2]) };
    format!("{}:{:#x}{tail}", a.type_, a.config)
}

/// The modifier flags of one event as letters of what is excluded, with precision.
fn excluded(text: &str) -> String {
    let flags = one(text).attr.flags;
    let letters = [
        (AttrFlags::EXCLUDE_USER, 'u'),
        (AttrFlags::EXCLUDE_KERNEL, 'k'),
        (AttrFlags::EXCLUDE_HV, 'h'),
        (AttrFlags::EXCLUDE_GUEST, 'G'),
        (AttrFlags::EXCLUDE_HOST, 'H'),
        (AttrFlags::EXCLUDE_IDLE, 'I'),
        (AttrFlags::PINNED, 'D'),
        (AttrFlags::EXCLUSIVE, 'e'),
    ];
    let mut out: String = letters.iter().filter(|(f, _)| flags.has(*f)).map(|(_, c)| *c).collect();
    out.push_str(&"p".repeat(flags.precise_ip().into()));
    out
}

/// The error's line, then the text with its caret.
fn failure(text: &str) -> String {
    let error = parse(text, &machine()).expect_err(text);
    format!("{error}\n{}", error.caret())
}

#[test]
fn fixed_names_and_their_aliases_give_the_kernels_numbers() {
    for (text, expected) in [
        ("cycles", "0:0x0"),
        ("cpu-cycles", "0:0x0"),
        ("branches", "0:0x4"),
        ("idle-cycles-backend", "0:0x8"),
        ("ref-cycles", "0:0x9"),
        ("cpu-clock", "1:0x0"),
        ("task-clock", "1:0x1"),
        ("faults", "1:0x2"),
        ("page-faults", "1:0x2"),
        ("cs", "1:0x3"),
        ("migrations", "1:0x4"),
        ("dummy", "1:0x9"),
        ("bpf-output", "1:0xa"),
        ("cgroup-switches", "1:0xb"),
        ("r08", "4:0x8"),
        ("r1a8", "4:0x1a8"),
        ("1:0x3", "1:0x3"),
        ("duration_time", "1:0x9"),
    ] {
        assert_eq!(numbers(text), expected, "{text}");
    }
    assert_eq!(one("user_time").tool, Some(Tool::UserTime));
}

#[test]
fn cache_events_take_all_of_perfs_spellings() {
    for (text, expected) in [
        ("L1-dcache-load-misses", "3:0x10000"),
        ("L1-dcache-loads", "3:0x0"),
        ("l1d-read-miss", "3:0x10000"),
        ("L1-dcache-misses-load", "3:0x10000"),
        ("LLC-store-misses", "3:0x10102"),
        ("LLC", "3:0x2"),
        ("dTLB-prefetch-misses", "3:0x10203"),
        ("L1-icache-speculative-read", "3:0x201"),
        ("branch-loads", "3:0x5"),
        ("node-stores", "3:0x106"),
        ("iTLB-load-misses", "3:0x10004"),
    ] {
        assert_eq!(numbers(text), expected, "{text}");
    }
    assert_eq!(failure("iTLB-stores"), "iTLB has no store events\n  iTLB-stores\n  ^^^^^^^^^^^");
    for (name, config) in cache_events() {
        assert_eq!(numbers(&name), format!("3:{config:#x}"));
    }
}

#[test]
fn pmu_fields_go_to_the_bits_that_sysfs_says() {
    for (text, expected) in [
        ("cpu/event=0x3c,umask=1/", "4:0x13c"),
        ("cpu/event=0xf3c,edge/", "4:0xf0004003c"),
        ("cpu/mem-loads,ldlat=30/", "4:0x1cd,0x1e,0x0,0x0"),
        ("mem-loads", "4:0x1cd,0x3,0x0,0x0"),
        ("cpu/frontend=0xffffffffffffffff,acr/", "4:0x0,0x0,0xffffffffffffffff,0x10"),
        ("cpu/config=0x11,config1=2,config2=3,config3=4/", "4:0x11,0x2,0x3,0x4"),
        ("cpu/r1a8/", "4:0x1a8"),
        ("cpu/cycles/", "4:0x76"),
        ("cpu//", "4:0x0"),
    ] {
        assert_eq!(numbers(text), expected, "{text}");
    }
    let imc: Vec<_> = events("imc/event=1/").iter().map(|e| e.attr.type_).collect();
    assert_eq!(imc, [20, 21]);
    let energy = one("power/energy-pkg/");
    assert_eq!((energy.unit.as_deref(), energy.cpus), (Some("Joules"), Some(vec![0, 4, 5])));
    assert!(energy.scale.is_some_and(|s| s > 2.3e-10 && s < 2.4e-10));
}

#[test]
fn modifiers_exclude_what_they_do_not_name() {
    for (text, expected) in [
        ("cycles", "G"),
        ("cycles:u", "khG"),
        ("cycles:k", "uh"),
        ("cycles:h", "uk"),
        ("cycles:uk", "hG"),
        ("cycles:G", "H"),
        ("cycles:H", "G"),
        ("cycles:ukhHG", ""),
        ("cycles:pp", "Gpp"),
        ("cycles:ppp", "Gppp"),
        ("cycles:D", "D"),
        ("cycles:e", "e"),
        ("cycles:I", "I"),
        ("cycles:P", ""),
        ("cpu/event=1/u", "khG"),
        ("cpu/event=1/:u", "khG"),
        ("cycles/period=3/u", "khG"),
        ("r76:k", "uh"),
        ("sched:sched_switch:u", "khG"),
        ("mem:0x10:rw:u", "khG"),
        ("L1-dcache-loads:u", "khG"),
        ("mem-loads:pp", "Gpp"),
        ("{cycles}:u", "khG"),
        ("{cycles:k}:u", "hG"),
    ] {
        assert_eq!(excluded(text), expected, "{text}");
    }
    assert!(one("cycles:P").wants_max_precision());
    assert!(one("{cycles}:SW").reads_group() && one("{cycles}:SW").group_is_weak());
}

#[test]
fn groups_name_their_leader() {
    let all = events("faults,{cycles,instructions:u}:S,mine{cs,r1},dummy");
    let leaders: Vec<_> = (0..all.len()).map(|i| all[i].leader_of(i)).collect();
    assert_eq!(leaders, [None, None, Some(1), None, Some(3), None]);
    assert_eq!(all[4].group.as_ref().and_then(|g| g.name.as_deref()), Some("mine"));
    let opts = [Opt::Events("cs"), Opt::Events("{block:*}"), Opt::Filter("dev == 1")];
    let all = parse_opts(&opts, &machine()).expect("two options");
    let names: Vec<_> = all.iter().map(|e| (e.name.as_str(), e.filter.as_deref())).collect();
    assert_eq!(
        names,
        [
            ("cs", None),
            ("block:block_rq_complete", Some("dev == 1")),
            ("block:block_rq_issue", Some("dev == 1"))
        ]
    );
    assert_eq!(all[2].leader_of(2), Some(1));
}

#[test]
fn tracepoints_and_patterns() {
    assert_eq!(numbers("sched:sched_switch"), "2:0x13c");
    let names: Vec<_> = events("*:*[hp],sched:*").into_iter().map(|e| e.name).collect();
    assert_eq!(
        names,
        ["sched:sched_switch", "sched:sched_wakeup", "sched:sched_switch", "sched:sched_wakeup"]
    );
    assert_eq!(one("sched:sched_switch/call-graph=fp/").terms.call_graph, Some(CallGraphTerm::FramePointer));
}

#[test]
fn breakpoints_have_an_address_a_length_and_an_access() {
    let fields = |text: &str| {
        let a = one(text).attr;
        (a.type_, a.config1, a.config2, a.bp_type)
    };
    assert_eq!(fields("mem:0x1000"), (5, 0x1000, 4, 3));
    assert_eq!(fields("mem:0x1000/8:w"), (5, 0x1000, 8, 2));
    assert_eq!(fields("mem:4096:x:u"), (5, 0x1000, 8, 4));
    assert!(failure("mem:main").starts_with("a breakpoint is mem:ADDRESS"));
    assert!(failure("mem:1:rr").starts_with("the modifier 'r' is given too often"));
}

#[test]
fn terms_of_one_event() {
    let event =
        one("cycles/period=0x10,call-graph=dwarf,stack-size=4096,name='a, b',no-inherit,time=0,percore/u");
    assert_eq!(event.name, "a, b");
    let terms = event.terms;
    assert_eq!((terms.period, terms.stack_size_bytes), (Some(16), Some(4096)));
    assert_eq!((terms.inherit, terms.time, terms.percore), (Some(false), Some(false), true));
    assert_eq!(terms.call_graph, Some(CallGraphTerm::Dwarf));
    assert_eq!(one("faults/freq=99/").terms.freq_hz, Some(99));
}

#[test]
fn names_are_as_typed() {
    for text in
        ["cpu-cycles:u", "cycles", "cpu/event=0x76,umask=0/u", "r76:k", "L1-dcache-load-misses", "1:0"]
    {
        assert_eq!(one(text).name, text);
    }
    assert_eq!(one("sched:sched_switch:u").name, "sched:sched_switch");
    assert_eq!(events(" cs , faults ")[1].name, "faults");
}

#[test]
fn a_wrong_event_is_marked_and_the_nearest_names_are_told() {
    for (text, expected) in [
        ("cs,cyles", "unknown event 'cyles'; did you mean cycles?\n  cs,cyles\n     ^^^^^"),
        ("cs:uq", "unknown modifier 'q' (known: u k h H G p P S D e I W b)\n  cs:uq\n      ^"),
        ("cs:uu", "the modifier 'u' is given too often\n  cs:uu\n      ^"),
        ("cs:pppp", "the modifier 'p' is given too often\n  cs:pppp\n        ^"),
        ("cyles:u", "unknown event 'cyles'; did you mean cycles?\n  cyles:u\n  ^^^^^"),
        (
            "sched:sched_swich",
            "no tracepoint 'sched:sched_swich'; did you mean sched:sched_switch?\n  sched:sched_swich\n  ^^^^^^^^^^^^^^^^^",
        ),
        (
            "blok:block_rq_issue",
            "no tracepoint 'blok:block_rq_issue'; did you mean block:block_rq_issue?\n  blok:block_rq_issue\n  ^^^^^^^^^^^^^^^^^^^",
        ),
        (
            "cpu/evnt=1/",
            "'evnt' is neither a field nor an event of PMU 'cpu'; did you mean event?\n  cpu/evnt=1/\n      ^^^^",
        ),
        (
            "cpu/event=0x1000/",
            "the value of 'event' is too big: its maximum is 0xfff\n  cpu/event=0x1000/\n            ^^^^^^",
        ),
        ("cycles/perid=1/", "unknown term 'perid'; did you mean period?\n  cycles/perid=1/\n         ^^^^^"),
        (
            "cs/call-graph=fb/",
            "'fb' is not a value for 'call-graph' (live, fp, dwarf, lbr or no)\n  cs/call-graph=fb/\n                ^^",
        ),
        ("{cs,faults", "this group is not closed: '}' is missing\n  {cs,faults\n  ^^^^^^^^^^"),
        ("{cs,{faults}}", "groups cannot be nested\n  {cs,{faults}}\n      ^"),
        ("cpu/event=1", "the terms are not closed: '/' is missing\n  cpu/event=1\n     ^^^^^^^^"),
        ("cs,,faults", "an event name is missing\n  cs,,faults\n     ^"),
        ("", "an event name is missing\n  \n  ^"),
        ("{cs}faults", "',' or the end was expected here\n  {cs}faults\n      ^^^^^^"),
        ("cpuu/event=1/", "no PMU 'cpuu' on this machine; did you mean cpu?\n  cpuu/event=1/\n  ^^^^"),
    ] {
        assert_eq!(failure(text), expected, "{text}");
    }
    let filter = parse_opts(&[Opt::Filter("a == 1")], &machine()).expect_err("no event");
    assert_eq!(*filter.fault, Fault::FilterWithoutEvent);
    let filter =
        parse_opts(&[Opt::Events("cs"), Opt::Filter("a == 1")], &machine()).expect_err("not a tracepoint");
    assert_eq!(*filter.fault, Fault::FilterOnPlainEvent("cs".to_owned()));
    assert_eq!(abi::PERF_TYPE_TRACEPOINT, 2);
}

#[test]
fn the_catalog_names_only_what_the_parser_takes() {
    use catalog::CatalogKind;
    let all = catalog::catalog(
        &[
            CatalogKind::Hardware,
            CatalogKind::Software,
            CatalogKind::Cache,
            CatalogKind::Pmu,
            CatalogKind::Tracepoint,
        ],
        &machine(),
    );
    for name in all.iter().flat_map(|e| std::iter::once(&e.name).chain(&e.alias)) {
        events(name);
    }
    let pmu = |e: &&catalog::CatalogEntry| e.kind == CatalogKind::Pmu;
    let names: Vec<_> = all.iter().filter(pmu).map(|e| (e.name.as_str(), e.alias.as_deref())).collect();
    assert_eq!(
        names,
        [
            ("cpu-cycles", Some("cpu/cpu-cycles/")),
            ("mem-loads", Some("cpu/mem-loads/")),
            ("power/energy-pkg/", None)
        ]
    );
}

#[test]
fn globs_match_whole_names() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("block_*", "block_rq", true),
        ("*_rq", "block_rq", true),
        ("*rq", "block_rq_x", false),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("[a-c]x", "bx", true),
        ("[!a-c]x", "bx", false),
        ("[]]", "]", true),
        ("[", "[", true),
        ("*a*b*c", "xaxbxbc", true),
        ("", "a", false),
    ] {
        assert_eq!(glob::matches(pattern, text), expected, "{pattern} {text}");
    }
}

mod properties {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_parses_or_fails_within_itself(text in "[a-z0-9:,/{}=*\\[ u'é-]{0,40}") {
            if let Err(error) = super::parse(&text, &super::machine()) {
                prop_assert!(error.span.start <= error.span.end && error.span.end <= text.len());
                let _ = error.caret();
            }
        }
    }
}

#[test]
fn a_processor_trace_asks_for_all_times_unless_told_otherwise() {
    // perf 6.1's own numbers for these caps.
    assert_eq!(numbers("intel_pt//u"), "8:0x300e601");
    assert_eq!(numbers("intel_pt/cyc/u"), "8:0x300e603");
    assert_eq!(numbers("intel_pt/cyc,noretcomp,psb_period=0,mtc=0/u"), "8:0xec03");
    let event = one("intel_pt/cyc/u");
    assert!(event.aux && event.attr.flags.has(AttrFlags::EXCLUDE_KERNEL));
    assert!(!one("cpu-clock").aux);
    let pmu = crate::pt::pmu::PtPmu::read(&machine()).expect("it has one");
    assert_eq!((pmu.type_, pmu.cyc, pmu.mtc_period, pmu.max_nonturbo_ratio), (8, 2, 0x3c000, 25));
}
