//! Differences from perf that are known and explained, each with its class.

use super::Class;

/// Known differences: (question or `*`, part of the file's name, rows, reason).
const EXPLAINED: &[(&str, &str, Class, &str)] = &[
    (
        "*",
        "zero_size_sample",
        Class::PerfGivesUp,
        "perf gives up at a record of size 0; tally shows the records before it",
    ),
    (
        "children",
        "callgraph",
        Class::Unnamed,
        "perf shows callers without a symbol by their address in the process, tally by that in the file",
    ),
    ("children", "with-callchain", Class::Unnamed, "the same"),
    (
        "*",
        "hybrid_topology",
        Class::Cut("perf-exec", "perf-ex"),
        "perf cuts a command's name to the width of the thread's later, shorter name",
    ),
    (
        "self",
        "piped.",
        Class::Kernel,
        "perf names a foreign kernel's addresses by the running kernel's symbols",
    ),
    ("samples", "piped.", Class::Kernel, "the same"),
    ("children", "piped.", Class::Kernel, "the same"),
    (
        "samples",
        "branch",
        Class::Unnamed,
        "perf shows branch ends by their address in the process when the sort key is a plain symbol",
    ),
    (
        "children",
        "branch-4.14",
        Class::LargeCycles,
        "perf prints a cycle count above 32,767 as a negative number",
    ),
    (
        "children",
        "live-throw",
        Class::Callers,
        "perf names a caller by its return address, which is in the next function after a call that never returns",
    ),
    (
        "children",
        "live-forks",
        Class::Callers,
        "perf has no mappings of a child between vfork and exec; tally takes the parent's",
    ),
    (
        "children",
        "fp-sort",
        Class::Unnamed,
        "perf has two rows for a sampled caller without a symbol: by its address in the file and in the process",
    ),
    (
        "self",
        "branch-4.14",
        Class::LargeCycles,
        "perf prints a cycle count above 32,767 as a negative number",
    ),
    (
        "self",
        "callgraph_and_branch",
        Class::Unnamed,
        "perf has separate rows for a file that processes mapped at different addresses",
    ),
    (
        "graph by caller",
        "fp-words",
        Class::All,
        "perf draws no chain under a row of one sample in inlined code (cause unknown)",
    ),
    ("graph by callee", "fp-words", Class::All, "the same"),
    (
        "graph by caller",
        "fp-primes",
        Class::All,
        "perf looks return addresses up unchanged, which happens to name signal trampolines",
    ),
    ("graph by callee", "fp-primes", Class::All, "the same"),
    (
        "graph by caller",
        "fp-exec",
        Class::Cut("_dl_start_user", "_start"),
        "perf names a caller by its return address, which is in the next function here",
    ),
    ("graph by callee", "fp-exec", Class::Cut("_dl_start_user", "_start"), "the same"),
    ("self", "trace-server", Class::FileName, "perf cuts the text of a tracepoint where its column ends"),
];

pub(super) fn explained(question: &str, case: &str) -> Option<Class> {
    let fits =
        |(q, file, ..): &&(&str, &str, Class, &str)| (*q == "*" || *q == question) && case.contains(file);
    EXPLAINED.iter().find(fits).map(|entry| entry.2)
}
