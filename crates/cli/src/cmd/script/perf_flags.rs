//! Flags of perf script that tally takes for nothing, or refuses.

use crate::flags::perf_only::{Flag, FlagTable, FlagValue};

/// Of `tally script`.
pub struct ScriptFlags;

const NO_SCRIPTS: &str = "perf's Python and Perl scripts are not run here; `tally script --json` gives every sample as a line of JSON";
const TRACED: &str =
    "--itrace=cr prints branches, and `tally calls` decodes Intel PT: calls, histograms, instructions";
const NO_FILTERS: &str =
    "it loads code made for perf; --comms, --dsos, -S, --time, and `--json | jq` filter as well";
const NO_GUESTS: &str = "guests' symbols are not read";
const DUMPED: &str = "`tally dump` prints every record, one a line";

impl FlagTable for ScriptFlags {
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

/// What perf's first words after `script` mean there.
pub fn refuse_words(words: &[String]) -> anyhow::Result<()> {
    match words.first() {
        Some(word) => anyhow::bail!("script {word}: {NO_SCRIPTS} (a file is named by -i)"),
        None => Ok(()),
    }
}
