//! The table: for each command, perf's flags that are taken for nothing or refused.

use super::{Flag, FlagTable, FlagValue};

const BRANCHES: &str = "-b --sort symbol_from,symbol_to,cycles shows the branches and what they took";
const BY_SYMBOL: &str =
    "functions of the kernel and of modules are probed by their symbols: FUNC, FUNC+OFFSET, FUNC%return";
const IN_REPORT: &str = "tally report shows annotated code in the terminal: a or Enter on a function";
const KERNEL_NAMES: &str = "the kernel's symbols are those of /proc/kallsyms or of ~/.debug, by build-id";
const NO_BPF: &str =
    "counters are the kernel's own; -p PID counts in a process, -a --for-each-cgroup in cgroups";
const NO_METRICS: &str = "the vendors' tables of metrics are not built in; --metric-only prints what follows from the \
                          usual events (GHz, insn per cycle, % of branches and caches)";
const NO_STREAMS: &str = "it compares cycles between branches, which both files would have to hold; \
                          tally diff --paths compares call paths";
/// Why perf's script engines have no counterpart.
pub const NO_SCRIPTS: &str = "perf's Python and Perl scripts are not run here; `tally script --json` gives every sample as a line of JSON";
const TRACED: &str =
    "--itrace=cr prints branches, and `tally calls` decodes Intel PT: calls, histograms, instructions";
const NO_FILTERS: &str =
    "it loads code made for perf; --comms, --dsos, -S, --time, and `--json | jq` filter as well";
const NO_GUESTS: &str = "guests' symbols are not read";
const DUMPED: &str = "`tally dump` prints every record, one a line";

/// Flags of `tally annotate`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnnotateFlags;

impl FlagTable for AnnotateFlags {
    const COMMAND: &'static str = "tally annotate";
    const FLAGS: &'static [Flag] = &[
        // The text has one form only, --color decides about colours, names are shown as in the source.
        Flag::taken("stdio2", FlagValue::No),
        Flag::taken("stdio-color", FlagValue::Needed),
        Flag::taken("demangle", FlagValue::No),
        Flag::taken("demangle-kernel", FlagValue::No),
        // Modules' symbols are the running kernel's; only a vmlinux of the very kernel is taken.
        Flag::taken("modules", FlagValue::No).or('m'),
        Flag::taken("ignore-vmlinux", FlagValue::No),
        Flag::refused("tui", FlagValue::No, IN_REPORT),
        Flag::refused("gtk", FlagValue::No, IN_REPORT),
        Flag::refused(
            "itrace",
            FlagValue::Optional,
            "recorded samples are shown; tally calls decodes Intel PT",
        ),
        Flag::refused("dump-raw-trace", FlagValue::No, DUMPED).or('D'),
    ];
}

/// Flags of `tally diff`.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiffFlags;

impl FlagTable for DiffFlags {
    const COMMAND: &'static str = "tally diff";
    const FLAGS: &'static [Flag] = &[
        Flag::taken("modules", FlagValue::No).or('m'),
        Flag::refused("percentage", FlagValue::Unless("absolute"), "shares are of all samples"),
        Flag::refused("stream", FlagValue::No, NO_STREAMS),
        Flag::refused("cycles-hist", FlagValue::No, NO_STREAMS),
        Flag::refused("vmlinux", FlagValue::Needed, KERNEL_NAMES).or('k'),
        Flag::refused("kallsyms", FlagValue::Needed, KERNEL_NAMES),
        Flag::refused("dump-raw-trace", FlagValue::No, DUMPED).or('D'),
    ];
}

/// Flags of `tally probe`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProbeFlags;

impl FlagTable for ProbeFlags {
    const COMMAND: &'static str = "tally probe";
    const FLAGS: &'static [Flag] = &[
        // All notes are printed anyway, and names are shown as in the source.
        Flag::taken("verbose", FlagValue::No).or('v'),
        Flag::taken("demangle", FlagValue::No),
        Flag::taken("demangle-kernel", FlagValue::No),
        Flag::refused("vmlinux", FlagValue::Needed, BY_SYMBOL).or('k'),
        Flag::refused("module", FlagValue::Needed, BY_SYMBOL).or('m'),
        Flag::refused("source", FlagValue::Needed, "-L reads source at the path in the debug information")
            .or('s'),
        Flag::refused("cache", FlagValue::No, "debug information is read each time"),
        Flag::refused("range", FlagValue::No, "-V shows the variables of one place"),
        Flag::refused("filter", FlagValue::Needed, "give -F and -V a pattern"),
        Flag::refused("symfs", FlagValue::Needed, "give the file itself: -x FILE"),
        Flag::refused(
            "target-ns",
            FlagValue::Needed,
            "give the file as it is seen from here: -x /proc/PID/root/FILE",
        ),
        Flag::refused("bootconfig", FlagValue::No, "-D prints definitions for the kernel"),
    ];
}

/// Flags of `tally record`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordFlags;

impl FlagTable for RecordFlags {
    const COMMAND: &'static str = "tally record";
    const FLAGS: &'static [Flag] = &[
        // How perf spreads its own work; ours has a thread of its own for it.
        Flag::taken("aio", FlagValue::Optional),
        Flag::taken("affinity", FlagValue::Needed),
        Flag::taken("mmap-flush", FlagValue::Needed),
        Flag::taken("num-thread-synthesize", FlagValue::Needed),
        Flag::taken("threads", FlagValue::Optional),
        // Mappings are read whole, carry build-ids anyway, and are at the begin of each file.
        Flag::taken("proc-map-timeout", FlagValue::Needed),
        Flag::taken("buildid-mmap", FlagValue::No),
        Flag::taken("tail-synthesize", FlagValue::No),
        // Times of the first and last sample are written anyway.
        Flag::taken("timestamp-boundary", FlagValue::No),
        // BPF programs are shown with the kernel's symbols, or not at all.
        Flag::taken("no-bpf-event", FlagValue::No),
        Flag::refused(
            "switch-output-event",
            FlagValue::Needed,
            "--switch-output goes by size, time or SIGUSR2",
        ),
        Flag::refused(
            "buildid-all",
            FlagValue::No,
            "build-ids of files with samples are written, and are in every mapping",
        ),
        Flag::refused("running-time", FlagValue::No, "use {a,b}:S, whose samples hold the counts"),
        Flag::refused("kcore", FlagValue::No, "the kernel's symbols are kept in ~/.debug"),
        Flag::refused("synth", FlagValue::Needed, "all records that name samples are written"),
        Flag::refused("vmlinux", FlagValue::Needed, "the kernel's own symbols are used (/proc/kallsyms)"),
    ];
}

/// Flags of `tally report`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportFlags;

impl FlagTable for ReportFlags {
    const COMMAND: &'static str = "tally report";
    const FLAGS: &'static [Flag] = &[
        // How its browser annotates; `tally annotate` has flags of its own.
        Flag::taken("asm-raw", FlagValue::No),
        Flag::taken("source", FlagValue::No),
        Flag::taken("objdump", FlagValue::Needed),
        Flag::taken("disassembler-style", FlagValue::Needed).or('M'),
        Flag::taken("percent-type", FlagValue::Needed),
        Flag::taken("prefix", FlagValue::Needed),
        Flag::taken("prefix-strip", FlagValue::Needed),
        // As it is anyway.
        Flag::taken("modules", FlagValue::No).or('m'),
        Flag::taken("ignore-vmlinux", FlagValue::No),
        Flag::taken("demangle", FlagValue::No),
        Flag::taken("demangle-kernel", FlagValue::No),
        Flag::taken("show-ref-call-graph", FlagValue::No),
        Flag::refused("branch-history", FlagValue::No, BRANCHES),
        Flag::refused("total-cycles", FlagValue::No, BRANCHES),
        Flag::refused("stitch-lbr", FlagValue::No, "stacks of the branch hardware are shown as recorded"),
        Flag::refused("gtk", FlagValue::No, "--html FILE writes a page for any browser"),
        Flag::refused(
            "disable-order",
            FlagValue::No,
            "files are read in the order of time; `tally dump` shows their own",
        ),
        Flag::refused("ns", FlagValue::No, "`tally script --ns` prints times in ns"),
        Flag::refused(
            "full-source-path",
            FlagValue::No,
            "`tally script -F +srcline --full-source-path` prints folders",
        ),
    ];
}

/// Flags of `tally script`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptFlags;

impl FlagTable for ScriptFlags {
    const COMMAND: &'static str = "tally script";
    const FLAGS: &'static [Flag] = &[
        Flag::taken("all-cpus", FlagValue::No).or('a'),
        Flag::taken("debug-mode", FlagValue::No).or('d'),
        Flag::taken("verbose", FlagValue::No).or('v'),
        Flag::taken("demangle", FlagValue::No),
        Flag::taken("demangle-kernel", FlagValue::No),
        Flag::refused("dump-raw-trace", FlagValue::No, DUMPED).or('D'),
        Flag::refused("dump-unsorted-raw-trace", FlagValue::No, DUMPED),
        Flag::refused("show-round-events", FlagValue::No, DUMPED),
        Flag::refused("show-text-poke-events", FlagValue::No, DUMPED),
        Flag::refused("gen-script", FlagValue::Needed, NO_SCRIPTS).or('g'),
        Flag::refused("script", FlagValue::Needed, NO_SCRIPTS).or('s'),
        Flag::refused("list", FlagValue::No, NO_SCRIPTS).or('l'),
        Flag::refused("Latency", FlagValue::No, "the words are in the tracepoint's own fields: -F trace")
            .or('L'),
        Flag::refused("dlfilter", FlagValue::Needed, NO_FILTERS),
        Flag::refused("dlarg", FlagValue::Needed, NO_FILTERS),
        Flag::refused("list-dlfilters", FlagValue::No, NO_FILTERS),
        Flag::refused(
            "show-kernel-path",
            FlagValue::No,
            "the kernel's names come from --kallsyms or --vmlinux if given",
        ),
        Flag::refused("stitch-lbr", FlagValue::No, "stacks of the branch hardware are shown as recorded"),
        Flag::refused(
            "max-blocks",
            FlagValue::Needed,
            "-F brstackinsn is not there; -F brstack shows the branches",
        ),
        Flag::refused("call-trace", FlagValue::Optional, TRACED),
        Flag::refused("call-ret-trace", FlagValue::Optional, TRACED),
        Flag::refused("insn-trace", FlagValue::Optional, TRACED),
        Flag::refused("xed", FlagValue::Optional, TRACED),
        Flag::refused("graph-function", FlagValue::Needed, TRACED),
        Flag::refused("guest-code", FlagValue::No, NO_GUESTS),
        Flag::refused("guestmount", FlagValue::Needed, NO_GUESTS),
        Flag::refused("guestvmlinux", FlagValue::Needed, NO_GUESTS),
        Flag::refused("guestkallsyms", FlagValue::Needed, NO_GUESTS),
        Flag::refused("guestmodules", FlagValue::Needed, NO_GUESTS),
    ];
}

/// Flags of `tally stat`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatFlags;

impl FlagTable for StatFlags {
    const COMMAND: &'static str = "tally stat";
    const FLAGS: &'static [Flag] = &[
        // Equal names of several PMUs are summed up, lines of the user's own events are not.
        Flag::taken("hybrid-merge", FlagValue::No),
        Flag::taken("no-merge", FlagValue::No),
        Flag::refused("metrics", FlagValue::Needed, NO_METRICS).or('M'),
        Flag::refused("metric-no-group", FlagValue::No, NO_METRICS),
        Flag::refused("metric-no-merge", FlagValue::No, NO_METRICS),
        Flag::refused("td-level", FlagValue::Needed, "--topdown has the first level only"),
        Flag::refused(
            "iostat",
            FlagValue::Optional,
            "it takes the IIO counters of Intel's servers; tally io times disks",
        ),
        Flag::refused(
            "smi-cost",
            FlagValue::No,
            "count -e msr/smi/,msr/aperf/ where `tally list pmu` has them",
        ),
        Flag::refused(
            "cputype",
            FlagValue::Needed,
            "name the PMU in the event: cpu_core/cycles/, cpu_atom/cycles/",
        ),
        Flag::refused("percore-show-thread", FlagValue::No, "use --per-core for sums, -A for each CPU"),
        Flag::refused("bpf-prog", FlagValue::Needed, NO_BPF).or('b'),
        Flag::refused("bpf-counters", FlagValue::No, NO_BPF),
        Flag::refused("bpf-attr-map", FlagValue::Needed, NO_BPF),
    ];
}
