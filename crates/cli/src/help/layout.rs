//! Order and headings of the options in the help of each command with many options.
//!
//! The first group has no heading: these are the options that most people use, and the only ones that `-h` shows.
//! A test checks that each option of such a command is in exactly one group.

/// A heading, and the long names of its options.
pub type HelpGroup = (&'static str, &'static str);

/// The words of a command (`calls record`) and its groups.
pub struct HelpLayout(pub &'static str, pub &'static [HelpGroup]);

/// Options that every command has.
pub const GLOBAL: HelpGroup = ("Output", "color no-pager");

const TARGET: HelpGroup = ("Target", "tid uid cpu cgroup container unit children no-children no-inherit");
const WAITS: HelpGroup = ("Waiting time", "min-block idle");
const SYMBOLS: HelpGroup =
    ("Files and symbols", "symfs debuginfod vmlinux kallsyms no-demangle runtime-frames force");
const EVENT_DETAILS: HelpGroup = (
    "Events",
    "filter count strict-freq clockid delay off-cpu-period kernel-callchains user-callchains no-runtimes all-kernel all-user \
     switch-events namespaces all-cgroups mmap-pages",
);

/// Commands with more options than fit on a screen.
pub const LAYOUTS: &[HelpLayout] = &[
    HelpLayout("run", RUN),
    HelpLayout("record", RECORD),
    HelpLayout("top", TOP),
    HelpLayout("report", REPORT),
    HelpLayout("annotate", ANNOTATE),
    HelpLayout("flame", FLAME),
    HelpLayout("script", SCRIPT),
    HelpLayout("stat", STAT),
    HelpLayout("diff", DIFF),
    HelpLayout("timeline", &[("", "input thread time rows json"), WAITS]),
    HelpLayout("locks", &[("", "input thread rows json max-lines"), WAITS]),
    HelpLayout(
        "sched timehist",
        &[
            ("", "input summary with-summary wakeups next state comm pid tid time"),
            ("Stacks", "no-call-graph max-stack"),
            ("Target", "cpu"),
        ],
    ),
    HelpLayout("io", &[("", "pid all-cpus input output device trace heat html json rows"), TARGET_OF_IO]),
    HelpLayout(
        "trace",
        &[
            ("", "pid all-cpus filter duration failed summary by with-summary rows output json"),
            ("Target", "tid no-children"),
            ("Details", "strsize mmap-pages"),
        ],
    ),
    HelpLayout("probe", PROBE),
    HelpLayout("calls record", CALLS_RECORD),
    HelpLayout("calls live", CALLS_LIVE),
    HelpLayout("calls", &[("", "input filter slowest"), CALLS_FORM, CALLS_FILTERS]),
    HelpLayout("calls report", &[("", "input sort lines filter min slowest histogram"), CALLS_FILTERS]),
    HelpLayout("calls graph", &[("", "input filter min"), CALLS_FILTERS]),
    HelpLayout("calls replay", &[("", "input filter min kernel"), CALLS_FILTERS]),
    HelpLayout(
        "calls flame",
        &[("", "input output html folded counts reverse icicle width filter min"), CALLS_FILTERS],
    ),
    HelpLayout("calls diff", &[("", "paths input filter min"), CALLS_FILTERS]),
    HelpLayout("calls export", &[("", "to output input event idle binary filter min"), CALLS_FILTERS]),
    HelpLayout("export", &[("", "to output input event idle binary filter min"), CALLS_FILTERS]),
];

const CALLS_FILTERS: HelpGroup =
    ("Filters", "notrace caller-filter trigger disable depth tid pid hide no-libcall dso time");

const CALLS_FORM: HelpGroup = ("Form", "sort min lines histogram graph replay");

const TARGET_OF_IO: HelpGroup = ("Target", "tid uid cpu cgroup container unit children no-children");

const RUN: &[HelpGroup] = &[
    ("", "pid all-cpus output flame html json rows event freq no-off-cpu verbose"),
    TARGET,
    ("Stacks", "call-graph"),
    ("Waiting time", "off-cpu span"),
    EVENT_DETAILS,
];

const RECORD: &[HelpGroup] = &[
    ("", "pid all-cpus cpu event freq count off-cpu span call-graph output overwrite trigger"),
    ("Target", "tid uid cgroup container unit children no-children no-inherit"),
    (
        "Events",
        "filter strict-freq clockid delay off-cpu-period kernel-callchains user-callchains no-runtimes all-kernel all-user \
         switch-events namespaces all-cgroups mmap-pages",
    ),
    (
        "File",
        "compression-level max-size switch-output switch-max-files timestamp-filename no-buildid no-buildid-cache",
    ),
    (
        "Content of samples",
        "data sample-cpu weight phys-data data-page-size code-page-size stat branch-any branch-filter transaction \
         user-regs intr-regs exclude-perf no-samples",
    ),
    ("Processor traces (-e intel_pt/cyc/u)", "snapshot per-thread"),
    ("Control", "control realtime quiet verbose"),
];

const TOP: &[HelpGroup] = &[
    ("", "pid all-cpus sort comms dsos symbols stdio refresh freq event"),
    TARGET,
    ("Stacks", "call-graph"),
    ("Waiting time", "off-cpu"),
    EVENT_DETAILS,
    (
        "View",
        "show-nr-samples show-total-period hide-kernel-symbols hide-user-symbols entries percent-limit iterations",
    ),
];

const REPORT: &[HelpGroup] = &[
    ("", "input stdio html wall blame sort call-graph no-children comms dsos"),
    (
        "Filters",
        "symbols symbol-filter pid tid cpu time parallelism socket-filter hide-unresolved switch-on switch-off \
         show-on-off-events",
    ),
    (
        "Rows and columns",
        "percent-limit fields latency hierarchy percentage show-nr-samples show-total-period showcpuutilization group no-group \
         group-sort-idx column-widths time-quantum raw-trace mem-mode branch-stack no-branch-stack no-skip-empty",
    ),
    ("Call graphs", "inverted children max-stack parent exclude-other ignore-callees inline no-inline"),
    (
        "Waiting time (with --wall, --blame, --critical-path)",
        "critical-path thread min-block idle rows from to span",
    ),
    ("Other content of the file", "threads pretty stats tasks mmaps header header-only show-info"),
    ("Form", "tui json max-lines field-separator quiet verbose"),
    SYMBOLS,
];

const ANNOTATE: &[HelpGroup] = &[
    ("", "input stdio symbol dsos source no-source print-line asm-raw percent-limit all"),
    ("Filters", "cpu skip-missing"),
    (
        "Lines and columns",
        "json max-lines disassembler-style show-nr-samples show-total-period percent-type group no-group full-paths",
    ),
    ("Files and symbols", "vmlinux symfs prefix prefix-strip objdump force"),
    ("Form", "quiet"),
];

const FLAME: &[HelpGroup] = &[
    ("", "input output folded html event wall off-cpu wakers blame calls reverse"),
    ("Waiting time", "on-cpu thread min-block idle samples"),
    ("Drawing", "json max-lines title all-frames icicle palette width min-width no-inline"),
    ("Names", "pid tid kernel jit all addrs counts"),
    ("Two recordings", "diff norm"),
];

const SCRIPT: &[HelpGroup] = &[
    ("", "input fields comms pid tid cpu time symbols max-stack json"),
    ("Filters", "addr-range dsos switch-on switch-off show-on-off-events"),
    ("Form", "ns reltime deltatime hide-call-graph stop-bt inline no-inline full-source-path per-event-dump"),
    ("Intel PT", "itrace"),
    (
        "Other records",
        "header header-only show-info show-task-events show-mmap-events show-switch-events \
         show-namespace-events show-cgroup-events show-lost-events show-bpf-events",
    ),
    SYMBOLS,
];

const STAT: &[HelpGroup] = &[
    ("", "event pid all-cpus repeat detailed interval-print per-thread vs json-output field-separator"),
    ("Target", "tid cpu cgroup for-each-cgroup no-inherit timeout delay"),
    ("Events", "filter group no-scale all-user all-kernel null"),
    ("Sums", "no-aggr per-core per-die per-socket per-node"),
    ("Intervals", "interval-count interval-clear summary no-csv-summary"),
    ("Runs", "sync pre post table control"),
    ("Form", "metric-only big-num no-big-num output append log-fd quiet"),
];

const DIFF: &[HelpGroup] = &[
    ("", "html sort paths norm per calls fail-above percent-limit comms dsos symbols"),
    ("Filters", "pid tid cpu time baseline-only"),
    ("Columns", "json max-lines compute formula order period"),
    ("Form", "field-separator quiet"),
    ("Files and symbols", "symfs"),
];

const PROBE: &[HelpGroup] = &[
    ("", "exec add del list vars line funcs definition dry-run force"),
    ("Other", "externs no-inlines max-probes quiet"),
];

const CALLS_RECORD: &[HelpGroup] = &[
    ("", "output patch pid duration filter min depth auto-args counts max-bytes"),
    CALLS_SELECTION,
    INSTRUMENTED,
    UPROBES,
];

const CALLS_LIVE: &[HelpGroup] = &[
    ("", "interval sort lines patch pid duration filter min depth output"),
    CALLS_SELECTION,
    (
        "Only instrumented programs",
        "auto-args max-bytes argument retval no-libcall libcall nest-libcall signal",
    ),
    ("Only uprobes (any program, running ones)", "counts uprobes callees entries max-rate return-probes"),
];

const CALLS_SELECTION: HelpGroup =
    ("Selection and detail", "notrace caller-filter trigger disable kernel-depth no-switches quiet");
const INSTRUMENTED: HelpGroup =
    ("Only instrumented programs", "argument retval no-libcall libcall nest-libcall signal");
const UPROBES: HelpGroup =
    ("Only uprobes (any program, running ones)", "uprobes callees entries max-rate return-probes");
