use super::words::exact_percent;
use super::*;
use record::summary::{CounterValue, Loss, RecorderUse};
use record::summary::{StackQuality, StopReason, StoppedStacks};
use record::sys::ExitKind;

fn thread(comm: &str, tid: u32, on_ns: u64, off_ns: u64) -> ThreadUse {
    ThreadUse {
        pid: 100,
        tid,
        comm: comm.to_owned(),
        life_ns: on_ns + off_ns,
        on_ns,
        off_ns,
        voluntary_switches: 12,
        involuntary_switches: 30,
        ..ThreadUse::default()
    }
}

fn function(name: &str, dso: &str, percent: f64) -> FunctionShare {
    FunctionShare { name: name.to_owned(), dso: dso.to_owned(), percent, line: None }
}

fn summary() -> RunSummary {
    let counter = |name: &str, value| CounterValue { name: name.to_owned(), value, running_pct: 100.0 };
    RunSummary {
        exit: Some(ExitKind::Code(3)),
        wall_ns: 2_500_000_000,
        counters: vec![
            counter("task-clock", 4_900_000_000),
            counter("context-switches", 84),
            counter("minor-faults", 12_345),
        ],
        threads: vec![
            thread("list", 100, 2_400_000_000, 100_000_000),
            thread("a-very-long-thread-name", 101, 1_250_000_000, 1_250_000_000),
            thread("third", 102, 10_000, 2_000_000_000),
        ],
        quality: StackQuality {
            stacks: 12_345,
            complete: 12_246,
            joined: 0,
            stopped: vec![
                StoppedStacks {
                    reason: StopReason::CopyEnd(65_528),
                    dso: None,
                    thread: (101, "deep".to_owned()),
                    count: 62,
                },
                StoppedStacks {
                    reason: StopReason::NoUnwindInfo,
                    dso: Some("/usr/lib/libY.so".to_owned()),
                    thread: (100, "list".to_owned()),
                    count: 37,
                },
            ],
        },
        lost: Loss { samples: 12_345, ..Loss::default() },
        recorder: RecorderUse {
            trace_bytes: 0,
            user_ns: 20_000_000,
            system_ns: 5_000_000,
            while_running_ns: 4_000_000,
            programs_ns: 0,
            peak_memory_bytes: 12_000_000,
            file_bytes: 1_234_567,
            sample_bytes: 1_200_000,
        },
        event: "cpu-clock".to_owned(),
        more_events: 0,
        frequency_hz: Some(997),
        ..RunSummary::default()
    }
}

fn screen(summary: &RunSummary) -> RunScreen<'_> {
    RunScreen {
        title: "./list 8".to_owned(),
        summary,
        samples: 12_345,
        verbose: false,
        own: vec![
            function(
                "walk(list::node const*, std::vector<std::string, std::allocator<std::string> >)",
                "list",
                62.5,
            ),
            function("rand", "libc.so.6", 0.5),
        ],
        with_callees: vec![function("main", "list", 99.75)],
        is_by_timer: true,
        path: vec![
            function("_start", "list", 100.0),
            function("rec", "list", 90.0),
            function("rec", "list", 90.0),
            function("walk", "list", 62.5),
        ],
        better: Some("tally run --stack-size 65528 -- ./list 8".to_owned()),
        name_hints: vec!["8.1 % of CPU time is in functions without a symbol (libz.so.1)".to_owned()],
        files: vec![("perf.data".to_owned(), "open with tally report".to_owned())],
    }
}

#[test]
fn the_screen_fits_80_columns_and_says_it_all() {
    let summary = summary();
    let text = draw(&screen(&summary), ScreenOpts { width: 80, colour: false, rows: 2 });
    let expected = include_str!("expected.txt");
    assert_eq!(text, expected, "new text:\n{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn a_handful_of_samples_has_no_percentages() {
    let summary = summary();
    let few = RunScreen { samples: 19, ..screen(&summary) };
    let text = draw(&few, ScreenOpts { width: 80, colour: false, rows: 5 });
    assert!(text.contains("19 samples, too few for percentages; they were taken in\n  walk("), "{text}");
    assert!(!text.contains("62.5") && !text.contains("hot path") && !text.contains("99.75"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    let one = RunScreen { samples: 1, ..screen(&summary) };
    assert!(draw(&one, ScreenOpts { width: 80, colour: false, rows: 5 }).contains("1 sample, too few"));
    let enough = RunScreen { samples: 20, ..screen(&summary) };
    assert!(draw(&enough, ScreenOpts { width: 80, colour: false, rows: 5 }).contains("62.50%"));
}

#[test]
fn how_off_cpu_time_was_had_is_one_line_unless_asked() {
    let why = "BPF map targets: no (os error 1); run as root or with CAP_BPF and CAP_PERFMON".to_owned();
    let summary = RunSummary { notices: vec![record::summary::Notice::NoOffCpu(why)], ..summary() };
    let drawn = |verbose| {
        let screen = RunScreen { verbose, ..screen(&summary) };
        draw(&screen, ScreenOpts { width: 120, colour: false, rows: 2 })
    };
    let line =
        "note       off-CPU times are estimated (no BPF): run as root or with CAP_BPF and CAP_PERFMON\n\n";
    assert!(drawn(false).contains(line) && !drawn(false).contains("targets"), "{}", drawn(false));
    assert!(drawn(true).contains("BPF map targets"), "{}", drawn(true));
}

#[test]
fn what_the_bpf_programs_took_is_named_where_there_are_any() {
    let mut summary = summary();
    assert!(!recorder_text(&summary).contains("BPF"));
    summary.recorder.programs_ns = 3_000_000;
    let text = recorder_text(&summary).replace('\u{a0}', " ");
    assert!(
        text.contains("25.00 ms CPU (1.0% of the wall time), 3.000 ms more in its BPF programs"),
        "{text}"
    );
}

#[test]
fn a_share_is_not_rounded_to_all_or_nothing() {
    assert_eq!(exact_percent(99_999, 100_000), "> 99.9%");
    assert_eq!(exact_percent(1, 100_000), "< 0.1%");
    assert_eq!(exact_percent(0, 5), "0.0%");
    assert_eq!(exact_percent(5, 5), "100%");
}

#[test]
fn without_samples_the_screen_says_so() {
    let summary = RunSummary::default();
    let empty = RunScreen {
        own: Vec::new(),
        with_callees: Vec::new(),
        is_by_timer: false,
        path: Vec::new(),
        better: None,
        name_hints: Vec::new(),
        ..screen(&summary)
    };
    assert!(draw(&empty, ScreenOpts { width: 80, colour: false, rows: 5 }).contains("No samples"));
}

#[test]
fn functions_that_enable_interrupts_have_a_mark_where_a_timer_samples() {
    let summary = summary();
    let own = || vec![function("_raw_spin_unlock_irqrestore", "[kernel.kallsyms]", 20.0)];
    let opts = ScreenOpts { width: 80, colour: false, rows: 2 };
    let marked = draw(&RunScreen { own: own(), ..screen(&summary) }, opts);
    assert!(marked.contains("_raw_spin_unlock_irqrestore *"), "{marked}");
    assert!(marked.lines().all(|line| line.chars().count() <= 80), "{marked}");
    assert_eq!(marked.matches(FOOTNOTE).count(), 1, "{marked}");
    let counted = draw(&RunScreen { own: own(), is_by_timer: false, ..screen(&summary) }, opts);
    assert!(!counted.contains("irqrestore *"), "{counted}");
}

#[test]
fn stacks_that_end_in_memory_without_a_file_are_cut_in_jit_code() {
    let text = |dso: &str| {
        stop_text(&StoppedStacks {
            reason: StopReason::NoUnwindInfo,
            dso: Some(dso.to_owned()),
            thread: (7, "luajit".to_owned()),
            count: 1,
        })
    };
    assert_eq!(text("//anon"), "cut in JIT code");
    assert_eq!(text("/srv/anon.so"), "no unwind info in anon.so");
}
