//! Screens of the same numbers at several widths.

use super::*;
use crate::verdict::first_screen::{RecordedFile, RunTotals};
use profile::view::hot_functions::HotFunctionRow;
use profile::view::hot_functions::HotFunctions;

fn row(name: &str, dso: &str, line: Option<&str>, (own, total): (f64, f64)) -> HotFunctionRow {
    HotFunctionRow {
        name: name.into(),
        dso: dso.into(),
        source: line
            .and_then(|line| line.split_once(':'))
            .map(|(file, line)| (file.to_owned(), line.parse().expect("a number"))),
        own,
        total,
        is_caller: false,
        calls_most: false,
        ends_trunk: false,
    }
}

fn screen() -> FirstScreen {
    let finding = |claim: &str, detail: &str, fix: &str, at: usize| Headline {
        claim: claim.into(),
        detail: detail.into(),
        fix: fix.into(),
        why: format!("tally why {at}"),
    };
    FirstScreen {
        headlines: vec![
            finding(
                "Lock contention: 69 % of thread time goes to the lock inside rand() ← draw (rand.c:14)",
                "43 % runnable after wake-up · 19 % lock and unlock code · 7 % blocked",
                "give each thread its own generator",
                1,
            ),
            finding("CPU saturation: 68 % of thread time waits for a CPU; 7 threads want 2 CPUs", "", "", 2),
        ],
        totals: RunTotals {
            wall_ns: 3_300_000_000,
            cpu_ns: 6_140_000_000,
            cpus_used: 1.86,
            cpus: 2,
            threads: 8,
            processes: 1,
            exit_code: Some(3),
        },
        states: vec![
            ("on CPU", 24.0),
            ("runnable", 45.2),
            ("preempted", 23.4),
            ("futex", 7.1),
            ("disk", 0.2),
        ],
        idle_percent: 0.0,
        futex_for_work_percent: 0.0,
        are_reasons_estimated: false,
        hot: HotFunctions {
            samples: 2913,
            functions: vec![
                row("__random", "libc.so.6", None, (0.334, 0.925)),
                row(
                    "Grid<std::vector<int, std::allocator<int>>>::step(int) const",
                    "app",
                    Some("grid.cpp:7"),
                    (0.15, 0.2),
                ),
                row("futex wait and wake", "[kernel]", None, (0.09, 0.09)),
                HotFunctionRow {
                    is_caller: true,
                    ..row("draw\u{1b}[31m", "rand", Some("rand.c:14"), (0.0, 0.6))
                },
            ],
            trunk: ["work", "draw", "rand", "__random"].map(str::to_owned).to_vec(),
            trunk_end: None,
        },
        threads: Vec::new(),
        quality: ["2,913 samples at 499 Hz", "100 % complete stacks", "0 lost", "tally: 0.01 CPUs"]
            .map(str::to_owned)
            .to_vec(),
        notes: Vec::new(),
        warnings: vec![
            "few samples; for more: tally run -F 4990 -- ./a-program with 'many words' in its command line"
                .into(),
        ],
        file: RecordedFile { path: "perf.data".into(), bytes: 555_123, input: String::new() },
    }
}

#[test]
fn the_answer_is_at_the_top_and_the_next_commands_are_at_the_end() {
    let expected = "
  Lock contention: 69 % of thread time goes to the lock inside
  rand() ← draw (rand.c:14)
  43 % runnable after wake-up · 19 % lock and unlock code · 7 % blocked
  → give each thread its own generator                               tally why 1
  CPU saturation: 68 % of thread time waits for a CPU; 7 threads want 2 CPUs
                                                                     tally why 2

  3.300 s wall   6.140 s CPU (1.86 of 2 CPUs)   8 threads, 1 process
  exit status 3
  on CPU 24 % ████▊  runnable 45 % █████████  preempted 23 % ████▋  futex 7 % █▍

  where CPU time goes               self    total
  __random  libc.so.6             33.4 %   92.5 %  ███▍
  Grid<…>::step  grid.cpp:7       15.0 %   20.0 %  █▌
  futex wait and wake  [kernel]    9.0 %    9.0 %  ▉
  mostly in what they call
  draw\\x1b[31m  rand.c:14          0.0 %   60.0 %
  hot path: work → draw → rand → __random

  2,913 samples at 499 Hz · 100 % complete stacks · 0 lost · tally: 0.01 CPUs
  ! few samples; for more: tally run -F 4990 …
  perf.data 555 kB   browse: tally report   graph: tally flame -o out.svg
  waits: tally report --wall
";
    assert_eq!(draw(&screen(), 80, false), expected);
}

#[test]
fn estimated_reasons_are_marked_at_the_states() {
    let mut looked_at = screen();
    looked_at.are_reasons_estimated = true;
    let text = draw(&looked_at, 80, false);
    assert!(text.contains("(reasons estimated)\n"), "{text}");
    looked_at.idle_percent = 12.4;
    let text = draw(&looked_at, 80, false);
    assert!(text.contains("(reasons estimated; + idle 12 % of all)\n"), "{text}");
}

#[test]
fn futex_waits_for_other_threads_work_are_noted_as_no_waits_for_a_lock() {
    let mut joins = screen();
    joins.futex_for_work_percent = 7.0;
    let text = draw(&joins, 80, false);
    assert!(text.contains("(futex: for other threads' work, not a lock)\n"), "{text}");
    joins.futex_for_work_percent = 5.2;
    let text = draw(&joins, 80, false);
    assert!(text.contains("(5 of 7 % futex: for other threads' work, not a lock)\n"), "{text}");
    joins.futex_for_work_percent = 4.0;
    assert!(!draw(&joins, 80, false).contains("not a lock"));
}

#[test]
fn threads_that_hardly_run_share_one_phrase() {
    let mut redis = screen();
    redis.threads = [("redis-server", 68.0), ("bio_aof", 0.2), ("bio_close", 0.0)]
        .map(|(name, percent)| (name.to_owned(), percent))
        .to_vec();
    let text = draw(&redis, 80, false);
    assert!(text.contains("  CPUs used: redis-server 0.68 · others under 0.01 each\n"), "{text}");
}

#[test]
fn no_line_is_wider_than_the_terminal_and_none_is_cut_but_names() {
    for width in [40, 60, 80, 200] {
        let text = draw(&screen(), width, false);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= width), "{width}: {text}");
        assert!(width < 80 || text.lines().count() <= LINES, "{text}");
        assert!(text.contains("tally why 1") && text.contains("tally report"), "{text}");
    }
}

#[test]
fn javascript_functions_have_their_file_next_to_them() {
    let mut node = screen();
    let name = "JS:*fib /home/user/a-project/prog.js:12:13";
    node.hot.functions = vec![row(name, "[JIT] tid 7", None, (0.5, 0.9))];
    let text = draw(&node, 80, false);
    assert!(text.contains("  fib  prog.js:12 "), "{text}");
}

#[test]
fn the_two_largest_states_have_room_on_a_narrow_screen() {
    let mut perl = screen();
    perl.states = vec![("on CPU", 15.0), ("preempted", 85.0)];
    let text = draw(&perl, 40, false);
    assert!(text.contains("on CPU 15 %") && text.contains("preempted 85 %"), "{text}");
}

#[test]
fn no_state_with_a_large_share_is_left_out() {
    let mut waiting = screen();
    waiting.states =
        vec![("on CPU", 7.0), ("timer", 38.0), ("pipe read", 31.0), ("futex", 20.0), ("disk", 4.0)];
    waiting.are_reasons_estimated = true;
    waiting.idle_percent = 28.0;
    for width in [40, 60, 80] {
        let text = draw(&waiting, width, false);
        for part in ["on CPU 7 %", "timer 38 %", "pipe read 31 %", "futex 20 %", "idle 28 %"] {
            assert!(text.contains(part), "{width} {part}: {text}");
        }
        assert!(width < 80 || text.lines().count() <= LINES, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
    }
}

#[test]
fn small_states_make_room_for_the_note() {
    let mut waiting = screen();
    waiting.states =
        vec![("on CPU", 41.0), ("timer", 36.0), ("pipe read", 21.0), ("futex", 1.4), ("disk", 1.3)];
    waiting.idle_percent = 28.0;
    let text = draw(&waiting, 80, false);
    assert!(text.contains("pipe read 21 %") && !text.contains("disk 1 %"), "{text}");
    assert!(text.lines().any(|line| line.contains("on CPU") && line.ends_with("% of all)")), "{text}");
}

#[test]
fn bars_stay_long_where_small_states_make_room() {
    let mut sqlite = screen();
    sqlite.states =
        vec![("on CPU", 85.0), ("preempted", 9.0), ("runnable", 3.0), ("page fault", 2.0), ("disk", 0.6)];
    let text = draw(&sqlite, 80, false);
    assert!(text.contains("on CPU 85 % ███████████▉  preempted 9 % █▎"), "{text}");
}

#[test]
fn a_remedy_of_up_to_four_lines_is_whole() {
    let mut java = screen();
    let options = "-XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit";
    java.warnings = vec![
        format!("82.3 % of CPU time is in JIT code without names: JAVA_TOOL_OPTIONS='{options}'"),
        "another".to_owned(),
    ];
    let text = draw(&java, 80, false);
    let joined = text.replace("\n  ", " ");
    assert!(joined.contains("-XX:+DumpPerfMapAtExit' (1 more note: tally why)"), "{text}");
    assert!(text.lines().count() <= LINES, "{text}");
}

#[test]
fn notes_have_no_mark_and_come_after_warnings() {
    let mut node = screen();
    node.warnings.clear();
    node.notes = vec!["Node names its code".to_owned()];
    assert!(draw(&node, 80, false).contains("\n  Node names its code\n"));
    node.file.input = " -i a.data".to_owned();
    node.warnings = vec!["few samples".to_owned()];
    assert!(draw(&node, 80, false).contains("\n  ! few samples (1 more note: tally why -i a.data)\n"));
    // Without states there are no waits to list.
    node.states.clear();
    assert!(!draw(&node, 80, false).contains("--wall"));
}

#[test]
fn functions_without_a_symbol_are_one_step_of_the_hot_path() {
    let mut git = screen();
    let trunk = ["main", "function 0x10", "function 0x20", "inflate", "function 0x30"];
    git.hot.trunk = trunk.map(str::to_owned).to_vec();
    let text = draw(&git, 80, false);
    let path = "hot path: main → 2 functions without a symbol → inflate → function 0x30\n";
    assert!(text.contains(path), "{text}");
}

#[test]
fn code_of_a_runtime_is_no_step_of_the_hot_path_unless_it_ends_there() {
    let mut node = screen();
    node.hot.trunk =
        ["[node]", "JS:*handler a.js:1:1", "[node]", "sort", "[node]"].map(str::to_owned).to_vec();
    let text = draw(&node, 80, false);
    assert!(text.contains("hot path: handler → sort → [node]\n"), "{text}");
}

#[test]
fn a_function_that_calls_itself_is_one_step_of_the_hot_path() {
    let mut node = screen();
    node.hot.trunk =
        ["main", "JS:~fib a.js:1:1", "JS:*fib a.js:1:1", "JS:*fib a.js:1:1"].map(str::to_owned).to_vec();
    let text = draw(&node, 80, false);
    assert!(text.contains("hot path: main → fib (recursive)\n"), "{text}");
}

#[test]
fn colours_add_nothing_but_colours() {
    let plain = draw(&screen(), 80, false);
    let coloured = draw(&screen(), 80, true);
    assert!(coloured.contains("\x1b["), "{coloured:?}");
    let pieces = coloured.split("\x1b[");
    let uncoloured = pieces.enumerate().map(|(at, piece)| {
        // The first piece has no colour before it.
        if at == 0 { piece } else { piece.split_once('m').expect("the end of a colour").1 }
    });
    assert_eq!(uncoloured.collect::<String>(), plain);
}

#[test]
fn a_handful_of_samples_has_names_and_no_percentages() {
    let mut few = screen();
    few.hot.samples = 3;
    few.hot.functions.retain(|row| row.dso != "[kernel]");
    let text = draw(&few, 80, false);
    // A caller was not sampled itself.
    assert!(text.contains("3 samples (in __random, Grid<…>::step), too few for a table\n"), "{text}");
    assert!(!text.contains("hot path") && !text.contains("33.4"), "{text}");
}

#[test]
fn names_lose_parameters_and_long_template_arguments() {
    let cases = [
        ("f(int, std::string)", "f"),
        ("std::vector<int>::push_back(int&&)", "std::vector<int>::push_back"),
        ("A<std::allocator<char>, 5>::b() const", "A<…>::b"),
        ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
        ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
        ("operator<<(std::ostream&, X)", "operator<<"),
        (
            "<core::str::Chars as core::iter::Iterator>::next",
            "<core::str::Chars as core::iter::Iterator>::next",
        ),
        ("runtime.mallocgc", "runtime.mallocgc"),
        ("pthread_rwlock_rdlock@GLIBC_2.2.5", "pthread_rwlock_rdlock"),
        ("memcpy@plt", "memcpy@plt"),
    ];
    for (name, expected) in cases {
        assert_eq!(brief(name), expected);
    }
}

#[test]
fn three_findings_have_room_on_a_narrow_terminal() {
    let mut screen = screen();
    screen.headlines.push(Headline {
        claim: "Page faults: 96,051 a second; 79 % of CPU time goes to handing out memory and taking it back"
            .into(),
        detail: "12 % of running time is inside the kernel".into(),
        fix: "reuse buffers and objects instead of allocating new ones, or use huge pages".into(),
        why: "tally why 3".into(),
    });
    screen.threads = vec![("bash ×35".into(), 71.0), ("python3 ×4".into(), 10.0)];
    let text = draw(&screen, 40, false);
    assert!(text.lines().count() <= LINES, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    assert!(text.contains("→ give each thread its own") && text.contains("tally why 3"), "{text}");
    let wide = draw(&screen, 80, false);
    assert!(wide.contains("43 % runnable after wake-up") && wide.lines().count() <= LINES, "{wide}");
}
