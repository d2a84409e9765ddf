//! Flags of perf report that tally takes for nothing, or refuses.

use crate::flags::perf_only::{Flag, FlagTable, FlagValue};

/// Of `tally report`.
pub struct ReportFlags;

const BRANCHES: &str = "-b --sort symbol_from,symbol_to,cycles shows the branches and what they took";

impl FlagTable for ReportFlags {
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
