//! Flags of perf report that tally takes for nothing, or refuses.

use crate::flags::perf_only::{Flag, Table, Value};

/// Of `tally report`.
pub struct ReportFlags;

const BRANCHES: &str = "-b --sort symbol_from,symbol_to,cycles shows the branches and what they took";

impl Table for ReportFlags {
    const FLAGS: &'static [Flag] = &[
        // How its browser annotates; `tally annotate` has flags of its own.
        Flag::taken("asm-raw", Value::No),
        Flag::taken("source", Value::No),
        Flag::taken("objdump", Value::Needed),
        Flag::taken("disassembler-style", Value::Needed).or('M'),
        Flag::taken("percent-type", Value::Needed),
        Flag::taken("prefix", Value::Needed),
        Flag::taken("prefix-strip", Value::Needed),
        // As it is anyway.
        Flag::taken("modules", Value::No).or('m'),
        Flag::taken("ignore-vmlinux", Value::No),
        Flag::taken("demangle", Value::No),
        Flag::taken("demangle-kernel", Value::No),
        Flag::taken("show-ref-call-graph", Value::No),
        Flag::refused("branch-history", Value::No, BRANCHES),
        Flag::refused("total-cycles", Value::No, BRANCHES),
        Flag::refused("stitch-lbr", Value::No, "stacks of the branch hardware are shown as recorded"),
        Flag::refused("gtk", Value::No, "--html FILE writes a page for any browser"),
        Flag::refused(
            "disable-order",
            Value::No,
            "files are read in the order of time; `tally dump` shows their own",
        ),
        Flag::refused("ns", Value::No, "`tally script --ns` prints times in ns"),
        Flag::refused(
            "full-source-path",
            Value::No,
            "`tally script -F +srcline --full-source-path` prints folders",
        ),
    ];
}
