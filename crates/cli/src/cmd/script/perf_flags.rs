//! Flags of perf script that tally takes for nothing, or refuses.

use crate::flags::perf_only::{Flag, Table, Value};

/// Of `tally script`.
pub struct ScriptFlags;

const NO_SCRIPTS: &str = "perf's Python and Perl scripts are not run here; `tally script --json` gives every sample as a line of JSON";
const TRACED: &str =
    "--itrace=cr prints branches, and `tally calls` decodes Intel PT: calls, histograms, instructions";
const NO_FILTERS: &str =
    "it loads code made for perf; --comms, --dsos, -S, --time, and `--json | jq` filter as well";
const NO_GUESTS: &str = "guests' symbols are not read";
const DUMPED: &str = "`tally dump` prints every record, one a line";

impl Table for ScriptFlags {
    const FLAGS: &'static [Flag] = &[
        Flag::taken("all-cpus", Value::No).or('a'),
        Flag::taken("debug-mode", Value::No).or('d'),
        Flag::taken("verbose", Value::No).or('v'),
        Flag::taken("demangle", Value::No),
        Flag::taken("demangle-kernel", Value::No),
        Flag::refused("dump-raw-trace", Value::No, DUMPED).or('D'),
        Flag::refused("dump-unsorted-raw-trace", Value::No, DUMPED),
        Flag::refused("show-round-events", Value::No, DUMPED),
        Flag::refused("show-text-poke-events", Value::No, DUMPED),
        Flag::refused("gen-script", Value::Needed, NO_SCRIPTS).or('g'),
        Flag::refused("script", Value::Needed, NO_SCRIPTS).or('s'),
        Flag::refused("list", Value::No, NO_SCRIPTS).or('l'),
        Flag::refused("Latency", Value::No, "the words are in the tracepoint's own fields: -F trace").or('L'),
        Flag::refused("dlfilter", Value::Needed, NO_FILTERS),
        Flag::refused("dlarg", Value::Needed, NO_FILTERS),
        Flag::refused("list-dlfilters", Value::No, NO_FILTERS),
        Flag::refused(
            "show-kernel-path",
            Value::No,
            "the kernel's names come from --kallsyms or --vmlinux if given",
        ),
        Flag::refused("stitch-lbr", Value::No, "stacks of the branch hardware are shown as recorded"),
        Flag::refused(
            "max-blocks",
            Value::Needed,
            "-F brstackinsn is not there; -F brstack shows the branches",
        ),
        Flag::refused("call-trace", Value::Optional, TRACED),
        Flag::refused("call-ret-trace", Value::Optional, TRACED),
        Flag::refused("insn-trace", Value::Optional, TRACED),
        Flag::refused("xed", Value::Optional, TRACED),
        Flag::refused("graph-function", Value::Needed, TRACED),
        Flag::refused("guest-code", Value::No, NO_GUESTS),
        Flag::refused("guestmount", Value::Needed, NO_GUESTS),
        Flag::refused("guestvmlinux", Value::Needed, NO_GUESTS),
        Flag::refused("guestkallsyms", Value::Needed, NO_GUESTS),
        Flag::refused("guestmodules", Value::Needed, NO_GUESTS),
    ];
}

/// What perf's first words after `script` mean there.
pub fn refuse_words(words: &[String]) -> anyhow::Result<()> {
    match words.first() {
        Some(word) => anyhow::bail!("script {word}: {NO_SCRIPTS} (a file is named by -i)"),
        None => Ok(()),
    }
}
